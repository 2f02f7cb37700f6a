//! The rate that a block asks for, as a formula.

use crate::usage::Used;

/// What a block shows, and what is known about the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFacts {
    /// The rate until now.
    pub(super) rate: f64,
    /// Transactions in the block, and how many of them were ours.
    pub(super) txs: f64,
    pub(super) ours: f64,
    /// What the mempool held just before it.
    pub(super) peak: f64,
    /// Seconds since the block before.
    pub(super) secs: f64,
    /// Transactions in the fullest of the last blocks.
    pub(super) recent: f64,
    /// What the chain commits a second.
    pub(super) committed_rate: f64,
    /// Transactions in a block that a mempool filled as configured makes; infinite if unknown.
    pub(super) full: f64,
    /// Seconds between small blocks; infinite if unknown.
    pub(super) base_secs: f64,
    pub(super) used: Used,
}

/// Base intervals that a transaction may wait for its block. More make blocks fuller (the fixed
/// part of the interval counts less) and clients wait longer: with 4, three quarters of the time
/// between blocks are spent on transactions.
pub(super) const WAITING: f64 = 4.0;
/// The mempool may hold so many recent blocks just before a block: one that is taken, and as much
/// again, and a little, that came while it was being made.
pub(super) const LEFT: f64 = 2.2;
/// What is added to the rate each block, as a share of what the chain commits: of several proxies in
/// front of one node those that send little come to send as much as the others, in 1 / (2 × this)
/// blocks if there are two (Chiu and Jain 1989: additive increase makes fair).
pub(super) const SHARING: f64 = 0.02;
/// Bounds of one step; the lower one is also the factor of a refusal.
pub(super) const LOWER: f64 = 0.7;
const RAISE: f64 = 2.0;
/// Factors nearer to 1 than this are halved in effect, so that noise is not followed.
const NEAR: f64 = 1.3;
/// Shares of the interval and of the rate from which a raise is allowed.
pub(super) const BACKLOGGED: f64 = 0.8;
pub(super) const USED: f64 = 0.9;
/// Share of the interval in which sending must have been possible for its use to say anything.
const POSSIBLE: f64 = 0.1;
/// Sending may be much faster than committing while the gate is closed most of the time; so much.
const MOSTLY_CLOSED: f64 = 0.5;
/// With T = 4 T₀ the loop's gain is 1.2 at most, below 2.
const GENTLE_DOWN: f64 = 0.3;
const GENTLE_UP: f64 = 0.4;

impl BlockFacts {
    /// The new rate, within one step of the old one.
    pub(super) fn wanted(&self) -> f64 {
        let sharing = if self.is_used() {
            SHARING * self.committed_rate
        } else {
            0.0
        };
        let wanted = self.lowest() + sharing;
        wanted.clamp(self.rate * LOWER, self.rate * RAISE)
    }

    fn lowest(&self) -> f64 {
        if self.recent == 0.0 {
            // Empty blocks say nothing about the rate.
            return self.rate;
        }
        let full = self.rate * filling(self.full / self.txs.max(1.0));
        let waiting = self.rate * gentle(self.patience_secs() / self.secs);
        full.min(waiting).min(self.left())
    }

    fn left(&self) -> f64 {
        let factor = LEFT * self.recent / self.peak.max(1.0);
        let open = self.secs * self.used.unblocked.max(MOSTLY_CLOSED);
        let wanted = self.ours / open * factor;
        if factor < 1.0 || self.is_used() {
            wanted
        } else {
            // Little is committed because little was sent.
            wanted.max(self.rate)
        }
    }

    /// The longest interval that a block should have. Without demand it has nothing to do with the
    /// rate.
    pub(super) fn patience_secs(&self) -> f64 {
        if self.waited() {
            WAITING * self.base_secs
        } else {
            f64::INFINITY
        }
    }

    /// Whether writes waited nearly all the time.
    pub(super) fn waited(&self) -> bool {
        self.used.backlogged >= BACKLOGGED
    }

    fn is_used(&self) -> bool {
        self.used.is_of(self.rate)
    }
}

impl Used {
    /// Whether this rate was really used, so that a higher one would be as well.
    pub(super) fn is_of(&self, rate: f64) -> bool {
        !self.disturbed
            && self.backlogged >= BACKLOGGED
            && self.unblocked >= POSSIBLE
            && self.rate >= USED * rate
    }
}

/// All the way when it is long, half of it (in the logarithm) when it is short.
fn filling(factor: f64) -> f64 {
    if (NEAR.recip()..NEAR).contains(&factor) {
        factor.sqrt()
    } else {
        factor
    }
}

/// A part of the way.
fn gentle(factor: f64) -> f64 {
    if factor >= 1.0 {
        1.0 + GENTLE_UP * (factor - 1.0)
    } else if factor >= LOWER {
        factor.powf(GENTLE_DOWN)
    } else {
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> BlockFacts {
        BlockFacts {
            rate: 4_000.0,
            txs: 4_750.0,
            ours: 4_750.0,
            peak: 4_900.0,
            secs: 1.2,
            recent: 4_750.0,
            committed_rate: 4_000.0,
            full: 4_750.0,
            base_secs: 1.0,
            used: Used {
                backlogged: 1.0,
                unblocked: 1.0,
                rate: 3_950.0,
                disturbed: false,
            },
        }
    }

    #[test]
    fn a_full_block_asks_for_no_more_than_the_sharing() {
        assert!((facts().wanted() - 4_080.0).abs() < 1e-9);
    }

    #[test]
    fn a_block_far_from_full_doubles_the_rate_and_one_too_full_lowers_it() {
        let small = BlockFacts {
            full: f64::INFINITY,
            secs: 1.0,
            ..facts()
        };
        assert_eq!(small.wanted(), 8_000.0);
        let large = BlockFacts {
            full: 4_000.0,
            ..facts()
        };
        assert!((large.wanted() - 80.0 - 4_000.0 * (4_000.0_f64 / 4_750.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn long_intervals_lower_it_gently_unless_nobody_waited() {
        let slow = BlockFacts {
            full: f64::INFINITY,
            secs: 5.0,
            ours: 40_000.0,
            ..facts()
        };
        assert!((slow.wanted() - 80.0 - 4_000.0 * 0.8_f64.powf(0.3)).abs() < 1e-9);
        let quiet = BlockFacts {
            used: Used {
                backlogged: 0.1,
                ..facts().used
            },
            ..slow
        };
        assert!(quiet.wanted() >= 4_000.0);
    }

    #[test]
    fn what_capped_blocks_leave_behind_lowers_it_to_what_is_committed() {
        let capped = BlockFacts {
            txs: 1_000.0,
            ours: 1_000.0,
            recent: 1_000.0,
            peak: 2_200.0,
            secs: 1.0,
            full: f64::INFINITY,
            committed_rate: 1_000.0,
            rate: 1_010.0,
            used: Used {
                rate: 1_010.0,
                ..facts().used
            },
            ..facts()
        };
        assert!((capped.wanted() - 1_020.0).abs() < 1e-6);
    }

    #[test]
    fn empty_blocks_say_nothing() {
        let empty = BlockFacts {
            txs: 0.0,
            ours: 0.0,
            peak: 300.0,
            recent: 0.0,
            committed_rate: 0.0,
            ..facts()
        };
        assert_eq!(empty.wanted(), 4_000.0);
    }
}
