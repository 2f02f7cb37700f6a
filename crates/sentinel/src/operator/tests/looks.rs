//! What a second look at the program makes of the first, in times that the tests choose, and how it is shown.

use control::BreakState;
use pacing::Nanos;

use super::{HOSTILE, client, snapshot};
use crate::lane::Accounts;
use crate::metrics::Counted;
use crate::operator::overview::{BREAKS, Keeper, SECONDS};
use crate::operator::{ClientView, Snapshot, page, printable};

#[test]
fn every_figure_of_the_page_is_in_the_overview() {
    let mut keeper = Keeper::new(Snapshot::default());
    let broken = Snapshot {
        counted: Counted {
            pauses: [1, 0],
            ..Counted::default()
        },
        ..snapshot()
    };
    keeper.look(broken, vec![client()]);
    let overview = serde_json::to_value(keeper.overview()).unwrap();
    let values = |attribute: &str| {
        let begin = format!("data-{attribute}=\"");
        let rest = page::PAGE.split(&begin).skip(1);
        let names = rest.map(|rest| rest.split('"').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    for (attribute, part, least) in [
        ("now", "now", 12),
        ("rate", "rates", 4),
        ("total", "totals", 9),
    ] {
        let names = values(attribute);
        assert!(names.len() >= least, "{names:?}");
        for name in names {
            assert!(overview[part][&name].is_number(), "{part}.{name}");
        }
    }
    for column in values("columns")
        .iter()
        .flat_map(|columns| columns.split(' '))
    {
        assert!(overview["history"][column].is_array(), "{column}");
        assert!(
            page::PAGE.contains(&format!("<path class=\"{column}\"/>")),
            "{column}"
        );
    }
    // What the script reads by name.
    for (reader, part) in [
        ("one", &overview["clients"][0]),
        ("one", &overview["breaks"][0]),
        ("overview", &overview),
    ] {
        // The curves are read by column, which is above.
        let names = part.as_object().unwrap().keys();
        for name in names.filter(|name| *name != "history") {
            assert!(
                page::PAGE.contains(&format!("{reader}.{name}")),
                "{reader}.{name}"
            );
        }
    }
}

#[test]
fn a_hostile_name_is_text_in_a_terminal() {
    let mut keeper = Keeper::new(Snapshot::default());
    let hostile = ClientView {
        client: HOSTILE.to_owned(),
        ..client()
    };
    keeper.look(snapshot(), vec![hostile]);
    let text = printable(&keeper.overview().to_string());
    assert!(text.contains("\u{fffd}[2J<script>"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn no_figure_loses_a_digit_and_the_top_clients_stand_first() {
    let mut keeper = Keeper::new(Snapshot::default());
    let busy = ClientView {
        dispatched: 123_456_789_012,
        queued: 98_765,
        ..client()
    };
    keeper.look(snapshot(), vec![busy; 5]);
    let text = keeper.overview().to_string();
    let lines = text.lines().enumerate();
    let clients = lines.filter(|(_, line)| line.starts_with("127.0.0.2"));
    let clients: Vec<_> = clients.collect();
    assert_eq!(clients.len(), 5, "{text}");
    for (place, line) in clients {
        assert!(line.contains(" 98765") && line.contains(" 123456789012"));
        // A terminal has 24 rows.
        assert!(place < 14, "{text}");
    }
}

#[test]
fn waits_are_those_of_the_last_minute() {
    let with = |second: u64, short: u64, long: u64, endless: u64| {
        let mut snapshot = snapshot();
        snapshot.at = Nanos::from_secs(second);
        snapshot.counted.waits[1] = short;
        snapshot.counted.waits[5] = long;
        snapshot.counted.waits[12] = endless;
        snapshot
    };
    let mut keeper = Keeper::new(Snapshot::default());
    let waited = |keeper: &Keeper| {
        let waited = keeper.overview().waited?;
        Some([waited.p50_at_most_seconds, waited.p95_at_most_seconds])
    };
    keeper.look(with(1, 1_000, 0, 0), Vec::new());
    assert_eq!(waited(&keeper), None, "nothing left since the first look");
    keeper.look(with(2, 1_090, 10, 0), Vec::new());
    assert_eq!(waited(&keeper), Some([Some(0.0025), Some(0.1)]));
    let text = keeper.overview().to_string();
    assert!(
        text.contains("waited at most 2.5 ms (p50), at most 100 ms (p95)"),
        "{text}"
    );
    keeper.look(with(3, 1_090, 10, 900), Vec::new());
    assert_eq!(
        waited(&keeper),
        Some([None, None]),
        "longer than the longest bound"
    );
    // After a minute without any all of it is forgotten.
    for second in 4..70 {
        keeper.look(with(second, 1_090, 10, 900), Vec::new());
    }
    keeper.look(with(70, 1_091, 10, 900), Vec::new());
    assert_eq!(waited(&keeper), Some([Some(0.0025); 2]));
}

fn counted_writes(ms: u64, admitted: u64, forwarded: u64) -> Snapshot {
    let mut snapshot = snapshot();
    snapshot.at = Nanos::from_millis(ms);
    snapshot.status.accounts = Accounts {
        admitted,
        refused: 10,
        forwarded,
        ..Accounts::default()
    };
    snapshot
}

fn seen(keeper: &Keeper) -> serde_json::Value {
    serde_json::to_value(keeper.overview()).unwrap()
}

#[test]
fn rates_are_what_was_counted_between_two_looks_over_the_time_between_them() {
    let mut keeper = Keeper::new(counted_writes(1_000, 100, 90));
    assert_eq!(seen(&keeper)["rates"]["received"], 0.0);
    // A look that came late: twice as many in twice the time is the same rate.
    keeper.look(counted_writes(3_000, 4_100, 2_090), Vec::new());
    let overview = seen(&keeper);
    assert_eq!(overview["rates"]["received"], 2_000.0);
    assert_eq!(overview["rates"]["forwarded"], 1_000.0);
    assert_eq!(overview["rates"]["refused"], 0.0);
    assert_eq!(overview["totals"]["admitted"], 4_100);
    assert_eq!(overview["history"]["at_seconds"][0], 3.0);
    assert_eq!(overview["history"]["received"][0], 2_000.0);
}

#[test]
fn the_last_minutes_are_kept_and_no_more() {
    let mut keeper = Keeper::new(counted_writes(0, 0, 0));
    for second in 1..2 * SECONDS as u64 {
        let mut now = counted_writes(second * 1_000, second * 50, second * 50);
        now.gauges.queue_depth = second as usize;
        keeper.look(now, Vec::new());
    }
    let history = &seen(&keeper)["history"];
    assert_eq!(history["queued"][SECONDS - 1], 2 * SECONDS - 1);
    assert_eq!(history["at_seconds"][0], SECONDS as f64);
    for (name, column) in history.as_object().unwrap() {
        assert_eq!(column.as_array().unwrap().len(), SECONDS, "{name}");
    }
    let rates = history["received"].as_array().unwrap();
    assert!(rates.iter().all(|rate| *rate == 50.0));
}

#[test]
fn a_break_has_its_cause_its_length_and_the_gain_that_is_judged_later() {
    let counted = |ms, pauses, paused_seconds, pause_gain| Snapshot {
        at: Nanos::from_millis(ms),
        counted: Counted {
            pauses,
            paused_seconds,
            pause_gain,
            ..Counted::default()
        },
        ..Snapshot::default()
    };
    let mut keeper = Keeper::new(counted(10_000, [0, 0], 0.0, 0.0));
    assert_eq!(seen(&keeper)["breaks"], serde_json::json!([]));
    keeper.look(counted(11_000, [1, 0], 0.4, 0.0), Vec::new());
    keeper.look(counted(12_000, [1, 0], 1.4, 0.0), Vec::new());
    let one = &seen(&keeper)["breaks"][0];
    assert_eq!(
        *one,
        serde_json::json!({ "at_seconds": 11.0, "cause": "interval", "paused_seconds": 1.4, "gain": null })
    );
    keeper.look(counted(90_000, [1, 0], 5.0, -0.12), Vec::new());
    // The gain of the one before is not that of the next.
    keeper.look(counted(91_000, [1, 1], 5.5, -0.12), Vec::new());
    let breaks = &seen(&keeper)["breaks"];
    assert_eq!(
        (&breaks[0]["cause"], &breaks[0]["gain"]),
        (&"threshold".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&breaks[1]["cause"], &breaks[1]["gain"]),
        (&"interval".into(), &(-0.12).into())
    );
    assert_eq!(breaks[1]["paused_seconds"], 5.0);
    for more in 0..2 * BREAKS as u64 {
        keeper.look(
            counted(100_000 + more, [2 + more, 1], 6.0, -0.12),
            Vec::new(),
        );
    }
    assert_eq!(seen(&keeper)["breaks"].as_array().unwrap().len(), BREAKS);
}

#[test]
fn a_clients_rate_is_unknown_at_the_first_look_and_after_its_state_began_anew() {
    let mut keeper = Keeper::new(Snapshot::default());
    let mut rate_after = |ms, dispatched| {
        let client = ClientView {
            dispatched,
            ..client()
        };
        let now = Snapshot {
            at: Nanos::from_millis(ms),
            ..Snapshot::default()
        };
        keeper.look(now, vec![client]);
        seen(&keeper)["clients"][0]["forwarded_per_second"].as_f64()
    };
    assert_eq!(rate_after(1_000, 500), None);
    assert_eq!(rate_after(2_000, 1_495), Some(995.0));
    // Its entry in the table was given up and made again.
    assert_eq!(rate_after(3_000, 20), None);
    assert_eq!(rate_after(4_000, 20), Some(0.0));
}

#[test]
fn the_gate_is_closed_from_the_draining_to_the_end_of_the_pause() {
    let gate = |state| {
        let mut now = snapshot();
        now.status.state = state;
        let keeper = Keeper::new(now);
        seen(&keeper)["gate"].as_str().unwrap().to_owned()
    };
    let gates: Vec<String> = BreakState::ALL.map(gate).into();
    assert_eq!(gates, ["open", "draining", "paused"]);
}
