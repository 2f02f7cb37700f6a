//! Many transactions that differ in little, written without building a body for each.

use std::fmt::Write;

use sha3::{Digest, Sha3_256};

use super::{Create, Details, Id, Link, Output, Transaction, Transfer};
use crate::error::Error;
use crate::json::{Object, Style, Value, canonical, default_text, write_object, written};
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
    head: Head,
    template: Template,
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
pub struct TransferTemplate(Template);

/// What all transactions of a template share behind their fulfillment.
#[derive(Clone, Debug)]
struct Template {
    signers: Signers,
    canonical: Frame,
    default: Frame,
}

/// The signers and the recipients.
#[derive(Clone, Debug)]
struct Signers {
    pairs: Vec<KeyPair>,
    details: Details,
}

/// The beginning of both texts.
#[derive(Clone, Debug)]
struct Head {
    /// The canonical text up to the fulfillment, already hashed.
    canonical: Sha3_256,
    /// The default text up to the id.
    default: String,
}

/// The unchanging parts of a text: between the spent output and the metadata, and from there to the
/// end.
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

    fn pairs(&self) -> Vec<&KeyPair> {
        self.pairs.iter().collect()
    }

    /// A CREATE with one output of amount 1 to the signers.
    fn create(&self, asset: Option<Object>) -> Result<Transaction, Error> {
        let keys: Vec<PublicKey> = self.pairs.iter().map(KeyPair::public).collect();
        let create = Create::new().output(Output::to(&keys, 1)?);
        let create = keys.into_iter().fold(create, Create::signer);
        match asset {
            Some(data) => create.asset(data),
            None => create,
        }
        .sign(&self.pairs())
    }

    /// The fulfillment of a digest.
    fn sign(&self, digest: &[u8; 32]) -> String {
        self.details
            .fulfil(digest, &self.pairs())
            .expect("the details were made of these pairs")
            .to_uri()
    }
}

impl Head {
    /// The head of transactions with this asset, given in both styles.
    fn new(canonical_asset: &str, default_asset: &str) -> Self {
        let canonical =
            format!("{{\"asset\":{canonical_asset},\"id\":null,\"inputs\":[{{\"fulfillment\":");
        Self {
            canonical: Sha3_256::new_with_prefix(canonical),
            default: format!("{{\"asset\": {default_asset}, \"id\": \""),
        }
    }
}

impl Frame {
    /// The frame of bodies like this one.
    fn new(body: &Object, style: Style) -> Self {
        let field = |name| body.get(name).unwrap_or(&Value::Null);
        let inputs = field("inputs").as_array().unwrap_or_default();
        let owners = inputs.first().and_then(|input| input.get("owners_before"));
        let owners = written(owners.unwrap_or(&Value::Null), style);
        let outputs = written(field("outputs"), style);
        let operation = field("operation").as_str().unwrap_or_default();
        let (comma, colon) = (style.comma(), style.colon());
        Self {
            owners: format!("{comma}\"owners_before\"{colon}{owners}}}]{comma}\"metadata\"{colon}"),
            tail: format!(
                "{comma}\"operation\"{colon}\"{operation}\"{comma}\"outputs\"{colon}{outputs}\
                 {comma}\"version\"{colon}\"2.0\"}}"
            ),
        }
    }

    /// Writes what follows the fulfillment.
    fn write(&self, spent: Option<&Link>, metadata: &Object, style: Style, out: &mut String) {
        let (comma, colon) = (style.comma(), style.colon());
        match spent {
            None => write!(out, "{comma}\"fulfills\"{colon}null"),
            Some(link) => write!(
                out,
                "{comma}\"fulfills\"{colon}{{\"output_index\"{colon}{}{comma}\"transaction_id\"\
                 {colon}\"{}\"}}",
                link.output_index, link.transaction_id
            ),
        }
        .expect(ANY_TEXT);
        out.push_str(&self.owners);
        write_object(metadata, style, out);
        out.push_str(&self.tail);
    }
}

impl Template {
    fn new(signers: Signers, sample: &Transaction) -> Self {
        Self {
            signers,
            canonical: Frame::new(sample.body(), Style::Canonical),
            default: Frame::new(sample.body(), Style::Python),
        }
    }

    fn sign(&self, head: &Head, spent: Option<&Link>, metadata: &Object, text: &mut String) -> Id {
        let mut rest = String::with_capacity(1024);
        self.canonical
            .write(spent, metadata, Style::Canonical, &mut rest);
        let unsigned = head.canonical.clone().chain_update("null");
        let digest = super::digest(unsigned.chain_update(&rest), spent);
        let fulfillment = self.signers.sign(&digest);
        let hasher = head.canonical.clone().chain_update("\"");
        let hasher = hasher.chain_update(&fulfillment).chain_update("\"");
        let id = Id(hasher.chain_update(&rest).finalize().into());
        text.push_str(&head.default);
        let inputs = "\", \"inputs\": [{\"fulfillment\": \"";
        write!(text, "{id}{inputs}{fulfillment}\"").expect(ANY_TEXT);
        self.default.write(spent, metadata, Style::Python, text);
        id
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
        let sample = signers.create(asset)?;
        let asset = sample.body().get("asset").unwrap_or(&Value::Null);
        Ok(Self {
            head: Head::new(&canonical(asset), &default_text(asset)),
            template: Template::new(signers, &sample),
        })
    }

    /// Signs a CREATE with this metadata and appends its default text; gives its id.
    ///
    /// The metadata is not checked: it needs at least one member, and keys that the original
    /// admits.
    pub fn sign(&self, metadata: &Object, text: &mut String) -> Id {
        self.template.sign(&self.head, None, metadata, text)
    }
}

impl TransferTemplate {
    /// A template for owners who all sign, and recipients who own the output together.
    ///
    /// # Errors
    /// [`Error::Output`] when there are none, or more than 100, of either.
    pub fn new(owners: Vec<KeyPair>, recipients: &[PublicKey]) -> Result<Self, Error> {
        let signers = Signers::new(owners)?;
        let spent = signers.create(None)?;
        let sample = Transfer::of(&spent)
            .spend(&spent, 0)
            .output(Output::to(recipients, 1)?)
            .sign(&signers.pairs())?;
        Ok(Self(Template::new(signers, &sample)))
    }

    /// Signs a TRANSFER of this asset that spends this output, with this metadata, and appends its
    /// default text; gives its id.
    ///
    /// Neither is checked: the output is one with amount 1 to the template's owners, and the
    /// metadata as in [`CreateTemplate::sign`].
    pub fn sign(&self, asset: Id, spent: &Link, metadata: &Object, text: &mut String) -> Id {
        let head = Head::new(
            &format!("{{\"id\":\"{asset}\"}}"),
            &format!("{{\"id\": \"{asset}\"}}"),
        );
        self.0.sign(&head, Some(spent), metadata, text)
    }
}

const ANY_TEXT: &str = "a string takes any text";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLedger;

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
            let read = |text: &str| Transaction::from_text(text.as_bytes()).unwrap();
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
