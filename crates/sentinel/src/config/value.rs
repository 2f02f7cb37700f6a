//! Values as texts: how each type is read from a file, a variable or a flag, and written so that it reads back as the
//! same; and the types of settings that are one of a few words.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;
use std::time::Duration;

use control::{MinTxRate, PaceMode, PauseAction};
use fairq::{Network, Weight};
use pacing::{Nanos, Rate, Size};
use rpc::Endpoint;
use tracing::Level;

/// A type of setting.
pub(super) trait Value: Sized {
    /// The words it takes, where these are few.
    const WORDS: &'static [&'static str] = &[];
    /// Whether it has several elements, separated by commas.
    const IS_LIST: bool = false;

    /// Reads a value; the error names the fault and the correct form.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes a value.
    fn text(&self) -> String;
}

/// Any rate but zero.
pub(super) const ABOVE_ZERO: (Bound<Rate>, Bound<Rate>) =
    (Bound::Excluded(Rate::ZERO), Bound::Unbounded);

/// Refuses a value outside of its range.
pub(super) fn within<T: Value + PartialOrd>(
    value: &T,
    range: impl RangeBounds<T>,
) -> Result<(), String> {
    if range.contains(value) {
        return Ok(());
    }
    let value = value.text();
    Err(match (range.start_bound(), range.end_bound()) {
        (Bound::Included(low), Bound::Included(high)) => {
            let (low, high) = (low.text(), high.text());
            format!("{value} is out of range; use {low} to {high}")
        }
        (Bound::Included(low), _) => {
            let low = low.text();
            format!("{value} would let nothing through; use {low} or more")
        }
        (_, Bound::Included(high)) => format!("{value} is too much; use at most {}", high.text()),
        _ => format!("{value} would let nothing through"),
    })
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| {
        let reason = error.to_string();
        if reason.contains(text) && !text.is_empty() {
            reason
        } else {
            format!("{text:?}: {reason}")
        }
    })
}

/// Types that read and write themselves.
macro_rules! texts {
    ($($type:ty)+) => {$(
        impl Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                parsed(text)
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

texts! { Rate Size Endpoint Network TrustedProxy String u8 }

/// Types with a few values, each of which is a word.
macro_rules! words {
    ($($type:ty: $($value:expr => $word:literal),+;)+) => {$(
        impl Value for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn read(text: &str) -> Result<Self, String> {
                let known = [$($value),+].into_iter().zip(Self::WORDS);
                let mut named = known.filter(|(_, word)| word.eq_ignore_ascii_case(text));
                let found = named.next().map(|(value, _)| value);
                found.ok_or_else(|| format!("{text:?} is none of {}", Self::WORDS.join(", ")))
            }

            fn text(&self) -> String {
                let mut known = [$($value),+].into_iter().zip(Self::WORDS);
                let word = known.find_map(|(value, word)| (value == *self).then_some(*word));
                word.unwrap_or_default().to_owned()
            }
        }
    )+};
}

words! {
    bool: false => "false", true => "true";
    WriteOrder: Self::Connection => "connection", Self::Account => "account";
    AsyncAck: Self::Buffered => "buffered", Self::Forwarded => "forwarded";
    PaceMode: Self::Adaptive => "adaptive", Self::Fixed => "fixed", Self::Off => "off";
    PauseAction: Self::Pause => "pause", Self::Reconnect => "reconnect";
    Level: Self::ERROR => "error", Self::WARN => "warn", Self::INFO => "info", Self::DEBUG => "debug", Self::TRACE => "trace";
}

impl Value for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            format!("{text:?} is not an address and a port; write for instance 127.0.0.1:26680")
        })
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Threads {
    fn read(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::AUTO);
        }
        let wrong = || format!("{text} is no number of threads; use 1 to 64, or auto");
        Self::new(usize::read(text)?).ok_or_else(wrong)
    }

    fn text(&self) -> String {
        self.given()
            .map_or_else(|| "auto".to_owned(), |threads| threads.to_string())
    }
}

impl Value for usize {
    fn read(text: &str) -> Result<Self, String> {
        let digits = text.replace('_', "");
        digits.parse().map_err(|_| {
            format!("{text:?} is not a whole number or too large; write for instance 100")
        })
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Duration {
    fn read(text: &str) -> Result<Self, String> {
        parsed::<Nanos>(text).map(Self::from)
    }

    fn text(&self) -> String {
        Nanos::from(*self).to_string()
    }
}

impl Value for MinTxRate {
    fn read(text: &str) -> Result<Self, String> {
        let percent = match text {
            "learn" => Some("55"),
            _ => text.strip_suffix('%'),
        };
        match percent.map(str::parse) {
            Some(Ok(percent @ 5..=85)) => Ok(Self::Percent(percent)),
            Some(_) => Err(format!("{text:?} is out of range; use 5% to 85%")),
            None if text == OFF => Ok(Self::Off),
            None => {
                let rate = parsed(text).map_err(|reason| {
                    format!("{reason} (or a share such as 60%, \"learn\", \"off\")")
                })?;
                within(&rate, ABOVE_ZERO)?;
                Ok(Self::Rate(rate))
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Off => OFF.to_owned(),
            Self::Rate(rate) => rate.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}

/// The word for no value.
const OFF: &str = "off";

impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case(OFF) {
            return Ok(None);
        }
        let value = T::read(text);
        value
            .map(Some)
            .map_err(|reason| format!("{reason} (or \"off\")"))
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(|| OFF.to_owned(), T::text)
    }
}

impl<T: Value> Value for Vec<T> {
    const IS_LIST: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        let elements = text.split(',').map(str::trim);
        let elements = elements.filter(|text| !text.is_empty());
        if elements.clone().count() > MOST_ELEMENTS {
            return Err(format!("more than {MOST_ELEMENTS} elements"));
        }
        elements.map(T::read).collect()
    }

    fn text(&self) -> String {
        self.iter().map(T::text).collect::<Vec<_>>().join(",")
    }
}

/// Allowed and denied networks share one table of 65,536; looking for doubles takes the square of this.
const MOST_ELEMENTS: usize = 10_000;

impl Value for (Network, Weight) {
    fn read(text: &str) -> Result<Self, String> {
        let pair = text.split_once('=');
        let (network, weight) =
            pair.ok_or_else(|| format!("{text:?} is not of the form NETWORK=WEIGHT"))?;
        Ok((parsed(network.trim())?, parsed(weight)?))
    }

    fn text(&self) -> String {
        format!("{}={}", self.0, self.1)
    }
}

impl Value for CertificateFiles {
    fn read(text: &str) -> Result<Self, String> {
        let (chain, key) = text.split_once('=').unwrap_or((text, text));
        let (chain, key) = (chain.trim().to_owned(), key.trim().to_owned());
        if chain.is_empty() || key.is_empty() {
            Err(format!("{text:?} is not of the form CERTIFICATES=KEY"))
        } else {
            Ok(Self { chain, key })
        }
    }

    fn text(&self) -> String {
        format!("{}={}", self.chain, self.key)
    }
}

/// A network of proxies, and how they name their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedProxy {
    /// Where they are.
    pub network: Network,
    /// Whether by a PROXY header at the beginning of a connection, rather than by `X-Forwarded-For`.
    pub by_connection: bool,
}

impl FromStr for TrustedProxy {
    type Err = fairq::Error;

    fn from_str(text: &str) -> Result<Self, fairq::Error> {
        let network = text.strip_suffix(PROXY_PROTOCOL);
        Ok(Self {
            network: network.unwrap_or(text).trim_end().parse()?,
            by_connection: network.is_some(),
        })
    }
}

impl Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.by_connection {
            PROXY_PROTOCOL
        } else {
            ""
        };
        write!(f, "{}{way}", self.network)
    }
}

/// Behind the network of proxies in TCP mode.
const PROXY_PROTOCOL: &str = " proxy-protocol";

/// Which writes stay in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    /// Those of a connection.
    Connection,
    /// Those of a connection, and those that a client brings of a Cosmos SDK's account, over all its connections.
    Account,
}

/// When a `broadcast_tx_async` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncAck {
    /// When it was admitted, with the hash computed here: the default.
    Buffered,
    /// When the node has answered.
    Forwarded,
}

/// A chain of certificates and its key, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then those of its issuers.
    pub chain: String,
    /// Its private key; may be the same file.
    pub key: String,
}

/// Threads that serve clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(Option<usize>);

impl Threads {
    /// The cores that this process may use, less one, and one at least: the nodes are watched, and the operator is
    /// served, by a thread beside these.
    pub const AUTO: Self = Self(None);

    /// So many, 1 to 64.
    pub fn new(threads: usize) -> Option<Self> {
        (1..=64).contains(&threads).then_some(Self(Some(threads)))
    }

    /// The number that was set.
    pub(super) const fn given(self) -> Option<usize> {
        self.0
    }

    /// How many these are on this machine.
    pub fn count(self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.0
            .unwrap_or_else(|| cores().saturating_sub(1).clamp(1, 64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal<T: Value + fmt::Debug>(text: &str) -> String {
        T::read(text).unwrap_err()
    }

    #[test]
    fn values_carry_their_units() {
        assert_eq!(Duration::read("100s"), Ok(Duration::from_secs(100)));
        let rate = Rate::per_second(2_000).unwrap();
        assert_eq!(Rate::read("2000/s"), Ok(rate));
        assert_eq!(Rate::read("2000"), Ok(rate));
        assert_eq!(MinTxRate::read("2000"), Ok(MinTxRate::Rate(rate)));
        assert_eq!(MinTxRate::read("60%"), Ok(MinTxRate::Percent(60)));
        assert_eq!(MinTxRate::read("learn"), Ok(MinTxRate::Percent(55)));
        assert_eq!(Option::<usize>::read("off"), Ok(None));
        assert_eq!(Option::<usize>::read("5000"), Ok(Some(5_000)));
        assert_eq!(PaceMode::read("Fixed"), Ok(PaceMode::Fixed));
        for (text, by_connection) in [("10.0.0.0/8", false), ("::1  proxy-protocol", true)] {
            let proxy = TrustedProxy::read(text).unwrap();
            assert_eq!(proxy.by_connection, by_connection);
            assert_eq!(TrustedProxy::read(&proxy.text()), Ok(proxy));
        }
    }

    #[test]
    fn a_refusal_names_the_correct_form() {
        assert!(refusal::<Duration>("100").contains("such as 30s"));
        assert!(refusal::<Rate>("fast").contains("such as 1000/s"));
        assert!(refusal::<Rate>("-1").contains("-1"));
        assert!(refusal::<SocketAddr>("localhost:1").contains("127.0.0.1:26680"));
        assert!(refusal::<usize>("-1").contains("whole number"));
        assert!(refusal::<Option<usize>>("x").contains("\"off\""));
        assert!(refusal::<MinTxRate>("90%").contains("5% to 85%"));
        assert!(refusal::<MinTxRate>("0/s").contains("nothing through"));
        assert!(refusal::<PaceMode>("never").contains("adaptive, fixed, off"));
        assert!(refusal::<(Network, Weight)>("10.0.0.0/8").contains("NETWORK=WEIGHT"));
        assert!(refusal::<(Network, Weight)>("10.0.0.0/8=0").contains("1 to 1000"));
        assert!(refusal::<Vec<Network>>("10.0.0.1/8").contains("10.0.0.0/8"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            nanos in 0..u64::MAX / 2, micros in 1_u64..10_000_000_000_000, percent in 5_u8..=85
        ) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(Duration::read(&span.text()), Ok(span));
            let rate = Rate::from_micros(micros).unwrap();
            for least in [MinTxRate::Rate(rate), MinTxRate::Percent(percent)] {
                prop_assert_eq!(MinTxRate::read(&least.text()), Ok(least));
            }
        }
    }
}
