//! The sequences of a run's accounts: planned, and where the chain went another way.
//!
//! The plan is that every transaction is taken: the n-th one of an account has its first sequence plus
//! n. What is refused or never sent takes no sequence, so the account's later transactions need lower
//! ones: the account's shard publishes by how much, and the threads that sign read it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use clap::ValueEnum;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What becomes of an account whose transaction was not taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnGap {
    /// Its later transactions take the sequence that the chain expects.
    #[default]
    Resync,
    /// The run stops, drained and written.
    Stop,
    /// Its later transactions are not sent, and counted as unsent.
    Abandon,
}

/// What is known of the sequences of all accounts; shared by all threads of a run.
#[derive(Debug)]
pub struct Sequences {
    on_gap: OnGap,
    read: fn(&str) -> Option<Expectation>,
    lanes: Box<[Lane]>,
    gaps: Mutex<BTreeMap<String, u64>>,
    /// Refusals by the sequence that followed from no refusal before.
    mismatches: AtomicU64,
    /// The first account that another program used.
    foreign: Mutex<Option<usize>>,
    stop: AtomicBool,
}

/// One account. Written by the shard that sends its transactions.
#[derive(Debug)]
struct Lane {
    start: u64,
    shift: AtomicI64,
    /// What the chain expects and one; 0 when it is unknown.
    expected: AtomicU64,
}

/// The sequence that the chain expects for an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// The sequence that it expects.
    pub expected: u64,
    /// The sequence that it got.
    pub got: u64,
}

impl Sequences {
    /// Accounts with these sequences, in the order in which they sign. `read` finds in a refusal's text what the
    /// chain expects.
    pub fn new(
        starts: impl Iterator<Item = u64>,
        on_gap: OnGap,
        read: fn(&str) -> Option<Expectation>,
    ) -> Self {
        let lanes = starts.map(|start| Lane {
            start,
            shift: AtomicI64::new(0),
            expected: AtomicU64::new(0),
        });
        Self {
            on_gap,
            read,
            lanes: lanes.collect(),
            gaps: Mutex::default(),
            mismatches: AtomicU64::new(0),
            foreign: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// The sequence that the chain expects by a refusal's text, if it is there.
    pub fn read(&self, refusal: &str) -> Option<Expectation> {
        (self.read)(refusal)
    }

    /// What becomes of an account whose transaction was not taken.
    pub fn on_gap(&self) -> OnGap {
        self.on_gap
    }

    /// How many accounts sign in turn.
    pub fn accounts(&self) -> u64 {
        self.lanes.len() as u64
    }

    /// Which account signs transaction `index`.
    pub fn account(&self, index: u64) -> usize {
        (index % self.accounts()) as usize
    }

    /// The sequence of transaction `index` if all before it are taken.
    pub fn planned(&self, index: u64) -> u64 {
        let lane = &self.lanes[self.account(index)];
        lane.start + index / self.accounts()
    }

    /// The sequence of transaction `index` as far as is known now.
    pub fn sequence(&self, index: u64) -> u64 {
        let lane = &self.lanes[self.account(index)];
        let shift = lane.shift.load(Ordering::Relaxed);
        self.planned(index).saturating_add_signed(shift)
    }

    /// From transaction `index` on, its account goes on with this sequence.
    pub fn go_on(&self, index: u64, sequence: u64) {
        let shift = sequence.wrapping_sub(self.planned(index)).cast_signed();
        let lane = &self.lanes[self.account(index)];
        lane.shift.store(shift, Ordering::Relaxed);
    }

    /// The chain refused transaction `index` and sent the sequence that it expects of the account.
    pub fn expect(&self, index: u64, expectation: Expectation) {
        let lane = &self.lanes[self.account(index)];
        let expected = expectation.expected.saturating_add(1);
        lane.expected.store(expected, Ordering::Relaxed);
    }

    /// The sequence that the chain expects of the account of transaction `index`, since this was asked
    /// last.
    pub fn take_expected(&self, index: u64) -> Option<u64> {
        let lane = &self.lanes[self.account(index)];
        lane.expected.swap(0, Ordering::Relaxed).checked_sub(1)
    }

    /// Counts a gap by its cause; `foreign`: another program used the account.
    pub fn count_gap(&self, index: u64, cause: &str, foreign: bool) {
        if foreign {
            let account = self.account(index);
            let mut first = self.foreign.lock();
            first.get_or_insert(account);
        }
        let mut gaps = self.gaps.lock();
        let known = gaps.len() < MAX_CAUSES || gaps.contains_key(cause);
        let cause = if known { cause } else { "other" };
        *gaps.entry(cause.to_owned()).or_default() += 1;
        if self.on_gap == OnGap::Stop {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a refusal by the sequence that no earlier refusal explains: the others are consequences, and
    /// no refusals of the node's own.
    pub fn count_mismatch(&self) {
        self.mismatches.fetch_add(1, Ordering::Relaxed);
    }

    /// Refusals that were counted so.
    pub fn mismatches(&self) -> u64 {
        self.mismatches.load(Ordering::Relaxed)
    }

    /// Gaps by their cause.
    pub fn gaps(&self) -> BTreeMap<String, u64> {
        self.gaps.lock().clone()
    }

    /// The first account that another program used.
    pub fn foreign(&self) -> Option<usize> {
        *self.foreign.lock()
    }

    /// Whether a gap ends the run.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Causes counted apart; some come from the node, so their number must be bounded here.
const MAX_CAUSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_s_sequences_follow_each_other_and_go_on_where_they_are_told() {
        let sequences = Sequences::new([5, 70].into_iter(), OnGap::Resync, |_| None);
        let of = |indices: [u64; 3]| indices.map(|index| sequences.sequence(index));
        assert_eq!(of([0, 2, 4]), [5, 6, 7]);
        assert_eq!(of([1, 3, 5]), [70, 71, 72]);
        sequences.go_on(4, 6);
        assert_eq!(of([4, 6, 8]), [6, 7, 8]);
        assert_eq!(of([1, 3, 5]), [70, 71, 72], "the other account's stay");
        sequences.go_on(6, 100);
        assert_eq!(sequences.sequence(8), 101);
    }
}
