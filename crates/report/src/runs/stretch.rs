//! The seconds of a run, so many in one that few enough points are left to draw.

use measure::SeriesRow;

use crate::CommittedCourse;

/// Several seconds in one.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    rows: &'a [SeriesRow],
    from: f64,
    to: f64,
    /// Whether events were counted over it alone, and long enough for a rate.
    counted: bool,
}

/// A stretch of time and a rate in it, for [`Chart::steps`](crate::chart::Chart::steps): from, to, events
/// per second.
pub type Span = (f64, f64, f64);

impl<'a> Stretch<'a> {
    /// The series in at most about `most` stretches of equal numbers of seconds. Offering and drain are
    /// never in one stretch: the second in which offering ended becomes two, whose rates are unknown, as
    /// its events are counted together.
    pub fn all(series: &'a [SeriesRow], most: usize, offered_s: f64) -> Vec<Self> {
        let size = series.len().div_ceil(most).max(1);
        let end = |row: &SeriesRow| row.second as f64 + row.span_s;
        let (during, rest) =
            series.split_at(series.partition_point(|row| end(row) <= offered_s + EDGE_S));
        let begun = rest.partition_point(|row| (row.second as f64) < offered_s - EDGE_S);
        let (mixed, after) = rest.split_at(begun);
        let whole = |rows: &'a [SeriesRow]| {
            let (from, to) = (rows[0].second as f64, end(&rows[rows.len() - 1]));
            let counted = to - from >= SHORTEST_S || series.len() == 1;
            Stretch {
                rows,
                from,
                to,
                counted,
            }
        };
        let halves = mixed.iter().flat_map(|row| {
            let cut = |from, to| Stretch {
                rows: std::slice::from_ref(row),
                from,
                to,
                counted: series.len() == 1,
            };
            [cut(row.second as f64, offered_s), cut(offered_s, end(row))]
        });
        let stretches = during.chunks(size).map(whole).chain(halves);
        stretches.chain(after.chunks(size).map(whole)).collect()
    }

    /// How many rows of the series it is made of.
    pub const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Events per second; not a number where they are unknown.
    pub fn rate(&self, of: impl Fn(&SeriesRow) -> u64) -> Span {
        let sum: u64 = self.rows.iter().map(of).sum();
        let rate = sum as f64 / (self.to - self.from).max(1e-9);
        (
            self.from,
            self.to,
            if self.counted { rate } else { f64::NAN },
        )
    }

    /// Whether it lies in the offering, not in the drain.
    pub fn is_offered(&self, offered_s: f64) -> bool {
        self.from < offered_s - EDGE_S
    }

    /// Due per second, which is known up to the end of the offering.
    pub fn offered(&self, offered_s: f64) -> Span {
        if !self.is_offered(offered_s) {
            return (self.from, self.to, f64::NAN);
        }
        let sum: u64 = self.rows.iter().map(|row| row.counts.offered).sum();
        (self.from, self.to, sum as f64 / (self.to - self.from))
    }

    /// Commits per second by a course of them.
    pub fn committed(&self, course: &CommittedCourse) -> Span {
        (self.from, self.to, course.rate(self.from, self.to))
    }

    /// The highest value, at its middle; not a number where there is none.
    pub fn highest(&self, of: impl Fn(&SeriesRow) -> Option<f64>) -> (f64, f64) {
        let highest = self.rows.iter().filter_map(of).reduce(f64::max);
        (self.middle(), highest.unwrap_or(f64::NAN))
    }

    /// The mean of the values, at its middle; not a number where there is none.
    pub fn mean(&self, of: impl Fn(&SeriesRow) -> Option<f64>) -> (f64, f64) {
        let values: Vec<f64> = self.rows.iter().filter_map(of).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (self.middle(), mean)
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }
}

/// Stamps of the same instant differ by less.
const EDGE_S: f64 = 1e-6;
/// Over less than this a rate is noise.
const SHORTEST_S: f64 = 0.5;

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    fn row(second: u64, span_s: f64) -> SeriesRow {
        SeriesRow {
            second,
            span_s,
            counts: Counts {
                offered: if second < 3 { 10 } else { 0 },
                sent: 10,
                ..Counts::default()
            },
            ..SeriesRow::default()
        }
    }

    #[test]
    fn the_last_second_of_the_offering_is_never_averaged_with_the_drain() {
        let series = [
            row(0, 1.0),
            row(1, 1.0),
            row(2, 1.0),
            row(3, 1.0),
            row(4, 0.4),
        ];
        let sent = |stretch: &Stretch<'_>| stretch.rate(|row| row.counts.sent);
        // Offering ends between two seconds.
        let stretches = Stretch::all(&series, 3, 3.0);
        assert_eq!(stretches.len(), 3);
        assert_eq!(sent(&stretches[0]), (0.0, 2.0, 10.0));
        assert_eq!(sent(&stretches[1]), (2.0, 3.0, 10.0));
        assert_eq!(stretches[2].mean(|row| Some(row.span_s)).1, 0.7);
        assert!(stretches[2].offered(3.0).2.is_nan());
        // Offering ends inside a second, whose events may be of either side.
        let stretches = Stretch::all(&series, 9, 2.5);
        let edges: Vec<_> = stretches.iter().map(|it| (it.from, it.to)).collect();
        let expected = [
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, 2.5),
            (2.5, 3.0),
            (3.0, 4.0),
            (4.0, 4.4),
        ];
        assert_eq!(edges, expected);
        assert!(sent(&stretches[2]).2.is_nan() && sent(&stretches[3]).2.is_nan());
        assert_eq!(stretches[2].offered(2.5), (2.0, 2.5, 20.0));
        assert!(sent(&stretches[5]).2.is_nan(), "a rate over 0.4 s is noise");
        assert!(stretches[0].highest(|_| None).1.is_nan());
    }

    #[test]
    fn a_run_of_less_than_a_second_is_all_there_is() {
        let series = [row(0, 0.3)];
        let stretches = Stretch::all(&series, 5, 0.3);
        assert_eq!(stretches[0].rate(|row| row.counts.sent).2, 10.0 / 0.3);
        assert!(Stretch::all(&[], 5, 0.0).is_empty());
    }
}
