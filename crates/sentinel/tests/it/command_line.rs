//! `sentinel` as a program: help, configuration from outside, signals, exit codes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A working folder; relative paths on command lines are inside it.
pub(crate) struct Place(TempDir);

/// How a program ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sentinel"));
        command.args(line.split_whitespace());
        self.prepare(&mut command);
        command
    }

    /// Gives a command this folder, pipes, and an environment without settings.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SENTINEL_") {
                command.env_remove(name);
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `sentinel` with the words of `line` to its end.
    fn sentinel(&self, line: &str) -> Ended {
        Ended::from(self.command(line).output().unwrap())
    }

    /// The same with variables in its environment.
    fn sentinel_with(&self, variables: &[(&str, &str)], line: &str) -> Ended {
        let mut command = self.command(line);
        Ended::from(command.envs(variables.iter().copied()).output().unwrap())
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    fn says(self, phrase: &str) -> Self {
        assert!(self.err.contains(phrase), "no {phrase:?} in {}", self.err);
        self
    }

    #[track_caller]
    fn prints(self, phrase: &str) -> Self {
        assert!(self.out.contains(phrase), "no {phrase:?} in {}", self.out);
        self
    }
}

#[test]
fn the_help_teaches() {
    let place = Place::new();
    let help = place.sentinel("--help").expect(0).out;
    let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in [
        "--max-req <RATE>",
        "[default: 2000/s]",
        "[key: fair.max_req]",
        "--set <KEY=VALUE>",
        "sentinel --max-req 2000 --pause-interval 100s",
        "SENTINEL_FAIR__MAX_REQ=2000/s",
        "a second one ends at once",
        "Exit codes: 0 ended as asked; 1 failed; 2 the command line",
        "check",
        "completions",
        "man",
    ] {
        assert!(text.contains(phrase), "no {phrase:?} in {help}");
    }
    place
        .sentinel("--version")
        .expect(0)
        .prints("sentinel 0.1.0");
}

#[test]
fn the_help_of_every_command_begins_with_examples_that_can_be_run() {
    let none = Vec::<String>::new();
    assert_eq!(
        testkit::complaints_about_examples::<sentinel::cli::Cli>(),
        none
    );
    let help = Place::new().sentinel("--help").out;
    assert!(
        help.starts_with("Examples:\n  sentinel --max-req"),
        "{help}"
    );
}

#[test]
fn what_is_not_understood_ends_with_exit_code_2() {
    let place = Place::new();
    for (line, phrase) in [
        ("--max-rek 5", "--max-req"),
        ("--max-req fast", "--max-req: fair.max_req:"),
        ("--max-req -5", "-5"),
        (
            "--pause-mode off",
            "--pause-mode: pause.mode was removed: set pause.interval",
        ),
        ("--set fair.max_rq=5", "did you mean fair.max_req?"),
        ("--set max_req", "KEY=VALUE"),
        ("--max-req 10 --set fair.max_req=20", "set twice"),
        (
            "--max-req 10 --min-req 50",
            "lower pace.min_req or raise fair.max_req",
        ),
        ("--upstream 127.0.0.1:26657", "write http://127.0.0.1:26657"),
        ("--listen localhost", "write for instance 127.0.0.1:26680"),
        ("--admin 127.0.0.1:26680", "clashes with listen.addr"),
        ("--deny 10.0.0.1/8", "10.0.0.0/8"),
        ("--config none.toml", "none.toml"),
        ("chek x", "check"),
        ("completions klingon", "possible values: bash"),
    ] {
        place.sentinel(line).expect(2).says(phrase);
    }
    let none = place.sentinel("--max-req fast").err;
    assert!(none.starts_with("sentinel: --max-req:"), "{none}");
}

#[test]
fn check_says_whether_a_file_is_right() {
    let place = Place::new();
    place.write(
        "right.toml",
        "[fair]\nmax_req = \"500/s\"\n[admin]\naddr = \"0.0.0.0:1\"\n",
    );
    place
        .sentinel("check right.toml")
        .expect(0)
        .prints("right.toml: ok")
        .says("no authentication");
    place.write(
        "wrong.toml",
        "[fair]\nmax_rq = 5\n\n[pause]\ninterval = \"soon\"\n",
    );
    place
        .sentinel("check wrong.toml")
        .expect(2)
        .says("sentinel: wrong.toml:2: unknown key fair.max_rq; did you mean fair.max_req?\n")
        .says("sentinel: wrong.toml:5: pause.interval: `soon` is not a duration");
    // Only the file is checked, not what surrounds it.
    let bad = [
        ("SENTINEL_FAIR__MAX_REQ", "x"),
        ("SENTINEL_CONFIG", "wrong.toml"),
    ];
    place.sentinel_with(&bad, "check right.toml").expect(0);
    place.sentinel("check").expect(2).says("<FILE>");
}

#[test]
fn the_effective_configuration_names_its_origins_and_is_a_configuration() {
    let place = Place::new();
    place.write(
        "base.toml",
        "[fair]\nmax_req = 100\nqueue_per_client = 50\n[trust]\ndeny = [\"::1\"]\n",
    );
    let printed = place
        .sentinel_with(
            &[
                ("SENTINEL_CONFIG", "base.toml"),
                ("SENTINEL_FAIR__QUEUE_PER_CLIENT", "60"),
                ("SENTINEL_TRUST__DENY", "10.0.0.0/8,192.0.2.0/24"),
            ],
            "--print-config --max-req 200/s --pause-interval 100s --upstream http://a:1 --upstream http://b:1",
        )
        .expect(0)
        .out;
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "max_req = \"200/s\" # --max-req",
        "queue_per_client = 60 # SENTINEL_FAIR__QUEUE_PER_CLIENT",
        "deny = [\"10.0.0.0/8\", \"192.0.2.0/24\"] # SENTINEL_TRUST__DENY",
        "urls = [\"http://a:1\", \"http://b:1\"] # --upstream",
        "interval = \"100s\" # --pause-interval",
        "queue_timeout = \"30s\" # default",
    ] {
        assert!(words.contains(line), "no {line} in {printed}");
    }
    place.write("printed.toml", &printed);
    let again = place
        .sentinel("--config printed.toml --print-config")
        .expect(0)
        .out;
    let values = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.split(" # ").next().unwrap_or_default().trim());
        lines
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(values(&again), values(&printed));
    // The flag beats the variable.
    place.write("other.toml", "[fair]\nmax_req = 7\n");
    place
        .sentinel_with(
            &[("SENTINEL_CONFIG", "base.toml")],
            "--config other.toml --print-config",
        )
        .expect(0)
        .prints("max_req = \"7/s\"");
}

#[test]
fn completions_and_the_manual_are_printed() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        place
            .sentinel(&format!("completions {shell}"))
            .expect(0)
            .prints("max-req");
    }
    let page = place.sentinel("man").expect(0).out;
    assert!(
        page.contains(".TH sentinel") && page.contains("pause\\-interval"),
        "{page}"
    );
    assert!(page.contains(".TH sentinel-top"), "{page}");
    let script = place.sentinel("completions bash").expect(0).out;
    assert!(script.contains("sentinel__subcmd__top"), "{script}");
}

/// A proxy at work. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    fn start(place: &Place, line: &str) -> Self {
        Self::spawn(&mut place.command(line))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Reads the log up to a line with these words.
    pub(crate) fn read_until(&mut self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            let read = self.log.read_line(&mut seen).unwrap();
            assert!(read > 0, "no {words:?} in {seen}");
            if seen[start..].contains(words) {
                return seen[start..].to_owned();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit code and the rest of the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Free ports; no node behind.
pub(crate) const ALONE: &str =
    "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --upstream http://127.0.0.1:1";

#[test]
fn a_signal_ends_it_cleanly() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut running = Running::start(&place, ALONE);
        running.read_until("serving address=127.0.0.1:");
        running.signal(signal);
        let (code, log) = running.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("going down"), "{log}");
        assert!(log.contains("ended"), "{log}");
    }
}

#[test]
fn explain_75_the_line_at_the_start_says_what_stands_where() {
    let place = Place::new();
    let mut running = Running::start(&place, ALONE);
    let line = running.read_until("serving address=127.0.0.1:");
    for part in [
        "nodes=http://127.0.0.1:1 (no answer yet)",
        " pace=adaptive ceiling=2000/s ",
        "explain=http://127.0.0.1:",
        "/explain?ip=ADDRESS",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn an_address_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = taken.local_addr().unwrap();
    place
        .sentinel(&format!("--listen {address} --admin off"))
        .expect(1)
        .says(&format!("{address} (listen.addr)"));
    place
        .sentinel(&format!("--listen 127.0.0.1:0 --admin {address}"))
        .expect(1)
        .says("(admin.addr)");
}

#[test]
fn what_is_odd_is_logged_at_the_start() {
    let place = Place::new();
    let mut running = Running::start(&place, &format!("{ALONE} --trusted-proxy ::/0"));
    running.read_until("any client can choose its own address");
    running.read_until("serving address=127.0.0.1:");
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn top_prints_the_figures_of_a_running_sentinel() {
    let place = Place::new();
    let mut running = Running::start(&place, ALONE);
    let line = running.read_until("serving address=127.0.0.1:");
    let page = line.split("page=").nth(1).unwrap();
    let page = page.split_whitespace().next().unwrap().to_owned();
    // The first look is taken with the first turn of the operator's listener, what holds writes back is
    // known with the first turn of their lane.
    let text = loop {
        let text = place
            .sentinel(&format!("top --once --admin {page}"))
            .expect(0)
            .out;
        if text.contains("sentinel 0.1.0") && !text.contains("writes wait for nothing") {
            break text;
        }
    };
    for part in [
        "gate not ready (no node was reached since the start)",
        "writes wait for a node: no node takes writes for",
        "queue depth",
        "node http://127.0.0.1:1 down",
        "INFO  serving address=127.0.0.1:",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, Some(0));
    let gone = place.sentinel(&format!("top --once --admin {page}"));
    gone.expect(1)
        .says("does not answer")
        .says("is this its --admin?");
}

#[test]
fn top_says_that_something_else_answers() {
    let place = Place::new();
    let mut running = Running::start(&place, ALONE);
    let line = running.read_until("serving address=127.0.0.1:");
    let front = line.split("address=").nth(1).unwrap();
    let front = front.split_whitespace().next().unwrap();
    place
        .sentinel(&format!("top --once --admin {front}"))
        .expect(1)
        .says("is not the operator's listener");
    place
        .sentinel("top --admin https://127.0.0.1")
        .expect(2)
        .says("write http://127.0.0.1:26681");
}
