//! A node that freezes: seen from due it is a second and more, seen from sent nearly nothing, and
//! not one transaction is left out. This is why the loop is open.

use std::thread;
use std::time::Duration;

use pacing::{Nanos, Profile, Rate};
use txgen::cli::Settings;
use txgen::plan::{Plan, Request, RequestedLoad};
use txgen::shutdown::Shutdown;

use crate::support::{Node, Place, wait_until};

const FREEZE: Duration = Duration::from_millis(1400);
const PLANNED: u64 = 2_000 * 4;

#[test]
fn a_freeze_shows_in_response_time_and_costs_no_transaction() {
    let node = Node::quick();
    let place = Place::new();
    let profile = Profile::constant(Rate::per_second(2_000).unwrap(), Some(Nanos::from_secs(4)));
    let request = Request {
        command: "constant".into(),
        load: RequestedLoad::Open {
            profile: profile.unwrap(),
            stop_when_saturated: false,
            reconnect_in_pauses: false,
        },
        builtin: devnode::Config::default(),
    };
    let settings = Settings {
        endpoints: vec![node.url().parse().unwrap()],
        out: Some(place.path().join("run")),
        no_tui: true,
        ..Settings::default()
    };
    let plan = Plan::resolve(request, settings, 1).unwrap();
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("a second of the run", || {
                node.snapshot().broadcasts >= 2_000
            });
            node.faults().stall(FREEZE);
        });
        txgen::run::run(&plan, &Shutdown::default()).unwrap()
    });
    let summary = place.run("run").summary();
    summary.assert_all_committed(PLANNED);
    assert_eq!(outcome.summary.fate.committed, PLANNED);
    let response = summary.number("latency_ms.accept_response.p99");
    assert!(response >= 1_000.0, "{response}");
    let service = summary.number("latency_ms.accept_service.p50");
    assert!(service < 100.0, "{service}");
    // Only what was on a connection when the freeze began took that long from sent: 16 at most.
    let txs = place.run("run").table("txs.csv");
    let frozen = txs
        .numbers("sent_ns")
        .iter()
        .zip(txs.numbers("accepted_ns"))
        .filter(|(sent, accepted)| accepted - **sent >= 1_000_000_000)
        .count();
    assert!((1..=16).contains(&frozen), "{frozen}");
    // The node made the whole backlog, also the part that then waited for a turn on a connection.
    let (by_node, by_connection) = (summary.count("late.node"), summary.count("late.connection"));
    assert!(
        by_node >= 1_000 && by_node > by_connection,
        "{by_node} {by_connection}"
    );
}
