//! A real NATS server.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use servers::{Process, Wait, find, free_port};
use tempfile::TempDir;

/// A server with its store, on this machine. Dropping it kills it.
///
/// # Panics
/// Its functions do where the server does not start: tests have nothing else to do then.
#[derive(Debug)]
pub struct Nats {
    home: TempDir,
    address: SocketAddr,
    process: Process,
}

/// How long it may take to start or to end.
const LIMIT: Duration = Duration::from_secs(60);

impl Nats {
    /// Starts the one of `NATS_SERVER_BIN`, or of `PATH`.
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder for the server");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let process = Self::process(home.path(), address);
        Self {
            home,
            address,
            process,
        }
    }

    /// Where programs find it.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Its folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process.stop(LIMIT);
    }

    /// Ends it and starts it again, on its old port and store.
    pub fn restart(&mut self) {
        self.stop();
        self.process = Self::process(self.home.path(), self.address);
    }

    fn process(home: &Path, address: SocketAddr) -> Process {
        let given = std::env::var_os("NATS_SERVER_BIN").map(PathBuf::from);
        let program = find(given.as_deref(), "nats-server")
            .expect("a nats-server in PATH or NATS_SERVER_BIN");
        let port = address.port().to_string();
        let store = home.join("store").display().to_string();
        let line = [
            "--addr",
            "127.0.0.1",
            "--port",
            &port,
            "--jetstream",
            "--store_dir",
            &store,
        ];
        let arguments = line.map(Into::into);
        let log = home.join("log");
        let mut process = Process::start("nats-server", &program, &arguments, log, None)
            .expect("a server that starts");
        let mut wait = Wait {
            is_ready: &mut |address| TcpStream::connect(address).is_ok(),
            is_cancelled: &|| false,
            timeout: LIMIT,
        };
        let ready = process.wait_ready(address, &mut wait);
        ready.expect("a server that listens");
        process
    }
}
