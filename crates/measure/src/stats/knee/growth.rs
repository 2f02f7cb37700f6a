//! Whether a backlog grows: offered minus committed, at the instants of blocks.

use pacing::Nanos;

use crate::stats::block_span::BlockSpan;
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
    /// The standard error of that, from how much the blocks differ.
    pub committed_error_tps: f64,
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
    let mut span = BlockSpan::default();
    let mut sizes = Vec::new();
    for block in blocks.iter().take_while(|block| block.observed < until) {
        if block.observed >= from {
            let backlog = due_before(block.observed) as f64 - committed as f64;
            peaks.push((block.observed.as_secs_f64(), backlog));
            span.add(&BlockSpan::one(block.observed, block.committed));
            sizes.push(block.committed as f64);
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
    Some(BacklogGrowth {
        tps: line.slope,
        error_tps: line.error,
        freedom: line.freedom,
        committed_tps: span.rate(),
        committed_error_tps: span
            .edges_s()
            .map_or(0.0, |edges| scatter(&sizes) / (edges.1 - edges.0)),
        blocks: count,
    })
}

/// The standard deviation of the sum of blocks that differ as these do; the first one is not in the sum.
fn scatter(sizes: &[f64]) -> f64 {
    let sizes = sizes.get(1..).unwrap_or_default();
    let count = sizes.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = sizes.iter().sum::<f64>() / count;
    let squares: f64 = sizes.iter().map(|size| (size - mean).powi(2)).sum();
    (squares / (count - 1.0) * count).sqrt()
}

/// A least-squares line: its slope, the standard error of that and its degrees of freedom.
struct Line {
    slope: f64,
    error: f64,
    freedom: f64,
}

impl Line {
    /// Near its capacity a chain carries what one block left over into the next, so neighbouring
    /// residuals are alike and tell less than as many independent ones. Error and degrees of freedom
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
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
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
