//! What is known of the run under way.

use std::collections::VecDeque;
use std::sync::Arc;

use measure::judge::Onset;
use measure::{Counters, Counts, NodeLimits, SeriesRow, StepRow};
use pacing::{Nanos, Profile};

use super::nodes::NodeBoard;
use crate::output::{describe_load, describe_target};
use crate::plan::{Load, Plan};

/// A run as it is about to be shown.
#[derive(Debug, Clone, Default)]
pub struct Scene {
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
    /// How long the drain may last.
    pub drain_timeout: Nanos,
    /// What the nodes take at most.
    pub limits: NodeLimits,
    /// The nodes.
    pub nodes: Arc<NodeBoard>,
}

impl Scene {
    /// The scene of `plan`.
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
            drain_timeout: plan.drain_timeout,
            limits: NodeLimits::default(),
            nodes,
        }
    }
}

pacing::named! {
    /// Where a run stands.
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

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When, since the run's origin.
    pub at: Nanos,
    /// What.
    pub text: String,
}

/// Everything that views show. Its size is bounded: an hour of seconds, as many steps as
/// a screen could show, the last messages.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// What several runs belong to, and which of them this one is.
    pub heading: Option<String>,
    /// The run.
    pub scene: Scene,
    /// Where it stands.
    pub phase: Phase,
    /// The time, since the run's origin.
    pub now: Nanos,
    /// What was counted.
    pub counters: Counters,
    /// What was counted in the runs before this one, together.
    pub before: Counters,
    /// Sent, and answer or block still awaited.
    pub pending: u64,
    /// Closed seconds.
    pub seconds: VecDeque<SeriesRow>,
    /// The counts of all seconds of this run, those included that are no longer in `seconds`.
    pub sums: Counts,
    /// When the drain began.
    pub drain_since: Nanos,
    /// What gave first, as far as it is known.
    pub onsets: Vec<Onset>,
    /// Closed steps.
    pub steps: VecDeque<StepRow>,
    /// What was said.
    pub messages: VecDeque<Message>,
    /// Notes made in this run.
    pub marks: u64,
    /// Raised when something other than the time has changed.
    pub version: u64,
}

impl Track {
    /// Another run begins.
    pub(super) fn begin(&mut self, scene: Scene) {
        let counters = std::mem::take(&mut self.counters);
        self.before.add(&counters);
        self.scene = scene;
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
        let share = match (self.scene.duration, self.scene.planned) {
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
        if let Some(duration) = self.scene.duration {
            return Some(duration.saturating_sub(self.now).as_secs_f64());
        }
        let missing = self.scene.planned?.saturating_sub(self.done());
        let recent = self.seconds.iter().rev().take(RECENT_SECONDS);
        let (sent, span_s) = recent.fold((0, 0.0), |(sent, span_s), second| {
            (sent + second.counts.sent, span_s + second.span_s)
        });
        (sent > 0).then(|| missing as f64 * span_s / sent as f64)
    }

    /// How long the drain lasts at most from now, in seconds.
    pub fn drain_left_s(&self) -> f64 {
        let end = self.drain_since.saturating_add(self.scene.drain_timeout);
        end.saturating_sub(self.now).as_secs_f64()
    }

    /// What is to be said of the run by now.
    pub fn finding(&self) -> String {
        let signs: Vec<String> = self.onsets.iter().map(ToString::to_string).collect();
        match (signs.is_empty(), self.seconds.is_empty()) {
            (false, _) => signs.join(" → "),
            (true, false) => "no sign of an overload so far".to_owned(),
            (true, true) => String::new(),
        }
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

/// An hour: about a megabyte, and as far back as the chart goes.
const MAX_SECONDS: usize = 3_600;
const MAX_STEPS: usize = 200;
const MAX_MESSAGES: usize = 200;
/// For the rate of a flood: long enough to smooth out the node's blocks.
const RECENT_SECONDS: usize = 10;
