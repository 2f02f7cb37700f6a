//! What a second look makes of the first, in times that the tests choose.

use control::{Bound, BreakState};
use pacing::Nanos;

use super::keeper::{BREAKS, SECONDS};
use super::*;
use crate::lane::Accounts;
use crate::metrics::{Counted, Gauges};
use crate::views::Readiness;

fn moment(admitted: u64, forwarded: u64) -> Moment {
    Moment {
        accounts: Accounts {
            admitted,
            refused: 10,
            forwarded,
            ..Accounts::default()
        },
        bound: "the ceiling: 2000.0 writes/s (fair.max_req)".to_owned(),
        ..Moment::default()
    }
}

fn ready() -> Readiness {
    Readiness {
        draining: false,
        reached: true,
        answering: true,
        controller: BreakState::Running,
        nodes: Vec::new(),
    }
}

fn at(milliseconds: u64) -> Nanos {
    Nanos::from_millis(milliseconds)
}

fn seen(keeper: &Keeper) -> Overview {
    keeper.overview(&ready(), Vec::new())
}

#[test]
fn rates_are_what_was_counted_between_two_looks_over_the_time_between_them() {
    let mut keeper = Keeper::default();
    keeper.look(at(1_000), moment(100, 90), Vec::new());
    assert_eq!(seen(&keeper).now.received_per_second, 0.0);
    // A look that came late: twice as many in twice the time is the same rate.
    keeper.look(at(3_000), moment(4_100, 2_090), Vec::new());
    let overview = seen(&keeper);
    assert_eq!(overview.now.received_per_second, 2_000.0);
    assert_eq!(overview.now.forwarded_per_second, 1_000.0);
    assert_eq!(overview.now.refused_per_second, 0.0);
    assert_eq!(overview.totals.received, 4_110);
    assert_eq!(overview.history.at_seconds, [1.0, 3.0]);
    assert_eq!(overview.history.received, [0.0, 2_000.0]);
}

#[test]
fn the_last_minutes_are_kept_and_no_more() {
    let mut keeper = Keeper::default();
    for second in 0..2 * SECONDS as u64 {
        let mut moment = moment(second * 50, second * 50);
        moment.gauges.queue_depth = second as usize;
        keeper.look(Nanos::from_secs(second), moment, Vec::new());
    }
    let history = seen(&keeper).history;
    assert_eq!(history.queued.len(), SECONDS);
    assert_eq!(history.queued.last(), Some(&(2 * SECONDS - 1)));
    assert_eq!(history.at_seconds[0], SECONDS as f64);
    assert!(history.received.iter().all(|rate| *rate == 50.0));
    let columns = serde_json::to_value(&history).unwrap();
    for (name, column) in columns.as_object().unwrap() {
        assert_eq!(column.as_array().unwrap().len(), SECONDS, "{name}");
    }
}

#[test]
fn a_break_has_its_cause_its_length_and_the_gain_that_is_judged_later() {
    let mut keeper = Keeper::default();
    let counted = |pauses, paused_seconds, pause_gain| Moment {
        counted: Counted {
            pauses,
            paused_seconds,
            pause_gain,
            ..Counted::default()
        },
        ..Moment::default()
    };
    keeper.look(at(10_000), counted([0, 0], 0.0, 0.0), Vec::new());
    assert_eq!(seen(&keeper).breaks, []);
    keeper.look(at(11_000), counted([1, 0], 0.4, 0.0), Vec::new());
    keeper.look(at(12_000), counted([1, 0], 1.4, 0.0), Vec::new());
    let [one] = &seen(&keeper).breaks[..] else {
        panic!("one break")
    };
    assert_eq!((one.at_seconds, one.cause.as_str()), (11.0, "interval"));
    assert_eq!((one.paused_seconds, one.gain), (1.4, None));
    keeper.look(at(90_000), counted([1, 0], 5.0, -0.12), Vec::new());
    // The gain of the one before is not that of the next.
    keeper.look(at(91_000), counted([1, 1], 5.5, -0.12), Vec::new());
    let overview = seen(&keeper);
    let told: Vec<_> = overview
        .breaks
        .iter()
        .map(|one| (one.cause.as_str(), one.gain))
        .collect();
    assert_eq!(told, [("threshold", None), ("interval", Some(-0.12))]);
    assert_eq!(overview.breaks[1].paused_seconds, 5.0);
    assert_eq!(overview.totals.breaks, 2);
    for more in 0..2 * BREAKS as u64 {
        keeper.look(
            at(100_000 + more),
            counted([2 + more, 1], 6.0, -0.12),
            Vec::new(),
        );
    }
    assert_eq!(seen(&keeper).breaks.len(), BREAKS);
}

#[test]
fn a_clients_rate_is_unknown_at_the_first_look_and_after_its_state_began_anew() {
    let mut keeper = Keeper::default();
    let mut rate_after = |milliseconds, dispatched| {
        let client = ClientView {
            client: "192.0.2.7".to_owned(),
            dispatched,
            ..ClientView::default()
        };
        keeper.look(at(milliseconds), Moment::default(), vec![client]);
        let overview = seen(&keeper);
        overview.clients[0].forwarded_per_second
    };
    assert_eq!(rate_after(1_000, 500), None);
    assert_eq!(rate_after(2_000, 1_495), Some(995.0));
    // Its entry in the table was given up and made again.
    assert_eq!(rate_after(3_000, 20), None);
    assert_eq!(rate_after(4_000, 20), Some(0.0));
}

#[test]
fn the_gate_is_closed_from_the_draining_to_the_new_connections() {
    let gate = |controller| {
        let mut keeper = Keeper::default();
        keeper.look(at(1), Moment::default(), Vec::new());
        let readiness = Readiness {
            controller,
            ..ready()
        };
        keeper.overview(&readiness, Vec::new()).gate
    };
    let gates: Vec<String> = BreakState::ALL.map(gate).into();
    assert_eq!(gates, ["open", "draining", "paused", "paused"]);
}

#[test]
fn an_overview_survives_its_json() {
    let mut keeper = Keeper::default();
    keeper.look(at(1_000), moment(5, 4), Vec::new());
    let gauges = Gauges {
        committed_tx_rate: 1_999.96,
        bound: Bound::Ceiling {
            per_second: 2_000.0,
        },
        ..Gauges::default()
    };
    keeper.look(
        at(2_000),
        Moment {
            gauges,
            ..moment(7, 6)
        },
        Vec::new(),
    );
    let event = Event {
        ago_seconds: 3.0,
        level: "WARN".to_owned(),
        text: "\"quoted\" and <b>tagged</b>".to_owned(),
    };
    let overview = keeper.overview(&ready(), vec![event]);
    assert_eq!(overview.bound.name, "ceiling");
    assert_eq!(overview.now.committed_per_second, 2_000.0);
    let json = serde_json::to_vec(&overview).unwrap();
    assert_eq!(serde_json::from_slice::<Overview>(&json).unwrap(), overview);
}
