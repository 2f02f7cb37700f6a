//! Many CREATEs that differ in their metadata only, written without building a body for each.

use std::fmt::Write;

use sha3::{Digest, Sha3_256};

use super::{Create, Id, Output};
use crate::condition::{Ed25519, Fulfillment};
use crate::error::Error;
use crate::json::{Object, Style, Value, canonical, write_object};
use crate::keys::KeyPair;

/// CREATEs by one signer with one output of amount 1 to the signer, as the original's benchmark
/// sends them.
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
    pair: KeyPair,
    /// Canonical text before the fulfillment, already hashed.
    head: Sha3_256,
    /// Canonical text between fulfillment and metadata, and after the metadata.
    canonical: [String; 2],
    /// The default text: up to the id, up to the fulfillment, up to the metadata, to the end.
    default: [String; 4],
}

impl CreateTemplate {
    /// A template for a signer and the data of an asset.
    ///
    /// # Errors
    /// [`Error::Output`], which one owner and an amount of 1 do not cause.
    pub fn new(pair: KeyPair, asset: Option<Object>) -> Result<Self, Error> {
        let plain = Create::new()
            .signer(pair.public())
            .output(Output::to(&[pair.public()], 1)?);
        let create = match asset {
            Some(data) => plain.asset(data),
            None => plain,
        };
        let sample = create.sign(&[&pair])?;
        let fields: Vec<&Value> = ["asset", "inputs", "outputs"]
            .into_iter()
            .map(|name| sample.body().get(name).unwrap_or(&Value::Null))
            .collect();
        let owners = canonical(fields[1])
            .split_once("\"owners_before\":")
            .map(|(_, rest)| rest.trim_end_matches("}]").to_owned())
            .unwrap_or_default();
        let head = format!(
            "{{\"asset\":{},\"id\":null,\"inputs\":[{{\"fulfillment\":",
            canonical(fields[0])
        );
        let default_of = |value| crate::json::default_text(value);
        Ok(Self {
            head: Sha3_256::new_with_prefix(head),
            canonical: [
                format!(",\"fulfills\":null,\"owners_before\":{owners}}}],\"metadata\":"),
                format!(
                    ",\"operation\":\"CREATE\",\"outputs\":{},\"version\":\"2.0\"}}",
                    canonical(fields[2])
                ),
            ],
            default: [
                format!("{{\"asset\": {}, \"id\": \"", default_of(fields[0])),
                "\", \"inputs\": [{\"fulfillment\": \"".to_owned(),
                format!("\", \"fulfills\": null, \"owners_before\": {owners}}}], \"metadata\": "),
                format!(
                    ", \"operation\": \"CREATE\", \"outputs\": {}, \"version\": \"2.0\"}}",
                    default_of(fields[2])
                ),
            ],
            pair,
        })
    }

    /// Signs a CREATE with this metadata and appends its default text; gives its id.
    ///
    /// The metadata is not checked: it needs at least one member, and keys that the original
    /// admits.
    pub fn sign(&self, metadata: &Object, text: &mut String) -> Id {
        let mut rest = String::with_capacity(1024);
        rest.push_str(&self.canonical[0]);
        write_object(metadata, Style::Canonical, &mut rest);
        rest.push_str(&self.canonical[1]);
        let digest = self.hash("null", &rest);
        let fulfillment = Fulfillment::Ed25519(Ed25519 {
            public_key: self.pair.public().0,
            signature: self.pair.sign(&digest),
        })
        .to_uri();
        let mut quoted = String::with_capacity(fulfillment.len() + 2);
        quoted.push('"');
        quoted.push_str(&fulfillment);
        quoted.push('"');
        let id = Id(self.hash(&quoted, &rest));
        let [head, to_fulfillment, to_metadata, tail] = &self.default;
        text.push_str(head);
        write!(text, "{id}").expect("a string takes any text");
        text.push_str(to_fulfillment);
        text.push_str(&fulfillment);
        text.push_str(to_metadata);
        write_object(metadata, Style::Default, text);
        text.push_str(tail);
        id
    }

    fn hash(&self, fulfillment: &str, rest: &str) -> [u8; 32] {
        self.head
            .clone()
            .chain_update(fulfillment)
            .chain_update(rest)
            .finalize()
            .into()
    }
}
