//! What a node has to do, what that costs, and where it is done.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::{
    app::{App, Timeline},
    node::{Node, Origin},
};

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

    pub(super) const fn bytes(&self, length: usize) -> Nanos {
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
pub(super) struct Pool {
    free: usize,
    /// How long a host keeps a processor while others wait for one.
    pub(super) slice: Nanos,
    waiting: VecDeque<usize>,
}

impl Pool {
    pub(super) fn new(processors: Processors, nodes: usize) -> Self {
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
    pub(super) fn wants(&mut self, host: usize) {
        self.waiting.push_back(host);
    }

    /// The next host that gets a processor.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let host = self.waiting.pop_front()?;
        self.free -= 1;
        Some(host)
    }

    /// A host has done what it got a processor for.
    pub(super) const fn done(&mut self) {
        self.free += 1;
    }
}

/// Something that a node has to do, at the price of its kind.
#[derive(Debug)]
pub(super) enum Task {
    Timer,
    Offer,
    Connected(usize, Origin),
    /// Bytes wait on this connection.
    Readable(usize),
    Writable(usize),
    Closed(usize),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: Node,
    pub(super) app: App,
    pub(super) timeline: Option<Timeline>,
    pub(super) tasks: VecDeque<Task>,
    /// It works, or waits for a processor.
    pub(super) engaged: bool,
    /// Until when it keeps its processor while it has something to do.
    pub(super) slice_end: Nanos,
    /// The timer event that is in the heap.
    pub(super) timer: Nanos,
    pub(super) busy: Nanos,
}

impl Host {
    pub(super) const fn new(node: Node, app: App, timeline: Option<Timeline>) -> Self {
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
