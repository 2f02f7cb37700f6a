//! What a run left of its wallet.

use std::collections::HashMap;

use bitcoin::OutPoint;
use measure::read::TxFate;

use super::wallet::{Coin, CoinState, Wallet};
use super::{BitcoinWorkload, shown};
use chain::Role;

/// Collects what became of a run's transactions, in any order.
pub struct Settler<'a> {
    workload: &'a BitcoinWorkload,
    /// By the ids as they are shown.
    indices: HashMap<[u8; 32], u64>,
    fates: Vec<Option<TxFate>>,
}

/// The wallet after a run.
#[derive(Debug)]
pub struct Settlement {
    /// What it holds.
    pub wallet: Wallet,
    /// Satoshi of the wallet before.
    pub funded: u64,
    /// Satoshi that the accepted transactions paid.
    pub fees: u64,
    /// Transactions that spend, over others or not, an output of one that was refused.
    pub dead: u64,
    /// What cannot be: coins that were spent twice, or that nothing made.
    pub broken: Vec<String>,
}

impl<'a> Settler<'a> {
    /// For the transactions that were made so far; `None` before the workload has its wallet.
    pub fn new(workload: &'a BitcoinWorkload) -> Option<Self> {
        workload.wallet()?;
        let ids = workload.inner.ids.iter().enumerate();
        let known = ids.filter_map(|(index, id)| Some((shown(*id.get()?), index as u64)));
        Some(Self {
            indices: known.collect(),
            fates: vec![None; workload.transactions() as usize],
            workload,
        })
    }

    /// For all transactions: those that are not known are signed again.
    #[cfg(test)]
    fn of_all(workload: &'a BitcoinWorkload) -> Option<Self> {
        workload.wallet()?;
        for index in 0..workload.transactions() {
            let txid = || workload.inner.sign(index).compute_txid();
            workload.inner.ids[index as usize].get_or_init(txid);
        }
        Self::new(workload)
    }

    /// Notes what became of a transaction; whether it is one of the workload's.
    pub fn note(&mut self, id: &[u8; 32], fate: TxFate) -> bool {
        let Some(index) = self.indices.get(id).copied() else {
            return false;
        };
        self.fates[index as usize] = Some(fate);
        if fate == TxFate::Rejected {
            self.workload.refuse(index);
        }
        true
    }

    /// Spends and makes what the accepted transactions did.
    pub fn settle(mut self) -> Settlement {
        self.infer();
        let before = self.workload.wallet().cloned();
        let before = before.unwrap_or_else(|| Wallet::new("", 0, Default::default(), Vec::new()));
        let funded = before.value();
        let mut replay = Replay {
            coins: before
                .coins
                .iter()
                .map(|coin| (coin.spend.outpoint, *coin))
                .collect(),
            fees: 0,
            broken: Vec::new(),
        };
        let mut dead = 0;
        for (index, fate) in (0..).zip(&self.fates) {
            let Some(fate) = fate else { continue };
            dead += u64::from(*fate == TxFate::Error && self.workload.is_dead(index));
            replay.take(self.workload, index, *fate);
        }
        let Replay {
            coins,
            fees,
            mut broken,
        } = replay;
        let mut coins: Vec<Coin> = coins.into_values().collect();
        coins.sort_unstable_by_key(|coin| (coin.state, coin.spend.outpoint));
        let wallet = Wallet { coins, ..before };
        if wallet.value() + fees != funded {
            broken.push(format!(
                "the coins hold {} satoshi and the fees were {fees}, but {funded} were there before",
                wallet.value()
            ));
        }
        Settlement {
            wallet,
            funded,
            fees,
            dead,
            broken,
        }
    }

    /// What spends an accepted transaction's coins was accepted too, although no answer came.
    fn infer(&mut self) {
        let chains = &self.workload.inner.chains;
        for index in (0..self.workload.transactions()).rev() {
            let link = match chains.role(index) {
                Role::Link => index,
                Role::Conflict(with) => with,
                Role::Orphan => continue,
            };
            let is_taken = self.fates[index as usize].is_some_and(is_taken);
            if let Some(previous) = chains.previous(link).filter(|_| is_taken) {
                let fate = &mut self.fates[previous as usize];
                if matches!(fate, Some(TxFate::Error | TxFate::Unanswered)) {
                    *fate = Some(TxFate::Pending);
                }
            }
        }
    }
}

const fn is_taken(fate: TxFate) -> bool {
    matches!(
        fate,
        TxFate::Committed | TxFate::CommitFailed | TxFate::Unverified | TxFate::Pending
    )
}

struct Replay {
    coins: HashMap<OutPoint, Coin>,
    fees: u64,
    broken: Vec<String>,
}

impl Replay {
    fn take(&mut self, workload: &BitcoinWorkload, index: u64, fate: TxFate) {
        let inner = &workload.inner;
        let spends = inner.spends(index);
        if !is_taken(fate) {
            if fate != TxFate::Rejected {
                // Whether they are spent is unknown.
                for spend in spends {
                    if let Some(coin) = self.coins.get_mut(&spend.outpoint) {
                        coin.state = CoinState::Doubtful;
                    }
                }
            }
            return;
        }
        let mut spent = 0;
        for spend in &spends {
            match self.coins.remove(&spend.outpoint) {
                Some(coin) => spent += coin.spend.value,
                None if self.broken.len() < MOST_BROKEN => self.broken.push(format!(
                    "transaction {index} was accepted and spends {}, which is spent already or was never made",
                    spend.outpoint
                )),
                None => {}
            }
        }
        let state = match fate {
            TxFate::Pending => CoinState::Pending,
            _ => CoinState::Confirmed,
        };
        let made = inner.all_outputs(index, inner.id(index));
        let paid: u64 = made.iter().map(|coin| coin.value).sum();
        for spend in made {
            self.coins.insert(spend.outpoint, Coin { spend, state });
        }
        self.fees = self.fees.saturating_add(spent.saturating_sub(paid));
    }
}

/// Of what cannot be, the first few.
const MOST_BROKEN: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::workload;
    use super::super::{Shape, Spec};
    use super::*;

    fn settled(workload: &BitcoinWorkload, fates: &[Option<TxFate>]) -> Settlement {
        let mut settler = Settler::of_all(workload).unwrap();
        for (index, fate) in fates.iter().enumerate() {
            let id = shown(workload.inner.id(index as u64));
            if let Some(fate) = fate {
                assert!(settler.note(&id, *fate));
            }
        }
        settler.settle()
    }

    #[test]
    fn committed_transactions_leave_their_outputs_and_the_fees() {
        let workload = workload(
            Spec {
                depth: "2".parse().unwrap(),
                ..Spec::default()
            },
            10,
        );
        let fates = vec![Some(TxFate::Committed); 10];
        let left = settled(&workload, &fates);
        assert_eq!(left.broken, Vec::<String>::new());
        assert_eq!(left.fees, 10 * workload.spec().fee());
        assert_eq!(left.wallet.spendable().count(), 10);
        assert_eq!(left.wallet.value() + left.fees, left.funded);
    }

    #[test]
    fn a_node_that_accepts_both_of_a_conflict_breaks_the_law() {
        let spec = Spec {
            conflicts: 0.5,
            ..Spec::default()
        };
        let workload = workload(spec, 20);
        let fates = vec![Some(TxFate::Committed); 20];
        let left = settled(&workload, &fates);
        assert!(
            left.broken[0].contains("spent already or was never made"),
            "{:?}",
            left.broken
        );
    }

    #[test]
    fn coins_of_transactions_without_an_answer_are_doubtful_and_kept() {
        let workload = workload(Spec::default(), 3);
        let left = settled(
            &workload,
            &[Some(TxFate::Unanswered), Some(TxFate::Rejected), None],
        );
        let states: Vec<CoinState> = left.wallet.coins.iter().map(|coin| coin.state).collect();
        let expected = [&[CoinState::Confirmed; 4][..], &[CoinState::Doubtful; 2]].concat();
        assert_eq!(states, expected);
        assert_eq!(left.wallet.value(), left.funded);
    }

    #[test]
    fn an_unanswered_transaction_whose_outputs_were_spent_was_accepted() {
        let workload = workload(
            Spec {
                depth: "2".parse().unwrap(),
                ..Spec::default()
            },
            2,
        );
        let left = settled(&workload, &[Some(TxFate::Error), Some(TxFate::Committed)]);
        assert_eq!(left.broken, Vec::<String>::new());
        assert_eq!(left.fees, 2 * workload.spec().fee());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever a node that takes one transaction of each coin does, no satoshi is lost.
        #[test]
        fn value_is_conserved_whatever_a_node_refuses(
            choices in proptest::collection::vec(0_u8..4, 24),
            seed in 0_u64..50,
            fan in proptest::bool::ANY,
        ) {
            let shape = if fan { Shape::Fan(3) } else { Shape::TwoInTwoOut };
            let spec = Spec { seed, shape, depth: "4".parse().unwrap(), conflicts: 0.2, orphans: 0.1, ..Spec::default() };
            let workload = workload(spec, 24);
            let mut coins: std::collections::HashSet<OutPoint> =
                workload.wallet().unwrap().spendable().map(|coin| coin.outpoint).collect();
            let mut fates = Vec::new();
            for (index, choice) in (0..).zip(choices) {
                let inner = &workload.inner;
                let spends = inner.spends(index);
                let can = spends.iter().all(|spend| coins.contains(&spend.outpoint));
                let fate = match choice {
                    0 | 1 if can => {
                        for spend in &spends {
                            coins.remove(&spend.outpoint);
                        }
                        let made = inner.all_outputs(index, inner.id(index));
                        coins.extend(made.iter().map(|coin| coin.outpoint));
                        Some(if choice == 0 { TxFate::Committed } else { TxFate::Pending })
                    }
                    3 => None,
                    _ => Some(TxFate::Rejected),
                };
                fates.push(fate);
            }
            let left = settled(&workload, &fates);
            prop_assert_eq!(left.broken, Vec::<String>::new());
            prop_assert_eq!(left.wallet.value() + left.fees, left.funded);
            let kept = left.wallet.coins.iter().map(|coin| coin.spend.outpoint);
            prop_assert_eq!(kept.collect::<std::collections::HashSet<_>>(), coins);
        }
    }
}
