//! Between two runs on one target: the wait until its nodes hold no more transactions.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chain::NodeClient;
use pacing::Nanos;
use rpc::{ClientError, ClientOptions, Endpoint, Mempool, Trust};
use tokio::runtime::Runtime;

use crate::chains::TargetKind;
use crate::shutdown::Shutdown;

/// The nodes of a target, asked one after the other for what they hold.
pub(crate) struct Drain {
    nodes: Vec<Asked>,
    runtime: Runtime,
}

type Asked = (Endpoint, Arc<dyn NodeClient>);

/// How a wait ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drained {
    /// How long it took.
    pub(crate) took: Nanos,
    /// What a node still held, or why that is unknown, when the wait ended without success.
    pub(crate) obstacle: Option<String>,
}

impl Drain {
    /// Over the interface that takes the load. Nothing is asked yet.
    ///
    /// # Errors
    /// When the clients or their runtime cannot be made.
    pub(crate) fn new(
        kind: TargetKind,
        endpoints: &[Endpoint],
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let connect = |endpoint: &Endpoint| {
            let options = ClientOptions::new(QUERY_TIMEOUT, trust);
            Ok((endpoint.clone(), kind.target().connect(endpoint, options)?))
        };
        let nodes: Result<_, ClientError> = endpoints.iter().map(connect).collect();
        Ok(Self {
            nodes: nodes?,
            runtime: crate::runtime().context("cannot ask the nodes")?,
        })
    }

    /// Asks until no node holds a transaction, for `timeout` at most, or until the user wants to
    /// stop. `own` are ids of accepted transactions of the last run that no block has
    /// shown, for targets that show only what has become of one.
    pub(crate) fn await_empty(
        &self,
        own: &[String],
        timeout: Nanos,
        shutdown: &Shutdown,
    ) -> Drained {
        let start = Instant::now();
        loop {
            let obstacle = self.obstacle(own);
            let took = Nanos::from(start.elapsed());
            if obstacle.is_none() || took >= timeout || shutdown.is_requested() {
                return Drained { took, obstacle };
            }
            thread::sleep(ASK_INTERVAL);
        }
    }

    /// What the first node that is not empty holds.
    fn obstacle(&self, own: &[String]) -> Option<String> {
        self.nodes.iter().find_map(|(endpoint, node)| {
            match self.runtime.block_on(node.pending(own)) {
                Ok(None | Some(Mempool { txs: 0, .. })) => None,
                Ok(Some(Mempool { txs, .. })) => Some(format!(
                    "the mempool of {endpoint} still holds {txs} transactions"
                )),
                Err(error) => Some(error.to_string()),
            }
        })
    }
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// A node empties its mempool with a block, so this is fine enough.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
