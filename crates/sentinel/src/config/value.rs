//! Values as texts: how each kind is read from a file, a variable or a flag, and written down so
//! that it reads back as the same.

use std::fmt::{Display, Write as _};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use fairq::{KeyScheme, Network, Order};
use pacing::{Nanos, Rate};

use super::{AsyncAck, LogLevel, PaceMode, PauseAction, PauseMode};

/// A value before it is understood. Numbers of a file have become their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// One text; where a list is wanted, its elements stand between commas.
    Text(String),
    /// An array of a file.
    List(Vec<String>),
    /// A table of a file.
    Pairs(Vec<(String, String)>),
}

impl Given {
    fn text(&self) -> Result<&str, String> {
        match self {
            Self::Text(text) => Ok(text.trim()),
            Self::List(_) => Err("one value is wanted, not a list".to_owned()),
            Self::Pairs(_) => Err("one value is wanted, not a table".to_owned()),
        }
    }

    fn list(&self) -> Result<Vec<&str>, String> {
        match self {
            Self::Text(text) => Ok(elements(text).collect()),
            Self::List(list) => Ok(list.iter().map(|text| text.trim()).collect()),
            Self::Pairs(_) => Err("a list is wanted, not a table".to_owned()),
        }
    }

    fn pairs(&self) -> Result<Vec<(&str, &str)>, String> {
        match self {
            Self::Text(text) => elements(text)
                .map(|pair| {
                    let (name, value) = pair
                        .split_once('=')
                        .ok_or_else(|| format!("{pair:?} is not of the form NAME=VALUE"))?;
                    Ok((name.trim(), value.trim()))
                })
                .collect(),
            Self::Pairs(pairs) => Ok(pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect()),
            Self::List(_) => Err("a table is wanted, not a list".to_owned()),
        }
    }
}

fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// How one kind of value is read and written.
pub(super) trait Kind {
    /// What it is read as.
    type Value;

    /// Reads a value; the error says what is wrong and how to write it.
    fn read(given: &Given) -> Result<Self::Value, String>;

    /// Writes a value in TOML.
    fn toml(value: &Self::Value) -> String;
}

fn plain<T>(text: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| {
        let reason = error.to_string();
        if reason.contains(text) && !text.is_empty() {
            reason
        } else {
            format!("{text:?}: {reason}")
        }
    })
}

/// Where to listen.
pub(super) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn read(given: &Given) -> Result<SocketAddr, String> {
        let text = given.text()?;
        text.parse().map_err(|_| {
            format!("{text:?} is not an address and a port; write for instance 127.0.0.1:26680")
        })
    }

    fn toml(address: &SocketAddr) -> String {
        quoted(&address.to_string())
    }
}

/// Several of them, in any of the forms of a list.
pub(super) struct List<T>(PhantomData<T>);

impl<T> Kind for List<T>
where
    T: FromStr + Display,
    T::Err: Display,
{
    type Value = Vec<T>;

    fn read(given: &Given) -> Result<Vec<T>, String> {
        given.list()?.into_iter().map(plain).collect()
    }

    fn toml(list: &Vec<T>) -> String {
        let texts: Vec<String> = list
            .iter()
            .map(|value| quoted(&value.to_string()))
            .collect();
        format!("[{}]", texts.join(", "))
    }
}

/// A value, or a word for none.
pub(super) struct Maybe<K, W>(PhantomData<(K, W)>);

/// The word for no value.
pub(super) trait Word {
    /// The word.
    const WORD: &str;
}

/// `off`
pub(super) struct Off;
/// `learn`
pub(super) struct Learn;

impl Word for Off {
    const WORD: &str = "off";
}

impl Word for Learn {
    const WORD: &str = "learn";
}

impl<K: Kind, W: Word> Kind for Maybe<K, W> {
    type Value = Option<K::Value>;

    fn read(given: &Given) -> Result<Self::Value, String> {
        if given.text()?.eq_ignore_ascii_case(W::WORD) {
            return Ok(None);
        }
        K::read(given)
            .map(Some)
            .map_err(|reason| format!("{reason} (or {:?})", W::WORD))
    }

    fn toml(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| quoted(W::WORD), K::toml)
    }
}

/// A number of things.
pub(super) struct Count;

impl Kind for Count {
    type Value = usize;

    fn read(given: &Given) -> Result<usize, String> {
        whole(given.text()?)
    }

    fn toml(count: &usize) -> String {
        count.to_string()
    }
}

/// A number of things that fits 32 bits.
pub(super) struct SmallCount;

impl Kind for SmallCount {
    type Value = u32;

    fn read(given: &Given) -> Result<u32, String> {
        let count = whole(given.text()?)?;
        u32::try_from(count).map_err(|_| format!("{count} is more than {}", u32::MAX))
    }

    fn toml(count: &u32) -> String {
        count.to_string()
    }
}

fn whole(text: &str) -> Result<usize, String> {
    text.replace('_', "")
        .parse()
        .map_err(|_| format!("{text:?} is not a whole number; write for instance 100"))
}

/// A number of bytes.
pub(super) struct Size;

impl Kind for Size {
    type Value = usize;

    fn read(given: &Given) -> Result<usize, String> {
        let text = given.text()?;
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '_')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let refuse = || format!("{text:?} is not a size; write for instance 64MiB or 1000000");
        let (_, bytes) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .ok_or_else(refuse)?;
        number
            .replace('_', "")
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_mul(*bytes))
            .ok_or_else(refuse)
    }

    fn toml(bytes: &usize) -> String {
        let binary = UNITS.iter().rev().find(|(name, unit)| {
            name.ends_with("iB") && *bytes >= *unit && bytes.is_multiple_of(*unit)
        });
        match binary {
            Some((name, unit)) => quoted(&format!("{}{name}", bytes / unit)),
            None => bytes.to_string(),
        }
    }
}

const UNITS: [(&str, usize); 8] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A span of time.
pub(super) struct Span;

impl Kind for Span {
    type Value = Duration;

    fn read(given: &Given) -> Result<Duration, String> {
        let text = given.text()?;
        let nanos: Nanos = text
            .parse()
            .map_err(|error: pacing::ValueError| error.to_string())?;
        Ok(nanos.into())
    }

    fn toml(span: &Duration) -> String {
        quoted(&Nanos::from(*span).to_string())
    }
}

/// A rate.
pub(super) struct PerSecond;

impl Kind for PerSecond {
    type Value = Rate;

    fn read(given: &Given) -> Result<Rate, String> {
        given
            .text()?
            .parse()
            .map_err(|error: pacing::ValueError| error.to_string())
    }

    fn toml(rate: &Rate) -> String {
        quoted(&rate.to_string())
    }
}

/// A share of something.
pub(super) struct Share;

impl Kind for Share {
    type Value = f64;

    fn read(given: &Given) -> Result<f64, String> {
        let text = given.text()?;
        let refuse = || format!("{text:?} is not a share; write for instance 0.85 or 85%");
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| refuse())? / 100.0,
            None => text.parse().map_err(|_| refuse())?,
        };
        if share.is_finite() {
            Ok(share)
        } else {
            Err(refuse())
        }
    }

    fn toml(share: &f64) -> String {
        // With a point also when it is whole, so that it stays a float for other readers of TOML.
        format!("{share:?}")
    }
}

/// One of a few words.
pub(super) struct Choice<T>(PhantomData<T>);

/// A type whose values are words.
pub(super) trait Words: Copy + PartialEq + Sized + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Words> Kind for Choice<T> {
    type Value = T;

    fn read(given: &Given) -> Result<T, String> {
        let text = given.text()?;
        T::WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
                format!("{text:?} is none of {}", words.join(", "))
            })
    }

    fn toml(value: &T) -> String {
        let word = T::WORDS.iter().find(|(_, candidate)| candidate == value);
        quoted(word.expect("every value has a word").0)
    }
}

impl Words for Order {
    const WORDS: &'static [(&'static str, Self)] =
        &[("connection", Self::Connection), ("client", Self::Client)];
}

impl Words for AsyncAck {
    const WORDS: &'static [(&'static str, Self)] =
        &[("buffered", Self::Buffered), ("forwarded", Self::Forwarded)];
}

impl Words for PaceMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("adaptive", Self::Adaptive), ("fixed", Self::Fixed)];
}

impl Words for PauseMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("interval", Self::Interval),
        ("threshold", Self::Threshold),
        ("both", Self::Both),
    ];
}

impl Words for PauseAction {
    const WORDS: &'static [(&'static str, Self)] =
        &[("pause", Self::Pause), ("reconnect", Self::Reconnect)];
}

impl Words for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// Weights of networks.
pub(super) struct Weights;

impl Kind for Weights {
    type Value = Vec<(Network, u32)>;

    fn read(given: &Given) -> Result<Self::Value, String> {
        given
            .pairs()?
            .into_iter()
            .map(|(network, weight)| {
                let weight = weight.parse().map_err(|_| {
                    format!("the weight {weight:?} of {network} is no whole number")
                })?;
                Ok((plain(network)?, weight))
            })
            .collect()
    }

    fn toml(weights: &Self::Value) -> String {
        let mut text = String::from("{");
        for (index, (network, weight)) in weights.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(text, "{comma} {} = {weight}", quoted(&network.to_string()))
                .expect("a string takes any text");
        }
        text.push_str(if weights.is_empty() { "}" } else { " }" });
        text
    }
}

/// The IPv4 half of a key scheme, changed in the whole.
pub(super) fn with_v4_prefix(scheme: KeyScheme, given: &Given) -> Result<KeyScheme, String> {
    let prefix = prefix(given)?;
    KeyScheme::new(prefix, scheme.v6_prefix()).map_err(|error| error.to_string())
}

/// The IPv6 half of a key scheme, changed in the whole.
pub(super) fn with_v6_prefix(scheme: KeyScheme, given: &Given) -> Result<KeyScheme, String> {
    let prefix = prefix(given)?;
    KeyScheme::new(scheme.v4_prefix(), prefix).map_err(|error| error.to_string())
}

fn prefix(given: &Given) -> Result<u8, String> {
    let text = given.text()?;
    let digits = text.strip_prefix('/').unwrap_or(text);
    digits
        .parse()
        .map_err(|_| format!("{text:?} is not a prefix length; write for instance 64"))
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(c)).expect("a string takes any text");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(PerSecond::read(&text("2000/s")), Ok(rate));
        assert_eq!(PerSecond::read(&text("2000")), Ok(rate));
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
        assert!(refusal::<PerSecond>("fast").contains("such as 1000/s"));
        assert!(refusal::<PerSecond>("-1").contains("-1"));
        assert!(refusal::<Address>("localhost:1").contains("127.0.0.1:26680"));
        assert!(refusal::<Share>("much").contains("85%"));
        assert!(refusal::<Share>("inf").contains("85%"));
        assert!(refusal::<Count>("-1").contains("whole number"));
        assert!(refusal::<SmallCount>("4294967296").contains("more than"));
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
        assert!(Count::read(&table).is_err() && Count::read(&array).is_err());
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
            prop_assert_eq!(PerSecond::read(&strip(PerSecond::toml(&rate))), Ok(rate));
            prop_assert_eq!(Share::read(&strip(Share::toml(&share))), Ok(share));
        }

        #[test]
        fn any_text_is_quoted_as_toml_reads_it(text: String) {
            let document = format!("text = {}", quoted(&text));
            let table: toml::Table = document.parse().unwrap();
            prop_assert_eq!(table["text"].as_str(), Some(text.as_str()));
        }
    }
}
