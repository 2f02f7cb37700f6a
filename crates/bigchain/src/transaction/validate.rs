//! The checks that need a ledger, and the signatures.

use std::collections::HashSet;

use super::{Coin, Found, Input, Ledger, Operation, Proof, Transaction, hash};
use crate::condition::{Batch, Condition, Fulfillment};
use crate::error::{Class, Refusal};

impl Transaction {
    /// Checks everything that is left after reading: existence, double spends, asset, sums and
    /// signatures, in the original's order.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn validate(&self, ledger: &impl Ledger) -> Result<(), Refusal> {
        let conditions = self.check_spending(ledger)?;
        self.check_signatures(&conditions)
    }

    /// All of [`Self::validate`] but the signatures. Gives the conditions that the inputs must
    /// fulfill, in their order; none on CREATE.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check_spending(&self, ledger: &impl Ledger) -> Result<Vec<Condition>, Refusal> {
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
            .inputs
            .iter()
            .map(|input| coin_of(input, ledger))
            .collect::<Result<Vec<Coin>, _>>()?;
        self.check_distinct()?;
        self.check_asset(&coins)?;
        self.check_sums(&coins)?;
        Ok(coins.iter().map(|coin| coin.condition).collect())
    }

    fn check_distinct(&self) -> Result<(), Refusal> {
        let mut seen = HashSet::with_capacity(self.inputs.len());
        if self.inputs.iter().all(|input| seen.insert(&input.fulfills)) {
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
        if asset.is_none_or(|asset| asset.to_string() != self.transfer_asset()) {
            return refused(
                "The asset id of the input does not match the asset id of the transaction",
            );
        }
        Ok(())
    }

    fn check_sums(&self, coins: &[Coin]) -> Result<(), Refusal> {
        let taken: u128 = coins.iter().map(|coin| u128::from(coin.amount)).sum();
        let outputs = self.outputs.iter();
        let given: u128 = outputs.map(|output| u128::from(output.amount)).sum();
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

    /// Checks the signatures of all inputs, and on TRANSFER that they are those of the conditions
    /// given.
    ///
    /// # Errors
    /// [`Class::InvalidSignature`].
    pub fn check_signatures(&self, conditions: &[Condition]) -> Result<(), Refusal> {
        let digests = self.digests();
        let good = self
            .proofs(conditions)
            .zip(digests)
            .all(|(proof, digest)| proof.is_some_and(|proof| proof.verify(&digest)));
        if good { Ok(()) } else { Err(bad_signature()) }
    }

    /// The 32 bytes that each input signs.
    #[must_use]
    pub fn digests(&self) -> Vec<[u8; 32]> {
        let links = self.inputs.iter().map(|input| input.fulfills.as_ref());
        hash::digests(&self.body, links).collect()
    }

    /// The fulfillment of each input, if it is one of the condition wanted.
    fn proofs(&self, conditions: &[Condition]) -> impl Iterator<Item = Option<&Fulfillment>> {
        self.inputs.iter().enumerate().map(move |(index, input)| {
            let Proof::Signed(fulfillment) = &input.proof else {
                return None;
            };
            let wanted = self.operation == Operation::Create
                || conditions.get(index) == Some(&fulfillment.condition());
            wanted.then_some(fulfillment)
        })
    }
}

fn coin_of(input: &Input, ledger: &impl Ledger) -> Result<Coin, Refusal> {
    let (id, index) = match &input.fulfills {
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

fn bad_signature() -> Refusal {
    Refusal::new(Class::InvalidSignature, "Transaction signature is invalid.")
}

/// The signatures of many transactions, checked together.
///
/// What [`Batch`] says of crafted signatures holds here too.
#[derive(Clone, Debug, Default)]
pub struct SignatureBatch {
    batch: Batch,
    transactions: Vec<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// Where its signatures end in the batch.
    end: usize,
    /// Whether all that is no Ed25519 signature holds.
    good: bool,
}

impl SignatureBatch {
    /// A batch without transactions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction and the conditions from [`Transaction::check_spending`].
    pub fn push(&mut self, transaction: &Transaction, conditions: &[Condition]) {
        let digests = transaction.digests();
        let good = transaction
            .proofs(conditions)
            .zip(digests)
            .all(|(proof, digest)| {
                proof.is_some_and(|proof| proof.verify_later(&digest, &mut self.batch))
            });
        let end = self.batch.len();
        self.transactions.push(Pending { end, good });
    }

    /// The verdict on every transaction, in the order they were added.
    #[must_use]
    pub fn verify(&self) -> Vec<Result<(), Refusal>> {
        let signatures = self.batch.verify();
        let mut start = 0;
        self.transactions
            .iter()
            .map(|pending| {
                let own = &signatures[start..pending.end];
                start = pending.end;
                if pending.good && own.iter().all(|&good| good) {
                    Ok(())
                } else {
                    Err(bad_signature())
                }
            })
            .collect()
    }
}
