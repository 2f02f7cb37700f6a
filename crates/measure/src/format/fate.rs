//! What became of the transactions of a load, and of those that were due in a step; and the laws that no run may break:
//! what goes in comes out, once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use pacing::Nanos;
use serde::{Deserialize, Serialize};

use super::counts::{AddUp, CommittedAnyway, Displaced, adds_up, counters};
use super::event::{Failure, UNKNOWN_CODE, UnsentReason};
use crate::limits::{ANSWERS_AWAITED_S, BACKLOG_BLOCKS, MOST_AWAITED_S, SLOWEST_BLOCKS_S};

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
    /// `rejected` by the node's answer: the code, a colon, and the text with `#` for numbers that
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

counters! {
    #[serde(default)]
    /// Of the transactions *due* in a step: what had become of them when the step was judged.
    pub struct Cohort {
        /// Handed to a socket.
        due_sent,
        /// Given up.
        due_unsent,
        /// Answered with code 0.
        due_accepted,
        /// Answered otherwise, or without a usable answer.
        due_refused,
        /// Accepted, and in a block with code 0.
        due_committed,
        /// Accepted, and in a block with another code.
        due_commit_failed,
        /// Accepted, and in a block whose codes cannot be had.
        due_unverified,
        /// Out of their step by the generator's doing: left too late for it (see [`Displaced`]), or given up.
        due_behind,
        /// The same, at a limit on connections or on what may be in flight.
        due_crowded,
        /// The same, because the node held the connections up.
        due_held_up,
    }
}

impl Cohort {
    /// Counts an accepted transaction that a block executed with this code.
    pub(crate) const fn commit(&mut self, code: Option<u32>) {
        match code {
            None => {}
            Some(0) => self.due_committed += 1,
            Some(UNKNOWN_CODE) => self.due_unverified += 1,
            Some(_) => self.due_commit_failed += 1,
        }
    }

    /// Counts what was not offered in the step.
    pub(crate) const fn displace(&mut self, part: Displaced) {
        self.due_behind += part.behind;
        self.due_crowded += part.crowded;
        self.due_held_up += part.held_up;
    }

    /// Whether nothing more will come of them.
    pub(crate) const fn is_settled(&self, offered: u64, followed: bool) -> bool {
        let ended = self.due_unsent + self.due_accepted + self.due_refused;
        let in_blocks = self.due_committed + self.due_commit_failed + self.due_unverified;
        ended >= offered && (!followed || in_blocks >= self.due_accepted)
    }
}

/// What became of transactions in one stretch of time, by the steps in which they were due.
#[derive(Debug, Clone, Default)]
pub(crate) struct CohortParts(Vec<(u32, Cohort)>);

impl CohortParts {
    /// The part of a step. Most of what happens in a moment was due in the same few steps.
    pub(crate) fn of(&mut self, step: u32) -> &mut Cohort {
        let known = self.0.iter().rposition(|(other, _)| *other == step);
        let place = known.unwrap_or_else(|| {
            self.0.push((step, Cohort::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The cohorts of the steps that have no row yet.
#[derive(Debug, Default)]
pub(crate) struct Cohorts {
    open: VecDeque<Cohort>,
    first: u32,
}

impl Cohorts {
    /// Adds what happened in the next stretch of time; what belongs to a step whose row is written is
    /// left out.
    pub(crate) fn add(&mut self, parts: &CohortParts) {
        for (step, part) in &parts.0 {
            let Some(place) = step.checked_sub(self.first) else {
                continue;
            };
            let place = place as usize;
            if place >= self.open.len() && place < MAX_OPEN {
                self.open.resize(place + 1, Cohort::default());
            }
            if let Some(cohort) = self.open.get_mut(place) {
                cohort.add_up(part);
            }
        }
    }

    /// Counts what a block had of a step that was read after the rows of its time were closed.
    pub(crate) fn commit_late(&mut self, step: u32, code: u32) {
        let mut part = CohortParts::default();
        part.of(step).commit(Some(code));
        self.add(&part);
    }

    /// The cohort of a step.
    pub(crate) fn of(&self, step: u32) -> Cohort {
        let place = step.checked_sub(self.first).map(|place| place as usize);
        let cohort = place.and_then(|place| self.open.get(place));
        cohort.copied().unwrap_or_default()
    }

    /// Takes out the cohort of a step, and those before it.
    pub(crate) fn take(&mut self, step: u32) -> Cohort {
        let cohort = self.of(step);
        let passed = (step + 1).saturating_sub(self.first) as usize;
        self.open.drain(..passed.min(self.open.len()));
        self.first = self.first.max(step + 1);
        cohort
    }
}

/// How long after its end the transactions of a step are awaited, when `blocks` were seen in `elapsed`.
pub(crate) fn awaited(elapsed: Nanos, blocks: u64, followed: bool) -> Nanos {
    let blocks_s = match blocks {
        _ if !followed => 0.0,
        0 => SLOWEST_BLOCKS_S,
        _ => BACKLOG_BLOCKS * elapsed.as_secs_f64() / blocks as f64,
    };
    let seconds = blocks_s.clamp(ANSWERS_AWAITED_S, MOST_AWAITED_S);
    Nanos::from_nanos((seconds * 1e9) as u64)
}

/// Steps without a row at once; of more, the later ones are not judged.
pub(crate) const MAX_OPEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// With 10 s at most, each second step of a ramp on blocks of 20 s was without the block that had its transactions.
    #[test]
    fn a_step_waits_for_the_blocks_of_a_slow_chain_and_not_without_end() {
        let after = |seconds, blocks| awaited(Nanos::from_secs(seconds), blocks, true);
        assert_eq!(after(120, 6), Nanos::from_secs(30));
        assert_eq!(after(5_400, 9), Nanos::from_secs(900));
        assert_eq!(after(60, 120), Nanos::from_secs(1));
        assert_eq!(after(30, 0), Nanos::from_secs(10));
        assert_eq!(after(100_000, 1), Nanos::from_secs(1_800));
        assert_eq!(
            awaited(Nanos::from_secs(120), 6, false),
            Nanos::from_secs(1)
        );
    }
}
