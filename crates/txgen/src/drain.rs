//! Between two runs on one target: the wait until its nodes hold no more transactions.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pacing::Nanos;
use rpc::{ClientError, ClientOptions, Endpoint, Mempool, Trust};
use sender::kind::{Loaded, TargetKind, TargetVisitor};
use sender::target::Target;
use tokio::runtime::Runtime;

use crate::shutdown::Shutdown;

/// The nodes of a target, asked one after the other for what they hold.
pub(crate) struct Drain {
    nodes: Vec<Asked>,
    runtime: Runtime,
}

type Asked = (Endpoint, Box<dyn AskPending>);

/// How a wait ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drained {
    /// How long it took.
    pub(crate) took: Nanos,
    /// What a node still held, or why it did not say, when the wait ended without success.
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
        Ok(Self {
            nodes: kind.visit(Connect { endpoints, trust })?,
            runtime: crate::runtime::start().context("cannot ask the nodes")?,
        })
    }

    /// Asks until no node holds a transaction, for `timeout` at most, or until the user wants to
    /// stop. `own` are ids of accepted transactions of the last run that no block has
    /// shown, for targets that tell only what has become of one.
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
        self.nodes
            .iter()
            .find_map(|(endpoint, node)| match node.ask(&self.runtime, own) {
                Ok(None | Some(Mempool { txs: 0, .. })) => None,
                Ok(Some(Mempool { txs, .. })) => Some(format!(
                    "the mempool of {endpoint} still holds {txs} transactions"
                )),
                Err(error) => Some(error.to_string()),
            })
    }
}

/// A node's own interface, whatever the kind of target.
trait AskPending {
    fn ask(&self, runtime: &Runtime, own: &[String]) -> Result<Option<Mempool>, ClientError>;
}

struct Queries<T: Target>(T::Queries);

impl<T: Target> AskPending for Queries<T> {
    fn ask(&self, runtime: &Runtime, own: &[String]) -> Result<Option<Mempool>, ClientError> {
        runtime.block_on(T::pending(&self.0, own))
    }
}

struct Connect<'a> {
    endpoints: &'a [Endpoint],
    trust: &'a Trust,
}

impl Connect<'_> {
    fn to<T: Target>(self) -> Result<Vec<Asked>, ClientError> {
        let connect = |endpoint: &Endpoint| {
            let options = ClientOptions::new(QUERY_TIMEOUT, self.trust);
            let asked: Box<dyn AskPending> = Box::new(Queries::<T>(T::queries(endpoint, options)?));
            Ok((endpoint.clone(), asked))
        };
        self.endpoints.iter().map(connect).collect()
    }
}

impl TargetVisitor for Connect<'_> {
    type Output = Result<Vec<Asked>, ClientError>;

    fn visit<T: Loaded>(self) -> Self::Output {
        self.to::<T>()
    }
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// A node empties its mempool with a block, so this is fine enough.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
