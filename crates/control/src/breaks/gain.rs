//! How much a break helped.

use std::collections::VecDeque;

use pacing::Nanos;

/// Measures the gain of breaks from the committed transactions of the last minutes.
///
/// A break from b on is measured by three windows of equal length L: before, [b − L, b); with the
/// break, [b, b + L), so that what the pause costs counts; after, [b + L, b + 2L). Its gain is
/// rate(with) / mean(rate(before), rate(after)): a node that slows down steadily has the same gain
/// as one that does not, 1. All three need writes waiting throughout, three blocks each, and no
/// other break; otherwise nothing is measured.
///
/// The rate while sending must not decide: after a pause the queue is longer and the node rested.
/// CometBFT 0.38 was measured to commit faster for 20 to 40 s after 20 s without load, which gained
/// 8 % in all, the pause included (`docs/experiments.md`).
#[derive(Clone, Debug, Default)]
pub(super) struct GainMeter {
    /// Instants of blocks and the transactions committed up to each.
    curve: VecDeque<(Nanos, f64)>,
    /// The last instant at which nothing waited, or something else disturbed.
    disturbed: Nanos,
    open: Option<OpenBreak>,
}

/// A break that is being measured.
#[derive(Clone, Copy, Debug)]
struct OpenBreak {
    start: Nanos,
    window: Nanos,
    /// When the full rate was allowed again; none while the break lasts.
    end: Option<Nanos>,
}

/// The longest window: the effect of a break lasts 20 to 40 s.
const WINDOW: Nanos = Nanos::from_secs(60);
/// Blocks kept: those of three windows and some, down to 0.2 s a block.
const CURVE: usize = 1_024;
/// Blocks that a window needs.
const BLOCKS: usize = 3;

impl GainMeter {
    pub(super) fn block(&mut self, observed: Nanos, txs: usize) {
        let total = self.curve.back().map_or(0.0, |(_, total)| *total);
        if self.curve.len() == CURVE {
            self.curve.pop_front();
        }
        self.curve.push_back((observed, total + txs as f64));
    }

    /// At this instant nothing waited, or the chain was not in order.
    pub(super) fn disturb(&mut self, now: Nanos) {
        let in_break = self.open.is_some_and(|open| open.end.is_none());
        if !in_break {
            self.disturbed = now;
        }
    }

    /// A break begins; at most a third of `cycle` is a window.
    pub(super) fn begin(&mut self, start: Nanos, cycle: Nanos) {
        let window = Nanos::new(cycle.as_nanos() / 3).min(WINDOW);
        let before = start.saturating_sub(window);
        // What is still being measured is dropped: it would include this break.
        self.open = (self.disturbed < before && self.blocks(before, start) >= BLOCKS).then_some(
            OpenBreak {
                start,
                window,
                end: None,
            },
        );
    }

    /// The break is over, and the full rate is allowed.
    pub(super) fn end(&mut self, now: Nanos) {
        if let Some(open) = &mut self.open {
            open.end = Some(now);
        }
    }

    /// What was committed with the break, as a ratio to without; once, when enough was seen.
    pub(super) fn measured(&mut self) -> Option<f64> {
        let open = self.open?;
        let middle = open.start.saturating_add(open.window);
        let last = middle.saturating_add(open.window);
        if self.curve.back().is_none_or(|(at, _)| *at < last) {
            return None;
        }
        self.open = None;
        let end = open.end?;
        let quiet = end < middle && self.disturbed <= end;
        if !quiet || self.blocks(open.start, middle) < BLOCKS || self.blocks(middle, last) < BLOCKS
        {
            return None;
        }
        let before = self.committed(open.start.saturating_sub(open.window), open.start);
        let with = self.committed(open.start, middle);
        let after = self.committed(middle, last);
        let usual = (before + after) / 2.0;
        (usual > 0.0).then(|| with / usual)
    }

    fn blocks(&self, from: Nanos, to: Nanos) -> usize {
        self.curve
            .iter()
            .filter(|(at, _)| (from..to).contains(at))
            .count()
    }

    fn committed(&self, from: Nanos, to: Nanos) -> f64 {
        self.total(to) - self.total(from)
    }

    /// Committed up to an instant; a block's transactions are spread over the time since the one
    /// before, so that window edges do not cut blocks.
    fn total(&self, at: Nanos) -> f64 {
        let after = self.curve.partition_point(|(block, _)| *block <= at);
        let Some((earlier, total)) = after.checked_sub(1).and_then(|i| self.curve.get(i)) else {
            return self.curve.front().map_or(0.0, |(_, total)| *total);
        };
        let Some((later, next)) = self.curve.get(after) else {
            return *total;
        };
        let part = at.saturating_sub(*earlier).as_secs_f64()
            / later.saturating_sub(*earlier).as_secs_f64();
        total + (next - total) * part
    }
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
        let mut meter = GainMeter::default();
        meter.disturb(Nanos::from_secs(1));
        for second in 0..end {
            let at = Nanos::from_secs(second);
            meter.block(at, size(second));
            if idle_at == Some(second) {
                meter.disturb(at);
            }
            if second == 100 {
                meter.begin(at, Nanos::from_secs(90));
            }
            if second == 105 {
                meter.end(at);
            }
            let gain = meter.measured();
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
        assert_eq!(gain(measured(200, steady, Some(103))), 1.0);
    }
}
