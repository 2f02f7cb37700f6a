//! What came out.

use measure::Latency;
use pacing::Nanos;

use crate::node::Counts;

/// What the network did.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// One for each second, the drain included.
    pub seconds: Vec<Second>,
    /// The counters of all nodes together.
    pub totals: Counts,
    /// Entries that were due at node 0.
    pub offered: u64,
    /// Relayed messages that were made, answers not included.
    pub made: u64,
    /// First sights of them.
    pub sights: u64,
    /// From a message's due instant to its first sight, at each node.
    pub latency: Latency,
    /// The share of the load's time that each node worked.
    pub busy: Vec<f64>,
    /// Nodes.
    pub nodes: usize,
    /// How long the load was.
    pub duration: Nanos,
}

/// One second of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Second {
    /// Entries due at node 0.
    pub offered: u64,
    /// Entries first seen by node 0, which offers them.
    pub entries_host: u64,
    /// Entries first seen by all nodes.
    pub entries_sum: u64,
    /// The counters of all nodes, of this second.
    pub counts: Counts,
}

impl Outcome {
    /// The share of nodes that saw a message, over all messages; 1 when nothing was lost. A message that
    /// the last second of the drain did not bring counts as unseen.
    pub fn reach(&self) -> f64 {
        self.sights as f64 / (self.made * self.nodes as u64).max(1) as f64
    }

    /// Entries per second that node 0 saw while the load lasted.
    pub fn eps_host(&self) -> f64 {
        self.eps(|second| second.entries_host)
    }

    /// Entries per second that all nodes saw while the load lasted.
    pub fn eps_sum(&self) -> f64 {
        self.eps(|second| second.entries_sum)
    }

    fn eps(&self, entries: impl Fn(&Second) -> u64) -> f64 {
        let seconds = self.duration.as_secs().max(1);
        let load = self.seconds.iter().take(seconds as usize);
        load.map(entries).sum::<u64>() as f64 / seconds as f64
    }

    /// The share of the time that the busiest node worked.
    pub fn busiest(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }
}
