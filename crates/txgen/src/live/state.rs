//! The state of the run under way, which every view shows.

use std::collections::VecDeque;
use std::sync::Arc;

use measure::judge::{Onset, StepTerms};
use measure::{Counters, Counts, LiveView, NodeLimits, SeriesRow, StepRow};
use pacing::{Nanos, Profile};
use parking_lot::Mutex;

use crate::output::{describe_load, describe_target};
use crate::plan::{Load, Plan};

/// The facts of a run that are known before it begins.
#[derive(Debug, Clone, Default)]
pub struct RunInfo {
    /// The load in one line.
    pub title: String,
    /// The target in one line.
    pub target: String,
    /// Whether it is one run of many: no line a second.
    pub brief: bool,
    /// The rate as a function of time; `None` in a closed loop.
    pub profile: Option<Profile>,
    /// How long the load is offered; `None` when it has no fixed end.
    pub duration: Option<Nanos>,
    /// Transactions planned; `None` for a load without end.
    pub planned: Option<u64>,
    /// Whether blocks are followed.
    pub follows: bool,
    /// How steps are judged.
    pub terms: StepTerms,
    /// How long the drain may last.
    pub drain_timeout: Nanos,
    /// What the nodes take at most.
    pub limits: NodeLimits,
    /// The nodes.
    pub nodes: Arc<NodeBoard>,
}

impl RunInfo {
    /// The facts of a plan.
    pub fn of(plan: &Plan, nodes: Arc<NodeBoard>) -> Self {
        let profile = match &plan.load {
            Load::Open { schedule, .. } => Some(schedule.profile().clone()),
            Load::Flood { .. } => None,
        };
        Self {
            title: describe_load(&plan.load),
            target: describe_target(plan),
            brief: false,
            profile,
            duration: plan.duration(),
            planned: plan.planned(),
            follows: plan.follow,
            terms: plan.step_terms(),
            drain_timeout: plan.rules.drain_timeout,
            limits: NodeLimits::default(),
            nodes,
        }
    }
}

base::named! {
    /// The phase of a run.
    #[derive(Default)]
    pub enum Phase {
        /// Connections are being opened.
        #[default]
        Connecting => "connecting",
        /// Transactions are offered.
        Offering => "offering",
        /// Offering has ended; answers and blocks are awaited.
        Draining => "draining",
        /// It is over.
        Over => "over",
    }
}

/// A message of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When, since the run's origin.
    pub at: Nanos,
    /// Its text.
    pub text: String,
}

/// The latest reports of the followers on each node. Shared in an `Arc`; writing and reading are short locks.
#[derive(Debug, Default)]
pub struct NodeBoard {
    nodes: Mutex<Vec<NodeState>>,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// Its endpoint.
    pub name: String,
    /// The version it reports.
    pub version: String,
    /// The last block seen of it; 0 before the first.
    pub height: u64,
    /// When that was seen.
    pub block_at: Nanos,
    /// Transactions in that block.
    pub block_txs: u64,
    /// Transactions and bytes in its mempool, and when the node reported them.
    pub mempool: Option<(u64, u64, Nanos)>,
    /// Why its blocks cannot be followed now.
    pub trouble: Option<String>,
}

impl NodeBoard {
    /// A board of nodes that have not reported yet.
    pub fn new(nodes: Vec<NodeState>) -> Self {
        Self {
            nodes: Mutex::new(nodes),
        }
    }

    /// The state of all, in the order of the endpoints.
    pub fn all(&self) -> Vec<NodeState> {
        self.nodes.lock().clone()
    }

    /// A block was seen.
    pub fn block(&self, node: u16, height: u64, txs: u64, at: Nanos) {
        self.change(node, |state| {
            if height > state.height {
                (state.height, state.block_txs, state.block_at) = (height, txs, at);
            }
            state.trouble = None;
        });
    }

    /// A node reported the depth of its mempool.
    pub fn mempool(&self, node: u16, txs: u64, bytes: u64, at: Nanos) {
        self.change(node, |state| state.mempool = Some((txs, bytes, at)));
    }

    /// Its blocks are followed, or follow again.
    pub fn connected(&self, node: u16) {
        self.change(node, |state| state.trouble = None);
    }

    /// Its blocks cannot be followed.
    pub fn lost(&self, node: u16, reason: &str) {
        self.change(node, |state| state.trouble = Some(reason.to_owned()));
    }

    fn change(&self, node: u16, change: impl FnOnce(&mut NodeState)) {
        if let Some(state) = self.nodes.lock().get_mut(usize::from(node)) {
            change(state);
        }
    }
}

/// Everything that views show. Its size is bounded: the seconds of an hour, 200 steps and the last 200
/// messages.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    /// The campaign or search that the run belongs to, and which run of it this is.
    pub heading: Option<String>,
    /// The run.
    pub info: RunInfo,
    /// Its phase.
    pub phase: Phase,
    /// The time, since the run's origin.
    pub now: Nanos,
    /// The counters of this run.
    pub counters: Counters,
    /// The sums of the counters of the runs before this one.
    pub before: Counters,
    /// Transactions that were sent and still wait for their answer or block.
    pub pending: u64,
    /// Closed seconds.
    pub seconds: VecDeque<SeriesRow>,
    /// The counts of all seconds of this run, also those that `seconds` has dropped.
    pub sums: Counts,
    /// When the drain began.
    pub drain_since: Nanos,
    /// The signs of an overload so far, in the order of their beginnings.
    pub onsets: Vec<Onset>,
    /// Closed steps.
    pub steps: VecDeque<StepRow>,
    /// The last messages.
    pub messages: VecDeque<Message>,
    /// Notes made in this run.
    pub marks: u64,
    /// Counted up when something other than the time has changed.
    pub version: u64,
}

/// What has changed in a run since the last update.
#[derive(Debug, Clone, Default)]
pub(crate) struct Update {
    pub(crate) live: LiveView,
    pub(crate) counters: Counters,
    /// Seconds and steps that closed since the last update.
    pub(crate) new_seconds: Vec<SeriesRow>,
    pub(crate) new_steps: Vec<StepRow>,
    /// The signs of an overload so far, in the order of their beginnings.
    pub(crate) onsets: Vec<Onset>,
    /// Whether offering has ended and the run drains.
    pub(crate) draining: bool,
}

impl LiveState {
    /// Another run begins.
    pub(super) fn begin(&mut self, info: RunInfo) {
        let counters = std::mem::take(&mut self.counters);
        self.before.add(&counters);
        self.info = info;
        self.phase = Phase::Connecting;
        self.now = Nanos::ZERO;
        self.pending = 0;
        self.seconds.clear();
        self.onsets.clear();
        self.sums = Counts::default();
        self.steps.clear();
        self.marks = 0;
        self.version += 1;
    }

    pub(super) fn second(&mut self, second: SeriesRow) {
        self.sums += second.counts;
        push(&mut self.seconds, second, MAX_SECONDS);
        self.version += 1;
    }

    pub(super) fn step(&mut self, step: StepRow) {
        push(&mut self.steps, step, MAX_STEPS);
        self.version += 1;
    }

    pub(super) fn message(&mut self, text: String) {
        let at = self.now;
        push(&mut self.messages, Message { at, text }, MAX_MESSAGES);
        self.version += 1;
    }

    /// The last closed second.
    pub fn last(&self) -> Option<&SeriesRow> {
        self.seconds.back()
    }

    /// How much of the offering is done, from 0 to 1; `None` for a load without end.
    pub fn progress(&self) -> Option<f64> {
        if matches!(self.phase, Phase::Draining | Phase::Over) {
            return Some(1.0);
        }
        let share = match (self.info.duration, self.info.planned) {
            (Some(duration), _) => self.now.as_secs_f64() / duration.as_secs_f64(),
            (None, Some(planned)) => self.done() as f64 / planned as f64,
            (None, None) => return None,
        };
        Some(if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            1.0
        })
    }

    /// How long offering still takes, in seconds: exact for a load of a fixed length, at the rate of
    /// the last seconds for a count. `None` when it is unknown.
    pub fn seconds_left(&self) -> Option<f64> {
        if self.phase != Phase::Offering {
            return None;
        }
        if let Some(duration) = self.info.duration {
            return Some(duration.saturating_sub(self.now).as_secs_f64());
        }
        let missing = self.info.planned?.saturating_sub(self.done());
        let recent = self.seconds.iter().rev().take(RECENT_SECONDS);
        let (sent, span_s) = recent.fold((0, 0.0), |(sent, span_s), second| {
            (sent + second.counts.sent, span_s + second.span_s)
        });
        (sent > 0).then(|| missing as f64 * span_s / sent as f64)
    }

    /// How long the drain lasts at most from now, in seconds.
    pub fn drain_left_s(&self) -> f64 {
        let end = self.drain_since.saturating_add(self.info.drain_timeout);
        end.saturating_sub(self.now).as_secs_f64()
    }

    /// Whether the load goes on until something stops it: it has no end, or so many steps that no user waits for the
    /// last one.
    pub fn is_open_ended(&self) -> bool {
        let profile = self.info.profile.as_ref();
        profile.is_some_and(|profile| profile.step_count() > MANY_STEPS)
    }

    /// The conclusion on the run so far, in one line: the highest rate that was sustained, and what gave first.
    pub fn finding(&self) -> String {
        let signs: Vec<String> = self.onsets.iter().map(ToString::to_string).collect();
        let signs = match (signs.is_empty(), self.seconds.is_empty()) {
            (false, _) => signs.join(" → "),
            (true, false) => "no sign of an overload so far".to_owned(),
            (true, true) => String::new(),
        };
        match self.sustained_so_far() {
            Some(rate) => format!("sustained so far: {} · {signs}", report::text::rate(rate)),
            None => signs,
        }
    }

    /// The highest rate of the steps before the first one that was not sustained; `None` for a single rate and before
    /// a step was judged.
    fn sustained_so_far(&self) -> Option<f64> {
        let steps: Vec<StepRow> = self.steps.iter().cloned().collect();
        let excesses = measure::judge::excesses(&steps, self.info.terms);
        let judged = steps.iter().zip(excesses);
        let judged = judged.filter(|(step, _)| !step.pause && step.awaited_s.is_some());
        let sustained = judged.take_while(|(_, excess)| excess.is_none());
        let rates = sustained.map(|(step, _)| step.rate_tps);
        let several = self.info.profile.as_ref()?.step_count() > 1;
        rates.reduce(f64::max).filter(|_| several)
    }

    fn done(&self) -> u64 {
        self.counters.totals.sent + self.counters.totals.unsent
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    if queue.len() == limit {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// An hour, which is what the chart shows; about a megabyte.
const MAX_SECONDS: usize = 3_600;
const MAX_STEPS: usize = 200;
/// A ramp without an end has thousands of steps.
const MANY_STEPS: u32 = 1_000;
const MAX_MESSAGES: usize = 200;
/// The seconds that a flood's rate is taken from: long enough to smooth out the node's blocks.
const RECENT_SECONDS: usize = 10;
