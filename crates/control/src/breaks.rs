//! When the node is given a break, what a break is, and whether it helped.
//!
//! # Constants of the breaks
//!
//! Those of BEP-19 and of the user's card are settings ([`PauseSettings`]). The tests are in
//! `tests/it/breaks.rs`.
//!
//! | constant | value | reason | test |
//! |---|---|---|---|
//! | `EASE` | 2 s | Answers are awaited for at most so long before a break. Writes that were seen within it are demand. | `draining_awaits_answers_but_not_for_ever` |
//! | `INTERVAL` | 100 s | Where the clock triggers no breaks, spans and backing off go by BEP-19's interval. | `controller_20_breaks_that_do_not_help_back_off` |
//! | `JITTER` | 0.1 | Random part of the interval. 20 proxies that start together break at 20 different times. | `jitter_keeps_proxies_apart_and_inside_its_bounds` |
//! | `WINDOW` | 10 s | The memory of the committed rate ([`Throughput`]). A chain without a block for so long has halted. | `controller_16_block_periodic_stalls_do_not_trigger`, `controller_17_a_halted_chain_gets_no_breaks` |
//! | `FEW` | 3 | Fewer blocks, windows or block intervals are too few to judge. | `a_single_slow_window_does_not_trigger`, `controller_16_…` |
//! | `USUAL` | 600 s | In so long what is usual falls to a third, if less is committed. | `controller_19_a_real_decline_triggers_once`, `a_slow_decline_becomes_usual` |
//! | `SPAN` | 60 s | The longest span of a measurement: the effect of a break lasts 20 to 40 s (`docs/experiments.md`). | `controller_20_breaks_that_help_go_on` |
//! | `WORTH` | 1.05 | A break that gains less has not helped: 8 % was about the noise of one run (`docs/sentinel.md`). | `controller_20_breaks_that_do_not_help_back_off` |
//! | `RAREST` | 1 h | Breaks that do not help are at most so far apart. | `controller_20_breaks_that_do_not_help_back_off` |

use std::collections::VecDeque;

use base::Random;
use pacing::Nanos;

use crate::load::remember;
use crate::settings::{MinTxRate, PauseAction, PauseSettings};
use crate::throughput::{BlockSeen, Throughput};

const EASE: Nanos = Nanos::from_secs(2);
const INTERVAL: Nanos = Nanos::from_secs(100);
const JITTER: f64 = 0.1;
const WINDOW: Nanos = Nanos::from_secs(10);
const FEW: u64 = 3;
const USUAL: f64 = 600.0;
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
    /// The node takes writes: it is up, reads no blocks that others made long ago, and connections to it are open.
    pub takes_writes: bool,
}

base::named! {
    /// Why there is a break.
    pub enum BreakCause {
        /// The clock.
        Interval => "interval",
        /// The committed rate.
        Threshold => "threshold",
    }
}

base::named! {
    /// The states. Writes are sent in the first one only.
    #[derive(Default)]
    pub enum BreakState {
        /// Writes are sent.
        #[default]
        Running => "running",
        /// The answers to the writes under way are awaited.
        Draining => "draining",
        /// Nothing is sent.
        Paused => "paused",
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEvent {
    /// A break began.
    Began(BreakCause),
    /// Replace the connections now: nothing is under way on them.
    Reconnect,
    /// Writes are sent again, after so long without.
    Reopened(Nanos),
    /// The gain of a break was measured: what was committed with it, as a ratio to without; 1 is no effect.
    Measured(f64),
}

/// Pauses and reconnects: Running → Draining → Paused → Running.
///
/// Triggers are the clock (with jitter, so that several proxies do not break together), the committed
/// rate, or both. The rate triggers when it is under a share of what is usual, or under `min_tx_rate`, for
/// 30 s, writes waiting throughout. After such a break the next needs 30 s that are not slow, unless the
/// last one was found to help. Low demand, empty blocks, a halted chain and a node that is catching up
/// never trigger a break.
///
/// The gain of a break from b on is measured by three spans of equal length L: before, [b − L, b); with
/// the break, [b, b + L), so that what the pause costs counts; after, [b + L, b + 2L). It is
/// rate(with) / mean(rate(before), rate(after)): a node that slows down steadily has the same gain
/// as one that does not, 1. All three need writes waiting throughout, some blocks each, and no
/// other break; otherwise nothing is measured. Each two breaks that gain less than 5 % double the time
/// between breaks, up to an hour, and each one that gains more halves it again, down to what is set.
///
/// The rate while sending must not decide: after a pause the queue is longer and the node rested.
/// CometBFT 0.38 was measured to commit faster for 20 to 40 s after 20 s without load, which gained
/// 8 % in all, the pause included (`docs/experiments.md`). After a break the window and the pace bound
/// what is sent, as at any other time.
#[derive(Clone, Debug, Default)]
pub struct BreakController {
    settings: PauseSettings,
    state: BreakState,
    /// When the state was entered.
    since: Nanos,
    /// When the last break began.
    began: Nanos,
    /// When the next break by the clock is due.
    due: Nanos,
    /// The last instant at which writes waited or were under way.
    demanded: Option<Nanos>,
    /// The last instant outside breaks at which nothing waited, or the chain was not in order.
    disturbed: Nanos,
    chain: Chain,
    /// Breaks that did not help, less two for each that did.
    poor: u32,
    seed: u64,
}

/// What is known of the chain.
#[derive(Clone, Debug, Default)]
struct Chain {
    committed: Throughput,
    /// What is usually committed a second while writes wait.
    usual: f64,
    /// Whether less is committed, or not, and since when without a disturbance.
    slow: (bool, Nanos),
    /// The last break by the committed rate did not help, and no time has passed since in which the chain was not slow.
    is_spent: bool,
    curve: Curve,
    /// When the break began that is being measured, and the length of the spans.
    measured: Option<(Nanos, Nanos)>,
}

impl BreakController {
    /// Running; `seed` decides the jitter.
    pub fn new(now: Nanos, pause: &PauseSettings, seed: u64) -> Self {
        let mut controller = Self {
            settings: *pause,
            disturbed: now,
            seed,
            ..Self::default()
        };
        controller.schedule(now);
        controller
    }

    /// Goes by other settings from now on. A break under way ends as it does now or after the new length; the clock
    /// begins anew where its interval changes.
    pub fn set(&mut self, now: Nanos, pause: &PauseSettings) {
        let interval = std::mem::replace(&mut self.settings, *pause).interval;
        if interval != pause.interval {
            self.schedule(now);
        }
    }

    /// A block: whether the gain of a break is known with it.
    pub fn block(&mut self, block: &BlockSeen) -> Option<BreakEvent> {
        let chain = &mut self.chain;
        let last = chain.committed.last_block().unwrap_or(block.observed);
        if !chain.committed.block(block) {
            return None;
        }
        chain.curve.push(block.observed, block.all.txs);
        if chain.slow.1 < last {
            let secs = block.observed.saturating_sub(last).as_secs_f64();
            let faded = chain.usual * (-secs / USUAL).exp();
            chain.usual = chain.committed.rate().max(faded);
        }
        let (began, span) = (chain.measured).take_if(|(began, span)| {
            block.observed >= began.saturating_add(span.saturating_mul(2))
        })?;
        let is_quiet = self.state == BreakState::Running
            && self.since < began.saturating_add(span)
            && self.disturbed <= self.since;
        let gain = chain.curve.gain(began, span).filter(|_| is_quiet)?;
        let before = self.interval();
        if gain >= WORTH {
            self.poor = self.poor.saturating_sub(2);
            self.chain.is_spent = false;
        } else if before < RAREST {
            self.poor += 1;
        }
        let longer = self.interval().saturating_sub(before);
        self.due = self.due.saturating_add(longer);
        Some(BreakEvent::Measured(gain))
    }

    /// The node's chain was replaced by another: heights begin anew, and nothing is known of it.
    pub fn chain_replaced(&mut self) {
        self.chain = Chain::default();
    }

    /// Moves on with the time: what has happened. To be called every 50 ms or so, and when the last answer has come
    /// while the state is draining.
    pub fn tick(&mut self, now: Nanos, facts: &BreakFacts) -> Option<BreakEvent> {
        self.note(now, facts);
        let lasted = now.saturating_sub(self.since);
        match self.state {
            BreakState::Running => {
                let cause = self.cause(now, facts);
                if cause.is_none() && self.is_due(now) {
                    self.schedule(now);
                }
                cause.map(|cause| self.begin(now, cause))
            }
            BreakState::Draining if facts.in_flight == 0 || lasted >= EASE => {
                (self.state, self.since) = (BreakState::Paused, now);
                let replaces = self.settings.action == PauseAction::Reconnect;
                replaces.then_some(BreakEvent::Reconnect)
            }
            BreakState::Paused if lasted >= self.settings.length.into() => {
                (self.state, self.since) = (BreakState::Running, now);
                self.schedule(now);
                Some(BreakEvent::Reopened(now.saturating_sub(self.began)))
            }
            _ => None,
        }
    }

    fn begin(&mut self, now: Nanos, cause: BreakCause) -> BreakEvent {
        (self.state, self.since, self.began) = (BreakState::Draining, now, now);
        self.chain.is_spent |= cause == BreakCause::Threshold;
        let span = SPAN.min(Nanos::new(self.interval().as_nanos() / 3));
        // What is still being measured would include this break.
        let is_known = self.disturbed < now.saturating_sub(span);
        self.chain.measured = is_known.then_some((now, span));
        BreakEvent::Began(cause)
    }

    fn note(&mut self, now: Nanos, facts: &BreakFacts) {
        if facts.backlogged || facts.in_flight > 0 {
            self.demanded = Some(now);
        }
        let is_closed = self.is_closed();
        let is_quiet = facts.backlogged && facts.takes_writes;
        if !is_quiet && !is_closed {
            self.disturbed = now;
        }
        let patience = self.patience();
        let chain = &mut self.chain;
        let low = match self.settings.min_tx_rate {
            MinTxRate::Off => 0.0,
            MinTxRate::Rate(rate) => rate.as_f64(),
            MinTxRate::Percent(percent) => f64::from(percent) / 100.0 * chain.usual,
        };
        let is_slow = chain.committed.interval() > 0.0 && chain.committed.rate() < low;
        let (was_slow, since) = chain.slow;
        if !is_quiet || is_closed || is_slow != was_slow {
            chain.slow = (is_slow, now);
        } else if !is_slow && now.saturating_sub(since) >= patience {
            chain.is_spent = false;
        }
    }

    /// Why a break may begin now.
    fn cause(&self, now: Nanos, facts: &BreakFacts) -> Option<BreakCause> {
        let (is_slow, slow_since) = self.chain.slow;
        let last = self.chain.committed.last_block().unwrap_or(now);
        // If no block is ever seen, the clock may still trigger breaks.
        let has_halted = now.saturating_sub(last).saturating_mul(FEW) > self.patience();
        let since_demand = now.saturating_sub(self.demanded?);
        if !facts.takes_writes || has_halted || since_demand > EASE {
            return None;
        }
        if self.is_due(now) {
            return Some(BreakCause::Interval);
        }
        let is_long = now.saturating_sub(slow_since) >= self.spread(self.patience());
        (is_slow && is_long && !self.chain.is_spent).then_some(BreakCause::Threshold)
    }

    /// The next break by the clock is due after interval × (1 ± jitter), at random.
    fn schedule(&mut self, now: Nanos) {
        let random = Random::new(self.seed ^ now.as_nanos()).unit();
        let part = 1.0 + JITTER * (2.0 * random - 1.0);
        let nanos = self.interval().as_nanos() as f64 * part;
        self.due = now.saturating_add(Nanos::new(nanos as u64));
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.settings.interval.is_some() && now >= self.due
    }

    /// A time between breaks, longer while they do not help.
    fn spread(&self, time: Nanos) -> Nanos {
        let times = 1_u64.checked_shl(self.poor / 2).unwrap_or(u64::MAX);
        time.saturating_mul(times).min(time.max(RAREST))
    }

    /// How long a rate counts: a few times its memory, or a few intervals between blocks if these are longer.
    fn patience(&self) -> Nanos {
        let interval = Nanos::new((self.chain.committed.interval() * 1e9) as u64);
        WINDOW.max(interval.saturating_mul(FEW)).saturating_mul(FEW)
    }

    /// The time between breaks by the clock, as it is now.
    pub fn interval(&self) -> Nanos {
        self.spread(self.settings.interval.map_or(INTERVAL, Nanos::from))
    }

    /// Until when nothing is sent, as far as is known; zero while writes are sent.
    pub fn closed_until(&self, now: Nanos) -> Nanos {
        let length = self.settings.length.into();
        match self.state {
            BreakState::Running => Nanos::ZERO,
            BreakState::Draining => now.saturating_add(length),
            BreakState::Paused => self.since.saturating_add(length),
        }
    }

    /// The state it is in.
    pub const fn state(&self) -> BreakState {
        self.state
    }

    /// Whether nothing is to be sent.
    pub fn is_closed(&self) -> bool {
        self.state != BreakState::Running
    }

    /// What is usually committed a second while writes wait; 0 until that was learnt.
    pub const fn usual(&self) -> f64 {
        self.chain.usual
    }
}

/// Instants of blocks and the transactions committed up to each.
#[derive(Clone, Debug, Default)]
struct Curve(VecDeque<(Nanos, u64)>);

/// Blocks kept: those of three spans of a minute, down to 0.2 s a block. With more of them long spans
/// are not measured.
const CURVE: usize = 1_024;

impl Curve {
    fn push(&mut self, observed: Nanos, txs: u64) {
        let (at, total) = self.0.back().copied().unwrap_or_default();
        remember(&mut self.0, CURVE, (at.max(observed), total + txs));
    }

    /// What was committed with a break, as a ratio to without.
    fn gain(&self, began: Nanos, span: Nanos) -> Option<f64> {
        let middle = began.saturating_add(span);
        let before = self.rate(began.saturating_sub(span), began)?;
        let with = self.rate(began, middle)?;
        let without = (before + self.rate(middle, middle.saturating_add(span))?) / 2.0;
        (without > 0.0).then(|| with / without)
    }

    /// Transactions a second between the last blocks up to two instants; none if too few blocks are known.
    fn rate(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let [first, last] = [from, to].map(|at| self.0.partition_point(|(block, _)| *block <= at));
        let (start, before) = self.0.get(first.checked_sub(1)?)?;
        let (end, total) = self.0.get(last - 1)?;
        let secs = end.saturating_sub(*start).as_secs_f64();
        ((last - first) as u64 >= FEW).then(|| (total - before) as f64 / secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one second whose size is a function of the second, and a break of 30 s at 100.
    fn gain(size: impl Fn(u64) -> u64) -> f64 {
        let mut curve = Curve::default();
        for second in 0..200 {
            curve.push(Nanos::from_secs(second), size(second));
        }
        let at = [100, 30].map(Nanos::from_secs);
        curve.gain(at[0], at[1]).unwrap()
    }

    #[test]
    fn a_pause_without_effect_costs_its_length() {
        let size = |second| {
            if (101..=105).contains(&second) {
                0
            } else {
                1_000
            }
        };
        assert!((gain(size) - 25.0 / 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_steady_decline_is_not_the_fault_of_the_break() {
        assert!((gain(|second| 10_000 - second * 20) - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_a_rested_node_commits_more_is_its_gain() {
        let size = |second| match second {
            101..=105 => 0,
            106..=130 => 1_500,
            _ => 1_000,
        };
        assert!((gain(size) - 1.25).abs() < 1e-9);
    }

    /// A chain whose blocks come so fast that those before the break are forgotten: a part of the
    /// transactions must not pass for all of them.
    #[test]
    fn a_span_that_is_not_known_whole_is_not_measured() {
        let mut curve = Curve::default();
        for block in 0..40_000 {
            curve.push(Nanos::from_millis(block * 5), 10);
        }
        let secs = Nanos::from_secs;
        assert_eq!(curve.gain(secs(190), secs(3)), None);
        assert_eq!(curve.gain(secs(198), Nanos::from_millis(500)), Some(1.0));
        // Two blocks are too few.
        let mut slow = Curve::default();
        for block in 0..20 {
            slow.push(secs(block * 5), 10);
        }
        assert_eq!(slow.gain(secs(50), secs(10)), None);
        assert_eq!(slow.gain(secs(50), secs(15)), Some(1.0));
    }
}
