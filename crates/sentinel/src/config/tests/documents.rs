//! The printed configuration, the sample and the manual.

use super::*;
use crate::metrics::{MethodClass, OutcomeLabel, Transport};

#[test]
fn what_is_printed_names_origins_and_parses_back() {
    let resolved = file(
        "[listen]\naddr = \"[::1]:7\"\n[pause]\ninterval = \"5s\"\nmin_tx_rate = 20\n\
         [fair]\nweights = { \"10.0.0.0/8\" = 4, \"2001:db8::/32\" = 2 }\n\
         [cors]\norigins = [\"https://a.example\"]\n[admin]\naddr = \"off\"\n",
    )
    .unwrap();
    let printed = resolved.to_string();
    let again = file(&printed).unwrap();
    assert_eq!(again.config, resolved.config, "{printed}");
    for line in [
        "addr = \"[::1]:7\"                         # sentinel.toml:2",
        "min_tx_rate = \"20/s\"                     # sentinel.toml:5",
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
    let sample = include_str!("../../../../../config/sentinel.toml");
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
    let manual = include_str!("../../../../../docs/sentinel.md");
    for key in KEYS {
        let value = key.toml(&Config::default());
        let row = format!("| `{}` | `{}` |", key.name, value.trim_matches('"'));
        assert!(manual.contains(&row), "no row {row}");
        if let Some((flag, _)) = key.flag {
            assert!(manual.contains(&format!("`--{flag}`")), "--{flag}");
        }
    }
    let metrics = crate::metrics::Metrics::default();
    // What appears with its first event only.
    let class = MethodClass::Status;
    metrics.request(Transport::Post, class, OutcomeLabel::Forwarded);
    metrics.upstream_request(class, pacing::Nanos::from_millis(1));
    let exposition = metrics.render(&crate::metrics::Gauges::default());
    let families = exposition
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for family in families {
        assert!(manual.contains(family), "{family} is not in the manual");
    }
    for bound in control::Bound::NAMES {
        assert!(manual.contains(&format!("`{bound}`")), "{bound}");
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
            prop_assert!(!errors.0.is_empty());
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
