//! Between two points: until every mempool is empty.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pacing::Nanos;
use rpc::{Client, ClientError, ClientOptions, Endpoint, Trust};
use tokio::runtime::Runtime;

use crate::shutdown::Shutdown;

/// The mempools of a target, asked one after the other.
pub(crate) struct Mempools {
    clients: Vec<Client>,
    runtime: Runtime,
}

/// How a target came to rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rest {
    /// How long it took.
    pub(crate) took: Nanos,
    /// What is in the way, if it did not.
    pub(crate) trouble: Option<String>,
}

impl Mempools {
    pub(crate) fn new(endpoints: &[Endpoint], trust: &Trust) -> Result<Self, MempoolsError> {
        let options = ClientOptions {
            timeout: QUERY_TIMEOUT,
            trust: trust.clone(),
            ..ClientOptions::default()
        };
        let clients = endpoints
            .iter()
            .map(|endpoint| Client::with_options(endpoint, options.clone()))
            .collect::<Result<_, _>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self { clients, runtime })
    }

    /// Asks until all are empty, for `timeout` at most, or until the user wants to stop.
    pub(crate) fn await_empty(&self, timeout: Nanos, shutdown: &Shutdown) -> Rest {
        let start = Instant::now();
        loop {
            let trouble = self.trouble();
            let took = Nanos::from(start.elapsed());
            if trouble.is_none() || took >= timeout || shutdown.is_requested() {
                return Rest { took, trouble };
            }
            thread::sleep(ASK_INTERVAL);
        }
    }

    /// What keeps the target from being at rest.
    fn trouble(&self) -> Option<String> {
        self.clients.iter().find_map(|client| {
            match self.runtime.block_on(client.num_unconfirmed_txs()) {
                Ok(mempool) if mempool.txs == 0 => None,
                Ok(mempool) => Some(format!(
                    "the mempool of {} still holds {} transactions",
                    client.endpoint(),
                    mempool.txs
                )),
                Err(error) => Some(error.to_string()),
            }
        })
    }
}

/// Why mempools cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum MempoolsError {
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No runtime.
    #[error("cannot ask the nodes")]
    System(#[from] io::Error),
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// A node empties its mempool with a block, so this is fine enough.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
