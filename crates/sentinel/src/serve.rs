//! The whole proxy: listeners, lanes and controllers, from start to end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admin;
use crate::config::Config;
use crate::front::{Front, Lanes};
use crate::identity::Identities;
use crate::inspect::Operator;
use crate::lane::{Accounts, lane};
use crate::surroundings::Surroundings;
use crate::systemd;
use crate::upstream::{self, Hub, NodeState, Nodes, Reads, Relays};

/// The sockets that wait for clients and for the operator.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub front: TcpListener,
    /// For the operator, if there is one.
    pub admin: Option<TcpListener>,
}

impl Listeners {
    /// Opens the configured listeners; port 0 lets the system choose.
    ///
    /// # Errors
    /// An address that is taken or not ours, named.
    pub async fn bind(config: &Config) -> Result<Self, ServeError> {
        Self::inherit(Vec::new(), config).await
    }

    /// Takes sockets that a service manager has opened, first the clients', then the operator's, and
    /// opens the configured ones in place of those that were not passed.
    ///
    /// # Errors
    /// An address that is taken or not ours, named; more sockets than there are listeners.
    pub async fn inherit(
        passed: Vec<std::net::TcpListener>,
        config: &Config,
    ) -> Result<Self, ServeError> {
        let (passed, wanted) = (
            passed.into_iter(),
            1 + usize::from(config.admin.addr.is_some()),
        );
        if passed.len() > wanted {
            let passed = passed.len();
            return Err(ServeError::Passed { passed, wanted });
        }
        let mut passed = passed.map(TcpListener::from_std);
        let mut next = async |setting, address| match passed.next() {
            Some(listener) => listener.map_err(ServeError::System),
            None => listen(setting, address).await,
        };
        Ok(Self {
            front: next("listen.addr", config.listen.addr).await?,
            admin: match config.admin.addr {
                Some(address) => Some(next("admin.addr", address).await?),
                None => None,
            },
        })
    }

    /// Where clients connect.
    ///
    /// # Errors
    /// The system returns no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.front.local_addr()
    }
}

async fn listen(setting: &'static str, address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen {
            setting,
            address,
            source,
        })
}

/// Why the proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A listener could not be opened.
    #[error("cannot listen on {address} ({setting}): {source}")]
    Listen {
        /// The setting that named it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The service manager has opened more sockets than there are listeners.
    #[error(
        "the service manager passed {passed} sockets, and {wanted} are wanted: the clients' and, unless \
         admin.addr is off, the operator's"
    )]
    Passed {
        /// How many came.
        passed: usize,
        /// How many there is a use for.
        wanted: usize,
    },
    /// The nodes' side could not be set up.
    #[error(transparent)]
    Upstream(#[from] upstream::UpstreamError),
    /// A limit is impossible.
    #[error(transparent)]
    Limits(#[from] fairq::Error),
    /// The system gave no thread.
    #[error("the system refuses: {0}")]
    System(#[source] io::Error),
}

/// Serves until `shutdown`, then drains within the configured budget. How every admitted write
/// ended.
///
/// Clients are served by the runtime this is called on; the nodes are watched and the operator is
/// served by a thread of their own, so that reading a block never delays a client.
///
/// # Errors
/// Nothing was served: the reason.
///
/// # Cancel safety
/// Dropping the future ends everything at once; queued writes are lost.
pub async fn serve(
    listeners: Listeners,
    config: Config,
    shutdown: CancellationToken,
) -> Result<Accounts, ServeError> {
    let surroundings = Surroundings::new(config, shutdown.clone());
    let config = &surroundings.config;
    let ending = surroundings.end.clone().drop_guard();
    let (nodes, events, watching) = Nodes::start(surroundings.clone())?;
    nodes.check_versions().await?;
    let known_nodes = described(&nodes);
    let reads = Reads::new(config, &nodes);
    let (lane, pump) = lane(&surroundings, nodes.clone(), events)?;
    // Clients whose writes wait are answered by the pump, so the front ends after it.
    let relays = Relays::new(config, &nodes, &reads);
    let (hub, subscribing) = Hub::new(config, relays.clone(), &reads, &surroundings.ledger);
    let ledger = surroundings.ledger.clone();
    let ways = (relays.clone(), hub.clone());
    let lanes = Lanes::new(config, ledger, (lane.clone(), reads), ways);
    let front = Front::new(lanes, surroundings.clone())?;
    let operator = Operator {
        identities: Identities::new(&config.trust)?,
        config: Arc::clone(config),
        metrics: Arc::clone(&surroundings.metrics),
        clock: surroundings.clock,
        lane: lane.clone(),
        nodes,
        ledger: surroundings.ledger.clone(),
        front: front.clone(),
        relays,
        hub,
        shutdown: shutdown.clone(),
    };
    let (page, explain) = match listeners.admin.as_ref().map(TcpListener::local_addr) {
        Some(Ok(address)) => (
            format!("http://{address}/"),
            format!("http://{address}/explain?ip=ADDRESS"),
        ),
        _ => ("off (admin.addr)".to_owned(), "off".to_owned()),
    };
    let mut background = Background::start().map_err(ServeError::System)?;
    background.spawn(watching.run());
    background.spawn(subscribing.run());
    if let Some(listener) = listeners.admin {
        let (metrics, end) = (Arc::clone(&surroundings.metrics), surroundings.end.clone());
        let serve = |listener| admin::serve(listener, metrics, Arc::new(operator), end);
        background
            .serve(listener, serve)
            .map_err(ServeError::System)?;
    }

    let address = listeners.front.local_addr().map_err(ServeError::System)?;
    info!(
        %address,
        nodes = %known_nodes,
        pace = %config.shown("pace.mode"),
        ceiling = %config.fair.max_req,
        page = %page,
        explain = %explain,
        "serving"
    );
    systemd::ready();
    let mut tasks = JoinSet::new();
    tasks.spawn(pump.run(shutdown));
    tasks.spawn(serve_clients(front, listeners.front));
    tasks.join_all().await;
    drop(ending);
    background.ended().await;
    Ok(lane.status().accounts)
}

/// Each node with its version, as far as it has told one.
fn described(nodes: &Nodes) -> String {
    let node = |node: NodeState| match node.version.as_str() {
        "" => format!("{} (no answer yet)", node.endpoint),
        version => format!("{} ({version})", node.endpoint),
    };
    let nodes: Vec<String> = nodes.states().into_iter().map(node).collect();
    nodes.join(", ")
}

async fn serve_clients(front: Front, listener: TcpListener) {
    let cut_off = front.serve(listener).await;
    if cut_off > 0 {
        warn!(
            cut_off,
            "connections were closed at the end of shutdown.drain"
        );
    }
}

/// The thread that watches the nodes and serves the operator, and its tasks.
struct Background {
    runtime: Option<Runtime>,
    tasks: JoinSet<()>,
}

/// How long its tasks may take to end.
const GOODBYE: Duration = Duration::from_secs(1);

impl Background {
    fn start() -> io::Result<Self> {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sentinel-watch")
            .enable_all()
            .build()
            .map(|runtime| Self {
                runtime: Some(runtime),
                tasks: JoinSet::new(),
            })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only when dropped")
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.runtime().handle().clone();
        self.tasks.spawn_on(task, &handle);
    }

    /// Waits for its tasks, which were told to end.
    async fn ended(&mut self) {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(GOODBYE, ended).await.is_err() {
            warn!("the nodes' watchers and the operator's listener were cut off");
        }
    }

    /// Moves a listener to this thread's runtime and serves it there.
    fn serve<F>(
        &mut self,
        listener: TcpListener,
        serve: impl FnOnce(TcpListener) -> F,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = listener.into_std()?;
        let serving = {
            let _entered = self.runtime().enter();
            serve(TcpListener::from_std(listener)?)
        };
        self.spawn(serving);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime must not be waited for inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
