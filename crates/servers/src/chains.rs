//! Real chains, each in a home of its own: of the Cosmos SDK with one validator (ibc-go's `simd`) on free ports, and btcd on
//! the regression-test network.

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

/// How to start a [`Simd`].
#[derive(Debug, Clone, Default)]
pub struct SimdOptions {
    /// The program; `.ci/simd` builds it.
    pub binary: PathBuf,
    /// Where its home is made; the system's temporary folder when `None`.
    pub folder: Option<PathBuf>,
    /// Other values for CometBFT's `config.toml`; addresses are set anyway, blocks come every second.
    pub config: Table,
    /// Other values for the SDK's `app.toml`; gas is free unless it sets a price.
    pub app: Table,
    /// Other values for `genesis.json`.
    pub genesis: Table,
    /// A program that ends it with us; see [`Process::start`].
    pub guard: Option<PathBuf>,
}

/// A running simd; its chain is [`Simd::CHAIN`], its coin `stake`. Dropping it kills it and removes its home.
#[derive(Debug)]
pub struct Simd {
    process: Process,
    address: SocketAddr,
    metrics: SocketAddr,
    // Removed after the process was killed: fields are dropped in this order.
    home: TempDir,
}

impl Simd {
    /// The chain's id.
    pub const CHAIN: &str = "tide-1";
    /// The wallet whose first account is the validator's: it has 999,500,000,000 stake left.
    pub const WALLET: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                              abandon about";

    /// Makes a chain, shows its genesis file to `endow`, which may write accounts into it, starts it and waits
    /// until it is ready.
    ///
    /// # Errors
    /// [`StartError`]; a port that was taken meanwhile is tried again with others. What `endow` reports is a
    /// [`StartError::Init`].
    pub fn start(
        options: &SimdOptions,
        endow: impl FnOnce(&Path) -> Result<(), String>,
        wait: &mut Wait<'_>,
    ) -> Result<Self, StartError> {
        let home = make_home(options.folder.as_deref(), ".simd-")?;
        initialise(&options.binary, home.path())?;
        let genesis = home.path().join("config").join("genesis.json");
        change(&genesis, |text| with_genesis(text, &options.genesis))?;
        endow(&genesis).map_err(|message| StartError::Init {
            step: "accounts into the genesis".to_owned(),
            message,
        })?;
        let (process, [address, metrics]) = launch(options, home.path(), wait)?;
        Ok(Self {
            process,
            address,
            metrics,
            home,
        })
    }

    /// Where its RPC listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its metrics are, unless the caller's values turn them off.
    #[must_use]
    pub const fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Its home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
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

/// A chain of one validator, with the SDK's own defaults.
fn initialise(binary: &Path, home: &Path) -> Result<(), StartError> {
    let run = |arguments: &str, input: &str| step(binary, home, arguments, input);
    // What the node calls itself.
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    let moniker = name.replace('.', "");
    run(&format!("init {moniker} --chain-id {}", Simd::CHAIN), "")?;
    run(
        "keys add validator --recover --keyring-backend test",
        Simd::WALLET,
    )?;
    run(
        "genesis add-genesis-account validator 1000000000000stake --keyring-backend test",
        "",
    )?;
    let gentx = "genesis gentx validator 500000000stake --keyring-backend test --chain-id";
    run(&format!("{gentx} {}", Simd::CHAIN), "")?;
    run("genesis collect-gentxs", "")
}

/// Starts the node on free ports and waits until it is ready.
fn launch(
    options: &SimdOptions,
    home: &Path,
    wait: &mut Wait<'_>,
) -> Result<(Process, [SocketAddr; 2]), StartError> {
    let [address, metrics] = [free_address(), free_address()];
    let blocks = table([("consensus.timeout_commit", "1s".into())]);
    let ports = table([
        ("rpc.laddr", format!("tcp://{address}").into()),
        ("rpc.pprof_laddr", "".into()),
        ("p2p.laddr", format!("tcp://{}", free_address()).into()),
    ]);
    let folder = home.join("config");
    change(&folder.join("config.toml"), |text| {
        let metrics = with_metrics(text, metrics);
        let tables = [&metrics, &blocks, &options.config, &ports];
        with_values("config.toml", text, &tables)
    })?;
    let price = table([("minimum-gas-prices", "0stake".into())]);
    let ports = table([("grpc.address", free_address().to_string().into())]);
    change(&folder.join("app.toml"), |text| {
        with_values("app.toml", text, &[&price, &ports, &options.app])
    })?;
    let arguments = all("start --grpc-web.enable=false --log_level error", home);
    let log = home.join("node.log");
    let guard = options.guard.as_deref();
    let mut process = Process::start("simd", &options.binary, &arguments, log, guard)?;
    process.wait_ready(address, wait)?;
    Ok((process, [address, metrics]))
}

fn all(arguments: &str, home: &Path) -> Vec<OsString> {
    let arguments = arguments.split_whitespace().map(OsString::from);
    arguments.chain(["--home".into(), home.into()]).collect()
}

/// One of simd's commands, with what it reads.
fn step(binary: &Path, home: &Path, arguments: &str, input: &str) -> Result<(), StartError> {
    let given = home.join("input");
    let cannot = || StartError::io(format!("cannot run {}", binary.display()));
    fs::write(&given, input).map_err(cannot())?;
    let mut command = Command::new(binary);
    command
        .args(all(arguments, home))
        // Each command makes a folder of its own there and leaves it.
        .env("TMPDIR", home)
        .stdin(fs::File::open(&given).map_err(cannot())?);
    output_of(&format!("simd {arguments}"), &mut command).map(drop)
}

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
        let [rpc, peers] = [free_address(), free_address()];
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
        let link = Link::before(peers, options.link)?;
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
