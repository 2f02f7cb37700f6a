//! Codes of refusals and failures, with the name space that gives them their meaning.
//!
//! A Cosmos SDK chain numbers the errors of each module on its own: 5 of `sdk` is another error than 5 of
//! `wasm`. CometBFT passes the name space on as `codespace`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// A name space of codes: a number for a name, so that it takes a byte in the record of a transaction.
///
/// The names are kept for the life of the process: at most 63 of 32 characters each. Those that come later are
/// `other`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Codespace(u8);

impl Codespace {
    /// No name space: a code of CometBFT's own, of a JSON-RPC error, or of another kind of node.
    pub const NONE: Self = Self(0);

    /// The name space of this name; an empty one is none. The name comes from a node and stands in tables and in
    /// names of metrics: what is no letter, digit or `-` is written `_`.
    pub fn named(name: &str) -> Self {
        match name {
            "" => Self::NONE,
            name => Self(NAMES.place(name) as u8 + 1),
        }
    }

    /// Its name; empty for none.
    #[must_use]
    pub fn name(self) -> &'static str {
        let place = usize::from(self.0).checked_sub(1);
        place.map_or("", |place| NAMES.at(place))
    }
}

/// Names in the order in which they were met; the last place is for all that find no other.
struct Names<const N: usize>([OnceLock<Box<str>>; N]);

impl<const N: usize> Names<N> {
    const fn new() -> Self {
        Self([const { OnceLock::new() }; N])
    }

    fn place(&self, name: &str) -> usize {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let name = || name.chars().take(MAX_CHARS).map(plain);
        let is_it = |slot: &OnceLock<Box<str>>| {
            let known = slot.get_or_init(|| name().collect());
            name().eq(known.chars())
        };
        self.0[..N - 1].iter().position(is_it).unwrap_or(N - 1)
    }

    fn at(&self, place: usize) -> &str {
        let name = self.0.get(place).and_then(OnceLock::get);
        name.map_or(OTHER, |name| name)
    }
}

impl fmt::Debug for Codespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codespace({:?})", self.name())
    }
}

/// By name: the numbers depend on which name was met first.
impl Ord for Codespace {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Codespace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A code in its name space; written `sdk/32`, or `32` without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    /// Its name space.
    pub space: Codespace,
    /// The code: negative for those of JSON-RPC errors.
    pub number: i64,
}

impl Code {
    /// What it means, where its name space is known here.
    #[must_use]
    pub fn meaning(self) -> Option<&'static str> {
        let place = usize::try_from(self.number).ok()?.checked_sub(2)?;
        match self.space.name() {
            "sdk" => SDK.get(place).copied(),
            _ => None,
        }
    }

    /// What a refusal or a failure with it is about.
    ///
    /// A code of an application is its verdict on a transaction (CometBFT, spec/abci, "CheckTx"), whenever it comes,
    /// but for those that are known to mean something else.
    fn subject(self) -> Subject {
        match (self.space.name(), self.number) {
            (MEMPOOL, _)
            | ("sdk", 1 | 20 | 35 | 39 | 40 | 111_222)
            | ("", -32_603 | -32_099..=-32_000 | -28 | -10 | -9 | -7) => Subject::Node,
            // Sequences, fees, heights and inputs follow from what was before; the statuses of HTTP are several things.
            ("sdk", 3 | 13 | 26 | 30 | 32 | 36 | 42) | ("", 400..=599) => Subject::Unclear,
            ("", -27 | -26 | -22) => Subject::Transaction,
            (_, number) if number < 0 => Subject::Unclear,
            _ => Subject::Transaction,
        }
    }
}

/// The name space for refusals of a node whose protocol has one code for a full mempool and for what is invalid.
pub const MEMPOOL: &str = "mempool";

/// What a code is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The transaction: its form, signer, gas, funds, or that the node has had it.
    Transaction,
    /// The node: no room, or a fault of its own.
    Node,
    /// One or the other.
    Unclear,
}

/// Refusals or failures by what they are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Subjects {
    /// The transactions.
    pub(crate) transaction: u64,
    /// One or the other: a code alone does not show which.
    pub(crate) unclear: u64,
}

impl Subjects {
    /// Of counts by code.
    pub(crate) fn of(counts: &BTreeMap<String, u64>) -> Self {
        let mut found = Self::default();
        for (code, count) in counts {
            match code.parse().map_or(Subject::Unclear, Code::subject) {
                Subject::Transaction => found.transaction += count,
                Subject::Unclear => found.unclear += count,
                Subject::Node => {}
            }
        }
        found
    }
}

/// A code as tables show it: `sdk/32 account sequence mismatch`. Anything else stays as it is.
pub fn code_title(code: &str) -> String {
    let meaning = code.parse().ok().and_then(Code::meaning);
    meaning.map_or_else(|| code.to_owned(), |meaning| format!("{code} {meaning}"))
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space.name() {
            "" => write!(f, "{}", self.number),
            space => write!(f, "{space}/{}", self.number),
        }
    }
}

impl FromStr for Code {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (space, number) = text.rsplit_once('/').unwrap_or(("", text));
        Ok(Self {
            number: number.parse()?,
            space: Codespace::named(space),
        })
    }
}

/// A chain has one for each of its modules that ever fails: simd has 20, Osmosis 40.
const MAX_NAMES: usize = 64;
const MAX_CHARS: usize = 32;
const OTHER: &str = "other";
static NAMES: Names<MAX_NAMES> = Names::new();

/// The codes of the name space `sdk` from 2 on (cosmos-sdk 0.50 and 0.53, types/errors/errors.go); 32 in the words
/// of the ante handler (x/auth/ante/sigverify.go).
const SDK: [&str; 41] = [
    "tx parse error",
    "invalid sequence",
    "unauthorized",
    "insufficient funds",
    "unknown request",
    "invalid address",
    "invalid pubkey",
    "unknown address",
    "invalid coins",
    "out of gas",
    "memo too large",
    "insufficient fee",
    "maximum number of signatures exceeded",
    "no signatures supplied",
    "failed to marshal JSON bytes",
    "failed to unmarshal JSON bytes",
    "invalid request",
    "tx already in mempool",
    "mempool is full",
    "tx too large",
    "key not found",
    "invalid account password",
    "tx intended signer does not match the given signer",
    "invalid gas adjustment",
    "invalid height",
    "invalid version",
    "invalid chain-id",
    "invalid type",
    "tx timeout height",
    "unknown extension options",
    "account sequence mismatch",
    "failed packing protobuf message to Any",
    "failed unpacking protobuf message from Any",
    "internal logic error",
    "conflict",
    "feature not supported",
    "not found",
    "internal IO error",
    "error in app.toml",
    "invalid gas limit",
    "tx timeout",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_with_its_name_space_and_read_back() {
        for (text, title) in [
            ("sdk/32", "sdk/32 account sequence mismatch"),
            ("sdk/5", "sdk/5 insufficient funds"),
            ("sdk/20", "sdk/20 mempool is full"),
            ("sdk/11", "sdk/11 out of gas"),
            ("sdk/41", "sdk/41 invalid gas limit"),
            // The same numbers mean something else elsewhere.
            ("wasm/5", "wasm/5"),
            ("5", "5"),
            ("sdk/1", "sdk/1"),
            ("sdk/4000", "sdk/4000"),
            ("-32603", "-32603"),
            ("other", "other"),
        ] {
            assert_eq!(code_title(text), title);
            if let Ok(code) = text.parse::<Code>() {
                assert_eq!(code.to_string(), text);
            }
        }
        assert_eq!(Codespace::named("sdk"), Codespace::named("sdk"));
        assert_eq!(Codespace::named(""), Codespace::NONE);
    }

    #[test]
    fn what_a_refusal_is_about_is_in_its_code() {
        let of = |code: &str| Subjects::of(&[(code.to_owned(), 1)].into());
        for (codes, transaction, unclear) in [
            (
                &[
                    "7", "sdk/2", "sdk/5", "sdk/11", "sdk/19", "wasm/5", "-26", "-27",
                ][..],
                1,
                0,
            ),
            (
                &["sdk/20", "sdk/39", "mempool/26", "-32603", "-32005", "-28"],
                0,
                0,
            ),
            (
                &["sdk/32", "sdk/13", "-25", "-32601", "400", "500", "other"],
                0,
                1,
            ),
        ] {
            for code in codes {
                assert_eq!(
                    of(code),
                    Subjects {
                        transaction,
                        unclear
                    },
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn a_node_that_makes_names_up_takes_no_memory_and_breaks_no_table() {
        let names = Names::<4>::new();
        let bad = names.place("a,b\n\"c\".d/e");
        assert_eq!(names.at(bad), "a_b__c__d_e");
        let long = names.place(&"x".repeat(1_000));
        assert_eq!(names.at(long).len(), MAX_CHARS);
        for made_up in 0..200 {
            names.place(&format!("made-up-{made_up}"));
        }
        assert_eq!(names.at(names.place("one more")), OTHER);
        assert_eq!(names.at(names.place("made-up-0")), "made-up-0");
        assert_eq!(names.place("a,b\n\"c\".d/e"), bad, "it is still known");
    }
}
