//! A real chain of the Cosmos SDK for tests: one validator, a fresh home, free ports, stopped when dropped.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use servers::{Process, StartError, Wait, free_port};
use thiserror::Error;

use crate::comet::latest_height;
use crate::http::Http;

/// A running simd; its chain is [`Simd::CHAIN`], its coin `stake`.
#[derive(Debug)]
pub struct Simd {
    _process: Process,
    address: SocketAddr,
    // Removed after the process was killed: fields are dropped in this order.
    home: tempfile::TempDir,
}

/// Why a simd could not be started.
#[derive(Debug, Error)]
pub enum SimdError {
    /// The binary is nowhere.
    #[error("simd is neither in SIMD_BIN nor in PATH: build it with .ci/simd")]
    NotInstalled,
    /// A step before the start failed.
    #[error("`simd {arguments}` failed: {message}")]
    Step {
        /// What was asked.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Simd {
    /// The chain's id.
    pub const CHAIN: &str = "tide-1";
    /// The wallet whose first account is the validator's: it has 999,500,000,000 stake left.
    pub const WALLET: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                              abandon about";

    /// Starts a chain with a block every second or so and waits for its first one. `prepare` gets the genesis
    /// file to write accounts into, with the least price of gas given.
    ///
    /// # Errors
    /// [`SimdError`].
    pub fn start(min_gas_price: &str, prepare: impl FnOnce(&Path)) -> Result<Self, SimdError> {
        let named = env::var_os("SIMD_BIN").map(PathBuf::from);
        let binary = servers::find(named.as_deref(), "simd").ok_or(SimdError::NotInstalled)?;
        let home = tempfile::tempdir().map_err(StartError::io("cannot make a home for simd"))?;
        let run = |arguments: &str, input: &str| step(&binary, home.path(), arguments, input);
        // What the node calls itself: another one may have taken the port that was free a moment ago.
        let name = home.path().file_name().unwrap_or_default();
        let moniker = name.to_string_lossy().replace('.', "node");
        run(&format!("init {moniker} --chain-id {}", Self::CHAIN), "")?;
        run(
            "keys add validator --recover --keyring-backend test",
            Self::WALLET,
        )?;
        run(
            "genesis add-genesis-account validator 1000000000000stake --keyring-backend test",
            "",
        )?;
        let gentx = "genesis gentx validator 500000000stake --keyring-backend test --chain-id";
        run(&format!("{gentx} {}", Self::CHAIN), "")?;
        run("genesis collect-gentxs", "")?;
        let config = home.path().join("config");
        prepare(&config.join("genesis.json"));
        replace(
            &config.join("config.toml"),
            "timeout_commit = \"5s\"",
            "timeout_commit = \"1s\"",
        )?;
        let mut attempt = 1;
        let (process, address) = loop {
            match launch(&binary, home.path(), &moniker, min_gas_price) {
                Err(StartError::Ended { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                started => break started?,
            }
        };
        Ok(Self {
            _process: process,
            address,
            home,
        })
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `ws://127.0.0.1:PORT/websocket`.
    #[must_use]
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.address)
    }

    /// The node's home folder.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

/// Starts the node on free ports and waits for its first block.
fn launch(
    binary: &Path,
    home: &Path,
    moniker: &str,
    min_gas_price: &str,
) -> Result<(Process, SocketAddr), StartError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let arguments = format!(
        "start --rpc.laddr tcp://{address} --p2p.laddr tcp://127.0.0.1:{} --grpc.address 127.0.0.1:{} \
         --grpc-web.enable=false --rpc.pprof_laddr= --minimum-gas-prices {min_gas_price} --log_level error",
        free_port(),
        free_port()
    );
    let arguments = all(&arguments, home);
    let log = home.join("node.log");
    let mut process = Process::start("simd", binary, &arguments, log, None)?;
    let mut wait = Wait {
        is_ready: &mut |address| {
            let status = Http::new(address, PROBE_TIMEOUT).get("/status");
            let text = status.map(|answer| answer.text()).unwrap_or_default();
            text.contains(moniker) && latest_height(&text).is_some_and(|height| height >= 1)
        },
        is_cancelled: &|| false,
        timeout: START_TIMEOUT,
    };
    process.wait_ready(address, &mut wait)?;
    Ok((process, address))
}

fn all(arguments: &str, home: &Path) -> Vec<OsString> {
    let arguments = arguments.split_whitespace().map(OsString::from);
    arguments.chain(["--home".into(), home.into()]).collect()
}

/// One of simd's commands, with what it reads.
fn step(binary: &Path, home: &Path, arguments: &str, input: &str) -> Result<(), SimdError> {
    let given = home.join("input");
    let cannot = || StartError::io(format!("cannot run {}", binary.display()));
    fs::write(&given, input).map_err(cannot())?;
    let output = Command::new(binary)
        .args(all(arguments, home))
        .stdin(fs::File::open(&given).map_err(cannot())?)
        .output()
        .map_err(cannot())?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(SimdError::Step {
        arguments: arguments.to_owned(),
        message: message.lines().last().unwrap_or_default().to_owned(),
    })
}

fn replace(path: &Path, from: &str, to: &str) -> Result<(), StartError> {
    let cannot = || StartError::io(format!("cannot change {}", path.display()));
    let text = fs::read_to_string(path).map_err(cannot())?;
    fs::write(path, text.replace(from, to)).map_err(cannot())
}

/// How often free ports are looked for.
const ATTEMPTS: u32 = 3;
/// How long one probe of `/status` may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// It reads its genesis, which may have many accounts.
const START_TIMEOUT: Duration = Duration::from_secs(60);
