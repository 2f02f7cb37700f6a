//! When the node is given a break, and what a break is.

mod report;
mod verdict;
mod windows;

use pacing::Nanos;

pub use self::report::{
    BreakAction, BreakCause, BreakCounters, BreakEvent, BreakFacts, BreakState, Gate, Turn,
};
use self::verdict::{Judge, Verdict};
use self::windows::{Window, Windows};
use crate::settings::{PauseAction, PauseSettings};
use crate::throughput::{BlockSeen, Counted, Throughput};

/// Pauses and reconnects: Running → Draining → Paused → (Reconnecting) → Ramping → Running.
///
/// Triggers are the clock (with jitter, so that several proxies do not break together), measured
/// throughput, or both. Measured means: committed transactions under 0.55 of the learnt baseline, or
/// under `min_tx_rate`, in three windows in a row, writes waiting throughout. After such a break the
/// next needs a window above 0.85 of the baseline first, unless the last one was found to help.
/// Low demand, empty blocks, a halted chain and a node that is catching up never trigger anything.
///
/// Every break is judged by all transactions committed around it, its own time included; two
/// that gain less than 5 % double the time between breaks, up to an hour.
#[derive(Clone, Debug)]
pub struct BreakController {
    settings: PauseSettings,
    state: State,
    /// When the next break by the clock is due.
    due: Nanos,
    /// When the last break ended.
    ended: Nanos,
    /// Windows in a row that were too slow.
    slow: u32,
    /// Whether a slow stretch may trigger.
    armed: bool,
    /// The time between breaks is multiplied by this, because they did not help.
    spread: u64,
    /// Breaks in a row that did not help.
    poor: u32,
    gain: Option<f64>,
    throughput: Throughput,
    windows: Windows,
    judge: Judge,
    /// The last instant at which writes waited or were under way.
    demanded: Option<Nanos>,
    random: u64,
    events: Vec<BreakEvent>,
    counters: BreakCounters,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    Draining {
        since: Nanos,
    },
    Paused {
        since: Nanos,
        began: Nanos,
        reconnected: bool,
    },
    Reconnecting {
        began: Nanos,
    },
    Ramping {
        since: Nanos,
    },
}

/// Slow windows in a row that trigger.
const SLOW_WINDOWS: u32 = 3;
/// Share of the baseline from which a slow stretch is over (d.5: 0.8 to 0.9).
const CLEAR: f64 = 0.85;
/// Share of the rate at which a ramp starts (d.5).
const RAMP_FROM: f64 = 0.25;
/// A break must gain so much, or two of them double the interval, up to an hour (d.5).
const WORTH: f64 = 1.05;
/// So many in a row that do not double the interval.
const POOR: u32 = 2;
/// Breaks are at most this far apart.
const LONGEST: Nanos = Nanos::from_secs(3_600);
/// Writes waited or were under way within this time: there is demand.
const DEMAND: Nanos = Nanos::from_secs(1);
/// A chain without a block for so long, or five intervals, has halted.
const HALTED_SECS: f64 = 10.0;
const HALTED_INTERVALS: f64 = 5.0;

impl BreakController {
    /// Running; `seed` decides the jitter.
    pub fn new(now: Nanos, pause: &PauseSettings, seed: u64) -> Self {
        let mut controller = Self {
            settings: pause.clone(),
            state: State::Running,
            due: Nanos::MAX,
            ended: now,
            slow: 0,
            armed: true,
            spread: 1,
            poor: 0,
            gain: None,
            throughput: Throughput::new(),
            windows: Windows::default(),
            judge: Judge::default(),
            demanded: None,
            random: seed,
            events: Vec::new(),
            counters: BreakCounters::default(),
        };
        controller.judge.disturb(now);
        controller.due = controller.next_due(now);
        controller
    }

    /// A block.
    pub fn block(&mut self, block: &BlockSeen) {
        if self.throughput.block(block) != Counted::New {
            return;
        }
        self.judge.block(block.observed, block.txs);
        if let Some(window) = self.windows.block(block.observed, block.txs) {
            self.window(block.observed, window);
        }
        match self.judge.verdict() {
            Some(Verdict::Gain(gain)) => self.judged(gain),
            Some(Verdict::None) | None => {}
        }
    }

    /// The node's chain was replaced by another: heights begin anew, and nothing is known of it.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.throughput.restart();
        self.windows = Windows::default();
        self.judge = Judge::default();
        self.judge.disturb(now);
        self.slow = 0;
        self.armed = true;
    }

    /// A window in which writes waited throughout.
    fn window(&mut self, now: Nanos, window: Window) {
        if let Some((low, clear)) = self.thresholds() {
            if window.rate >= clear {
                self.slow = 0;
                self.armed = true;
            } else if window.rate < low {
                self.slow += 1;
            } else {
                self.slow = 0;
            }
        }
        self.windows.learn(now, window);
    }

    /// Below the first is slow, from the second on it is over.
    fn thresholds(&self) -> Option<(f64, f64)> {
        if let Some(rate) = self.settings.min_tx_rate {
            let low = rate.as_f64();
            return Some((low, low / CLEAR));
        }
        let baseline = self.windows.baseline()?;
        let low = (self.settings.min_fraction).min(CLEAR) * baseline;
        Some((low, CLEAR * baseline))
    }

    fn judged(&mut self, gain: f64) {
        self.gain = Some(gain);
        self.events.push(BreakEvent::Judged { gain });
        if gain >= WORTH {
            self.poor = 0;
            self.armed = true;
            return;
        }
        self.poor += 1;
        if self.poor < POOR {
            return;
        }
        self.poor = 0;
        let before = self.interval();
        self.spread *= 2;
        let interval = self.interval();
        if interval > before {
            self.due = self.due.saturating_add(interval.saturating_sub(before));
            self.events.push(BreakEvent::Spread { interval });
        } else {
            self.spread /= 2;
        }
    }

    /// Looks at the time. To be called every 50 ms or so, and when the last answer has come while
    /// the gate is draining.
    pub fn tick(&mut self, now: Nanos, facts: &BreakFacts) -> Turn {
        self.note(now, facts);
        let mut action = None;
        match self.state {
            State::Running => self.running(now, facts),
            State::Draining { since } => action = self.draining(now, since, facts),
            State::Paused { .. } | State::Reconnecting { .. } => self.paused(now),
            State::Ramping { since } => self.ramping(now, since),
        }
        Turn {
            gate: self.gate(now),
            action,
            events: std::mem::take(&mut self.events),
        }
    }

    /// Remembers demand, and what spoils the measurement.
    fn note(&mut self, now: Nanos, facts: &BreakFacts) {
        if facts.backlogged || facts.in_flight > 0 {
            self.demanded = Some(now);
        }
        let in_order = facts.backlogged && facts.connected && !facts.catching_up;
        if !in_order {
            self.judge.disturb(now);
        }
        if !in_order || self.state != State::Running {
            self.windows.spoil();
        }
    }

    fn running(&mut self, now: Nanos, facts: &BreakFacts) {
        let working = facts.connected && !facts.catching_up && !self.has_halted(now);
        let demanded = self
            .demanded
            .is_some_and(|at| now.saturating_sub(at) <= DEMAND);
        if self.settings.mode.by_clock() && now >= self.due {
            if working && demanded {
                self.counters.interval += 1;
                self.begin(now, BreakCause::Interval);
                return;
            }
            self.counters.skipped += 1;
            self.events.push(BreakEvent::Skipped);
            self.due = self.next_due(now);
        }
        let rested = now.saturating_sub(self.ended) >= self.min_run();
        let triggered =
            self.settings.mode.by_throughput() && self.armed && self.slow >= SLOW_WINDOWS;
        if triggered && rested && working && facts.backlogged {
            self.counters.threshold += 1;
            self.begin(now, BreakCause::Threshold);
        }
    }

    /// Running => Draining
    fn begin(&mut self, now: Nanos, cause: BreakCause) {
        self.events.push(BreakEvent::Began {
            cause,
            rate: self.throughput.rate(),
            baseline: self.windows.baseline(),
        });
        if cause == BreakCause::Threshold {
            self.armed = false;
        }
        self.slow = 0;
        let cycle = match cause {
            BreakCause::Interval => self.interval(),
            BreakCause::Threshold => self.min_run().saturating_mul(3),
        };
        self.judge.begin(now, cycle);
        self.windows.spoil();
        self.enter(State::Draining { since: now });
    }

    /// Draining => Paused
    fn draining(&mut self, now: Nanos, since: Nanos, facts: &BreakFacts) -> Option<BreakAction> {
        let waited = now.saturating_sub(since);
        let limit = self.settings.drain.min(self.settings.max_pause);
        if facts.in_flight > 0 && waited < limit.into() {
            return None;
        }
        self.enter(State::Paused {
            since: now,
            began: since,
            reconnected: false,
        });
        (self.settings.action == PauseAction::Reconnect).then_some(BreakAction::Reconnect)
    }

    /// The new connections are up.
    pub fn reconnected(&mut self, now: Nanos) {
        match &mut self.state {
            State::Paused { reconnected, .. } => *reconnected = true,
            // Reconnecting => Ramping
            State::Reconnecting { began } => {
                let began = *began;
                self.reopen(now, began);
            }
            State::Running | State::Draining { .. } | State::Ramping { .. } => {}
        }
    }

    fn paused(&mut self, now: Nanos) {
        let (State::Paused { began, .. } | State::Reconnecting { began }) = self.state else {
            return;
        };
        // Paused, Reconnecting => Ramping
        if now >= began.saturating_add(self.settings.max_pause.into()) {
            return self.reopen(now, began);
        }
        let State::Paused {
            since, reconnected, ..
        } = self.state
        else {
            return;
        };
        if now < since.saturating_add(self.settings.length.into()) {
            return;
        }
        if self.settings.action == PauseAction::Pause || reconnected {
            // Paused => Ramping
            self.reopen(now, began);
        } else {
            // Paused => Reconnecting
            self.enter(State::Reconnecting { began });
        }
    }

    fn reopen(&mut self, now: Nanos, began: Nanos) {
        let closed = now.saturating_sub(began);
        self.counters.closed = self.counters.closed.saturating_add(closed);
        self.enter(State::Ramping { since: now });
    }

    /// Ramping => Running
    fn ramping(&mut self, now: Nanos, since: Nanos) {
        if now.saturating_sub(since) < self.settings.ramp.into() {
            return;
        }
        self.ended = now;
        self.due = self.next_due(now);
        self.judge.end(now);
        self.enter(State::Running);
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        let name = self.state();
        self.events.push(BreakEvent::Entered(name));
    }

    fn gate(&self, now: Nanos) -> Gate {
        match self.state {
            State::Running => Gate::Open { factor: 1.0 },
            State::Draining { .. } => Gate::Draining,
            State::Paused { .. } | State::Reconnecting { .. } => Gate::Paused,
            State::Ramping { since } => {
                let ramp = self.settings.ramp.as_secs_f64();
                let part = if ramp > 0.0 {
                    now.saturating_sub(since).as_secs_f64() / ramp
                } else {
                    1.0
                };
                let factor = RAMP_FROM + (1.0 - RAMP_FROM) * part.min(1.0);
                Gate::Open { factor }
            }
        }
    }

    /// Until when nothing is sent, as far as is known; zero while the gate is open.
    pub fn closed_until(&self, now: Nanos) -> Nanos {
        let length = Nanos::from(self.settings.length);
        let end = |began: Nanos| began.saturating_add(self.settings.max_pause.into());
        match self.state {
            State::Running | State::Ramping { .. } => Nanos::ZERO,
            State::Draining { since } => now.saturating_add(length).min(end(since)),
            State::Paused { since, began, .. } => since.saturating_add(length).min(end(began)),
            State::Reconnecting { .. } => now,
        }
    }

    /// Random, so never the same distance twice: interval × (1 ± jitter).
    fn next_due(&mut self, now: Nanos) -> Nanos {
        let part = self.jitter();
        let interval = self.interval().as_secs_f64() * part;
        let nanos = Nanos::from(std::time::Duration::from_secs_f64(interval.clamp(0.0, 1e9)));
        now.saturating_add(nanos)
    }

    fn jitter(&mut self) -> f64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let unit = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 + self.settings.jitter.clamp(0.0, 0.9) * (2.0 * unit - 1.0)
    }

    /// The time between breaks by the clock, as it is now.
    pub fn interval(&self) -> Nanos {
        self.spread(self.settings.interval)
    }

    fn min_run(&self) -> Nanos {
        self.spread(self.settings.min_run)
    }

    fn spread(&self, time: std::time::Duration) -> Nanos {
        let time = Nanos::from(time);
        time.saturating_mul(self.spread).min(LONGEST.max(time))
    }

    fn has_halted(&self, now: Nanos) -> bool {
        let Some(last) = self.throughput.last_block() else {
            // Blocks cannot be had at all: the clock may still give breaks.
            return false;
        };
        let patience = HALTED_SECS.max(HALTED_INTERVALS * self.throughput.interval());
        now.saturating_sub(last).as_secs_f64() > patience
    }

    /// Where it stands.
    pub const fn state(&self) -> BreakState {
        match self.state {
            State::Running => BreakState::Running,
            State::Draining { .. } => BreakState::Draining,
            State::Paused { .. } => BreakState::Paused,
            State::Reconnecting { .. } => BreakState::Reconnecting,
            State::Ramping { .. } => BreakState::Ramping,
        }
    }

    /// What the last judged break brought: committed with it, as a ratio to without.
    pub const fn gain(&self) -> Option<f64> {
        self.gain
    }

    /// What is usually committed a second while writes wait.
    pub fn baseline(&self) -> Option<f64> {
        self.windows.baseline()
    }

    /// What happened in all.
    pub const fn counters(&self) -> BreakCounters {
        self.counters
    }
}
