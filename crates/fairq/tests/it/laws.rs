//! Nothing is lost, nothing comes twice, nothing is reordered, and the counts add up: fairness case
//! 12, and whatever else can be done to a queue, in any order.

use core::net::Ipv6Addr;
use std::collections::BTreeMap;

use fairq::{Age, ClientKey, FairQueue, Item, QueueLimits, Refusal, Weight};
use proptest::prelude::*;

use crate::sim::{SEED, address, client};

#[derive(Debug, Clone)]
enum Deed {
    Push {
        who: u32,
        connection: u64,
        bytes: u32,
        cost: u32,
        weight: u32,
    },
    Pop,
    RemoveConnection {
        who: u32,
        connection: u64,
        modulus: u64,
    },
    RemoveOldest(u64),
    Hold(u32, Option<u64>),
    Release(u32, Option<u64>),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let who = || 0_u32..9;
    let connection = || 0_u64..3;
    let push = (who(), connection(), 1_u32..400, 0_u32..6, 1_u32..4).prop_map(
        |(who, connection, bytes, cost, weight)| Deed::Push {
            who,
            connection,
            bytes,
            cost,
            weight,
        },
    );
    let deed = prop_oneof![
        10 => push,
        6 => Just(Deed::Pop),
        1 => (who(), connection(), 1_u64..4)
            .prop_map(|(who, connection, modulus)| Deed::RemoveConnection { who, connection, modulus }),
        1 => (0_u64..3).prop_map(Deed::RemoveOldest),
        1 => (who(), prop::option::of(connection())).prop_map(|(who, line)| Deed::Hold(who, line)),
        1 => (who(), prop::option::of(connection())).prop_map(|(who, line)| Deed::Release(who, line)),
    ];
    prop::collection::vec(deed, 1..400)
}

fn limits() -> impl Strategy<Value = QueueLimits> {
    (1_usize..6, 1_usize..8, 1_usize..40, 300_usize..4_000).prop_map(
        |(clients, per_client, entries, bytes)| QueueLimits {
            clients,
            per_client,
            entries,
            bytes,
            per_site: 2,
            quantum: 2,
        },
    )
}

/// The last three are of one IPv6 site.
fn who_is(who: u32) -> ClientKey {
    match who {
        0..6 => client(who),
        _ => address(
            Ipv6Addr::from_bits((0x2001_0db8_0000 << 80) | u128::from(who) << 64 | 1).into(),
        ),
    }
}

#[derive(Default)]
struct Waiting {
    bytes: u32,
    connection: u64,
}

/// What ought to be in the queue: the numbers of each client's items, which count up with their
/// arrival.
struct Model {
    queue: FairQueue<u64>,
    waiting: BTreeMap<u32, BTreeMap<u64, Waiting>>,
    /// How often each client or connection is held.
    held: BTreeMap<(u32, Option<u64>), usize>,
    arrivals: u64,
}

impl Model {
    fn number_of(key: ClientKey) -> u32 {
        (0..9).find(|&who| who_is(who) == key).unwrap()
    }

    /// The items in one line with this one.
    fn line(&self, who: u32, connection: u64) -> Vec<u64> {
        let all = &self.waiting[&who];
        all.iter()
            .filter(|(_, held)| held.connection == connection)
            .map(|(&number, _)| number)
            .collect()
    }

    fn remove(&mut self, who: u32, number: u64) {
        self.waiting
            .get_mut(&who)
            .unwrap()
            .remove(&number)
            .expect("it was there, once");
    }

    fn push(&mut self, deed: &Deed) {
        let &Deed::Push {
            who,
            connection,
            bytes,
            cost,
            weight,
        } = deed
        else {
            return;
        };
        self.arrivals += 1;
        let item = Item {
            value: self.arrivals,
            bytes,
            cost,
        };
        let before = (self.queue.len(), self.queue.bytes());
        let limits = *self.queue.limits();
        let own = self.queue.backlog(&who_is(who)).entries;
        match self
            .queue
            .push(who_is(who), connection, Weight::new(weight).unwrap(), item)
        {
            Ok(pushed) => {
                assert!(own < limits.per_client);
                for popped in pushed.displaced {
                    let whose = Self::number_of(popped.client);
                    assert_ne!(whose, who, "nobody displaces its own");
                    let line = self.line(whose, popped.connection);
                    assert_eq!(
                        line.last(),
                        Some(&popped.item.value),
                        "only the newest goes"
                    );
                    self.remove(whose, popped.item.value);
                }
                let held = Waiting { bytes, connection };
                self.waiting
                    .entry(who)
                    .or_default()
                    .insert(self.arrivals, held);
            }
            Err(refused) => {
                assert_eq!(refused.item.value, self.arrivals);
                assert_eq!(before, (self.queue.len(), self.queue.bytes()));
                match refused.reason {
                    Refusal::QueueFull => assert!(own >= limits.per_client),
                    Refusal::Clients => {
                        assert_eq!(own, 0);
                        assert!(
                            !self.queue.is_empty(),
                            "while nobody waits nobody is refused"
                        );
                        assert!(who >= 6 || self.queue.flows() == limits.clients);
                    }
                    Refusal::Entries => assert!(before.0 >= limits.entries),
                    Refusal::Bytes => assert!(before.1 + u64::from(bytes) > limits.bytes as u64),
                }
            }
        }
    }

    fn pop(&mut self) {
        let Some(popped) = self.queue.pop() else {
            let connections = |(who, all): (&u32, &BTreeMap<u64, Waiting>)| {
                let held = |one: &Waiting| self.is_held(*who, one.connection);
                all.values().all(held)
            };
            assert!(self.waiting.iter().all(connections), "it could have");
            return;
        };
        let who = Self::number_of(popped.client);
        assert!(!self.is_held(who, popped.connection), "it is held");
        let number = popped.item.value;
        assert_eq!(self.waiting[&who][&number].connection, popped.connection);
        assert_eq!(
            self.line(who, popped.connection)[0],
            number,
            "the oldest comes first"
        );
        self.remove(who, number);
    }

    fn is_held(&self, who: u32, connection: u64) -> bool {
        [None, Some(connection)].iter().any(|line| {
            let times = self.held.get(&(who, *line));
            times.is_some_and(|times| *times > 0)
        })
    }

    fn hold(&mut self, who: u32, connection: Option<u64>) {
        self.queue.hold(who_is(who), connection);
        *self.held.entry((who, connection)).or_default() += 1;
    }

    fn release(&mut self, who: u32, connection: Option<u64>) {
        self.queue.release(who_is(who), connection);
        let times = self.held.entry((who, connection)).or_default();
        *times = times.saturating_sub(1);
    }

    fn remove_some(&mut self, who: u32, connection: u64, modulus: u64) {
        let keep = |number: &u64| !number.is_multiple_of(modulus);
        let mut removed = Vec::new();
        self.queue
            .remove_connection(&who_is(who), connection, keep, |item| {
                removed.push(item.value);
            });
        removed.sort_unstable();
        let empty = BTreeMap::new();
        let all = self.waiting.get(&who).unwrap_or(&empty).iter();
        let wanted: Vec<u64> = all
            .filter(|(number, held)| held.connection == connection && !keep(number))
            .map(|(&number, _)| number)
            .collect();
        assert_eq!(removed, wanted);
        for number in wanted {
            self.remove(who, number);
        }
    }

    fn remove_oldest(&mut self, modulus: u64) {
        let mut removed = Vec::new();
        let over = |number: &u64| number % 4 < modulus;
        let age = |number: &mut u64| if over(number) { Age::Over } else { Age::Young };
        self.queue
            .remove_oldest(age, |who, item| removed.push((who, item.value)));
        for (who, number) in removed {
            assert!(over(&number));
            self.remove(Self::number_of(who), number);
        }
    }

    fn act(&mut self, deed: &Deed) {
        match *deed {
            Deed::Push { .. } => self.push(deed),
            Deed::Pop => self.pop(),
            Deed::RemoveConnection {
                who,
                connection,
                modulus,
            } => {
                self.remove_some(who, connection, modulus);
            }
            Deed::RemoveOldest(modulus) => self.remove_oldest(modulus),
            Deed::Hold(who, connection) => self.hold(who, connection),
            Deed::Release(who, connection) => self.release(who, connection),
        }
        self.check();
    }

    fn check(&self) {
        let items = || self.waiting.values().flat_map(BTreeMap::values);
        assert_eq!(self.queue.len(), items().count());
        assert_eq!(
            self.queue.bytes(),
            items().map(|held| u64::from(held.bytes)).sum::<u64>()
        );
        let mut backlogged = 0;
        for who in 0..9 {
            let waiting = self.waiting.get(&who).map_or(0, BTreeMap::len);
            assert_eq!(self.queue.backlog(&who_is(who)).entries, waiting);
            backlogged += usize::from(waiting > 0);
        }
        assert_eq!(self.queue.backlogged_clients(), backlogged);
        assert_eq!(self.queue.longest().count(), backlogged);
        assert!(self.queue.flows() <= self.queue.limits().clients);
    }

    /// Pops until nothing is left, of the items or of the flows.
    fn empty(&mut self) {
        for ((who, line), times) in self.held.clone() {
            for _ in 0..times {
                self.act(&Deed::Release(who, line));
            }
        }
        while !self.queue.is_empty() {
            self.act(&Deed::Pop);
        }
        assert!(self.queue.is_empty());
        let total = self
            .queue
            .fair_share(&client(77), Weight::ONE, "7/s".parse().unwrap());
        assert!((total - 7.0).abs() < 1e-9, "nobody else is backlogged");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn fairness_12_nothing_lost_twice_or_out_of_order(
        limits in limits(),
        deeds in deeds(),
    ) {
        let mut model = Model {
            queue: FairQueue::new(limits, SEED).unwrap(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            arrivals: 0,
        };
        for deed in &deeds {
            model.act(deed);
        }
        model.empty();
    }
}
