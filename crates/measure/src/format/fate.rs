//! What became of the transactions of a load, and the laws that no run may break: what goes in comes out, once.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::format::counts::{CommittedAnyway, adds_up};
use crate::format::event::{Failure, UnsentReason};

/// The planned transactions, and how many of them were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Due until offering ended.
    pub planned: u64,
    /// Handed to a socket.
    pub sent: u64,
    /// Never handed to a socket.
    pub unsent: u64,
    /// `unsent` by reason; every reason is present.
    pub unsent_by_reason: BTreeMap<String, u64>,
    /// Of `sent`, what left before the offering ended.
    #[serde(default)]
    pub sent_while_offering: u64,
}

adds_up!(Offered {
    sum: planned,
    sent,
    unsent,
    unsent_by_reason,
    sent_while_offering
});

impl Offered {
    /// With these numbers of unsent transactions, in the order of [`UnsentReason::ALL`]; without a plan,
    /// what was sent or given up was planned.
    pub(crate) fn new(
        planned: Option<u64>,
        sent: u64,
        by_reason: [u64; UnsentReason::ALL.len()],
        sent_while_offering: u64,
    ) -> Self {
        let unsent = by_reason.iter().sum();
        Self {
            planned: planned.unwrap_or(sent + unsent),
            sent,
            unsent,
            unsent_by_reason: UnsentReason::ALL
                .iter()
                .zip(by_reason)
                .map(|(reason, count)| (reason.name().to_owned(), count))
                .collect(),
            sent_while_offering,
        }
    }

    /// Unsent for one reason.
    pub fn unsent_for(&self, reason: UnsentReason) -> u64 {
        let count = self.unsent_by_reason.get(reason.name());
        count.copied().unwrap_or(0)
    }

    /// Unsent because the run was ended while they waited.
    pub fn unsent_by_the_end(&self) -> u64 {
        self.unsent_for(UnsentReason::Interrupted) + self.unsent_for(UnsentReason::Stopped)
    }
}

/// Where every sent transaction ended.
///
/// `committed`, `commit_failed`, `unverified` and `pending` divide the accepted ones. What was committed without
/// having been accepted is in `committed_anyway`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// Handed to a socket.
    pub sent: u64,
    /// CheckTx code 0.
    pub accepted: u64,
    /// Another code or a JSON-RPC error.
    pub rejected: u64,
    /// No usable answer.
    pub errors: u64,
    /// No answer by the end of the run.
    pub unanswered: u64,
    /// Accepted, and in a block with code 0.
    pub committed: u64,
    /// Accepted, and in a block with another code.
    pub commit_failed: u64,
    /// Accepted, and in a block whose results the node did not give: it may have failed.
    #[serde(default)]
    pub unverified: u64,
    /// Accepted, and in no block by the end.
    pub pending: u64,
    /// In a block although not accepted, by what the answer was.
    pub committed_anyway: CommittedAnyway,
    /// `rejected` by code: CheckTx codes are positive and behind their name space, as `sdk/32`, JSON-RPC errors
    /// negative.
    pub rejected_by_code: BTreeMap<String, u64>,
    /// `rejected` by what the node said: the code, a colon, and the text with `#` for numbers that
    /// change; empty where no texts were kept, as for a run that was killed.
    #[serde(default)]
    pub rejected_by_text: BTreeMap<String, u64>,
    /// `commit_failed` by code, behind its name space.
    #[serde(default)]
    pub commit_failed_by_code: BTreeMap<String, u64>,
    /// `errors` by kind; every kind is present.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// What came where answers should, by how it came and how it begins, with `#` for numbers that change; empty where
    /// no texts were kept. One message may have been for several transactions.
    #[serde(default)]
    pub unusable_by_text: BTreeMap<String, u64>,
    /// How often the sequences of an account broke, by cause; empty where accounts have none. What it made
    /// impossible is in `errors_by_kind` and `unsent_by_reason` as `sequence_broken`.
    #[serde(default)]
    pub sequence_gaps: BTreeMap<String, u64>,
}

adds_up!(Fate {
    sum: sent,
    accepted,
    rejected,
    errors,
    unanswered,
    committed,
    commit_failed,
    unverified,
    pending,
    committed_anyway,
    rejected_by_code,
    rejected_by_text,
    commit_failed_by_code,
    errors_by_kind,
    unusable_by_text,
    sequence_gaps
});

/// Counts of failures by their names.
pub(crate) fn by_kind(counts: [u64; Failure::ALL.len()]) -> BTreeMap<String, u64> {
    let kinds = Failure::ALL.iter().zip(counts);
    kinds
        .map(|(kind, count)| (kind.name().to_owned(), count))
        .collect()
}

/// Every law with both of its sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Whether every law holds.
    pub holds: bool,
    /// The laws.
    pub laws: Vec<Law>,
}

/// One law: `left` and `right` are equal in a sound run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Law {
    /// The law in words, for example `planned = sent + unsent`.
    pub law: String,
    /// Its left side.
    pub left: u64,
    /// Its right side.
    pub right: u64,
}

impl Conservation {
    pub(crate) fn of(offered: &Offered, fate: &Fate, own_txs: u64) -> Self {
        let laws = vec![
            Law::new(
                "planned = sent + unsent",
                offered.planned,
                offered.sent + offered.unsent,
            ),
            Law::new(
                "sent = accepted + rejected + errors + unanswered",
                fate.sent,
                fate.accepted + fate.rejected + fate.errors + fate.unanswered,
            ),
            Law::new(
                "accepted = committed + commit_failed + unverified + pending",
                fate.accepted,
                fate.committed + fate.commit_failed + fate.unverified + fate.pending,
            ),
            Law::new(
                "own transactions in blocks = committed + commit_failed + unverified + committed_anyway",
                own_txs,
                fate.committed
                    + fate.commit_failed
                    + fate.unverified
                    + fate.committed_anyway.total(),
            ),
        ];
        Self {
            holds: laws.iter().all(Law::holds),
            laws,
        }
    }

    /// The laws that are broken.
    pub fn broken(&self) -> impl Iterator<Item = &Law> {
        self.laws.iter().filter(|law| !law.holds())
    }
}

impl Law {
    fn new(law: &str, left: u64, right: u64) -> Self {
        Self {
            law: law.to_owned(),
            left,
            right,
        }
    }

    /// Whether both sides are equal.
    pub const fn holds(&self) -> bool {
        self.left == self.right
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, left, right } = self;
        let sign = if left == right { '=' } else { '≠' };
        write!(f, "{law}: {left} {sign} {right}")
    }
}
