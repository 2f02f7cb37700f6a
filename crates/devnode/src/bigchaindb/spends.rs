//! Admission that holds what a transaction spends against the mempool too.
//!
//! The original knows only what is committed: two spends of one output both pass its `CheckTx`, and the
//! second fails in the block. With admission on, the second is refused at `CheckTx`.

use std::collections::HashSet;
use std::sync::Arc;

use admission::{Admit, Key, KeyBits, Outcome, OutputKey, Verdict};
use bigchain::{Effect, Id};
use parking_lot::RwLock;
use tokio::sync::oneshot;

use super::state::CommittedState;

/// A transaction whose text and signatures passed.
#[derive(Debug)]
pub(super) struct Candidate {
    effect: Arc<Effect>,
    /// Gets whether it is admitted.
    answer: Option<oneshot::Sender<bool>>,
}

impl Candidate {
    /// A candidate, and where its verdict comes.
    pub(super) fn new(effect: Arc<Effect>) -> (Self, oneshot::Receiver<bool>) {
        let (answer, verdict) = oneshot::channel();
        let candidate = Self {
            effect,
            answer: Some(answer),
        };
        (candidate, verdict)
    }
}

/// Outputs that the mempool spends.
#[derive(Debug, Default)]
pub(super) struct Pending {
    spent: HashSet<(Id, u64)>,
}

impl Pending {
    /// What these transactions spend, and nothing else.
    pub(super) fn of(effects: impl Iterator<Item = Arc<Effect>>) -> Self {
        let mut spent = HashSet::new();
        for effect in effects {
            spent.extend(effect.spends());
        }
        Self { spent }
    }
}

/// Its view is of the mempool; what is committed it shares with the rest of the application.
#[derive(Debug)]
pub(super) struct Spends {
    pub(super) committed: Arc<RwLock<CommittedState>>,
}

/// An output of BigchainDB, whose index may be of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Output {
    transaction: Id,
    index: u64,
}

impl Key for Output {
    /// Indices that differ in the upper half share their bits, and are told apart by the check.
    fn bits(&self) -> KeyBits {
        let key = OutputKey {
            hash: self.transaction.0,
            index: self.index as u32,
        };
        key.bits()
    }
}

impl Admit for Spends {
    type Tx = Candidate;
    type Id = Id;
    type Key = Output;
    type View = Pending;
    type Checked = ();
    type Rejection = ();

    fn id(&self, tx: &Candidate) -> Id {
        tx.effect.id()
    }

    fn spends(&self, tx: &Candidate) -> impl Iterator<Item = Output> {
        let output = |(transaction, index)| Output { transaction, index };
        tx.effect.spends().map(output)
    }

    fn check(&self, tx: &Candidate, view: &Pending) -> Verdict<(), Id, ()> {
        let committed = self.committed.read();
        let is_free = tx
            .effect
            .spends()
            .all(|output| !view.spent.contains(&output));
        if is_free && tx.effect.check(&*committed).is_ok() {
            Verdict::Accepted(())
        } else {
            Verdict::Rejected(())
        }
    }

    fn decided(&self, tx: &mut Candidate, outcome: Outcome<'_, Self>) {
        if let Some(answer) = tx.answer.take() {
            // The client that waits may have gone.
            let _ = answer.send(matches!(outcome, Outcome::Accepted(())));
        }
    }

    fn commit(&self, view: &mut Pending, tx: Candidate, (): ()) {
        view.spent.extend(tx.effect.spends());
    }
}
