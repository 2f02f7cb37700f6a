//! A real CometBFT with one validator, in a home of its own on free ports.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;
use toml::{Table, Value};

use super::process::{self, Process};
use super::{ManagedError, Programs, io_error, wait_ready};
use crate::scenario::{NodeSection, assign, leaves, nearest};
use crate::shutdown::Shutdown;

/// A running CometBFT. Dropping it kills it and removes its home.
pub(super) struct CometBft {
    process: Process,
    address: SocketAddr,
    // Removed after the process was killed: fields are dropped in this order.
    _home: TempDir,
}

/// Why a configuration override cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file has no such key.
    #[error("{file} of this CometBFT has no key {key}{}", .nearest.as_ref().map_or(String::new(), |near| format!("; did you mean {near}?")))]
    Unknown {
        /// The file.
        file: &'static str,
        /// The key.
        key: String,
        /// The nearest one it has.
        nearest: Option<String>,
    },
    /// The key takes another type.
    #[error("{key} of {file} is {expected}, not {given}")]
    Type {
        /// The file.
        file: &'static str,
        /// The key.
        key: String,
        /// What `cometbft init` wrote.
        expected: String,
        /// What was given.
        given: String,
    },
    /// `cometbft init` wrote something that cannot be read.
    #[error("cannot read {file} as `cometbft init` wrote it: {problem}")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// What the parser said.
        problem: String,
    },
}

impl CometBft {
    /// Starts a node and waits until it has made a block.
    pub(super) fn start(
        section: &NodeSection,
        programs: &Programs,
        shutdown: &Shutdown,
    ) -> Result<Self, ManagedError> {
        let binary = process::find(programs.cometbft.as_deref(), "cometbft").ok_or(
            ManagedError::Missing {
                name: "cometbft",
                flag: "cometbft",
                variable: "COMETBFT_BIN",
                hint: " (go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.17)",
            },
        )?;
        let mut attempt = 1;
        loop {
            match Self::try_start(&binary, section, programs, shutdown) {
                // Somebody took the port between our look and the node's.
                Err(ManagedError::Ended { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                started => return started,
            }
        }
    }

    fn try_start(
        binary: &Path,
        section: &NodeSection,
        programs: &Programs,
        shutdown: &Shutdown,
    ) -> Result<Self, ManagedError> {
        fs::create_dir_all(&programs.folder).map_err(io_error(format!(
            "cannot make {}",
            programs.folder.display()
        )))?;
        let home = tempfile::Builder::new()
            .prefix(".node-")
            .tempdir_in(&programs.folder)
            .map_err(io_error("cannot make a home for the node"))?;
        initialise(binary, home.path())?;
        let [rpc, p2p] = process::free_addresses()?;
        configure(home.path(), section, rpc, p2p)?;
        let arguments: [OsString; 4] = [
            "node".into(),
            "--home".into(),
            home.path().into(),
            format!("--proxy_app={}", section.app).into(),
        ];
        let log = home.path().join("node.log");
        let mut process = Process::start("cometbft", binary, &arguments, log, programs)?;
        wait_ready(
            &mut process,
            rpc,
            Duration::from(section.start_timeout),
            shutdown,
        )?;
        Ok(Self {
            process,
            address: rpc,
            _home: home,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn trouble(&mut self) -> Option<String> {
        self.process.trouble()
    }
}

fn initialise(binary: &Path, home: &Path) -> Result<(), ManagedError> {
    let output = Command::new(binary)
        .arg("init")
        .arg("--home")
        .arg(home)
        .output()
        .map_err(io_error(format!("cannot run {}", binary.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = if output.stderr.is_empty() {
        output.stdout
    } else {
        output.stderr
    };
    let said = String::from_utf8_lossy(&said);
    Err(ManagedError::Init(said.trim().into()))
}

/// The ports and the caller's values; everything else stays as `cometbft init` wrote it.
fn configure(
    home: &Path,
    section: &NodeSection,
    rpc: SocketAddr,
    p2p: SocketAddr,
) -> Result<(), ManagedError> {
    let path = home.join("config").join("config.toml");
    let text = read(&path)?;
    let mut ports = Table::new();
    for (key, value) in [
        ("rpc.laddr", format!("tcp://{rpc}")),
        ("rpc.pprof_laddr", String::new()),
        ("p2p.laddr", format!("tcp://{p2p}")),
    ] {
        assign(&mut ports, key, Value::String(value)).expect("the keys are well formed");
    }
    let text = with_values(&text, &[&section.cometbft, &ports])?;
    write(&path, &text)?;
    if section.genesis.is_empty() {
        return Ok(());
    }
    let path = home.join("config").join("genesis.json");
    let text = with_genesis(&read(&path)?, &section.genesis)?;
    write(&path, &text)
}

fn read(path: &PathBuf) -> Result<String, ManagedError> {
    fs::read_to_string(path).map_err(io_error(format!("cannot read {}", path.display())))
}

fn write(path: &PathBuf, text: &str) -> Result<(), ManagedError> {
    fs::write(path, text).map_err(io_error(format!("cannot write {}", path.display())))
}

/// The file with other values for keys that it has.
fn with_values(text: &str, overrides: &[&Table]) -> Result<String, ConfigError> {
    let file = "config.toml";
    let unreadable = |problem: String| ConfigError::Unreadable { file, problem };
    let mut config: Table = toml::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let known = leaves(&config);
    for (key, value) in overrides.iter().flat_map(|table| leaves(table)) {
        let Some((_, before)) = known.iter().find(|(name, _)| *name == key) else {
            return Err(unknown(file, key, known.iter().map(|(name, _)| name)));
        };
        if before.type_str() != value.type_str() {
            return Err(ConfigError::Type {
                file,
                key,
                expected: format!("a {}, e.g. {before}", before.type_str()),
                given: value.to_string(),
            });
        }
        assign(&mut config, &key, value).expect("the key is one of the file's");
    }
    toml::to_string(&config).map_err(|error| unreadable(error.to_string()))
}

/// The genesis with other values for keys that it has. It writes numbers as texts.
fn with_genesis(text: &str, overrides: &Table) -> Result<String, ConfigError> {
    let file = "genesis.json";
    let unreadable = |error: serde_json::Error| ConfigError::Unreadable {
        file,
        problem: error.to_string(),
    };
    let mut genesis: Json = serde_json::from_str(text).map_err(unreadable)?;
    let mut known = Vec::new();
    pointers(&genesis, "", &mut known);
    for (key, value) in leaves(overrides) {
        let pointer = format!("/{}", key.replace('.', "/"));
        let Some(place) = genesis.pointer_mut(&pointer) else {
            return Err(unknown(file, key, &known));
        };
        *place = match (&*place, value) {
            (Json::String(_), Value::Integer(number)) => Json::String(number.to_string()),
            (_, value) => serde_json::to_value(value).map_err(unreadable)?,
        };
    }
    serde_json::to_string_pretty(&genesis).map_err(unreadable)
}

fn pointers(value: &Json, above: &str, found: &mut Vec<String>) {
    let Json::Object(object) = value else {
        found.push(above.into());
        return;
    };
    for (name, below) in object {
        let dot = if above.is_empty() { "" } else { "." };
        pointers(below, &format!("{above}{dot}{name}"), found);
    }
}

fn unknown<'a>(
    file: &'static str,
    key: String,
    known: impl IntoIterator<Item = &'a String>,
) -> ConfigError {
    let nearest = nearest(&key, known.into_iter().map(String::as_str)).map(Into::into);
    ConfigError::Unknown { file, key, nearest }
}

/// How often free ports are looked for.
const ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "log_level = \"info\"\n[rpc]\nladdr = \"tcp://127.0.0.1:26657\"\n[mempool]\nsize = 5000\n";

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn known_keys_get_other_values() {
        let text = with_values(
            CONFIG,
            &[&table("mempool.size = 10"), &table("rpc.laddr = \"x\"")],
        )
        .unwrap();
        let config = table(&text);
        assert_eq!(config["mempool"]["size"], Value::Integer(10));
        assert_eq!(config["rpc"]["laddr"], Value::String("x".into()));
        assert_eq!(config["log_level"], Value::String("info".into()));
    }

    #[test]
    fn a_wrong_key_or_type_is_an_error_and_not_a_default() {
        let problem = |overrides: &str| {
            with_values(CONFIG, &[&table(overrides)])
                .unwrap_err()
                .to_string()
        };
        let text = problem("mempool.sise = 10");
        assert!(
            text.contains("no key mempool.sise; did you mean mempool.size?"),
            "{text}"
        );
        let text = problem("mempool.size = \"10\"");
        assert!(
            text.contains("mempool.size of config.toml is a integer, e.g. 5000"),
            "{text}"
        );
    }

    #[test]
    fn the_genesis_keeps_its_way_of_writing_numbers() {
        let genesis = r#"{"consensus_params":{"block":{"max_bytes":"22020096"}},"validators":[]}"#;
        let text = with_genesis(genesis, &table("consensus_params.block.max_bytes = 5")).unwrap();
        assert!(text.contains(r#""max_bytes": "5""#), "{text}");
        let error = with_genesis(genesis, &table("consensus_params.block.max_byte = 5"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("did you mean consensus_params.block.max_bytes?"),
            "{error}"
        );
    }
}
