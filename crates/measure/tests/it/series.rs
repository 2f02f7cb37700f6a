//! Rows of seconds and steps, windows, rates.

use measure::{
    Cause, ClosedLoop, LoadModel, MAX_MARK_CHARS, MAX_MARKS, MempoolSample, Recorder,
    RecorderConfig, Reply, SchedulePlan, ScheduleVerdict, SeriesRow,
    judge::{self, StepTerms},
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent, steady_run,
};

fn config() -> RecorderConfig {
    RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
}

fn pass(recorder: &mut Recorder<'_>, millis: u64) {
    recorder.watermark(SENDER, ms(millis));
    recorder.watermark(FOLLOWER, ms(millis));
}

#[test]
fn seconds_hold_what_was_stamped_in_them() {
    let folder = Folder::new();
    steady_run(&folder);
    let series = &folder.series;
    assert_eq!(series.column("second"), ["0", "1", "2", "3"]);
    assert_eq!(series.column("offered"), ["1000", "1000", "1000", "0"]);
    assert_eq!(series.column("sent"), ["1000", "1000", "1000", "0"]);
    // Answers come two milliseconds later: the last two of a second fall into the next one.
    assert_eq!(series.column("accepted"), ["998", "1000", "1000", "2"]);
    assert_eq!(series.column("in_flight"), ["2", "2", "2", "0"]);
    assert_eq!(series.column("committed"), ["1000", "1000", "1000", "0"]);
    assert_eq!(series.column("step"), ["0", "0", "0", ""]);
    assert_eq!(series.column("lateness_max_ms")[..3], ["0.020"; 3]);
}

#[test]
fn a_row_is_written_when_every_source_is_past_it_and_not_before() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "5s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.watermark(SENDER, ms(4_000));
    recorder.watermark(FOLLOWER, ms(999));
    assert_eq!(folder.series.rows().len(), 0);
    assert_eq!(recorder.live().second, None);
    recorder.watermark(FOLLOWER, ms(2_500));
    assert_eq!(folder.series.column("second"), ["0", "1"]);
    assert_eq!(recorder.live().second.unwrap().second, 1);
    assert_eq!(recorder.low_watermark(), ms(2_500));
}

#[test]
fn a_source_that_hangs_is_left_behind_and_one_that_retires_is_not_waited_for() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "60s")));
    recorder.watermark(SENDER, ms(12_500));
    assert_eq!(
        folder.series.rows().len(),
        2,
        "ten seconds of lag are waited for"
    );
    recorder.retire(FOLLOWER);
    assert_eq!(folder.series.rows().len(), 12);
}

/// Plays a ramp of steps of 10 s for 150 s on blocks of a second: up to when blocks are read at each second, and when the
/// node last gave a sign. The first second in which steps wait for blocks in vain, and how many steps were judged. Blocks
/// take everything, so none of these may have failed.
fn followed(read: impl Fn(u64) -> u64, sign: impl Fn(u64) -> u64) -> (Option<u64>, usize) {
    let rate = || "10/s".parse().unwrap();
    let profile = Profile::steps(rate(), "10/s".parse().unwrap(), ms(10_000), None);
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let config = RecorderConfig {
        endpoints: vec!["http://10.0.0.1:26657".to_owned()],
        ..config()
    };
    let plan = SchedulePlan::new(schedule.clone());
    let mut recorder = Folder::new().recorder(config, plan);
    let step_at = |at| schedule.profile().step_at(at).index;
    let mut dues = schedule.iter().peekable();
    // Each block has what fell due in the second before it.
    let first_of = |second: u64| schedule.due_before(ms(second * 1_000));
    let txs = |height: u64| (first_of(height - 1)..first_of(height)).collect::<Vec<_>>();
    let (mut next, mut in_vain) = (1, None);
    for second in 1..=150 {
        let sample = MempoolSample {
            at: ms(sign(second) * 1_000),
            endpoint: 0,
            txs: 0,
            bytes: 0,
        };
        if sign(second) == second {
            recorder.mempool(&sample);
        }
        while let Some(due) = dues.next_if(|due| due.at < ms(second * 1_000)) {
            let step = step_at(due.at);
            recorder.sent(&measure::Sent {
                step,
                ..sent(due.index, due.at, due.at)
            });
            if sign(second) == second {
                recorder.answered(&answered(due.index, due.at, Reply::Accepted));
            }
        }
        while next <= read(second) {
            recorder.block(block(next, ms(next * 1_000), &txs(next)));
            next += 1;
        }
        recorder.watermark(SENDER, ms(second * 1_000));
        recorder.watermark(FOLLOWER, ms(read(second) * 1_000));
        let unread = recorder.unread(ms(second * 1_000));
        in_vain = in_vain.or(unread.map(|_| second));
    }
    let rows = recorder.step_rows();
    let (followed, strict) = (true, false);
    let excesses = judge::excesses(rows, StepTerms { followed, strict });
    let silent = (1..=150).any(|second| sign(second) < second);
    assert!(
        silent || excesses.iter().all(Option::is_none),
        "{excesses:?}"
    );
    let judged = rows.iter().filter(|row| row.awaited_s.is_some());
    (in_vain, judged.count())
}

#[test]
fn a_step_waits_for_a_follower_that_is_behind_but_not_without_end() {
    let now = |second| second;
    assert_eq!(followed(now, now), (None, 14), "it reads at once");
    let (in_vain, _) = followed(|second| second / 4, now);
    // Of the first step half a minute and the time of its transactions after its end.
    assert!(matches!(in_vain, Some(41..=60)), "{in_vain:?}");
    let (in_vain, _) = followed(|_| 0, now);
    assert!(matches!(in_vain, Some(41..=60)), "{in_vain:?}");
    let hangs = |from, until| {
        move |second| {
            if (from..until).contains(&second) {
                from
            } else {
                second
            }
        }
    };
    let caught_up = followed(hangs(12, 35), now);
    assert_eq!(caught_up, (None, 14), "it catches up");
}

/// A block that was announced held all rows back where the node stood still before it gave it.
#[test]
fn a_node_that_stands_still_is_no_follower_that_is_behind() {
    let stands = |second: u64| second.min(15);
    let (in_vain, judged) = followed(stands, |second| second.min(16));
    assert_eq!((in_vain, judged), (None, 12));
    // Until it gives signs again: then the step waits for what its blocks have.
    let hangs = |second: u64| if second < 60 { second.min(15) } else { second };
    let (in_vain, judged) = followed(
        hangs,
        |second| {
            if second < 60 { second.min(16) } else { second }
        },
    );
    assert_eq!((in_vain, judged), (None, 14));
}

#[test]
fn the_rate_of_a_step_does_not_depend_on_where_its_blocks_fall() {
    // 600/s committed, blocks of 300 every 500 ms, and steps of a second whose edges cut between.
    let folder = Folder::new();
    let profile = Profile::steps(
        "600/s".parse().unwrap(),
        "100/s".parse().unwrap(),
        ms(1_000),
        Some("800/s".parse().unwrap()),
    );
    let plan = SchedulePlan::new(Schedule::new(profile.unwrap(), Arrivals::Even));
    let mut recorder = folder.recorder(config(), plan);
    for index in 0..1_800 {
        let due = Nanos::from_micros(index * 1_667);
        recorder.sent(&sent(index, due, due));
    }
    for number in 0..6 {
        let txs: Vec<u64> = (number * 300..(number + 1) * 300).collect();
        recorder.block(block(number + 1, ms(number * 500 + 470), &txs));
    }
    pass(&mut recorder, 4_400);
    let rates: Vec<Option<f64>> = recorder
        .step_rows()
        .iter()
        .map(|row| row.committed_tps)
        .collect();
    assert_eq!(rates, [Some(600.0); 3]);
    let offered: Vec<u64> = recorder
        .step_rows()
        .iter()
        .map(|row| row.counts.offered)
        .collect();
    assert_eq!(
        offered,
        [600, 700, 800],
        "counted from the plan, not from what was sent"
    );
}

#[test]
fn a_step_with_one_block_has_no_committed_rate() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "1s")));
    recorder.sent(&sent(0, ms(0), ms(1)));
    recorder.block(block(1, ms(300), &[0]));
    pass(&mut recorder, 3_000);
    assert_eq!(recorder.step_rows().len(), 1);
    assert_eq!(recorder.step_rows()[0].committed_tps, None);
    assert_eq!(folder.steps.column("committed_tps"), [""]);
}

#[test]
fn steps_that_do_not_end_on_seconds_get_their_own_counts() {
    let folder = Folder::new();
    let profile = Profile::square(
        "100/s".parse().unwrap(),
        "0/s".parse().unwrap(),
        ms(700),
        ms(450),
        std::num::NonZeroU32::new(2).unwrap(),
    );
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let planned = schedule.planned().unwrap();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(schedule.clone()));
    for due in schedule.iter() {
        let mut event = sent(due.index, due.at, due.at.saturating_add(ms(2)));
        event.cause = Cause::Node;
        recorder.sent(&event);
    }
    recorder.finish(end(planned, ms(2_300), ms(2_300)));
    assert_eq!(folder.steps.column("offered"), ["70", "0", "70", "0"]);
    assert_eq!(folder.steps.column("sent"), ["70", "0", "70", "0"]);
    assert_eq!(folder.steps.column("late_node"), ["70", "0", "70", "0"]);
    assert_eq!(folder.steps.column("pause"), ["0", "1", "0", "1"]);
    assert_eq!(
        folder.steps.column("in_flight_growth"),
        ["70", "0", "70", "0"]
    );
    assert_eq!(folder.series.column("span_s"), ["1.000", "1.000", "0.300"]);
    assert_eq!(folder.series.sum("sent"), 140);
}

#[test]
fn offering_that_ends_early_ends_the_step_and_the_plan() {
    let folder = Folder::new();
    let plan = SchedulePlan::new(constant("10/s", "60s"));
    let mut recorder = folder.recorder(config(), plan);
    for index in 0..15 {
        recorder.sent(&sent(index, ms(index * 100), ms(index * 100)));
    }
    pass(&mut recorder, 1_400);
    recorder.offering_ended(ms(1_500));
    pass(&mut recorder, 3_000);
    let summary = recorder.finish(end(15, ms(1_500), ms(4_000))).summary;
    assert!(summary.conservation.holds);
    assert_eq!(summary.steps.len(), 1);
    assert_eq!(summary.steps[0].end_s, 1.5);
    assert_eq!(summary.steps[0].counts.offered, 15);
    assert_eq!(folder.series.column("offered"), ["10", "5", "0", "0"]);
}

#[test]
fn the_warm_up_is_left_out_of_rates_and_latencies_only() {
    let folder = Folder::new();
    let mut config = config();
    config.warmup = ms(1_200);
    let mut recorder = folder.recorder(config, SchedulePlan::new(constant("10/s", "3s")));
    for index in 0..30 {
        let late = if index < 12 { ms(50) } else { ms(1) };
        let at = ms(index * 100).saturating_add(late);
        recorder.sent(&sent(index, ms(index * 100), at));
        recorder.answered(&answered(index, at.saturating_add(ms(1)), Reply::Accepted));
    }
    let summary = recorder.finish(end(30, ms(3_000), ms(3_000))).summary;
    assert_eq!(summary.fate.accepted, 30);
    let lateness = &summary.latency_ms.lateness;
    assert_eq!((lateness.count, lateness.max), (18, Some(1.0)));
    assert_eq!(
        summary.rate.accepted_tps.unwrap().seconds,
        1,
        "only the third second is whole"
    );
    assert_eq!(folder.series.column("sent"), ["10", "10", "10"]);
}

#[test]
fn the_worst_windows_are_found_exactly() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("10000/s", "2s")));
    for index in 0..20_000 {
        let due = Nanos::from_micros(index * 100);
        // Between 500 and 520 ms nothing leaves, then all of it at once.
        let held = due >= ms(500) && due < ms(520);
        let at = if held { ms(520) } else { due };
        let mut event = sent(index, due, at);
        event.cause = if at > due { Cause::Node } else { Cause::OnTime };
        recorder.sent(&event);
    }
    let summary = recorder.finish(end(20_000, ms(2_000), ms(2_100))).summary;
    let short = summary.windows.ms_10;
    let highest = short.highest_ratio.unwrap();
    assert_eq!(
        (highest.start_ms, highest.planned, highest.sent),
        (520, 100, 300)
    );
    assert_eq!(highest.ratio(), 3.0);
    let lowest = short.lowest_ratio.unwrap();
    assert_eq!((lowest.start_ms, lowest.sent), (500, 0));
    assert_eq!(short.most_over, Some(highest));
    assert_eq!(summary.windows.s_1.highest_ratio.unwrap().ratio(), 1.0);
    assert_eq!(summary.windows.s_1.most_over, None);
}

#[test]
fn rates_are_statistics_of_whole_seconds() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("4/s", "3.5s")));
    let mut index = 0;
    for (second, accepted) in [(0, 2), (1, 4), (2, 6), (3, 2)] {
        for _ in 0..accepted {
            let at = ms(second * 1_000 + 100);
            recorder.sent(&sent(index, at, at));
            recorder.answered(&answered(index, at, Reply::Accepted));
            index += 1;
        }
    }
    let summary = recorder.finish(end(14, ms(3_500), ms(3_500))).summary;
    let stats = summary.rate.accepted_tps.unwrap();
    assert_eq!(
        (stats.mean, stats.median, stats.max, stats.seconds),
        (4.0, 4.0, 6.0, 3)
    );
    assert!((stats.stddev - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    assert_eq!(summary.rate.planned_tps, Some(4.0));
}

#[test]
fn a_closed_loop_has_no_schedule_to_keep() {
    let folder = Folder::new();
    let mut config = config();
    config.model = LoadModel::Closed;
    let plan = ClosedLoop;
    let mut recorder = folder.recorder(config, plan);
    for index in 0..10 {
        recorder.sent(&sent(index, ms(index), ms(index)));
        recorder.answered(&answered(index, ms(index + 1), Reply::Accepted));
    }
    let mut ending = end(0, ms(11), ms(20));
    ending.planned = None;
    let summary = recorder.finish(ending).summary;
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Valid);
    assert_eq!(
        summary.verdict.reasons,
        ["closed loop: there was no schedule to keep"]
    );
    assert_eq!(summary.offered.planned, 10);
    assert_eq!(summary.windows.ms_10.most_over, None);
    assert_eq!(folder.series.column("offered"), ["10"]);
}

#[test]
fn the_mempool_column_is_the_fullest_node_of_the_last_sample() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "2s")));
    for (millis, endpoint, txs) in [(100, 0, 9), (200, 1, 40), (900, 0, 12)] {
        recorder.mempool(&MempoolSample {
            at: ms(millis),
            endpoint,
            txs,
            bytes: txs * 100,
        });
    }
    recorder.finish(end(0, ms(2_000), ms(2_000)));
    assert_eq!(folder.series.column("mempool_txs"), ["40", ""]);
    assert_eq!(folder.series.column("mempool_bytes"), ["4000", ""]);
}

/// 588 before the block and 24 after it: neither alone is the depth of this second.
#[test]
fn a_second_has_the_least_and_the_most_that_waited_in_it() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "3s")));
    for (millis, txs) in [(110, 200), (390, 588), (610, 24), (900, 130), (1_500, 7)] {
        recorder.mempool(&MempoolSample {
            at: ms(millis),
            endpoint: 0,
            txs,
            bytes: txs,
        });
    }
    recorder.finish(end(0, ms(3_000), ms(3_000)));
    assert_eq!(folder.series.column("mempool_txs"), ["130", "7", ""]);
    assert_eq!(folder.series.column("mempool_min"), ["24", "7", ""]);
    assert_eq!(folder.series.column("mempool_max"), ["588", "7", ""]);
}

#[test]
fn a_mark_stands_in_its_second_and_changes_no_count() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "3s")));
    assert!(recorder.mark(ms(200), "plain"));
    assert!(recorder.mark(ms(900), "  said \"go\",\nthen went  "));
    assert!(!recorder.mark(ms(950), " \n"), "nothing to note");
    pass(&mut recorder, 2_000);
    assert!(recorder.mark(ms(1_999), "late"), "its second is written");
    let shown = recorder.take_seconds();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0].mark, "plain; said \"go\", then went");
    assert_eq!(recorder.take_seconds(), []);
    let summary = recorder.finish(end(0, ms(3_000), ms(3_000))).summary;
    assert_eq!(summary.recorder.late_events, 0);
    let text = folder.series.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(",commit_p99_ms,mark,"), "{}", lines[0]);
    assert!(
        lines[1].ends_with(",\"plain; said \"\"go\"\", then went\",,0,,,,,"),
        "{}",
        lines[1]
    );
    assert!(lines[2].ends_with(','), "no mark, an empty field");
    assert!(lines[3].ends_with(",late,,0,,,,,"), "{}", lines[3]);
}

#[test]
fn processor_time_is_a_share_of_a_core_in_its_second() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "2s")));
    recorder.processor(ms(100), ms(100));
    recorder.processor(ms(900), ms(150));
    recorder.processor(ms(2_050), ms(50));
    recorder.finish(end(0, ms(2_000), ms(2_100)));
    let used = folder.series.column("generator_cpu");
    assert_eq!(used, ["0.250", "", "0.500"]);
}

#[test]
fn marks_are_bounded() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "3s")));
    let long = "x".repeat(1_000);
    let noted = (0..50).filter(|_| recorder.mark(ms(100), &long)).count();
    assert_eq!(noted, MAX_MARKS);
    recorder.finish(end(0, ms(1_000), ms(1_000)));
    let mark = &folder.series.column("mark")[0];
    assert_eq!(mark.len(), MAX_MARKS * (MAX_MARK_CHARS + 2) - 2);
}

#[test]
fn the_fullest_mempool_is_unknown_while_one_of_them_is() {
    let folder = Folder::new();
    let mut recorder = folder.recorder(config(), SchedulePlan::new(constant("1/s", "4s")));
    for (millis, endpoint, txs) in [(100, 0, 5), (200, 1, 979), (1_500, 0, 6), (3_500, 0, 7)] {
        recorder.mempool(&MempoolSample {
            at: ms(millis),
            endpoint,
            txs,
            bytes: txs,
        });
    }
    recorder.finish(end(0, ms(4_000), ms(4_000)));
    assert_eq!(folder.series.column("mempool_txs"), ["979", "979", "", ""]);
    assert_eq!(folder.series.column("mempool_max"), ["979", "979", "", "7"]);

    let row = |mempool_txs, mempool_max| SeriesRow {
        mempool_txs,
        mempool_max,
        ..SeriesRow::default()
    };
    let joined = |mut one: SeriesRow, other| {
        one.join(&other);
        one.mempool_txs
    };
    let (known, unknown, without) = (row(Some(3), Some(3)), row(None, Some(9)), row(None, None));
    assert_eq!(joined(known.clone(), row(Some(5), Some(5))), Some(5));
    assert_eq!(joined(known.clone(), unknown.clone()), None);
    assert_eq!(joined(unknown, known.clone()), None);
    assert_eq!(joined(known, without), Some(3), "it takes no samples");
}
