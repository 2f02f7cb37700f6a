//! What an application provides, what its transactions spend, and what becomes of them.

use std::hash::Hash;

use thiserror::Error;

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

    /// Receives what was decided about a transaction. Called once for each that was taken in, by the thread
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

/// A key as eight little-endian words. A filter cuts its positions from them, so they have to be close
/// to uniformly distributed, as a cryptographic hash is.
pub type KeyBits = [u32; 8];

/// Something that can be spent once.
pub trait Key: Copy + Eq + Hash + Send + Sync {
    /// The key's bits.
    fn bits(&self) -> KeyBits;
}

impl Key for KeyBits {
    fn bits(&self) -> KeyBits {
        *self
    }
}

/// A reference to an output: the hash of the transaction that made it, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutputKey {
    /// Hash of the transaction, in the order of its bytes in memory.
    pub hash: [u8; 32],
    /// Index of the output.
    pub index: u32,
}

/// One odd number for each word: 2^32 divided by the golden ratio, and its multiples made odd.
const SPREAD: KeyBits = [
    0x9e37_79b9,
    0x3c6e_f373,
    0xdaa6_6d2b,
    0x78dd_e6e5,
    0x1715_609d,
    0xb54c_da57,
    0x5384_540f,
    0xf1bb_cdc9,
];

impl OutputKey {
    /// The key of the Gigablock testnet's later form: the low 16 bits of the index, XORed into words
    /// 0, 2, 4 and 6. Two outputs of one transaction share half of their positions.
    pub fn gigablock_bits(&self) -> KeyBits {
        let mut words = self.words();
        for word in words.iter_mut().step_by(2) {
            *word ^= self.index & 0xffff;
        }
        words
    }

    fn words(&self) -> KeyBits {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(self.hash.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        words
    }
}

impl Key for OutputKey {
    /// The hash with the index mixed into every word.
    fn bits(&self) -> KeyBits {
        let mut words = self.words();
        for (word, spread) in words.iter_mut().zip(SPREAD) {
            *word ^= self.index.wrapping_mul(spread);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_changes_every_second_word_in_the_compat_form_and_every_word_in_ours() {
        let hash = std::array::from_fn(|at| at as u8);
        let changed = |bits: fn(&OutputKey) -> KeyBits| -> Vec<usize> {
            let one = bits(&OutputKey { hash, index: 1 });
            let two = bits(&OutputKey { hash, index: 2 });
            (0..8).filter(|at| one[*at] != two[*at]).collect()
        };
        assert_eq!(changed(OutputKey::gigablock_bits), [0, 2, 4, 6]);
        assert_eq!(changed(OutputKey::bits), [0, 1, 2, 3, 4, 5, 6, 7]);
        let key = OutputKey {
            hash,
            index: 0x0005_1234,
        };
        let words = key.gigablock_bits();
        assert_eq!(words[0], 0x0302_0100 ^ 0x1234);
        assert_eq!(words[1], 0x0706_0504);
    }
}
