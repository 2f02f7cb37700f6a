//! What happened in a span of time, in a form that adds up.

use pacing::Nanos;

use crate::format::cohort::CohortParts;
use crate::format::counts::{AddUp as _, Counts, Late};
use crate::format::latency::LatencySet;
use crate::judge::EndpointParts;
use crate::record::waiting::Waiting;
use crate::stats::block_span::BlockSpan;
use crate::stats::silence::Tenths;

/// The depth of a mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) txs: u64,
    pub(crate) bytes: u64,
}

/// The fullest mempool over the samples of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depths {
    /// In the last sample; `None` while the mempool of an endpoint is unknown, which may be the fullest.
    pub(crate) last: Option<Depth>,
    /// Transactions in it at least.
    pub(crate) min: u64,
    /// And at most.
    pub(crate) max: u64,
}

impl Depths {
    /// Of one sample, which is the fullest of all endpoints or of those that are known.
    pub(crate) fn one(depth: Depth, all_known: bool) -> Self {
        let (min, max) = (depth.txs, depth.txs);
        let last = all_known.then_some(depth);
        Self { last, min, max }
    }

    /// With those of a later span.
    fn then(self, later: Self) -> Self {
        Self {
            last: later.last,
            min: self.min.min(later.min),
            max: self.max.max(later.max),
        }
    }
}

/// Adds later samples, where there are some.
pub(crate) fn add_depths(depths: &mut Option<Depths>, later: Option<Depths>) {
    if let Some(later) = later {
        *depths = Some(depths.map_or(later, |before| before.then(later)));
    }
}

/// Everything about a span.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) counts: Counts,
    pub(crate) late: Late,
    pub(crate) blocks: BlockSpan,
    pub(crate) depth: Option<Depths>,
    /// Processor time of the generator; `None` where it was not looked at.
    pub(crate) processor: Option<Nanos>,
    /// How long a node on this machine lacked the processor.
    pub(crate) node_lack: Nanos,
    /// When blocks were seen, of a span inside one second.
    pub(crate) block_times: Tenths,
    /// What each endpoint was sent and gave back, of a span inside one second.
    pub(crate) endpoints: EndpointParts,
    /// What became of transactions in it, of a span inside one second.
    pub(crate) cohorts: CohortParts,
    /// How it changed what waits, of a span inside one second.
    pub(crate) waiting: Waiting,
    pub(crate) latencies: LatencySet,
    /// What people noted.
    pub(crate) marks: Vec<String>,
}

impl Span {
    /// Adds a later span.
    pub(crate) fn add(&mut self, later: &Self) {
        self.counts.add_up(&later.counts);
        self.late.add_up(&later.late);
        self.blocks.add(&later.blocks);
        add_depths(&mut self.depth, later.depth);
        if let Some(used) = later.processor {
            let before = self.processor.unwrap_or(Nanos::ZERO);
            self.processor = Some(before.saturating_add(used));
        }
        self.node_lack = self.node_lack.saturating_add(later.node_lack);
        self.latencies.merge(&later.latencies);
        self.marks.extend_from_slice(&later.marks);
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts = Counts::default();
        self.late = Late::default();
        self.blocks = BlockSpan::default();
        self.depth = None;
        self.processor = None;
        self.node_lack = Nanos::ZERO;
        self.block_times = Tenths::default();
        self.endpoints.clear();
        self.cohorts.clear();
        self.waiting.clear();
        self.latencies.clear();
        self.marks.clear();
    }
}
