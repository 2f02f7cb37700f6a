//! Applications: what blocks are executed on. [`App`] is all that the node knows of one.

pub(crate) mod kvstore;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;

use admission::{Admit, Counters, FastFilter, Layout, Pipeline, Refused, Secret, Serial, Settings};
use bytes::Bytes;

pub use crate::hash::Hash;

use crate::config::{AdmissionConfig, AdmissionMode, cores};
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
    fn events<'a>(&self, _tx: &'a [u8], _code: u32) -> Vec<Event<'a>> {
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
}

impl Outcome {
    /// Of applications that give none.
    pub(crate) const NONE: &Self = &Self {
        data: Vec::new(),
        log: String::new(),
        codespace: "",
        gas_wanted: 0,
        gas_used: 0,
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

/// Positions of the filter: none of 100,000 keys meets others by chance.
const POSITIONS: usize = 16;

/// One lock around everything, or validators and a committer.
pub enum Gate<A: Admit> {
    /// Checks one after the other.
    Serial(Serial<A>),
    /// Checks on several threads.
    Parallel(Pipeline<A, FastFilter>),
}

impl<A: Admit> fmt::Debug for Gate<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Serial(_) => "Serial",
            Self::Parallel(_) => "Parallel",
        })
    }
}

impl<A: Admit> Gate<A> {
    /// The gate of this mode, with what its checks see at first.
    pub fn new(config: &AdmissionConfig, mode: AdmissionMode, admit: A, view: A::View) -> Self {
        if mode == AdmissionMode::Serial {
            return Self::Serial(Serial::new(admit, view));
        }
        let layout = Layout::Secret {
            positions: POSITIONS,
            // The standard library's hashers are seeded by the system.
            secret: Secret::from_seed(RandomState::new().hash_one("admission")),
        };
        let filter = FastFilter::new(layout).expect("the number of positions is in its range");
        let settings = Settings {
            validators: cores(config.validators),
            epoch: config.epoch,
            capacity: config.capacity,
            ..Settings::default()
        };
        Self::Parallel(Pipeline::start(admit, view, filter, settings))
    }

    /// Hands transactions over, each of which is answered by [`Admit::decided`] unless it is refused here;
    /// the refusals with their places. Serial admission has checked them when it returns.
    pub async fn offer(self: &Arc<Self>, txs: Vec<A::Tx>) -> Vec<(usize, Refused)> {
        if let Self::Parallel(pipeline) = &**self {
            let submit = |(at, tx)| pipeline.submit(tx).err().map(|refused| (at, refused));
            return txs.into_iter().enumerate().filter_map(submit).collect();
        }
        let gate = Arc::clone(self);
        // A check is too long for a thread that serves clients.
        let checked = tokio::task::spawn_blocking(move || {
            if let Self::Serial(serial) = &*gate {
                txs.into_iter().for_each(|tx| serial.submit(tx));
            }
        });
        if let Err(error) = checked.await {
            resume_unwind(error.into_panic());
        }
        Vec::new()
    }

    /// Reads the view while checks on several threads go on, as [`Pipeline::read`] has it.
    pub fn read<R>(&self, read: impl FnOnce(&A::View) -> R) -> R {
        match self {
            Self::Serial(serial) => serial.pause(|view| read(view)),
            Self::Parallel(pipeline) => pipeline.read(read),
        }
    }

    /// Changes the view while nothing is checked.
    pub fn pause<R>(&self, change: impl FnOnce(&mut A::View) -> R) -> R {
        match self {
            Self::Serial(serial) => serial.pause(change),
            Self::Parallel(pipeline) => pipeline.pause(change),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Serial(serial) => serial.counters(),
            Self::Parallel(pipeline) => pipeline.counters(),
        }
    }

    /// Ends its threads.
    pub fn stop(&self) {
        if let Self::Parallel(pipeline) = self {
            pipeline.stop();
        }
    }
}
