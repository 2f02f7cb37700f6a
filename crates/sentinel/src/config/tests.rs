//! The configuration as a whole: layers, implications, conflicts, and what is printed.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use pacing::Rate;
use proptest::prelude::*;

use super::*;

fn file(text: &str) -> Result<Resolved, ConfigErrors> {
    parse(Path::new("sentinel.toml"), text)
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
    let origin = |key| resolved.origin(key).unwrap().to_string();
    assert_eq!(origin("fair.max_req"), "--max-req");
    assert_eq!(
        origin("fair.queue_per_client"),
        "SENTINEL_FAIR__QUEUE_PER_CLIENT"
    );
    assert!(origin("fair.queue_timeout").ends_with("sentinel.toml:4"));
    assert_eq!(origin("fair.order"), "default");
    assert!(resolved.origin("fair.nonsense").is_none());
}

#[test]
fn values_of_a_file_may_be_bare_numbers_or_texts_with_units() {
    let resolved = file(
        "fair.max_req = 2_500\nbuffer.bytes = 0x4000000\npace.mempool_fill = 0.5\n\
         [fair.weights]\n\"10.0.0.0/8\" = 4\n[trust]\nproxies = \"10.0.0.0/8,::1\"\n\
         [pause]\nfor = \"1500ms\"\n[admin]\naddr = \"off\"\n",
    )
    .unwrap();
    let config = resolved.config;
    assert_eq!(config.fair.max_req, rate(2_500));
    assert_eq!(config.buffer.bytes, 64 << 20);
    assert_eq!(config.pace.mempool_fill, 0.5);
    assert_eq!(config.fair.weights, [("10.0.0.0/8".parse().unwrap(), 4)]);
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
    assert!(problem("[shadow]\nmode = 1\n").contains("the sections are listen,"));
    assert!(problem("fair = 5\n").contains("write [fair] and its keys below"));
    assert!(problem("[fair.max_req]\nx = 5\n").contains("fair.max_req: one value is wanted"));
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
    let text = problem("[fair]\nmax_req = \"fast\"\nqueue = 3\n[pause]\nmode = \"sometimes\"\n");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(text.contains("sentinel.toml:2: fair.max_req:"), "{text}");
    assert!(text.contains("off, interval, threshold, both"), "{text}");
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

fn mode(file: &'static str, flags: Vec<FlagValue>) -> PauseMode {
    let layers = Layers {
        file,
        flags,
        ..Layers::NONE
    };
    layers.load().unwrap().config.pause.mode
}

#[test]
fn a_trigger_alone_means_its_mode() {
    let interval = || flag("pause-interval", "pause.interval", "100s");
    let floor = || flag("min-tx-rate", "pause.min_tx_rate", "500");
    assert_eq!(mode("", vec![]), PauseMode::Off);
    assert_eq!(mode("", vec![interval()]), PauseMode::Interval);
    assert_eq!(mode("", vec![floor()]), PauseMode::Threshold);
    assert_eq!(mode("", vec![interval(), floor()]), PauseMode::Both);
    assert_eq!(
        mode("[pause]\nmin_fraction = 0.5\n", vec![]),
        PauseMode::Threshold
    );
    assert_eq!(
        mode("[pause]\nmin_fraction = 0.5\n", vec![interval()]),
        PauseMode::Both
    );
}

#[test]
fn a_mode_stands_in_its_own_layer_and_is_added_to_from_above() {
    let interval = || flag("pause-interval", "pause.interval", "100s");
    let off = || flag("pause-mode", "pause.mode", "off");
    assert_eq!(mode("", vec![interval(), off()]), PauseMode::Off);
    assert_eq!(
        mode("[pause]\nmode = \"off\"\ninterval = \"5s\"\n", vec![]),
        PauseMode::Off
    );
    assert_eq!(
        mode("[pause]\nmode = \"off\"\n", vec![interval()]),
        PauseMode::Interval
    );
    assert_eq!(
        mode("[pause]\nmode = \"threshold\"\n", vec![interval()]),
        PauseMode::Both
    );
    assert_eq!(
        mode("[pause]\ninterval = \"5s\"\n", vec![off()]),
        PauseMode::Off
    );
    let resolved = file("[pause]\ninterval = \"100s\"\n").unwrap();
    assert_eq!(
        resolved.origin("pause.mode").unwrap().to_string(),
        "follows pause.interval"
    );
}

#[test]
fn defaults_give_way_to_what_was_set() {
    let low = file("[fair]\nmax_req = 10\n").unwrap();
    assert_eq!(low.config.pace.min_req, rate(10));
    assert_eq!(
        low.origin("pace.min_req").unwrap().to_string(),
        "follows fair.max_req"
    );
    let few = file("[limits]\nconnections = 5\n[reads]\nconcurrency = 3\n").unwrap();
    assert_eq!(few.config.limits.connections_per_client, 5);
    assert_eq!(few.config.reads.concurrency_per_client, 3);
    let often = file("[pause]\ninterval = \"5s\"\n").unwrap();
    assert_eq!(often.config.pause.min_run, Duration::from_millis(2_500));
    let long = file("[pause]\nfor = \"60s\"\n").unwrap();
    assert_eq!(long.config.pause.max_pause, Duration::from_secs(62));
    let lively = file("[ws]\nread_timeout = \"10s\"\n").unwrap();
    assert_eq!(lively.config.ws.ping_interval, Duration::from_secs(9));
    let calm = file("[ws]\nping_interval = \"45s\"\n").unwrap();
    assert_eq!(calm.config.ws.read_timeout, Duration::from_secs(50));
    let small = file("[buffer]\nbytes = \"128KiB\"\n").unwrap();
    assert_eq!(small.config.limits.body_bytes, 128 << 10);
}

#[test]
fn conflicts_say_what_where_and_what_to_do() {
    assert_eq!(
        problem("[fair]\nmax_req = 10\n[pace]\nmin_req = 50\n"),
        "pace.min_req = 50/s (sentinel.toml:4) is above fair.max_req = 10/s (sentinel.toml:2); \
         lower pace.min_req or raise fair.max_req"
    );
    for (text, phrase) in [
        (
            "[pace]\nburst = \"50ms\"",
            "50ms is out of range; use 1ms to 20ms",
        ),
        ("[pace]\nburst = \"0s\"", "pace.burst: 0s is out of range"),
        (
            "[pace]\ninflight = 5\ninflight_per_connection = 6",
            "raise pace.inflight",
        ),
        (
            "[fair]\nmax_req = 0",
            "fair.max_req: 0/s would let nothing through",
        ),
        ("[fair]\nqueue_per_client = 0", "use 1 to 1048576"),
        (
            "[fair]\nweights = { \"::1\" = 0 }",
            "::1 has weight 0; use 1 to 1000",
        ),
        (
            "[fair]\nweights = { \"::1\" = 1, \"::1/128\" = 2 }",
            "::1 is given twice",
        ),
        ("[upstream]\nurls = []", "name at least one node"),
        (
            "[upstream]\nurls = [\"http://127.0.0.1:1\", \"ws://127.0.0.1:1/websocket\"]",
            "is named twice",
        ),
        (
            "[upstream]\nurls = [\"http://localhost:26680\"]",
            "is this proxy itself",
        ),
        (
            "[admin]\naddr = \"127.0.0.1:26680\"",
            "clashes with listen.addr = 127.0.0.1:26680 (default)",
        ),
        (
            "[listen]\naddr = \"0.0.0.0:26681\"",
            "or admin.addr = \"off\"",
        ),
        ("[trust]\nipv6_prefix = 129", "0 to 128 bits"),
        ("[trust]\nallow = [\"10.0.0.1/8\"]", "10.0.0.0/8"),
        (
            "[trust]\nallow = [\"::1\"]\ndeny = [\"::1\"]",
            "keep one of the two",
        ),
        (
            "[reads]\nrefuse_methods = [\"un*safe\"]",
            "a * may stand at the end only",
        ),
        (
            "[limits]\nheader_bytes = 100",
            "100 is out of range; use 1KiB to 1MiB",
        ),
        (
            "[limits]\nbody_bytes = \"2MiB\"\n[buffer]\nbytes = \"1MiB\"",
            "raise buffer.bytes",
        ),
        (
            "[limits]\nidle_timeout = \"0s\"",
            "limits.idle_timeout: 0s is out of range",
        ),
        (
            "[pause]\ninterval = \"5s\"\nmin_run = \"6s\"",
            "raise pause.interval",
        ),
        (
            "[pause]\nfor = \"60s\"\nmax_pause = \"30s\"",
            "lower pause.for or raise pause.max_pause",
        ),
        (
            "[pause]\nmin_tx_rate = 3000",
            "lower pause.min_tx_rate or raise fair.max_req",
        ),
        ("[pause]\njitter = 0.9", "use 0 to 0.5"),
        (
            "[ws]\nping_interval = \"30s\"\nread_timeout = \"20s\"",
            "raise ws.read_timeout",
        ),
        ("[listen]\nthreads = 0", "use 1 to 64"),
    ] {
        let told = problem(text);
        assert!(told.contains(phrase), "{text}\n→ {told}");
    }
}

#[test]
fn what_is_probably_not_meant_is_noticed() {
    let noticed = |text: &str| file(text).unwrap().notices.join("\n");
    assert!(noticed("[admin]\naddr = \"0.0.0.0:9\"").contains("no authentication"));
    assert!(noticed("[trust]\nproxies = [\"0.0.0.0/0\"]").contains("choose its own address"));
    assert!(noticed("[pace]\nmode = \"fixed\"\nmin_req = 5").contains("no effect"));
    assert!(noticed("[pause]\ninterval = \"100s\"\nfor = \"40s\"").contains("errors in a break"));
    let unused = Layers {
        flags: vec![flag("pause-action", "pause.action", "reconnect")],
        ..Layers::NONE
    };
    assert!(unused.load().unwrap().notices[0].contains("--pause-interval"));
}

#[test]
fn what_is_printed_names_origins_and_parses_back() {
    let resolved = file(
        "[listen]\naddr = \"[::1]:7\"\n[pause]\ninterval = \"5s\"\nmin_tx_rate = 20\n\
         [fair]\nweights = { \"10.0.0.0/8\" = 4, \"2001:db8::/32\" = 2 }\n\
         [ws]\norigins = [\"https://a.example\"]\n[admin]\naddr = \"off\"\n",
    )
    .unwrap();
    let printed = resolved.to_string();
    let again = file(&printed).unwrap();
    assert_eq!(again.config, resolved.config, "{printed}");
    for line in [
        "addr = \"[::1]:7\"                         # sentinel.toml:2",
        "mode = \"both\"                            # follows pause.interval",
        "min_run = \"2.5s\"                         # follows pause.interval",
        "max_req = \"2000/s\"                       # default",
        "addr = \"off\"                             # sentinel.toml:11",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    for section in keys::sections() {
        assert!(printed.contains(&format!("\n[{section}]\n")));
    }
}

#[test]
fn the_sample_is_the_default_with_and_without_its_comments() {
    let sample = include_str!("../../../../config/sentinel.toml");
    let path = Path::new("config/sentinel.toml");
    let as_it_stands = parse(path, sample).unwrap();
    assert_eq!(as_it_stands.config, Config::default());
    assert_eq!(as_it_stands.notices, [""; 0]);
    // A key stands behind a lone `#`, prose behind `# `.
    let uncommented: String = sample
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with([' ', '#']) => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let everything = parse(path, &uncommented).unwrap();
    assert_eq!(everything.config, Config::default());
    for (key, origin) in KEYS.iter().zip(&everything.origins) {
        assert!(origin.is_given(), "{} is missing in the sample", key.name);
    }
}

#[test]
fn the_manual_has_every_key_with_its_default_and_every_metric() {
    let manual = include_str!("../../../../docs/sentinel.md");
    for key in KEYS {
        let value = key.value(&Config::default());
        let row = format!("| `{}` | `{}` |", key.name, value.trim_matches('"'));
        assert!(manual.contains(&row), "no row {row}");
        if let Some(flag) = key.flag {
            assert!(
                manual.contains(&format!("`--{}`", flag.name)),
                "--{}",
                flag.name
            );
        }
    }
    let exposition = crate::metrics::Metrics::new().render(&crate::metrics::Gauges::default());
    let families = exposition
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for family in families {
        assert!(manual.contains(family), "{family} is not in the manual");
    }
    for reason in crate::refusal::Reason::ALL {
        assert!(
            manual.contains(&format!("`{}`", reason.name())),
            "{}",
            reason.name()
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_a_told_error(text in "\\PC{0,80}") {
        if let Err(errors) = file(&text) {
            prop_assert!(errors.iter().count() > 0);
            prop_assert!(errors.to_string().starts_with("sentinel.toml:"));
        }
    }

    #[test]
    fn any_value_under_any_key_is_a_configuration_or_a_told_error(
        place in 0..KEYS.len(),
        value in prop_oneof![
            "[0-9]{1,22}", "[0-9]{1,4}(s|ms|/s|MiB|KiB|%)", "\\PC{0,20}", "(off|learn|both|client)",
        ],
    ) {
        let key = &KEYS[place];
        let sources = Sources {
            flags: vec![flag("set", key.name, &value)],
            ..Sources::default()
        };
        match load(&sources) {
            Ok(resolved) => {
                let again = file(&resolved.to_string()).unwrap();
                prop_assert_eq!(again.config, resolved.config);
            }
            Err(errors) => prop_assert!(errors.to_string().contains(key.name), "{}", errors),
        }
    }
}
