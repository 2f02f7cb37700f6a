//! What the rows of observed nodes show: how fast each admitted, how long blocks took to reach them, what a
//! transaction a second costs, and what was busy where a stage gave.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::rows::{NodeRow, SightRow};

/// How long a block took from the first observed node to another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Propagation {
    /// The block's hash, or its height where that distinguishes blocks.
    pub block: String,
    /// The node that had it later.
    pub node: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Seconds after the first node.
    pub delay_s: f64,
    /// By how much that may be off, as either node was polled; 0 where both announced the block.
    pub unsure_s: f64,
}

/// The delay of each block at every node that did not have it first. Blocks that only one node showed say
/// nothing.
pub fn propagations(sights: &[SightRow]) -> Vec<Propagation> {
    let mut blocks: BTreeMap<&str, Vec<&SightRow>> = BTreeMap::new();
    for sight in sights.iter().filter(|sight| sight.kind == SightRow::BLOCK) {
        blocks.entry(&sight.id).or_default().push(sight);
    }
    let later = |mut sights: Vec<&SightRow>| {
        sights.sort_by_key(|sight| sight.seen_ns);
        let first = sights[0];
        let polled_s = |sight: &SightRow| sight.resolution_ms.unwrap_or_default() / 1e3;
        let delay = move |sight: &SightRow| Propagation {
            block: sight.id.clone(),
            node: sight.node.clone(),
            bytes: sight.bytes.unwrap_or_default(),
            delay_s: (sight.seen_ns - first.seen_ns) as f64 / 1e9,
            unsure_s: polled_s(sight).max(polled_s(first)),
        };
        sights[1..]
            .iter()
            .map(|sight| delay(sight))
            .collect::<Vec<_>>()
    };
    blocks.into_values().flat_map(later).collect()
}

/// How often miners' blocks competed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forks {
    /// Blocks that were seen at any node.
    pub blocks: u64,
    /// Their heights: of each height one block stays.
    pub heights: u64,
    /// How often a block left the best chain of a node.
    pub left: u64,
}

impl Forks {
    /// Of what was seen; nothing of rows without heights.
    pub fn of(sights: &[SightRow]) -> Self {
        let blocks = sights.iter().filter(|sight| sight.kind == SightRow::BLOCK);
        let blocks: BTreeSet<(u64, &str)> = blocks
            .filter_map(|sight| Some((sight.height?, &*sight.id)))
            .collect();
        let heights: BTreeSet<u64> = blocks.iter().map(|(height, _)| *height).collect();
        let left = sights.iter().filter(|sight| sight.kind == SightRow::LEFT);
        Self {
            blocks: blocks.len() as u64,
            heights: heights.len() as u64,
            left: left.count() as u64,
        }
    }

    /// Blocks that are on no chain in the end.
    pub const fn stale(&self) -> u64 {
        self.blocks - self.heights
    }
}

/// How much later than the first node each node had the blocks and the sampled transactions, of each (kind, node), in
/// seconds. A node that had them first counts with 0; what it never showed and another one did, as later than all.
pub fn skews(sights: &[SightRow]) -> BTreeMap<(String, String), Skew> {
    let sights = || sights.iter().filter(|sight| sight.kind != SightRow::LEFT);
    let mut first: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for sight in sights() {
        let seen = first.entry((&sight.kind, &sight.id)).or_insert(u64::MAX);
        *seen = sight.seen_ns.min(*seen);
    }
    // A node that showed nothing of a kind has an entry as well.
    let nodes: BTreeSet<&str> = sights().map(|sight| &*sight.node).collect();
    let mut delays: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for kind in first.keys().map(|(kind, _)| *kind).collect::<BTreeSet<_>>() {
        for node in &nodes {
            delays.insert((kind.to_owned(), (*node).to_owned()), Vec::new());
        }
    }
    for sight in sights() {
        let delay = sight.seen_ns - first[&(&*sight.kind, &*sight.id)];
        let key = (sight.kind.clone(), sight.node.clone());
        delays.entry(key).or_default().push(delay);
    }
    let skew = |kind: &str, mut delays: Vec<u64>| {
        delays.sort_unstable();
        let of = first.keys().filter(|(it, _)| *it == kind).count();
        let median = delays.get(of / 2);
        Skew {
            seen: delays.len() as u64,
            of: of as u64,
            median_s: median.map_or(f64::INFINITY, |delay| *delay as f64 / 1e9),
            largest_s: delays.last().map_or(f64::NAN, |delay| *delay as f64 / 1e9),
        }
    };
    delays
        .into_iter()
        .map(|(key, delays)| (key.clone(), skew(&key.0, delays)))
        .collect()
}

/// How much later than the first node one had what was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    /// How much the node showed.
    pub seen: u64,
    /// How much any node did.
    pub of: u64,
    /// The median of all that any node showed, in seconds; infinite where this one did not show half of it.
    pub median_s: f64,
    /// The largest of what it showed; NaN where that is nothing.
    pub largest_s: f64,
}

/// Transactions a second that a node took into its mempool, of the seconds in which that is known.
pub fn admitted(rows: &[&NodeRow]) -> Vec<(u64, f64)> {
    rows.iter()
        .filter_map(|row| Some((row.second, row.admitted_tps?)))
        .collect()
}

/// What was busy at a node while a stage gave, in means over those seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Cores of the node's machine; `None` where they are unknown, as of a node elsewhere.
    pub cores: Option<f64>,
    /// Cores that were busy, with everything on that machine.
    pub machine: Option<f64>,
    /// Cores that the node's process used.
    pub node: Option<f64>,
    /// Of that, its busiest thread.
    pub busiest_thread: Option<f64>,
    /// Cores that the generator used on that machine.
    pub generator: f64,
    /// Transactions by which the mempool grew in a second.
    pub queue_growth: f64,
    /// Bits a second over its interfaces, in the busier direction; with the link's capacity, where that is known.
    pub link: f64,
    /// What the link carries, in bits a second.
    pub link_capacity: Option<f64>,
    /// Bytes a second to and from disk.
    pub disk: f64,
    /// Share of transactions that left late by the generator's own fault.
    pub own_late: f64,
}

/// What held a stage back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribution {
    /// The generator did not offer what it should have.
    Generator,
    /// One thread, or one core's worth of threads that take turns, was at work nearly all the time while cores
    /// were idle.
    SerialStage,
    /// All cores of the machine were busy.
    Processors,
    /// The link was nearly full.
    Link,
    /// Nothing was busy, and the queue grew: it waits for something that is not measured (a lock, a timer, a disk).
    Queue,
    /// Nothing that was measured.
    Unknown,
}

impl Load {
    /// What the figures point to, the most telling first, each with the figures in words.
    pub fn attribution(&self) -> Vec<(Attribution, String)> {
        let machine = self.cores.zip(self.machine);
        let idle = machine.map(|(cores, busy)| (cores - busy, cores));
        let mut found = Vec::new();
        if self.own_late > OWN_LATE {
            let share = self.own_late * 100.0;
            found.push((
                Attribution::Generator,
                format!("{share:.1} % left late by the generator's own fault"),
            ));
        }
        found.extend(idle.and_then(|(idle, cores)| self.processors(idle, cores)));
        if let Some(capacity) = self
            .link_capacity
            .filter(|capacity| self.link >= LINK_FULL * capacity)
        {
            let (link, capacity) = (self.link / 1e6, capacity / 1e6);
            found.push((
                Attribution::Link,
                format!("{link:.1} of {capacity:.1} Mbit/s in the busier direction"),
            ));
        }
        if let Some((idle, cores)) = idle.filter(|_| found.is_empty() && self.queue_growth > 0.0) {
            let text = format!(
                "its mempool grew by {:.0} transactions a second while {idle:.1} of {} cores were idle: it waits for what \
                 is not measured here (a lock, a timer, its disk at {:.1} MB/s)",
                self.queue_growth,
                cores,
                self.disk / 1e6
            );
            found.push((Attribution::Queue, text));
        }
        if found.is_empty() {
            let text = match idle {
                Some(_) => "nothing that was measured was busy",
                None => {
                    "nothing that was measured was busy, and what the processors of its machine did is not known; \
                     observe it on its machine, with pid=PID"
                }
            };
            found.push((Attribution::Unknown, text.into()));
        }
        found
    }

    fn processors(&self, idle: f64, cores: f64) -> Option<(Attribution, String)> {
        let busiest = self.busiest_thread.unwrap_or_default();
        if idle >= IDLE_CORES && busiest >= THREAD_BUSY {
            let share = busiest * 100.0;
            let text = format!(
                "one thread of the node at {share:.0} % of a core while {idle:.1} of {cores} cores were idle"
            );
            return Some((Attribution::SerialStage, text));
        }
        let node = self.node?;
        if idle >= IDLE_CORES && (THREAD_BUSY..ABOUT_ONE).contains(&node) {
            let text = format!(
                "the node's threads use {node:.2} cores together, about one in turns, while {idle:.1} of {cores} cores \
                 were idle"
            );
            return Some((Attribution::SerialStage, text));
        }
        (idle < FULL * cores).then(|| {
            let text = format!(
                "{:.2} of {cores} cores busy, {node:.2} of them by the node and {:.2} by the generator: what gave may be \
                 the machine that they share",
                cores - idle, self.generator
            );
            (Attribution::Processors, text)
        })
    }
}

/// As degraded runs (`judge::limits`).
const OWN_LATE: f64 = 0.01;
/// A sampled second has its edges in others.
const THREAD_BUSY: f64 = 0.9;
/// Threads that take turns at one lock do a little besides.
const ABOUT_ONE: f64 = 1.35;
/// More than the jitter of an idle machine.
const IDLE_CORES: f64 = 0.3;
/// Less than a tenth of the machine left.
const FULL: f64 = 0.1;
const LINK_FULL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(kind: &str, id: &str, node: &str, seen_ms: u64) -> SightRow {
        SightRow {
            kind: kind.into(),
            id: id.into(),
            node: node.into(),
            seen_ns: seen_ms * 1_000_000,
            bytes: Some(500_000),
            ..SightRow::default()
        }
    }

    #[test]
    fn a_blocks_delay_counts_from_the_node_that_had_it_first_whichever_that_is() {
        let sights = [
            sight("block", "7", "b", 1_000),
            sight("block", "7", "a", 1_250),
            sight("block", "8", "a", 2_000),
            sight("block", "8", "b", 2_100),
            sight("block", "9", "a", 3_000),
            sight("block", "9", "c", 3_500),
            sight("tx", "ff", "a", 0),
        ];
        let found = propagations(&sights);
        let short: Vec<_> = found
            .iter()
            .map(|it| (&*it.block, &*it.node, it.delay_s))
            .collect();
        assert_eq!(short, [("7", "a", 0.25), ("8", "b", 0.1), ("9", "c", 0.5)]);
        let skews = skews(&sights);
        let of = |kind: &str, node: &str| skews[&(kind.to_owned(), node.to_owned())];
        assert_eq!(
            (of("block", "a").seen, of("block", "a").largest_s),
            (3, 0.25)
        );
        assert_eq!(of("tx", "a").median_s, 0.0);
        // What a node never showed is later than all that it did.
        let [b, c] = ["b", "c"].map(|node| of("block", node));
        assert_eq!((b.seen, b.of, b.median_s), (2, 3, 0.1));
        assert_eq!((c.seen, c.median_s, c.largest_s), (1, f64::INFINITY, 0.5));
    }

    #[test]
    fn two_blocks_of_one_height_are_two_blocks_and_one_of_them_is_stale() {
        let at = |kind: &str, id: &str, node: &str, seen_ms, height| SightRow {
            height: Some(height),
            ..sight(kind, id, node, seen_ms)
        };
        let sights = [
            at("block", "x", "a", 1_000, 7),
            at("block", "y", "b", 1_010, 7),
            at("block", "y", "a", 1_400, 7),
            at("block", "z", "b", 2_000, 8),
            at("left", "x", "a", 2_300, 7),
        ];
        let found = propagations(&sights);
        let short: Vec<_> = found
            .iter()
            .map(|it| (&*it.block, &*it.node, it.delay_s))
            .collect();
        assert_eq!(
            short,
            [("y", "a", 0.39)],
            "not the 10 ms between two blocks"
        );
        let forks = Forks::of(&sights);
        assert_eq!(
            (forks.blocks, forks.heights, forks.left, forks.stale()),
            (3, 2, 1, 1)
        );
        assert!(!skews(&sights).contains_key(&("left".to_owned(), "a".to_owned())));
    }

    fn kinds(load: Load) -> Vec<Attribution> {
        load.attribution()
            .into_iter()
            .map(|(kind, _)| kind)
            .collect()
    }

    #[test]
    fn one_busy_thread_on_an_idle_machine_is_a_serial_stage_and_on_a_full_one_it_is_not() {
        let four = Load {
            cores: Some(4.0),
            machine: Some(1.3),
            node: Some(1.0),
            busiest_thread: Some(0.99),
            ..Load::default()
        };
        assert_eq!(kinds(four), [Attribution::SerialStage]);
        assert!(
            four.attribution()[0]
                .1
                .contains("99 % of a core while 2.7 of 4 cores")
        );
        // Go's scheduler moves the work among threads: none is at 100 %, all together are.
        let moved = Load {
            busiest_thread: Some(0.4),
            node: Some(1.1),
            ..four
        };
        assert_eq!(kinds(moved), [Attribution::SerialStage]);
        let full = Load {
            cores: Some(2.0),
            machine: Some(1.95),
            ..four
        };
        assert_eq!(kinds(full), [Attribution::Processors]);
        let several = Load {
            node: Some(2.5),
            busiest_thread: Some(0.7),
            machine: Some(3.0),
            ..four
        };
        assert_eq!(kinds(several), [Attribution::Unknown]);
    }

    /// A node elsewhere that reports its own processor time: its machine may be full, or have 32 cores.
    #[test]
    fn a_machine_that_nobody_looked_at_is_neither_idle_nor_full() {
        let elsewhere = Load {
            node: Some(1.1),
            queue_growth: 300.0,
            ..Load::default()
        };
        assert_eq!(kinds(elsewhere), [Attribution::Unknown]);
        let text = &elsewhere.attribution()[0].1;
        assert!(text.contains("is not known"), "{text}");
        for known in [
            Load {
                cores: Some(2.0),
                ..elsewhere
            },
            Load {
                machine: Some(1.1),
                ..elsewhere
            },
        ] {
            assert_eq!(kinds(known), [Attribution::Unknown]);
        }
    }

    #[test]
    fn a_generator_that_is_late_comes_before_what_the_node_may_be() {
        let load = Load {
            cores: Some(4.0),
            machine: Some(1.5),
            busiest_thread: Some(1.0),
            own_late: 0.2,
            ..Load::default()
        };
        assert_eq!(
            kinds(load),
            [Attribution::Generator, Attribution::SerialStage]
        );
    }

    #[test]
    fn a_full_link_is_named_and_an_idle_node_with_a_growing_queue_waits_for_something() {
        let idle = Load {
            cores: Some(4.0),
            machine: Some(0.4),
            link: 28.5e6,
            link_capacity: Some(30e6),
            ..Load::default()
        };
        assert_eq!(kinds(idle), [Attribution::Link]);
        let half = Load {
            link: 15e6,
            queue_growth: 300.0,
            ..idle
        };
        assert_eq!(kinds(half), [Attribution::Queue]);
        assert_eq!(
            kinds(Load {
                queue_growth: 0.0,
                ..half
            }),
            [Attribution::Unknown]
        );
    }
}
