//! Real chains for tests, of CometBFT and of the Cosmos SDK: one validator, a fresh home, free ports, stopped when dropped.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use servers::{COMETBFT_VERSION, CometBftOptions, Process, SimdOptions, StartError, Wait, assign};
use thiserror::Error;
use toml::Table;

use crate::http::Http;

/// How long one probe of `/status` may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two looks at `/status`.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long the node gets to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How to start a [`CometBft`].
#[derive(Debug, Clone)]
pub struct CometOptions {
    /// Values for `config.toml`, as dotted key and value; later ones win. A value that is no TOML is a
    /// text.
    pub config: Vec<(String, String)>,
    /// What `--proxy_app` gets; `kvstore` by default.
    pub app: String,
    /// The name of its chain; one of its own by default.
    pub chain_id: Option<String>,
    /// How long the node may take until `/status` shows height 1; 30 s by default.
    pub start_timeout: Duration,
}

impl Default for CometOptions {
    fn default() -> Self {
        Self {
            config: Vec::new(),
            app: "kvstore".to_owned(),
            chain_id: None,
            start_timeout: Duration::from_secs(30),
        }
    }
}

impl CometOptions {
    /// Adds a value for `config.toml`, for example `.set("consensus.timeout_commit", "100ms")`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.config.push((key.to_owned(), value.to_string()));
        self
    }

    fn settings(&self) -> Result<CometBftOptions, CometError> {
        let named = self.chain_id.iter();
        Ok(CometBftOptions {
            binary: find_binary().ok_or(CometError::NotInstalled)?,
            config: self.table()?,
            genesis: named
                .map(|name| ("chain_id".to_owned(), name.clone().into()))
                .collect(),
            app: self.app.clone(),
            ..CometBftOptions::default()
        })
    }

    /// Quiet logs first, then the caller's values.
    fn table(&self) -> Result<Table, CometError> {
        let mut table = Table::new();
        let defaults = [
            ("instrumentation.prometheus", "false"),
            ("log_level", "error"),
        ];
        let own = self.config.iter().map(|(key, value)| (&**key, &**value));
        for (key, value) in defaults.into_iter().chain(own) {
            let (_, value) = servers::parse_assignment(&format!("x={value}"))?;
            assign(&mut table, key, value)?;
        }
        Ok(table)
    }
}

/// Why a CometBFT could not be started or stopped.
#[derive(Debug, Error)]
pub enum CometError {
    /// The binary is nowhere.
    #[error(
        "cometbft is neither in COMETBFT_BIN nor in PATH nor in the Go binaries: install it with \
         `go install github.com/cometbft/cometbft/cmd/cometbft@v{COMETBFT_VERSION}`"
    )]
    NotInstalled,
    /// A key of an override is malformed.
    #[error(transparent)]
    Key(#[from] servers::DottedError),
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A running CometBFT with one validator; stopped and cleaned up when dropped.
///
/// All calls block (the longest, [`Self::start`], for about two seconds), so an async test should
/// start it before it needs its runtime, or in `spawn_blocking`.
#[derive(Debug)]
pub struct CometBft {
    node: servers::CometBft,
    start_timeout: Duration,
}

impl CometBft {
    /// Starts a node in a fresh home on free ports and waits until it has made a block.
    ///
    /// # Errors
    /// [`CometError`]; texts end with what to do or with the node's own log.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a test writes its options in place"
    )]
    pub fn start(options: CometOptions) -> Result<Self, CometError> {
        let settings = options.settings()?;
        let node = with_wait(options.start_timeout, |wait| {
            servers::CometBft::start(&settings, wait)
        })?;
        Ok(Self {
            node,
            start_timeout: options.start_timeout,
        })
    }

    /// Starts a network of validators in the same way.
    ///
    /// # Errors
    /// As [`CometBft::start`].
    pub fn network(options: &CometOptions, validators: u32) -> Result<Vec<Self>, CometError> {
        let settings = options.settings()?;
        let nodes = with_wait(options.start_timeout, |wait| {
            servers::CometBft::network(&settings, validators, wait)
        })?;
        let node = |node| Self {
            node,
            start_timeout: options.start_timeout,
        };
        Ok(nodes.into_iter().map(node).collect())
    }

    /// Starts the node again in its home, on its old ports, and waits until it answers; a running
    /// one is stopped first.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<(), CometError> {
        self.stop();
        let timeout = self.start_timeout;
        Ok(with_wait(timeout, |wait| self.node.restart(wait))?)
    }

    /// Ends the process (asks first, kills after 10 s) and keeps the home. Does nothing if it is
    /// stopped already.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.node.take_process() {
            process.stop(STOP_TIMEOUT);
        }
    }

    /// Ends the process at once, as a crash would (`SIGKILL`), and keeps the home.
    pub fn kill(&mut self) {
        drop(self.node.take_process());
    }

    /// Freezes the process (`SIGSTOP`): connections stay open, nothing is read or answered.
    pub fn freeze(&self) {
        if let Some(process) = self.node.process() {
            process.freeze();
        }
    }

    /// Lets a frozen process run on (`SIGCONT`).
    pub fn thaw(&self) {
        if let Some(process) = self.node.process() {
            process.thaw();
        }
    }

    /// Where the RPC listens.
    pub fn address(&self) -> SocketAddr {
        self.node.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `ws://127.0.0.1:PORT/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.address())
    }

    /// A small blocking client of the RPC.
    pub fn http(&self) -> Http {
        Http::new(self.address(), Duration::from_secs(15))
    }

    /// The node's home folder.
    pub fn home(&self) -> &Path {
        self.node.home()
    }

    /// Process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.node.process().map(Process::id)
    }

    /// `latest_block_height` of `/status`, or none while the node does not answer.
    pub fn height(&self) -> Option<u64> {
        height_at(self.address())
    }

    /// Waits until the chain has reached `height`; false if it has not within `timeout`.
    pub fn wait_height(&self, height: u64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            if self.height().is_some_and(|now| now >= height) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for CometBft {
    fn drop(&mut self) {
        if thread::panicking() {
            self.node.keep_home();
            let _ = writeln!(
                io::stderr(),
                "cometbft's home is kept for a look: {}",
                self.home().display()
            );
        }
    }
}

/// Waits until `/status` shows height 1.
fn with_wait<T>(
    timeout: Duration,
    start: impl FnOnce(&mut Wait<'_>) -> Result<T, StartError>,
) -> Result<T, StartError> {
    start(&mut Wait {
        is_ready: &mut |address| height_at(address).is_some_and(|height| height >= 1),
        is_cancelled: &|| false,
        timeout,
    })
}

fn height_at(address: SocketAddr) -> Option<u64> {
    let answer = Http::new(address, PROBE_TIMEOUT).get("/status").ok()?;
    latest_height(&answer.text())
}

/// `COMETBFT_BIN`, else `PATH`, else the folder that `go install` fills.
fn find_binary() -> Option<PathBuf> {
    let named = env::var_os("COMETBFT_BIN").map(PathBuf::from);
    servers::find(named.as_deref(), "cometbft").or_else(|| {
        let output = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
        let root = String::from_utf8(output.stdout).ok()?;
        let candidate = Path::new(root.trim()).join("bin").join("cometbft");
        candidate.is_file().then_some(candidate)
    })
}

pub(crate) fn latest_height(status: &str) -> Option<u64> {
    let (_, rest) = status.split_once("\"latest_block_height\":\"")?;
    rest.split_once('"')?.0.parse().ok()
}

/// A running simd; its chain is [`Simd::CHAIN`], its coin `stake`.
#[derive(Debug)]
pub struct Simd(servers::Simd);

/// Why a simd could not be started.
#[derive(Debug, Error)]
pub enum SimdError {
    /// The binary is nowhere.
    #[error("simd is neither in SIMD_BIN nor in PATH: build it with .ci/simd")]
    NotInstalled,
    /// The one of SDK 0.53 is nowhere.
    #[error("SIMD_053_BIN names no simd of Cosmos SDK 0.53: build it with .ci/simd 0.53")]
    NoUnordered,
    /// It does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Simd {
    /// The chain's id.
    pub const CHAIN: &str = servers::Simd::CHAIN;
    /// The wallet whose first account is the validator's.
    pub const WALLET: &str = servers::Simd::WALLET;

    /// Starts a chain with a block every second or so and waits for its first one. `prepare` gets the genesis
    /// file to write accounts into, with the least price of gas given.
    ///
    /// # Errors
    /// [`SimdError`].
    pub fn start(min_gas_price: &str, prepare: impl FnOnce(&Path)) -> Result<Self, SimdError> {
        let app = format!("minimum-gas-prices = \"{min_gas_price}\"");
        Self::start_with(("", &app), prepare)
    }

    /// The same, with other values for keys of `config.toml` and `app.toml`.
    ///
    /// # Errors
    /// [`SimdError`].
    ///
    /// # Panics
    /// The values are no TOML.
    pub fn start_with(
        (config, app): (&str, &str),
        prepare: impl FnOnce(&Path),
    ) -> Result<Self, SimdError> {
        let binary = Self::binary()?;
        Self::launch(binary, (config, app), prepare, FIRST_ANSWERS)
    }

    /// A node of another one's chain without peers, which therefore catches up for ever.
    ///
    /// # Errors
    /// [`SimdError`].
    ///
    /// # Panics
    /// The other one's genesis cannot be copied.
    pub fn start_alone(of: &Self) -> Result<Self, SimdError> {
        let copied = of.home().join("config/genesis.json");
        let copy = |genesis: &Path| {
            fs::copy(copied, genesis).expect("a copy");
        };
        Self::launch(Self::binary()?, ("", ""), copy, 0)
    }

    /// A chain of SDK 0.53 that takes unordered transactions for up to ten minutes, at this least price of gas.
    ///
    /// # Errors
    /// [`SimdError`].
    pub fn start_unordered(
        min_gas_price: &str,
        prepare: impl FnOnce(&Path),
    ) -> Result<Self, SimdError> {
        let app = format!("minimum-gas-prices = \"{min_gas_price}\"");
        let named = env::var_os("SIMD_053_BIN").map(PathBuf::from);
        let binary = named.ok_or(SimdError::NoUnordered)?;
        Self::launch(binary, ("", &app), prepare, FIRST_ANSWERS)
    }

    fn binary() -> Result<PathBuf, SimdError> {
        let named = env::var_os("SIMD_BIN").map(PathBuf::from);
        servers::find(named.as_deref(), "simd").ok_or(SimdError::NotInstalled)
    }

    fn launch(
        binary: PathBuf,
        (config, app): (&str, &str),
        prepare: impl FnOnce(&Path),
        first_height: u64,
    ) -> Result<Self, SimdError> {
        let table = |text: &str| text.parse::<Table>().expect("values are TOML");
        let options = SimdOptions {
            binary,
            config: table(config),
            app: table(app),
            ..SimdOptions::default()
        };
        let mut wait = Wait {
            is_ready: &mut |address| {
                let status = Http::new(address, PROBE_TIMEOUT).get("/status");
                let text = status.map(|answer| answer.text()).unwrap_or_default();
                latest_height(&text).is_some_and(|height| height >= first_height)
            },
            is_cancelled: &|| false,
            timeout: START_TIMEOUT,
        };
        let endow = |genesis: &Path| {
            prepare(genesis);
            Ok(())
        };
        Ok(Self(servers::Simd::start(&options, endow, &mut wait)?))
    }

    /// Where its RPC listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `ws://127.0.0.1:PORT/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.address())
    }

    /// The node's home folder.
    pub fn home(&self) -> &Path {
        self.0.home()
    }
}

/// It shows a block before its application answers for it.
const FIRST_ANSWERS: u64 = 2;
/// It reads its genesis, which may have many accounts.
const START_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_is_read_from_status() {
        assert_eq!(
            latest_height(r#"{"sync_info":{"latest_block_height":"12","x":1}}"#),
            Some(12)
        );
        assert_eq!(latest_height("{}"), None);
    }

    #[test]
    fn the_message_says_how_to_install() {
        assert!(
            CometError::NotInstalled
                .to_string()
                .contains("go install github.com/cometbft/cometbft")
        );
    }

    #[test]
    #[ignore = "needs cometbft"]
    fn a_node_starts_stops_and_starts_again_on_its_chain() {
        let options = CometOptions::default().set("consensus.timeout_commit", "50ms");
        let mut node = CometBft::start(options).unwrap();
        assert!(node.wait_height(3, Duration::from_secs(20)));
        let url = node.rpc_url();
        node.stop();
        assert_eq!(node.height(), None);
        node.restart().unwrap();
        assert_eq!(node.rpc_url(), url);
        assert!(node.height().unwrap() >= 3);
    }

    #[test]
    #[ignore = "needs cometbft"]
    fn a_wrong_key_is_an_error_and_not_a_default() {
        let error = CometBft::start(CometOptions::default().set("consensus.timeout_comit", "1s"))
            .unwrap_err();
        assert!(error.to_string().contains("timeout_comit"));
    }
}
