//! Runs that do not come to their planned end: killed, interrupted, out of disk; and a generator that stood still.

use std::fs::File;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use pacing::{Nanos, Profile, Rate};
use rustix::process::Signal;
use serde_json::Value;
use testkit::{ScriptedConnection, ScriptedServer};
use txgen::cli::Settings;
use txgen::plan::{Plan, Request, RequestedLoad};
use txgen::shutdown::Shutdown;

use crate::support::{Behaviour, FakeChain, FakeNode, Node, Place, Upgrades, wait_until};

/// A minute on a built-in node with quick blocks; far longer than any test waits.
const LONG_RUN: &str = "[settings]\ndrain_timeout = \"20s\"\n\
     [builtin]\nblock_interval = \"100ms\"\n\
     [[phases]]\nprofile = \"constant\"\nrate = 300\nduration = \"60s\"\n";

/// Whole rows of a file that may be growing, without its header.
fn rows(place: &Place, name: &str) -> usize {
    let text = std::fs::read(place.path().join("run").join(name)).unwrap_or_default();
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    lines.saturating_sub(1)
}

#[test]
fn a_killed_run_leaves_a_readable_folder() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run");
    wait_until("rows of two seconds", || {
        rows(&place, "txs.csv") >= 300 && rows(&place, "series.csv") >= 2
    });
    running.signal(Signal::KILL);
    let ended = running.wait();
    assert_eq!(ended.code, None, "{ended}");
    let run = place.run("run");
    let manifest = run.manifest();
    assert_eq!(manifest["format"], "tidegate.run/2");
    assert_eq!(manifest["planned"], 18_000);
    let txs = run.table("txs.csv");
    assert!(txs.rows.len() >= 300);
    assert!(txs.column("committed_ns").all(|stamp| !stamp.is_empty()));
    assert!(run.table("series.csv").rows.len() >= 2);
    let own = run.table("blocks.csv").sum("own_txs");
    assert!(own > 0);
    assert_eq!(
        run.table("steps.csv").rows.len(),
        0,
        "the step was not over"
    );
    let histograms = run.histograms();
    assert!(!histograms["commit_from_due"].is_empty());
    assert_eq!(
        run.text("summary.json"),
        "",
        "it is written at the end only"
    );
}

#[test]
fn an_interrupted_run_drains_and_writes_everything() {
    for signal in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        place.write("scenario.toml", LONG_RUN);
        let running = place.start("run scenario.toml --out run");
        wait_until("rows", || rows(&place, "txs.csv") >= 100);
        running.signal(signal);
        let ended = running.wait();
        ended
            .expect(130)
            .says("no more is offered")
            .prints("interrupted");
        let run = place.run("run");
        let summary = run.summary();
        summary.assert_conserved();
        assert_eq!(summary.at("interrupted"), &Value::Bool(true));
        assert!(summary.number("time.offered_s") < 30.0);
        // The node was well: whatever was sent is in a block, and nothing due was left out but
        // what was still waiting when the order came.
        let sent = summary.count("fate.sent");
        assert!(sent >= 100);
        assert_eq!(summary.count("fate.committed"), sent);
        assert_eq!(
            summary.count("offered.unsent"),
            summary.count("offered.unsent_by_reason.interrupted")
        );
        assert_eq!(run.table("txs.csv").rows.len() as u64, sent);
        assert_eq!(run.table("series.csv").sum("sent"), sent);
        assert_eq!(run.table("steps.csv").rows.len(), 1);
    }
}

#[test]
fn a_second_interruption_leaves_at_once() {
    let node = FakeNode::always(Behaviour::Silence);
    let place = Place::new();
    let running = place.start(&format!(
        "constant --rate 200 --duration 60s --no-follow --drain-timeout 60s --out run --endpoints {}",
        node.ws_url()
    ));
    wait_until("broadcasts", || node.broadcasts() >= 20);
    running.signal(Signal::INT);
    // Two signals at the same moment are one to the system.
    wait_until("the first is understood", || {
        running.err_so_far().contains("Ctrl-C again leaves at once")
    });
    let start = Instant::now();
    running.signal(Signal::INT);
    let ended = running.wait();
    assert!(start.elapsed() < Duration::from_secs(10));
    ended.expect(130);
    let summary = place.run("run").summary();
    summary.assert_conserved();
    let sent = summary.count("fate.sent");
    assert!(sent >= 20);
    assert_eq!(summary.count("fate.unanswered"), sent);
    assert_eq!(place.run("run").table("txs.csv").rows.len() as u64, sent);
}

#[test]
fn an_interruption_of_the_drain_is_not_said_to_have_cut_the_plan_short() {
    let node = FakeNode::always(Behaviour::Silence);
    let place = Place::new();
    let running = place.start(&format!(
        "constant --rate 40 --duration 1s --no-follow --drain-timeout 60s --out run --endpoints {}",
        node.ws_url()
    ));
    wait_until("the drain", || {
        running.err_so_far().contains("draining: 40")
    });
    running.signal(Signal::INT);
    wait_until("the first is understood", || {
        running.err_so_far().contains("Ctrl-C again leaves at once")
    });
    running.signal(Signal::INT);
    running
        .wait()
        .expect(130)
        .prints("40 = 40 sent + 0 unsent")
        .prints("interrupted: the offering ended at 1.0 s; 0 of what was due had not been sent");
}

/// A node that takes connections and says nothing: Ctrl-C had no effect for 5 s, and then the node was blamed, with 2.
#[test]
fn an_interruption_while_a_node_is_asked_is_one_too() {
    let node = ScriptedServer::start(ScriptedConnection::freeze);
    let place = Place::new();
    for command in ["constant --rate 10", "search"] {
        let known = node.connections();
        let line = format!("{command} --duration 1s --endpoints {}", node.http_url());
        let running = place.start(&line);
        // One is closed again: it showed that the address is right.
        wait_until("the node is asked", || node.connections() >= known + 2);
        running.signal(Signal::INT);
        running.wait().expect(130);
    }
}

#[test]
fn an_interruption_before_the_start_is_one_too() {
    let identity = FakeChain {
        upgrades: Upgrades::Unanswered,
        ..FakeChain::without_blocks()
    };
    let node = FakeNode::start(identity, |_| Behaviour::Accept);
    let place = Place::new();
    let running = place.start(&format!(
        "constant --rate 5 -c 1 --no-follow --out run --endpoints {}",
        node.ws_url()
    ));
    // One look whether it listens, one question, one WebSocket that is never agreed to.
    wait_until("the connection is being opened", || node.connections() >= 3);
    running.signal(Signal::INT);
    running
        .wait()
        .expect(130)
        .says("interrupted before the start");
    assert_eq!(node.broadcasts(), 0);
}

#[test]
fn a_file_that_shrinks_under_the_run_ends_it_with_its_account() {
    const LINES: usize = 400;
    const LEFT: usize = 300;
    // Transactions this large are prepared some hundred ahead at most.
    let line = |n: usize| format!("key{n:04}={}\n", "v".repeat(60_000));
    let place = Place::new();
    let path = place.write("txs", (0..LINES).map(line).collect::<String>());
    let gate = Arc::new(Barrier::new(2));
    let node = {
        let gate = gate.clone();
        FakeNode::start(FakeChain::without_blocks(), move |number| {
            if number == 20 {
                gate.wait();
            }
            Behaviour::Accept
        })
    };
    let running = place.start(&format!(
        "flood --count 1000 --concurrency 1 --threads 1 --workload file:txs --file-format raw \
         --no-follow --out run --endpoints {}",
        node.url()
    ));
    wait_until("the run is under way", || node.broadcasts() >= 21);
    let file = File::options().write(true).open(path).unwrap();
    file.set_len((LEFT * line(0).len()) as u64).unwrap();
    gate.wait();
    running
        .wait()
        .expect(1)
        .says("the workload failed")
        .says("line 300: the file became shorter during the run")
        .says_it_once();
    let run = place.run("run");
    let summary = run.summary();
    summary.assert_conserved();
    let sent = summary.count("fate.sent");
    assert!((21..=LEFT as u64).contains(&sent), "{sent}");
    assert_eq!(summary.count("fate.accepted"), sent);
    assert_eq!(node.broadcasts() as u64, sent);
    assert_eq!(run.table("txs.csv").rows.len() as u64, sent);
}

#[test]
fn a_full_disk_ends_no_run_and_is_named() {
    // A limit on the size of files stands for the disk: 32 blocks of 512 or 1024 bytes.
    let place = Place::new();
    place.write(
        "scenario.toml",
        "[settings]\nsize = 64\n\
         [builtin]\nblock_interval = \"100ms\"\n\
         [[phases]]\nprofile = \"constant\"\nrate = 500\nduration = \"2500ms\"\n",
    );
    let ended =
        place.shell("trap '' XFSZ; ulimit -f 64; exec \"$TXGEN\" run scenario.toml --out run");
    ended
        .expect(1)
        .says("the record is incomplete")
        .says("txs.csv")
        .says("free some space or choose another folder")
        .says("counting goes on")
        .prints("1,250 = 1,250 sent + 0 unsent")
        .prints("1,250 = 1,250 committed");
    let run = place.run("run");
    let summary = run.summary();
    summary.assert_all_committed(1_250);
    assert_eq!(summary.list("recorder.incomplete_files"), ["txs.csv"]);
    // The others go on to the end.
    assert_eq!(run.table("series.csv").sum("sent"), 1_250);
    assert_eq!(run.table("blocks.csv").sum("own_txs"), 1_250);
    assert_eq!(run.histograms()["lateness"].len(), 1_250);
}

#[test]
fn results_that_a_full_disk_did_not_take_from_stdout_are_named() {
    let place = Place::new();
    for command in ["completions bash", "run --list", "init hold --out -"] {
        let ended = place.shell(&format!("exec \"$TXGEN\" {command} > /dev/full"));
        ended
            .expect(1)
            .says("cannot write to stdout: free some space");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_named_and_costs_no_run() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run");
    wait_until("the first row", || rows(&place, "series.csv") >= 1);
    std::fs::create_dir(place.path().join("run/report.html")).unwrap();
    running.signal(Signal::INT);
    let ended = running.wait();
    ended
        .expect(130)
        .says("warning: cannot write the report to run/report.html: a folder")
        .says("`txgen report run` makes it from the record");
    assert!(!ended.err.contains('\x1b'), "{ended}");
    assert!(!place.run("run").text("summary.json").is_empty());
}

#[test]
fn a_signal_marks_the_run() {
    let place = Place::new();
    place.write("scenario.toml", LONG_RUN);
    let running = place.start("run scenario.toml --out run");
    wait_until("the first row", || rows(&place, "series.csv") >= 1);
    running.signal(Signal::USR1);
    wait_until("the mark", || running.err_so_far().contains(": mark 1"));
    running.signal(Signal::INT);
    running.wait().expect(130);
    let run = place.run("run");
    let marks: Vec<String> = run
        .table("series.csv")
        .column("mark")
        .filter(|mark| !mark.is_empty())
        .map(str::to_owned)
        .collect();
    assert_eq!(marks, ["mark 1"]);
}

const FREEZE: Duration = Duration::from_secs(1);
const PLANNED: u64 = 500 * 2;

#[test]
fn a_freeze_shows_in_response_time_and_costs_no_transaction() {
    let node = Node::quick();
    let place = Place::new();
    let profile = Profile::constant(Rate::per_second(500).unwrap(), Some(Nanos::from_secs(2)));
    let request = Request {
        command: "constant".into(),
        load: RequestedLoad::Open {
            schedule: profile.unwrap(),
            stop_when_saturated: false,
            reconnect_in_pauses: false,
        },
        builtin: devnode::Blueprint::default(),
    };
    let mut settings = Settings {
        endpoints: vec![node.url().parse().unwrap()],
        out: Some(place.path().join("run")),
        ..Settings::default()
    };
    settings.display.no_tui = true;
    let plan = Plan::resolve(request, settings, 1).unwrap();
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the load has begun", || node.snapshot().broadcasts >= 50);
            node.faults().stall(FREEZE);
        });
        txgen::run::run(&plan, &Shutdown::default()).unwrap()
    });
    let summary = place.run("run").summary();
    summary.assert_all_committed(PLANNED);
    assert_eq!(outcome.summary.fate.committed, PLANNED);
    // Seen from due, a freeze of a second is a second; seen from sent, most never met it.
    let response = summary.number("latency_ms.accept_response.p99");
    let service = summary.number("latency_ms.accept_service.p50");
    assert!(
        response >= 500.0 && response > service,
        "{response} {service}"
    );
    assert!(summary.count("late.node") > 0);
}
