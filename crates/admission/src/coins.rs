//! A ledger of coins, small enough to be checked in every interleaving; for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::admit::{Admit, Outcome, Verdict};
use crate::filter::Filter;
use crate::key::{Key, KeyBits};

/// A transaction and the number of one of its outputs.
pub(crate) type Coin = (u32, u32);

/// Outputs of each transaction.
pub(crate) const OUTPUTS: u32 = 2;
/// The transaction that is in the ledger from the beginning.
pub(crate) const GENESIS: u32 = 0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: u32,
    pub(crate) spends: Vec<Coin>,
}

pub(crate) fn payment(id: u32, spends: &[Coin]) -> Payment {
    let spends = spends.to_vec();
    Payment { id, spends }
}

/// What is committed, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) order: Vec<Payment>,
    made: BTreeSet<u32>,
    spent: BTreeSet<Coin>,
}

impl Ledger {
    pub(crate) fn genesis() -> Self {
        let made = BTreeSet::from([GENESIS]);
        Self {
            made,
            ..Self::default()
        }
    }

    /// As a block of somebody else's does.
    pub(crate) fn spend(&mut self, coin: Coin) {
        self.spent.insert(coin);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Accepted,
    Rejected(&'static str),
    Orphaned(u32),
    Abandoned,
}

/// The application. It writes down what was decided.
#[derive(Debug, Default)]
pub(crate) struct Coins {
    pub(crate) fates: std::sync::Arc<Mutex<BTreeMap<u32, Vec<Fate>>>>,
}

impl Coins {
    /// With the book that it writes to.
    #[expect(clippy::type_complexity, reason = "a test's book")]
    pub(crate) fn new() -> (Self, std::sync::Arc<Mutex<BTreeMap<u32, Vec<Fate>>>>) {
        let coins = Self::default();
        let fates = std::sync::Arc::clone(&coins.fates);
        (coins, fates)
    }
}

impl Admit for Coins {
    type Tx = Payment;
    type Id = u32;
    type Key = KeyBits;
    type View = Ledger;
    type Checked = ();
    type Rejection = &'static str;

    fn id(&self, tx: &Payment) -> u32 {
        tx.id
    }

    fn spends(&self, tx: &Payment) -> impl Iterator<Item = KeyBits> {
        let key = |(id, output): &Coin| [id * OUTPUTS + output, *id, *output, 0, 0, 0, 0, 0];
        tx.spends.iter().map(key)
    }

    fn check(&self, tx: &Payment, view: &Ledger) -> Verdict<(), u32, &'static str> {
        assert!(tx.id != PANICS, "this transaction's check panics");
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
        Verdict::Accepted(())
    }

    fn decided(&self, tx: &mut Payment, outcome: Outcome<'_, Self>) {
        let fate = match outcome {
            Outcome::Accepted(()) => Fate::Accepted,
            Outcome::Rejected(why) => Fate::Rejected(why),
            Outcome::Orphaned(parent) => Fate::Orphaned(parent),
            Outcome::Abandoned => Fate::Abandoned,
        };
        let mut fates = self.fates.lock().unwrap();
        fates.entry(tx.id).or_default().push(fate);
    }

    fn commit(&self, view: &mut Ledger, tx: Payment, (): ()) {
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
