//! Which transaction spends what: a function of the seed and the index alone.

use base::mix;

use super::Spec;
use super::keys::KEYS;

/// The chains of a load. Transaction `i` belongs to chain `i mod chains`, so all grow together and as many
/// transactions as possible lie between one and the one that it spends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chains {
    /// How many there are.
    pub(super) width: u64,
    pub(super) transactions: u64,
    spec: Spec,
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It goes on with its chain.
    Link,
    /// It spends what the transaction with this index spends.
    Conflict(u64),
    /// It spends an output that no transaction makes.
    Orphan,
}

impl Chains {
    pub(super) fn new(transactions: u64, spec: Spec) -> Self {
        Self {
            // A generator has every n-th transaction: whole chains, if their number can be divided by n.
            width: transactions
                .div_ceil(u64::from(spec.depth))
                .max(1)
                .next_multiple_of(u64::from(spec.generators.max(1))),
            transactions,
            spec,
        }
    }

    pub(super) fn role(&self, index: u64) -> Role {
        let draw = self.draw(index);
        if draw < self.spec.orphans {
            return Role::Orphan;
        }
        if draw >= self.spec.orphans + self.spec.conflicts {
            return Role::Link;
        }
        // The nearest link before it that the same generator sends; without one it is a link itself.
        let generators = u64::from(self.spec.generators.max(1));
        let mut earlier = (1..=index / generators).map(|steps| index - steps * generators);
        let earlier = earlier.find(|earlier| self.is_link(*earlier));
        earlier.map_or(Role::Link, Role::Conflict)
    }

    /// The link whose coins a transaction spends; none for an orphan.
    pub(super) fn spends_as(&self, index: u64) -> Option<u64> {
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
        let bits = mix(mix(self.spec.seed ^ ROLE_DOMAIN).wrapping_add(index));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The chain of an index.
    pub(super) fn chain(&self, index: u64) -> u64 {
        index % self.width
    }

    /// The link of the same chain before this index, whose outputs a link there spends; `None` for the
    /// first.
    pub(super) fn previous(&self, index: u64) -> Option<u64> {
        let mut at = index;
        loop {
            at = at.checked_sub(self.width)?;
            if self.is_link(at) {
                return Some(at);
            }
        }
    }

    /// How many links of the same chain stand before this index.
    pub(super) fn links_before(&self, index: u64) -> u64 {
        if self.spec.conflicts == 0.0 && self.spec.orphans == 0.0 {
            return index / self.width;
        }
        std::iter::successors(self.previous(index), |at| self.previous(*at)).count() as u64
    }

    /// The key of an output.
    pub(super) fn key(&self, index: u64, output: usize) -> u16 {
        let bits = mix(mix(self.spec.seed ^ KEY_DOMAIN).wrapping_add(index)) ^ output as u64;
        (mix(bits) % u64::from(KEYS)) as u16
    }
}

/// Keep the draws of one seed apart.
const ROLE_DOMAIN: u64 = 0x7469_6465_726f_6c65;
const KEY_DOMAIN: u64 = 0x7469_6465_6b65_7973;

#[cfg(test)]
mod tests {
    use super::*;

    fn chains(depth: u32, conflicts: f64, orphans: f64) -> Chains {
        let spec = Spec {
            depth,
            conflicts,
            orphans,
            ..Spec::default()
        };
        Chains::new(10_000, spec)
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
            let spec = Spec {
                depth: 10,
                conflicts: 0.3,
                orphans: 0.1,
                generators,
                ..Spec::default()
            };
            let chains = Chains::new(transactions, spec);
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
