//! A real CometBFT node for tests: fresh home, free ports, stopped when dropped.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use thiserror::Error;

use crate::config::{ConfigError, set_value};
use crate::http::Http;
use crate::ports::free_port;

/// The version every test is written against.
const VERSION: &str = "0.38.17";
/// How long one probe of `/status` may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two looks at a process or at `/status`.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long the node gets to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines of the node's log that an error quotes.
const LOG_TAIL_LINES: usize = 12;

/// How to start a [`CometBft`].
#[derive(Debug, Clone)]
pub struct CometOptions {
    /// Values for `config.toml`, as dotted key and value; later ones win.
    pub config: Vec<(String, String)>,
    /// What `--proxy_app` gets; `kvstore` by default.
    pub app: String,
    /// How long the node may take until `/status` shows height 1; 30 s by default.
    pub start_timeout: Duration,
}

impl Default for CometOptions {
    fn default() -> Self {
        Self {
            config: Vec::new(),
            app: "kvstore".to_owned(),
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
}

/// Why a CometBFT could not be started or stopped.
#[derive(Debug, Error)]
pub enum CometError {
    /// The binary is nowhere.
    #[error(
        "cometbft is neither in COMETBFT_BIN nor in PATH nor in the Go binaries: install it with \
         `go install github.com/cometbft/cometbft/cmd/cometbft@v{VERSION}`"
    )]
    NotInstalled,
    /// A file or process operation failed.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// `cometbft init` refused.
    #[error("`cometbft init` failed: {0}")]
    Init(String),
    /// A configuration override names an unknown key.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The process ended before it answered.
    #[error("cometbft ended while starting; its log says:\n{log}")]
    Ended {
        /// Last lines of the log.
        log: String,
    },
    /// The node did not answer in time.
    #[error("cometbft shows no height 1 after {waited:?}; its log says:\n{log}")]
    NotReady {
        /// How long we waited.
        waited: Duration,
        /// Last lines of the log.
        log: String,
    },
}

/// A running CometBFT with one validator; stopped and cleaned up when dropped.
///
/// All calls block (the longest, [`Self::start`], for about two seconds), so an async test should
/// start it before it needs its runtime, or in `spawn_blocking`.
#[derive(Debug)]
pub struct CometBft {
    binary: PathBuf,
    home: Option<TempDir>,
    options: CometOptions,
    address: SocketAddr,
    process: Option<Child>,
}

impl CometBft {
    /// Starts a node in a fresh home on free ports and waits until it has made a block.
    ///
    /// # Errors
    /// [`CometError`]; texts end with what to do or with the node's own log.
    pub fn start(options: CometOptions) -> Result<Self, CometError> {
        let binary = find_binary().ok_or(CometError::NotInstalled)?;
        let home = tempfile::Builder::new()
            .prefix("cometbft-")
            .tempdir()
            .map_err(|source| io_error("cannot make a temporary folder", source))?;
        initialise(&binary, home.path())?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        configure(home.path(), address, &options.config)?;
        let mut node = Self {
            binary,
            home: Some(home),
            options,
            address,
            process: None,
        };
        node.restart()?;
        Ok(node)
    }

    /// Starts the node again in its home, on its old ports, and waits until it answers; a running
    /// one is stopped first.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&mut self) -> Result<(), CometError> {
        self.stop()?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(|source| io_error("cannot open the node's log", source))?;
        let errors = log
            .try_clone()
            .map_err(|source| io_error("cannot open the node's log", source))?;
        let process = Command::new(&self.binary)
            .arg("node")
            .arg("--home")
            .arg(self.home())
            .arg(format!("--proxy_app={}", self.options.app))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|source| io_error(&format!("cannot run {}", self.binary.display()), source))?;
        self.process = Some(process);
        self.wait_ready()
    }

    /// Ends the process (asks first, kills after 10 s) and keeps the home. Does nothing if it is
    /// stopped already.
    ///
    /// # Errors
    /// [`CometError::Io`] if the process can neither be signalled nor awaited.
    pub fn stop(&mut self) -> Result<(), CometError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        signal(&process, Signal::TERM);
        // A frozen process acts on the signal only once it runs again.
        signal(&process, Signal::CONT);
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match process.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_INTERVAL),
                Ok(None) => break,
                Err(source) => return Err(io_error("cannot wait for cometbft", source)),
            }
        }
        process
            .kill()
            .map_err(|source| io_error("cannot kill cometbft", source))?;
        process
            .wait()
            .map_err(|source| io_error("cannot wait for cometbft", source))?;
        Ok(())
    }

    /// Ends the process at once, as a crash would (`SIGKILL`), and keeps the home.
    ///
    /// # Errors
    /// [`CometError::Io`] if the process cannot be killed.
    pub fn kill(&mut self) -> Result<(), CometError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        process
            .kill()
            .map_err(|source| io_error("cannot kill cometbft", source))?;
        process
            .wait()
            .map_err(|source| io_error("cannot wait for cometbft", source))?;
        Ok(())
    }

    /// Freezes the process (`SIGSTOP`): connections stay open, nothing is read or answered.
    pub fn freeze(&self) {
        if let Some(process) = &self.process {
            signal(process, Signal::STOP);
        }
    }

    /// Lets a frozen process run on (`SIGCONT`).
    pub fn thaw(&self) {
        if let Some(process) = &self.process {
            signal(process, Signal::CONT);
        }
    }

    /// Where the RPC listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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

    /// A small blocking client of the RPC.
    #[must_use]
    pub fn http(&self) -> Http {
        Http::new(self.address, Duration::from_secs(15))
    }

    /// The node's home folder.
    ///
    /// # Panics
    /// Never: the home exists as long as the node.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home
            .as_ref()
            .expect("the home is taken in drop only")
            .path()
    }

    /// The node's log (standard output and error of all its starts).
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.home().join("node.log")
    }

    /// Process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// `latest_block_height` of `/status`, or none while the node does not answer.
    #[must_use]
    pub fn height(&self) -> Option<u64> {
        let answer = Http::new(self.address, PROBE_TIMEOUT).get("/status").ok()?;
        latest_height(&answer.text())
    }

    /// Waits until the chain has reached `height`; false if it has not within `timeout`.
    #[must_use]
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

    fn wait_ready(&mut self) -> Result<(), CometError> {
        let start = Instant::now();
        loop {
            if self.height().is_some_and(|height| height >= 1) {
                return Ok(());
            }
            let ended = match &mut self.process {
                Some(process) => process
                    .try_wait()
                    .map_err(|source| io_error("cannot wait for cometbft", source))?,
                None => None,
            };
            if ended.is_some() {
                return Err(CometError::Ended {
                    log: self.log_tail(),
                });
            }
            if start.elapsed() > self.options.start_timeout {
                return Err(CometError::NotReady {
                    waited: start.elapsed(),
                    log: self.log_tail(),
                });
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn log_tail(&self) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for CometBft {
    fn drop(&mut self) {
        let _ = self.kill();
        if thread::panicking()
            && let Some(home) = self.home.take()
        {
            let kept = home.keep();
            let _ = writeln!(
                io::stderr(),
                "cometbft's home is kept for a look: {}",
                kept.display()
            );
        }
    }
}

fn signal(process: &Child, signal: Signal) {
    // A process that has just ended cannot be signalled; whoever awaits it will see that.
    if let Some(pid) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn initialise(binary: &Path, home: &Path) -> Result<(), CometError> {
    let output = Command::new(binary)
        .arg("init")
        .arg("--home")
        .arg(home)
        .output()
        .map_err(|source| io_error(&format!("cannot run {}", binary.display()), source))?;
    if output.status.success() {
        return Ok(());
    }
    Err(CometError::Init(
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

/// Ports and quiet logs first, then the caller's values.
fn configure(
    home: &Path,
    rpc: SocketAddr,
    overrides: &[(String, String)],
) -> Result<(), CometError> {
    let path = home.join("config").join("config.toml");
    let mut text =
        fs::read_to_string(&path).map_err(|source| io_error("cannot read config.toml", source))?;
    let defaults = [
        ("rpc.laddr".to_owned(), format!("tcp://{rpc}")),
        ("rpc.pprof_laddr".to_owned(), String::new()),
        (
            "p2p.laddr".to_owned(),
            format!("tcp://127.0.0.1:{}", free_port()),
        ),
        ("instrumentation.prometheus".to_owned(), "false".to_owned()),
        ("log_level".to_owned(), "error".to_owned()),
    ];
    for (key, value) in defaults.iter().chain(overrides) {
        text = set_value(&text, key, value)?;
    }
    fs::write(&path, text).map_err(|source| io_error("cannot write config.toml", source))
}

/// `COMETBFT_BIN`, else `PATH`, else the folder that `go install` fills.
fn find_binary() -> Option<PathBuf> {
    if let Some(named) = env::var_os("COMETBFT_BIN") {
        return Some(PathBuf::from(named));
    }
    let in_path = env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .map(|folder| folder.join("cometbft"))
        .find(|candidate| candidate.is_file());
    in_path.or_else(|| {
        let output = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
        let root = String::from_utf8(output.stdout).ok()?;
        let candidate = Path::new(root.trim()).join("bin").join("cometbft");
        candidate.is_file().then_some(candidate)
    })
}

fn latest_height(status: &str) -> Option<u64> {
    let (_, rest) = status.split_once("\"latest_block_height\":\"")?;
    rest.split_once('"')?.0.parse().ok()
}

fn io_error(what: &str, source: io::Error) -> CometError {
    CometError::Io {
        what: what.to_owned(),
        source,
    }
}

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
        node.stop().unwrap();
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
