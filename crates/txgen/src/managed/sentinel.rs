//! A sentinel in front of the run's node: the program of its own, with a configuration of the scenario's.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use rpc::Endpoint;
use servers::{Process, StartError, free_port};
use tempfile::TempDir;

use super::{ManagedError, Programs, when_ready};
use crate::scenario::SentinelSection;
use crate::shutdown::Shutdown;

/// A running sentinel. Dropping it asks it to end, waits, and removes its files.
pub(super) struct Sentinel {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    _home: TempDir,
}

impl Sentinel {
    /// Starts it in front of the nodes and waits until it answers for them.
    pub(super) fn start(
        section: &SentinelSection,
        nodes: &[Endpoint],
        programs: &Programs,
        shutdown: &Shutdown,
    ) -> Result<Self, ManagedError> {
        let binary = find(programs).ok_or(ManagedError::Missing {
            name: "sentinel",
            variable: "TXGEN_SENTINEL",
            hint: "cargo build --release --bin sentinel",
        })?;
        let home = tempfile::Builder::new()
            .prefix(".sentinel-")
            .tempdir_in(&programs.folder)
            .map_err(StartError::io("cannot make a home for sentinel"))?;
        let config = home.path().join("sentinel.toml");
        let text = toml::to_string(&section.config).unwrap_or_default();
        fs::write(&config, text)
            .map_err(StartError::io("cannot write sentinel's configuration"))?;
        let [listen, admin] =
            [free_port(), free_port()].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let upstream: Vec<String> = nodes
            .iter()
            .map(|node| node.with_transport(rpc::Transport::Http).to_string())
            .collect();
        let arguments: [OsString; 8] = [
            "--config".into(),
            config.into(),
            "--listen".into(),
            listen.to_string().into(),
            "--admin".into(),
            admin.to_string().into(),
            "--upstream".into(),
            upstream.join(",").into(),
        ];
        let log = home.path().join("sentinel.log");
        let guard = programs.guard.as_deref();
        let process = when_ready((1, section.start_timeout.into()), shutdown, |wait| {
            let mut process = Process::start("sentinel", &binary, &arguments, log, guard)?;
            process.wait_ready(listen, wait)?;
            Ok(process)
        })?;
        Ok(Self {
            process,
            address: listen,
            _home: home,
        })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.stop(STOP_PATIENCE);
    }
}

/// Given, else beside this program, where a build puts both, else in PATH.
fn find(programs: &Programs) -> Option<PathBuf> {
    if programs.sentinel.is_some() {
        return programs.sentinel.clone();
    }
    let beside = env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.join("sentinel")))
        .filter(|candidate| candidate.is_file());
    beside.or_else(|| servers::find(None, "sentinel"))
}

/// It answers what is under way and then ends.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
