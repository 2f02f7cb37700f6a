//! The open part of the time line, cut at every second and at every step, and the part of the schedule that this needs.
//!
//! Events of several sources overlap in time, so more than one segment may be open; each event is
//! recorded in exactly one of them. When every source is past a segment it is closed and added to
//! its second, its step and the run.

use std::collections::VecDeque;

use pacing::{Arrivals, Due, Nanos, Rate, Schedule, Shard, Step};

use super::waiting::Waiting;
use crate::format::SECOND;
use crate::format::counts::{AddUp as _, Counts, Late};
use crate::format::fate::CohortParts;
use crate::format::latency::LatencySet;
use crate::judge::EndpointParts;
use crate::stats::block_span::BlockSpan;
use crate::stats::silence::Tenths;

/// Segments open at once. A segment takes 1.6 MB; ten seconds of lag and a few short steps fit.
pub(crate) const MAX_OPEN: usize = 32;

/// A stretch of time inside one second and one step.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// `None` after the profile's end.
    pub(crate) step: Option<Step>,
    pub(crate) span: Span,
}

/// The open segments, in order and without gaps.
#[derive(Debug)]
pub(crate) struct Segments {
    open: VecDeque<Segment>,
    spare: Vec<Span>,
    /// End of the last open segment.
    end: Nanos,
    warmup: Nanos,
    /// Where offering ended, once known.
    cut: Option<Nanos>,
    /// How long the latest steps are planned to be, by their positions in the profile.
    lengths: VecDeque<(u32, Option<Nanos>)>,
}

impl Segments {
    pub(crate) fn new(warmup: Nanos, plan: &mut dyn Plan) -> Self {
        let mut segments = Self {
            open: VecDeque::new(),
            spare: Vec::new(),
            end: Nanos::ZERO,
            warmup,
            cut: None,
            lengths: VecDeque::new(),
        };
        segments.extend(plan);
        segments
    }

    /// Whether `t` lies before the end of the open part.
    pub(crate) fn reaches(&self, t: Nanos) -> bool {
        t < self.end
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    /// Whether `t` lies in what is closed already.
    pub(crate) fn has_closed(&self, t: Nanos) -> bool {
        t < self.first().start
    }

    /// End of the first open segment.
    pub(crate) fn next_end(&self) -> Nanos {
        self.first().end
    }

    /// The segment of `t`: the first when `t` lies before it. `t` must be reached.
    pub(crate) fn at(&mut self, t: Nanos) -> &mut Segment {
        let position = self.open.iter().position(|segment| t < segment.end);
        let last = self.open.len() - 1;
        &mut self.open[position.unwrap_or(last)]
    }

    /// Opens one more segment at the end.
    pub(crate) fn extend(&mut self, plan: &mut dyn Plan) {
        let start = self.end;
        let offering = self.cut.is_none_or(|cut| start < cut);
        let step = offering.then(|| plan.step_at(start)).flatten();
        if let Some(step) = &step
            && self
                .lengths
                .back()
                .is_none_or(|(last, _)| *last != step.index)
        {
            let length = step.end.map(|end| end.saturating_sub(step.start));
            self.lengths.push_back((step.index, length));
            self.lengths
                .drain(..self.lengths.len().saturating_sub(MAX_LENGTHS));
        }
        let mut end = next_second(start);
        if let Some(step_end) = step.as_ref().and_then(|step| step.end) {
            end = end.min(step_end);
        }
        for edge in [Some(self.warmup), self.cut].into_iter().flatten() {
            if start < edge {
                end = end.min(edge);
            }
        }
        let end = end.max(start.saturating_add(Nanos::from_nanos(1)));
        let span = self.spare.pop().unwrap_or_default();
        self.open.push_back(Segment {
            start,
            end,
            step,
            span,
        });
        self.end = end;
    }

    /// How long a step is planned to be; `None` of one without an end, or long past.
    pub(crate) fn length_of(&self, step: u32) -> Option<Nanos> {
        let mut latest = self.lengths.iter().rev();
        latest.find(|(index, _)| *index == step)?.1
    }

    /// Takes the first open segment out; there is always another one to open.
    pub(crate) fn close(&mut self, plan: &mut dyn Plan) -> Segment {
        if self.open.len() == 1 {
            self.extend(plan);
        }
        self.open
            .pop_front()
            .expect("at least two segments are open here")
    }

    /// Keeps the memory of a closed segment for the next one.
    pub(crate) fn recycle(&mut self, mut span: Span) {
        if self.spare.len() < MAX_SPARE {
            span.clear();
            self.spare.push(span);
        }
    }

    /// Offering ends at `at`: what begins later belongs to no step. Segments that lie behind are
    /// changed; the one that contains `at` is cut there, and what it counted stays before the cut.
    pub(crate) fn cut(&mut self, at: Nanos) {
        let at = self.cut.map_or(at, |earlier| earlier.min(at));
        self.cut = Some(at);
        for segment in &mut self.open {
            if segment.start >= at {
                segment.step = None;
            }
        }
        let Some(position) = self
            .open
            .iter()
            .position(|segment| segment.start < at && at < segment.end)
        else {
            return;
        };
        let end = std::mem::replace(&mut self.open[position].end, at);
        let rest = Segment {
            start: at,
            end,
            step: None,
            span: self.spare.pop().unwrap_or_default(),
        };
        self.open.insert(position + 1, rest);
    }

    /// Where offering ended, or `t` when that is not known or later.
    pub(crate) fn offering_until(&self, t: Nanos) -> Nanos {
        self.cut.map_or(t, |cut| cut.min(t))
    }

    /// Ends the first open segment at `at`, which lies inside it.
    pub(crate) fn shorten_first(&mut self, at: Nanos) {
        if let Some(first) = self.open.front_mut() {
            first.end = at;
        }
        if self.open.len() == 1 {
            self.end = at;
        }
    }

    /// Bytes held by histograms.
    pub(crate) fn bytes(&self) -> usize {
        let open = self.open.iter().map(|segment| &segment.span);
        open.chain(&self.spare)
            .map(|span| span.latencies.bytes())
            .sum()
    }

    /// The first open segment.
    pub(crate) fn first(&self) -> &Segment {
        self.open.front().expect("one segment is always open")
    }
}

fn next_second(t: Nanos) -> Nanos {
    let seconds = t.as_nanos() / SECOND.as_nanos() + 1;
    Nanos::from_nanos(seconds.saturating_mul(SECOND.as_nanos()))
}

const MAX_SPARE: usize = 4;
/// Steps whose length is known: a transaction leaves within a few of its own.
const MAX_LENGTHS: usize = 64;

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
    /// Whether some of them were seen before it, and read in it.
    pub(crate) has_late_blocks: bool,
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
        self.add_all_but_latencies(later);
        self.latencies.merge(&later.latencies);
    }

    /// Adds a later span, whose latencies are not used any more.
    pub(crate) fn take(&mut self, later: &mut Self) {
        self.add_all_but_latencies(later);
        self.latencies.take(&mut later.latencies);
    }

    fn add_all_but_latencies(&mut self, later: &Self) {
        self.counts.add_up(&later.counts);
        self.late.add_up(&later.late);
        self.blocks.add(&later.blocks);
        self.has_late_blocks |= later.has_late_blocks;
        add_depths(&mut self.depth, later.depth);
        if let Some(used) = later.processor {
            let before = self.processor.unwrap_or(Nanos::ZERO);
            self.processor = Some(before.saturating_add(used));
        }
        self.node_lack = self.node_lack.saturating_add(later.node_lack);
        self.marks.extend_from_slice(&later.marks);
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts = Counts::default();
        self.late = Late::default();
        self.blocks = BlockSpan::default();
        self.has_late_blocks = false;
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

/// The plan that the run is measured against.
///
/// The recorder asks with instants that never go back, so an implementation may stream (a Poisson
/// schedule has no random access).
pub trait Plan: Send {
    /// How many transactions are due in `[0, t)`; `None` in a closed loop, where nothing is due
    /// and what is sent is what is offered.
    fn due_before(&mut self, t: Nanos) -> Option<u64>;

    /// The step that contains `t`, or `None` past the end of the profile.
    fn step_at(&mut self, t: Nanos) -> Option<Step>;
}

/// The plan of an open loop: a [`Schedule`].
#[derive(Debug)]
pub struct SchedulePlan {
    schedule: Schedule,
    streamed: Option<Streamed>,
}

impl SchedulePlan {
    /// The plan of `schedule`.
    pub fn new(schedule: Schedule) -> Self {
        // Poisson arrivals are counted from the first one on, so they are counted as time goes by.
        let streamed = matches!(schedule.arrivals(), Arrivals::Poisson { .. })
            .then(|| Streamed::new(schedule.iter()));
        Self { schedule, streamed }
    }
}

impl Plan for SchedulePlan {
    fn due_before(&mut self, t: Nanos) -> Option<u64> {
        Some(match &mut self.streamed {
            Some(streamed) => streamed.count_before(t),
            None => self.schedule.due_before(t),
        })
    }

    fn step_at(&mut self, t: Nanos) -> Option<Step> {
        let step = self.schedule.profile().step_at(t);
        step.end.is_none_or(|end| t < end).then_some(step)
    }
}

/// Due times that are counted one by one.
#[derive(Debug)]
struct Streamed {
    due: Shard,
    next: Option<Due>,
    counted: u64,
}

impl Streamed {
    fn new(mut due: Shard) -> Self {
        let next = due.next();
        Self {
            due,
            next,
            counted: 0,
        }
    }

    fn count_before(&mut self, t: Nanos) -> u64 {
        while self.next.is_some_and(|due| due.at < t) {
            self.counted += 1;
            self.next = self.due.next();
        }
        self.counted
    }
}

/// The plan of a closed loop: one step without end, nothing due.
#[derive(Debug, Clone, Copy)]
pub struct ClosedLoop;

impl Plan for ClosedLoop {
    fn due_before(&mut self, _t: Nanos) -> Option<u64> {
        None
    }

    fn step_at(&mut self, _t: Nanos) -> Option<Step> {
        Some(Step {
            index: 0,
            start: Nanos::ZERO,
            end: None,
            rate: Rate::ZERO,
            pause: false,
            again_of: None,
        })
    }
}
