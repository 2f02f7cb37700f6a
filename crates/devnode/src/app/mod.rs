//! Applications: what blocks are executed on. [`App`] is all that the node knows of one.

pub(crate) mod admission;
pub(crate) mod kvstore;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use ::admission::Counters;
use bytes::Bytes;

pub use crate::hash::Hash;
use crate::hash::sha256;

/// An application. A transaction is checked before it enters the mempool and executed in a block; after each
/// block what the mempool still holds is checked again.
pub trait App: fmt::Debug + Send + Sync {
    /// The code of `CheckTx`; none if the check takes time and [`App::check_later`] has to be awaited.
    fn check(&self, tx: &Tx) -> Option<u32>;

    /// The code of `CheckTx`. What the check learnt for the block stays with the transaction.
    fn check_later<'a>(&'a self, tx: &'a mut Tx) -> Pin<Box<dyn Future<Output = u32> + Send + 'a>> {
        Box::pin(std::future::ready(self.check(tx).unwrap_or_default()))
    }

    /// Whether it is a process of its own beside a real node: `broadcast_tx_async` does not wait for its check.
    fn is_behind_socket(&self) -> bool {
        false
    }

    /// Log, name space and gas of a check that ended with this code.
    fn checked(&self, _tx: &Tx, _code: u32) -> Outcome {
        Outcome::default()
    }

    /// Log and name space with which it refused a transaction lately.
    fn refused(&self, _hash: &Hash) -> Outcome {
        Outcome::default()
    }

    /// Whether a transaction that passed its check may fail it after a block.
    fn rechecks(&self) -> bool {
        false
    }

    /// The code of the check after a block, of a transaction that passed before.
    fn recheck(&self, _tx: &Tx) -> u32 {
        0
    }

    /// Takes note of what the mempool holds after a block.
    fn mempool_is(&self, _txs: &mut dyn Iterator<Item = &Tx>) {}

    /// What admission has counted, if the configuration has one.
    fn admission(&self) -> Option<Counters> {
        None
    }

    /// The gas that a transaction may use at most, which `max_block_gas` bounds.
    fn gas_wanted(&self, _tx: &Tx) -> u64 {
        0
    }

    /// The hash of the committed state.
    fn app_hash(&self) -> Vec<u8>;

    /// Executes a block; nothing of it is visible before [`Finalized::commit`].
    fn finalize(&self, block: Execution<'_>) -> Finalized;

    /// The events of an executed transaction.
    fn events<'a>(&self, _tx: &'a [u8], _code: u32, _outcome: &Outcome) -> Vec<Event<'a>> {
        Vec::new()
    }

    /// Answers `abci_query`.
    fn query(&self, _path: &str, _data: &[u8]) -> QueryAnswer {
        QueryAnswer::default()
    }

    /// Ends its threads.
    fn stop(&self) {}
}

/// A transaction with its hash.
#[derive(Debug, Clone)]
pub struct Tx {
    /// As it was broadcast.
    pub bytes: Bytes,
    /// SHA-256 of the bytes.
    pub hash: Hash,
    /// What its check learnt for the block. None of a transaction in a committed block.
    pub learnt: Option<Arc<dyn Any + Send + Sync>>,
}

impl Tx {
    /// A transaction that was not checked.
    pub fn new(bytes: Bytes) -> Self {
        let hash = sha256(&bytes);
        Self {
            bytes,
            hash,
            learnt: None,
        }
    }
}

/// What a check or an execution gave beside its code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The responses.
    pub data: Vec<u8>,
    /// Why it failed.
    pub log: String,
    /// The name space of the code.
    pub codespace: &'static str,
    /// The gas limit.
    pub gas_wanted: u64,
    /// The gas used.
    pub gas_used: u64,
    /// Whether it paid its fee, of an application that takes one.
    pub paid: bool,
}

impl Outcome {
    /// Of applications that give none.
    pub(crate) const NONE: &Self = &Self {
        data: Vec::new(),
        log: String::new(),
        codespace: "",
        gas_wanted: 0,
        gas_used: 0,
        paid: false,
    };
}

/// An event: its attributes by their names in queries, `type.key`, with their values.
pub type Event<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// The answer of a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QueryAnswer {
    /// 0, or why there is no value.
    pub code: u32,
    /// The name space of the code.
    pub codespace: &'static str,
    /// Why there is no value.
    pub log: String,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The height whose state was asked.
    pub height: u64,
}

/// A block's transactions as they are executed.
#[derive(Debug)]
pub struct Execution<'a> {
    /// The block's height.
    pub height: u64,
    /// The transactions in order.
    pub txs: &'a [Tx],
    /// Codes of transactions that fail whatever the application's result, by index in ascending order.
    pub failing: Vec<(u32, u32)>,
}

impl Execution<'_> {
    /// Whether a transaction fails whatever the application's result.
    pub fn fails(&self, index: usize) -> bool {
        self.failing
            .binary_search_by_key(&index, |(failing, _)| *failing as usize)
            .is_ok()
    }
}

/// What a block does to the application.
pub struct Finalized {
    /// Result codes of transactions that failed, by index in ascending order.
    pub failed: Vec<(u32, u32)>,
    /// Of every transaction, by an application that gives any; else none.
    pub outcomes: Vec<Outcome>,
    /// The hash of the state after the block.
    pub app_hash: Vec<u8>,
    /// Makes the block's effects visible.
    pub commit: Box<dyn FnOnce() -> Publish + Send>,
}

/// Publishes a committed block to the listeners of the application itself, where it has any.
pub type Publish = Option<Box<dyn FnOnce() + Send>>;
