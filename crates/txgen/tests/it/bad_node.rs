//! Nodes that pass the preflight and then misbehave: the run ends, counts what happened by kind,
//! and loses nothing.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    Behaviour, Ended, FakeChain, FakeNode, Node, Place, Summary, quick, wait_until,
};

const PLANNED: u64 = 50;

/// A short run on a node that answers every broadcast with `behaviour`.
fn run_on(behaviour: Behaviour, websocket: bool, drain_timeout: &str) -> (Summary, Ended) {
    let node = FakeNode::always(behaviour);
    let url = if websocket { node.ws_url() } else { node.url() };
    let place = Place::new();
    // Where no request is answered that is found out soon; every other answer has all the time that it needs.
    let answer_timeout = match behaviour {
        Behaviour::Silence => "200ms",
        Behaviour::OtherId if websocket => "200ms",
        _ => "60s",
    };
    let ended = place.txgen(&format!(
        "constant --rate 100 --duration 500ms -c 2 --no-follow --answer-timeout {answer_timeout} \
         --drain-timeout {drain_timeout} --out run --endpoints {url}"
    ));
    let summary = place.run("run").summary();
    // What a broken connection had half-written is the generator's loss, what the node held up is not.
    let by_node = summary.count("offered.unsent_by_reason.node");
    // Nor does a workload that is refused at any rate say anything of the node.
    if summary.count("offered.unsent") > by_node || matches!(behaviour, Behaviour::Reject(_)) {
        ended.expect(98);
    } else {
        ended.ends_as_judged(0, &summary);
    }
    if summary.count("offered.unsent") > 0 {
        ended.prints("were not sent");
    }
    summary.assert_conserved();
    assert_eq!(summary.count("offered.planned"), PLANNED);
    assert_eq!(
        place.run("run").table("txs.csv").rows.len() as u64,
        summary.count("fate.sent")
    );
    (summary, ended)
}

/// Everything is sent, and everything fails in this way.
#[track_caller]
fn all_fail_as(behaviour: Behaviour, websocket: bool, kind: &str) {
    let (summary, out) = run_on(behaviour, websocket, "10s");
    assert_eq!(summary.count("fate.sent"), PLANNED);
    assert_eq!(
        summary.count(&format!("fate.errors_by_kind.{kind}")),
        PLANNED,
        "{out}"
    );
    assert!(out.printed(&format!("{kind}: {PLANNED}")), "{out}");
}

/// Each behaviour and its kind, on nodes and in folders of their own.
#[track_caller]
fn each_fails_as(cases: &[(Behaviour, &str)], websocket: bool) {
    thread::scope(|scope| {
        for (behaviour, kind) in cases {
            scope.spawn(|| all_fail_as(*behaviour, websocket, kind));
        }
    });
}

#[test]
fn http_answers_that_are_garbage() {
    let cases = [
        (Behaviour::Html, "malformed"),
        (Behaviour::BadGateway, "http_status"),
        (Behaviour::Noise, "malformed"),
        (Behaviour::OtherShape, "malformed"),
    ];
    each_fails_as(&cases, false);
}

/// A proxy that lets broadcasts and `status` pass, and not `block`: "no block while accepted transactions waited, limited by
/// the node", with exit code 0.
#[test]
fn blocks_that_a_node_does_not_give_say_nothing_of_what_it_committed() {
    let identity = FakeChain {
        grows: true,
        ..FakeChain::without_blocks()
    };
    let node = FakeNode::start(identity, |_| Behaviour::Accept);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 50 --duration 1s -c 2 --drain-timeout 8s --out run --endpoints {}",
        node.url()
    ));
    ended.expect(98).says("and does not give it: ");
    ended.prints("1 followers could not go on");
    let summary = place.run("run").summary();
    summary.assert_conserved();
    // It is unknown, or the generator's where the machine was busy.
    assert_ne!(summary.text("limited_by"), "node");
}

/// A web server in the node's place: the summary said `malformed: 50`, and nothing of what had come.
#[test]
fn what_came_instead_of_answers_is_shown() {
    for (behaviour, websocket, phrase) in [
        (
            Behaviour::Html,
            false,
            "50 × HTTP 200: a web page: <html>It works!</html>",
        ),
        (
            Behaviour::BadGateway,
            false,
            "50 × HTTP 502: a web page: <html>Bad Gateway</html>",
        ),
        (
            Behaviour::OtherShape,
            false,
            "50 × HTTP 200: JSON, but no answer to the request: {\"id\":#,",
        ),
        (
            Behaviour::Html,
            true,
            "50 × WebSocket: a web page: <html>It works!</html>",
        ),
        (Behaviour::Noise, false, "the node does not speak HTTP: "),
    ] {
        let (summary, ended) = run_on(behaviour, websocket, "10s");
        ended.prints("no answer").prints(phrase);
        assert!(summary.sum("fate.unusable_by_text") > 0);
    }
    let (summary, ended) = run_on(Behaviour::Accept, false, "10s");
    assert_eq!(summary.sum("fate.unusable_by_text"), 0);
    assert!(!ended.printed("no answer"));
}

#[test]
fn http_connections_that_end_instead_of_an_answer() {
    let behaviours = [Behaviour::HalfThenClose, Behaviour::Close, Behaviour::Reset];
    each_fails_as(&behaviours.map(|behaviour| (behaviour, "closed")), false);
}

#[test]
fn http_answers_to_another_question() {
    all_fail_as(Behaviour::OtherId, false, "wrong_id");
}

#[test]
fn http_without_any_answer() {
    let (summary, _) = run_on(Behaviour::Silence, false, "500ms");
    let sent = summary.count("fate.sent");
    // Two connections, each busy until its answer has timed out.
    assert!((1..PLANNED).contains(&sent), "{sent}");
    assert_eq!(
        summary.count("fate.errors_by_kind.timeout") + summary.count("fate.unanswered"),
        sent
    );
    assert_eq!(
        summary.count("offered.unsent_by_reason.node"),
        PLANNED - sent
    );
    // On a busy machine the generator's own lateness may make it invalid; what the node holds up does not,
    // as the tests of the judge show.
    assert_ne!(summary.text("verdict.schedule"), "valid");
}

#[test]
fn websocket_answers_that_are_garbage() {
    let behaviours = [Behaviour::Html, Behaviour::OtherShape];
    each_fails_as(&behaviours.map(|behaviour| (behaviour, "malformed")), true);
}

#[test]
fn websockets_that_end_instead_of_an_answer() {
    for behaviour in [
        Behaviour::HalfThenClose,
        Behaviour::Close,
        Behaviour::Reset,
        Behaviour::Noise,
    ] {
        let (summary, out) = run_on(behaviour, true, "10s");
        let sent = summary.count("fate.sent");
        assert_eq!(summary.count("fate.errors"), sent, "{behaviour:?} {out}");
        let first = if behaviour == Behaviour::Noise {
            "malformed"
        } else {
            "closed"
        };
        let first = summary.count(&format!("fate.errors_by_kind.{first}"));
        assert!(first > 0, "{behaviour:?} {out}");
        assert_eq!(
            sent + summary.count("offered.unsent_by_reason.broken"),
            PLANNED,
            "what was half-written is counted apart, {behaviour:?} {out}"
        );
    }
}

#[test]
fn websocket_answers_to_another_question_or_none() {
    for behaviour in [Behaviour::OtherId, Behaviour::Silence] {
        let (summary, out) = run_on(behaviour, true, "10s");
        let sent = summary.count("fate.sent");
        assert_eq!(summary.count("fate.errors"), sent, "{out}");
        assert_eq!(
            sent + summary.count("offered.unsent_by_reason.broken"),
            PLANNED
        );
        assert!(summary.count("fate.errors_by_kind.timeout") > 0, "{out}");
        let strays = summary.count("recorder.stray_answers");
        assert_eq!(strays > 0, behaviour == Behaviour::OtherId, "{out}");
    }
}

#[test]
fn rejections_are_counted_by_code() {
    for websocket in [false, true] {
        let (summary, out) = run_on(Behaviour::Reject(7), websocket, "10s");
        assert_eq!(summary.count("fate.rejected"), PLANNED);
        assert_eq!(summary.count("fate.rejected_by_code.7"), PLANNED);
        assert!(out.printed("50 × code 7"), "{out}");
    }
}

#[test]
fn a_full_mempool_is_a_rejection() {
    let node = Node::quick();
    node.faults().set_mempool_full(true);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "flood --count 30 --concurrency 3 --out run --endpoints {}",
        node.url()
    ));
    ended.expect(0);
    let summary = place.run("run").summary();
    summary.assert_conserved();
    assert_eq!(summary.count("fate.rejected"), 30);
    assert_eq!(summary.count("fate.rejected_by_code.-32603"), 30);
    assert_eq!(summary.text("limited_by"), "node");
}

#[test]
fn transactions_that_fail_in_their_block_are_told_apart() {
    let node = Node::quick();
    node.faults().fail_execution(Some(devnode::FailedExecution {
        prefix: "bad".into(),
        code: 7,
    }));
    let place = Place::new();
    let lines: String = (0..20)
        .map(|n| format!("{}{n}=v\n", if n % 4 == 0 { "bad" } else { "good" }))
        .collect();
    place.write("txs", lines);
    let ended = place.txgen(&format!(
        "flood --count 20 --concurrency 2 --workload file:txs --file-format raw --out run --endpoints {}",
        node.url()
    ));
    ended.expect(0).prints("15 committed + 5 commit failed");
    let summary = place.run("run").summary();
    summary.assert_conserved();
    assert_eq!(summary.count("fate.committed"), 15);
    assert_eq!(summary.count("fate.commit_failed"), 5);
    let codes = place.run("run").table("txs.csv").numbers("code");
    assert_eq!(codes.iter().filter(|code| **code == 7).count(), 5);
}

/// The kvstore's transactions cannot fail in a block of the kvstore; on another application they can.
#[test]
fn the_failures_of_a_workload_that_is_not_expected_to_fail_are_seen_in_small_and_in_large_blocks() {
    let failing = Some(devnode::FailedExecution {
        prefix: String::new(),
        code: 7,
    });
    for (count, concurrency) in [(20, 2), (600, 300)] {
        let node = Node::quick();
        node.faults().fail_execution(failing.clone());
        let place = Place::new();
        let ended = place.txgen(&format!(
            "flood --count {count} --concurrency {concurrency} --transport ws --out run --endpoints {}",
            node.url()
        ));
        ended.expect(0);
        ended.prints(&format!("0 committed + {count} commit failed"));
        place.run("run").summary().assert_conserved();
    }
}

/// A run during which the node has an accident. It goes on until the node has been given as much
/// again, however long that takes.
fn run_with_accident(accident: impl Fn(&Node)) -> (Summary, u64) {
    let node = Node::quick();
    let place = Place::new();
    let running = place.start(&format!(
        "constant --rate 300 --duration 60s -c 4 --transport ws --drain-timeout 2s --out run --endpoints {}",
        node.url()
    ));
    let broadcasts = || node.snapshot().broadcasts;
    wait_until("some are offered", || broadcasts() >= 100);
    accident(&node);
    let before = broadcasts();
    wait_until("as many again", || broadcasts() >= before + 100);
    running.signal(Signal::INT);
    running.wait().expect(130);
    let summary = place.run("run").summary();
    summary.assert_conserved();
    let own: Vec<String> = place
        .run("run")
        .table("txs.csv")
        .column("txid")
        .map(ToOwned::to_owned)
        .collect();
    let in_blocks = node
        .committed()
        .iter()
        .filter(|(hash, _)| own.contains(&hex(hash)))
        .count() as u64;
    (summary, in_blocks)
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[test]
fn broken_connections_are_made_again() {
    let (summary, in_blocks) = run_with_accident(|node| node.faults().drop_connections());
    assert!(summary.count("reconnects.broken") >= 1);
    assert_eq!(summary.count("blocks.own_txs"), in_blocks);
    assert_eq!(summary.count("fate.pending"), 0, "the chain went on");
    assert!(summary.count("fate.committed") >= 100);
}

#[test]
fn a_node_that_restarts_is_followed_further() {
    let (summary, in_blocks) =
        run_with_accident(|node| node.faults().restart(Duration::from_millis(200)));
    assert!(summary.count("reconnects.broken") >= 1);
    // Its mempool is lost, and what was in it stays pending; every block is counted all the same.
    assert_eq!(summary.count("blocks.own_txs"), in_blocks);
    assert_eq!(summary.count("blocks.missing"), 0);
    assert!(summary.count("fate.committed") > 0);
}

#[test]
fn a_chain_that_stands_still_leaves_everything_pending() {
    let node = Node::start(quick());
    let place = Place::new();
    node.faults().halt();
    let ended = place.txgen(&format!(
        "flood --count 30 --concurrency 3 --drain-timeout 300ms --out run --endpoints {}",
        node.url()
    ));
    let summary = place.run("run").summary();
    ended
        .expect(0)
        .prints("30 = 0 committed + 0 commit failed + 30 pending")
        .prints("unknown: too little was seen to tell");
    summary.assert_conserved();
    // A healthy chain need not make a block within 300 ms.
    assert_eq!(summary.text("limited_by"), "unknown");
}
