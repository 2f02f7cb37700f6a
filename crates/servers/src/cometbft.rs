//! A real CometBFT with one validator, in a home of its own on free ports.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use toml::Table;

use crate::link::Link;
use crate::listening::free_port;
use crate::process::StartError;
use crate::process::{Process, Wait, make_home};
use crate::settings::table;
use crate::settings::{with_genesis, with_metrics, with_values};

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
    home: Option<TempDir>,
}

impl CometBft {
    /// Starts a node in a fresh home on free ports and waits until it is ready.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: &CometBftOptions, wait: &mut Wait<'_>) -> Result<Self, StartError> {
        let home = make_home(options.folder.as_deref(), HOME)?;
        let path: OsString = home.path().into();
        call(&options.binary, &["init".into(), "--home".into(), path])?;
        let mut node = Self::at(home, options, free_port(), None)?;
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
        let count: OsString = validators.to_string().into();
        let path: OsString = made.path().into();
        call(
            &options.binary,
            &["testnet".into(), "--v".into(), count, "--o".into(), path],
        )?;
        let (mut homes, mut peers) = (Vec::new(), Vec::new());
        for number in 0..validators {
            let home = make_home(options.folder.as_deref(), HOME)?;
            for part in ["config", "data"] {
                let from = made.path().join(format!("node{number}")).join(part);
                let moved = fs::rename(&from, home.path().join(part));
                moved.map_err(StartError::io(format!("cannot move {}", from.display())))?;
            }
            let arguments = ["show-node-id".into(), "--home".into(), home.path().into()];
            let id = call(&options.binary, &arguments)?;
            let port = free_port();
            let mut dialled = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let link = options.link.map(|rate| Link::open(dialled, rate));
            let link = link.transpose();
            let link = link.map_err(StartError::io("cannot relay a node's link"))?;
            dialled = link.as_ref().map_or(dialled, Link::address);
            peers.push(format!("{id}@{dialled}"));
            homes.push((home, port, link));
        }
        let peers = peers.join(",");
        let mut nodes = Vec::new();
        for (home, port, link) in homes {
            let mut node = Self::at(home, options, port, Some(&peers))?;
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
        p2p: u16,
        peers: Option<&str>,
    ) -> Result<Self, StartError> {
        let [address, metrics] =
            [free_port(), free_port()].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        configure(home.path(), options, [address, metrics], (p2p, peers))?;
        Ok(Self {
            process: None,
            options: options.clone(),
            address,
            metrics,
            link: None,
            home: Some(home),
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
    ///
    /// # Panics
    /// Never: only [`CometBft::keep_home`] takes the home, and it takes the node with it.
    pub fn home(&self) -> &Path {
        self.home.as_ref().expect("the home is there").path()
    }

    /// Kills the node and leaves its home where it is, for a look at it.
    #[must_use]
    pub fn keep_home(mut self) -> PathBuf {
        self.process = None;
        self.home.take().expect("the home is there").keep()
    }
}

/// What the program prints when it is called in this way.
fn call(binary: &Path, arguments: &[OsString]) -> Result<String, StartError> {
    let output = Command::new(binary)
        .args(arguments)
        .output()
        .map_err(StartError::io(format!("cannot run {}", binary.display())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    let message = if output.stderr.is_empty() {
        output.stdout
    } else {
        output.stderr
    };
    let message = String::from_utf8_lossy(&message);
    Err(StartError::Init {
        step: "cometbft init".to_owned(),
        message: message.trim().into(),
    })
}

/// The ports, the peers and the caller's values; everything else stays as `cometbft` wrote it.
fn configure(
    home: &Path,
    options: &CometBftOptions,
    [address, metrics]: [SocketAddr; 2],
    (p2p, peers): (u16, Option<&str>),
) -> Result<(), StartError> {
    let ports = table([
        ("rpc.laddr", format!("tcp://{address}").into()),
        ("rpc.pprof_laddr", "".into()),
        ("p2p.laddr", format!("tcp://127.0.0.1:{p2p}").into()),
        ("p2p.persistent_peers", peers.unwrap_or_default().into()),
    ]);
    // Its address book takes no loopback addresses, and no two of one host, otherwise.
    let local = table([
        ("p2p.addr_book_strict", false.into()),
        ("p2p.allow_duplicate_ip", true.into()),
    ]);
    let local = if peers.is_some() { local } else { Table::new() };
    let path = home.join("config").join("config.toml");
    let text = read(&path)?;
    let metrics = with_metrics(&text, metrics);
    let tables = [&metrics, &options.config, &ports, &local];
    let text = with_values("config.toml", &text, &tables)?;
    write(&path, &text)?;
    if options.genesis.is_empty() {
        return Ok(());
    }
    let path = home.join("config").join("genesis.json");
    let text = with_genesis(&read(&path)?, &options.genesis)?;
    write(&path, &text)
}

fn read(path: &Path) -> Result<String, StartError> {
    fs::read_to_string(path).map_err(StartError::io(format!("cannot read {}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), StartError> {
    fs::write(path, text).map_err(StartError::io(format!("cannot write {}", path.display())))
}
