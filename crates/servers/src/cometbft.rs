//! A real CometBFT with one validator, in a home of its own on free ports.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use toml::Table;

use crate::link::Link;
use crate::listening::free_address;
use crate::process::{Process, StartError, Wait, change, make_home, output_of};
use crate::settings::{table, with_genesis, with_metrics, with_values};

/// The version that everything is tested with.
pub const COMETBFT_VERSION: &str = "0.38.17";
const HOME: &str = ".node-";

/// How to start a [`CometBft`].
#[derive(Debug, Clone, Default)]
pub struct CometBftOptions {
    /// The program; see [`crate::find`].
    pub binary: PathBuf,
    /// Where its home is made; the system's temporary folder when `None`.
    pub folder: Option<PathBuf>,
    /// What `--proxy_app` gets.
    pub app: String,
    /// Other values for `config.toml`; addresses are set anyway.
    pub config: Table,
    /// Other values for `genesis.json`.
    pub genesis: Table,
    /// Bits a second in each direction between each validator of a network and those that connect to it.
    pub link: Option<f64>,
    /// A program that ends what it starts when we end, see [`Process::start`].
    pub guard: Option<PathBuf>,
}

/// A CometBFT. Dropping it kills it and removes its home.
#[derive(Debug)]
pub struct CometBft {
    process: Option<Process>,
    options: CometBftOptions,
    address: SocketAddr,
    metrics: SocketAddr,
    /// What the other validators of its network connect to.
    link: Option<Link>,
    // Removed after the process was killed: fields are dropped in this order.
    home: TempDir,
}

impl CometBft {
    /// Starts a node in a fresh home on free ports and waits until it is ready.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: &CometBftOptions, wait: &mut Wait<'_>) -> Result<Self, StartError> {
        let home = make_home(options.folder.as_deref(), HOME)?;
        let mut init = Command::new(&options.binary);
        output_of(
            "cometbft init",
            init.args(["init", "--home"]).arg(home.path()),
        )?;
        let mut node = Self::at(home, options, free_address(), None)?;
        node.restart(wait)?;
        Ok(node)
    }

    /// Starts a network of so many validators on this machine, each linked with all others, in fresh homes that
    /// `cometbft testnet` made, and waits until each is ready.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn network(
        options: &CometBftOptions,
        validators: u32,
        wait: &mut Wait<'_>,
    ) -> Result<Vec<Self>, StartError> {
        let made = make_home(options.folder.as_deref(), HOME)?;
        let mut testnet = Command::new(&options.binary);
        let testnet = testnet.args(["testnet", "--v", &validators.to_string(), "--o"]);
        output_of("cometbft testnet", testnet.arg(made.path()))?;
        let (mut homes, mut peers) = (Vec::new(), Vec::new());
        for number in 0..validators {
            let home = make_home(options.folder.as_deref(), HOME)?;
            for part in ["config", "data"] {
                let from = made.path().join(format!("node{number}")).join(part);
                let moved = fs::rename(&from, home.path().join(part));
                moved.map_err(StartError::io(format!("cannot move {}", from.display())))?;
            }
            let mut show = Command::new(&options.binary);
            let show = show.args(["show-node-id", "--home"]).arg(home.path());
            let id = output_of("cometbft show-node-id", show)?;
            let p2p = free_address();
            let link = Link::before(p2p, options.link)?;
            let dialled = link.as_ref().map_or(p2p, Link::address);
            peers.push(format!("{id}@{dialled}"));
            homes.push((home, p2p, link));
        }
        let peers = peers.join(",");
        let mut nodes = Vec::new();
        for (home, p2p, link) in homes {
            let mut node = Self::at(home, options, p2p, Some(&peers))?;
            node.link = link;
            node.spawn()?;
            nodes.push(node);
        }
        // No block is made before two thirds of them are there.
        for node in &mut nodes {
            let address = node.address;
            if let Some(process) = &mut node.process {
                process.wait_ready(address, wait)?;
            }
        }
        Ok(nodes)
    }

    /// A node that is not running, with its home configured.
    fn at(
        home: TempDir,
        options: &CometBftOptions,
        p2p: SocketAddr,
        peers: Option<&str>,
    ) -> Result<Self, StartError> {
        let [address, metrics] = [free_address(), free_address()];
        configure(home.path(), options, [address, metrics], (p2p, peers))?;
        Ok(Self {
            process: None,
            options: options.clone(),
            address,
            metrics,
            link: None,
            home,
        })
    }

    /// Starts the node again in its home, on its old ports, and waits until it is ready; a running one
    /// is killed first.
    ///
    /// # Errors
    /// As [`CometBft::start`].
    pub fn restart(&mut self, wait: &mut Wait<'_>) -> Result<(), StartError> {
        let address = self.address;
        self.spawn()?.wait_ready(address, wait)
    }

    /// Starts its process, in place of a running one.
    fn spawn(&mut self) -> Result<&mut Process, StartError> {
        self.process = None;
        let arguments: [OsString; 4] = [
            "node".into(),
            "--home".into(),
            self.home().into(),
            format!("--proxy_app={}", self.options.app).into(),
        ];
        let process = Process::start(
            "cometbft",
            &self.options.binary,
            &arguments,
            self.home().join("node.log"),
            self.options.guard.as_deref(),
        )?;
        Ok(self.process.insert(process))
    }

    /// Where its RPC listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its metrics are, unless the caller's values turn them off.
    #[must_use]
    pub fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Its process; `None` after [`CometBft::take_process`].
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// The same, to be stopped or asked whether it has ended.
    pub fn process_mut(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Hands its process over, to be stopped; the home stays.
    pub fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Its home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Leaves its home where it is when it is dropped, for a look at it.
    pub fn keep_home(&mut self) {
        self.home.disable_cleanup(true);
    }
}

/// The ports, the peers and the caller's values; everything else stays as `cometbft` wrote it.
fn configure(
    home: &Path,
    options: &CometBftOptions,
    [address, metrics]: [SocketAddr; 2],
    (p2p, peers): (SocketAddr, Option<&str>),
) -> Result<(), StartError> {
    let ports = table([
        ("rpc.laddr", format!("tcp://{address}").into()),
        ("rpc.pprof_laddr", "".into()),
        ("p2p.laddr", format!("tcp://{p2p}").into()),
        ("p2p.persistent_peers", peers.unwrap_or_default().into()),
    ]);
    // Its address book takes no loopback addresses, and no two of one host, otherwise.
    let local = table([
        ("p2p.addr_book_strict", false.into()),
        ("p2p.allow_duplicate_ip", true.into()),
    ]);
    let local = if peers.is_some() { local } else { Table::new() };
    let folder = home.join("config");
    change(&folder.join("config.toml"), |text| {
        let metrics = with_metrics(text, metrics);
        let tables = [&metrics, &options.config, &ports, &local];
        with_values("config.toml", text, &tables)
    })?;
    if options.genesis.is_empty() {
        return Ok(());
    }
    change(&folder.join("genesis.json"), |text| {
        with_genesis(text, &options.genesis)
    })
}
