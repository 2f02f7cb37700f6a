//! Which stage of a chain a load fills: the check of transactions (CheckTx), their execution in blocks, or the check
//! again of what a block left in the mempool. Taken from the rows, like all signs; constant in size.
//!
//! **Check.** A server that works on one at a time and takes s for each gives 1/s answers a second, however many wait.
//! So where answers a second, at most, times what one takes when none waits come to 1, there is one such server; m that
//! work side by side come to m at least (the utilisation law, Denning and Buzen, Computing Surveys 10, 1978).
//!
//! **Execution and recheck.** The header of a block carries the time of the votes for the block before it (BFT time,
//! CometBFT 0.38 spec/consensus/bft-time.md), and a node announces a block once it was executed, committed and the
//! mempool checked again (`ApplyBlock` in state/execution.go). What lies between the two, less a constant, is what the
//! block's transactions and those that it left behind cost: a plane through these points gives both.

use crate::format::evidence::{Evidence, EvidenceKind, Stage, StageEvidence};
use crate::format::rows::{BlockRow, SeriesRow};

/// What the course of a load shows of the node's stages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stages {
    checks: Checks,
    blocks: BlockCosts,
}

impl Stages {
    pub(crate) fn block(&mut self, block: &BlockRow) {
        self.blocks.block(block);
    }

    pub(crate) fn second(&mut self, row: &SeriesRow) {
        self.blocks.over |= row.step.is_none();
        self.checks.second(row);
        // A node that is busy may not report its depth in every second.
        let left = row.mempool_min.or(row.mempool_txs);
        self.blocks.left = left.unwrap_or(self.blocks.left);
    }

    /// Whether blocks were announced, and too few to show what they cost.
    pub(crate) fn has_few_blocks(&self) -> bool {
        (1.0..FEWEST_BLOCKS).contains(&self.blocks.sums.n)
    }

    /// Which stage was at work all the time, in words, and since when if that is known. `by_blocks`: they were
    /// watched, and their times can be used; `behind`: they did not take up what was accepted, which then shows nothing
    /// of the checks.
    pub(crate) fn finding(
        &self,
        by_blocks: bool,
        behind: bool,
    ) -> Option<(Option<f64>, StageEvidence)> {
        let shares = self.blocks.shares().filter(|_| by_blocks);
        let busy = shares.filter(|it| it.execution + it.recheck >= BUSY_SHARE);
        if let Some(shares) = busy {
            return Some((None, shares.evidence()));
        }
        let crowded = !behind && self.checks.are_crowded();
        crowded.then(|| (Some(self.checks.since_s), self.checks.evidence()))
    }
}

/// Whether the blocks' transactions take all of the time between the blocks.
fn fill_the_time(stage: &StageEvidence) -> bool {
    match stage {
        StageEvidence::Blocks {
            execution, recheck, ..
        } => execution + recheck >= ALL_SHARE,
        _ => false,
    }
}

/// Whether a stage is what held the load back, beside the strong evidence; `behind`: blocks did not take up what was
/// accepted.
pub(super) fn is_told(stage: &StageEvidence, strong: &[&Evidence], behind: bool) -> bool {
    let has = |is_so: fn(&EvidenceKind) -> bool| strong.iter().any(|it| is_so(&it.kind));
    match stage {
        // Before the blocks, and nothing else is why: an answer that refuses does not wait, and silence is no work.
        StageEvidence::Answers { .. } => {
            !behind
                && !has(EvidenceKind::is_an_outage)
                && !has(|kind| *kind == EvidenceKind::Refused)
        }
        // A chain that keeps up with what is accepted executes much of the time, and is limited elsewhere; where blocks
        // leave out what waits, their room is. Where they come as soon as the one before is executed, larger ones would
        // come later.
        _ => behind && (!has(EvidenceKind::is_room) || fill_the_time(stage)),
    }
}

/// Answers, and what they take.
#[derive(Debug, Clone, Default)]
struct Checks {
    /// The shortest median of a second from sent to accepted, in milliseconds.
    alone_ms: Option<f64>,
    /// The most that were accepted in a second.
    most_tps: f64,
    /// Seconds in which answers took [`CROWDED`] times as long, the first of them, and the longest median.
    crowded: u64,
    since_s: f64,
    crowded_ms: f64,
}

impl Checks {
    fn second(&mut self, row: &SeriesRow) {
        let Some(median) = row.latency.service_p50_ms else {
            return;
        };
        if row.counts.accepted < FEWEST_ANSWERS || row.span_s < 1.0 {
            return;
        }
        let alone = self.alone_ms.map_or(median, |alone| alone.min(median));
        self.alone_ms = Some(alone);
        self.most_tps = self.most_tps.max(row.counts.accepted as f64 / row.span_s);
        if median >= CROWDED * alone {
            if self.crowded == 0 {
                self.since_s = row.second as f64;
            }
            self.crowded += 1;
            self.crowded_ms = self.crowded_ms.max(median);
        }
    }

    fn evidence(&self) -> StageEvidence {
        let alone_ms = self.alone_ms.unwrap_or_default();
        StageEvidence::Answers {
            most_tps: self.most_tps,
            alone_ms,
            at_once: self.most_tps * alone_ms / 1e3,
            crowded_ms: self.crowded_ms,
        }
    }

    /// Whether answers waited for others long enough to be no chance.
    const fn are_crowded(&self) -> bool {
        self.crowded >= FEWEST_SECONDS
    }
}

/// A block that is followed by one whose header has the time of its votes.
#[derive(Debug, Clone, Copy)]
struct Last {
    height: u64,
    txs: f64,
    observed_ns: u64,
    /// Since the block before it was announced.
    gap_ms: f64,
    left: f64,
    /// Whether the node announced it: a height is known before its block was executed.
    announced: bool,
}

/// What blocks cost by their transactions (x) and by those that they left in the mempool (z), in milliseconds (y).
#[derive(Debug, Clone, Default)]
struct BlockCosts {
    /// In the mempool, last time that this was known.
    left: u64,
    /// The offering ended.
    over: bool,
    last: Option<Last>,
    /// What the clocks differ by and the first block cost: taken off all, so that sums stay exact.
    base_ns: Option<i128>,
    sums: Sums,
    weights: Weights,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    z: f64,
    y: f64,
    xx: f64,
    zz: f64,
    xz: f64,
    xy: f64,
    zy: f64,
    yy: f64,
}

/// How large blocks were, how much they left, and how long after the block before they came, weighted by both: what most
/// transactions met.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    x: f64,
    z: f64,
    xx: f64,
    zz: f64,
    x_gap: f64,
    z_gap: f64,
}

/// Shares of the time between the blocks in which transactions were, and that left some behind.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BlockShares {
    execution: f64,
    recheck: f64,
    /// What a transaction costs, in milliseconds.
    execution_ms: f64,
    recheck_ms: f64,
    /// The time between these blocks, in milliseconds.
    gap_ms: f64,
}

impl BlockShares {
    fn evidence(self) -> StageEvidence {
        StageEvidence::Blocks {
            stage: match (self.execution >= BUSY_SHARE, self.recheck >= BUSY_SHARE) {
                (true, _) => Some(Stage::Execution),
                (_, true) => Some(Stage::Recheck),
                _ => None,
            },
            execution_ms: self.execution_ms,
            recheck_ms: self.recheck_ms,
            execution: self.execution,
            recheck: self.recheck,
            gap_s: self.gap_ms / 1e3,
        }
    }
}

impl BlockCosts {
    fn block(&mut self, block: &BlockRow) {
        let before = self.last.filter(|last| last.height + 1 == block.height);
        // Of the first block it is not known when the one before came.
        if let Some(last) = before.filter(|last| !self.over && last.gap_ms > 0.0) {
            self.weights.add(&last);
            let voted_ns = i128::from(block.header_time_unix_ns);
            let took_ns = i128::from(last.observed_ns) - voted_ns;
            let took_ns = took_ns - *self.base_ns.get_or_insert(took_ns);
            if last.announced {
                self.sums.add(&last, took_ns as f64 / 1e6);
            }
        }
        let gap_ns = before.map_or(0, |last| block.observed_ns.saturating_sub(last.observed_ns));
        self.last = Some(Last {
            height: block.height,
            txs: block.txs as f64,
            observed_ns: block.observed_ns,
            gap_ms: gap_ns as f64 / 1e6,
            left: self.left as f64,
            announced: block.resolution_ms.is_none(),
        });
    }

    /// `None` where there are too few blocks, or they show nothing of what they cost.
    fn shares(&self) -> Option<BlockShares> {
        let weights = &self.weights;
        let (execution_ms, recheck_ms) = self.sums.plane()?;
        let share =
            |ms: f64, squares: f64, gap: f64| if gap > 0.0 { ms * squares / gap } else { 0.0 };
        let execution = share(execution_ms, weights.xx, weights.x_gap);
        let recheck = share(recheck_ms, weights.zz, weights.z_gap);
        let gap_ms = if execution >= recheck {
            weights.x_gap / weights.x
        } else {
            weights.z_gap / weights.z
        };
        Some(BlockShares {
            execution,
            recheck,
            execution_ms,
            recheck_ms,
            gap_ms,
        })
    }
}

impl Sums {
    fn add(&mut self, of: &Last, y: f64) {
        let (x, z) = (of.txs, of.left);
        self.n += 1.0;
        self.x += x;
        self.z += z;
        self.y += y;
        self.xx += x * x;
        self.zz += z * z;
        self.xz += x * z;
        self.xy += x * y;
        self.zy += z * y;
        self.yy += y * y;
    }

    /// What y rises by for each of x and of z, by least squares; neither below zero. `None` unless this explains most
    /// of y.
    fn plane(&self) -> Option<(f64, f64)> {
        if self.n < FEWEST_BLOCKS {
            return None;
        }
        let n = self.n;
        let xx = self.xx - self.x * self.x / n;
        let zz = self.zz - self.z * self.z / n;
        let xz = self.xz - self.x * self.z / n;
        let xy = self.xy - self.x * self.y / n;
        let zy = self.zy - self.z * self.y / n;
        let yy = self.yy - self.y * self.y / n;
        // What does not scatter explains nothing; sums of what is equal leave a rounding error.
        let (xx, zz) = (scatter(xx, self.xx), scatter(zz, self.zz));
        let alone = |of: f64, with_y: f64| {
            if of > 0.0 {
                (with_y / of).max(0.0)
            } else {
                0.0
            }
        };
        let both = xx * zz - xz * xz;
        let (b, c) = ((xy * zz - zy * xz) / both, (zy * xx - xy * xz) / both);
        let (b, c) = match both > APART * xx * zz {
            true if b >= 0.0 && c >= 0.0 => (b, c),
            true if b >= 0.0 => (alone(xx, xy), 0.0),
            true => (0.0, alone(zz, zy)),
            // They rise together, or only one of them does: the one that explains more.
            false if alone(xx, xy) * xy >= alone(zz, zy) * zy => (alone(xx, xy), 0.0),
            false => (0.0, alone(zz, zy)),
        };
        let explained = b * xy + c * zy;
        (yy > 0.0 && explained >= EXPLAINED * yy).then_some((b, c))
    }
}

impl Weights {
    fn add(&mut self, of: &Last) {
        let (x, z) = (of.txs, of.left);
        self.x += x;
        self.z += z;
        self.xx += x * x;
        self.zz += z * z;
        self.x_gap += x * of.gap_ms;
        self.z_gap += z * of.gap_ms;
    }
}

/// A sum of squares about the mean; zero where it is nothing beside the sum of squares itself.
fn scatter(about_mean: f64, of_squares: f64) -> f64 {
    if about_mean > ROUNDING * of_squares {
        about_mean
    } else {
        0.0
    }
}

/// Of sums of thousands of squares.
const ROUNDING: f64 = 1e-9;
/// Most of the time.
pub(crate) const BUSY_SHARE: f64 = 0.5;
/// All of it: what is left is no more than the two may be wrong by.
const ALL_SHARE: f64 = 0.8;
/// Fewer answers make no median.
const FEWEST_ANSWERS: u64 = 20;
/// Answers that take so many times as long as they can wait for others.
const CROWDED: f64 = 3.0;
/// Two seconds are chance.
const FEWEST_SECONDS: u64 = 3;
/// One in work at once. The network's part of an answer's time makes it more, and two servers make it two at least.
pub(crate) const ONE: std::ops::RangeInclusive<f64> = 0.6..=1.8;
/// Fewer blocks than this for three parameters are chance.
const FEWEST_BLOCKS: f64 = 10.0;
/// The share of the scatter of x and z that is not common to both, below which they are not distinguished.
const APART: f64 = 0.1;
/// A share of the scatter of y: less is chance, or another cause.
const EXPLAINED: f64 = 0.6;
