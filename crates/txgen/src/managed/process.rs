//! A program started by a run: its output in a file, its end awaited, killed with the run.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{ManagedError, Programs, io_error};

/// A running program. Dropping it kills it.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with its output in `log`, which is appended to.
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[OsString],
        log: PathBuf,
        programs: &Programs,
    ) -> Result<Self, ManagedError> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(io_error(format!("cannot write {}", log.display())))?;
        let errors = file
            .try_clone()
            .map_err(io_error(format!("cannot write {}", log.display())))?;
        let mut command = match &programs.guard {
            Some(guard) => {
                let mut command = Command::new(guard);
                command
                    .args(["guard", "--parent", &std::process::id().to_string(), "--"])
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(arguments)
            // Ctrl-C in a terminal is for us alone: the node has to live until the drain is over.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(io_error(format!("cannot run {}", program.display())))?;
        Ok(Self { name, child, log })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What there is to say if it has ended although nobody asked it to.
    pub(super) fn trouble(&mut self) -> Option<String> {
        let status = self.ended()?;
        Some(format!(
            "{} ended during the run ({status}); its log ends with:\n{}",
            self.name,
            self.tail()
        ))
    }

    /// The last lines of its log.
    pub(super) fn tail(&self) -> String {
        let bytes = end_of(&self.log, TAIL_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        if tail.is_empty() {
            "(nothing)".into()
        } else {
            tail
        }
    }

    /// Copies the end of its log, if there is any. Without a log a run is as good.
    pub(super) fn keep_log(&self, to: &Path) {
        if let Ok(bytes) = end_of(&self.log, KEPT_BYTES)
            && !bytes.is_empty()
        {
            let _ = fs::write(to, bytes);
        }
    }

    /// Asks it to end, and kills it if it has not after `patience`.
    pub(super) fn stop(&mut self, patience: Duration) {
        if self.ended().is_some() {
            return;
        }
        if !patience.is_zero() {
            let id = Pid::from_child(&self.child);
            // One that ends this very moment cannot be signalled, and need not be.
            let _ = kill_process(id, Signal::TERM);
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                if self.ended().is_some() {
                    return;
                }
                thread::sleep(LOOK_INTERVAL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn end_of(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// Two addresses of this machine that nobody listens on.
pub(super) fn free_addresses() -> Result<[SocketAddr; 2], ManagedError> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let addresses = || -> io::Result<[SocketAddr; 2]> {
        // Both are held at once: the same port is not given twice.
        let (first, second) = (bind()?, bind()?);
        Ok([first.local_addr()?, second.local_addr()?])
    };
    addresses().map_err(io_error("this machine has no free port"))
}

/// A program by its path, or by its name in PATH.
pub(super) fn find(given: Option<&Path>, name: &str) -> Option<PathBuf> {
    if let Some(given) = given {
        // Started as it is given: the system says what is wrong with it.
        return Some(given.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 8 << 10;
/// A node that logs every request writes hundreds of megabytes.
const KEPT_BYTES: u64 = 1 << 20;
