//! Versions of nodes: which were tested, and what differs between them.

use std::fmt;

/// A version of a node's software, as far as its RPC depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u16,
    minor: u16,
}

/// The releases that were tested: with the real node, or by its recorded answers alone. `docs/sentinel.md` has the
/// table.
const TESTED: [(&str, Test); 7] = [
    ("0.31.5", Test::Recorded),
    ("0.32.14", Test::Recorded),
    ("0.33.9", Test::Recorded),
    ("0.34.24", Test::Recorded),
    ("0.37.15", Test::Recorded),
    ("0.38.17", Test::Run),
    ("1.0.1", Test::Recorded),
];

/// How a version was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    /// Its recorded answers are read back.
    Recorded,
    /// The real node runs as well.
    Run,
}

impl Version {
    const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads what a node says in its status, such as `0.38.17`, `v0.34.24` or `1.0.0-rc1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim_start_matches('v').split(['.', '-', '+']);
        let mut number = || numbers.next()?.parse().ok();
        Some(Self::new(number()?, number()?))
    }

    /// Whether it was tested.
    pub fn is_tested(self) -> bool {
        let mut releases = TESTED.iter().map(|(release, _)| *release);
        releases.any(|release| Self::parse(release) == Some(self))
    }

    /// Whether every route is also served under `/v1`.
    pub fn has_v1_routes(self) -> bool {
        self >= Self::new(1, 0)
    }

    /// The key of the execution's result in an answer to `broadcast_tx_commit`.
    pub fn executed_key(self) -> &'static str {
        if self < Self::new(0, 38) {
            "deliver_tx"
        } else {
            "tx_result"
        }
    }

    /// Whether a check's result says what a mempool with priorities made of it.
    pub fn has_priorities(self) -> bool {
        (Self::new(0, 34)..Self::new(0, 38)).contains(&self)
    }

    /// The keys of the gas that was wanted and used, in results.
    pub fn gas_keys(self) -> [&'static str; 2] {
        if (Self::new(0, 32)..Self::new(0, 34)).contains(&self) {
            ["gasWanted", "gasUsed"]
        } else {
            ["gas_wanted", "gas_used"]
        }
    }
}

impl Default for Version {
    /// What is assumed of a node that has not answered yet.
    fn default() -> Self {
        Self::new(0, 38)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why a node of this version is not used.
pub(super) fn untested(version: &str) -> String {
    let releases = |how| {
        let tested = TESTED.iter().filter(move |(_, test)| *test == how);
        tested.map(|(release, _)| *release).collect::<Vec<_>>()
    };
    format!(
        "its version {version:?} was not tested (tested: the real node {}; recorded answers of {}); \
         use --any-version to serve it all the same",
        releases(Test::Run).join(", "),
        releases(Test::Recorded).join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_nodes_write_them() {
        for (text, tested) in [
            ("0.38.17", true),
            ("v0.34.24", true),
            ("1.0.0-rc1", true),
            ("0.31.5", true),
            ("0.39.0", false),
            ("0.20.0", false),
            ("2.0.1", false),
        ] {
            assert_eq!(Version::parse(text).unwrap().is_tested(), tested, "{text}");
        }
        for text in ["", "unknown", "0", "a.b"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    /// At 5ff2818 the text named 0.31 to 1.0 as tested, of which only 0.38 was ever run.
    #[test]
    fn versions_59_what_is_called_tested_is_what_answers_were_recorded_of_or_what_ran() {
        let recorded = testkit::Dialect::ALL.map(|dialect| dialect.version);
        assert_eq!(recorded, TESTED.map(|(release, _)| release));
        let refused = untested("0.99.1");
        let tested = "(tested: the real node 0.38.17; recorded answers of 0.31.5, 0.32.14, 0.33.9, \
                      0.34.24, 0.37.15, 1.0.1)";
        assert!(refused.contains(tested), "{refused}");
    }

    #[test]
    fn versions_59_the_manual_says_of_each_version_how_it_was_tested() {
        let manual = include_str!("../../../../docs/sentinel.md");
        for (release, test) in TESTED {
            let rows = manual
                .lines()
                .filter(|line| line.contains("recorded answers of"));
            let mut rows = rows.filter(|line| line.contains(release));
            let row = rows.next().expect("a row of the table");
            let is_run = row.contains("the real node");
            assert_eq!(is_run, test == Test::Run, "{row}");
        }
    }
}
