//! Worlds whose truth is known: a node, the line to it, a generator and a follower, drawn from a seed, which produce
//! a recorder's input. What the real recorder, judge, search and comparison conclude is held against the truth.
//!
//! Half of the worlds take their parameters from [`Ranges::HELD_BACK`], which no rule was tuned on.

pub(crate) mod census;
mod play;

use base::Random;

pub(crate) use census::Census;

use crate::models::normal;

/// A node and everything around it. Rates are per second, times in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// Between blocks, and its standard deviation as a share.
    pub(crate) interval_s: f64,
    pub(crate) jitter: f64,
    /// What blocks hold a second by count, and the standard deviation of one block as a share.
    pub(crate) block_tps: f64,
    pub(crate) block_noise: f64,
    /// What blocks hold a second by gas.
    pub(crate) gas_tps: f64,
    /// The same by bytes, in transactions of mean size.
    pub(crate) bytes_tps: f64,
    /// By how much the sizes of transactions differ from their mean, as a share: all up to that are as likely.
    pub(crate) sizes: f64,
    /// What is executed a second; a block with more takes longer.
    pub(crate) execute_tps: f64,
    /// What is checked a second, one after the other.
    pub(crate) check_tps: f64,
    /// Transactions that wait at most.
    pub(crate) mempool: usize,
    /// Nothing is checked for so long after each block.
    pub(crate) pause_s: f64,
    /// Standard deviation of all capacities from run to run, as a share.
    pub(crate) run_noise: f64,
    /// Share of its capacity that the node loses with each transaction committed, down to a third.
    pub(crate) wear: f64,
    /// What all capacities but gas become a multiple of, from when to when of a search.
    pub(crate) shift: Shift,
    /// It is faster for a while.
    pub(crate) credits: Option<Credits>,
    /// When in the search its run begins.
    pub(crate) begins_s: f64,
    /// The node stands still for so long, once in so many seconds.
    pub(crate) stall: Option<(f64, f64)>,
    /// What a limit in front of the node passes on a second.
    pub(crate) front_tps: f64,
    /// Share of the transactions that the application refuses for what they are.
    pub(crate) refused: f64,
    /// There and back.
    pub(crate) link_s: f64,
    /// The generator stands still for so long, once in so many seconds.
    pub(crate) busy: Option<(f64, f64)>,
    /// How long the follower takes for a block.
    pub(crate) read_s: f64,
    /// The share of the time for which the node lacks the processor; and the share of its capacities that it loses by that.
    pub(crate) neighbours: (f64, f64),
}

/// A change of the node's capacities in the course of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub(crate) from_s: f64,
    pub(crate) over_s: f64,
    pub(crate) to: f64,
}

/// A node that may be faster for as many transactions as it has saved: each one that it could have committed and did not
/// is a credit, up to so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credits {
    /// What all capacities are multiplied by while there are any.
    pub(crate) factor: f64,
    pub(crate) most: f64,
    pub(crate) left: f64,
}

/// The part that holds a world back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    BlockSize,
    Gas,
    Execution,
    Check,
    Front,
}

/// What parameters are drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges {
    interval_s: [f64; 2],
    jitter: [f64; 2],
    block_noise: [f64; 2],
    run_noise: [f64; 2],
    capacity: [f64; 2],
    link_s: [f64; 2],
}

impl Ranges {
    /// Those that were looked at.
    pub(crate) const SEEN: Self = Self {
        interval_s: [0.5, 3.0],
        jitter: [0.0, 0.05],
        block_noise: [0.0, 0.1],
        run_noise: [0.0, 0.02],
        capacity: [25.0, 80.0],
        link_s: [0.001, 0.02],
    };
    /// Those that were not.
    pub(crate) const HELD_BACK: Self = Self {
        interval_s: [0.2, 6.0],
        jitter: [0.0, 0.2],
        block_noise: [0.0, 0.2],
        run_noise: [0.0, 0.04],
        capacity: [15.0, 120.0],
        link_s: [0.0003, 0.2],
    };
}

/// More than any rate that is offered.
pub(crate) const PLENTY: f64 = 1e6;

impl World {
    /// One that is limited by one part alone, all others having a third more at least.
    pub(crate) fn drawn(seed: u64, ranges: Ranges) -> Self {
        let mut random = Random::new(seed);
        let mut between = |[low, high]: [f64; 2]| low + (high - low) * random.unit();
        let capacity = between(ranges.capacity.map(f64::ln)).exp();
        let interval_s = between(ranges.interval_s.map(f64::ln)).exp();
        let mut world = Self {
            seed,
            interval_s,
            jitter: between(ranges.jitter),
            block_tps: PLENTY,
            block_noise: between(ranges.block_noise),
            gas_tps: PLENTY,
            bytes_tps: PLENTY,
            sizes: 0.0,
            execute_tps: PLENTY,
            check_tps: PLENTY,
            mempool: usize::MAX,
            pause_s: 0.0,
            run_noise: between(ranges.run_noise),
            wear: 0.0,
            shift: Shift {
                from_s: 0.0,
                over_s: 0.0,
                to: 1.0,
            },
            credits: None,
            begins_s: 0.0,
            stall: None,
            front_tps: PLENTY,
            refused: 0.0,
            link_s: between(ranges.link_s.map(f64::ln)).exp(),
            busy: None,
            read_s: 0.0,
            neighbours: (0.0, 0.0),
        };
        world.pause_s = between([0.0, 0.2]) * interval_s.min(1.0);
        let part = (5.0 * between([0.0, 1.0])) as usize;
        // Two standard deviations of one block more: what limits one block in ten limits the world.
        let more = 1.0 + 2.0 * (world.jitter + world.block_noise);
        world.block_tps = capacity * more * between([1.4, 4.0]);
        world.execute_tps = capacity * more * between([1.4, 4.0]);
        match Part::ALL[part.min(Part::ALL.len() - 1)] {
            Part::BlockSize => world.block_tps = capacity,
            Part::Gas => {
                // A block holds whole transactions.
                world.gas_tps = (capacity * interval_s).floor().max(1.0) / interval_s;
                world.run_noise = 0.0;
            }
            Part::Execution => world.execute_tps = capacity,
            Part::Check => world.check_tps = capacity,
            Part::Front => world.front_tps = capacity,
        }
        world.sizes = between([0.0, 1.0]);
        if world.block_tps == capacity && between([0.0, 1.0]) < 0.5 {
            (world.block_tps, world.bytes_tps) = (PLENTY, capacity);
            world.run_noise = 0.0;
        }
        world
    }

    /// The same with credits for so many seconds at its higher capacity.
    pub(crate) fn with_credits(self, [least_s, most_s]: [f64; 2]) -> Self {
        let mut random = Random::new(self.seed ^ 0xC8ED);
        let factor = 1.2 + 0.8 * random.unit();
        let seconds = least_s + (most_s - least_s) * random.unit();
        let most = (factor - 1.0) * self.capacity().0 * seconds;
        let credits = Credits {
            factor,
            most,
            left: most,
        };
        Self {
            credits: Some(credits),
            ..self
        }
    }

    /// Committed a second without a fault, and the part that allows no more.
    pub(crate) fn capacity(&self) -> (f64, Part) {
        // Checks stand still in the pause after each block.
        let checking = 1.0 - self.pause_s / self.interval_s;
        let parts = [
            (self.block_tps, Part::BlockSize),
            (self.gas_tps, Part::Gas),
            (self.whole_by_bytes(), Part::BlockSize),
            (self.execute_tps, Part::Execution),
            (self.check_tps * checking, Part::Check),
            (self.front_tps, Part::Front),
        ];
        let least = parts
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0));
        least.unwrap_or((PLENTY, Part::Check))
    }

    /// What blocks hold a second by bytes: what is left of each is the part of the next transaction that would fit, and the
    /// larger that is, the more likely it is the one that does not (the spent waiting time: Feller, "An Introduction to
    /// Probability Theory and Its Applications" II, section XI.4).
    fn whole_by_bytes(&self) -> f64 {
        let variance = self.sizes.powi(2) / 3.0;
        self.bytes_tps - (1.0 + variance) / 2.0 / self.interval_s
    }

    /// Whether the chain's rules limit it, which nothing changes.
    pub(crate) fn is_limited_by_rule(&self) -> bool {
        self.gas_tps.min(self.bytes_tps) < PLENTY
    }

    /// What the capacity is after so many transactions, as a share of that at first.
    pub(crate) fn worn(&self, committed: u64) -> f64 {
        (1.0 - self.wear * committed as f64).max(1.0 / 3.0)
    }

    /// What the capacity is so long after the beginning of the run, as a share of that at first.
    pub(crate) fn shifted(&self, at_s: f64) -> f64 {
        let Shift { from_s, over_s, to } = self.shift;
        let passed_s = self.begins_s + at_s - from_s;
        1.0 + (to - 1.0) * (passed_s / over_s.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// What all capacities of one run are multiplied by.
    fn of_run(&self, random: &mut Random) -> f64 {
        (self.run_noise * normal(random)).exp() * (1.0 - self.neighbours.1)
    }
}

impl Part {
    const ALL: [Self; 5] = [
        Self::BlockSize,
        Self::Gas,
        Self::Execution,
        Self::Check,
        Self::Front,
    ];
}
