//! The order of the accounts whose transactions a shard sends, on chains that execute an account's
//! transactions by their sequence.
//!
//! A transaction that is not taken makes the later ones of its account impossible. This finds where an
//! account's sequences broke, separates what only follows from that from the node's own refusals, and
//! decides with which sequence the account goes on.

use std::collections::HashMap;
use std::sync::Arc;

use measure::{Code, Failure, Reply, code_title};

use crate::sequences::{OnGap, Sequences};

/// The accounts of one shard.
#[derive(Debug)]
pub(super) struct Accounts {
    sequences: Arc<Sequences>,
    /// The shard's first index, and how far apart its indices are: a divisor of the accounts.
    first: u64,
    stride: u64,
    own: Box<[Own]>,
    /// The sequences of what is queued or unanswered, by index.
    under_way: HashMap<u64, u64>,
}

#[derive(Debug, Clone, Copy)]
struct Own {
    /// The sequence of its next transaction.
    next: u64,
    /// The index of its next transaction.
    index: u64,
    /// What was sent before this index was sent before its sequences broke.
    broken_until: u64,
    /// The first sequence that was never used for it.
    unused: u64,
    /// Sequences below this may have been used by two transactions of this run: one that was refused, and one
    /// after it.
    used_again: u64,
    abandoned: bool,
}

impl Accounts {
    /// Those of the shard with these indices.
    pub(super) fn new(sequences: Arc<Sequences>, first: u64, stride: u64) -> Self {
        let count = sequences.accounts() / stride;
        let own = (0..count).map(|place| {
            let index = first + place * stride;
            let next = sequences.sequence(index);
            Own {
                next,
                index,
                broken_until: 0,
                unused: next,
                used_again: next,
                abandoned: false,
            }
        });
        Self {
            own: own.collect(),
            first,
            stride,
            under_way: HashMap::new(),
            sequences,
        }
    }

    /// Which of the shard's accounts signs a transaction.
    pub(super) fn place(&self, index: u64) -> usize {
        ((index - self.first) / self.stride % self.own.len() as u64) as usize
    }

    /// The sequence that a transaction needs; `None` when its account was abandoned.
    pub(super) fn sequence(&self, index: u64) -> Option<u64> {
        let own = &self.own[self.place(index)];
        (!own.abandoned).then_some(own.next)
    }

    /// A transaction was put into the buffer of its connection.
    pub(super) fn queued(&mut self, index: u64) {
        let place = self.place(index);
        let own = &mut self.own[place];
        self.under_way.insert(index, own.next);
        own.next += 1;
        own.index = index + self.sequences.accounts();
        own.unused = own.unused.max(own.next);
    }

    /// A transaction was given up before it was sent: the next one takes its sequence.
    pub(super) fn unsent(&mut self, index: u64) {
        let place = self.place(index);
        let own = &mut self.own[place];
        match self.under_way.remove(&index) {
            Some(sequence) => own.next = own.next.min(sequence),
            None => own.index = own.index.max(index + self.sequences.accounts()),
        }
        self.sequences.go_on(own.index, own.next);
    }

    /// What became of a transaction, with the mere consequences of a broken sequence apart.
    pub(super) fn answered(&mut self, index: u64, reply: Reply) -> Reply {
        let Some(sequence) = self.under_way.remove(&index) else {
            return reply;
        };
        let place = self.place(index);
        let own = &mut self.own[place];
        let follows = index < own.broken_until;
        let expected = self.sequences.take_expected(index);
        match reply {
            Reply::Accepted if follows && sequence >= own.next => {
                // It was in sequence after all.
                own.next = sequence + 1;
                self.sequences.go_on(own.index, own.next);
                reply
            }
            Reply::Rejected { .. } if follows && expected.is_some() => {
                Reply::Failed(Failure::SequenceBroken)
            }
            Reply::Rejected { .. } | Reply::RpcError { .. } if !follows => {
                // This run assigned the sequence to exactly one transaction, so no other sender used it.
                let first_free = if sequence < own.used_again {
                    own.unused
                } else {
                    sequence
                };
                let cause = cause(reply, expected, first_free);
                if expected.is_some() {
                    self.sequences.count_mismatch();
                }
                own.broken_until = own.index;
                own.next = expected.unwrap_or(sequence);
                own.used_again = own.unused;
                own.abandoned = self.sequences.on_gap() == OnGap::Abandon;
                self.sequences.go_on(own.index, own.next);
                self.sequences.count_gap(index, &cause.text, cause.foreign);
                reply
            }
            reply => reply,
        }
    }
}

/// Why the sequences of an account broke.
struct Cause {
    text: String,
    /// Another program used the account.
    foreign: bool,
}

/// `first_free` is the first sequence that no other transaction of this run can have taken.
fn cause(reply: Reply, expected: Option<u64>, first_free: u64) -> Cause {
    let foreign = expected.is_some_and(|expected| expected > first_free);
    let text = match (reply, expected) {
        _ if foreign => "somebody else used the account".to_owned(),
        (_, Some(_)) => {
            "an earlier transaction was lost (unanswered, evicted or failed its recheck)".to_owned()
        }
        (Reply::Rejected { code, space }, None) => {
            let number = i64::from(code);
            let code = Code { space, number }.to_string();
            format!("refused with code {}", code_title(&code))
        }
        (Reply::RpcError { code }, None) => format!("JSON-RPC error {code}"),
        (Reply::Accepted | Reply::Failed(_), None) => "unknown".to_owned(),
    };
    Cause { text, foreign }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::Expectation;

    const FULL: Reply = Reply::RpcError { code: -32_603 };
    const MISMATCH: Reply = Reply::rejected(32);
    const BROKEN: Reply = Reply::Failed(Failure::SequenceBroken);

    /// Two accounts that begin at 10 and 20; indices 0, 2, 4 … are the first one's.
    fn accounts(on_gap: OnGap) -> Accounts {
        let sequences = Sequences::new([10, 20].into_iter(), on_gap, |_| None);
        Accounts::new(Arc::new(sequences), 0, 1)
    }

    fn queue(accounts: &mut Accounts, indices: &[u64]) {
        for index in indices {
            accounts.queued(*index);
        }
    }

    fn mismatch(accounts: &mut Accounts, index: u64, expected: u64) -> Reply {
        let expectation = Expectation { expected, got: 0 };
        accounts.sequences.expect(index, expectation);
        accounts.answered(index, MISMATCH)
    }

    #[test]
    fn what_is_taken_goes_on_as_planned() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 1, 2, 3]);
        for index in 0..4 {
            assert_eq!(accounts.answered(index, Reply::Accepted), Reply::Accepted);
        }
        assert_eq!(accounts.sequence(4), Some(12));
        assert_eq!(accounts.sequences.sequence(4), 12);
        assert!(accounts.sequences.gaps().is_empty());
    }

    #[test]
    fn one_refusal_is_the_node_s_and_those_behind_it_are_its_consequences() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 2, 4, 6]);
        assert_eq!(accounts.answered(0, Reply::Accepted), Reply::Accepted);
        assert_eq!(accounts.answered(2, FULL), FULL);
        assert_eq!(mismatch(&mut accounts, 4, 11), BROKEN);
        assert_eq!(mismatch(&mut accounts, 6, 11), BROKEN);
        assert_eq!(accounts.sequence(8), Some(11), "the refused one's");
        assert_eq!(accounts.sequences.sequence(8), 11, "the sources sign it so");
        assert_eq!(accounts.sequences.sequence(10), 12);
        queue(&mut accounts, &[8]);
        assert_eq!(accounts.answered(8, Reply::Accepted), Reply::Accepted);
        let gaps = accounts.sequences.gaps();
        assert_eq!(gaps.get("JSON-RPC error -32603"), Some(&1), "{gaps:?}");
        assert_eq!(gaps.len(), 1);
    }

    #[test]
    fn a_refusal_of_another_account_breaks_nothing_here() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 1, 2, 3]);
        assert_eq!(accounts.answered(0, FULL), FULL);
        assert_eq!(accounts.answered(1, Reply::Accepted), Reply::Accepted);
        assert_eq!(accounts.sequence(5), Some(22));
    }

    #[test]
    fn what_was_lost_after_it_was_accepted_is_found_by_the_chain_s_words() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 2, 4]);
        assert_eq!(accounts.answered(0, Reply::Accepted), Reply::Accepted);
        assert_eq!(
            mismatch(&mut accounts, 2, 10),
            MISMATCH,
            "no earlier refusal explains it"
        );
        assert_eq!(mismatch(&mut accounts, 4, 10), BROKEN);
        assert_eq!(accounts.sequence(6), Some(10));
        assert_eq!(accounts.sequences.foreign(), None);
        let gaps = accounts.sequences.gaps();
        assert!(gaps.keys().next().unwrap().contains("lost"), "{gaps:?}");
    }

    #[test]
    fn an_account_that_somebody_else_uses_is_named() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[1]);
        assert_eq!(mismatch(&mut accounts, 1, 25), MISMATCH);
        assert_eq!(accounts.sequence(3), Some(25));
        assert_eq!(accounts.sequences.foreign(), Some(1));
    }

    /// At 058ea7f this was a transaction of the run's own that was lost.
    #[test]
    fn a_sequence_that_somebody_else_took_first_is_told_from_one_that_was_lost() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 2]);
        assert_eq!(mismatch(&mut accounts, 0, 11), MISMATCH, "10 was taken");
        assert_eq!(accounts.sequences.foreign(), Some(0));
        assert_eq!(accounts.answered(2, Reply::Accepted), Reply::Accepted);
        assert_eq!(accounts.sequence(4), Some(12));
    }

    #[test]
    fn a_sequence_that_the_run_itself_used_twice_is_nobody_else_s() {
        let mut accounts = accounts(OnGap::Resync);
        queue(&mut accounts, &[0, 2]);
        assert_eq!(accounts.answered(0, FULL), FULL);
        assert_eq!(mismatch(&mut accounts, 2, 10), BROKEN);
        queue(&mut accounts, &[4]);
        // The node had taken transaction 0 although it answered that it had not.
        assert_eq!(mismatch(&mut accounts, 4, 11), MISMATCH);
        assert_eq!(accounts.sequences.foreign(), None);
    }

    #[test]
    fn what_is_never_sent_takes_no_sequence() {
        let mut accounts = accounts(OnGap::Resync);
        accounts.unsent(0);
        assert_eq!(accounts.sequence(2), Some(10));
        assert_eq!(accounts.sequences.sequence(4), 11);
        // Two that were in the buffer of a connection that broke.
        queue(&mut accounts, &[2, 4]);
        accounts.unsent(2);
        accounts.unsent(4);
        assert_eq!(accounts.sequence(6), Some(10));
        assert!(accounts.sequences.gaps().is_empty(), "nothing was refused");
    }

    #[test]
    fn an_abandoned_account_sends_nothing_more() {
        let mut accounts = accounts(OnGap::Abandon);
        queue(&mut accounts, &[0, 1]);
        assert_eq!(accounts.answered(0, FULL), FULL);
        assert_eq!(accounts.sequence(2), None);
        assert_eq!(accounts.sequence(3), Some(21));
        assert!(!accounts.sequences.stops());
    }

    #[test]
    fn a_gap_stops_the_run_where_that_is_wanted() {
        let mut accounts = accounts(OnGap::Stop);
        queue(&mut accounts, &[0]);
        assert!(!accounts.sequences.stops());
        accounts.answered(0, Reply::rejected(20));
        assert!(accounts.sequences.stops());
        let gaps = accounts.sequences.gaps();
        assert_eq!(gaps.get("refused with code 20"), Some(&1));
    }

    #[test]
    fn a_shard_of_several_has_every_account_of_its_indices() {
        let sequences = Sequences::new(0..6, OnGap::Resync, |_| None);
        let accounts = Accounts::new(Arc::new(sequences), 1, 3);
        // Its indices are 1, 4, 7, 10 …, its accounts 1 and 4.
        assert_eq!(accounts.own.len(), 2);
        let places = [1, 4, 7, 10].map(|index| accounts.place(index));
        assert_eq!(places, [0, 1, 0, 1]);
        assert_eq!(accounts.sequence(4), Some(4));
    }
}
