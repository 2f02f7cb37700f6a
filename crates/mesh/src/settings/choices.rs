//! What can be chosen of a mesh, and how it is written.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use gossip::{QueueLimits, Relayed, Settings, Spread, Version};
use pacing::Nanos;
use serde::{Deserialize, Serialize};
use servers::nearest;

/// A wire protocol, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Protocol(pub Version);

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix(['v', 'V']).unwrap_or(text).parse();
        let version = number.ok().and_then(Version::from_number);
        version
            .map(Self)
            .ok_or_else(|| format!("there is no protocol {text:?}; there are v9, v10 and v11"))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0.number())
    }
}

/// Who is connected with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Topology {
    /// Everybody with everybody.
    Full,
    /// Each node dials this many others, drawn at random.
    Random(u16),
    /// Between a lower and an upper limit of peers each, as the library of 2020 does it.
    Capped,
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "full" => Ok(Self::Full),
            None if text == "capped" => Ok(Self::Capped),
            Some(("random", number)) => match number.parse() {
                Ok(number @ 1..) => Ok(Self::Random(number)),
                _ => Err(format!(
                    "{number:?} is not a number of peers; write for instance random:3"
                )),
            },
            _ => Err(unknown("topology", text, &["full", "random:K", "capped"])),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Random(number) => write!(f, "random:{number}"),
            Self::Capped => f.write_str("capped"),
        }
    }
}

pacing::named! {
    /// What keeps nodes apart beside being processes.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(try_from = "String", into = "String")]
    pub enum Isolation {
        /// Nothing: all listen on 127.0.0.1.
        #[default]
        None => "none",
        /// An address of 127.0.0.0/8 each.
        LoopbackIp => "loopback-ip",
        /// A network namespace each, on one bridge.
        Netns => "netns",
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name);
        Self::of_name(text).ok_or_else(|| unknown("isolation", text, &names))
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a node's link is like, in both directions: `30mbit,40ms,0.1%`, each part optional.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkShape {
    /// Bits per second.
    pub rate_bits: Option<u64>,
    /// Added to every packet that leaves.
    pub delay: Option<Nanos>,
    /// The share of packets that are lost, 0 to 1.
    pub loss: Option<f64>,
}

impl FromStr for LinkShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        for part in text.split(',').map(str::trim) {
            let wrong = || {
                format!(
                    "cannot read {part:?} of the link {text:?}; write a rate, a delay and a loss, for \
                     instance 30mbit,40ms,0.1%"
                )
            };
            let number = |digits: &str| {
                let number = digits.parse::<f64>().ok();
                let number = number.filter(|number| number.is_finite() && *number >= 0.0);
                number.ok_or_else(wrong)
            };
            let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
            let rate = units
                .into_iter()
                .find_map(|(unit, factor)| Some((part.strip_suffix(unit)?, factor)));
            match (rate, part.strip_suffix('%')) {
                (Some((digits, factor)), _) => {
                    let bits = number(digits)? * factor;
                    shape.rate_bits = Some(bits as u64).filter(|bits| *bits >= MIN_BITS);
                    shape.rate_bits.ok_or_else(wrong)?;
                }
                (_, Some(digits)) => {
                    let loss = number(digits)? / 100.0;
                    shape.loss = Some(loss).filter(|loss| *loss < 1.0);
                    shape.loss.ok_or_else(wrong)?;
                }
                _ => shape.delay = Some(part.parse().map_err(|_| wrong())?),
            }
        }
        Ok(shape)
    }
}

impl fmt::Display for LinkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate_bits.map(|bits| format!("{}kbit", bits / 1000));
        let delay = self.delay.map(|delay| delay.to_string());
        let loss = self.loss.map(|loss| format!("{}%", loss * 100.0));
        let parts: Vec<String> = [rate, delay, loss].into_iter().flatten().collect();
        f.write_str(&parts.join(","))
    }
}

/// CPU time that a node may use, in thousandths of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuQuota(pub u32);

impl FromStr for CpuQuota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text
            .strip_suffix('%')
            .and_then(|text| text.parse::<f64>().ok());
        let permille = percent.map(|percent| percent * 10.0);
        match permille {
            Some(permille) if (10.0..=64_000.0).contains(&permille) => Ok(Self(permille as u32)),
            _ => Err(format!(
                "{text:?} is not a share of a CPU; write 1% to 6400%, for instance 25%"
            )),
        }
    }
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10.0)
    }
}

/// A program of another implementation: `go=target/mesh-go`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// What tables call it.
    pub name: String,
    /// The program.
    pub program: PathBuf,
}

impl FromStr for External {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, program)) if !name.is_empty() && !program.is_empty() => Ok(Self {
                name: name.into(),
                program: program.into(),
            }),
            _ => Err(format!(
                "cannot read {text:?}; write NAME=PROGRAM, for instance go=./mesh-go"
            )),
        }
    }
}

pacing::settings! {
    /// A protocol and ways to send: one side of a comparison.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Variant {
        /// The wire protocol.
        pub protocol: Protocol = Protocol(Version::V11),
        /// All waiting parcels of a peer in one write.
        pub batch: bool = false,
        /// Hash first, message on demand.
        pub announce: bool = false,
        /// Not back to who sent it.
        pub resend_filter: bool = false,
    }
}

impl Variant {
    /// The settings of a node of it, with the usual peers.
    pub(crate) fn node(self, fanout: u16, queue: u32, relayed: Relayed) -> Settings {
        Settings {
            version: self.protocol.0,
            fanout: usize::from(fanout),
            resend_filter: self.resend_filter,
            relayed,
            spread: match self.announce {
                true => Spread::Tree,
                false => Spread::Flood,
            },
            // In one call at most; 0 is one parcel a call.
            batch_bytes: if self.batch { BATCH_BYTES } else { 0 },
            queue: QueueLimits {
                parcels: queue as usize,
                ..QueueLimits::default()
            },
            ..Settings::default()
        }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let mut variant = Self {
            protocol: parts.next().unwrap_or_default().parse()?,
            ..Self::default()
        };
        for part in parts {
            match part {
                "batch" => variant.batch = true,
                "announce" => variant.announce = true,
                "resend-filter" => variant.resend_filter = true,
                _ => {
                    return Err(unknown(
                        "way to send",
                        part,
                        &["batch", "announce", "resend-filter"],
                    ));
                }
            }
        }
        Ok(variant)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)?;
        let ways = [
            (self.batch, "batch"),
            (self.announce, "announce"),
            (self.resend_filter, "resend-filter"),
        ];
        let mut ways = ways.into_iter().filter(|(is_on, _)| *is_on);
        ways.try_for_each(|(_, way)| write!(f, "+{way}"))
    }
}

/// Reads and writes them in files as on the command line.
macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(Protocol, Topology, Isolation, LinkShape, CpuQuota);

fn unknown(what: &str, text: &str, known: &[&str]) -> String {
    let hint = match nearest(text, known.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are: {}", known.join(", ")),
    };
    format!("there is no {what} {text:?}{hint}")
}

/// What a socket's buffer takes at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Packets of one MTU would take more than ten seconds below it.
const MIN_BITS: u64 = 1000;

/// The mean rate of a link in bytes per second.
impl LinkShape {
    pub(crate) fn bytes_per_second(&self) -> Option<f64> {
        self.rate_bits.map(|bits| bits as f64 / 8.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "v9",
            "v10",
            "v11",
            "v11+batch",
            "v11+batch+announce+resend-filter",
        ] {
            assert_eq!(text.parse::<Variant>().unwrap().to_string(), text);
        }
        for text in ["full", "random:3", "capped"] {
            assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
        }
        let link: LinkShape = "30mbit,40ms,0.1%".parse().unwrap();
        assert_eq!(link.rate_bits, Some(30_000_000));
        assert_eq!(link.delay, Some(Nanos::from_millis(40)));
        assert!((link.loss.unwrap() - 0.001).abs() < 1e-12);
        assert_eq!(link.to_string().parse::<LinkShape>().unwrap(), link);
        assert_eq!("25%".parse::<CpuQuota>().unwrap(), CpuQuota(250));
    }

    #[test]
    fn what_is_mistyped_is_named_with_what_was_meant() {
        let problem = |text: &str| text.parse::<Variant>().unwrap_err();
        assert!(problem("v12").contains("v9, v10 and v11"));
        assert!(problem("v11+bach").contains("did you mean batch?"));
        assert!(
            "ful"
                .parse::<Topology>()
                .unwrap_err()
                .contains("did you mean full?")
        );
        assert!("random:0".parse::<Topology>().is_err());
        assert!("30,40ms".parse::<LinkShape>().is_err());
        assert!("100%".parse::<LinkShape>().is_err(), "nothing would arrive");
        assert!("25".parse::<CpuQuota>().is_err());
    }
}
