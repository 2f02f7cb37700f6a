//! The configuration as a whole: layers, implications, conflicts, and what is printed.

mod documents;
mod meaning;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use pacing::Rate;
use proptest::prelude::*;

use super::*;

fn file(text: &str) -> Result<Resolved, ConfigErrors> {
    parse(Path::new("sentinel.toml"), text)
}

fn parse(path: &Path, text: &str) -> Result<Resolved, ConfigErrors> {
    resolve([layers::file(path, text)])
}

fn problem(text: &str) -> String {
    file(text).unwrap_err().to_string()
}

fn flag(flag: &str, key: &str, value: &str) -> FlagValue {
    FlagValue {
        flag: flag.into(),
        key: key.into(),
        value: value.into(),
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// What a file, variables and flags come to.
struct Layers {
    file: &'static str,
    environment: &'static [(&'static str, &'static str)],
    flags: Vec<FlagValue>,
}

impl Layers {
    const NONE: Self = Self {
        file: "",
        environment: &[],
        flags: Vec::new(),
    };

    fn load(self) -> Result<Resolved, ConfigErrors> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sentinel.toml");
        std::fs::write(&path, self.file).unwrap();
        load(&Sources {
            file: Some(path),
            environment: variables(self.environment),
            flags: self.flags,
        })
    }
}

fn rate(per_second: u64) -> Rate {
    Rate::per_second(per_second).unwrap()
}

#[test]
fn nothing_set_is_the_default() {
    let resolved = load(&Sources::default()).unwrap();
    assert_eq!(resolved.config, Config::default());
    assert!(resolved.notices.is_empty());
    assert!(
        resolved
            .origins
            .iter()
            .all(|origin| *origin == Origin::Default)
    );
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let resolved = Layers {
        file: "[fair]\nmax_req = \"100/s\"\nqueue_per_client = 10\nqueue_timeout = \"1s\"\n",
        environment: &[
            ("SENTINEL_FAIR__MAX_REQ", "200"),
            ("SENTINEL_FAIR__QUEUE_PER_CLIENT", "20"),
        ],
        flags: vec![flag("max-req", "fair.max_req", "300/s")],
    }
    .load()
    .unwrap();
    let fair = &resolved.config.fair;
    assert_eq!(fair.max_req, rate(300));
    assert_eq!(fair.queue_per_client, 20);
    assert_eq!(fair.queue_timeout, Duration::from_secs(1));
    let origin = |key| resolved.origin(key).to_string();
    assert_eq!(origin("fair.max_req"), "--max-req");
    assert_eq!(
        origin("fair.queue_per_client"),
        "SENTINEL_FAIR__QUEUE_PER_CLIENT"
    );
    assert!(origin("fair.queue_timeout").ends_with("sentinel.toml:4"));
    assert_eq!(origin("fair.order"), "default");
}

#[test]
fn values_of_a_file_may_be_bare_numbers_or_texts_with_units() {
    let resolved = file(
        "fair.max_req = 2_500\nbuffer.bytes = 0x4000000\n\
         [fair.weights]\n\"10.0.0.0/8\" = 4\n[trust]\nproxies = \"10.0.0.0/8,::1\"\n\
         [pause]\nfor = \"1500ms\"\n[admin]\naddr = \"off\"\n",
    )
    .unwrap();
    let config = resolved.config;
    assert_eq!(config.fair.max_req, rate(2_500));
    assert_eq!(config.buffer.bytes, 64 << 20);
    assert_eq!(
        config.fair.weights,
        [("10.0.0.0/8".parse().unwrap(), "4".parse().unwrap())]
    );
    assert_eq!(config.trust.proxies.len(), 2);
    assert_eq!(config.pause.length, Duration::from_millis(1_500));
    assert_eq!(config.admin.addr, None);
}

#[test]
fn an_unknown_key_is_named_with_its_file_its_line_and_the_near_ones() {
    assert_eq!(
        problem("[fair]\n\nmax_rq = 5\n"),
        "sentinel.toml:3: unknown key fair.max_rq; did you mean fair.max_req?"
    );
    assert!(problem("max_req = 5\n").starts_with("sentinel.toml:1: unknown key max_req; did you"));
    assert!(problem("[fare]\nmax_req = 5\n").contains("sentinel.toml:1: unknown key fare;"));
    assert!(problem("[umbrella]\nmode = 1\n").contains("the sections are listen,"));
    assert!(problem("fair = 5\n").contains("write [fair] and its keys below"));
    assert!(problem("[fair.max_req]\nx = 5\n").contains("fair.max_req: `x=5`"));
    assert!(problem("[trust]\nallow = [[\"::1\"]]\n").contains("nested too deeply"));
    assert!(problem("[fair]\nmax_req = 2026-11-20\n").contains("a date is never wanted"));
}

#[test]
fn what_is_not_toml_is_located() {
    let text = problem("[fair]\nmax_req = \n");
    assert!(text.starts_with("sentinel.toml:2: "), "{text}");
    let text = problem("[fair]\nmax_req = 1\nmax_req = 2\n");
    assert!(text.starts_with("sentinel.toml:3: "), "{text}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = problem("[fair]\nmax_req = \"fast\"\nqueue = 3\n[pause]\naction = \"sometimes\"\n");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(text.contains("sentinel.toml:2: fair.max_req:"), "{text}");
    assert!(text.contains("pause, reconnect"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let sources = Sources {
        file: Some("no/such/file.toml".into()),
        ..Sources::default()
    };
    let text = load(&sources).unwrap_err().to_string();
    assert!(text.starts_with("no/such/file.toml: "), "{text}");
}

#[test]
fn a_file_without_an_end_is_refused() {
    let sources = Sources {
        file: Some("/dev/zero".into()),
        ..Sources::default()
    };
    let text = load(&sources).unwrap_err().to_string();
    assert!(text.contains("larger than 1 MiB"), "{text}");
}

#[test]
fn slips_in_variables_are_errors_and_foreign_ones_are_not() {
    let refused = |name: &'static str| {
        let sources = Sources {
            environment: variables(&[(name, "1")]),
            ..Sources::default()
        };
        load(&sources).unwrap_err().to_string()
    };
    assert_eq!(
        refused("SENTINEL_FAIR__MAX_REK"),
        "SENTINEL_FAIR__MAX_REK: unknown key fair.max_rek; did you mean fair.max_req?"
    );
    assert!(refused("SENTINEL_FAIR_MAX_REQ").contains("did you mean SENTINEL_FAIR__MAX_REQ?"));
    assert!(refused("SENTINEL_LOG").contains("did you mean SENTINEL_LOG__LEVEL?"));
    assert!(refused("SENTINEL_FAIR__QUEUE_TIMEOUT").contains("such as 30s"));
    let foreign = variables(&[
        ("SENTINEL_SERVICE_HOST", "10.0.0.1"),
        ("SENTINEL_PORT_26680_TCP_ADDR", "10.0.0.1"),
        ("SENTINEL_ADMIN_PORT", "tcp://10.0.0.1:26681"),
        ("SENTINEL_CONFIG", "x"),
        ("PATH", "/bin"),
    ]);
    let sources = Sources {
        environment: foreign,
        ..Sources::default()
    };
    assert_eq!(load(&sources).unwrap().config, Config::default());
}

#[test]
fn a_key_set_twice_on_the_command_line_is_a_conflict() {
    let text = Layers {
        flags: vec![
            flag("max-req", "fair.max_req", "1"),
            flag("set", "fair.max_req", "2"),
        ],
        ..Layers::NONE
    }
    .load()
    .unwrap_err()
    .to_string();
    assert_eq!(
        text,
        "fair.max_req is set twice, by --max-req and by --set; keep one"
    );
}
