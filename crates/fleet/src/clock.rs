//! How far the clock of another machine is ahead of this one's, from questions and answers over the bus.
//!
//! A question leaves at t0 (here), is answered at t1 (there), and the answer comes at t2 (here). Nothing arrives before it
//! left, so the offset o = there − here obeys t1 − t2 ≤ o ≤ t1 − t0, whatever the ways take and however unequal they are
//! (RFC 5905, section 8, gives the middle and half the width of that interval, for answers that leave later).
//! Offsets of exchanges at about one time lie in the intersection of their intervals; exchanges a while apart bound
//! the drift.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// An instant, as the clocks of one machine have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For what takes its time.
    pub at: Instant,
    /// For what is compared with another machine: Unix nanoseconds.
    pub unix_ns: i64,
}

impl Now {
    pub(crate) fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at: Instant::now(),
            unix_ns: i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The stamps of a question and its answer, Unix nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question left, by the clock here.
    pub asked_ns: i64,
    /// When it was answered, by the clock there.
    pub answered_ns: i64,
    /// When the answer came, by the clock here.
    pub heard_ns: i64,
}

/// Where an offset lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// At least.
    pub low_ns: i64,
    /// At most.
    pub high_ns: i64,
}

impl Interval {
    fn of(exchange: &Exchange) -> Self {
        Self {
            low_ns: exchange.answered_ns.saturating_sub(exchange.heard_ns),
            high_ns: exchange.answered_ns.saturating_sub(exchange.asked_ns),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            low_ns: self.low_ns.max(other.low_ns),
            high_ns: self.high_ns.min(other.high_ns),
        }
    }

    /// The middle.
    pub fn offset_ns(self) -> i64 {
        self.low_ns.midpoint(self.high_ns)
    }

    /// Half the width: how far the middle may be from the truth.
    pub fn error_ns(self) -> i64 {
        (self.high_ns - self.low_ns) / 2
    }

    /// No offset fits: the clock there, or here, was set meanwhile.
    pub fn is_empty(self) -> bool {
        self.low_ns > self.high_ns
    }
}

/// The offset of one clock through a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    /// When (by the clock here) and where it was, in the order of time.
    windows: Vec<(i64, Interval)>,
}

impl Clock {
    /// Takes in exchanges that were made together.
    pub fn add(&mut self, exchanges: &[Exchange]) {
        let Some(last) = exchanges.last() else {
            return;
        };
        let intervals = exchanges.iter().map(Interval::of);
        let Some(interval) = intervals.reduce(Interval::and) else {
            return;
        };
        if self.windows.len() == MAX_WINDOWS {
            // Every second one is kept: the ends stay, and with them what bounds the drift.
            let mut place = 0;
            self.windows.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        self.windows.push((last.heard_ns, interval));
    }

    /// The first offset: the one that the start was worked out with.
    pub fn first(&self) -> Option<Interval> {
        self.windows.first().map(|(_, interval)| *interval)
    }

    /// By how much the offset grows, in nanoseconds a second (parts per billion): at least and at most. `None`
    /// with fewer than two windows; `low > high` when the clock was set in between.
    pub fn drift_ppb(&self) -> Option<(f64, f64)> {
        let mut bounds: Option<(f64, f64)> = None;
        for (place, (later, second)) in self.windows.iter().enumerate() {
            for (earlier, first) in &self.windows[..place] {
                let seconds = later.saturating_sub(*earlier) as f64 / 1e9;
                if seconds <= 0.0 {
                    continue;
                }
                let low = (second.low_ns - first.high_ns) as f64 / seconds;
                let high = (second.high_ns - first.low_ns) as f64 / seconds;
                let (lowest, highest) = bounds.unwrap_or((f64::MIN, f64::MAX));
                bounds = Some((low.max(lowest), high.min(highest)));
            }
        }
        bounds
    }
}

/// A run of an hour with a window each second is thinned to one in 16 s.
const MAX_WINDOWS: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A clock that is ahead and drifts, asked over ways of these lengths.
    fn exchange(at_ns: i64, ahead_ns: i64, ppb: i64, ways: (i64, i64)) -> Exchange {
        let there = |here: i64| {
            here + ahead_ns + (i128::from(here) * i128::from(ppb) / 1_000_000_000) as i64
        };
        Exchange {
            asked_ns: at_ns,
            answered_ns: there(at_ns + ways.0),
            heard_ns: at_ns + ways.0 + ways.1,
        }
    }

    #[test]
    fn equal_ways_give_the_offset_and_half_the_round_trip_as_its_error() {
        let mut clock = Clock::default();
        clock.add(&[exchange(0, 200_000_000, 0, (500_000, 500_000))]);
        let first = clock.first().unwrap();
        assert_eq!(
            (first.offset_ns(), first.error_ns()),
            (200_000_000, 500_000)
        );
        assert_eq!(clock.drift_ppb(), None);
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_fits_no_offset_or_no_drift_of_a_clock() {
        let mut clock = Clock::default();
        let far = [
            exchange(0, 0, 0, (1_000, 1_000)),
            exchange(10_000_000, 5_000_000, 0, (1_000, 1_000)),
        ];
        clock.add(&far);
        assert!(clock.first().unwrap().is_empty());
        let mut clock = Clock::default();
        for second in 0..10 {
            let ahead_ns = if second < 5 { 0 } else { 5_000_000 };
            clock.add(&[exchange(
                second * 1_000_000_000,
                ahead_ns,
                0,
                (1_000, 1_000),
            )]);
        }
        let (low, high) = clock.drift_ppb().unwrap();
        assert!(low > high, "{low} to {high}");
    }

    proptest! {
        /// However unequal the ways are, the truth is inside.
        #[test]
        fn offset_and_drift_lie_inside_their_intervals(
            ahead_ns in -10_000_000_000_i64..10_000_000_000,
            ppb in -100_000_i64..100_000,
            ways in proptest::collection::vec((0_i64..50_000_000, 0_i64..50_000_000), 2..1_500),
        ) {
            let mut clock = Clock::default();
            for (second, ways) in (0..).zip(&ways) {
                clock.add(&[exchange(second * 1_000_000_000, ahead_ns, ppb, *ways)]);
            }
            let first = clock.first().unwrap();
            // During the first exchange the clock moves by at most 10 microseconds.
            prop_assert!(first.low_ns - 11_000 <= ahead_ns && ahead_ns <= first.high_ns + 11_000);
            let (low, high) = clock.drift_ppb().unwrap();
            // An exchange of up to 100 ms is stamped at its end.
            let slack = 0.11 * ppb.abs() as f64 + 1.0;
            prop_assert!(low - slack <= ppb as f64 && ppb as f64 <= high + slack, "{low} to {high}: {ppb}");
            prop_assert!(clock.windows.len() <= MAX_WINDOWS);
        }
    }
}
