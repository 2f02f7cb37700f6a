use proptest::prelude::*;

use std::time::Duration;

use fairq::Network;
use pacing::Rate;

use super::*;
use crate::config::PauseMode;

fn text(text: &str) -> Given {
    Given::Text(text.to_owned())
}

fn refusal<K: Kind>(given: &str) -> String
where
    K::Value: std::fmt::Debug,
{
    K::read(&text(given)).unwrap_err()
}

#[test]
fn values_carry_their_units() {
    assert_eq!(Size::read(&text("64MiB")), Ok(64 << 20));
    assert_eq!(Size::read(&text("1_000_000")), Ok(1_000_000));
    assert_eq!(Size::read(&text("5 kB")), Ok(5_000));
    assert_eq!(Span::read(&text("100s")), Ok(Duration::from_secs(100)));
    let rate = Rate::per_second(2_000).unwrap();
    assert_eq!(Text::<Rate>::read(&text("2000/s")), Ok(rate));
    assert_eq!(Text::<Rate>::read(&text("2000")), Ok(rate));
    assert_eq!(Share::read(&text("85%")), Ok(0.85));
    assert_eq!(Maybe::<Count, Learn>::read(&text("learn")), Ok(None));
    assert_eq!(Maybe::<Count, Learn>::read(&text("5000")), Ok(Some(5_000)));
    assert_eq!(
        Choice::<PauseMode>::read(&text("Both")),
        Ok(PauseMode::Both)
    );
}

#[test]
fn a_refusal_says_how_to_write_it() {
    assert!(refusal::<Size>("64 megs").contains("64MiB"));
    assert!(refusal::<Size>("99999999999999999999").contains("size"));
    assert!(refusal::<Size>("").contains("size"));
    assert!(refusal::<Span>("100").contains("such as 30s"));
    assert!(refusal::<Text<Rate>>("fast").contains("such as 1000/s"));
    assert!(refusal::<Text<Rate>>("-1").contains("-1"));
    assert!(refusal::<Address>("localhost:1").contains("127.0.0.1:26680"));
    assert!(refusal::<Share>("much").contains("85%"));
    assert!(refusal::<Share>("inf").contains("85%"));
    assert!(refusal::<Count>("-1").contains("whole number"));
    assert!(refusal::<Count<u32>>("4294967296").contains("too large"));
    assert!(refusal::<Maybe<Count, Learn>>("x").contains("\"learn\""));
    assert!(refusal::<Choice<PauseMode>>("never").contains("off, interval, threshold, both"));
    assert!(refusal::<Weights>("10.0.0.0/8").contains("NAME=VALUE"));
    assert!(refusal::<Weights>("10.0.0.0/8=x").contains("10.0.0.0/8"));
    assert!(refusal::<List<Network>>("10.0.0.1/8").contains("10.0.0.0/8"));
}

#[test]
fn lists_and_tables_in_either_form() {
    let networks = List::<Network>::read(&text("10.0.0.0/8, ::1")).unwrap();
    assert_eq!(networks.len(), 2);
    let array = Given::List(vec!["10.0.0.0/8".into(), "::1".into()]);
    assert_eq!(List::<Network>::read(&array), Ok(networks));
    assert_eq!(List::<String>::read(&text("")), Ok(Vec::new()));
    let table = Given::Pairs(vec![("10.0.0.0/8".into(), "4".into())]);
    assert_eq!(Weights::read(&table), Weights::read(&text("10.0.0.0/8=4")));
    assert_eq!(
        Weights::toml(&Weights::read(&table).unwrap()),
        "{ \"10.0.0.0/8\" = 4 }"
    );
    assert!(<Count>::read(&table).is_err() && <Count>::read(&array).is_err());
}

#[test]
fn sizes_are_written_in_the_largest_unit_that_fits() {
    assert_eq!(Size::toml(&(64 << 20)), "\"64MiB\"");
    assert_eq!(Size::toml(&1_000_000), "1000000");
    assert_eq!(Size::toml(&0), "0");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(bytes: u32, nanos in 0..u64::MAX / 2, micros in 0_u64..10_000_000_000_000, share in 0.0..1.0) {
        let strip = |toml: String| text(toml.trim_matches('"'));
        prop_assert_eq!(Size::read(&strip(Size::toml(&(bytes as usize)))), Ok(bytes as usize));
        let span = Duration::from_nanos(nanos);
        prop_assert_eq!(Span::read(&strip(Span::toml(&span))), Ok(span));
        let rate = Rate::from_micros(micros).unwrap();
        prop_assert_eq!(Text::<Rate>::read(&strip(Text::<Rate>::toml(&rate))), Ok(rate));
        prop_assert_eq!(Share::read(&strip(Share::toml(&share))), Ok(share));
    }

    #[test]
    fn any_text_is_quoted_as_toml_reads_it(text: String) {
        let document = format!("text = {}", quoted(&text));
        let table: toml::Table = document.parse().unwrap();
        prop_assert_eq!(table["text"].as_str(), Some(text.as_str()));
    }
}
