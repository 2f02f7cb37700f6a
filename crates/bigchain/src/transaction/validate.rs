//! The checks that need a ledger, and the signatures.

use super::{Ledger, Operation, Proof, Transaction, hash};
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
        self.effect().check(ledger)
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

fn bad_signature() -> Refusal {
    Refusal::new(Class::InvalidSignature, "Transaction signature is invalid.")
}

/// The signatures of many transactions, checked together.
///
/// The caution at [`Batch`] about crafted signatures applies here too.
#[derive(Clone, Debug, Default)]
pub struct SignatureBatch {
    batch: Batch,
    transactions: Vec<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// Where its signatures end in the batch.
    end: usize,
    /// Whether each input has a fulfillment of its condition.
    good: bool,
}

impl SignatureBatch {
    /// A batch without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction and the conditions from [`Transaction::check_spending`].
    pub fn push(&mut self, transaction: &Transaction, conditions: &[Condition]) {
        let digests = transaction.digests();
        let mut good = true;
        for (proof, digest) in transaction.proofs(conditions).zip(digests) {
            match proof {
                Some(proof) => proof.verify_later(&digest, &mut self.batch),
                None => good = false,
            }
        }
        let end = self.batch.len();
        self.transactions.push(Pending { end, good });
    }

    /// The verdict on every transaction, in the order they were added.
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
