//! The key-value application with the rules of `abci/example/kvstore` in CometBFT 0.38.

use std::collections::HashMap;

use bytes::Bytes;
use lru::LruCache;
use wire::json::replace_invalid;

use super::events::{Event, NOT_INDEXED};
use crate::chain::proto;

/// ABCI version that the application reports.
pub(crate) const ABCI_VERSION: &str = "2.0.0";
/// Code of a transaction that is not `key=value`.
pub(crate) const INVALID_FORMAT: u32 = 2;
/// `gas_wanted` of a valid transaction.
pub(crate) const GAS_WANTED: u64 = 1;

const VALIDATOR_PREFIX: &[u8] = b"val=";
const APP_HASH_LEN: usize = 8;

/// Whether a transaction is well formed; the code of `CheckTx`.
///
/// Either a validator update `val=TYPE!BASE64KEY!POWER`, or exactly one `=` (or exactly one `:` and
/// no `=`) that is neither first nor last.
pub(crate) fn check(tx: &[u8]) -> u32 {
    let valid = if tx.starts_with(VALIDATOR_PREFIX) {
        validator_update(tx).is_some()
    } else {
        is_pair(tx)
    };
    if valid { 0 } else { INVALID_FORMAT }
}

fn is_pair(tx: &[u8]) -> bool {
    let mut separators = tx
        .iter()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, b'=' | b':'));
    match (separators.next(), separators.next()) {
        (Some((at, _)), None) => at > 0 && at + 1 < tx.len(),
        _ => false,
    }
}

/// Public key and power of a validator update, if it is one.
fn validator_update(tx: &[u8]) -> Option<(Vec<u8>, i64)> {
    let text = tx.strip_prefix(VALIDATOR_PREFIX)?;
    let mut parts = text.split(|byte| *byte == b'!');
    let (_key_type, key, power) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    // Go's decoder skips line ends.
    let key: Vec<u8> = key
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let key = base64_simd::STANDARD.decode_to_vec(key).ok()?;
    let power: i64 = std::str::from_utf8(power).ok()?.parse().ok()?;
    (power >= 0).then_some((key, power))
}

/// What the application makes of a transaction in a proposal: `:` becomes `=`.
pub(crate) fn prepared(tx: &Bytes) -> Bytes {
    match tx.iter().position(|byte| *byte == b':') {
        Some(at) => {
            let mut changed = tx.to_vec();
            changed[at] = b'=';
            Bytes::from(changed)
        }
        None => tx.clone(),
    }
}

/// Key and value that the events of a transaction carry: the halves around its one `=`, else the
/// whole transaction twice.
pub(crate) fn event_pair(tx: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = tx.split(|byte| *byte == b'=');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(key), Some(value), None) => (key, value),
        _ => (tx, tx),
    }
}

/// The two events of a transaction, both of type `app`.
pub(crate) fn events(tx: &[u8]) -> Vec<Event<'_>> {
    let (key, value) = event_pair(tx);
    let event = |creator: &'static str, key| {
        vec![
            ("app.creator", creator.into()),
            ("app.key", replace_invalid(key)),
            ("app.index_key", "index is working".into()),
            (NOT_INDEXED, "index is working".into()),
        ]
    };
    vec![event("Cosmoshi Netowoko", key), event("Cosmoshi", value)]
}

/// What a block does to the application; nothing is visible before [`KvStore::commit`].
#[derive(Debug)]
pub(crate) struct Finalized {
    pub(crate) app_hash: Vec<u8>,
    pub(crate) validator_updates: Vec<(Vec<u8>, i64)>,
    size: i64,
    height: u64,
    writes: Vec<(Bytes, Bytes)>,
}

/// The answer of a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryAnswer {
    pub(crate) log: &'static str,
    pub(crate) index: i64,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) height: u64,
}

/// The application's state.
///
/// Unlike the original, which writes to a database, it forgets the keys written longest ago once
/// it holds `retain_keys` of them, so that its memory is bounded.
#[derive(Debug)]
pub(crate) struct KvStore {
    /// Transactions executed since the start; it makes the application's hash.
    size: i64,
    height: u64,
    /// In the order of their writes: reading does not count as use.
    pairs: LruCache<Bytes, Bytes>,
    retain_keys: usize,
    validators: HashMap<Vec<u8>, i64>,
}

impl KvStore {
    pub(crate) fn new(retain_keys: usize, validator: (&[u8], i64)) -> Self {
        Self {
            size: 0,
            height: 0,
            pairs: LruCache::unbounded(),
            retain_keys,
            validators: HashMap::from([(validator.0.to_vec(), validator.1)]),
        }
    }

    pub(crate) fn size(&self) -> i64 {
        self.size
    }

    pub(crate) fn height(&self) -> u64 {
        self.height
    }

    pub(crate) fn app_hash(&self) -> Vec<u8> {
        app_hash(self.size)
    }

    /// Executes a block; `executed` is true for the indices of transactions that take effect.
    pub(crate) fn finalize(
        &self,
        height: u64,
        txs: &[Bytes],
        executed: impl Fn(usize) -> bool,
    ) -> Finalized {
        let mut validator_updates = Vec::new();
        let mut writes = Vec::with_capacity(txs.len());
        for (index, tx) in txs.iter().enumerate() {
            if !executed(index) {
                continue;
            }
            if tx.starts_with(VALIDATOR_PREFIX) {
                validator_updates.extend(validator_update(tx));
            } else {
                let (key, value) = event_pair(tx);
                writes.push((tx.slice_ref(key), tx.slice_ref(value)));
            }
        }
        let size = self.size + i64::try_from(txs.len()).unwrap_or(i64::MAX);
        Finalized {
            app_hash: app_hash(size),
            validator_updates,
            size,
            height,
            writes,
        }
    }

    /// Makes a block's effects visible.
    pub(crate) fn commit(&mut self, finalized: Finalized) {
        self.size = finalized.size;
        self.height = finalized.height;
        for (key, power) in finalized.validator_updates {
            if power == 0 {
                self.validators.remove(&key);
            } else {
                self.validators.insert(key, power);
            }
        }
        for (key, value) in finalized.writes {
            self.pairs.put(key, value);
            if self.pairs.len() > self.retain_keys {
                self.pairs.pop_lru();
            }
        }
    }

    /// Answers `abci_query`: path `/val` looks up a validator, every other path a key.
    pub(crate) fn query(&self, path: &str, data: &[u8], prove: bool) -> QueryAnswer {
        if path == "/val" {
            let value = self
                .validators
                .get(data)
                .map(|power| validator_message(data, *power));
            return QueryAnswer {
                log: "",
                index: 0,
                value,
                height: 0,
            };
        }
        let value = self.pairs.peek(data).map(|value| value.to_vec());
        let log = if value.is_some() {
            "exists"
        } else {
            "does not exist"
        };
        QueryAnswer {
            log,
            index: if prove { -1 } else { 0 },
            value,
            height: self.height,
        }
    }
}

/// Eight bytes with the number of transactions as a zigzag varint.
fn app_hash(size: i64) -> Vec<u8> {
    let mut hash = Vec::with_capacity(APP_HASH_LEN);
    proto::varint(&mut hash, (size << 1 ^ size >> 63).cast_unsigned());
    hash.resize(APP_HASH_LEN.max(hash.len()), 0);
    hash
}

/// `ValidatorUpdate` with its length in front, as the original stores it.
fn validator_message(key: &[u8], power: i64) -> Vec<u8> {
    let mut public_key = Vec::new();
    proto::message(&mut public_key, 1, key);
    let mut update = Vec::new();
    proto::message(&mut update, 1, &public_key);
    proto::int_field(&mut update, 2, power);
    let mut out = Vec::new();
    proto::varint(&mut out, update.len() as u64);
    out.extend_from_slice(&update);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_exactly_one_separator_inside() {
        for good in ["a=1", "a:1", "abc=def", "val=ed25519!AAAA!0", "value=1"] {
            assert_eq!(check(good.as_bytes()), 0, "{good}");
        }
        for bad in [
            "",
            "a",
            "=",
            ":",
            "=a",
            "a=",
            ":a",
            "a:",
            "a=b=c",
            "a:b:c",
            "a=b:c",
            "val=x",
            "val=a!b!c",
            "val=a!AAAA!-1",
            "val=a!AAAA!1!2",
        ] {
            assert_eq!(check(bad.as_bytes()), INVALID_FORMAT, "{bad}");
        }
    }

    #[test]
    fn the_colon_becomes_an_equals_sign_in_the_block() {
        assert_eq!(prepared(&Bytes::from_static(b"a:1")), "a=1");
        assert_eq!(prepared(&Bytes::from_static(b"a=1")), "a=1");
    }

    #[test]
    fn the_hash_is_the_count_of_transactions() {
        assert_eq!(app_hash(0), [0; 8]);
        assert_eq!(app_hash(1), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(app_hash(100), [200, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_block_shows_when_it_is_committed() {
        let mut app = KvStore::new(10, (b"key", 10));
        let block = app.finalize(
            1,
            &[
                Bytes::from_static(b"a=1"),
                Bytes::from_static(b"val=ed25519!AAAA!7"),
            ],
            |_| true,
        );
        assert_eq!(app.query("", b"a", false).log, "does not exist");
        assert_eq!(block.validator_updates, [(vec![0, 0, 0], 7)]);
        app.commit(block);
        let answer = app.query("", b"a", true);
        assert_eq!(
            answer,
            QueryAnswer {
                log: "exists",
                index: -1,
                value: Some(b"1".to_vec()),
                height: 1
            }
        );
        assert!(app.query("/val", &[0, 0, 0], false).value.is_some());
        assert_eq!(app.size(), 2);
    }

    #[test]
    fn old_keys_are_forgotten_and_rewritten_ones_kept() {
        let mut app = KvStore::new(2, (b"key", 10));
        for (height, tx) in (1..).zip(["a=1", "b=1", "a=2", "c=1"]) {
            let block = app.finalize(height, &[Bytes::from_static(tx.as_bytes())], |_| true);
            app.commit(block);
        }
        assert_eq!(app.query("", b"a", false).value, Some(b"2".to_vec()));
        assert_eq!(app.query("", b"b", false).value, None);
        assert_eq!(app.query("", b"c", false).value, Some(b"1".to_vec()));
    }
}
