//! Clients that offer, a queue, and an emitter, on a simulated clock.

use core::net::{IpAddr, Ipv4Addr};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use fairq::{ClientKey, FairQueue, Gcra, Item, KeyScheme, Popped, QueueLimits, Weight};
use pacing::Nanos;

pub(crate) const SEED: [u64; 2] = [0x5eed, 0x0dd5];

/// The n-th IPv4 client.
pub(crate) fn client(n: u32) -> ClientKey {
    address(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n)))
}

pub(crate) fn address(address: IpAddr) -> ClientKey {
    KeyScheme::default().key(address)
}

/// Limits that nothing in a small test comes near.
pub(crate) fn roomy() -> QueueLimits {
    QueueLimits {
        entries: 4_000_000,
        bytes: 1 << 40,
        ..QueueLimits::default()
    }
}

/// A steady offer over one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) client: ClientKey,
    pub(crate) connection: u64,
    pub(crate) weight: Weight,
    /// Offers a second.
    pub(crate) rate: f64,
    /// Items in each offer.
    pub(crate) batch: u32,
    pub(crate) cost: u32,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

impl Source {
    pub(crate) fn new(client: ClientKey, rate: f64) -> Self {
        Self {
            client,
            connection: 1,
            weight: Weight::ONE,
            rate,
            batch: 1,
            cost: 1,
            from: Nanos::ZERO,
            until: Nanos::MAX,
        }
    }

    fn due(&self, n: u64) -> Option<Nanos> {
        let after = Nanos::new((n as f64 * 1e9 / self.rate) as u64);
        Some(self.from.saturating_add(after)).filter(|&at| at < self.until)
    }
}

/// One offered item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) due: Nanos,
    pub(crate) number: u64,
}

/// What a client got since the last look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) served: u64,
    pub(crate) cost: u64,
    pub(crate) waits: Vec<Nanos>,
}

impl Tally {
    pub(crate) fn wait_at(&self, part: f64) -> Nanos {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[((waits.len() - 1) as f64 * part) as usize]
    }
}

pub(crate) struct Sim {
    pub(crate) queue: FairQueue<Offer>,
    pub(crate) tally: BTreeMap<ClientKey, Tally>,
    pub(crate) refused: u64,
    emitter: Gcra,
    /// Cost of the item sent last that the emitter has not given yet.
    owed: u32,
    now: Nanos,
    sources: Vec<Source>,
    next: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
    last: BTreeMap<(ClientKey, u64), u64>,
}

impl Sim {
    /// A queue before an upstream that takes `rate` units of cost a second.
    pub(crate) fn new(limits: QueueLimits, rate: u64) -> Self {
        let rate = pacing::Rate::per_second(rate).unwrap();
        Self {
            queue: FairQueue::new(limits, SEED).unwrap(),
            tally: BTreeMap::new(),
            refused: 0,
            emitter: Gcra::new(rate, Nanos::from_millis(1)),
            owed: 0,
            now: Nanos::ZERO,
            sources: Vec::new(),
            next: BinaryHeap::new(),
            last: BTreeMap::new(),
        }
    }

    pub(crate) fn offer(&mut self, source: Source) {
        let number = self.sources.len();
        if let Some(at) = source.due(0) {
            self.next.push(Reverse((at, number, 0)));
        }
        self.sources.push(source);
    }

    /// Runs to this instant; the tally is of this stretch only.
    pub(crate) fn run(&mut self, until: Nanos) {
        self.tally.clear();
        loop {
            let arrival = self.next.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            let token = if self.queue.is_empty() {
                Nanos::MAX
            } else {
                self.emitter.next_at(self.now, 1)
            };
            let at = arrival.min(token);
            if at >= until {
                break;
            }
            self.now = at;
            if arrival <= token {
                self.arrive();
            } else {
                self.send();
            }
        }
        self.now = until;
    }

    fn arrive(&mut self) {
        let Reverse((due, number, n)) = self.next.pop().unwrap();
        let source = self.sources[number];
        for k in 0..u64::from(source.batch) {
            let number = n * u64::from(source.batch) + k;
            let item = Item {
                value: Offer { due, number },
                bytes: 250 * source.cost,
                cost: source.cost,
            };
            let pushed = self
                .queue
                .push(source.client, source.connection, source.weight, item);
            self.refused += match pushed {
                Ok(pushed) => pushed.displaced.len() as u64,
                Err(_) => 1,
            };
        }
        if let Some(at) = source.due(n + 1) {
            self.next.push(Reverse((at, number, n + 1)));
        }
    }

    fn send(&mut self) {
        if self.owed > 0 {
            self.owed -= self.emitter.take_up_to(self.now, self.owed);
            return;
        }
        self.emitter.try_take(self.now).unwrap();
        let Popped {
            client,
            connection,
            item,
            ..
        } = self.queue.pop().unwrap();
        self.owed = item.cost - 1;
        let line = (client, connection);
        let former = self.last.insert(line, item.value.number);
        assert!(
            former.is_none_or(|former| former < item.value.number),
            "out of order"
        );
        let tally = self.tally.entry(client).or_default();
        tally.served += 1;
        tally.cost += u64::from(item.cost);
        tally.waits.push(self.now.saturating_sub(item.value.due));
    }

    pub(crate) fn served(&self, client: &ClientKey) -> u64 {
        self.tally.get(client).map_or(0, |tally| tally.served)
    }
}

/// Asserts that a count is within a hundredth, or `slack`, of what it should be.
#[track_caller]
pub(crate) fn assert_near(found: u64, wanted: f64, slack: f64) {
    let off = (found as f64 - wanted).abs();
    assert!(off <= (wanted / 100.0).max(slack), "{found}, not {wanted}");
}
