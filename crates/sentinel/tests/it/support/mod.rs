//! A proxy and a built-in node on free ports.

pub(crate) mod load;
pub(crate) mod websocket;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use devnode::DevNode;
use sentinel::config::Config;
use sentinel::lane::Accounts;
use sentinel::serve::{Listeners, ServeError, serve};
use testkit::Http;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A built-in node on a thread of its own.
pub(crate) struct Node {
    pub(crate) node: DevNode,
    _runtime: Runtime,
}

impl Node {
    /// A node with blocks every 200 ms.
    pub(crate) fn start() -> Self {
        Self::with(|config| config.block_interval = Duration::from_millis(200))
    }

    pub(crate) fn with(change: impl FnOnce(&mut devnode::Config)) -> Self {
        let mut config = devnode::Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ..devnode::Config::default()
        };
        change(&mut config);
        let runtime = runtime();
        let (node, worker) = runtime.block_on(DevNode::bind(config)).unwrap();
        runtime.spawn(worker);
        Self {
            node,
            _runtime: runtime,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.node.rpc_url()
    }
}

/// A proxy on a thread of its own.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<Result<Accounts, ServeError>>,
    runtime: Runtime,
}

impl Proxy {
    /// A proxy in front of `url`.
    pub(crate) fn start(url: &str) -> Self {
        Self::with(url, |_| {})
    }

    pub(crate) fn with(url: &str, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.upstream.urls = vec![url.parse().unwrap()];
        config.listen.addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.admin.addr = Some(config.listen.addr);
        change(&mut config);
        let runtime = runtime();
        let shutdown = CancellationToken::new();
        let listeners = runtime.block_on(Listeners::bind(&config)).unwrap();
        let address = listeners.address().unwrap();
        let admin = listeners.admin.as_ref().unwrap().local_addr().unwrap();
        let running = runtime.spawn(serve(listeners, config, shutdown.clone()));
        Self {
            address,
            admin,
            shutdown,
            running,
            runtime,
        }
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(self.address, Duration::from_secs(20))
    }

    pub(crate) fn admin(&self) -> Http {
        Http::new(self.admin, Duration::from_secs(5))
    }

    /// Ends it in order; how every admitted write ended.
    pub(crate) fn stop(self) -> Accounts {
        self.shutdown.cancel();
        self.runtime.block_on(self.running).unwrap().unwrap()
    }
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A JSON-RPC request for a broadcast.
pub(crate) fn broadcast(id: u64, method: rpc::BroadcastMethod, tx: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    rpc::encode_broadcast(&mut body, id, method, tx);
    body
}
