//! A program: started in a folder of its own, watched, signalled, judged by its end.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use servers::{Process, Wait, find, free_port};
use tempfile::TempDir;

/// A working folder of one program; relative paths on command lines are inside it.
pub struct Place {
    folder: TempDir,
    program: &'static str,
    unset: &'static str,
}

/// A run's verdict, for [`Ended::ends_as_judged`].
pub trait Judged {
    /// The verdict on the schedule.
    fn schedule(&self) -> &str;

    /// What its flaws leave unknown.
    fn bars(&self) -> Vec<&str>;

    /// Panics when the account does not add up.
    fn assert_conserved(&self);
}

impl Place {
    /// An empty folder; `program` is the path of the program, it sees no variable that begins with `unset`.
    pub fn new(program: &'static str, unset: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            program,
            unset,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The names of what is in the folder.
    pub fn contents(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Writes a file of the folder; gives its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs the program with the words of `line` to its end.
    pub fn run_to_end(&self, line: &str) -> Ended {
        self.start(line).wait()
    }

    /// Starts the program with the words of `line`.
    pub fn start(&self, line: &str) -> Running {
        let mut command = self.command(self.program);
        command.args(line.split_whitespace());
        Running::start(command)
    }

    /// Runs the program to its end with these variables in its environment.
    pub fn run_with(&self, variables: &[(&str, &str)], line: &str) -> Ended {
        let mut command = self.command(self.program);
        command.args(line.split_whitespace());
        command.envs(variables.iter().copied());
        Running::start(command).wait()
    }

    /// Runs a script of the shell to its end, in which `variable` is the path of the program.
    pub fn shell(&self, variable: &str, script: &str) -> Ended {
        let mut command = self.command("sh");
        command.args(["-c", script]);
        command.env(variable, self.program);
        Running::start(command).wait()
    }

    /// A command in the folder, with pipes, that sees neither the variables nor those of a CI system.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with(self.unset) || text.starts_with("GITHUB_") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// A program at work. Dropping it kills it.
pub struct Running {
    child: Child,
    out: Captured,
    err: Captured,
}

impl Running {
    /// Starts a command; what it writes into pipes is read.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = Captured::start(child.stdout.take());
        let err = Captured::start(child.stderr.take());
        Self { child, out, err }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap();
    }

    /// What it has written to stdout so far.
    pub fn out_so_far(&self) -> String {
        self.out.text()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stderr so far.
    pub fn err_so_far(&self) -> String {
        self.err.text()
    }

    /// Waits for a line of stderr with this phrase; fails when stderr ends without.
    #[track_caller]
    pub fn said(&self, phrase: &str) -> String {
        let deadline = Instant::now() + LONGEST_RUN;
        loop {
            let is_over = self.err.is_at_end() || Instant::now() >= deadline;
            let text = self.err_so_far();
            let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
            if let Some(line) = whole.lines().find(|line| line.contains(phrase)) {
                return line.to_owned();
            }
            assert!(!is_over, "no {phrase:?} in {text}");
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits for its end; a panic in any of its threads fails the test.
    pub fn wait(mut self) -> Ended {
        let deadline = Instant::now() + LONGEST_RUN;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= deadline {
                let err = self.err.text();
                panic!("the program has not ended after {LONGEST_RUN:?}; its stderr: {err}");
            }
            thread::sleep(LOOK_INTERVAL);
        };
        let ended = Ended {
            code: status.code(),
            out: self.out.finish(),
            err: self.err.finish(),
        };
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream read to its end by a thread.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Captured {
    fn start(stream: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let target = bytes.clone();
        let reader = stream.map(|mut stream| {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    target.lock().unwrap().extend_from_slice(&buffer[..read]);
                }
            })
        });
        Self { bytes, reader }
    }

    fn is_at_end(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn finish(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

impl Ended {
    /// It ended with this code.
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Ended as its summary requires: with this code, or with 98 where the load was not the planned one, which
    /// depends on how busy the machine is. Nothing else may bar the run, the account is conserved, and the printed
    /// verdict is the summary's.
    #[track_caller]
    pub fn ends_as_judged(&self, code: i32, summary: &impl Judged) -> &Self {
        summary.assert_conserved();
        self.fits_a_terminal();
        let bars = summary.bars();
        let is_busy = |bar| ["load", "processor"].contains(bar);
        assert!(bars.iter().all(is_busy), "{bars:?}\n{self}");
        let schedule = summary.schedule();
        assert_eq!(schedule == "invalid", !bars.is_empty(), "{self}");
        let mut printed = self.out.lines().filter(|line| line.starts_with("verdict "));
        assert!(printed.all(|line| line.contains(schedule)), "{self}");
        self.expect(if bars.is_empty() { code } else { 98 })
    }

    /// A phrase is in stderr.
    #[track_caller]
    pub fn says(&self, phrase: &str) -> &Self {
        assert!(has(&self.err, phrase), "no {phrase:?} in stderr\n{self}");
        self
    }

    /// No line is wider than a terminal, unless it is for programs or a path that ends it is as wide.
    #[track_caller]
    pub fn fits_a_terminal(&self) -> &Self {
        let is_wide = |line: &&str| {
            let ends_with_path = line
                .rsplit(' ')
                .next()
                .is_some_and(|word| word.contains('/'));
            line.chars().count() > 80 && !ends_with_path && !line.starts_with('{')
        };
        let wide = self.out.lines().chain(self.err.lines()).find(is_wide);
        assert_eq!(wide, None, "{self}");
        self
    }

    /// Its message repeats none of its own parts.
    #[track_caller]
    pub fn says_it_once(&self) -> &Self {
        let parts: Vec<&str> = self.err.trim_end().split(": ").collect();
        for (place, part) in parts.iter().enumerate() {
            let short = part.split_whitespace().count() < 3;
            assert!(
                short || !parts[..place].contains(part),
                "{part:?} again\n{self}"
            );
        }
        self
    }

    /// A phrase is in stdout.
    #[track_caller]
    pub fn prints(&self, phrase: &str) -> &Self {
        assert!(self.printed(phrase), "no {phrase:?} in stdout\n{self}");
        self
    }

    /// Whether stdout has a phrase.
    pub fn printed(&self, phrase: &str) -> bool {
        has(&self.out, phrase)
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, out, err } = self;
        write!(f, "exit code {code:?}\n--- stdout\n{out}--- stderr\n{err}")
    }
}

/// Whether a text has a phrase, in one line or where long lines go on below.
fn has(text: &str, phrase: &str) -> bool {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.contains(phrase) || joined(text).contains(&joined(phrase))
}

/// Looks at something until it is as wanted; fails after 30 s.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST_WAIT;
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "not after {LONGEST_WAIT:?}: {what}"
        );
        thread::sleep(LOOK_INTERVAL);
    }
}

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

const LONGEST_RUN: Duration = Duration::from_secs(300);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
