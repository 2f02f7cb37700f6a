//! BigchainDB's transactions, signed ahead: the same for one seed on every machine.

mod transfer;

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use base::mix;
use bigchain::json::{Integer, Object, Value, default_text, parse};
use bigchain::{Id, KeyPair, Transaction};
use sha2::{Digest, Sha256};

use transfer::{Creates, Transfers};

use chain::{
    Chains, Families, LIMIT_OF_BODIES, MAX_SIZE, Probe, TxName, TxStream, Workload, WorkloadError,
    check_size,
};

/// BigchainDB's CREATE on the command line.
pub const CREATE: &str = "bigchaindb-create";
/// BigchainDB's TRANSFER on the command line.
pub const TRANSFER: &str = "bigchaindb-transfer";

/// Transactions of one kind and size, signed by the parties of a seed.
#[derive(Debug, Clone)]
pub struct BigchainWorkload {
    signer: Arc<dyn Sign>,
    content: Content,
    size: usize,
    /// The TRANSFERs again, where the signer signs some.
    transfers: Option<Arc<Transfers>>,
}

/// Signs the transactions of a kind.
trait Sign: fmt::Debug + Send + Sync {
    /// Signs transaction `index` into an empty `text`; threads may ask for any index at a time.
    fn sign(&self, index: u64, text: &mut String) -> Id;
}

impl BigchainWorkload {
    /// CREATEs as the original's benchmark sends them: with asset data null, one signer and no
    /// metadata of one's own a transaction has the 765 bytes of BEP-23's.
    ///
    /// # Errors
    /// When there are more than 100 signers, the metadata is one that a BigchainDB refuses, or the
    /// transactions would be too large.
    pub fn creates(content: Content) -> Result<Self, WorkloadError> {
        let creates = Creates::new(content.clone(), "signer")?;
        Self::of(Arc::new(creates), content, None)
    }

    /// TRANSFERs in these chains, over outputs that CREATEs make before.
    ///
    /// # Errors
    /// As [`BigchainWorkload::creates`], and when there are more than 10,000,000.
    pub fn transfers(content: Content, chains: Chains) -> Result<Self, WorkloadError> {
        let transfers = Arc::new(Transfers::new(content.clone(), chains)?);
        Self::of(transfers.clone(), content, Some(transfers))
    }

    fn of(
        signer: Arc<dyn Sign>,
        content: Content,
        transfers: Option<Arc<Transfers>>,
    ) -> Result<Self, WorkloadError> {
        let mut sample = String::new();
        signer.sign(0, &mut sample);
        Ok(Self {
            size: check(&sample)?,
            signer,
            content,
            transfers,
        })
    }

    /// The chains of TRANSFERs.
    pub fn chains(&self) -> Option<Chains> {
        Some(self.transfers.as_ref()?.chains)
    }
}

impl Workload for BigchainWorkload {
    fn count(&self) -> Option<u64> {
        Some(self.transfers.as_ref()?.chains.transactions())
    }

    /// The size of each transaction in bytes, in the original's default encoding.
    fn largest(&self) -> usize {
        self.size
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(BigchainStream {
            signer: self.signer.clone(),
            text: String::new(),
        }))
    }

    fn is_signed(&self) -> bool {
        true
    }

    fn has_chains(&self) -> bool {
        self.transfers.is_some()
    }

    fn families(&self) -> Option<Families> {
        let chains = self.transfers.as_ref()?.chains;
        let family = move |index| chains.chain(chains.spends_as(index).unwrap_or(index));
        Some(Families::new(chains.count(), family))
    }

    /// The CREATEs that have to be committed before.
    fn preparation(&self) -> Option<(Arc<dyn Workload>, u64)> {
        let transfers = self.transfers.as_ref()?;
        let roots = Self::of(transfers.roots.clone(), self.content.clone(), None);
        Some((Arc::new(roots.ok()?), transfers.chains.count()))
    }

    /// A BigchainDB takes its Tendermint with it when it fails at a transaction. A TRANSFER that goes alone spends the
    /// CREATE that went alone before.
    fn first_alone(&self, _node: &Probe, generator: u32) -> Option<Arc<dyn Workload>> {
        let signer: Arc<dyn Sign> = Arc::new(Alone {
            signer: self.signer.clone(),
            index: ALONE - u64::from(generator),
        });
        let alone = Self::of(signer, self.content.clone(), None);
        Some(Arc::new(alone.ok()?))
    }
}

impl fmt::Display for BigchainWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, content) = (self.size, &self.content);
        match self.chains() {
            None => write!(f, "{CREATE}, {size} bytes each, {content}"),
            Some(chains) => write!(f, "{TRANSFER}, {size} bytes each, {content}, {chains}"),
        }
    }
}

/// Signs one transaction that is in no load.
#[derive(Debug)]
struct Alone {
    signer: Arc<dyn Sign>,
    index: u64,
}

impl Sign for Alone {
    fn sign(&self, _: u64, text: &mut String) -> Id {
        self.signer.sign(self.index, text)
    }
}

/// Makes transactions one after the other.
#[derive(Debug)]
struct BigchainStream {
    signer: Arc<dyn Sign>,
    text: String,
}

impl TxStream for BigchainStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        self.text.clear();
        let id = self.signer.sign(index, &mut self.text);
        out.extend_from_slice(self.text.as_bytes());
        Ok(TxName::Known(id.0))
    }
}

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
        let refused = |problem: &str| WorkloadError::Unusable(format!("--metadata {problem}"));
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
                "has a member _, which makes each transaction unique; give it another name",
            )),
            Ok(Value::Object(object))
                if object.iter().any(|(_, value)| is_beyond_64_bits(value)) =>
            {
                Err(refused(BEYOND_64_BITS))
            }
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(refused("is no JSON object, as {\"a\": 1} is")),
            Err(error) => Err(refused(&format!(
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

/// Whether an integer in it is one that MongoDB cannot store.
fn is_beyond_64_bits(value: &Value) -> bool {
    match value {
        Value::Integer(Integer::Big(_)) => true,
        Value::Array(values) => values.iter().any(is_beyond_64_bits),
        Value::Object(object) => object.iter().any(|(_, value)| is_beyond_64_bits(value)),
        _ => false,
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
    check_size(text.len(), MAX_SIZE, LIMIT_OF_BODIES)?;
    Transaction::from_text(text.as_bytes()).map_err(|error| {
        WorkloadError::Unusable(format!(
            "--metadata makes transactions that a BigchainDB refuses: {error}"
        ))
    })?;
    Ok(text.len())
}

/// The id in the text of a transaction that was not made here.
///
/// # Errors
/// When it is no JSON object with an id of 64 hexadecimal digits.
pub fn bigchain_id(index: u64, tx: &[u8]) -> Result<[u8; 32], WorkloadError> {
    let refused = |problem: String| {
        let text = format!("transaction {index} is no BigchainDB transaction: {problem}");
        WorkloadError::Unusable(text)
    };
    let body = parse(tx).map_err(|error| refused(error.to_string()))?;
    if is_beyond_64_bits(&body) {
        return Err(refused(BEYOND_64_BITS.into()));
    }
    let id = body.get("id").and_then(Value::as_str);
    let id = id.ok_or_else(|| refused("it has no id".into()))?;
    let id: Id = id
        .parse()
        .map_err(|error: bigchain::Error| refused(error.to_string()))?;
    Ok(id.0)
}

/// More members than the schema lets a threshold have.
fn impossible(error: &bigchain::Error) -> WorkloadError {
    WorkloadError::Unusable(format!("--signers: {error}; use 1 to 100"))
}

const BEYOND_64_BITS: &str = "has an integer outside -2^63 to 2^63-1, at which a BigchainDB 2.2 accepts the transaction and \
                              stops; write it as a text";
const KEY_CHARACTERS: usize = 44;
/// From here downwards are the indices of what goes alone: no load reaches them.
const ALONE: u64 = u64::MAX / 2;
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
    fn an_integer_beyond_64_bits_is_refused_wherever_a_transaction_comes_from() {
        let tx = |n: &str| {
            let id = "0".repeat(64);
            format!("{{\"id\": \"{id}\", \"asset\": {{\"data\": {{\"a\": [{n}]}}}}}}")
        };
        assert!(bigchain_id(3, tx("9223372036854775807").as_bytes()).is_ok());
        let error = bigchain_id(3, tx("9223372036854775808").as_bytes()).unwrap_err();
        assert!(error.to_string().contains("transaction 3"), "{error}");
    }

    #[test]
    fn metadata_that_no_node_takes_is_refused_with_a_reason() {
        for (text, words) in [
            ("[1]", "no JSON object"),
            ("{", "not JSON"),
            ("{\"_\": 1}", "another name"),
            ("{\"n\": 9223372036854775808}", "outside -2^63"),
            ("{\"a\": [{\"n\": -9223372036854775809}]}", "outside -2^63"),
        ] {
            let error = Metadata::read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for last in ["9223372036854775807", "-9223372036854775808", "1e300"] {
            assert!(
                Metadata::read(&format!("{{\"n\": {last}}}")).is_ok(),
                "{last}"
            );
        }
        assert!(matches!(
            Metadata::read("@/nowhere/x.json"),
            Err(WorkloadError::Unreadable { .. })
        ));
    }
}
