//! `sentinel` as a program: help, configuration from outside, signals, exit codes.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use testkit::{Http, Place, Running};

use crate::reload::address_after;

/// A working folder of `sentinel`; relative paths on command lines are inside it.
pub(crate) fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_sentinel"), "SENTINEL_")
}

#[test]
fn the_help_teaches() {
    let place = place();
    let help = place.run_to_end("--help").expect(0).out.clone();
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
        .run_to_end("--version")
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
    let help = place().run_to_end("--help").out.clone();
    assert!(
        help.starts_with("Examples:\n  sentinel --max-req"),
        "{help}"
    );
}

#[test]
fn what_is_not_understood_ends_with_exit_code_2() {
    let place = place();
    for (line, phrase) in [
        ("--max-rek 5", "--max-req"),
        ("--max-req fast", "--max-req: fair.max_req:"),
        ("--max-req -5", "-5"),
        ("--set fair.max_rq=5", "did you mean fair.max_req?"),
        ("--set max_req", "KEY=VALUE"),
        ("--max-req 10 --set fair.max_req=20", "set twice"),
        (
            "--set limits.body_bytes=128KiB --buffer-bytes 64KiB",
            "lower limits.body_bytes or raise buffer.bytes",
        ),
        ("--upstream 127.0.0.1:26657", "write http://127.0.0.1:26657"),
        ("--listen localhost", "write for instance 127.0.0.1:26680"),
        ("--admin 127.0.0.1:26680", "clashes with listen.addr"),
        ("--deny 10.0.0.1/8", "10.0.0.0/8"),
        ("--config none.toml", "none.toml"),
        ("chek x", "check"),
        ("completions klingon", "possible values: bash"),
    ] {
        place.run_to_end(line).expect(2).says(phrase);
    }
    let none = place.run_to_end("--max-req fast").err.clone();
    assert!(none.starts_with("sentinel: --max-req:"), "{none}");
}

/// A log that could not be opened ended with code 1, after which a service manager starts the program again and again.
#[test]
fn what_a_setting_names_and_cannot_be_used_ends_with_exit_code_2() {
    let place = place();
    for (setting, reason) in [
        ("log.access=none/access.json", "No such file"),
        ("keys.file=none.toml", "No such file"),
        ("tls.certificates=none.pem", "No such file"),
    ] {
        let line = format!("--listen 127.0.0.1:0 --admin off --set {setting}");
        let (key, value) = setting.split_once('=').unwrap();
        place
            .run_to_end(&line)
            .expect(2)
            .says(&format!("{key}: {value}: {reason}"));
    }
}

#[test]
fn check_says_whether_a_file_is_right() {
    let place = place();
    place.write(
        "right.toml",
        "[fair]\nmax_req = \"500/s\"\n[admin]\naddr = \"0.0.0.0:1\"\n",
    );
    place
        .run_to_end("check right.toml")
        .expect(0)
        .prints("right.toml: ok")
        .says("no authentication");
    place.write(
        "wrong.toml",
        "[fair]\nmax_rq = 5\n\n[pause]\ninterval = \"soon\"\n",
    );
    place
        .run_to_end("check wrong.toml")
        .expect(2)
        .says("sentinel: wrong.toml:2: unknown key fair.max_rq; did you mean fair.max_req?\n")
        .says("sentinel: wrong.toml:5: pause.interval: `soon` is not a duration");
    // Only the file is checked, not what surrounds it.
    let bad = [
        ("SENTINEL_FAIR__MAX_REQ", "x"),
        ("SENTINEL_CONFIG", "wrong.toml"),
    ];
    place.run_with(&bad, "check right.toml").expect(0);
    place.run_to_end("check").expect(2).says("<FILE>");
}

#[test]
fn the_effective_configuration_names_its_origins_and_is_a_configuration() {
    let place = place();
    place.write(
        "base.toml",
        "[fair]\nmax_req = 100\nqueue_per_client = 50\n[trust]\ndeny = [\"::1\"]\n",
    );
    let printed = place
        .run_with(
            &[
                ("SENTINEL_CONFIG", "base.toml"),
                ("SENTINEL_FAIR__QUEUE_PER_CLIENT", "60"),
                ("SENTINEL_TRUST__DENY", "10.0.0.0/8,192.0.2.0/24"),
            ],
            "--print-config --max-req 200/s --pause-interval 100s --upstream http://a:1 --upstream http://b:1",
        )
        .expect(0)
        .out
.clone();
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
        .run_to_end("--config printed.toml --print-config")
        .expect(0)
        .out
        .clone();
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
        .run_with(
            &[("SENTINEL_CONFIG", "base.toml")],
            "--config other.toml --print-config",
        )
        .expect(0)
        .prints("max_req = \"7/s\"");
}

#[test]
fn completions_and_the_manual_are_printed() {
    let place = place();
    for shell in ["bash", "zsh", "fish"] {
        place
            .run_to_end(&format!("completions {shell}"))
            .expect(0)
            .prints("max-req");
    }
    let page = place.run_to_end("man").expect(0).out.clone();
    assert!(
        page.contains(".TH sentinel") && page.contains("pause\\-interval"),
        "{page}"
    );
    assert!(page.contains(".TH sentinel-top"), "{page}");
    let script = place.run_to_end("completions bash").expect(0).out.clone();
    assert!(script.contains("sentinel__subcmd__top"), "{script}");
}

/// Free ports; no node behind.
pub(crate) const ALONE: &str =
    "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --upstream http://127.0.0.1:1";

#[test]
fn a_signal_ends_it_cleanly() {
    let place = place();
    for signal in [Signal::TERM, Signal::INT] {
        let running = place.start(ALONE);
        running.said("serving address=127.0.0.1:");
        running.signal(signal);
        running.wait().expect(0).says("going down").says("ended");
    }
}

/// It ended the program without its drain: every acknowledged write that waited was lost. Now it has the
/// configuration read again, and a wrong one changes nothing.
#[test]
fn a_hangup_ends_no_service_and_reads_the_configuration_again() {
    let place = place();
    let file = place.path().join("a.toml");
    std::fs::write(&file, "").unwrap();
    let running = place.start(&format!("{ALONE} --config a.toml"));
    running.said("serving address=127.0.0.1:");
    for (text, said) in [
        ("[limits]\nbatch = 20\n", "in force: limits.batch"),
        ("[limits]\nbatch = 0\n", "a.toml:2: limits.batch"),
        ("[limits]\nbatch = 20\n", "nothing changes now"),
        ("[listen]\nthreads = 2\n", "needs a restart: listen.threads"),
    ] {
        std::fs::write(&file, text).unwrap();
        running.signal(Signal::HUP);
        running.said(said);
    }
    running.signal(Signal::TERM);
    running.wait().expect(0).says("ended");
}

/// A terminal that was stopped, or a collector of the log that hangs.
#[test]
fn lifecycle_111_a_stderr_that_is_not_read_stops_neither_service_nor_the_end() {
    let place = place();
    let (taken, mut given) = io::pipe().unwrap();
    let mut command = place.command(env!("CARGO_BIN_EXE_sentinel"));
    let line = format!("{ALONE} --config a.toml");
    place.write("a.toml", "");
    command
        .args(line.split_whitespace())
        .stderr(given.try_clone().unwrap());
    let running = Running::start(command);
    let mut taken = BufReader::new(taken);
    let mut line = String::new();
    while !line.contains("serving address=") {
        line.clear();
        assert_ne!(taken.read_line(&mut line).unwrap(), 0, "it has ended");
    }
    fcntl_setfl(&given, OFlags::NONBLOCK).unwrap();
    while given.write(b"the pipe is full\n").is_ok() {}
    fcntl_setfl(&given, OFlags::empty()).unwrap();
    let admin = Http::new(
        address_after(&line, "page=http://"),
        Duration::from_secs(60),
    );
    for _ in 0..10 {
        assert_eq!(admin.post("/reload", b"").unwrap().status, 200);
    }
    running.signal(Signal::TERM);
    running.wait().expect(0);
}

#[test]
fn explain_75_the_line_at_the_start_says_what_stands_where() {
    let place = place();
    let running = place.start(ALONE);
    let line = running.said("serving address=127.0.0.1:");
    for part in [
        "nodes=http://127.0.0.1:1 (no answer yet)",
        " pace=adaptive ceiling=2000/s ",
        "explain=http://127.0.0.1:",
        "/explain?ip=ADDRESS",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    running.signal(Signal::TERM);
    running.wait().expect(0);
}

/// What a new user sees first is no complaint.
#[test]
fn the_first_line_is_no_warning() {
    let place = place();
    let running = place.start(ALONE);
    running.said("serving address=127.0.0.1:");
    running.signal(Signal::TERM);
    let said = running.wait().expect(0).err.clone();
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.contains(" INFO ") && !first.contains("WARN"),
        "{said}"
    );
}

#[test]
fn an_address_in_use_is_named_and_what_to_do() {
    let place = place();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = taken.local_addr().unwrap();
    place
        .run_to_end(&format!("--listen {address} --admin off"))
        .expect(1)
        .says(&format!("{address} (listen.addr)"))
        .says("another program listens there")
        .says("--listen");
    place
        .run_to_end(&format!("--listen 127.0.0.1:0 --admin {address}"))
        .expect(1)
        .says("(admin.addr)")
        .says("--admin");
}

#[test]
fn what_is_odd_is_logged_at_the_start() {
    let place = place();
    let running = place.start(&format!("{ALONE} --trusted-proxy ::/0"));
    running.said("any client can choose its own address");
    running.said("serving address=127.0.0.1:");
    running.signal(Signal::TERM);
    running.wait().expect(0);
}

#[test]
fn top_prints_the_figures_of_a_running_sentinel() {
    let place = place();
    let running = place.start(ALONE);
    let line = running.said("serving address=127.0.0.1:");
    let page = line.split("page=").nth(1).unwrap();
    let page = page.split_whitespace().next().unwrap().to_owned();
    // The first look is taken with the first turn of the operator's listener, what holds writes back is
    // known with the first turn of their lane.
    let text = loop {
        let text = place
            .run_to_end(&format!("top --once --admin {page}"))
            .expect(0)
            .out
            .clone();
        if text.contains("sentinel 0.1.0") && !text.contains("nothing holds writes back") {
            break text;
        }
    };
    for part in [
        "gate not ready (no node was reached since the start)",
        "writes wait for a node: no node takes writes for",
        "waiting 0: ",
        "node http://127.0.0.1:1 down",
        "INFO  serving address=127.0.0.1:",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    running.signal(Signal::TERM);
    running.wait().expect(0);
    let gone = place.run_to_end(&format!("top --once --admin {page}"));
    gone.expect(1)
        .says("does not answer")
        .says("is this its --admin?");
}

#[test]
fn top_says_that_something_else_answers() {
    let place = place();
    let running = place.start(ALONE);
    let line = running.said("serving address=127.0.0.1:");
    let front = line.split("address=").nth(1).unwrap();
    let front = front.split_whitespace().next().unwrap();
    place
        .run_to_end(&format!("top --once --admin {front}"))
        .expect(1)
        .says("is not the operator's listener");
    place
        .run_to_end("top --admin https://127.0.0.1")
        .expect(2)
        .says("write http://127.0.0.1:26681");
}
