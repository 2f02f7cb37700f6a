//! Whether a backlog grows: offered minus committed, at the instants of blocks.

use pacing::Nanos;

use crate::span::BlockSpan;

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
    /// What the blocks after the first one committed, over the time between the first and the last;
    /// `None` with fewer than two.
    pub committed_tps: Option<f64>,
    /// Blocks observed.
    pub blocks: usize,
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
    for block in blocks.iter().take_while(|block| block.observed < until) {
        if block.observed >= from {
            let backlog = due_before(block.observed) as f64 - committed as f64;
            peaks.push((block.observed.as_secs_f64(), backlog));
            span.add(&BlockSpan::one(block.observed, block.committed));
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
    let (tps, error_tps) = line(&peaks)?;
    Some(BacklogGrowth {
        tps,
        error_tps,
        committed_tps: span.rate(),
        blocks: count,
    })
}

/// Slope of the least-squares line and its standard error.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread = points
        .iter()
        .map(|(x, _)| (x - mean_x).powi(2))
        .sum::<f64>();
    if spread <= 0.0 {
        return None;
    }
    let slope = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum::<f64>()
        / spread;
    let residual = points
        .iter()
        .map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2))
        .sum::<f64>();
    Some((slope, (residual / (count - 2.0) / spread).sqrt()))
}

/// Two lie on a line whatever they are.
const MIN_POINTS: usize = 3;
