//! Whether a backlog grows: offered minus committed, at the instants of blocks.

use pacing::Nanos;

use super::fall::Fall;
use crate::stats::student;

/// A block, as far as a backlog is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockMark {
    /// When it was observed, since the origin.
    pub observed: Nanos,
    /// Transactions of this run that it committed.
    pub committed: u64,
}

/// How a backlog grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogGrowth {
    /// Transactions per second; negative when it shrinks.
    pub tps: f64,
    /// The standard error of that.
    pub error_tps: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
    /// What the blocks after the first one committed, over the time between the first and the last;
    /// `None` with fewer than two.
    pub committed_tps: Option<f64>,
    /// The standard error of that, as wide as Student's t makes it for so few blocks; `None` with too few.
    pub committed_error_tps: Option<f64>,
    /// Where what they committed fell, and stayed lower.
    pub fall: Option<Fall>,
    /// Blocks observed.
    pub blocks: usize,
}

impl BacklogGrowth {
    /// How far the true growth may lie to one side of the measured one, with this confidence, in
    /// transactions per second: Student's t times the standard error.
    pub fn margin_tps(&self, confidence: f64) -> f64 {
        student::quantile(confidence, self.freedom) * self.error_tps
    }
}

/// The growth of what was due and in no block, from the blocks observed in `[from, until)`.
///
/// The backlog is taken where it is highest, just before each block, and a straight line is fitted
/// by least squares: a chain that takes ever longer for ever fuller blocks shows there, although each
/// block empties its mempool. The end counts like a block when more waits there than at the last
/// one: the peak to come is at least as high. `due_before` counts how many transactions are due before
/// an instant; `blocks` are all blocks of the run in order. `None` with fewer than three such points.
pub fn backlog_growth(
    blocks: &[BlockMark],
    due_before: impl Fn(Nanos) -> u64,
    from: Nanos,
    until: Nanos,
) -> Option<BacklogGrowth> {
    let mut committed = 0;
    let mut peaks: Vec<(f64, f64)> = Vec::new();
    let mut sizes: Vec<(Nanos, u64)> = Vec::new();
    for block in blocks.iter().take_while(|block| block.observed < until) {
        if block.observed >= from {
            let backlog = due_before(block.observed) as f64 - committed as f64;
            peaks.push((block.observed.as_secs_f64(), backlog));
            sizes.push((block.observed, block.committed));
        }
        committed += block.committed;
    }
    let count = peaks.len();
    let at_end = due_before(until) as f64 - committed as f64;
    if peaks.last().is_some_and(|(_, last)| at_end > *last) {
        peaks.push((until.as_secs_f64(), at_end));
    }
    if peaks.len() < MIN_POINTS {
        return None;
    }
    let line = Line::fit(&peaks)?;
    let committed_tps = rate(&sizes);
    Some(BacklogGrowth {
        tps: line.slope,
        error_tps: line.error,
        freedom: line.freedom,
        committed_tps,
        committed_error_tps: committed_tps.and_then(|rate| rate_error(&sizes, rate)),
        fall: Fall::of(&sizes),
        blocks: count,
    })
}

/// The standard error of what blocks committed over the time between them (a ratio estimator: Cochran, "Sampling
/// techniques", 3rd edition, 1977, section 6.4), of which neighbours depend on each other: what one block left over is
/// in the next one (Hansen, Hodrick, Journal of Political Economy 88, 1980, at one lag). As wide as a normal error that
/// leaves out as much as Student's t.
fn rate_error(blocks: &[(Nanos, u64)], rate: f64) -> Option<f64> {
    let residuals = residuals(blocks, rate);
    if residuals.len() < MIN_POINTS {
        return None;
    }
    let (squares, products) = squares(&residuals);
    let squares = (squares + 2.0 * products).max(squares / LEAST_PART);
    let count = residuals.len() as f64;
    let freedom = count - 1.0;
    let error = (squares / freedom * count).sqrt() / span_s(blocks);
    Some(error * student::quantile(TAIL, freedom) / NORMAL_TAIL)
}

/// From the first block to the last one.
pub(super) fn span_s(blocks: &[(Nanos, u64)]) -> f64 {
    let edge = |block: Option<&(Nanos, u64)>| block.map_or(Nanos::ZERO, |it| it.0);
    edge(blocks.last())
        .saturating_sub(edge(blocks.first()))
        .as_secs_f64()
}

/// What the blocks after the first one committed over that; `None` where no time passed.
pub(super) fn rate(blocks: &[(Nanos, u64)]) -> Option<f64> {
    let committed: u64 = blocks.iter().skip(1).map(|it| it.1).sum();
    let span_s = span_s(blocks);
    (span_s > 0.0).then(|| committed as f64 / span_s)
}

/// What each block but the first committed more than a rate.
pub(super) fn residuals(blocks: &[(Nanos, u64)], rate: f64) -> Vec<f64> {
    let pairs = blocks.windows(2);
    let left = pairs.map(|pair| pair[1].1 as f64 - rate * span_s(pair));
    left.collect()
}

/// The sum of the squares of residuals, and of the products of neighbours.
pub(super) fn squares(residuals: &[f64]) -> (f64, f64) {
    let squares = residuals.iter().map(|residual| residual * residual).sum();
    let products = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (squares, products)
}

/// A least-squares line: its slope, the standard error of that and its degrees of freedom.
struct Line {
    slope: f64,
    error: f64,
    freedom: f64,
}

impl Line {
    /// Near its capacity a chain carries what one block left over into the next, so neighbouring
    /// residuals are alike and show less than as many independent ones. Error and degrees of freedom
    /// are those of the effective number of points, n (1 − r) / (1 + r) for residuals with the
    /// autocorrelation r at lag one (Santer et al., "Statistical significance of trends and trend
    /// differences in layer-average atmospheric temperature time series", Journal of Geophysical
    /// Research 105, 2000, equations 3 to 6).
    fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
        let slope = products.sum::<f64>() / spread;
        let residual = |(x, y): &(f64, f64)| y - mean_y - slope * (x - mean_x);
        let residuals: Vec<f64> = points.iter().map(residual).collect();
        let (squares, products) = squares(&residuals);
        let alike = if squares > 0.0 {
            products / squares
        } else {
            0.0
        };
        let alike = alike.clamp(0.0, 1.0);
        let effective = (count * (1.0 - alike) / (1.0 + alike)).max(MIN_POINTS as f64);
        let freedom = effective - 2.0;
        Some(Self {
            slope,
            error: (squares / freedom / spread).sqrt(),
            freedom,
        })
    }
}

/// Two lie on a line whatever they are.
const MIN_POINTS: usize = 3;
/// Neighbours that cancel leave this part of the variance at least.
const LEAST_PART: f64 = 8.0;
/// The share by which Student's t is compared with the normal distribution, and its quantile there.
const TAIL: f64 = 0.95;
const NORMAL_TAIL: f64 = 1.645;

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks of a chain that works off `capacity` a second and makes a block a second, or later
    /// when the block before was large; `rate` is offered.
    fn blocks(rate: f64, capacity: f64, seconds: f64) -> Vec<BlockMark> {
        let (mut at, mut committed, mut interval) = (0.4, 0.0, 1.0_f64);
        let mut blocks = Vec::new();
        while at < seconds {
            let txs = (rate * at).ceil() - committed;
            committed += txs;
            blocks.push(BlockMark {
                observed: Nanos::from_nanos((at * 1e9) as u64),
                committed: txs as u64,
            });
            interval = interval.max(txs / capacity);
            at += interval.max(1.0);
            interval = 0.0;
        }
        blocks
    }

    fn growth(rate: f64, capacity: f64, seconds: u64) -> BacklogGrowth {
        let due = |t: Nanos| (rate * t.as_secs_f64()).ceil() as u64;
        let blocks = blocks(rate, capacity, seconds as f64);
        let until = Nanos::from_secs(seconds);
        backlog_growth(&blocks, due, Nanos::from_secs(5), until).unwrap()
    }

    #[test]
    fn a_backlog_grows_by_what_is_offered_too_much() {
        let kept_up = growth(990.0, 1000.0, 20);
        assert!(kept_up.tps.abs() < 1.0, "{kept_up:?}");
        assert!(
            (kept_up.committed_tps.unwrap() - 990.0).abs() < 2.0,
            "{kept_up:?}"
        );
        let overloaded = growth(1030.0, 1000.0, 20);
        assert!((overloaded.tps - 30.0).abs() < 4.0, "{overloaded:?}");
        assert!(overloaded.error_tps < 2.0, "{overloaded:?}");
        // Blocks that double leave few of them, and the backlog shows all the same.
        let doubling = growth(2000.0, 1000.0, 40);
        assert!(doubling.blocks <= 3 && doubling.tps > 500.0, "{doubling:?}");
    }

    #[test]
    fn few_blocks_say_nothing() {
        let due = |_| 0;
        let blocks = blocks(100.0, 1000.0, 2.0);
        assert_eq!(
            backlog_growth(&blocks, due, Nanos::ZERO, Nanos::from_secs(2)),
            None
        );
    }
}
