//! The seconds of a run, so many in one that few enough points are left to draw.

use measure::SeriesRow;

use crate::CommittedCourse;

/// Several seconds in one.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    rows: &'a [SeriesRow],
}

impl<'a> Stretch<'a> {
    /// The series in at most `most` stretches of equal numbers of seconds. The last second of a run is
    /// shorter, and a rate over a fraction of it would mean nothing: it is joined to the one before.
    #[must_use]
    pub fn all(series: &'a [SeriesRow], most: usize) -> Vec<Self> {
        let size = series.len().div_ceil(most).max(1);
        let whole = series.iter().rposition(|row| row.span_s > 0.999);
        let whole = whole.map_or(series.len(), |last| last + 1);
        let chunks = series[..whole].chunks(size);
        let mut stretches: Vec<Self> = chunks.map(|rows| Stretch { rows }).collect();
        if let Some(last) = stretches.last_mut() {
            last.rows = &series[whole - last.rows.len()..];
        }
        stretches
    }

    /// How many rows of the series it is made of.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Events per second, at its middle.
    #[must_use]
    pub fn rate(&self, of: impl Fn(&SeriesRow) -> u64) -> (f64, f64) {
        let sum: u64 = self.rows.iter().map(of).sum();
        let (begin, end) = self.edges();
        (self.middle(), sum as f64 / (end - begin).max(1e-9))
    }

    /// Commits per second by a course of them, at its middle.
    #[must_use]
    pub fn committed(&self, course: &CommittedCourse) -> (f64, f64) {
        let (begin, end) = self.edges();
        (self.middle(), course.rate(begin, end))
    }

    /// The highest value, at its middle; not a number where there is none.
    #[must_use]
    pub fn highest(&self, of: impl Fn(&SeriesRow) -> Option<f64>) -> (f64, f64) {
        let highest = self.rows.iter().filter_map(of).reduce(f64::max);
        (self.middle(), highest.unwrap_or(f64::NAN))
    }

    /// The mean of the values, at its middle; not a number where there is none.
    #[must_use]
    pub fn mean(&self, of: impl Fn(&SeriesRow) -> Option<f64>) -> (f64, f64) {
        let values: Vec<f64> = self.rows.iter().filter_map(of).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (self.middle(), mean)
    }

    fn middle(&self) -> f64 {
        let (begin, end) = self.edges();
        f64::midpoint(begin, end)
    }

    fn edges(&self) -> (f64, f64) {
        let begin = self.rows.first().map_or(0.0, |row| row.second as f64);
        let end = self.rows.last();
        (begin, end.map_or(0.0, |row| row.second as f64 + row.span_s))
    }
}

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    #[test]
    fn a_fraction_of_a_second_is_joined_to_the_stretch_before() {
        let row = |second, span_s| SeriesRow {
            second,
            span_s,
            counts: Counts {
                sent: 10,
                ..Counts::default()
            },
            ..SeriesRow::default()
        };
        let series = [row(0, 1.0), row(1, 1.0), row(2, 1.0), row(3, 0.5)];
        let stretches = Stretch::all(&series, 2);
        assert_eq!(stretches.len(), 2);
        assert_eq!(stretches[0].rate(|row| row.counts.sent), (1.0, 10.0));
        assert_eq!(stretches[1].rate(|row| row.counts.sent).0, 2.75);
        assert_eq!(stretches[1].mean(|row| Some(row.span_s)).1, 0.75);
        assert!(stretches[1].highest(|_| None).1.is_nan());
        assert!(Stretch::all(&[], 5).is_empty());
    }
}
