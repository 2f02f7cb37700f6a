//! The scenario files that are inside the binary, by their names.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use servers::nearest;

macro_rules! presets {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../../../../config/", $name, ".toml")))),+]
    };
}

/// Name and text. A scenario that reads another file is none.
const PRESETS: &[(&str, &str)] = presets!(
    "bep10-bulk" "bep19-mempool" "bep19-pause" "bep19-square-wave" "bep19-stress" "bep23-experiment-1" "bep23-experiment-2"
    "bep23-experiment-3" "cometbft-qa" "constant" "cosmos-gas" "cosmos-overload" "cosmos-ramp" "cosmos-recheck"
    "cosmos-sentinel" "cosmos-stages" "flood" "gigablock-btcd" "gigablock-ceiling" "gigablock-cometbft" "gigablock-ramp" "gigablock-talk" "phases" "prove-btcd"
    "prove-builtin" "prove-cometbft" "prove-simd" "ramp" "ramp-30s" "ramp-until-saturated" "sentinel-ab" "sinking-node" "square"
);

/// The text of a scenario: of a file, or, where there is no such file, of the one of this name inside the binary.
///
/// # Errors
/// When there is neither; a near name is said.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let error = match fs::read_to_string(path) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let name = path.to_string_lossy();
    let known = || PRESETS.iter().map(|(name, _)| *name);
    if let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    let short = path.file_stem().unwrap_or_default().to_string_lossy();
    let near = nearest(&short, known()).map_or_else(String::new, |near| {
        format!("; did you mean `txgen run {near}`, a scenario inside the program?")
    });
    let failed = format!("cannot read {name} (`txgen run --list` shows what is inside){near}");
    Err(anyhow!(error)).context(failed)
}

/// An entry for each: its name, and the first sentence of its text.
pub(crate) fn list() -> String {
    let line = |(name, text): &(&str, &str)| {
        let lines = text.lines().map_while(|line| line.strip_prefix("# "));
        let about = lines.collect::<Vec<_>>().join(" ");
        let about = about.split(". ").next().unwrap_or_default();
        format!("{name:<22} {about}\n")
    };
    PRESETS.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{ScenarioOptions, Script};

    #[test]
    fn each_preset_can_be_played_from_anywhere_and_begins_with_what_it_is() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config");
        for (name, text) in PRESETS {
            assert!(text.starts_with("# "), "{name}");
            let script = Script::load(Path::new(name), &ScenarioOptions::default());
            assert!(!script.unwrap().runs.is_empty(), "{name}");
        }
        // Every scenario of the folder is inside, but one that reads a file, and sentinel's configuration.
        let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|it| it == "toml"));
        let outside = files.filter(|path| {
            let stem = path.file_stem().unwrap().to_string_lossy();
            !PRESETS.iter().any(|(name, _)| *name == stem)
        });
        let mut outside: Vec<_> = outside
            .map(|it| it.file_name().unwrap().to_owned())
            .collect();
        outside.sort();
        assert_eq!(outside, ["sentinel.toml", "trace.toml"]);
        assert_eq!(list().lines().count(), PRESETS.len());
    }

    #[test]
    fn a_file_comes_before_a_preset_and_a_name_that_is_neither_has_a_near_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("constant");
        fs::write(&file, "mine").unwrap();
        assert_eq!(read(&file).unwrap(), "mine");
        let error = |path: &str| format!("{:#}", read(Path::new(path)).unwrap_err());
        assert!(
            error("constnat").contains("`txgen run constant`"),
            "{}",
            error("constnat")
        );
        assert!(error("config/constant.toml").contains("`txgen run constant`"));
        let far = error("my-own-scenario.toml");
        assert!(
            !far.contains("did you mean") && far.contains("--list"),
            "{far}"
        );
    }
}
