//! A ledger of coins, small enough to be checked in every interleaving; shared by the tests of `admission` and its bench.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use admission::{Admit, Filter, Key, KeyBits, Outcome, Verdict};

/// A transaction and the number of one of its outputs.
pub(crate) type Coin = (u32, u32);

/// Outputs of each transaction, as keys tell them apart.
pub(crate) const OUTPUTS: u32 = 2;
/// The transaction that is in the ledger from the beginning.
pub(crate) const GENESIS: u32 = 0;

/// A transaction, with what shows that it may spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payment<P = ()> {
    /// Its number.
    pub(crate) id: u32,
    /// What it spends.
    pub(crate) spends: Vec<Coin>,
    /// What is checked beside that.
    pub(crate) proof: P,
}

/// A payment without a proof.
pub(crate) fn payment(id: u32, spends: &[Coin]) -> Payment {
    let spends = spends.to_vec();
    Payment {
        id,
        spends,
        proof: (),
    }
}

/// What is committed, in order.
#[derive(Debug, Clone)]
pub(crate) struct Ledger<P = ()> {
    /// The payments.
    pub(crate) order: Vec<Payment<P>>,
    made: HashSet<u32>,
    spent: HashSet<Coin>,
}

impl<P> Ledger<P> {
    /// With the first transaction alone.
    pub(crate) fn genesis() -> Self {
        Self {
            order: Vec::new(),
            made: HashSet::from([GENESIS]),
            spent: HashSet::new(),
        }
    }

    /// Marks a coin as spent, as a block from elsewhere does.
    pub(crate) fn spend(&mut self, coin: Coin) {
        self.spent.insert(coin);
    }
}

/// What became of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is committed.
    Accepted,
    /// It is not, and why.
    Rejected(&'static str),
    /// It spends what this transaction did not make.
    Orphaned(u32),
    /// It was not decided.
    Abandoned,
}

/// Checks the proofs of payments and takes their fates.
pub(crate) trait Witness: Send + Sync + 'static {
    /// What shows that a payment may spend.
    type Proof: Send + 'static;

    /// Whether it does.
    fn proves(&self, payment: &Payment<Self::Proof>) -> bool;

    /// A payment met its fate.
    fn decided(&self, payment: &Payment<Self::Proof>, fate: Fate);

    /// The key of a coin.
    fn key(coin: Coin) -> KeyBits {
        [coin.0 * OUTPUTS + coin.1, coin.0, coin.1, 0, 0, 0, 0, 0]
    }
}

/// The application.
#[derive(Debug, Default)]
pub(crate) struct Coins<W = Book>(pub(crate) W);

/// A witness that believes everything and writes down what was decided.
#[derive(Debug, Default)]
pub(crate) struct Book(pub(crate) Arc<Mutex<BTreeMap<u32, Vec<Fate>>>>);

impl Witness for Book {
    type Proof = ();

    fn proves(&self, payment: &Payment) -> bool {
        assert!(payment.id != PANICS, "this transaction's check panics");
        true
    }

    fn decided(&self, payment: &Payment, fate: Fate) {
        // A test that panicked elsewhere has failed already.
        if let Ok(mut fates) = self.0.lock() {
            fates.entry(payment.id).or_default().push(fate);
        }
    }
}

impl Coins {
    /// With the book that it writes to.
    #[expect(clippy::type_complexity, reason = "a test's book")]
    pub(crate) fn new() -> (Self, Arc<Mutex<BTreeMap<u32, Vec<Fate>>>>) {
        let fates = Arc::default();
        (Self(Book(Arc::clone(&fates))), fates)
    }
}

impl<W: Witness> Admit for Coins<W>
where
    W::Proof: Sync,
{
    type Tx = Payment<W::Proof>;
    type Id = u32;
    type Key = KeyBits;
    type View = Ledger<W::Proof>;
    type Checked = ();
    type Rejection = &'static str;

    fn id(&self, tx: &Self::Tx) -> u32 {
        tx.id
    }

    fn spends(&self, tx: &Self::Tx) -> impl Iterator<Item = KeyBits> {
        tx.spends.iter().map(|coin| W::key(*coin))
    }

    fn check(&self, tx: &Self::Tx, view: &Self::View) -> Verdict<(), u32, &'static str> {
        if view.made.contains(&tx.id) {
            return Verdict::Rejected("known");
        }
        for (at, coin) in tx.spends.iter().enumerate() {
            if tx.spends[..at].contains(coin) {
                return Verdict::Rejected("twice in itself");
            }
            if !view.made.contains(&coin.0) {
                return Verdict::Missing(coin.0);
            }
            if view.spent.contains(coin) {
                return Verdict::Rejected("spent");
            }
        }
        if self.0.proves(tx) {
            Verdict::Accepted(())
        } else {
            Verdict::Rejected("not proved")
        }
    }

    fn decided(&self, tx: &mut Self::Tx, outcome: Outcome<'_, Self>) {
        let fate = match outcome {
            Outcome::Accepted(()) => Fate::Accepted,
            Outcome::Rejected(why) => Fate::Rejected(why),
            Outcome::Orphaned(parent) => Fate::Orphaned(parent),
            Outcome::Abandoned => Fate::Abandoned,
        };
        self.0.decided(tx, fate);
    }

    fn commit(&self, view: &mut Self::View, tx: Self::Tx, (): ()) {
        view.made.insert(tx.id);
        view.spent.extend(&tx.spends);
        view.order.push(tx);
    }
}

/// A transaction whose check is a mistake of the application.
pub(crate) const PANICS: u32 = 4_000_000_000;

/// A filter of a few bits: nearly everything conflicts, also the keys of one transaction.
#[derive(Debug)]
pub(crate) struct Narrow(Vec<bool>);

impl Narrow {
    /// Of so many bits.
    pub(crate) fn new(bits: usize) -> Self {
        Self(vec![false; bits])
    }
}

impl<K: Key> Filter<K> for Narrow {
    fn claim(&mut self, key: &K) -> bool {
        let at = key.bits()[0] as usize % self.0.len();
        !std::mem::replace(&mut self.0[at], true)
    }

    fn contains(&self, key: &K) -> bool {
        self.0[key.bits()[0] as usize % self.0.len()]
    }

    fn clear(&mut self) {
        self.0.fill(false);
    }
}

/// Every key, exactly. It grows with the keys until it is cleared and keeps its memory then; the number
/// of keys in an epoch bounds it.
#[derive(Debug, Clone)]
pub(crate) struct ExactSet<K> {
    keys: HashSet<K>,
}

impl<K> Default for ExactSet<K> {
    fn default() -> Self {
        Self {
            keys: HashSet::new(),
        }
    }
}

impl<K: Key> Filter<K> for ExactSet<K> {
    fn claim(&mut self, key: &K) -> bool {
        self.keys.insert(*key)
    }

    fn contains(&self, key: &K) -> bool {
        self.keys.contains(key)
    }

    fn clear(&mut self) {
        self.keys.clear();
    }
}
