//! Latencies over time: from the intervals of `latency.hlog` to heat maps and lines of quantiles; and commits over time
//! without the edges of blocks.

use crate::chart::HeatMap;
use measure::read::{HlogInterval, ReadError};
use measure::{BlockRow, Latency, LatencyKind, LatencySet};

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

/// Usual intervals over which a block's transactions are spread at most.
const REACH: f64 = 3.0;

#[cfg(test)]
mod tests {
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
}
