//! The key-value application with the rules of `abci/example/kvstore` in CometBFT 0.38.

use std::sync::Arc;

use bytes::Bytes;
use lru::LruCache;
use parking_lot::RwLock;
use wire::json::replace_invalid;
use wire::proto;

use super::{App, Event, Execution, Finalized, Outcome, QueryAnswer, Tx};

/// Code of a transaction that is not `key=value`.
const INVALID_FORMAT: u32 = 2;
const APP_HASH_LEN: usize = 8;

/// The application.
#[derive(Debug)]
pub(crate) struct KvStore(Arc<RwLock<State>>);

/// What is committed.
///
/// Unlike the original, which writes to a database, it forgets the keys written longest ago once
/// it holds `retain_keys` of them, so that its memory is bounded.
#[derive(Debug)]
struct State {
    /// Transactions executed since the start; it makes the application's hash.
    size: i64,
    height: u64,
    /// In the order of their writes: reading does not count as use.
    pairs: LruCache<Bytes, Bytes>,
    retain_keys: usize,
}

impl KvStore {
    pub(crate) fn new(retain_keys: usize) -> Self {
        Self(Arc::new(RwLock::new(State {
            size: 0,
            height: 0,
            pairs: LruCache::unbounded(),
            retain_keys,
        })))
    }
}

impl App for KvStore {
    fn check(&self, tx: &Tx) -> Option<u32> {
        Some(check(&tx.bytes))
    }

    fn checked(&self, _tx: &Tx, code: u32) -> Outcome {
        Outcome {
            gas_wanted: u64::from(code == 0),
            ..Outcome::default()
        }
    }

    fn app_hash(&self) -> Vec<u8> {
        app_hash(self.0.read().size)
    }

    fn finalize(&self, block: Execution<'_>) -> Finalized {
        let writes = block.txs.iter().enumerate();
        let writes = writes.filter(|(index, _)| !block.fails(*index));
        let writes = writes.map(|(_, tx)| {
            let (key, value) = pair(&tx.bytes);
            (tx.bytes.slice_ref(key), tx.bytes.slice_ref(value))
        });
        let writes: Vec<(Bytes, Bytes)> = writes.collect();
        let size = self.0.read().size + i64::try_from(block.txs.len()).unwrap_or(i64::MAX);
        let (state, height) = (Arc::clone(&self.0), block.height);
        Finalized {
            failed: block.failing,
            outcomes: Vec::new(),
            app_hash: app_hash(size),
            commit: Box::new(move || {
                state.write().commit(size, height, writes);
                None
            }),
        }
    }

    /// Two events of type `app`.
    fn events<'a>(&self, tx: &'a [u8], code: u32) -> Vec<Event<'a>> {
        if code != 0 {
            return Vec::new();
        }
        let (key, value) = pair(tx);
        let event = |creator: &'static str, key| {
            vec![
                ("app.creator", creator.into()),
                ("app.key", replace_invalid(key)),
            ]
        };
        vec![event("Cosmoshi Netowoko", key), event("Cosmoshi", value)]
    }

    /// The value of the key that is the query's data.
    fn query(&self, _path: &str, data: &[u8]) -> QueryAnswer {
        let state = self.0.read();
        let value = state.pairs.peek(data).map(|value| value.to_vec());
        let log = if value.is_some() {
            "exists"
        } else {
            "does not exist"
        };
        QueryAnswer {
            log: log.to_owned(),
            value,
            height: state.height,
            ..QueryAnswer::default()
        }
    }
}

impl State {
    fn commit(&mut self, size: i64, height: u64, writes: Vec<(Bytes, Bytes)>) {
        (self.size, self.height) = (size, height);
        for (key, value) in writes {
            self.pairs.put(key, value);
            if self.pairs.len() > self.retain_keys {
                self.pairs.pop_lru();
            }
        }
    }
}

/// The code of `CheckTx`: good is exactly one `=` or `:` that is neither first nor last.
fn check(tx: &[u8]) -> u32 {
    let is_separator = |byte: &u8| matches!(byte, b'=' | b':');
    let is_pair = match tx.iter().position(is_separator) {
        Some(at) => at > 0 && at + 1 < tx.len() && !tx[at + 1..].iter().any(is_separator),
        None => false,
    };
    if is_pair { 0 } else { INVALID_FORMAT }
}

/// Key and value: the halves around the separator, else the whole transaction twice.
fn pair(tx: &[u8]) -> (&[u8], &[u8]) {
    match tx.iter().position(|byte| matches!(byte, b'=' | b':')) {
        Some(at) => (&tx[..at], &tx[at + 1..]),
        None => (tx, tx),
    }
}

/// Eight bytes with the number of transactions as a zigzag varint.
fn app_hash(size: i64) -> Vec<u8> {
    let mut hash = Vec::with_capacity(APP_HASH_LEN);
    proto::varint(&mut hash, (size << 1 ^ size >> 63).cast_unsigned());
    hash.resize(APP_HASH_LEN.max(hash.len()), 0);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_exactly_one_separator_inside() {
        for good in ["a=1", "a:1", "abc=def", "value=1"] {
            assert_eq!(check(good.as_bytes()), 0, "{good}");
        }
        for bad in [
            "", "a", "=", ":", "=a", "a=", ":a", "a:", "a=b=c", "a:b:c", "a=b:c",
        ] {
            assert_eq!(check(bad.as_bytes()), INVALID_FORMAT, "{bad}");
        }
    }

    #[test]
    fn the_hash_is_the_count_of_transactions() {
        assert_eq!(app_hash(0), [0; 8]);
        assert_eq!(app_hash(1), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(app_hash(100), [200, 1, 0, 0, 0, 0, 0, 0]);
    }

    fn finalize(app: &KvStore, height: u64, tx: &'static str) -> Finalized {
        let txs = [Tx::new(Bytes::from_static(tx.as_bytes()))];
        app.finalize(Execution {
            height,
            txs: &txs,
            failing: Vec::new(),
        })
    }

    #[test]
    fn a_block_shows_when_it_is_committed() {
        let app = KvStore::new(10);
        let block = finalize(&app, 1, "a=1");
        assert_eq!(app.query("", b"a").log, "does not exist");
        (block.commit)();
        let answer = app.query("", b"a");
        assert_eq!((&*answer.log, answer.height), ("exists", 1));
        assert_eq!(answer.value, Some(b"1".to_vec()));
        assert_eq!(app.app_hash(), block.app_hash);
    }

    #[test]
    fn old_keys_are_forgotten_and_rewritten_ones_kept() {
        let app = KvStore::new(2);
        for (height, tx) in (1..).zip(["a=1", "b=1", "a=2", "c=1"]) {
            (finalize(&app, height, tx).commit)();
        }
        assert_eq!(app.query("", b"a").value, Some(b"2".to_vec()));
        assert_eq!(app.query("", b"b").value, None);
        assert_eq!(app.query("", b"c").value, Some(b"1".to_vec()));
    }
}
