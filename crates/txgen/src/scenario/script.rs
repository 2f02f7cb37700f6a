//! A scenario file, read from the disk or from those inside the binary: which runs it asks for, and in which order.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use harness::toml_errors::place_of_phase;
use pacing::Nanos;
use serde::Deserialize as _;
use servers::{assign, nearest, parse_assignment};
use toml::Table;

use super::grid::{self, Cell};
use super::prove::{self, Change};
use super::{
    CampaignSection, NodeKind, NodeSection, Parameter, Scale, Scenario, SentinelSection,
    with_suggestion,
};
use crate::plan::{Request, RequestedLoad};
use crate::settings::Settings;

/// What the command line sets for a scenario file.
#[derive(Debug, Clone, Default)]
pub struct ScenarioOptions {
    /// The file's text, where it is not to be read.
    pub text: Option<String>,
    /// `KEY=VALUE` put into the file before it is read.
    pub set: Vec<String>,
    /// How much smaller it is played.
    pub scale: Option<Scale>,
    /// Another kind of node than the file's.
    pub node: Option<NodeKind>,
    /// Only the runs whose label contains this.
    pub only: Option<String>,
    /// Whether each number of the node is changed alone, where the file does not name one.
    pub prove: bool,
}

/// A scenario file, read: the runs it asks for, in their order.
#[derive(Debug, Clone)]
pub struct Script {
    /// What people call it.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// How much smaller it is played.
    pub scale: Scale,
    /// How often and in which order, when it is a campaign; `None` for a single run.
    pub campaign: Option<CampaignSection>,
    /// The runs.
    pub runs: Vec<ScriptRun>,
}

/// One run of a scenario file.
#[derive(Debug, Clone)]
pub struct ScriptRun {
    /// The case it belongs to.
    pub case: Option<String>,
    /// The values of the matrix.
    pub parameters: Vec<Parameter>,
    /// What is changed alone, where that is shown.
    pub change: Option<Change>,
    /// Which repetition of the same it is, from 1.
    pub repeat: u32,
    /// How often the same is played.
    pub repeats: u32,
    /// The scenario of this run alone.
    pub text: String,
    /// What is offered.
    pub request: Request,
    /// The file's settings.
    pub settings: Settings,
    /// Whether a case, the matrix or the file names the seed of this very run.
    pub seeded: bool,
    /// The node that is started for it.
    pub node: NodeSection,
    /// The sentinel in front of it, if any.
    pub sentinel: Option<SentinelSection>,
}

impl ScriptRun {
    /// Case and parameters in one line; empty when the file has one run only.
    pub fn cell(&self) -> String {
        grid::label(self.case.as_ref(), &self.parameters, self.change.as_ref())
    }

    /// Whether it has to differ from other runs in more than its name.
    pub(crate) fn is_varied(&self) -> bool {
        let changed = self.change.as_ref().map(|change| change.factor);
        !self.parameters.is_empty() || changed.is_some_and(|factor| factor != 1.0)
    }

    /// Case and parameters, whatever is changed.
    pub fn unchanged(&self) -> String {
        grid::label(self.case.as_ref(), &self.parameters, None)
    }

    /// The same with the number of the repetition, if there are several.
    pub fn label(&self) -> String {
        let mut label = self.cell();
        if self.repeats > 1 {
            let blank = if label.is_empty() { "" } else { " " };
            label.push_str(&format!("{blank}#{}", self.repeat));
        }
        label
    }

    /// How long the load is offered, where the file sets it.
    pub fn duration(&self) -> Option<Nanos> {
        match &self.request.load {
            RequestedLoad::Open { schedule, .. } => schedule.duration(),
            RequestedLoad::Flood { .. } => None,
        }
    }
}

impl Script {
    /// Reads and checks a scenario file; every run of it is legal afterwards.
    ///
    /// # Errors
    /// When the file cannot be read, has unknown or illegal keys, or describes nothing to run.
    pub fn load(path: &Path, options: &ScenarioOptions) -> anyhow::Result<Self> {
        let text = match &options.text {
            Some(text) => text.clone(),
            None => read(path)?,
        };
        Self::of(path, text, options).with_context(|| path.display().to_string())
    }

    pub(super) fn of(path: &Path, text: String, options: &ScenarioOptions) -> anyhow::Result<Self> {
        let (mut scenario, table) = parse(&text, options)?;
        let mut campaign = scenario.campaign.take();
        if options.prove && scenario.prove.is_empty() {
            let kind = options.node.unwrap_or(scenario.node.kind());
            scenario.prove = prove::all_of(&table, kind)?;
            let campaign = campaign.get_or_insert_default();
            campaign.repeats = campaign.repeats.max(prove::ROUNDS);
        }
        let scale = options.scale.unwrap_or(Scale::ONE);
        let is_campaign = campaign.is_some()
            || !scenario.matrix.is_empty()
            || !scenario.cases.is_empty()
            || !scenario.prove.is_empty();
        let mut campaign = campaign.unwrap_or_default();
        campaign.pause = scale.time(campaign.pause);
        let cells = grid::cells(&scenario.cases, &scenario.matrix, campaign.repeats)
            .and_then(|cells| prove::changed(cells, &scenario.prove, &table))
            .and_then(|cells| chosen(cells, options.only.as_deref()))?;
        let single = cells.len() == 1;
        let made = cells.iter().map(|cell| {
            let run = run_of(path, &table, cell, scale, options);
            if single {
                run
            } else {
                run.with_context(|| format!("run {:?}", cell.label()))
            }
        });
        let made: Vec<ScriptRun> = made.collect::<anyhow::Result<_>>()?;
        let repeats: Vec<u32> = cells.iter().map(|cell| cell.repeats.get()).collect();
        let runs = campaign
            .order
            .of(&repeats)
            .into_iter()
            .map(|(cell, repeat)| ScriptRun {
                repeat,
                ..made[cell].clone()
            })
            .collect();
        Ok(Self {
            name: scenario.name.unwrap_or_else(|| name_of(path)),
            path: path.into(),
            text,
            scale,
            campaign: is_campaign.then_some(campaign),
            runs,
        })
    }
}

/// What people call a scenario without a name.
fn name_of(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The file as it is meant, with `--set`, beside its table.
fn parse(text: &str, options: &ScenarioOptions) -> anyhow::Result<(Scenario, Table)> {
    // First as a whole: only then do messages name the line.
    let placed = || {
        // A mistyped key is reported before a missing one: it may be the same.
        let found = [
            place_of_phase(text),
            super::fault_in_settings(text),
            super::fault_in_key(text),
        ];
        let is_typo =
            |it: &&Option<String>| it.as_ref().is_some_and(|it| it.contains("unknown field"));
        found
            .iter()
            .find(is_typo)
            .or(found.iter().find(|it| it.is_some()))
            .cloned()
            .flatten()
    };
    let written: Scenario = toml::from_str(text).map_err(|error| match placed() {
        _ if is_of_sentinel(text) => anyhow!(
            "this is a configuration of sentinel, not a scenario of txgen; `sentinel --config FILE` starts the \
             proxy with it, and a scenario has [[phases]] or [flood]"
        ),
        Some(message) => anyhow!(with_suggestion(&message)),
        None => malformed(&error),
    })?;
    let mut table: Table = toml::from_str(text).map_err(|error| malformed(&error))?;
    for setting in &options.set {
        let (key, value) = parse_assignment(setting)?;
        assign(&mut table, &key, value)?;
    }
    let scenario = if options.set.is_empty() {
        written
    } else {
        typed(&table)?
    };
    Ok((scenario, table))
}

/// Whether a file that is no scenario has the tables that every configuration of sentinel has.
fn is_of_sentinel(text: &str) -> bool {
    let table: Table = toml::from_str(text).unwrap_or_default();
    ["listen", "upstream"]
        .iter()
        .all(|key| table.contains_key(*key))
}

/// The runs that `--only` leaves.
fn chosen(cells: Vec<Cell>, only: Option<&str>) -> anyhow::Result<Vec<Cell>> {
    let Some(only) = only else {
        return Ok(cells);
    };
    let labels: Vec<String> = cells.iter().map(Cell::label).collect();
    let left: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| cell.label().contains(only))
        .collect();
    if left.is_empty() {
        let hint = match nearest(only, labels.iter().map(String::as_str)) {
            Some(label) => format!("did you mean {label:?}?"),
            None => "--dry-run lists them".into(),
        };
        bail!("has no run with {only:?} in its label; {hint}");
    }
    Ok(left)
}

/// One run: the file with the values of its cell.
fn run_of(
    path: &Path,
    table: &Table,
    cell: &Cell,
    scale: Scale,
    options: &ScenarioOptions,
) -> anyhow::Result<ScriptRun> {
    let mut table = table.clone();
    // What makes the runs is no part of one.
    for section in ["matrix", "cases", "prove", "campaign"] {
        table.remove(section);
    }
    for (key, value) in &cell.assignments {
        assign(&mut table, key, value.clone())?;
    }
    let scenario = typed(&table)?;
    let text = toml::to_string(&table).context("the scenario of one run")?;
    let load = scenario.requested_load(path, scale)?;
    let mut settings = scenario.settings;
    settings.warmup = settings.warmup.map(|warmup| scale.time(warmup));
    let mut node = scenario.node;
    node.choose(options.node, &settings)?;
    node.take_builtin(scenario.builtin)?;
    Ok(ScriptRun {
        case: cell.case.clone(),
        parameters: cell.parameters.clone(),
        change: cell.change.clone(),
        repeat: 1,
        repeats: cell.repeats.get(),
        text,
        request: Request {
            command: scenario.name.unwrap_or_else(|| name_of(path)),
            load,
            builtin: node.builtin.clone().unwrap_or_default(),
        },
        seeded: cell
            .assignments
            .iter()
            .any(|(key, _)| key == "settings.seed"),
        settings,
        node,
        sentinel: scenario.sentinel.filter(|sentinel| sentinel.enabled),
    })
}

fn typed(table: &Table) -> anyhow::Result<Scenario> {
    Scenario::deserialize(table.clone()).map_err(|error| malformed(&error))
}

fn malformed(error: &toml::de::Error) -> anyhow::Error {
    anyhow!(with_suggestion(&error.to_string()))
}

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
/// When there is neither; the error has a similar name.
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
