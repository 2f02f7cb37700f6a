//! Builders of transactions: inputs and outputs are added, then each input is signed.

use super::{Details, Id, Input, Link, Operation, Output, Proof, Transaction};
use crate::error::Error;
use crate::json::{Object, Value};
use crate::keys::{KeyPair, PublicKey};

/// A CREATE in the making.
///
/// ```
/// use bigchain::{Create, KeyPair, Output, json::Object};
///
/// let (alice, bob) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
/// let bicycle = Create::new()
///     .asset(Object::new().with("frame", "steel"))
///     .metadata(Object::new().with("planet", "earth"))
///     .signer(alice.public())
///     .output(Output::to(&[alice.public(), bob.public()], 3)?)
///     .sign(&[&alice])?;
/// assert_eq!(bicycle.outputs()[0].amount, 3);
/// # Ok::<(), bigchain::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Create {
    asset: Option<Object>,
    metadata: Option<Object>,
    signers: Vec<PublicKey>,
    outputs: Vec<Output>,
}

impl Create {
    /// A CREATE of an asset without data, without signers and outputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the data of the asset.
    #[must_use]
    pub fn asset(mut self, data: Object) -> Self {
        self.asset = Some(data);
        self
    }

    /// Sets the metadata. The schema wants at least one member.
    #[must_use]
    pub fn metadata(mut self, metadata: Object) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Adds an owner before, who must sign.
    #[must_use]
    pub fn signer(mut self, key: PublicKey) -> Self {
        self.signers.push(key);
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.outputs.push(output);
        self
    }

    /// Signs with the key pairs of all signers.
    ///
    /// # Errors
    /// [`Error::MissingKey`] when one is missing, [`Error::Output`] without signers or with more
    /// than 100.
    pub fn sign(self, pairs: &[&KeyPair]) -> Result<Transaction, Error> {
        let details = Details::all_of(&self.signers)
            .ok_or(Error::Output("a create needs 1 to 100 signers"))?;
        let draft = Draft {
            operation: Operation::Create,
            asset: Object::new().with("data", self.asset),
            metadata: self.metadata,
            inputs: vec![DraftInput {
                fulfills: None,
                owners_before: self.signers.iter().map(PublicKey::to_string).collect(),
                details,
            }],
            outputs: self.outputs,
        };
        draft.sign(pairs)
    }
}

/// A TRANSFER in the making.
///
/// ```
/// use bigchain::{Create, KeyPair, Output, Transfer};
///
/// let (alice, bob) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
/// let coins = Create::new()
///     .signer(alice.public())
///     .output(Output::to(&[alice.public()], 5)?)
///     .sign(&[&alice])?;
/// let split = Transfer::of(&coins)
///     .spend(&coins, 0)
///     .output(Output::to(&[alice.public()], 2)?)
///     .output(Output::to(&[bob.public()], 3)?)
///     .sign(&[&alice])?;
/// assert_eq!(split.asset_id(), coins.id().to_string());
/// # Ok::<(), bigchain::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transfer {
    draft: Draft,
    missing: Option<Error>,
}

impl Transfer {
    /// A TRANSFER of the asset that a transaction made or transferred.
    pub fn of(transaction: &Transaction) -> Self {
        let draft = Draft {
            operation: Operation::Transfer,
            asset: Object::new().with("id", transaction.asset_id()),
            metadata: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Self {
            draft,
            missing: None,
        }
    }

    /// Sets the metadata. The schema wants at least one member.
    #[must_use]
    pub fn metadata(mut self, metadata: Object) -> Self {
        self.draft.metadata = Some(metadata);
        self
    }

    /// Adds an input that spends an output; one that does not exist is an error of
    /// [`Self::sign`].
    #[must_use]
    pub fn spend(mut self, transaction: &Transaction, output_index: usize) -> Self {
        match transaction.outputs.get(output_index) {
            Some(output) => self.draft.inputs.push(DraftInput {
                fulfills: Some(Link {
                    transaction_id: transaction.id.to_string(),
                    output_index: output_index as u64,
                }),
                owners_before: output.public_keys.clone().unwrap_or_default(),
                details: output.details.clone(),
            }),
            None => self.missing = Some(Error::Output("there is no such output to spend")),
        }
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.draft.outputs.push(output);
        self
    }

    /// Signs with the key pairs at hand; where a threshold wants fewer than all owners, those
    /// that make the shortest text sign.
    ///
    /// # Errors
    /// [`Error::MissingKey`] when an input cannot be fulfilled, [`Error::Output`] when an input
    /// spends an output that does not exist.
    pub fn sign(self, pairs: &[&KeyPair]) -> Result<Transaction, Error> {
        match self.missing {
            Some(error) => Err(error),
            None => self.draft.sign(pairs),
        }
    }
}

#[derive(Clone, Debug)]
struct DraftInput {
    fulfills: Option<Link>,
    owners_before: Vec<String>,
    details: Details,
}

#[derive(Clone, Debug)]
struct Draft {
    operation: Operation,
    asset: Object,
    metadata: Option<Object>,
    inputs: Vec<DraftInput>,
    outputs: Vec<Output>,
}

impl Draft {
    fn sign(self, pairs: &[&KeyPair]) -> Result<Transaction, Error> {
        let mut body = self.unsigned_body();
        let links = self.inputs.iter().map(|input| input.fulfills.as_ref());
        let digests: Vec<[u8; 32]> = super::digests(&body, links).collect();
        let mut inputs = Vec::with_capacity(self.inputs.len());
        let drafts = self.inputs.into_iter().zip(digests).enumerate();
        for (index, (input, digest)) in drafts {
            let fulfillment = input
                .details
                .fulfil(&digest, pairs)
                .ok_or(Error::MissingKey { input: index })?;
            set_fulfillment(&mut body, index, fulfillment.to_uri());
            inputs.push(Input {
                fulfills: input.fulfills,
                owners_before: input.owners_before,
                proof: Proof::Signed(fulfillment),
            });
        }
        let id = super::id_of(&body);
        body.insert("id", id.to_string());
        Ok(Transaction {
            id,
            operation: self.operation,
            inputs,
            outputs: self.outputs,
            body,
        })
    }

    /// The body with id and fulfillments null, members sorted.
    fn unsigned_body(&self) -> Object {
        let inputs = self.inputs.iter().map(DraftInput::to_value).collect();
        let outputs = self.outputs.iter().map(Output::to_value).collect();
        Object::new()
            .with("asset", self.asset.clone())
            .with("id", Value::Null)
            .with("inputs", Value::Array(inputs))
            .with("metadata", self.metadata.clone())
            .with("operation", self.operation.name())
            .with("outputs", Value::Array(outputs))
            .with("version", "2.0")
    }
}

fn set_fulfillment(body: &mut Object, index: usize, text: String) {
    if let Some(Value::Array(inputs)) = body.get_mut("inputs")
        && let Some(Value::Object(input)) = inputs.get_mut(index)
    {
        input.insert("fulfillment", text);
    }
}

impl DraftInput {
    fn to_value(&self) -> Value {
        let fulfills = self.fulfills.as_ref().map(|link| {
            let index = i64::try_from(link.output_index).unwrap_or(i64::MAX);
            Object::new()
                .with("output_index", index)
                .with("transaction_id", link.transaction_id.as_str())
        });
        let owners = self.owners_before.iter();
        Object::new()
            .with("fulfillment", Value::Null)
            .with("fulfills", fulfills)
            .with(
                "owners_before",
                Value::Array(owners.map(|owner| owner.as_str().into()).collect()),
            )
            .into()
    }
}

impl From<Id> for Value {
    fn from(id: Id) -> Self {
        Self::String(id.to_string())
    }
}
