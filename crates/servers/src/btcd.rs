//! A real btcd on the regression-test network, in a home of its own.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::link::Link;
use crate::listening::free_port;
use crate::process::StartError;
use crate::process::{Process, Wait, make_home};

/// How a btcd is started.
#[derive(Debug, Clone, Default)]
pub struct BtcdOptions {
    /// The program.
    pub binary: PathBuf,
    /// Where its home is made; the system's folder for temporary files otherwise.
    pub folder: Option<PathBuf>,
    /// The address that its blocks pay to.
    pub mining_address: String,
    /// The peer-to-peer address of a node to connect to.
    pub connect: Option<SocketAddr>,
    /// Bits a second in each direction between it and the nodes that connect to [`Btcd::dialled`].
    pub link: Option<f64>,
    /// A program that ends it with us; see [`Process::start`].
    pub guard: Option<PathBuf>,
}

/// A running btcd with user and password [`Btcd::USER`]. Dropping it kills it and removes its home.
#[derive(Debug)]
pub struct Btcd {
    process: Process,
    rpc: SocketAddr,
    peers: SocketAddr,
    link: Option<Link>,
    // Removed after the process has ended: fields are dropped in this order.
    _home: TempDir,
}

impl Btcd {
    /// User and password of its RPC.
    pub const USER: &str = "txgen";

    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be run, ended, or took longer than it may.
    pub fn start(options: &BtcdOptions, wait: &mut Wait<'_>) -> Result<Self, StartError> {
        let home = make_home(options.folder.as_deref(), ".btcd-")?;
        let path = |name: &str| home.path().join(name);
        let config = path("btcd.conf");
        fs::write(&config, "").map_err(StartError::io("cannot write the node's configuration"))?;
        let rpc = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let peers = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let user = Self::USER;
        let mut arguments = vec![
            "--regtest".to_owned(),
            "--nodnsseed".to_owned(),
            "--notls".to_owned(),
            // As Bitcoin Core before it replaced transactions by default.
            "--rejectreplacement".to_owned(),
            format!("--rpcuser={user}"),
            format!("--rpcpass={user}"),
            // By default 10 and 20: a load needs more.
            "--rpcmaxclients=200".to_owned(),
            "--rpcmaxconcurrentreqs=200".to_owned(),
            // The largest that the chain takes; by default three quarters of it.
            "--blockmaxsize=950000".to_owned(),
            "--blockmaxweight=3990000".to_owned(),
            "--blockprioritysize=0".to_owned(),
            format!("--rpclisten={rpc}"),
            format!("--listen={peers}"),
            format!("--miningaddr={}", options.mining_address),
            format!("--configfile={}", config.display()),
            format!("--datadir={}", path("data").display()),
            format!("--logdir={}", path("logs").display()),
        ];
        arguments.extend(options.connect.map(|peer| format!("--connect={peer}")));
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        let guard = options.guard.as_deref();
        let log = path("node.log");
        let mut process = Process::start("btcd", &options.binary, &arguments, log, guard)?;
        process.wait_ready(rpc, wait)?;
        let link = options.link.map(|rate| Link::open(peers, rate)).transpose();
        let link = link.map_err(StartError::io("cannot relay the node's link"))?;
        Ok(Self {
            process,
            rpc,
            peers,
            link,
            _home: home,
        })
    }

    /// Where its RPC listens.
    pub const fn address(&self) -> SocketAddr {
        self.rpc
    }

    /// Where it listens for other nodes.
    pub const fn peers(&self) -> SocketAddr {
        self.peers
    }

    /// Where other nodes connect to: through its link, if it has one.
    #[must_use]
    pub fn dialled(&self) -> SocketAddr {
        self.link.as_ref().map_or(self.peers, Link::address)
    }

    /// Its process.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Its process.
    pub const fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
