//! Which transaction spends what: a function of the seed and the index alone.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base::mix;
use harness::Share;

use crate::WorkloadError;

/// How many transactions spend one another in turn: `10`, or `26:45%` for chains of 26 beside single transactions, so
/// that 45 % of all spend what another one makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainDepth {
    /// Transactions of a chain.
    pub links: NonZeroU32,
    /// Share of the transactions that spend another one's output; `None` where all are in chains.
    pub spending: Option<f64>,
}

impl ChainDepth {
    /// All transactions in chains of so many.
    #[must_use]
    pub fn all(links: NonZeroU32) -> Self {
        let spending = None;
        Self { links, spending }
    }

    /// Share of the transactions that are in chains.
    fn chained(self) -> f64 {
        let links = f64::from(self.links.get());
        self.spending
            .map_or(1.0, |share| share * links / (links - 1.0))
    }
}

impl FromStr for ChainDepth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (links, share) = match text.split_once(':') {
            Some((links, share)) => (links, Some(share)),
            None => (text, None),
        };
        let depth = Self {
            links: links.parse().map_err(|_| {
                format!("{text:?} is no depth of chains; write for instance 10, or 26:45%")
            })?,
            spending: share
                .map(|share| share.parse::<Share>().map(Share::as_f64))
                .transpose()?,
        };
        // Chains of one have no transaction that spends another one's output.
        if depth.spending.is_some() && depth.chained() > 1.0 {
            return Err(format!(
                "{text:?} is not possible: in chains of N transactions (N − 1) / N spend another one's output"
            ));
        }
        Ok(depth)
    }
}

impl fmt::Display for ChainDepth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.links.fmt(f)?;
        self.spending
            .map_or(Ok(()), |share| write!(f, ":{}%", share * 100.0))
    }
}

/// How the transactions of a load spend one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chaining {
    /// The run's seed.
    pub seed: u64,
    /// Transactions of a chain, each of which spends the one before it.
    pub depth: ChainDepth,
    /// Share of transactions that spend what another one spends.
    pub conflicts: f64,
    /// Share of transactions that spend what no transaction makes.
    pub orphans: f64,
    /// How many generators share the load: what belongs together is one generator's.
    pub generators: u32,
}

/// The chains of a load. Transaction `i` is in column `i mod columns`, and each column is a chain, so all grow together
/// and as many transactions as possible lie between one and the one that it spends; or each transaction of a column is
/// a chain of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chains {
    width: u64,
    /// Columns that are chains.
    long: u64,
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
        // A generator has every n-th transaction: whole chains, if their number can be divided by n.
        let width = transactions
            .div_ceil(u64::from(chaining.depth.links.get()))
            .max(1)
            .next_multiple_of(u64::from(chaining.generators.max(1)));
        Ok(Self {
            width,
            long: (width as f64 * chaining.depth.chained()).round() as u64,
            transactions,
            chaining,
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.long + self.transactions.div_ceil(self.width) * (self.width - self.long)
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
        let (row, column) = (index / self.width, index % self.width);
        let before = self.long_before(column);
        if self.is_long(column) {
            return before;
        }
        self.long + row * (self.width - self.long) + column - before
    }

    /// How many of the columns before this one are chains: they are spread evenly.
    fn long_before(&self, column: u64) -> u64 {
        column * self.long / self.width
    }

    fn is_long(&self, column: u64) -> bool {
        self.long_before(column) < self.long_before(column + 1)
    }

    /// The link of the same chain before this index, whose outputs a link there spends; `None` for the
    /// first.
    pub fn previous(&self, index: u64) -> Option<u64> {
        if !self.is_long(index % self.width) {
            return None;
        }
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
            let is_long = self.is_long(index % self.width);
            return if is_long { index / self.width } else { 0 };
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
        write!(f, "{} chains of {}", self.long, depth.links)?;
        if self.long < self.width {
            write!(f, " and {} single ones", self.count() - self.long)?;
        }
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
        depth: ChainDepth {
            links: NonZeroU32::MIN,
            spending: None,
        },
        conflicts: 0.0,
        orphans: 0.0,
        generators: 1,
    };

    fn depth(links: u32) -> ChainDepth {
        ChainDepth::all(NonZeroU32::new(links).unwrap())
    }

    fn chains(links: u32, conflicts: f64, orphans: f64) -> Chains {
        let chaining = Chaining {
            depth: depth(links),
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
                depth: depth(10),
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

    /// The question after the gigablock talk: 55 % of transactions had no unconfirmed ancestor.
    #[test]
    fn a_share_of_the_transactions_has_ancestors_and_the_others_are_chains_of_their_own() {
        for generators in [1, 4] {
            let chaining = Chaining {
                depth: "26:45%".parse().unwrap(),
                generators,
                ..PLAIN
            };
            let chains = Chains::new(26_000, chaining).unwrap();
            let mut members = vec![Vec::new(); chains.count() as usize];
            for index in 0..26_000 {
                members[chains.chain(index) as usize].push(index);
                let before = chains.links_before(index);
                let walked =
                    std::iter::successors(chains.previous(index), |at| chains.previous(*at));
                assert_eq!(before, walked.count() as u64);
            }
            let mut with_ancestors = 0;
            for chain in members {
                assert!(matches!(chain.len(), 1 | 26), "{}", chain.len());
                with_ancestors += chain.len() - 1;
                for pair in chain.windows(2) {
                    assert_eq!(chains.previous(pair[1]), Some(pair[0]));
                }
            }
            assert_eq!(with_ancestors, 26_000 * 45 / 100);
        }
    }

    #[test]
    fn a_depth_is_a_number_or_a_number_and_a_share() {
        for text in ["10", "26:45%"] {
            let depth: ChainDepth = text.parse().unwrap();
            assert_eq!(depth.to_string(), text);
        }
        for (text, why) in [
            ("0", "is no depth"),
            ("x", "is no depth"),
            ("26:x", "is no share"),
            ("1:45%", "is not possible"),
            ("2:51%", "is not possible"),
        ] {
            let error = text.parse::<ChainDepth>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn without_ratios_every_transaction_is_a_link() {
        let chains = chains(1, 0.0, 0.0);
        assert!((0..10_000).all(|index| chains.is_link(index) && chains.previous(index).is_none()));
    }
}
