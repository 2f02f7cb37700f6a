//! A program started by a run: its output in a file, its end awaited, killed with the run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;

use crate::listening::listens;
use crate::settings::SettingError;

/// When a server that was started counts as ready, and how long that may take.
pub struct Wait<'a> {
    /// Asks once, for a second or two at most, whether the server at this address is ready.
    pub is_ready: &'a mut dyn FnMut(SocketAddr) -> bool,
    /// Whether the caller wants to wait no longer.
    pub is_cancelled: &'a dyn Fn() -> bool,
    /// How long it may take.
    pub timeout: Duration,
}

/// An empty folder that is removed with its server: in `folder`, or where temporary files are.
pub(crate) fn make_home(folder: Option<&Path>, prefix: &str) -> Result<TempDir, StartError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    let home = match folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    };
    home.map_err(StartError::io("cannot make a home for the node"))
}

/// What a command prints, without the space around it. Of one that fails, its last line is the reason.
pub(crate) fn output_of(step: &str, command: &mut Command) -> Result<String, StartError> {
    let program = Path::new(command.get_program()).display();
    let cannot = StartError::io(format!("cannot run {program}"));
    let output = command.output().map_err(cannot)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = [text(&output.stdout), text(&output.stderr)].join("\n");
    Err(StartError::Init {
        step: step.to_owned(),
        message: said.trim().lines().last().unwrap_or_default().to_owned(),
    })
}

/// Writes a file anew with other values.
pub(crate) fn change(
    path: &Path,
    with: impl FnOnce(&str) -> Result<String, SettingError>,
) -> Result<(), StartError> {
    let cannot = || StartError::io(format!("cannot change {}", path.display()));
    let text = fs::read_to_string(path).map_err(cannot())?;
    fs::write(path, with(&text)?).map_err(cannot())
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    /// Whether it and all that it started have ended. Their group's number may be another process's now.
    is_over: bool,
}

impl Process {
    /// Starts a program with its output in `log`, which is appended to.
    ///
    /// `guard` is a program that is called as `guard --parent PID -- PROGRAM ARGUMENTS`, becomes the
    /// program, and has the kernel kill it when process PID ends, however it ends.
    ///
    /// # Errors
    /// [`StartError::Io`]: the log cannot be written, or the program cannot be run.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[OsString],
        log: PathBuf,
        guard: Option<&Path>,
    ) -> Result<Self, StartError> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(StartError::io(format!("cannot write {}", log.display())))?;
        let errors = file
            .try_clone()
            .map_err(StartError::io(format!("cannot write {}", log.display())))?;
        let mut command = match guard {
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
            // What it leaves there goes with its home.
            .env("TMPDIR", log.parent().unwrap_or(Path::new(".")))
            // Ctrl-C in a terminal is for us alone: the node has to live until the drain is over.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(StartError::io(format!("cannot run {}", program.display())))?;
        Ok(Self {
            name,
            child,
            log,
            is_over: false,
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until the server at `address` is ready and is this one: what it starts counts as it.
    ///
    /// # Errors
    /// It ended, it took longer than it may, or the caller cancelled.
    pub fn wait_ready(
        &mut self,
        address: SocketAddr,
        wait: &mut Wait<'_>,
    ) -> Result<(), StartError> {
        let start = Instant::now();
        loop {
            if (wait.is_ready)(address) && listens(self.id(), address) {
                return Ok(());
            }
            if let Some(status) = self.ended() {
                return Err(StartError::Ended {
                    name: self.name,
                    status: status.to_string(),
                    log: self.tail(),
                });
            }
            if (wait.is_cancelled)() {
                return Err(StartError::Interrupted);
            }
            if start.elapsed() >= wait.timeout {
                return Err(StartError::NotReady {
                    name: self.name,
                    waited: start.elapsed(),
                    log: self.tail(),
                });
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Freezes it (`SIGSTOP`): its connections stay open, nothing is read or answered.
    pub fn freeze(&self) {
        self.group().freeze();
    }

    /// Lets it run on after [`Process::freeze`] (`SIGCONT`).
    pub fn thaw(&self) {
        self.group().thaw();
    }

    /// It and all that it started.
    pub(crate) fn group(&self) -> Group {
        Group(Pid::from_child(&self.child))
    }

    fn signal(&self, signal: Signal) {
        self.group().signal(signal);
    }

    /// How it ended, if it has; what it leaves behind is killed.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        if !self.is_over {
            self.signal(Signal::KILL);
            self.is_over = true;
        }
        Some(status)
    }

    /// The message about a program that has ended during the run, if it has.
    pub fn trouble(&mut self) -> Option<String> {
        let status = self.ended()?;
        Some(format!(
            "{} ended during the run ({status}); its log ends with:\n{}",
            self.name,
            self.tail()
        ))
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
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
    pub fn keep_log(&self, to: &Path) {
        if let Ok(bytes) = end_of(&self.log, KEPT_BYTES)
            && !bytes.is_empty()
        {
            let _ = fs::write(to, bytes);
        }
    }

    /// Asks it and all that it started to end, and kills what has not after `patience`.
    pub fn stop(&mut self, patience: Duration) {
        if self.is_over || self.ended().is_some() {
            return;
        }
        if !patience.is_zero() {
            self.signal(Signal::TERM);
            // A frozen process acts on the signal only once it runs again.
            self.signal(Signal::CONT);
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline && !self.is_over {
                thread::sleep(LOOK_INTERVAL);
                let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
                let group = Pid::from_child(&self.child);
                self.is_over = has_ended && test_kill_process_group(group).is_err();
            }
        }
        if !self.is_over {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
            self.is_over = true;
        }
    }
}

/// A program and all that it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(self, signal: Signal) {
        // One that has just ended cannot be signalled; the task that awaits its end sees that.
        let _ = kill_process_group(self.0, signal);
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

/// A program by its path, or by its name in PATH.
pub fn find(given: Option<&Path>, name: &str) -> Option<PathBuf> {
    if let Some(given) = given {
        // Started as it is given: the system's error names what is wrong with it.
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

/// Why a server could not be started or stopped. Messages end with its own log where it has written one.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or process operation failed.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A step before the start failed.
    #[error("`{step}` failed: {message}")]
    Init {
        /// What was asked for.
        step: String,
        /// Its output.
        message: String,
    },
    /// A setting cannot be applied.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The process ended before it was ready.
    #[error("{name} ended while starting ({status}); its log ends with:\n{log}")]
    Ended {
        /// The program.
        name: &'static str,
        /// How it ended.
        status: String,
        /// Last lines of its log.
        log: String,
    },
    /// It did not become ready in time.
    #[error("{name} is not ready after {waited:?}; its log ends with:\n{log}")]
    NotReady {
        /// The program.
        name: &'static str,
        /// How long it was awaited.
        waited: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// The caller cancelled the wait.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
}

impl StartError {
    /// Makes the error of a file or process operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_a_program_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = "trap '' TERM; sleep 600 & echo $!; exec sleep 600";
        let arguments = ["-c".into(), script.into()];
        let mut process =
            Process::start("sh", Path::new("/bin/sh"), &arguments, log, None).unwrap();
        while process.tail() == "(nothing)" {
            thread::sleep(LOOK_INTERVAL);
        }
        let child: u32 = process.tail().trim().parse().unwrap();
        process.stop(Duration::ZERO);
        let stat = format!("/proc/{child}/stat");
        // An orphan stays as a zombie until its new parent has waited for it.
        let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            thread::sleep(LOOK_INTERVAL);
        }
    }

    #[test]
    fn a_step_that_fails_is_named_with_the_last_that_it_said() {
        let script = "echo begun; echo 'usage: none' >&2; echo 'no such chain' >&2; exit 1";
        let mut command = Command::new("/bin/sh");
        let failed = output_of("simd testnet", command.args(["-c", script])).unwrap_err();
        let text = "`simd testnet` failed: no such chain";
        assert_eq!(failed.to_string(), text);
        let failed = output_of("simd init", &mut Command::new("/nonexistent")).unwrap_err();
        assert_eq!(failed.to_string(), "cannot run /nonexistent");
    }

    #[test]
    fn a_server_that_took_the_port_before_is_not_taken_for_the_one_that_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = Path::new("/bin/sleep");
        let log = folder.path().join("log");
        let mut process = Process::start("sleep", program, &["60".into()], log, None).unwrap();
        let mut wait = Wait {
            is_ready: &mut |address| TcpStream::connect(address).is_ok(),
            is_cancelled: &|| false,
            timeout: Duration::ZERO,
        };
        let ready = process.wait_ready(other.local_addr().unwrap(), &mut wait);
        assert!(
            matches!(ready, Err(StartError::NotReady { .. })),
            "{ready:?}"
        );
    }
}
