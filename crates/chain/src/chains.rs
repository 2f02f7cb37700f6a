//! Which transaction spends what: a function of the seed and the index alone.

use std::fmt;

use base::mix;

use crate::WorkloadError;

/// How the transactions of a load spend one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chaining {
    /// The run's seed.
    pub seed: u64,
    /// Transactions of a chain, each of which spends the one before it; one at least.
    pub depth: u32,
    /// Share of transactions that spend what another one spends.
    pub conflicts: f64,
    /// Share of transactions that spend what no transaction makes.
    pub orphans: f64,
    /// How many generators share the load: what belongs together is one generator's.
    pub generators: u32,
}

/// The chains of a load. Transaction `i` belongs to chain `i mod chains`, so all grow together and as many
/// transactions as possible lie between one and the one that it spends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chains {
    width: u64,
    transactions: u64,
    chaining: Chaining,
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It goes on with its chain.
    Link,
    /// It spends what the transaction with this index spends.
    Conflict(u64),
    /// It spends an output that no transaction makes.
    Orphan,
}

impl Chains {
    /// The chains of so many transactions.
    ///
    /// # Errors
    /// When the shares leave too few transactions to spend.
    pub fn new(transactions: u64, chaining: Chaining) -> Result<Self, WorkloadError> {
        let odd = chaining.conflicts + chaining.orphans;
        if !(0.0..=MOST_ODD).contains(&odd) {
            return Err(WorkloadError::Unusable(format!(
                "--conflict-ratio and --orphan-ratio are {} % of the transactions together; at most {} % are possible",
                odd * 100.0,
                MOST_ODD * 100.0
            )));
        }
        Ok(Self {
            // A generator has every n-th transaction: whole chains, if their number can be divided by n.
            width: transactions
                .div_ceil(u64::from(chaining.depth.max(1)))
                .max(1)
                .next_multiple_of(u64::from(chaining.generators.max(1))),
            transactions,
            chaining,
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.width
    }

    /// How many transactions they have together, conflicts and orphans among them.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// What a transaction is for.
    pub fn role(&self, index: u64) -> Role {
        let draw = self.draw(index);
        if draw < self.chaining.orphans {
            return Role::Orphan;
        }
        if draw >= self.chaining.orphans + self.chaining.conflicts {
            return Role::Link;
        }
        // The nearest link before it that the same generator sends; without one it is a link itself.
        let generators = u64::from(self.chaining.generators.max(1));
        let mut earlier = (1..=index / generators).map(|steps| index - steps * generators);
        let earlier = earlier.find(|earlier| self.is_link(*earlier));
        earlier.map_or(Role::Link, Role::Conflict)
    }

    /// The link whose coins a transaction spends; none for an orphan.
    pub fn spends_as(&self, index: u64) -> Option<u64> {
        match self.role(index) {
            Role::Link => Some(index),
            Role::Conflict(with) => Some(with),
            Role::Orphan => None,
        }
    }

    fn is_link(&self, index: u64) -> bool {
        self.role(index) == Role::Link
    }

    /// The same for one index, from 0 to 1.
    fn draw(&self, index: u64) -> f64 {
        let bits = mix(mix(self.chaining.seed ^ ROLE_DOMAIN).wrapping_add(index));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The chain of an index.
    pub fn chain(&self, index: u64) -> u64 {
        index % self.width
    }

    /// The link of the same chain before this index, whose outputs a link there spends; `None` for the
    /// first.
    pub fn previous(&self, index: u64) -> Option<u64> {
        let mut at = index;
        loop {
            at = at.checked_sub(self.width)?;
            if self.is_link(at) {
                return Some(at);
            }
        }
    }

    /// How many links of the same chain stand before this index.
    pub fn links_before(&self, index: u64) -> u64 {
        if self.chaining.conflicts == 0.0 && self.chaining.orphans == 0.0 {
            return index / self.width;
        }
        std::iter::successors(self.previous(index), |at| self.previous(*at)).count() as u64
    }
}

impl fmt::Display for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chaining {
            depth,
            conflicts,
            orphans,
            ..
        } = self.chaining;
        write!(f, "{} chains of {depth}", self.width)?;
        for (share, what) in [(conflicts, "conflicts"), (orphans, "orphans")] {
            if share > 0.0 {
                write!(f, ", {} % {what}", share * 100.0)?;
            }
        }
        Ok(())
    }
}

/// Conflicts and orphans together: each conflict looks for a link before it.
const MOST_ODD: f64 = 0.9;
/// Keeps the roles apart from other uses of the same seed.
const ROLE_DOMAIN: u64 = 0x7469_6465_726f_6c65;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Chaining = Chaining {
        seed: 0,
        depth: 1,
        conflicts: 0.0,
        orphans: 0.0,
        generators: 1,
    };

    fn chains(depth: u32, conflicts: f64, orphans: f64) -> Chains {
        let chaining = Chaining {
            depth,
            conflicts,
            orphans,
            ..PLAIN
        };
        Chains::new(10_000, chaining).unwrap()
    }

    #[test]
    fn links_are_counted_whether_or_not_all_are() {
        for (conflicts, orphans) in [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3)] {
            let chains = chains(50, conflicts, orphans);
            for index in (0..10_000).step_by(97) {
                let links =
                    std::iter::successors(chains.previous(index), |at| chains.previous(*at));
                assert_eq!(chains.links_before(index), links.count() as u64);
            }
        }
    }

    #[test]
    fn what_belongs_together_is_one_generator_s() {
        for (transactions, generators) in [(100, 3), (10, 4), (7, 5)] {
            let chaining = Chaining {
                depth: 10,
                conflicts: 0.3,
                orphans: 0.1,
                generators,
                ..PLAIN
            };
            let chains = Chains::new(transactions, chaining).unwrap();
            let generator = |index: u64| index % u64::from(generators);
            for index in 0..transactions {
                let Some(link) = chains.spends_as(index) else {
                    continue;
                };
                assert_eq!(generator(link), generator(index));
                let parent = chains.previous(link).unwrap_or(link);
                assert_eq!(generator(parent), generator(index));
            }
        }
    }

    #[test]
    fn roles_come_as_often_as_they_were_asked_for() {
        let chains = chains(5, 0.3, 0.1);
        let count = |wanted: fn(&Role) -> bool| {
            let roles = (0..10_000).map(|index| chains.role(index));
            roles.filter(wanted).count()
        };
        // Four standard deviations of a binomial draw of 10,000.
        let conflicts = count(|role| matches!(role, Role::Conflict(_)));
        assert!((2_816..=3_184).contains(&conflicts), "{conflicts}");
        let orphans = count(|role| *role == Role::Orphan);
        assert!((880..=1_120).contains(&orphans), "{orphans}");
    }

    #[test]
    fn a_link_spends_the_link_before_it_in_its_chain() {
        let chains = chains(10, 0.2, 0.1);
        assert_eq!(chains.width, 1_000);
        for index in (0..10_000).filter(|index| chains.is_link(*index)) {
            match chains.previous(index) {
                None => assert!(
                    (0..index / 1_000).all(|at| !chains.is_link(index % 1_000 + at * 1_000))
                ),
                Some(previous) => {
                    assert_eq!(chains.chain(previous), chains.chain(index));
                    assert!(previous < index && chains.is_link(previous));
                }
            }
        }
        for index in 0..10_000 {
            if let Role::Conflict(with) = chains.role(index) {
                assert!(with < index && chains.is_link(with));
            }
        }
    }

    #[test]
    fn without_ratios_every_transaction_is_a_link() {
        let chains = chains(1, 0.0, 0.0);
        assert!((0..10_000).all(|index| chains.is_link(index) && chains.previous(index).is_none()));
    }
}
