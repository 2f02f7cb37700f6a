//! The whole proxy: listeners, lanes and controllers, from start to end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::access::{self, AccessLog, Requests};
use crate::config::Config;
use crate::files::SettingError;
use crate::front::{Front, Lanes};
use crate::handover::{NotifyState, Predecessor};
use crate::keys::KnownKeys;
use crate::lane::{Accounts, lane};
pub use crate::listeners::{ListenError, Listeners};
use crate::metrics::RestartedTask;
use crate::operator::Operator;
use crate::reload::Reloader;
use crate::shared_context::SharedContext;
use crate::supervise::{Tasks, keep_running, reason};
use crate::upstream::{DoorNodes, Hub, NodeDoor, NodeState, Nodes, Reads};
use crate::{handover, operator, tls, upstream};

/// Why the proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A listener could not be opened.
    #[error(transparent)]
    Listeners(#[from] ListenError),
    /// The nodes' side could not be set up.
    #[error(transparent)]
    Upstream(#[from] upstream::UpstreamError),
    /// A limit is impossible.
    #[error(transparent)]
    Limits(#[from] fairq::Error),
    /// What a setting names cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A part of the program ended while it served.
    #[error("{task} ended before the program was told to stop: {reason}")]
    Ended {
        /// Which.
        task: &'static str,
        /// Why.
        reason: String,
    },
    /// The system gave no thread.
    #[error("the system refuses")]
    System(#[source] io::Error),
}

/// Serves until `shutdown`, then drains within the configured budget. How every admitted write
/// ended.
///
/// Clients are served by the runtime this is called on; the nodes are watched and the operator is
/// served by a thread of their own, so that reading a block never delays a client.
///
/// # Errors
/// Nothing was served, or a part of the program ended before the shutdown began: the reason.
///
/// # Cancel safety
/// Dropping the future ends everything at once; queued writes are lost.
pub async fn serve(
    listeners: Listeners,
    config: Config,
    shutdown: CancellationToken,
) -> Result<Accounts, ServeError> {
    let alone = (Reloader::none(), None);
    serve_replacing(listeners, config, alone, shutdown).await
}

/// The same; the configuration can be [read anew](Reloader), and a process that served before is
/// [relieved](crate::handover) once this one does.
///
/// # Errors
/// Those of [`serve`].
///
/// # Cancel safety
/// That of [`serve`].
pub async fn serve_replacing(
    listeners: Listeners,
    config: Config,
    (reloader, predecessor): (Reloader, Option<Predecessor>),
    shutdown: CancellationToken,
) -> Result<Accounts, ServeError> {
    let shared_context = context(config, &shutdown)?;
    let config = &shared_context.config.current();
    let ending = shared_context.end.clone().drop_guard();
    let (nodes, events, watching) = Nodes::start(shared_context.clone())?;
    nodes.check_versions().await?;
    let known_nodes = described(&nodes);
    let reads = Reads::new(config, &nodes);
    let (lane, pump) = lane(&shared_context, nodes.clone(), events)?;
    // Clients whose writes wait are answered by the pump, so the front ends after it.
    let (hub, subscribing) = Hub::new(config, &nodes, &reads);
    #[cfg(feature = "cluster")]
    let cluster = {
        let (lane, clock) = (lane.clone(), shared_context.clock);
        crate::cluster::Part::new(config, lane, clock, shared_context.seed[0])?
    };
    let lanes = Lanes::new(&shared_context, (lane.clone(), reads), hub.clone());
    let front = Front::new(lanes, shared_context.clone())?;
    reloader.attach(shared_context.clone());
    // The node's listeners beside its RPC.
    let doors = [
        DoorNodes::new(NodeDoor::Grpc, &config.grpc.node, &nodes)?,
        DoorNodes::new(NodeDoor::Rest, &config.rest.node, &nodes)?,
    ];
    let operator = Operator {
        shared_context: shared_context.clone(),
        reloader,
        lane: lane.clone(),
        nodes,
        hub: hub.clone(),
    };
    let handed = listeners.copies()?;
    let admin = listeners.admin.as_ref();
    let admin = admin.and_then(|listener| listener.local_addr().ok());
    let background = Background::start().map_err(ServeError::System)?;
    let watch = background.handle();
    let mut tasks = Tasks::new();
    tasks.spawn_on("the watching of the nodes", watching.run(), &watch);
    tasks.spawn_on("the subscriptions", subscribing.run(), &watch);
    #[cfg(feature = "cluster")]
    if let Some(part) = cluster {
        let part = part.run(shared_context.end.clone());
        tasks.spawn_on("the cluster", part, &watch);
    }
    if let Some(listener) = listeners.admin {
        spawn_operator(&mut tasks, &watch, listener, operator)?;
    }

    let address = listeners.front.local_addr().map_err(ServeError::System)?;
    announce(config, (address, admin), &known_nodes);
    if let Some(path) = config.listen.handover.clone() {
        let giving = hand_over_at(path, handed, (hub, predecessor), shared_context.clone());
        tasks.spawn_on("the handover", giving, &watch);
    }
    tasks.spawn(LANE, pump.run(shutdown.clone()));
    let of_clients = (listeners.front, [listeners.grpc, listeners.rest]);
    serve_all(&mut tasks, &front, of_clients, doors);
    drop(front);
    until_told(&mut tasks, &shutdown).await?;
    until_served(&mut tasks, shared_context.access.as_ref()).await;
    drop(ending);
    end_in_time(tasks).await;
    Ok(lane.status().accounts)
}

/// What the parts share, once the files that the configuration names are read.
fn context(mut config: Config, shutdown: &CancellationToken) -> Result<SharedContext, ServeError> {
    config.known = Arc::new(KnownKeys::load(config.keys.file.as_deref())?);
    let tls = tls::load(&config, UnixTime::now())?;
    let mut shared_context = SharedContext::new(config, shutdown.clone());
    shared_context.tls.follow(tls);
    let config = shared_context.config.current();
    let queues = written_down(&config, &shared_context)?;
    if !queues.is_empty() {
        let access = AccessLog::new(queues, config.log.access_sample);
        shared_context.shadow.write_to(&access);
        shared_context.access = Some(access);
    }
    Ok(shared_context)
}

/// Where the ends of requests go.
fn written_down(config: &Config, shared: &SharedContext) -> Result<Vec<Requests>, SettingError> {
    let mut queues = Vec::new();
    if let Some(path) = &config.log.access {
        let queue = access::to_file(Path::new(path), &shared.metrics.access_lost[0]);
        queues.push(queue.map_err(|error| SettingError::new("log.access", path, error))?);
    }
    #[cfg(feature = "otlp")]
    if let Some(collector) = &config.log.traces {
        let lost = &shared.metrics.access_lost[1];
        let queue = crate::traces::queue(collector, &shared.trust, lost);
        queues.push(queue.map_err(|error| SettingError::new("log.traces", collector, error))?);
    }
    Ok(queues)
}

/// Logs that clients can connect now, and tells systemd.
fn announce(config: &Config, (front, admin): (SocketAddr, Option<SocketAddr>), nodes: &str) {
    // Where the operator finds the page and the explanations.
    let (page, explain) = match admin {
        Some(admin) => (
            format!("http://{admin}/"),
            format!("http://{admin}/explain?ip=ADDRESS"),
        ),
        None => ("off (admin.addr)".to_owned(), "off".to_owned()),
    };
    info!(
        address = %front,
        %nodes,
        pace = %config.text("pace.mode"),
        ceiling = %config.fair.max_req,
        connections = config.connections(),
        %page,
        %explain,
        "serving"
    );
    handover::notify(NotifyState::Ready);
}

/// Serves clients at each listener.
fn serve_all(tasks: &mut Tasks, front: &Front, listeners: ClientListeners, doors: [DoorNodes; 2]) {
    let (rpc, others) = listeners;
    for ((name, nodes), listener) in [GRPC, REST].into_iter().zip(doors).zip(others) {
        if let Some(listener) = listener {
            let front = front.clone();
            tasks.spawn(name, async move {
                told(front.serve_door(listener, nodes).await);
            });
        }
    }
    let front = front.clone();
    tasks.spawn(CLIENTS, async move {
        told(front.serve(rpc).await);
    });
}

/// That of the RPC, and those of gRPC and REST.
type ClientListeners = (TcpListener, [Option<TcpListener>; 2]);

/// Serves the operator beside the nodes' watchers.
fn spawn_operator(
    tasks: &mut Tasks,
    watch: &Handle,
    listener: TcpListener,
    operator: Operator,
) -> Result<(), ServeError> {
    let listener = listener.into_std().map_err(ServeError::System)?;
    let serving = serve_operator(listener, Arc::new(operator));
    tasks.spawn_on("the operator's listener", serving, watch);
    Ok(())
}

/// Takes over from the process that served before, and subscribes to the queries of its clients, which come here. Goes on
/// until it is dropped.
async fn relieve(mut predecessor: Predecessor, hub: &Hub) {
    handover::notify(NotifyState::MainPid(std::process::id()));
    let queries = predecessor.relieve().await;
    info!(queries = queries.len(), "took over from another process");
    hub.expect(queries, predecessor).await;
}

/// Waits until no client is served any more, and that is written down.
async fn until_served(tasks: &mut Tasks, access: Option<&AccessLog>) {
    let is_serving = |tasks: &Tasks| {
        let mut names = [LANE, CLIENTS, GRPC, REST].iter();
        names.any(|task| tasks.contains_key(task))
    };
    while is_serving(tasks) {
        tasks.join_next().await;
    }
    if let Some(access) = access {
        // A disk that answers nothing does not keep the program from ending.
        let _ = timeout(GOODBYE, access.flush()).await;
    }
}

/// Takes the place of the process that served before, if there was one, and hands the sockets over to the one that
/// replaces this one; then nothing is accepted any more. Ends with the program.
async fn hand_over_at(
    path: String,
    listeners: Vec<(&'static str, OwnedFd)>,
    (hub, predecessor): (Hub, Option<Predecessor>),
    shared_context: SharedContext,
) {
    // Its connections end within two drains, unless that was another setting.
    let patience = 2 * shared_context.config.current().shutdown.drain;
    let SharedContext { leave, end, .. } = shared_context;
    let relieving = predecessor.map(|predecessor| timeout(patience, relieve(predecessor, &hub)));
    tokio::select! {
        // Its end is the end of nothing else.
        Some(Ok(())) = OptionFuture::from(relieving) => {}
        given = handover::give(Path::new(&path), &listeners, || hub.queries()) => match given {
            Ok(()) => leave.cancel(),
            Err(error) => warn!(%error, path, "no process can take the sockets over (listen.handover)"),
        },
        () = end.cancelled() => {}
    }
    drop(listeners);
    end.cancelled().await;
}

/// Waits for the shutdown, before which no task ends.
async fn until_told(tasks: &mut Tasks, shutdown: &CancellationToken) -> Result<(), ServeError> {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        Some((task, ended)) = tasks.join_next() => {
            Err(ServeError::Ended { task, reason: reason(ended.err()) })
        }
    }
}

/// Waits for the tasks in the background, which have the order to end.
async fn end_in_time(mut tasks: Tasks) {
    let ended = async { while tasks.join_next().await.is_some() {} };
    if timeout(GOODBYE, ended).await.is_err() {
        warn!("the nodes' watchers and the operator's listener were cut off");
    }
}

const LANE: &str = "the write lane";
const CLIENTS: &str = "the clients' listener";
const GRPC: &str = "the listener of gRPC";
const REST: &str = "the listener of REST";

/// Each node with its version, if it has reported one.
fn described(nodes: &Nodes) -> String {
    let node = |node: NodeState| match node.version.as_str() {
        "" => format!("{} (no answer yet)", node.endpoint),
        // A node's version cannot break the line.
        version => format!("{} ({})", node.endpoint, version.escape_debug()),
    };
    let nodes: Vec<String> = nodes.states().into_iter().map(node).collect();
    nodes.join(", ")
}

fn told(cut_off: usize) {
    if cut_off > 0 {
        warn!(
            cut_off,
            "connections were closed at the end of shutdown.drain"
        );
    }
}

/// Serves the operator on the runtime that this is called on.
async fn serve_operator(listener: std::net::TcpListener, operator: Arc<Operator>) {
    let SharedContext {
        metrics,
        end,
        leave,
        stop,
        ..
    } = operator.shared_context.clone();
    // The operator's socket as well is another process's once that serves; while this one goes down it is not.
    let ends = end.child_token();
    let (counted, left) = (Arc::clone(&metrics), ends.clone());
    let until_left = async move {
        leave.cancelled().await;
        if !stop.is_cancelled() {
            left.cancel();
        }
        end.cancelled().await;
    };
    let shown = ends.clone();
    let serve = move || {
        let (metrics, end) = (Arc::clone(&metrics), shown.clone());
        let (listener, operator) = (listener.try_clone(), Arc::clone(&operator));
        async move {
            match listener.and_then(TcpListener::from_std) {
                Ok(listener) => operator::serve(listener, metrics, operator, end).await,
                Err(error) => warn!(%error, "the operator cannot be served"),
            }
        }
    };
    let serving = keep_running(RestartedTask::OperatorListener, counted, ends, serve);
    tokio::join!(serving, until_left);
}

/// The thread that watches the nodes and serves the operator.
struct Background(Option<Runtime>);

/// How long its tasks may take to end.
const GOODBYE: Duration = Duration::from_secs(1);

impl Background {
    fn start() -> io::Result<Self> {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sentinel-watch")
            .enable_all()
            .build()
            .map(|runtime| Self(Some(runtime)))
    }

    fn handle(&self) -> Handle {
        let runtime = self.0.as_ref().expect("taken only when dropped");
        runtime.handle().clone()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime must not be waited for inside another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn lifecycle_94_a_task_that_ends_before_the_shutdown_ends_the_program() {
        for name in [LANE, CLIENTS] {
            let (mut tasks, shutdown) = (Tasks::new(), CancellationToken::new());
            tasks.spawn(name, async { panic!("a fault of the program") });
            tasks.spawn("another one", pending());
            let error = until_told(&mut tasks, &shutdown).await.unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(name) && text.contains("a fault of the program"),
                "{text}"
            );
            // A task that ended by order is no fault.
            tasks.spawn(name, async {});
            shutdown.cancel();
            assert!(until_told(&mut tasks, &shutdown).await.is_ok());
        }
    }
}
