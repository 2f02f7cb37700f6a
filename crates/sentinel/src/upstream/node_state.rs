//! What is known of a node: its state and version, what happens to it, and what the blocks of its chain may hold.

use std::fmt;

use pacing::Nanos;
use rpc::FollowedBlock;

use super::health::Breaker;
use super::query::ANSWER_SHARE;

/// The place of a node in the configuration.
pub type NodeIndex = usize;

/// A node's listeners for reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeDoor {
    #[default]
    Rpc,
    Grpc,
    Rest,
}

impl NodeDoor {
    const COUNT: usize = 3;
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// It answers.
    Up {
        /// Which.
        node: NodeIndex,
        /// Whether it is fetching old blocks, and takes no transactions.
        catching_up: bool,
    },
    /// It does not answer, or broke its connections off: what it had in its mempool may be lost.
    Down {
        /// Which.
        node: NodeIndex,
        /// Why.
        reason: String,
    },
    /// A block of its chain: every height that it still has once and in order.
    Block {
        /// Which.
        node: NodeIndex,
        /// The block, without the codes of its transactions.
        block: FollowedBlock,
    },
    /// Its chain is another one now, or was set back: nothing known of its heights holds. Follows
    /// on [`Down`](Self::Down); the next block may have any height.
    ChainReplaced {
        /// Which.
        node: NodeIndex,
        /// What gave it away.
        reason: String,
    },
    /// How full its mempool is. Left out when the reader of events falls behind.
    Mempool {
        /// Which.
        node: NodeIndex,
        /// Transactions.
        txs: usize,
        /// When it was asked.
        at: Nanos,
    },
}

/// Where a node stands, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Its address.
    pub endpoint: String,
    /// Whether it answers.
    pub up: bool,
    /// Whether it is fetching old blocks.
    pub catching_up: bool,
    /// The highest block followed or heard of; 0 = none yet.
    pub height: u64,
    /// When the height last rose.
    pub risen_at: Nanos,
    /// When it was last asked for its height, of the times that it answered, and that answer.
    pub told: (Nanos, u64),
    /// Its blocks are followed from the one after this one.
    pub followed_after: Option<u64>,
    /// Its chain; empty until it answered.
    pub chain_id: String,
    /// How often its chain was replaced by another one, or set back.
    pub replacements: u64,
    /// The lowest block that it has; 0 or 1 where it has thrown none away.
    pub lowest: u64,
    /// A connection to it failed since it last answered.
    pub unreachable: bool,
    /// The version of its software; empty until it answered.
    pub version: String,
    /// Transactions in its mempool when last asked.
    pub mempool_txs: usize,
    /// What its blocks may hold; none until it answered.
    pub block_limits: Option<BlockLimits>,
    /// Transactions in the largest of the last blocks that it had when it was first asked.
    pub largest_block: u64,
    /// Since when it owes an answer to a question about its health.
    pub unanswered_since: Option<Nanos>,
    /// When the operator's drain of it ends, and why it is drained.
    pub drained: Option<(Nanos, String)>,
    /// Reads that it was asked since the start.
    pub reads: u64,
    /// What became of those at each of its listeners.
    pub(crate) breakers: [Breaker; NodeDoor::COUNT],
}

impl NodeState {
    /// Whether the operator has drained it.
    pub(crate) fn is_drained(&self, now: Nanos) -> bool {
        self.drained.as_ref().is_some_and(|(until, _)| *until > now)
    }

    /// The height of its chain when it was asked at that instant or later.
    pub(crate) fn height_since(&self, since: Nanos) -> Option<u64> {
        let (asked, height) = self.told;
        (asked >= since).then_some(height)
    }

    /// Whether it has owed an answer for so long.
    pub(crate) fn is_silent_for(&self, time: Nanos, now: Nanos) -> bool {
        self.unanswered_since
            .is_some_and(|since| now.saturating_sub(since) >= time)
    }
}

/// What a chain's blocks may hold, by its consensus parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes.
    pub bytes: u64,
    /// Gas, if it is bounded.
    pub gas: Option<u64>,
}

impl BlockLimits {
    /// Those of a chain that bounds nothing: the largest block there is (`MaxBlockSizeBytes` in CometBFT's
    /// `types/params.go`).
    pub const NONE: Self = Self {
        bytes: 100 << 20,
        gas: None,
    };

    /// What a chain has whose operators change nothing (`DefaultBlockParams`, v0.38.17).
    pub(super) const DEFAULT: Self = Self {
        bytes: 22_020_096,
        gas: None,
    };

    /// The longest answer with a block that is read: twice the base64 of such a block, for what JSON adds to its
    /// header, votes and evidence, and no more than a part of the buffers, or than the largest block of a usual chain
    /// takes. After a block that is longer nothing more is known of the chain.
    pub(super) fn answer_bytes(self, buffer_bytes: usize) -> usize {
        let block = usize::try_from(self.bytes.min(Self::NONE.bytes)).unwrap_or(usize::MAX);
        let answer = 2 * block.div_ceil(3).saturating_mul(4);
        answer.clamp(
            LEAST_ANSWER,
            (buffer_bytes / ANSWER_SHARE).max(USUAL_ANSWER),
        )
    }

    /// As in the parameters; -1 is no bound.
    pub(super) fn new(max_bytes: i64, max_gas: i64) -> Self {
        Self {
            bytes: u64::try_from(max_bytes).unwrap_or(Self::NONE.bytes),
            gas: u64::try_from(max_gas).ok().filter(|gas| *gas > 0),
        }
    }
}

/// The answer with the smallest block: header, votes of hundreds of validators, evidence.
const LEAST_ANSWER: usize = 4 << 20;
/// The answer with a full block of a chain with default parameters, which can be read whatever the buffers are: clients
/// decide how full blocks are.
pub(super) const USUAL_ANSWER: usize = 32 << 20;

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

    /// Reads the version in a node's status, such as `0.38.17`, `v0.34.24` or `1.0.0-rc1`.
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

    /// Whether a check's result contains what a mempool with priorities made of it.
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

    /// At 2b52556 it was 512 MiB, whatever the chain's blocks and the buffers were.
    #[test]
    fn case_92_the_longest_answer_with_a_block_follows_from_the_chain_and_the_buffers() {
        const MIB: usize = 1 << 20;
        for (max_bytes, buffer_mib, bytes) in [
            (22_020_096, 256, 58_720_256),
            (4 << 20, 256, 11_184_816),
            (200_000, 256, 4 * MIB),
            (0, 256, 4 * MIB),
            // No bound: the largest block there is, as far as the buffers go.
            (-1, 256, 64 * MIB),
            (-1, 2_048, 279_620_272),
            (i64::MAX, 4_096, 279_620_272),
            // Before, a client with large writes ended the reading of blocks where the buffers were small.
            (22_020_096, 64, 32 * MIB),
            (22_020_096, 1, 32 * MIB),
            (4 << 20, 1, 11_184_816),
        ] {
            let limits = BlockLimits::new(max_bytes, -1);
            assert_eq!(
                limits.answer_bytes(buffer_mib * MIB),
                bytes,
                "{max_bytes}, {buffer_mib} MiB"
            );
        }
    }

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
