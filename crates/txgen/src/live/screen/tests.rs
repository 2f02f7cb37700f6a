//! The picture on terminals of several sizes, and its keys.

use std::sync::Arc;

use measure::judge::{Onset, StepTerms};
use measure::{Counters, Counts, LatencyColumns, NodeLimits, SeriesRow, StepRow};
use pacing::{Nanos, Profile};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{KeyRequest, View};
use crate::live::state::{LiveState, NodeBoard, NodeState, Phase, RunInfo};

/// A ramp in its 91st second.
fn ninety_seconds() -> LiveState {
    let profile = Profile::steps(
        "1/s".parse().unwrap(),
        "500/s".parse().unwrap(),
        Nanos::from_secs(30),
        Some("2001/s".parse().unwrap()),
    )
    .unwrap();
    let node = NodeState {
        name: "http://10.0.0.7:26657".into(),
        version: "0.38.17".into(),
        ..NodeState::default()
    };
    let nodes = NodeBoard::new(vec![node]);
    nodes.block(0, 1_234, 1_501, Nanos::from_millis(89_600));
    nodes.mempool(0, 812, 203_000, Nanos::from_secs(90));
    let info = RunInfo {
        title: "ramp 1/s +500/s every 30s to 2001/s, open loop".into(),
        duration: profile.duration(),
        planned: Some(150_150),
        profile: Some(profile),
        follows: true,
        terms: StepTerms {
            followed: true,
            strict: false,
        },
        drain_timeout: Nanos::from_secs(30),
        limits: NodeLimits {
            mempool_txs: Some(5_000),
            ..NodeLimits::default()
        },
        nodes: Arc::new(nodes),
        ..RunInfo::default()
    };
    let mut state = LiveState {
        info,
        phase: Phase::Offering,
        now: Nanos::from_millis(90_600),
        pending: 1_700,
        counters: Counters {
            totals: Counts {
                offered: 45_090,
                sent: 45_091,
                accepted: 45_080,
                committed: 43_380,
                blocks: 90,
                rejected: 7,
                ..Counts::default()
            },
            ..Counters::default()
        },
        ..LiveState::default()
    };
    for second in 0..90 {
        let rate = 1 + second / 30 * 500;
        state.second(SeriesRow {
            second,
            span_s: 1.0,
            counts: Counts {
                offered: rate,
                sent: rate,
                accepted: rate,
                rejected: if second == 5 { 7 } else { 0 },
                committed: if second % 2 == 0 { 2 * rate } else { 0 },
                blocks: 1,
                ..Counts::default()
            },
            mempool_txs: Some(812),
            latency: LatencyColumns {
                accept_p50_ms: Some(0.4),
                accept_p99_ms: Some(3.25),
                commit_p50_ms: Some(503.9),
                commit_p99_ms: Some(998.2),
                lateness_p99_ms: Some(0.09),
                ..LatencyColumns::default()
            },
            mark: if second == 70 {
                "restarted".into()
            } else {
                String::new()
            },
            ..SeriesRow::default()
        });
    }
    for step in 0..3 {
        state.step(StepRow {
            step,
            rate_tps: 1.0 + f64::from(step) * 500.0,
            counts: Counts {
                offered: 15_000,
                accepted: if step == 2 { 9_000 } else { 15_000 },
                ..Counts::default()
            },
            cohort: measure::Cohort {
                due_accepted: if step == 2 { 9_000 } else { 15_000 },
                due_committed: if step == 2 { 9_000 } else { 15_000 },
                ..measure::Cohort::default()
            },
            awaited_s: Some(1.5),
            ..StepRow::default()
        });
    }
    state.onsets.push(Onset {
        at_s: 5.0,
        sign: "refusals".into(),
    });
    state.message("warning: blocks of http://10.0.0.7:26657: lost: connection refused".into());
    state
}

/// The rows of a terminal of this size.
fn picture(view: &View, state: &LiveState, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    (0..height)
        .map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect())
        .collect()
}

#[track_caller]
fn shows(rows: &[String], texts: &[&str]) {
    for text in texts {
        let found = rows.iter().any(|row| row.contains(text));
        assert!(found, "{text:?} is not on\n{}", rows.join("\n"));
    }
}

fn press(view: &mut View, keys: &str) -> Vec<KeyRequest> {
    let event = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
    keys.chars().map(|c| view.key(event(c))).collect()
}

#[test]
fn a_usual_terminal_shows_the_answer_so_far_latencies_and_steps() {
    let rows = picture(&View::default(), &ninety_seconds(), 80, 24);
    shows(
        &rows,
        &[
            "ramp 1/s +500/s every 30s to 2001/s",
            "offering, step 3 (0 to 4) at 1501/s, 1:30, 1:00 left",
            "second 89",
            "─plan ─sent ─accepted ─committed ",
            "accepted       1,001    45,090",
            "refused            0         7",
            "mempool          812  of 5,000",
            "commit       504    998",
            "sustained so far: 501/s · refusals from 5 s",
            "─lateness ─accept ─commit",
            " steps ",
            "1001.0",
            "not sustained",
            "1:30 warning: blocks of",
            "q quit",
        ],
    );
    let braille = |row: &String| row.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    assert!(rows.iter().filter(|row| braille(row)).count() >= 6);
}

#[test]
fn a_load_without_steps_shows_its_node_on_a_usual_terminal() {
    let mut state = ninety_seconds();
    let length = Nanos::from_secs(150);
    state.info.profile = Profile::constant("500/s".parse().unwrap(), Some(length)).ok();
    let rows = picture(&View::default(), &state, 80, 24);
    shows(
        &rows,
        &[
            "10.0.0.7:26657",
            "mempool 812 (203kB)",
            "offering, 1:30, 1:00 left",
        ],
    );
    assert!(
        !rows.iter().any(|row| row.contains("sustained")),
        "{}",
        rows.join("\n")
    );
}

#[test]
fn a_ramp_without_an_end_is_drawn_up_to_the_next_step() {
    let mut state = ninety_seconds();
    let step = Nanos::from_secs(30);
    let [start, more] = ["1/s", "500/s"];
    let profile = Profile::steps(start.parse().unwrap(), more.parse().unwrap(), step, None);
    let profile = profile.unwrap();
    state.info.duration = profile.duration();
    state.info.profile = Some(profile);
    for (seconds, top, absent) in [(0, "800", "50,000"), (90, "2,000", "50,000")] {
        state.now = Nanos::from_secs(seconds);
        let rows = picture(&View::default(), &state, 132, 40);
        let axis = |text: &str| rows.iter().any(|row| row.contains(&format!("{text}│")));
        assert!(axis(top) && !axis(absent), "{}", rows.join("\n"));
        assert!(
            rows.iter().any(|row| row.contains("no fixed end")),
            "{}",
            rows.join("\n")
        );
    }
}

#[test]
fn no_figure_loses_its_leading_digits() {
    let mut state = ninety_seconds();
    for step in &mut state.steps {
        step.rate_tps = 12_501.0;
        step.latency.accept_p95_ms = Some(1_678.4);
        step.latency.commit_p95_ms = Some(1_678.4);
        step.latency.lateness_max_ms = Some(377.4);
        step.late.schedule = 30;
    }
    for (width, height) in [(80, 24), (100, 30), (132, 40), (200, 60)] {
        let rows = picture(&View::default(), &state, width, height);
        let found = rows.iter().find(|row| row.contains("12501.0"));
        let row = found.unwrap_or_else(|| panic!("{}", rows.join("\n")));
        let p95 = if width < 100 {
            " 1678 "
        } else {
            " 1301 to 1678 "
        };
        let whole = row.contains(p95) && (width >= 100 || !row.contains("to"));
        assert!(whole, "{}", rows.join("\n"));
    }
}

#[test]
fn a_search_says_its_interval_in_the_first_line() {
    let mut state = ninety_seconds();
    state.heading = Some("search point 12: knee 487/s, 470 to 512 with 90 %".into());
    let rows = picture(&View::default(), &state, 80, 24);
    assert!(
        rows[0].contains("search point 12: knee 487/s, 470 to 512 with 90 %"),
        "{}",
        rows[0]
    );
}

#[test]
fn a_large_terminal_has_steps_and_their_verdicts() {
    let rows = picture(&View::default(), &ninety_seconds(), 120, 40);
    shows(
        &rows,
        &[
            " steps ",
            "1001.0",
            "not sustained",
            "height 1,234 (1,501",
            "(5 s mean)",
            "commit p95",
        ],
    );
}

#[test]
fn every_size_is_survived_and_a_small_one_says_the_most_important() {
    let state = ninety_seconds();
    for (width, height) in [(1, 1), (3, 200), (200, 2), (69, 24), (70, 20), (300, 100)] {
        picture(&View::default(), &state, width, height);
        picture(&View::default(), &LiveState::default(), width, height);
    }
    let rows = picture(&View::default(), &state, 40, 9);
    shows(
        &rows,
        &[
            "1:00 left",
            "1001 offered 1001 sent 1001 accepted",
            "mempool 812",
            "7 refused",
        ],
    );
}

#[test]
fn a_narrow_terminal_that_is_high_enough_has_a_chart_and_steps_below_the_lines() {
    let rows = picture(&View::default(), &ninety_seconds(), 60, 20);
    shows(
        &rows,
        &[
            "1001 offered 1001 sent",
            "sustained so far",
            "q quit",
            " /s ─plan",
            " steps ",
        ],
    );
    let low = picture(&View::default(), &ninety_seconds(), 60, 19);
    assert!(!low.iter().any(|row| row.contains("steps")));
}

#[test]
fn a_flood_has_no_plan_and_a_target_without_blocks_no_commits() {
    let mut state = ninety_seconds();
    state.info.profile = None;
    state.info.duration = None;
    state.info.follows = false;
    let rows = picture(&View::default(), &state, 100, 30);
    shows(&rows, &["─sent ─accepted", "left"]);
    for text in ["plan", "commit", "mempool "] {
        let found = rows
            .iter()
            .any(|row| row.contains(text) && !row.contains("lost:"));
        assert!(!found || text == "mempool ", "{text}\n{}", rows.join("\n"));
    }
    state.info.planned = None;
    shows(
        &picture(&View::default(), &state, 100, 30),
        &["no fixed end"],
    );
    state.phase = Phase::Draining;
    state.drain_since = Nanos::from_millis(82_600);
    shows(
        &picture(&View::default(), &state, 100, 30),
        &["draining, 1:30, 1,700 still to come, up to 22 s"],
    );
}

#[test]
fn a_healthy_run_says_so_and_an_overload_says_what_gave_first() {
    let mut state = ninety_seconds();
    let full = Onset {
        at_s: 2.0,
        sign: "mempool full at 812".into(),
    };
    state.onsets.insert(0, full);
    assert_eq!(
        state.finding(),
        "sustained so far: 501/s · mempool full at 812 from 2 s → refusals from 5 s"
    );
    let second = state.seconds.back().cloned().unwrap();
    state.begin(state.info.clone());
    assert_eq!(state.finding(), "", "nothing is known yet");
    state.second(second);
    assert_eq!(state.finding(), "no sign of an overload so far");
}

#[test]
fn keys_ask_and_nothing_else_does() {
    let (state, mut view) = (ninety_seconds(), View::default());
    let requests = press(&mut view, "qxm");
    let expected = [KeyRequest::Quit, KeyRequest::Nothing, KeyRequest::Mark];
    assert_eq!(requests, expected);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.key(control), KeyRequest::Quit);
    press(&mut view, "?");
    for (width, height) in [(80, 24), (64, 18)] {
        let rows = picture(&view, &state, width, height);
        shows(&rows, &["stop offering and drain"]);
    }
}
