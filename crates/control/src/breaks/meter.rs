//! What the chain commits, what is usual, and how much a break helped.

use std::collections::VecDeque;

use pacing::Nanos;

use super::{FEW, WINDOW};

/// Measures committed transactions while writes wait.
///
/// The time is cut into windows from block to block. From those in which writes waited throughout it
/// learns how much is usually committed.
///
/// A break from b on is measured by three spans of equal length L: before, [b − L, b); with the
/// break, [b, b + L), so that what the pause costs counts; after, [b + L, b + 2L). Its gain is
/// rate(with) / mean(rate(before), rate(after)): a node that slows down steadily has the same gain
/// as one that does not, 1. All three need writes waiting throughout, some blocks each, and no
/// other break; otherwise nothing is measured.
///
/// The rate while sending must not decide: after a pause the queue is longer and the node rested.
/// CometBFT 0.38 was measured to commit faster for 20 to 40 s after 20 s without load, which gained
/// 8 % in all, the pause included (`docs/experiments.md`).
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    /// Instants of blocks and the transactions committed up to each.
    curve: VecDeque<(Nanos, f64)>,
    /// The rates of the last windows in which writes waited throughout.
    windows: VecDeque<f64>,
    /// Where the open window began.
    start: Nanos,
    /// The last instant outside breaks at which nothing waited, or the chain was not in order.
    disturbed: Nanos,
    open: Option<OpenBreak>,
}

/// A break that is being measured.
#[derive(Clone, Copy, Debug)]
struct OpenBreak {
    began: Nanos,
    span: Nanos,
    /// When the full rate was allowed again; none while the break lasts.
    ended: Option<Nanos>,
}

/// Blocks kept: those of three spans of a minute, down to 0.2 s a block. With more of them long spans
/// are not measured.
const CURVE: usize = 1_024;
/// Windows kept, ten minutes of them: a node that slows down permanently is usual after so long.
const WINDOWS: usize = 60;

impl Meter {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            start: now,
            disturbed: now,
            ..Self::default()
        }
    }

    /// Counts a block. Whether it ended a window in which writes waited throughout. The first one
    /// starts the clock: the time in which its transactions came is unknown.
    pub(super) fn block(&mut self, observed: Nanos, txs: usize) -> bool {
        let last = self.curve.back().copied();
        let (at, total) = last.map_or((observed, 0.0), |(at, total)| {
            (at.max(observed), total + txs as f64)
        });
        push(&mut self.curve, (at, total), CURVE);
        let oldest = self.curve.front().map_or(at, |(oldest, _)| *oldest);
        self.start = self.start.max(oldest);
        if at.saturating_sub(self.start) < WINDOW {
            return false;
        }
        let Some(rate) = self.rate(self.start, at) else {
            return false;
        };
        push(&mut self.windows, rate, WINDOWS);
        self.start = at;
        true
    }

    /// Nothing is sent because of a break: the open window begins anew.
    pub(super) const fn restart_window(&mut self, now: Nanos) {
        self.start = now;
    }

    /// Nothing waits, or the chain is not in order, and no break is the reason.
    pub(super) const fn disturb(&mut self, now: Nanos) {
        self.start = now;
        self.disturbed = now;
    }

    /// The lowest and the highest rate of the last windows, once there are enough.
    pub(super) fn recent(&self) -> Option<(f64, f64)> {
        let rates = self.windows.range(self.windows.len().checked_sub(FEW)?..);
        Some(rates.fold((f64::MAX, 0.0), |(low, high), rate| {
            (rate.min(low), rate.max(high))
        }))
    }

    /// What is usually committed a second while writes wait: the rate that a tenth of the windows
    /// exceed, so that a single one does not count. None until it was learnt.
    pub(super) fn baseline(&self) -> Option<f64> {
        if self.windows.len() < 2 * FEW {
            return None;
        }
        let mut rates = Vec::from(self.windows.clone());
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() * 9 / 10).copied()
    }

    /// A break begins. What is still being measured is dropped: it would include this break.
    pub(super) fn begin(&mut self, began: Nanos, span: Nanos) {
        let before = began.saturating_sub(span);
        let is_known = self.disturbed < before && self.rate(before, began).is_some();
        self.open = is_known.then_some(OpenBreak {
            began,
            span,
            ended: None,
        });
    }

    /// The break is over, and the full rate is allowed.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some(open) = &mut self.open {
            open.ended = Some(now);
        }
    }

    /// What was committed with the break, as a ratio to without; once, when enough was seen.
    pub(super) fn gain(&mut self) -> Option<f64> {
        let OpenBreak { began, span, ended } = self.open?;
        let middle = began.saturating_add(span);
        let last = middle.saturating_add(span);
        if self.curve.back()?.0 < last {
            return None;
        }
        self.open = None;
        let is_quiet = ended.is_some_and(|end| end < middle && self.disturbed <= end);
        let before = self.rate(began.saturating_sub(span), began)?;
        let with = self.rate(began, middle)?;
        let usual = (before + self.rate(middle, last)?) / 2.0;
        (is_quiet && usual > 0.0).then(|| with / usual)
    }

    /// Transactions a second from one instant to another; none if too few blocks are known.
    fn rate(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let within = |(at, _): &&(Nanos, f64)| from < *at && *at <= to;
        if self.curve.iter().filter(within).count() < FEW {
            return None;
        }
        let txs = self.total(to)? - self.total(from)?;
        Some(txs / to.saturating_sub(from).as_secs_f64())
    }

    /// Committed up to an instant; a block's transactions are spread over the time since the one
    /// before, so that the edges of spans do not cut blocks.
    fn total(&self, at: Nanos) -> Option<f64> {
        let after = self.curve.partition_point(|(block, _)| *block <= at);
        let (earlier, total) = self.curve.get(after.checked_sub(1)?)?;
        let Some((later, next)) = self.curve.get(after) else {
            return Some(*total);
        };
        let part = at.saturating_sub(*earlier).as_secs_f64()
            / later.saturating_sub(*earlier).as_secs_f64();
        Some(total + (next - total) * part)
    }
}

/// Adds to a list that keeps the last so many.
fn push<T>(list: &mut VecDeque<T>, one: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one second whose size is a function of the second, and a break at 100. The gain,
    /// and whether it is still being measured at the end.
    fn measured(
        end: u64,
        size: impl Fn(u64) -> usize,
        idle_at: Option<u64>,
    ) -> (Option<f64>, bool) {
        let mut meter = Meter::new(Nanos::from_secs(1));
        for second in 0..end {
            let at = Nanos::from_secs(second);
            meter.block(at, size(second));
            if idle_at == Some(second) {
                meter.disturb(at);
            }
            if second == 100 {
                meter.begin(at, Nanos::from_secs(30));
            }
            if second == 105 {
                meter.end(at);
            }
            let gain = meter.gain();
            if gain.is_some() {
                return (gain, false);
            }
        }
        (None, meter.open.is_some())
    }

    fn gain(measured: (Option<f64>, bool)) -> f64 {
        measured.0.unwrap()
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
        assert!((gain(measured(200, size, None)) - 25.0 / 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_steady_decline_is_not_the_fault_of_the_break() {
        let size = |second: u64| 10_000 - second as usize * 20;
        assert!((gain(measured(200, size, None)) - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_a_rested_node_commits_more_is_its_gain() {
        let size = |second| match second {
            101..=105 => 0,
            106..=130 => 1_500,
            _ => 1_000,
        };
        assert!((gain(measured(200, size, None)) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_measured_without_demand_blocks_or_time() {
        let steady = |_| 1_000;
        // Not enough time yet.
        assert_eq!(measured(160, steady, None), (None, true));
        // No demand before the break: it is not measured at all; after it: it ends without a gain.
        assert_eq!(measured(101, steady, Some(80)), (None, false));
        assert_eq!(measured(150, steady, Some(120)), (None, true));
        assert_eq!(measured(200, steady, Some(120)), (None, false));
    }

    /// A chain whose blocks come so fast that those before the break are forgotten: a part of the
    /// transactions must not pass for all of them.
    #[test]
    fn a_span_that_is_not_known_whole_is_not_measured() {
        let mut meter = Meter::new(Nanos::from_millis(1));
        let mut gains = Vec::new();
        for block in 0..40_000 {
            let at = Nanos::from_millis(block * 5);
            meter.block(at, 10);
            if at == Nanos::from_secs(100) {
                meter.begin(at, Nanos::from_secs(3));
            }
            if at == Nanos::from_secs(101) {
                meter.end(at);
            }
            gains.extend(meter.gain());
        }
        assert_eq!((gains, meter.open.is_some()), (Vec::new(), false));
    }

    #[test]
    fn windows_have_three_blocks_and_ten_seconds() {
        let mut meter = Meter::new(Nanos::ZERO);
        let mut ended = Vec::new();
        let one_second = 1..=11;
        let ten_seconds = (2..5).map(|tens| 1 + tens * 10);
        for second in one_second.chain(ten_seconds) {
            if meter.block(Nanos::from_secs(second), 100) {
                ended.push(second);
            }
        }
        assert_eq!(ended, [11, 41]);
        assert_eq!(meter.windows, [100.0, 10.0]);
        // What disturbs a window begins another.
        meter.disturb(Nanos::from_secs(45));
        for second in 42..55 {
            assert!(!meter.block(Nanos::from_secs(second), 100));
        }
        assert!(meter.block(Nanos::from_secs(55), 100));
    }

    #[test]
    fn the_baseline_is_an_upper_quantile_of_the_last_ten_minutes() {
        let mut meter = Meter::new(Nanos::ZERO);
        let mut now = Nanos::ZERO;
        let mut window = |meter: &mut Meter, txs| {
            while !meter.block(now, txs) {
                now = now.saturating_add(Nanos::from_secs(1));
            }
            now = now.saturating_add(Nanos::from_secs(1));
        };
        for txs in [990, 980, 970, 960, 950] {
            window(&mut meter, txs);
            assert!(meter.baseline().is_none());
        }
        window(&mut meter, 940);
        assert_eq!(meter.baseline(), Some(990.0));
        assert_eq!(meter.recent(), Some((940.0, 960.0)));
        for _ in 0..60 {
            window(&mut meter, 500);
        }
        assert_eq!(
            (meter.baseline(), meter.windows.len()),
            (Some(500.0), WINDOWS)
        );
    }
}
