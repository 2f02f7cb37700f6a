//! Many transactions that differ in little, written without building a body for each.

use std::fmt::Write;

use sha3::{Digest, Sha3_256};

use super::{Create, Details, Id, Link, Output, Transfer};
use crate::error::Error;
use crate::json::{Object, Style, Value, canonical, default_text, write_object};
use crate::keys::{KeyPair, PublicKey};

/// CREATEs by the same signers with one output of amount 1 to them, as the original's benchmark
/// sends them. They differ in their metadata only.
///
/// ```
/// use bigchain::{CreateTemplate, KeyPair, json::Object};
///
/// let template = CreateTemplate::new(KeyPair::from_seed([1; 32]), None)?;
/// let metadata = Object::new().with("_", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6");
/// let mut text = String::new();
/// let id = template.sign(&metadata, &mut text);
/// assert_eq!(text.len(), 765);
/// assert!(text.contains(&id.to_string()));
/// # Ok::<(), bigchain::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CreateTemplate {
    signers: Signers,
    /// Canonical text before the fulfillment, already hashed.
    head: Sha3_256,
    canonical: Frame,
    /// The default text up to the id.
    start: String,
    default: Frame,
}

/// TRANSFERs of an output with amount 1 from the same owners to the same recipients. They differ in
/// the asset, in the output they spend, and in their metadata.
///
/// ```
/// use bigchain::{CreateTemplate, KeyPair, Link, TransferTemplate, json::Object};
///
/// let (alice, bob) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
/// let mut text = String::new();
/// let asset = CreateTemplate::new(alice.clone(), None)?
///     .sign(&Object::new().with("n", 1_i64), &mut text);
/// let give = TransferTemplate::new(vec![alice], &[bob.public()])?;
/// let spent = Link { transaction_id: asset.to_string(), output_index: 0 };
/// text.clear();
/// let id = give.sign(asset, &spent, &Object::new().with("n", 2_i64), &mut text);
/// assert!(text.contains(&id.to_string()) && text.contains(&asset.to_string()));
/// # Ok::<(), bigchain::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransferTemplate {
    signers: Signers,
    canonical: Frame,
    default: Frame,
}

/// Who signs, and for whom.
#[derive(Clone, Debug)]
struct Signers {
    pairs: Vec<KeyPair>,
    details: Details,
}

/// What stands around the changing parts of a text: between what is fulfilled and the metadata, and
/// from there to the end.
#[derive(Clone, Debug)]
struct Frame {
    owners: String,
    tail: String,
}

impl Signers {
    fn new(pairs: Vec<KeyPair>) -> Result<Self, Error> {
        let keys: Vec<PublicKey> = pairs.iter().map(KeyPair::public).collect();
        let details = Details::all_of(&keys).ok_or(Error::Output("it needs 1 to 100 owners"))?;
        Ok(Self { pairs, details })
    }

    fn keys(&self) -> Vec<PublicKey> {
        self.pairs.iter().map(KeyPair::public).collect()
    }

    fn pairs(&self) -> Vec<&KeyPair> {
        self.pairs.iter().collect()
    }

    /// The fulfillment of a digest.
    fn sign(&self, digest: &[u8; 32]) -> String {
        self.details
            .fulfil(digest, &self.pairs())
            .expect("the details were made of these pairs")
            .to_uri()
    }
}

impl Frame {
    /// The frames of the canonical and the default text of a body like this one.
    fn both(body: &Object) -> [Self; 2] {
        let field = |name| body.get(name).unwrap_or(&Value::Null);
        let inputs = field("inputs").as_array().unwrap_or_default();
        let owners = inputs.first().and_then(|input| input.get("owners_before"));
        let (owners, outputs) = (owners.unwrap_or(&Value::Null), field("outputs"));
        let operation = field("operation").as_str().unwrap_or_default();
        [
            Self {
                owners: format!(",\"owners_before\":{}}}],\"metadata\":", canonical(owners)),
                tail: format!(
                    ",\"operation\":\"{operation}\",\"outputs\":{},\"version\":\"2.0\"}}",
                    canonical(outputs)
                ),
            },
            Self {
                owners: format!(
                    ", \"owners_before\": {}}}], \"metadata\": ",
                    default_text(owners)
                ),
                tail: format!(
                    ", \"operation\": \"{operation}\", \"outputs\": {}, \"version\": \"2.0\"}}",
                    default_text(outputs)
                ),
            },
        ]
    }
}

impl CreateTemplate {
    /// A template for a signer and the data of an asset.
    ///
    /// # Errors
    /// [`Error::Output`], which one owner and an amount of 1 do not cause.
    pub fn new(pair: KeyPair, asset: Option<Object>) -> Result<Self, Error> {
        Self::with_signers(vec![pair], asset)
    }

    /// A template for signers who all sign, and own the output together.
    ///
    /// # Errors
    /// [`Error::Output`] without signers or with more than 100.
    pub fn with_signers(pairs: Vec<KeyPair>, asset: Option<Object>) -> Result<Self, Error> {
        let signers = Signers::new(pairs)?;
        let keys = signers.keys();
        let plain = Create::new().output(Output::to(&keys, 1)?);
        let plain = keys.iter().fold(plain, |create, key| create.signer(*key));
        let create = match asset {
            Some(data) => plain.asset(data),
            None => plain,
        };
        let sample = create.sign(&signers.pairs())?;
        let asset = sample.body().get("asset").unwrap_or(&Value::Null);
        let head = format!(
            "{{\"asset\":{},\"id\":null,\"inputs\":[{{\"fulfillment\":",
            canonical(asset)
        );
        let [canonical, default] = Frame::both(sample.body());
        Ok(Self {
            head: Sha3_256::new_with_prefix(head),
            start: format!("{{\"asset\": {}, \"id\": \"", default_text(asset)),
            canonical,
            default,
            signers,
        })
    }

    /// Signs a CREATE with this metadata and appends its default text; gives its id.
    ///
    /// The metadata is not checked: it needs at least one member, and keys that the original
    /// admits.
    pub fn sign(&self, metadata: &Object, text: &mut String) -> Id {
        let mut rest = String::with_capacity(1024);
        rest.push_str(",\"fulfills\":null");
        rest.push_str(&self.canonical.owners);
        write_object(metadata, Style::Canonical, &mut rest);
        rest.push_str(&self.canonical.tail);
        let digest = finish(self.head.clone().chain_update("null").chain_update(&rest));
        let fulfillment = self.signers.sign(&digest);
        let hasher = self.head.clone().chain_update("\"");
        let hasher = hasher.chain_update(&fulfillment).chain_update("\"");
        let id = Id(finish(hasher.chain_update(&rest)));
        text.push_str(&self.start);
        let inputs = "\", \"inputs\": [{\"fulfillment\": \"";
        write!(text, "{id}{inputs}{fulfillment}\", \"fulfills\": null").expect(ANY_TEXT);
        text.push_str(&self.default.owners);
        write_object(metadata, Style::Default, text);
        text.push_str(&self.default.tail);
        id
    }
}

impl TransferTemplate {
    /// A template for owners who all sign, and recipients who own the output together.
    ///
    /// # Errors
    /// [`Error::Output`] when there are none, or more than 100, of either.
    pub fn new(owners: Vec<KeyPair>, recipients: &[PublicKey]) -> Result<Self, Error> {
        let signers = Signers::new(owners)?;
        let keys = signers.keys();
        let create = Create::new().output(Output::to(&keys, 1)?);
        let create = keys.iter().fold(create, |create, key| create.signer(*key));
        let spent = create.sign(&signers.pairs())?;
        let sample = Transfer::of(&spent)
            .spend(&spent, 0)
            .output(Output::to(recipients, 1)?)
            .sign(&signers.pairs())?;
        let [canonical, default] = Frame::both(sample.body());
        Ok(Self {
            signers,
            canonical,
            default,
        })
    }

    /// Signs a TRANSFER of this asset that spends this output, with this metadata, and appends its
    /// default text; gives its id.
    ///
    /// Neither is checked: the output is one with amount 1 to the template's owners, and the
    /// metadata as in [`CreateTemplate::sign`].
    pub fn sign(&self, asset: Id, spent: &Link, metadata: &Object, text: &mut String) -> Id {
        let Link {
            transaction_id,
            output_index,
        } = spent;
        let head = Sha3_256::new_with_prefix(format!(
            "{{\"asset\":{{\"id\":\"{asset}\"}},\"id\":null,\"inputs\":[{{\"fulfillment\":"
        ));
        let mut rest = String::with_capacity(1024);
        write!(
            rest,
            ",\"fulfills\":{{\"output_index\":{output_index},\"transaction_id\":\"{transaction_id}\"}}"
        )
        .expect(ANY_TEXT);
        rest.push_str(&self.canonical.owners);
        write_object(metadata, Style::Canonical, &mut rest);
        rest.push_str(&self.canonical.tail);
        let unsigned = head.clone().chain_update("null").chain_update(&rest);
        let digest = finish(
            unsigned
                .chain_update(transaction_id)
                .chain_update(output_index.to_string()),
        );
        let fulfillment = self.signers.sign(&digest);
        let hasher = head.chain_update("\"").chain_update(&fulfillment);
        let id = Id(finish(hasher.chain_update("\"").chain_update(&rest)));
        write!(
            text,
            "{{\"asset\": {{\"id\": \"{asset}\"}}, \"id\": \"{id}\", \"inputs\": [{{\"fulfillment\": \
             \"{fulfillment}\", \"fulfills\": {{\"output_index\": {output_index}, \"transaction_id\": \
             \"{transaction_id}\"}}"
        )
        .expect(ANY_TEXT);
        text.push_str(&self.default.owners);
        write_object(metadata, Style::Default, text);
        text.push_str(&self.default.tail);
        id
    }
}

fn finish(hasher: Sha3_256) -> [u8; 32] {
    hasher.finalize().into()
}

const ANY_TEXT: &str = "a string takes any text";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryLedger, Mode, Transaction};

    fn pairs(first: u8, count: u8) -> Vec<KeyPair> {
        (first..first + count)
            .map(|seed| KeyPair::from_seed([seed; 32]))
            .collect()
    }

    fn keys(pairs: &[KeyPair]) -> Vec<PublicKey> {
        pairs.iter().map(KeyPair::public).collect()
    }

    #[test]
    fn templates_write_what_builders_write_and_it_is_valid() {
        let metadata = Object::new().with("b", "\u{e9}\u{1f600}").with("a", 1_i64);
        for count in [1, 2, 5] {
            let (owners, recipients) = (pairs(1, count), pairs(101, count));
            let asset = Object::new().with("_", "x".repeat(usize::from(count)));
            let created = {
                let create = Create::new()
                    .asset(asset.clone())
                    .metadata(metadata.clone())
                    .output(Output::to(&keys(&owners), 1).unwrap());
                let create = keys(&owners)
                    .iter()
                    .fold(create, |create, key| create.signer(*key));
                create.sign(&owners.iter().collect::<Vec<_>>()).unwrap()
            };
            let template = CreateTemplate::with_signers(owners.clone(), Some(asset)).unwrap();
            let mut text = String::new();
            let id = template.sign(&metadata, &mut text);
            let read = |text: &str| Transaction::from_text(text.as_bytes(), Mode::Strict).unwrap();
            assert_eq!((id, read(&text).body()), (created.id(), created.body()));
            let mut ledger = MemoryLedger::default();
            read(&text).validate(&ledger).unwrap();
            assert!(ledger.apply(&read(&text)));

            let given = Transfer::of(&created)
                .metadata(metadata.clone())
                .spend(&created, 0)
                .output(Output::to(&keys(&recipients), 1).unwrap())
                .sign(&owners.iter().collect::<Vec<_>>())
                .unwrap();
            let template = TransferTemplate::new(owners, &keys(&recipients)).unwrap();
            let spent = Link {
                transaction_id: id.to_string(),
                output_index: 0,
            };
            text.clear();
            let id = template.sign(id, &spent, &metadata, &mut text);
            assert_eq!((id, &text), (given.id(), &given.text()));
            read(&text).validate(&ledger).unwrap();
        }
    }

    #[test]
    fn nobody_signs_nothing() {
        assert!(CreateTemplate::with_signers(Vec::new(), None).is_err());
        assert!(TransferTemplate::new(pairs(1, 1), &[]).is_err());
    }
}
