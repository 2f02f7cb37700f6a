//! What had not ended when a run did: no transaction that waits makes a node look fast.

use measure::read::HlogReader;
use measure::{
    Failure, Finished, LatencyKind, Quantiles, Recorder, RecorderConfig, Reply, SchedulePlan,
    Summary, Unsent, UnsentReason,
};
use pacing::Nanos;

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent,
};

/// 120/s for 30 s.
const TXS: u64 = 3_600;
const OFFERING: Nanos = Nanos::from_secs(30);
const ENDED: Nanos = Nanos::from_secs(60);

fn due(index: u64) -> Nanos {
    Nanos::from_nanos(index * OFFERING.as_nanos() / TXS)
}

/// A transaction that leaves in time, is accepted after 2 ms if it is `answered`, and is in the block
/// of the next whole second if it is `committed`.
struct Node {
    answered: fn(u64) -> bool,
    committed: fn(u64) -> bool,
    /// When its follower gave its last watermark.
    followed_until: Nanos,
}

impl Node {
    fn run(&self, folder: &Folder) -> Finished {
        let mut recorder = recorder(folder);
        for second in 0..60 {
            let (from, to) = (second * 120, (second + 1) * 120);
            for index in (from..to).filter(|index| *index < TXS) {
                recorder.sent(&sent(index, due(index), due(index)));
                if (self.answered)(index) {
                    let at = due(index).saturating_add(ms(2));
                    recorder.answered(&answered(index, at, Reply::Accepted));
                }
            }
            let txs: Vec<u64> = (from..to)
                .filter(|index| *index < TXS && (self.committed)(*index))
                .collect();
            let end = Nanos::from_secs(second + 1);
            if !txs.is_empty() {
                recorder.block(block(second + 1, end, &txs));
            }
            recorder.watermark(SENDER, end);
            if end <= self.followed_until {
                recorder.watermark(FOLLOWER, end);
            }
        }
        if self.followed_until < ENDED {
            recorder.follower_failed(FOLLOWER);
        }
        recorder.finish(end(TXS, OFFERING, ENDED))
    }

    fn summary(&self) -> Summary {
        let summary = self.run(&Folder::new()).summary;
        assert!(summary.conservation.holds, "{:?}", summary.conservation);
        summary
    }
}

const HEALTHY: Node = Node {
    answered: |_| true,
    committed: |_| true,
    followed_until: ENDED,
};

fn recorder(folder: &Folder) -> Recorder<'static> {
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    folder.recorder(config, SchedulePlan::new(constant("120/s", "30s")))
}

/// The names of the figures that are lower bounds.
fn bounds(quantiles: &Quantiles) -> Vec<&str> {
    let is_bound = |name: &&str| {
        let figure = quantiles.figure(name);
        figure.is_some_and(|figure| figure.is_lower_bound())
    };
    Quantiles::NAMES.into_iter().filter(is_bound).collect()
}

#[test]
fn a_halted_node_does_not_look_fast() {
    // It made blocks of the first 1,177 transactions and accepted the others.
    let node = Node {
        committed: |index| index < 1_177,
        ..HEALTHY
    };
    let summary = node.summary();
    assert_eq!(
        (summary.fate.committed, summary.fate.pending),
        (1_177, 2_423)
    );
    let commit = &summary.latency_ms.commit_from_due;
    assert_eq!((commit.count, commit.censored), (1_177, 2_423));
    assert_eq!(bounds(commit), Quantiles::NAMES);
    // The last one was due just before 30 s, the first pending one at 9.8 s, and the run ended at 60 s.
    assert!(commit.p50.unwrap() > 34_900.0, "{:?}", commit.p50);
    assert!(commit.p99.unwrap() > 49_000.0, "{:?}", commit.p99);
    assert_eq!(commit.figure("p99").unwrap().at_most, None);
    assert!(
        (commit.max.unwrap() - 50_191.7).abs() < 0.1,
        "{:?}",
        commit.max
    );
    // It accepted everything in 2 ms, and that is exact.
    let accept = &summary.latency_ms.accept_response;
    assert_eq!(
        (accept.count, accept.censored, bounds(accept)),
        (TXS, 0, vec![])
    );
    let from_accepted = &summary.latency_ms.commit_from_accepted;
    assert_eq!(from_accepted.censored, 2_423);
}

#[test]
fn a_frozen_one_of_two_endpoints_does_not_look_fast() {
    let node = Node {
        answered: |index| index % 2 == 0 || index < 600,
        committed: |index| index % 2 == 0 || index < 600,
        ..HEALTHY
    };
    let summary = node.summary();
    assert_eq!(summary.fate.unanswered, 1_500);
    let latency = &summary.latency_ms;
    for kind in [LatencyKind::AcceptResponse, LatencyKind::AcceptService] {
        let accept = latency.of(kind);
        assert_eq!((accept.count, accept.censored), (2_100, 1_500));
        assert!(
            (accept.p50.unwrap() - 2.0).abs() < 0.01,
            "the other one answered"
        );
        assert_eq!(
            bounds(accept),
            ["p68", "p95", "p99", "p99_7", "max", "mean"]
        );
        assert!(accept.p95.unwrap() > 30_000.0, "{:?}", accept.p95);
    }
    let commit = &latency.commit_from_due;
    assert_eq!((commit.count, commit.censored), (2_100, 1_500));
    assert!(!commit.at_least.contains_key("p50"), "{commit:?}");
    assert!(commit.p99.unwrap() > 30_000.0, "{:?}", commit.p99);
    // What was never accepted is no latency from acceptance.
    assert_eq!(latency.commit_from_accepted.censored, 0);
}

#[test]
fn a_row_says_which_of_its_quantiles_others_have_waited_longer_than() {
    let folder = Folder::new();
    let node = Node {
        answered: |index| index % 2 == 0 || index < 600,
        committed: |index| index % 2 == 0 || index < 600,
        ..HEALTHY
    };
    let steps = node.run(&folder).summary.steps;
    let names = folder.series.column("at_least");
    // Five healthy seconds; in the sixth nothing is known to have waited for longer than a second.
    assert!(names[..6].iter().all(String::is_empty), "{names:?}");
    assert_eq!(
        names[6],
        "accept_p95_ms accept_p99_ms commit_p95_ms commit_p99_ms"
    );
    let all = "accept_p50_ms accept_p95_ms accept_p99_ms commit_p50_ms commit_p95_ms commit_p99_ms";
    assert_eq!(names[10], all);
    // During the drain no row has quantiles.
    assert!(names[31..].iter().all(String::is_empty), "{names:?}");
    let commit = steps[0].latency.figure("commit_p99_ms").unwrap();
    assert_eq!((commit.is_lower_bound(), commit.at_most), (true, None));
}

#[test]
fn a_condition_on_a_run_that_goes_on_sees_what_waits() {
    let mut recorder = recorder(&Folder::new());
    let half_answered = |index: &u64| index.is_multiple_of(2);
    for index in 0..1_200 {
        recorder.sent(&sent(index, due(index), due(index)));
        if half_answered(&index) {
            let at = due(index).saturating_add(ms(2));
            recorder.answered(&answered(index, at, Reply::Accepted));
        }
    }
    for (height, second) in (1..=10).enumerate() {
        let txs: Vec<u64> = (height as u64 * 120..second * 120)
            .filter(half_answered)
            .collect();
        recorder.block(block(second, Nanos::from_secs(second), &txs));
    }
    recorder.watermark(SENDER, Nanos::from_secs(20));
    recorder.watermark(FOLLOWER, Nanos::from_secs(20));
    let latency = recorder.so_far().latency_ms;
    assert_eq!(
        (
            latency.accept_response.count,
            latency.accept_response.censored
        ),
        (600, 600)
    );
    let commit = latency.commit_from_due.figure("p99").unwrap();
    assert!(commit.is_lower_bound());
    assert!(
        (commit.millis - 19_000.0).abs() < 20.0,
        "due in the first second: {commit:?}"
    );
}

#[test]
fn a_healthy_node_has_exact_figures() {
    let folder = Folder::new();
    HEALTHY.run(&folder);
    assert!(
        folder
            .series
            .column("at_least")
            .iter()
            .all(String::is_empty)
    );
    let latency = HEALTHY.summary().latency_ms;
    for kind in LatencyKind::ALL {
        assert_eq!(latency.of(kind).censored, 0, "{}", kind.name());
        assert!(latency.of(kind).at_least.is_empty());
    }
}

#[test]
fn a_few_pending_at_the_end_leave_the_median_exact() {
    let node = Node {
        committed: |index| index % 400 != 399,
        ..HEALTHY
    };
    let commit = node.summary().latency_ms.commit_from_due;
    assert_eq!(commit.censored, 9);
    assert_eq!(bounds(&commit), ["max", "mean"]);
    let healthy = HEALTHY.summary().latency_ms.commit_from_due;
    let (with, without) = (commit.p50.unwrap(), healthy.p50.unwrap());
    assert!((with - without).abs() < 10.0, "{with} {without}");
}

#[test]
fn a_follower_that_failed_says_nothing_of_the_time_after() {
    let node = Node {
        committed: |index| index < 1_200,
        followed_until: Nanos::from_secs(20),
        ..HEALTHY
    };
    let commit = node.summary().latency_ms.commit_from_due;
    // Those that were due later than it watched waited for 0 ns that are known of.
    assert_eq!(commit.censored, 2_400);
    let max = commit.max.unwrap();
    assert!(
        (max - 10_000.0).abs() < 0.1,
        "due at 10 s, seen to wait until 20 s: {max}"
    );
}

#[test]
fn a_timeout_of_the_generator_is_no_end_and_a_rejection_is_one() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder);
    for index in 0..3 {
        recorder.sent(&sent(index, ms(0), ms(1)));
    }
    recorder.answered(&answered(0, ms(11), Reply::rejected(5)));
    recorder.answered(&answered(1, ms(501), Reply::Failed(Failure::Timeout)));
    recorder.answered(&answered(2, ms(701), Reply::Failed(Failure::Closed)));
    recorder.block(block(1, ms(2_000), &[2]));
    recorder.watermark(SENDER, ms(3_000));
    recorder.watermark(FOLLOWER, ms(3_000));
    let latency = recorder
        .finish(end(3, ms(3_000), ms(3_000)))
        .summary
        .latency_ms;
    let service = &latency.accept_service;
    assert_eq!((service.count, service.censored), (0, 2));
    assert!(
        (service.p50.unwrap() - 500.0).abs() < 0.5,
        "given up after 500 ms"
    );
    assert_eq!(service.max, Some(700.0));
    // One may be in a block yet, one is, and one never will be.
    let commit = &latency.commit_from_sent;
    assert_eq!((commit.count, commit.censored), (1, 1));
    assert_eq!(commit.max, Some(2_999.0));
}

#[test]
fn what_was_due_and_never_left_had_waited_for_its_answer() {
    let folder = Folder::new();
    let mut recorder = recorder(&folder);
    for index in 0..100 {
        recorder.sent(&sent(index, ms(0), ms(0)));
        recorder.answered(&answered(index, ms(2), Reply::Accepted));
    }
    for index in 100..150 {
        recorder.unsent(&Unsent {
            index,
            due: ms(1_000),
            at: ms(9_000),
            step: 0,
            reason: UnsentReason::Deadline,
        });
    }
    recorder.block(block(1, ms(900), &(0..100).collect::<Vec<u64>>()));
    recorder.watermark(SENDER, ms(9_000));
    recorder.watermark(FOLLOWER, ms(9_000));
    let latency = recorder
        .finish(end(150, ms(9_000), ms(9_000)))
        .summary
        .latency_ms;
    for kind in [
        LatencyKind::Lateness,
        LatencyKind::AcceptResponse,
        LatencyKind::CommitFromDue,
    ] {
        let figures = latency.of(kind);
        assert_eq!(
            (figures.count, figures.censored),
            (100, 50),
            "{}",
            kind.name()
        );
        assert_eq!(figures.max, Some(8_000.0));
        assert!(figures.at_least.contains_key("p95"));
    }
    // It never began.
    assert_eq!(latency.accept_service.censored, 0);
}

#[test]
fn what_a_full_table_settles_early_is_not_over() {
    let folder = Folder::new();
    let config = RecorderConfig {
        max_pending: 2,
        ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
    };
    let mut recorder = folder.recorder(config, SchedulePlan::new(constant("1/s", "4s")));
    for second in 0..4 {
        let at = Nanos::from_secs(second);
        recorder.sent(&sent(second, at, at));
        recorder.watermark(SENDER, at);
        recorder.watermark(FOLLOWER, at);
    }
    let summary = recorder.finish(end(4, ms(4_000), ms(4_000))).summary;
    assert_eq!(summary.recorder.settled_early, 2);
    let commit = summary.latency_ms.commit_from_due;
    assert_eq!((commit.count, commit.censored), (0, 4));
    assert!((commit.mean.unwrap() - (1_000.0 + 1_000.0 + 1_000.0 + 0.0) / 4.0).abs() < 1.0);
}

#[test]
fn the_log_has_the_unfinished_under_tags_of_their_own() {
    let folder = Folder::new();
    let node = Node {
        committed: |index| index < 1_177,
        ..HEALTHY
    };
    let summary = node.run(&folder).summary;
    let bytes = folder.hlog.bytes();
    let mut log = HlogReader::new(&bytes[..]);
    let sum = log.sum(0.0).unwrap();
    let read = sum.summary(log.censored());
    for kind in LatencyKind::ALL {
        let (read, written) = (read.of(kind), summary.latency_ms.of(kind));
        assert_eq!(
            (read.count, read.censored),
            (written.count, written.censored)
        );
        assert_eq!(read.at_least, written.at_least, "{}", kind.name());
        assert_eq!((read.p50, read.p99), (written.p50, written.p99));
    }
    // A reader of one tag gets the values of that tag alone.
    let text = folder.hlog.text();
    let lines = |tag: &str| text.lines().filter(|line| line.starts_with(tag)).count();
    assert_eq!(lines("Tag=commit_from_due,"), 10);
    assert_eq!(lines("Tag=commit_from_due_censored,60.000,0.000,"), 1);
}
