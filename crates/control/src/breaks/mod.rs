//! When the node is given a break, and what a break is.
//!
//! # Constants of the breaks
//!
//! Those of BEP-19 and of the user's card are settings ([`PauseSettings`]). The tests are in
//! `tests/it/breaks.rs`.
//!
//! | constant | value | reason | test |
//! |---|---|---|---|
//! | `EASE` | 2 s | Answers are awaited for at most so long before a break, and the rate rises over it afterwards: the shortest slow start that is not over before the first block of 1 s. Writes that were seen within it are demand. | `the_rate_ramps_up_from_a_quarter`, `draining_awaits_answers_but_not_for_ever` |
//! | `MAX_PAUSE` | 30 s | New connections are awaited until so long after the break began: the default of `fair.queue_timeout`. | `a_reconnect_is_over_when_the_new_connections_are_up` |
//! | `JITTER` | 0.1 | Random part of the interval. 20 proxies that start together break at 20 different times. | `jitter_keeps_proxies_apart_and_inside_its_bounds` |
//! | `WINDOW` | 10 s | Throughput is measured over so long, as [`Throughput`] does. A chain without a block for so long has halted. | `controller_16_block_periodic_stalls_do_not_trigger`, `controller_17_a_halted_chain_gets_no_breaks` |
//! | `FEW` | 3 | Fewer blocks, windows or block intervals say nothing. | `a_single_slow_window_does_not_trigger`, `controller_16_…` |
//! | `SPAN` | 60 s | The longest span of a measurement: the effect of a break lasts 20 to 40 s (`docs/experiments.md`). | `controller_20_breaks_that_help_go_on` |
//! | `WORTH` | 1.05 | A break that gains less has not helped: 8 % was about the noise of one run (`docs/sentinel.md`). | `controller_20_breaks_that_do_not_help_back_off` |
//! | `RAREST` | 1 h | Breaks that do not help are at most so far apart. | `controller_20_breaks_that_do_not_help_back_off` |

mod meter;

use pacing::{Nanos, Random};

use self::meter::Meter;
use crate::settings::{PauseAction, PauseSettings};
use crate::throughput::{BlockSeen, Counted, Throughput};

const EASE: Nanos = Nanos::from_secs(2);
const MAX_PAUSE: Nanos = Nanos::from_secs(30);
const JITTER: f64 = 0.1;
const WINDOW: Nanos = Nanos::from_secs(10);
const FEW: usize = 3;
const SPAN: Nanos = Nanos::from_secs(60);
const WORTH: f64 = 1.05;
const RAREST: Nanos = Nanos::from_secs(3_600);

/// What the controller has to know at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakFacts {
    /// Writes wait.
    pub backlogged: bool,
    /// Writes sent and not answered.
    pub in_flight: usize,
    /// The node is down, or reads blocks that others made long ago.
    pub catching_up: bool,
    /// Connections for writes are up.
    pub connected: bool,
}

pacing::named! {
    /// Why there is a break.
    pub enum BreakCause {
        /// The clock.
        Interval => "interval",
        /// Measured throughput.
        Threshold => "threshold",
    }
}

pacing::named! {
    /// The states.
    #[derive(Default)]
    pub enum BreakState {
        /// Writes are sent.
        #[default]
        Running => "running",
        /// What is under way is awaited.
        Draining => "draining",
        /// Nothing is sent.
        Paused => "paused",
        /// The pause is over, the new connections are not up yet.
        Reconnecting => "reconnecting",
        /// The rate rises to the full rate.
        Ramping => "ramping",
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEvent {
    /// The state changed.
    Entered(BreakState),
    /// A break began.
    Began {
        /// Why.
        cause: BreakCause,
        /// Committed transactions a second at that moment, smoothed.
        rate: f64,
        /// What is usual, if that was learnt.
        baseline: Option<f64>,
    },
    /// Open new connections now, then call [`BreakController::reconnected`], then close the old
    /// ones.
    Reconnect,
    /// Writes are sent again.
    Reopened {
        /// After so long without.
        closed: Nanos,
    },
    /// A break by the clock was left out: there was no demand, or no blocks.
    Skipped,
    /// The gain of a break was measured: what was committed with it, as a ratio to without.
    Measured {
        /// 1 is no effect.
        gain: f64,
    },
    /// Breaks did not help: they will be so far apart now.
    Spread {
        /// The new time between them.
        interval: Nanos,
    },
}

/// Pauses and reconnects: Running → Draining → Paused → (Reconnecting) → Ramping → Running.
///
/// Triggers are the clock (with jitter, so that several proxies do not break together), measured
/// throughput, or both. Measured means: committed transactions under a share of the learnt baseline,
/// or under `min_tx_rate`, in three windows in a row, writes waiting throughout. After such a break
/// the next needs three windows in a row that are not slow, unless the last one was found to help.
/// Low demand, empty blocks, a halted chain and a node that is catching up never trigger a break.
///
/// The gain of every break is measured from all transactions committed around it, in its own time as
/// well. Each two that gain less than 5 % double the time between breaks, up to an hour, and each one
/// that gains more halves it again, down to what is set.
#[derive(Clone, Debug)]
pub struct BreakController {
    settings: PauseSettings,
    state: BreakState,
    /// When the state was entered.
    since: Nanos,
    /// When the last break began, and when it ended.
    began: Nanos,
    ended: Nanos,
    /// When the next break by the clock is due.
    due: Nanos,
    /// The last instant at which writes waited or were under way.
    demanded: Option<Nanos>,
    /// New connections were asked for and are not up.
    is_replacing: bool,
    /// Whether slow windows may trigger.
    armed: bool,
    /// Breaks that did not help, less two for each that did.
    poor: u32,
    /// The share of the rate that may be used.
    factor: f64,
    throughput: Throughput,
    meter: Meter,
    random: Random,
    events: Vec<BreakEvent>,
}

impl BreakController {
    /// Running; `seed` decides the jitter.
    pub fn new(now: Nanos, pause: &PauseSettings, seed: u64) -> Self {
        let mut controller = Self {
            settings: pause.clone(),
            state: BreakState::Running,
            since: now,
            began: now,
            ended: now,
            due: Nanos::MAX,
            demanded: None,
            is_replacing: false,
            armed: true,
            poor: 0,
            factor: 1.0,
            throughput: Throughput::new(),
            meter: Meter::new(now),
            random: Random::new(seed),
            events: Vec::new(),
        };
        controller.due = controller.next_due(now);
        controller
    }

    /// A block.
    pub fn block(&mut self, block: &BlockSeen) {
        if self.throughput.block(block) != Counted::New {
            return;
        }
        if self.meter.block(block.observed, block.all.txs as usize) {
            let recovered = |(lowest, _)| self.low().is_some_and(|low| lowest >= low);
            self.armed |= self.meter.recent().is_some_and(recovered);
        }
        if let Some(gain) = self.meter.gain() {
            self.judge(gain);
        }
    }

    /// The node's chain was replaced by another: heights begin anew, and nothing is known of it.
    pub fn chain_replaced(&mut self, now: Nanos) {
        self.throughput.restart();
        self.meter = Meter::new(now);
        self.armed = true;
    }

    /// The new connections are up.
    pub const fn reconnected(&mut self) {
        self.is_replacing = false;
    }

    /// Moves on with the time, and tells what has happened since the last call. To be called every
    /// 50 ms or so, and when the last answer has come while the state is draining.
    pub fn tick(&mut self, now: Nanos, facts: &BreakFacts) -> Vec<BreakEvent> {
        self.note(now, facts);
        let cause = self.cause(now, facts);
        if let Some(state) = self.next(now, facts, cause) {
            self.enter(state, now, cause);
        } else if self.state == BreakState::Running && self.is_due(now) {
            self.events.push(BreakEvent::Skipped);
            self.due = self.next_due(now);
        }
        self.factor = match self.state {
            BreakState::Running => 1.0,
            BreakState::Draining | BreakState::Paused | BreakState::Reconnecting => 0.0,
            BreakState::Ramping => {
                let lasted = now.saturating_sub(self.since).as_secs_f64();
                0.25 + 0.75 * (lasted / EASE.as_secs_f64()).min(1.0)
            }
        };
        std::mem::take(&mut self.events)
    }

    /// Notes demand, and what disturbs the measurement.
    fn note(&mut self, now: Nanos, facts: &BreakFacts) {
        if facts.backlogged || facts.in_flight > 0 {
            self.demanded = Some(now);
        }
        if self.state != BreakState::Running {
            self.meter.restart_window(now);
        } else if !facts.backlogged || !facts.connected || facts.catching_up {
            self.meter.disturb(now);
        }
    }

    /// Why a break may begin now.
    fn cause(&self, now: Nanos, facts: &BreakFacts) -> Option<BreakCause> {
        let since_demand = now.saturating_sub(self.demanded?);
        let is_working = facts.connected && !facts.catching_up && !self.has_halted(now);
        if !is_working || since_demand > EASE {
            return None;
        }
        if self.is_due(now) {
            return Some(BreakCause::Interval);
        }
        let slow = |(_, highest)| self.low().is_some_and(|low| highest < low);
        let rest = self.spread(WINDOW.saturating_mul(FEW as u64));
        let triggered = self.settings.mode.by_throughput()
            && self.armed
            && facts.backlogged
            && now.saturating_sub(self.ended) >= rest
            && self.meter.recent().is_some_and(slow);
        triggered.then_some(BreakCause::Threshold)
    }

    /// The state that follows, if the present one is over.
    fn next(
        &self,
        now: Nanos,
        facts: &BreakFacts,
        cause: Option<BreakCause>,
    ) -> Option<BreakState> {
        let lasted = now.saturating_sub(self.since);
        let (is_over, next) = match self.state {
            // Running => Draining
            BreakState::Running => (cause.is_some(), BreakState::Draining),
            // Draining => Paused
            BreakState::Draining => (facts.in_flight == 0 || lasted >= EASE, BreakState::Paused),
            // Paused => Reconnecting, Ramping
            BreakState::Paused => {
                let is_over = lasted >= self.settings.length.into();
                let late = [BreakState::Ramping, BreakState::Reconnecting];
                (is_over, late[usize::from(self.is_replacing)])
            }
            // Reconnecting => Ramping
            BreakState::Reconnecting => {
                let is_late = now.saturating_sub(self.began) >= MAX_PAUSE;
                (!self.is_replacing || is_late, BreakState::Ramping)
            }
            // Ramping => Running
            BreakState::Ramping => (lasted >= EASE, BreakState::Running),
        };
        is_over.then_some(next)
    }

    fn enter(&mut self, state: BreakState, now: Nanos, cause: Option<BreakCause>) {
        match (state, cause) {
            (BreakState::Draining, Some(cause)) => {
                self.events.push(BreakEvent::Began {
                    cause,
                    rate: self.throughput.rate(),
                    baseline: self.meter.baseline(),
                });
                self.armed &= cause != BreakCause::Threshold;
                let third = Nanos::new(self.interval().as_nanos() / 3);
                self.meter.begin(now, third.min(SPAN));
                self.began = now;
            }
            (BreakState::Paused, _) if self.settings.action == PauseAction::Reconnect => {
                self.is_replacing = true;
                self.events.push(BreakEvent::Reconnect);
            }
            (BreakState::Ramping, _) => {
                let closed = now.saturating_sub(self.began);
                self.events.push(BreakEvent::Reopened { closed });
            }
            (BreakState::Running, _) => {
                self.ended = now;
                self.due = self.next_due(now);
                self.meter.end(now);
            }
            _ => {}
        }
        self.state = state;
        self.since = now;
        self.events.push(BreakEvent::Entered(state));
    }

    /// A gain was measured.
    fn judge(&mut self, gain: f64) {
        self.events.push(BreakEvent::Measured { gain });
        if gain >= WORTH {
            self.poor = self.poor.saturating_sub(2);
            self.armed = true;
            return;
        }
        let before = self.interval();
        self.poor += u32::from(before < RAREST);
        let interval = self.interval();
        if interval > before {
            let longer = interval.saturating_sub(before);
            self.due = self.due.saturating_add(longer);
            self.events.push(BreakEvent::Spread { interval });
        }
    }

    /// Fewer committed transactions a second than this are slow.
    fn low(&self) -> Option<f64> {
        let share = |baseline| self.settings.min_fraction * baseline;
        let fixed = self.settings.min_tx_rate.map(|rate| rate.as_f64());
        fixed.or_else(|| self.meter.baseline().map(share))
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.settings.mode.by_clock() && now >= self.due
    }

    /// When the next break by the clock is due: after interval × (1 ± jitter), at random.
    fn next_due(&mut self, now: Nanos) -> Nanos {
        let part = 1.0 + JITTER * (2.0 * self.random.unit() - 1.0);
        let nanos = self.interval().as_nanos() as f64 * part;
        now.saturating_add(Nanos::new(nanos as u64))
    }

    /// A time between breaks, longer while they do not help.
    fn spread(&self, time: Nanos) -> Nanos {
        let times = 1_u64.checked_shl(self.poor / 2).unwrap_or(u64::MAX);
        time.saturating_mul(times).min(time.max(RAREST))
    }

    fn has_halted(&self, now: Nanos) -> bool {
        // If no block is ever seen, the clock may still trigger breaks.
        let open = |last| now.saturating_sub(last).as_secs_f64();
        let patience = WINDOW
            .as_secs_f64()
            .max(FEW as f64 * self.throughput.interval());
        self.throughput.last_block().map_or(0.0, open) > patience
    }

    /// The time between breaks by the clock, as it is now.
    pub fn interval(&self) -> Nanos {
        self.spread(self.settings.interval.into())
    }

    /// Until when nothing is sent, as far as is known; zero while writes are sent.
    pub fn closed_until(&self, now: Nanos) -> Nanos {
        let length = self.settings.length.into();
        match self.state {
            BreakState::Running | BreakState::Ramping => Nanos::ZERO,
            BreakState::Draining => now.saturating_add(length),
            BreakState::Paused => self.since.saturating_add(length),
            BreakState::Reconnecting => now,
        }
    }

    /// The state it is in.
    pub const fn state(&self) -> BreakState {
        self.state
    }

    /// The share of the rate that may be used: 0 while nothing is to be sent, at most 1.
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// What is usually committed a second while writes wait.
    pub fn baseline(&self) -> Option<f64> {
        self.meter.baseline()
    }
}
