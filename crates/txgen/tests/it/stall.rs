//! A node that freezes: seen from due it is a second and more, seen from sent nearly nothing, and
//! not one transaction is left out. This is why the loop is open.

use std::thread;
use std::time::Duration;

use pacing::{Nanos, Profile, Rate};
use txgen::cli::Settings;
use txgen::plan::{Plan, Request, RequestedLoad};
use txgen::shutdown::Shutdown;

use crate::support::{Node, Place, wait_until};

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
