//! Many nodes on a simulated clock: the state machine of [`crate::Node`] on an event heap, with simulated
//! links and processors. The same settings and seed give the same outcome, on any machine.
//!
//! Bytes are really encoded, sent, read and hashed; only time is computed. A processor works off what
//! its node has to do, one thing after the other, at the prices of [`Prices`]; what a node writes leaves
//! when the work before it is done. A connection takes bytes as long as fewer than
//! [`LinkModel::buffer`] are unread, as a socket does, so queues fill as they do in the real node.
//! Packets, acknowledgements and TCP's slow start are not simulated.

mod world;

use std::collections::VecDeque;

use measure::Latency;
use pacing::Nanos;

use crate::app::{App, Mix, Timeline};
use crate::node::{Counts, Node, Origin, Settings};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimSettings {
    /// Every node's settings; its number and its port are filled in.
    pub node: Settings,
    /// For each node, those that it dials at the beginning ([`crate::topology`]).
    pub dials: Vec<Vec<usize>>,
    /// Every connection.
    pub link: LinkModel,
    /// What work costs.
    pub prices: Prices,
    /// Where it is done.
    pub processors: Processors,
    /// How long the generator's messages may take after the last is due.
    pub drain: Nanos,
    /// Every random choice.
    pub seed: u64,
}

base::settings! {
    /// A connection, the same in both directions.
    #[derive(Debug, Clone, Copy)]
    pub struct LinkModel {
        /// From the last byte's departure to its arrival.
        pub delay: Nanos = Nanos::from_micros(20),
        /// Bits per second; none for no limit.
        pub bits_per_s: Option<u64> = None,
        /// How many bytes may be written and unread: both sockets' buffers.
        pub buffer: usize = 256 << 10,
    }
}

/// Runs a load of `duration` through the simulated network.
///
/// `schedule` has the instant at which each transaction of `mix` is due at node 0, as in a real run.
pub fn run(
    settings: &SimSettings,
    mix: Mix,
    schedule: &pacing::Schedule,
    duration: Nanos,
) -> Outcome {
    let mut world = world::World::new(settings, mix, schedule, duration);
    world.run(duration.saturating_add(settings.drain));
    world.finish()
}

/// What the network did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The counters of all nodes together.
    pub totals: Counts,
    /// Entries that were due at node 0.
    pub offered: u64,
    /// Relayed messages that were made, answers not included.
    pub made: u64,
    /// First sights of them.
    pub sights: u64,
    /// Entries that node 0, which offers them, saw first while the load lasted.
    pub entries_host: u64,
    /// Entries that all nodes saw first meanwhile.
    pub entries_sum: u64,
    /// From a message's due instant to its first sight, at each node.
    pub latency: Latency,
    /// The share of the load's time that each node worked.
    pub busy: Vec<f64>,
    /// Nodes.
    pub nodes: usize,
    /// How long the load was.
    pub duration: Nanos,
}

impl Outcome {
    /// The share of nodes that saw a message, over all messages; 1 when nothing was lost. A message that
    /// the last second of the drain did not bring counts as unseen.
    pub fn reach(&self) -> f64 {
        self.sights as f64 / (self.made * self.nodes as u64).max(1) as f64
    }

    /// Entries per second that node 0 saw while the load lasted.
    pub fn eps_host(&self) -> f64 {
        self.entries_host as f64 / self.whole_seconds() as f64
    }

    /// Entries per second that all nodes saw while the load lasted.
    pub fn eps_sum(&self) -> f64 {
        self.entries_sum as f64 / self.whole_seconds() as f64
    }

    fn whole_seconds(&self) -> u64 {
        self.duration.as_secs().max(1)
    }

    /// The share of the time that the busiest node worked.
    pub fn busiest(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }
}

/// A line that sends one write after the other at a rate; what it sends arrives after a delay.
#[derive(Debug)]
pub struct Line {
    bits_per_s: Option<u64>,
    delay: Nanos,
    /// When it has sent everything that it was given.
    free_at: Nanos,
}

impl Line {
    /// A line that is free; without `bits_per_s` it sends at once.
    pub const fn new(bits_per_s: Option<u64>, delay: Nanos) -> Self {
        Self {
            bits_per_s,
            delay,
            free_at: Nanos::ZERO,
        }
    }

    /// Sends a write of so many bytes behind those before it. Gives when the line has sent it, and when it arrives.
    pub fn send(&mut self, now: Nanos, length: usize) -> (Nanos, Nanos) {
        let nanos = self.bits_per_s.map_or(0, |rate| {
            length as u128 * 8 * 1_000_000_000 / u128::from(rate.max(1))
        });
        let begin = now.max(self.free_at);
        self.free_at = begin.saturating_add(Nanos::new(nanos as u64));
        (self.free_at, self.free_at.saturating_add(self.delay))
    }
}

#[derive(Debug)]
struct Direction {
    line: Line,
    /// How many bytes may be written and not read.
    buffer: usize,
    /// Bytes that were written and not read.
    unread: usize,
    /// A write that waits for room.
    blocked: Option<Vec<u8>>,
}

impl Direction {
    const fn new(model: LinkModel) -> Self {
        Self {
            line: Line::new(model.bits_per_s, model.delay),
            buffer: model.buffer,
            unread: 0,
            blocked: None,
        }
    }

    /// Takes a write; gives when it arrives, none when it has to wait for room.
    fn write(&mut self, now: Nanos, bytes: Vec<u8>) -> Option<(Nanos, Vec<u8>)> {
        if self.unread > 0 && self.unread + bytes.len() > self.buffer {
            self.blocked = Some(bytes);
            return None;
        }
        self.unread += bytes.len();
        let (_, arrives) = self.line.send(now, bytes.len());
        Some((arrives, bytes))
    }

    /// The other end has read, and there may be room for the write that waited.
    fn read(&mut self, now: Nanos, length: usize) -> Option<(Nanos, Vec<u8>)> {
        self.unread = self.unread.saturating_sub(length);
        let bytes = self.blocked.take()?;
        self.write(now, bytes)
    }
}

base::settings! {
    /// What work costs a processor. The defaults are of the order of what a loopback costs on a virtual
    /// machine of 2026; what a write costs was fitted to one rate that real nodes sustain and one that they do
    /// not (docs/studies.md). [`Prices::scaled`] gives those of a slower or faster processor.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Prices {
        /// A read call, in ns.
        pub read_ns: u64 = 2_500,
        /// A write call to a node that works, in ns.
        pub write_ns: u64 = 3_000,
        /// What it costs more when the other node sleeps and has to be woken, in ns.
        pub wake_ns: u64 = 7_500,
        /// A parcel read: decoded, hashed and looked up, in ns.
        pub parcel_in_ns: u64 = 700,
        /// A parcel written: queued and encoded, in ns.
        pub parcel_out_ns: u64 = 300,
        /// A message seen for the first time: copied, delivered, reacted to, in ns.
        pub first_sight_ns: u64 = 1_500,
        /// A byte read or written, in ps.
        pub byte_ps: u64 = 300,
    }
}

impl Prices {
    /// Everything takes `factor` times as long.
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |price: u64| (price as f64 * factor).round() as u64;
        Self {
            read_ns: scale(self.read_ns),
            write_ns: scale(self.write_ns),
            wake_ns: scale(self.wake_ns),
            parcel_in_ns: scale(self.parcel_in_ns),
            parcel_out_ns: scale(self.parcel_out_ns),
            first_sight_ns: scale(self.first_sight_ns),
            byte_ps: scale(self.byte_ps),
        }
    }

    const fn bytes(&self, length: usize) -> Nanos {
        Nanos::new(self.byte_ps.saturating_mul(length as u64) / 1_000)
    }
}

/// Where work is done. A node does one thing at a time in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// Each node on a processor of its own: machines.
    Own,
    /// All nodes on so many processors: processes on one machine.
    Shared(usize),
}

/// The free processors, and the hosts that wait for one.
#[derive(Debug)]
struct Pool {
    free: usize,
    /// How long a host keeps a processor while others wait for one.
    slice: Nanos,
    waiting: VecDeque<usize>,
}

impl Pool {
    fn new(processors: Processors, nodes: usize) -> Self {
        let free = match processors {
            Processors::Own => nodes,
            Processors::Shared(count) => count.max(1),
        };
        Self {
            free,
            // Linux 6.12, kernel/sched/fair.c, sysctl_sched_base_slice.
            slice: Nanos::from_micros(700 * u64::from(1 + free.max(1).ilog2())),
            waiting: VecDeque::new(),
        }
    }

    /// A host has something to do.
    fn wants(&mut self, host: usize) {
        self.waiting.push_back(host);
    }

    /// The next host that gets a processor.
    fn next(&mut self) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let host = self.waiting.pop_front()?;
        self.free -= 1;
        Some(host)
    }

    /// A host has done what it got a processor for.
    const fn done(&mut self) {
        self.free += 1;
    }
}

/// Something that a node has to do, at the price of its kind.
#[derive(Debug)]
enum Task {
    Timer,
    Offer,
    Connected(usize, Origin),
    /// Bytes wait on this connection.
    Readable(usize),
    Writable(usize),
    Closed(usize),
}

#[derive(Debug)]
struct Host {
    node: Node,
    app: App,
    timeline: Option<Timeline>,
    tasks: VecDeque<Task>,
    /// It works, or waits for a processor.
    engaged: bool,
    /// Until when it keeps its processor while it has something to do.
    slice_end: Nanos,
    /// The timer event that is in the heap.
    timer: Nanos,
    busy: Nanos,
}

impl Host {
    const fn new(node: Node, app: App, timeline: Option<Timeline>) -> Self {
        Self {
            node,
            app,
            timeline,
            tasks: VecDeque::new(),
            engaged: false,
            slice_end: Nanos::ZERO,
            timer: Nanos::MAX,
            busy: Nanos::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_sends_one_write_after_the_other_and_takes_no_more_than_its_buffer() {
        let mut line = Direction::new(LinkModel {
            delay: Nanos::from_micros(10),
            bits_per_s: Some(8_000_000),
            buffer: 150,
        });
        let at = |sent: Option<(Nanos, Vec<u8>)>| sent.map(|(at, _)| at.as_micros());
        assert_eq!(at(line.write(Nanos::ZERO, vec![0; 100])), Some(110));
        assert_eq!(
            at(line.write(Nanos::ZERO, vec![0; 50])),
            Some(160),
            "after the first"
        );
        assert_eq!(at(line.write(Nanos::ZERO, vec![0; 60])), None);
        assert_eq!(
            at(line.read(Nanos::from_micros(200), 50)),
            None,
            "100 + 60 are too many"
        );
        assert_eq!(at(line.read(Nanos::from_micros(300), 50)), Some(370));
    }
}
