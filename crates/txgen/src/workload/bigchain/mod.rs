//! BigchainDB's transactions, signed ahead: the same for one seed, whoever makes them.

mod create;
mod transfer;

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

use bigchain::json::{Object, Value, default_text, parse};
use bigchain::{Id, KeyPair, Mode, Transaction};
use sha2::{Digest, Sha256};

pub use create::CreateWorkload;
pub use transfer::{Chains, TransferWorkload};

use super::{LIMIT_OF_BODIES, MAX_SIZE, WorkloadError, mix};

/// What the transactions of a run hold beside what makes each unique.
#[derive(Debug, Clone)]
pub struct Content {
    /// The run's seed.
    pub seed: u64,
    /// Who signs each transaction and owns its output, together: 1 to 100.
    pub signers: NonZeroU32,
    /// Characters of text in the data of an asset; 0 makes it null.
    pub asset_size: usize,
    /// Metadata of each transaction, beside the unique `_`.
    pub metadata: Metadata,
}

/// A JSON object that joins the metadata of every transaction.
#[derive(Debug, Clone, Default)]
pub struct Metadata(Object);

impl Metadata {
    /// Reads a JSON object, or `@PATH` for one in a file.
    ///
    /// # Errors
    /// When it cannot be read, is no object, or has a member `_`, which makes transactions unique.
    pub fn read(text: &str) -> Result<Self, WorkloadError> {
        let refused = |problem: String| WorkloadError::Metadata { problem };
        let json = match text.strip_prefix('@') {
            None => text.to_owned(),
            Some(path) => {
                std::fs::read_to_string(path).map_err(|source| WorkloadError::Unreadable {
                    path: PathBuf::from(path),
                    source,
                })?
            }
        };
        match parse(json.as_bytes()) {
            Ok(Value::Object(object)) if object.get("_").is_some() => Err(refused(
                "has a member _, which makes each transaction unique; give it another name".into(),
            )),
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(refused("is no JSON object, as {\"a\": 1} is".into())),
            Err(error) => Err(refused(format!(
                "is not JSON ({error}); give an object, or @PATH for one in a file"
            ))),
        }
    }

    /// The metadata of transaction `index`: `_` with a UUID as the original's benchmark has it, then
    /// the members given.
    fn of(&self, seed: u64, index: u64) -> Object {
        let unique = Object::new().with("_", uuid(seed, index));
        self.0.iter().fold(unique, |object, (name, value)| {
            object.with(name, value.clone())
        })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signers = self.signers.get();
        let plural = if signers == 1 { "" } else { "s" };
        write!(f, "{signers} signer{plural}")?;
        if self.asset_size > 0 {
            write!(f, ", {} characters of asset", self.asset_size)?;
        }
        if self.metadata.0.iter().next().is_some() {
            let text = default_text(&Value::Object(self.metadata.0.clone()));
            write!(f, ", metadata with {text}")?;
        }
        Ok(())
    }
}

/// The key pairs of a party. Their public keys have 44 characters, as nearly all have: so every
/// transaction of a run has one size.
fn party(seed: u64, name: &str, members: NonZeroU32) -> Vec<KeyPair> {
    let pair = |member: u32, attempt: u32| {
        let mut hasher = Sha256::new_with_prefix(b"tidegate bigchaindb key ");
        hasher.update(name);
        hasher.update(seed.to_le_bytes());
        hasher.update(member.to_le_bytes());
        hasher.update(attempt.to_le_bytes());
        KeyPair::from_seed(hasher.finalize().into())
    };
    (0..members.get())
        .map(|member| {
            (0..=u32::MAX)
                .map(|attempt| pair(member, attempt))
                .find(|pair| pair.public().to_string().len() == KEY_CHARACTERS)
                .expect("17 of 18 keys have that length")
        })
        .collect()
}

/// A UUID of version 4 (RFC 9562, section 5.4) that no other index of this seed has: 60 of its bits
/// are the low bits of a bijection of the index, and four more are the others.
fn uuid(seed: u64, index: u64) -> String {
    let unique = mix(mix(seed ^ SEED_DOMAIN).wrapping_add(index));
    let rest = mix(unique);
    let high = (unique & 0xffff_ffff_ffff) << 16 | 0x4000 | (unique >> 48 & 0xfff);
    let low = 1 << 63 | (unique >> 60) << 56 | (rest & 0xff_ffff_ffff_ffff);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// Checks that a BigchainDB takes transactions like this one and a body can carry it; gives its size.
fn check(text: &str) -> Result<usize, WorkloadError> {
    if text.len() > MAX_SIZE {
        return Err(WorkloadError::SizeTooLarge {
            size: text.len(),
            limit: MAX_SIZE,
            source_of_limit: LIMIT_OF_BODIES,
        });
    }
    Transaction::from_text(text.as_bytes(), Mode::Compatible).map_err(|error| {
        WorkloadError::Metadata {
            problem: format!("makes transactions that a BigchainDB refuses: {error}"),
        }
    })?;
    Ok(text.len())
}

/// The id in the text of a transaction that was not made here.
///
/// # Errors
/// When it is no JSON object with an id of 64 hexadecimal digits.
pub(crate) fn bigchain_id(index: u64, tx: &[u8]) -> Result<[u8; 32], WorkloadError> {
    let refused = |problem: String| WorkloadError::NotBigchain { index, problem };
    let body = parse(tx).map_err(|error| refused(error.to_string()))?;
    let id = body.get("id").and_then(Value::as_str);
    let id = id.ok_or_else(|| refused("it has no id".into()))?;
    let id: Id = id
        .parse()
        .map_err(|error: bigchain::Error| refused(error.to_string()))?;
    Ok(id.0)
}

/// More members than the schema lets a threshold have.
fn impossible(error: &bigchain::Error) -> WorkloadError {
    WorkloadError::Signers {
        problem: error.to_string(),
    }
}

const KEY_CHARACTERS: usize = 44;
/// Keeps the UUIDs apart from other uses of the same seed.
const SEED_DOMAIN: u64 = 0x7469_6465_7575_6964;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uuids_are_unique_and_of_version_4() {
        let all: HashSet<String> = (0..20_000).map(|index| uuid(3, index)).collect();
        assert_eq!(all.len(), 20_000);
        for text in all.iter().take(100) {
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4", "{text}");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
        assert_eq!(uuid(3, 7), uuid(3, 7));
        assert_ne!(uuid(3, 7), uuid(4, 7));
    }

    #[test]
    fn metadata_that_no_node_takes_is_refused_with_a_reason() {
        for (text, words) in [
            ("[1]", "no JSON object"),
            ("{", "not JSON"),
            ("{\"_\": 1}", "another name"),
        ] {
            let error = Metadata::read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(matches!(
            Metadata::read("@/nowhere/x.json"),
            Err(WorkloadError::Unreadable { .. })
        ));
    }
}
