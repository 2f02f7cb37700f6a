//! When the node is given a break, and what a break is.

mod gain;
mod report;
mod windows;

use std::time::Duration;

use pacing::{Nanos, Random};

use self::gain::GainMeter;
pub use self::report::{BreakCause, BreakDecision, BreakEvent, BreakFacts, BreakState, Gate};
use self::windows::Windows;
use crate::settings::{PauseAction, PauseSettings};
use crate::throughput::{BlockSeen, Counted, Throughput};

/// Pauses and reconnects: Running → Draining → Paused → (Reconnecting) → Ramping → Running.
///
/// Triggers are the clock (with jitter, so that several proxies do not break together), measured
/// throughput, or both. Measured means: committed transactions under 0.55 of the learnt baseline, or
/// under `min_tx_rate`, in three windows in a row, writes waiting throughout. After such a break the
/// next needs a window above 0.85 of the baseline first, unless the last one was found to help.
/// Low demand, empty blocks, a halted chain and a node that is catching up never trigger a break.
///
/// The gain of every break is measured from all transactions committed around it, in its own time
/// as well; two breaks in a row that gain less than 5 % double the time between breaks, up to an
/// hour.
#[derive(Clone, Debug)]
pub struct BreakController {
    settings: PauseSettings,
    state: BreakState,
    /// When the state was entered.
    since: Nanos,
    /// When the last break began, and whether its new connections are up.
    began: Nanos,
    reconnected: bool,
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
    throughput: Throughput,
    windows: Windows,
    gain_meter: GainMeter,
    /// The last instant at which writes waited or were under way.
    demanded: Option<Nanos>,
    random: Random,
    events: Vec<BreakEvent>,
    /// How long nothing new was sent because of breaks.
    closed: Nanos,
}

/// Slow windows in a row that trigger.
const SLOW_WINDOWS: u32 = 3;
/// Share of the baseline from which a slow stretch is over.
const CLEAR: f64 = 0.85;
/// Share of the rate at which a ramp starts.
const RAMP_FROM: f64 = 0.25;
/// Breaks that gain less double the time between them.
const WORTH: f64 = 1.05;
/// After so many in a row.
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
            state: BreakState::Running,
            since: now,
            began: now,
            reconnected: false,
            due: Nanos::MAX,
            ended: now,
            slow: 0,
            armed: true,
            spread: 1,
            poor: 0,
            throughput: Throughput::new(),
            windows: Windows::default(),
            gain_meter: GainMeter::default(),
            demanded: None,
            random: Random::new(seed),
            events: Vec::new(),
            closed: Nanos::ZERO,
        };
        controller.gain_meter.disturb(now);
        controller.due = controller.next_due(now);
        controller
    }

    /// A block.
    pub fn block(&mut self, block: &BlockSeen) {
        if self.throughput.block(block) != Counted::New {
            return;
        }
        self.gain_meter
            .block(block.observed, block.all.txs as usize);
        if let Some(rate) = self.windows.block(block.observed, block.all.txs as usize) {
            self.window(block.observed, rate);
        }
        if let Some(gain) = self.gain_meter.measured() {
            self.measured(gain);
        }
    }

    /// The node's chain was replaced by another: heights begin anew, and nothing is known of it.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.throughput.restart();
        self.windows = Windows::default();
        self.gain_meter = GainMeter::default();
        self.gain_meter.disturb(now);
        self.slow = 0;
        self.armed = true;
    }

    /// A window in which writes waited throughout.
    fn window(&mut self, now: Nanos, rate: f64) {
        if let Some((low, clear)) = self.thresholds() {
            if rate >= clear {
                self.slow = 0;
                self.armed = true;
            } else if rate < low {
                self.slow += 1;
            } else {
                self.slow = 0;
            }
        }
        self.windows.learn(now, rate);
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

    fn measured(&mut self, gain: f64) {
        self.events.push(BreakEvent::Measured { gain });
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

    /// Moves on with the time. To be called every 50 ms or so, and when the last answer has come while
    /// the gate is draining.
    pub fn tick(&mut self, now: Nanos, facts: &BreakFacts) -> BreakDecision {
        self.note(now, facts);
        let mut reconnect = false;
        match self.state {
            BreakState::Running => self.running(now, facts),
            BreakState::Draining => reconnect = self.draining(now, facts),
            BreakState::Paused | BreakState::Reconnecting => self.paused(now),
            BreakState::Ramping => self.ramping(now),
        }
        BreakDecision {
            gate: self.gate(now),
            reconnect,
            events: std::mem::take(&mut self.events),
        }
    }

    /// Notes demand, and what disturbs the measurement.
    fn note(&mut self, now: Nanos, facts: &BreakFacts) {
        if facts.backlogged || facts.in_flight > 0 {
            self.demanded = Some(now);
        }
        let in_order = facts.backlogged && facts.connected && !facts.catching_up;
        if !in_order {
            self.gain_meter.disturb(now);
        }
        if !in_order || self.state != BreakState::Running {
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
                self.begin(now, BreakCause::Interval);
                return;
            }
            self.events.push(BreakEvent::Skipped);
            self.due = self.next_due(now);
        }
        let rested = now.saturating_sub(self.ended) >= self.min_run();
        let triggered =
            self.settings.mode.by_throughput() && self.armed && self.slow >= SLOW_WINDOWS;
        if triggered && rested && working && facts.backlogged {
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
        self.gain_meter.begin(now, cycle);
        self.windows.spoil();
        self.began = now;
        self.reconnected = false;
        self.enter(BreakState::Draining, now);
    }

    /// Draining => Paused. Whether new connections are to be opened now.
    fn draining(&mut self, now: Nanos, facts: &BreakFacts) -> bool {
        let limit = self.settings.drain.min(self.settings.max_pause);
        if facts.in_flight > 0 && now.saturating_sub(self.since) < limit.into() {
            return false;
        }
        self.enter(BreakState::Paused, now);
        self.settings.action == PauseAction::Reconnect
    }

    /// The new connections are up.
    pub fn reconnected(&mut self, now: Nanos) {
        match self.state {
            BreakState::Paused => self.reconnected = true,
            BreakState::Reconnecting => self.reopen(now),
            BreakState::Running | BreakState::Draining | BreakState::Ramping => {}
        }
    }

    fn paused(&mut self, now: Nanos) {
        let over = now >= self.since.saturating_add(self.settings.length.into());
        let ready = self.settings.action == PauseAction::Pause || self.reconnected;
        if now >= self.longest_end() || (self.state == BreakState::Paused && over && ready) {
            self.reopen(now);
        } else if self.state == BreakState::Paused && over {
            // Paused => Reconnecting
            self.enter(BreakState::Reconnecting, now);
        }
    }

    /// When the break ends at the latest.
    fn longest_end(&self) -> Nanos {
        self.began.saturating_add(self.settings.max_pause.into())
    }

    /// Paused, Reconnecting => Ramping
    fn reopen(&mut self, now: Nanos) {
        self.closed = self.closed.saturating_add(now.saturating_sub(self.began));
        self.enter(BreakState::Ramping, now);
    }

    /// Ramping => Running
    fn ramping(&mut self, now: Nanos) {
        if now.saturating_sub(self.since) < self.settings.ramp.into() {
            return;
        }
        self.ended = now;
        self.due = self.next_due(now);
        self.gain_meter.end(now);
        self.enter(BreakState::Running, now);
    }

    fn enter(&mut self, state: BreakState, now: Nanos) {
        self.state = state;
        self.since = now;
        self.events.push(BreakEvent::Entered(state));
    }

    fn gate(&self, now: Nanos) -> Gate {
        match self.state {
            BreakState::Running => Gate::Open { factor: 1.0 },
            BreakState::Draining => Gate::Draining,
            BreakState::Paused | BreakState::Reconnecting => Gate::Paused,
            BreakState::Ramping => {
                let ramp = self.settings.ramp.as_secs_f64();
                let part = if ramp > 0.0 {
                    now.saturating_sub(self.since).as_secs_f64() / ramp
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
        let end = match self.state {
            BreakState::Running | BreakState::Ramping => return Nanos::ZERO,
            BreakState::Draining => now.saturating_add(length),
            BreakState::Paused => self.since.saturating_add(length),
            BreakState::Reconnecting => return now,
        };
        end.min(self.longest_end())
    }

    /// When the next break by the clock is due: after interval × (1 ± jitter), at random.
    fn next_due(&mut self, now: Nanos) -> Nanos {
        let jitter = self.settings.jitter.clamp(0.0, 0.9);
        let part = 1.0 + jitter * (2.0 * self.random.unit() - 1.0);
        let secs = self.interval().as_secs_f64() * part;
        now.saturating_add(Duration::from_secs_f64(secs.clamp(0.0, 1e9)).into())
    }

    /// The time between breaks by the clock, as it is now.
    pub fn interval(&self) -> Nanos {
        self.spread(self.settings.interval)
    }

    fn min_run(&self) -> Nanos {
        self.spread(self.settings.min_run)
    }

    fn spread(&self, time: Duration) -> Nanos {
        let time = Nanos::from(time);
        time.saturating_mul(self.spread).min(LONGEST.max(time))
    }

    fn has_halted(&self, now: Nanos) -> bool {
        let Some(last) = self.throughput.last_block() else {
            // No block is ever seen: the clock may still trigger breaks.
            return false;
        };
        let patience = HALTED_SECS.max(HALTED_INTERVALS * self.throughput.interval());
        now.saturating_sub(last).as_secs_f64() > patience
    }

    /// The state it is in.
    pub const fn state(&self) -> BreakState {
        self.state
    }

    /// What is usually committed a second while writes wait.
    pub fn baseline(&self) -> Option<f64> {
        self.windows.baseline()
    }

    /// How long nothing new was sent because of breaks, in all.
    pub const fn closed(&self) -> Nanos {
        self.closed
    }
}
