//! What is committed as far as validation asks ([`Ledger`]), what a transaction does to it, and whether it may.

use std::collections::{HashMap, HashSet};

use super::{Id, Link, Operation, Transaction};
use crate::condition::Condition;
use crate::error::{Class, Refusal};
use crate::keys::PublicKey;

/// What a transaction does to a ledger, without its body: all that a node must keep of a checked
/// transaction until its block is made, and a fraction of its size.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Effect {
    id: Id,
    operation: Operation,
    asset: Option<Id>,
    spends: Vec<Option<Link>>,
    makes: Vec<Made>,
}

/// An output as a ledger keeps it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Made {
    /// How many shares of the asset.
    pub amount: u64,
    /// The condition to be fulfilled to spend it.
    pub condition: Condition,
    /// The keys under which the original finds it: those anywhere in the condition, each once, that
    /// the `public_keys` of any output of the transaction name too.
    pub keys: Vec<PublicKey>,
}

impl Effect {
    /// The id of the transaction.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// What the transaction does.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The asset: on CREATE the transaction itself, on TRANSFER the one it names; nothing if what
    /// it names is no id, and such a transaction passes no [`Self::check`].
    pub const fn asset(&self) -> Option<Id> {
        self.asset
    }

    /// The outputs it spends, in the order of its inputs. Of a transaction that has passed
    /// [`Self::check`] none is left out.
    pub fn spends(&self) -> impl Iterator<Item = (Id, u64)> {
        let links = self.spends.iter().flatten();
        links.filter_map(|link| Some((link.transaction_id.parse().ok()?, link.output_index)))
    }

    /// The outputs it makes, in their order.
    pub fn makes(&self) -> &[Made] {
        &self.makes
    }

    /// Checks existence, double spends, asset and sums, in the original's order. Gives the
    /// conditions that the inputs must fulfill, in their order; none on CREATE.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(&self, ledger: &impl Ledger) -> Result<Vec<Condition>, Refusal> {
        if self.operation == Operation::Create {
            if ledger.contains(&self.id) {
                return Err(Refusal::new(
                    Class::DuplicateTransaction,
                    format!("transaction `{}` already exists", self.id),
                ));
            }
            return Ok(Vec::new());
        }
        let coins = self
            .spends
            .iter()
            .map(|link| coin_of(link.as_ref(), ledger))
            .collect::<Result<Vec<Coin>, _>>()?;
        self.check_distinct()?;
        self.check_asset(&coins)?;
        self.check_sums(&coins)?;
        Ok(coins.iter().map(|coin| coin.condition).collect())
    }

    fn check_distinct(&self) -> Result<(), Refusal> {
        let mut seen = HashSet::with_capacity(self.spends.len());
        if self.spends.iter().all(|link| seen.insert(link)) {
            return Ok(());
        }
        Err(Refusal::new(
            Class::DoubleSpend,
            format!("tx \"{}\" spends inputs twice", self.id),
        ))
    }

    fn check_asset(&self, coins: &[Coin]) -> Result<(), Refusal> {
        let refused = |text| Err(Refusal::new(Class::AssetIdMismatch, text));
        let asset = coins.first().map(|coin| coin.asset);
        if coins.iter().any(|coin| Some(coin.asset) != asset) {
            return refused("All inputs of all transactions passed need to have the same asset id");
        }
        if asset.is_none() || asset != self.asset {
            return refused(
                "The asset id of the input does not match the asset id of the transaction",
            );
        }
        Ok(())
    }

    fn check_sums(&self, coins: &[Coin]) -> Result<(), Refusal> {
        let taken: u128 = coins.iter().map(|coin| u128::from(coin.amount)).sum();
        let given: u128 = self.makes.iter().map(|made| u128::from(made.amount)).sum();
        if taken == given {
            return Ok(());
        }
        Err(Refusal::new(
            Class::AmountError,
            format!(
                "The amount used in the inputs `{taken}` needs to be same as the amount used in \
                 the outputs `{given}`"
            ),
        ))
    }
}

impl Transaction {
    /// What it does to a ledger.
    pub fn effect(&self) -> Effect {
        let (asset, spends) = match self.operation {
            Operation::Create => (Some(self.id), Vec::new()),
            Operation::Transfer => {
                let links = self.inputs.iter().map(|input| input.fulfills.clone());
                (self.transfer_asset().parse().ok(), links.collect())
            }
        };
        let named: HashSet<PublicKey> = self
            .outputs
            .iter()
            .flat_map(|output| output.public_keys.iter().flatten())
            .filter_map(|key| key.parse().ok())
            .collect();
        let makes = self.outputs.iter().map(|output| {
            let mut keys = output.details.keys();
            keys.retain(|key| named.contains(key));
            // Ledgers keep millions of these.
            keys.shrink_to_fit();
            Made {
                amount: output.amount,
                condition: output.condition(),
                keys,
            }
        });
        Effect {
            id: self.id,
            operation: self.operation,
            asset,
            spends,
            makes: makes.collect(),
        }
    }
}

fn coin_of(link: Option<&Link>, ledger: &impl Ledger) -> Result<Coin, Refusal> {
    let (id, index) = match link {
        Some(link) => (link.transaction_id.as_str(), link.output_index),
        None => ("", 0),
    };
    let found = id
        .parse()
        .map_or(Found::NoTransaction, |id| ledger.find(&id, index));
    match found {
        Found::Unspent(coin) => Ok(coin),
        Found::NoTransaction => Err(Refusal::new(
            Class::InputDoesNotExist,
            format!("input `{id}` doesn't exist"),
        )),
        Found::Spent => Err(Refusal::new(
            Class::DoubleSpend,
            format!("input `{id}` was already spent"),
        )),
        Found::NoOutput => Err(Refusal::new(
            Class::InputDoesNotExist,
            format!("output {index} of input `{id}` doesn't exist"),
        )),
    }
}

/// Committed transactions, and those that come earlier in the block.
pub trait Ledger {
    /// Whether a transaction is there.
    fn contains(&self, id: &Id) -> bool;

    /// What there is at an output.
    fn find(&self, id: &Id, output_index: u64) -> Found;
}

/// What a ledger finds at an output. The order of the variants is the order of the checks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No such transaction.
    NoTransaction,
    /// The output is spent.
    Spent,
    /// The transaction has no such output.
    NoOutput,
    /// It can be spent.
    Unspent(Coin),
}

/// An output that can be spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Coin {
    /// The asset it is a share of.
    pub asset: Id,
    /// How many shares.
    pub amount: u64,
    /// The condition to be fulfilled.
    pub condition: Condition,
}

/// A ledger in memory, of a million transactions at most, about 200 bytes each.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedger {
    /// The outputs of each transaction; nothing in place of one that is spent.
    transactions: HashMap<Id, Vec<Option<Coin>>>,
}

const MOST_TRANSACTIONS: usize = 1_000_000;

impl MemoryLedger {
    /// Adds a transaction and marks what it spends. `false` when it was refused: the ledger is
    /// full, has it already, or it names an asset by something that is no id.
    pub fn apply(&mut self, transaction: &Transaction) -> bool {
        let effect = transaction.effect();
        let room = self.transactions.len() < MOST_TRANSACTIONS;
        let Some(asset) = effect
            .asset()
            .filter(|_| room && !self.contains(&transaction.id))
        else {
            return false;
        };
        for (id, index) in effect.spends() {
            let outputs = self.transactions.get_mut(&id);
            if let Some(output) = outputs.and_then(|outputs| outputs.get_mut(position(index))) {
                *output = None;
            }
        }
        let outputs = effect.makes().iter().map(|made| {
            Some(Coin {
                asset,
                amount: made.amount,
                condition: made.condition,
            })
        });
        self.transactions.insert(transaction.id, outputs.collect());
        true
    }
}

impl Ledger for MemoryLedger {
    fn contains(&self, id: &Id) -> bool {
        self.transactions.contains_key(id)
    }

    fn find(&self, id: &Id, output_index: u64) -> Found {
        let Some(outputs) = self.transactions.get(id) else {
            return Found::NoTransaction;
        };
        match outputs.get(position(output_index)) {
            None => Found::NoOutput,
            Some(None) => Found::Spent,
            Some(Some(coin)) => Found::Unspent(*coin),
        }
    }
}

/// An index of a list; one beyond every list where the number does not fit.
fn position(output_index: u64) -> usize {
    usize::try_from(output_index).unwrap_or(usize::MAX)
}
