//! What a run did over time, so many seconds in one that few enough points are left to draw.

use measure::read::{HlogInterval, ReadError};
use measure::{BlockRow, Latency, LatencyKind, LatencySet, SeriesRow};

use crate::chart::HeatMap;

/// The course of the latencies that a report draws, in at most [`MAX_COLUMNS`] columns, and their
/// sums after the warm-up.
#[derive(Debug)]
pub struct LatencyCourse {
    column_s: f64,
    warmup_s: f64,
    drawn: Vec<Drawn>,
    sum: LatencySet,
}

/// One latency as a picture: heat map, and a quantile for each column.
#[derive(Debug)]
pub(crate) struct Drawn {
    kind: LatencyKind,
    pub(crate) map: HeatMap,
    /// Of each of [`QUANTILES`].
    pub(crate) lines: [Vec<(f64, f64)>; 3],
    column: usize,
    values: Latency,
}

impl LatencyCourse {
    /// Of a run that ended `ended_s` after its origin and warmed up for `warmup_s`.
    pub fn new(ended_s: f64, warmup_s: f64) -> Self {
        let column_s = (ended_s / MAX_COLUMNS as f64).ceil().max(1.0);
        let drawn = [LatencyKind::AcceptResponse, LatencyKind::CommitFromDue];
        Self {
            column_s,
            warmup_s,
            drawn: drawn.map(|kind| Drawn::new(kind, column_s)).into(),
            sum: LatencySet::new(),
        }
    }

    /// Takes one interval; those of a latency must ascend. Intervals of latencies that are not drawn
    /// are passed over without decoding them.
    ///
    /// # Errors
    /// When its histogram does not decode.
    pub fn add(&mut self, interval: HlogInterval<'_>) -> Result<(), ReadError> {
        let kind = interval.kind;
        if !WANTED.contains(&kind) {
            return Ok(());
        }
        let start_s = interval.start_s;
        let column = (start_s.max(0.0) / self.column_s + 1e-9) as usize;
        // Written with three decimals.
        let warm = start_s >= self.warmup_s - 0.000_5;
        let drawn = self.drawn.iter_mut().find(|drawn| drawn.kind == kind);
        let sum = self.sum.of_mut(kind);
        let Some(drawn) = drawn else {
            return if warm { interval.add_to(sum) } else { Ok(()) };
        };
        if column != drawn.column {
            drawn.close(self.column_s);
            drawn.column = column;
        }
        if warm {
            interval.add_to_each([&mut drawn.values, sum])
        } else {
            interval.add_to(&mut drawn.values)
        }
    }

    /// Closes the last columns, and leaves gaps in the lines where nothing was recorded for several
    /// times the usual distance between two columns, as in a stall or a pause. Adds the ages of what
    /// had not ended to the sums.
    pub fn finish(&mut self, censored: &LatencySet) {
        self.sum.merge(censored);
        for drawn in &mut self.drawn {
            drawn.close(self.column_s);
            for line in &mut drawn.lines {
                *line = broken_at_gaps(line);
            }
        }
    }

    /// All values after the warm-up, of the latencies that a report draws; what had not ended counts with
    /// its age.
    pub const fn sum(&self) -> &LatencySet {
        &self.sum
    }

    pub(crate) fn drawn(&self, kind: LatencyKind) -> Option<&Drawn> {
        self.drawn.iter().find(|drawn| drawn.kind == kind)
    }

    pub(crate) const fn column_s(&self) -> f64 {
        self.column_s
    }
}

impl Drawn {
    fn new(kind: LatencyKind, column_s: f64) -> Self {
        Self {
            kind,
            map: HeatMap::new(0.0, column_s, (LOWEST_MS, HIGHEST_MS), ROWS),
            lines: Default::default(),
            column: 0,
            values: Latency::new(),
        }
    }

    fn close(&mut self, column_s: f64) {
        if self.values.is_empty() {
            return;
        }
        for value in self.values.histogram().iter_recorded() {
            let ms = value.value_iterated_to() as f64 / 1e6;
            self.map.add(self.column, ms, value.count_at_value());
        }
        let middle = (self.column as f64 + 0.5) * column_s;
        for (line, quantile) in self.lines.iter_mut().zip(QUANTILES) {
            let value = self.values.quantile(quantile);
            line.push((middle, value.map_or(f64::NAN, |it| it.as_millis_f64())));
        }
        self.values.clear();
    }
}

/// The points with one that is not a number in every gap.
fn broken_at_gaps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let usual = usual_distance(points.iter().map(|(x, _)| *x));
    let limit = usual.map_or(f64::INFINITY, |usual| usual * MAX_GAP);
    let pieces = points.chunk_by(|one, next| next.0 - one.0 <= limit);
    let gap = |piece: &[(f64, f64)]| [(piece[0].0, f64::NAN)];
    let pieces = pieces.map(|piece| [&gap(piece)[..], piece].concat());
    pieces.collect::<Vec<_>>().concat()
}

/// The median distance between neighbours; `None` for fewer than two places.
fn usual_distance(places: impl Iterator<Item = f64>) -> Option<f64> {
    let places: Vec<f64> = places.collect();
    let mut distances: Vec<f64> = places.windows(2).map(|two| two[1] - two[0]).collect();
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len() / 2).copied()
}

const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Usual distances between two values over which a line goes on.
const MAX_GAP: f64 = 2.5;
/// Columns of a heat map at most.
pub const MAX_COLUMNS: usize = 120;
const WANTED: [LatencyKind; 4] = [
    LatencyKind::Lateness,
    LatencyKind::AcceptResponse,
    LatencyKind::AcceptService,
    LatencyKind::CommitFromDue,
];
/// From 1 µs to one hour, ten rows to a decade.
const LOWEST_MS: f64 = 1e-3;
const HIGHEST_MS: f64 = 3.6e6;
const ROWS: usize = 96;

/// How many transactions a chain had committed by a time, as if a block's came evenly since the block
/// before: seconds with and without a block would only show how far blocks are apart. After a stall or
/// a pause a block's count for `REACH` usual intervals at most, and nothing is committed before.
#[derive(Debug, Clone)]
pub struct CommittedCourse {
    /// When blocks were seen, in seconds since the origin, and how many were committed by then.
    seen: Vec<(f64, f64)>,
}

impl CommittedCourse {
    /// Of the own transactions with code 0 in `blocks`, which ascend.
    pub fn of_blocks(blocks: &[BlockRow]) -> Self {
        let at = |block: &BlockRow| block.observed_ns as f64 / 1e9;
        let begin = blocks.first().map_or(0.0, |first| {
            let interval_s = first.interval_ms.unwrap_or(1_000.0) / 1e3;
            (at(first) - interval_s.max(0.0)).max(0.0)
        });
        let usual = usual_distance(blocks.iter().map(at));
        let mut seen = vec![(begin, 0.0)];
        let (mut sum, mut before) = (0, begin);
        for block in blocks {
            let (at, count) = (at(block), block.committed());
            if let Some(usual) = usual
                && at - before > REACH * usual
            {
                seen.push((at - usual, sum as f64));
            }
            sum += count;
            seen.push((at, sum as f64));
            before = at;
        }
        Self { seen }
    }

    /// Commits per second between two times in seconds since the origin.
    pub fn rate(&self, from: f64, to: f64) -> f64 {
        (self.by(to) - self.by(from)) / (to - from).max(1e-9)
    }

    fn by(&self, time: f64) -> f64 {
        let after = self.seen.partition_point(|(seen, _)| *seen <= time);
        let before = after
            .checked_sub(1)
            .and_then(|before| self.seen.get(before));
        match (before, self.seen.get(after)) {
            (None, _) => 0.0,
            (Some((_, count)), None) => *count,
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * (time - from) / (to - from).max(1e-9)
            }
        }
    }
}

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

/// Usual intervals over which a block's transactions are spread at most.
const REACH: f64 = 3.0;

/// Stamps of the same instant differ by less.
const EDGE_S: f64 = 1e-6;
/// Over less than this a rate is noise.
const SHORTEST_S: f64 = 0.5;

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    #[test]
    fn a_line_goes_on_between_blocks_and_stops_in_a_stall() {
        let every_four_seconds = [2.5, 6.5, 10.5, 30.5, 34.5].map(|x| (x, 1.0));
        let broken = broken_at_gaps(&every_four_seconds);
        let gaps = broken.iter().filter(|(_, y)| y.is_nan()).map(|(x, _)| *x);
        assert_eq!(gaps.collect::<Vec<_>>(), [2.5, 30.5]);
        assert_eq!(broken_at_gaps(&[]), []);
    }

    fn block(at_s: u64, own_txs: u64) -> BlockRow {
        BlockRow {
            observed_ns: at_s * 1_000_000_000,
            interval_ms: Some(4_000.0),
            own_txs,
            ..BlockRow::default()
        }
    }

    #[test]
    fn a_block_counts_evenly_since_the_one_before_and_nothing_is_lost() {
        let course = CommittedCourse::of_blocks(&[block(4, 400), block(8, 800)]);
        assert_eq!(course.rate(1.0, 2.0), 100.0);
        assert_eq!(course.rate(3.0, 5.0), 150.0);
        assert_eq!(course.rate(0.0, 12.0) * 12.0, 1_200.0);
        assert_eq!(course.rate(9.0, 10.0), 0.0);
        assert_eq!(CommittedCourse::of_blocks(&[]).rate(0.0, 1.0), 0.0);
    }

    #[test]
    fn a_stall_is_not_bridged() {
        let course = CommittedCourse::of_blocks(&[4, 5, 6, 16, 17].map(|at_s| block(at_s, 100)));
        assert_eq!(course.rate(7.0, 15.0), 0.0);
        assert_eq!(course.rate(15.0, 16.0), 100.0);
        assert_eq!(course.rate(0.0, 20.0) * 20.0, 500.0);
    }

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
