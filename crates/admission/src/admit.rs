//! What an application provides, and what becomes of a transaction.

use std::hash::Hash;

use thiserror::Error;

use crate::key::Key;

/// An application whose transactions are admitted.
///
/// `check` is called by many threads at once with a view that does not change meanwhile; `commit` by one
/// thread at a time. A transaction that `check` accepted is committed as a rule, so two that may not both be
/// committed have to share a key; and once one of them is committed, a check of the other rejects it.
pub trait Admit: Send + Sync + 'static {
    /// A transaction, with what is needed to answer its client.
    type Tx: Send + 'static;
    /// What identifies a transaction.
    type Id: Copy + Eq + Hash + Send + 'static;
    /// What a transaction spends.
    type Key: Key;
    /// What checks look at: the state with everything that was committed to it.
    type View: Send + Sync + 'static;
    /// What a check found that the commit needs.
    type Checked: Send + 'static;
    /// Why a transaction is rejected.
    type Rejection: Send + 'static;

    /// The identity of a transaction.
    fn id(&self, tx: &Self::Tx) -> Self::Id;

    /// Everything that a transaction spends.
    fn spends(&self, tx: &Self::Tx) -> impl Iterator<Item = Self::Key>;

    /// Checks a transaction completely.
    fn check(&self, tx: &Self::Tx, view: &Self::View) -> VerdictOf<Self>;

    /// Tells what was decided about a transaction. Called once for each that was taken in, by the thread
    /// that found out; it must not block.
    fn decided(&self, tx: &mut Self::Tx, outcome: Outcome<'_, Self>);

    /// Adds an accepted transaction to the view, without further checks.
    fn commit(&self, view: &mut Self::View, tx: Self::Tx, checked: Self::Checked);
}

/// The verdict of an application's check.
pub type VerdictOf<A> = Verdict<<A as Admit>::Checked, <A as Admit>::Id, <A as Admit>::Rejection>;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<Checked, Id, Rejection> {
    /// It is good.
    Accepted(Checked),
    /// It spends outputs of a transaction that the view does not have.
    Missing(Id),
    /// It is not good.
    Rejected(Rejection),
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Outcome<'a, A: Admit + ?Sized> {
    /// It will be in the view after the next commit.
    Accepted(&'a A::Checked),
    /// It was rejected.
    Rejected(A::Rejection),
    /// It spends outputs of this transaction, which is unknown.
    Orphaned(A::Id),
    /// It was not decided: admission stopped, or its check panicked.
    Abandoned,
}

/// Why a transaction was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// The same transaction is being admitted.
    #[error("the transaction is being checked already")]
    Duplicate,
    /// The same transaction was accepted and waits for its commit.
    #[error("the transaction is accepted already")]
    Accepted,
    /// As many transactions are under way as the settings allow.
    #[error("too many transactions wait for their check")]
    Full,
    /// Admission has stopped.
    #[error("admission has stopped")]
    Stopped,
}
