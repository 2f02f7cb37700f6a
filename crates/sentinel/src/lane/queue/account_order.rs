//! The order of an account's writes over the connections of a client (`fair.order = "account"`).
//!
//! A client's connections take turns. A write whose turn comes while an earlier one of its account still waits for
//! another connection's turn steps aside. Once everything before it has left the queue it goes before anything else,
//! because it has had its turn. The order binds the writes of one client, because nobody verifies here who signed one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use fairq::{ClientKey, Popped};

use crate::lane::job::{AccountKey, Job};

/// The writes of each account in the order in which they came.
#[derive(Debug)]
pub(super) struct AccountOrder {
    accounts: HashMap<AccountKey, Line>,
    /// How many of each client stepped aside.
    aside: HashMap<ClientKey, usize>,
    /// Most of a client that may: as many as may wait in its queue.
    most_aside: usize,
    /// They stepped aside, and nothing is before them any more.
    ready: VecDeque<Popped<Job>>,
    next_number: u64,
}

/// What becomes of a write whose turn has come.
#[derive(Debug)]
pub(super) enum TurnTaken {
    /// It goes.
    Goes(Popped<Job>),
    /// It waits for those before it.
    SteppedAside,
    /// It would, and too many of its client do already.
    TooMany(Popped<Job>),
}

/// The writes of an account by their numbers; those that stepped aside are here.
type Line = BTreeMap<u64, Option<Box<Popped<Job>>>>;

impl AccountOrder {
    pub(super) fn new(most_aside: usize) -> Self {
        Self {
            accounts: HashMap::new(),
            aside: HashMap::new(),
            most_aside,
            ready: VecDeque::new(),
            next_number: 0,
        }
    }

    /// A write comes, and gets the next number of its account if it has one.
    pub(super) fn arrive(&mut self, job: &mut Job) {
        if let Some(account) = job.account() {
            job.notes.number = Some(self.next_number);
            let line = self.accounts.entry(account).or_default();
            line.insert(self.next_number, None);
            self.next_number += 1;
        }
    }

    /// A write leaves its queue, whatever for: those behind it may be ready now.
    pub(super) fn leave(&mut self, job: &Job) {
        let (Some(account), Some(number)) = (job.account(), job.notes.number) else {
            return;
        };
        let Some(line) = self.accounts.get_mut(&account) else {
            return;
        };
        line.remove(&number);
        while let Some(first) = line.first_entry()
            && first.get().is_some()
        {
            let popped = first.remove().expect("it was there");
            if let Entry::Occupied(mut aside) = self.aside.entry(popped.client) {
                *aside.get_mut() -= 1;
                if *aside.get() == 0 {
                    aside.remove();
                }
            }
            self.ready.push_back(*popped);
        }
        if line.is_empty() {
            self.accounts.remove(&account);
        }
    }

    /// The turn of a write has come: it goes, or steps aside until those before it have left.
    pub(super) fn take_turn(&mut self, popped: Popped<Job>) -> TurnTaken {
        let job = &popped.item.value;
        let (Some(account), Some(number)) = (job.account(), job.notes.number) else {
            return TurnTaken::Goes(popped);
        };
        let line = self.accounts.entry(account).or_default();
        if line.range(..number).next().is_none() {
            self.leave(&popped.item.value);
            return TurnTaken::Goes(popped);
        }
        let aside = self.aside.entry(popped.client).or_default();
        if *aside >= self.most_aside {
            self.leave(&popped.item.value);
            return TurnTaken::TooMany(popped);
        }
        *aside += 1;
        line.insert(number, Some(Box::new(popped)));
        TurnTaken::SteppedAside
    }

    /// The next that stepped aside and waits for nothing any more.
    pub(super) fn ready(&mut self) -> Option<Popped<Job>> {
        self.ready.pop_front()
    }

    /// Takes those out of the ready ones that `fit`.
    pub(super) fn take_ready(&mut self, fits: impl Fn(&Job) -> bool) -> Vec<Job> {
        let (taken, kept): (VecDeque<_>, _) = std::mem::take(&mut self.ready)
            .into_iter()
            .partition(|popped| fits(&popped.item.value));
        self.ready = kept;
        taken.into_iter().map(|popped| popped.item.value).collect()
    }

    /// How many are ready.
    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// How many stepped aside and still wait.
    pub(super) fn aside_len(&self) -> usize {
        self.aside.values().sum()
    }
}
