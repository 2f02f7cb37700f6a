use super::*;
use crate::counts::Counts;
use crate::read::TxReader;
use crate::rows::SeriesRow;
use crate::summary::TimeSpans;

/// A run of 20 s with so many a second and a commit latency that wanders around `latency_ms`.
fn run(rate: u64, latency_ms: u64, seed: u64) -> RunCourse {
    let mut random = Random::new(seed);
    let time = TimeSpans {
        origin_unix_ns: 0,
        warmup_s: 2.0,
        offered_s: 20.0,
        ended_s: 25.0,
    };
    let mut course = RunCourse::new(&time);
    let mut text = String::from(crate::rows::TXS_HEADER);
    for second in 0..20 {
        // The warm-up is slow and does not count.
        let slow = if second < 2 { 10 } else { 1 };
        let wander = latency_ms * slow + below(&mut random, 20) as u64;
        for place in 0..rate {
            let due = second * 1_000_000_000 + place * 1_000_000_000 / rate;
            let accepted = due + 2_000_000 + below(&mut random, 1_000_000) as u64;
            let committed = due + (wander + below(&mut random, 30) as u64) * 1_000_000;
            text.push_str(&format!(
                "AB,250,0.000,0.000,0.000,,{due},{due},{accepted},{committed},1,0,0,0\n"
            ));
        }
        course.second(&SeriesRow {
            second,
            span_s: 1.0,
            counts: Counts {
                accepted: rate,
                committed: rate + below(&mut random, 5) as u64,
                ..Counts::default()
            },
            ..SeriesRow::default()
        });
    }
    let mut reader = TxReader::new(text.as_bytes()).unwrap();
    while let Some(row) = reader.next_row().unwrap() {
        course.tx(&row);
    }
    course
}

fn of(differences: &[Difference], metric: Metric) -> Difference {
    *differences
        .iter()
        .find(|difference| difference.metric == metric)
        .unwrap()
}

const COMMIT_P50: Metric = Metric::Commit(Quantile::P50);

#[test]
fn a_run_compared_with_its_like_differs_by_chance() {
    let (differences, drawn) = compare(&[run(100, 500, 1)], &[run(100, 500, 2)]);
    assert_eq!(drawn, Drawn::Stretches);
    for difference in differences {
        assert_ne!(difference.meaning(), Meaning::Worse, "{difference:?}");
        assert!(!difference.is_regression(0.05), "{difference:?}");
    }
}

#[test]
fn a_slower_run_is_a_regression_with_its_size_and_interval() {
    let (differences, _) = compare(&[run(100, 500, 1)], &[run(80, 600, 2)]);
    let commit = of(&differences, COMMIT_P50);
    let change = commit.change.unwrap();
    assert!((change.by - 0.19).abs() < 0.03, "{change:?}");
    assert!(
        change.low <= change.by && change.by <= change.high,
        "{change:?}"
    );
    assert!(commit.is_regression(0.1) && !commit.is_regression(0.3));
    assert_eq!(commit.meaning(), Meaning::Worse);
    let rate = of(&differences, Metric::Committed);
    assert!(
        rate.is_regression(0.1) && !rate.is_regression(0.25),
        "{rate:?}"
    );
    // The other way round it is an improvement.
    let (differences, _) = compare(&[run(80, 600, 2)], &[run(100, 500, 1)]);
    assert_eq!(of(&differences, COMMIT_P50).meaning(), Meaning::Better);
    assert!(
        !differences
            .iter()
            .any(|difference| difference.is_regression(0.0))
    );
}

#[test]
fn several_runs_are_drawn_whole() {
    // Runs of one kind differ among themselves by more than within.
    let side = |seed| {
        [480, 500, 520]
            .map(|latency| run(50, latency, seed + latency))
            .to_vec()
    };
    let (differences, drawn) = compare(&side(1), &side(50));
    assert_eq!(drawn, Drawn::Runs);
    assert_eq!(of(&differences, COMMIT_P50).meaning(), Meaning::Chance);
    let slower = [580, 600, 620]
        .map(|latency| run(50, latency, latency))
        .to_vec();
    let (differences, _) = compare(&side(1), &slower);
    assert!(of(&differences, COMMIT_P50).is_regression(0.1));
}

#[test]
fn what_a_run_does_not_have_is_unknown() {
    let empty = RunCourse::new(&TimeSpans {
        origin_unix_ns: 0,
        warmup_s: 0.0,
        offered_s: 0.0,
        ended_s: 0.0,
    });
    let (differences, _) = compare(&[run(10, 500, 1)], &[empty]);
    for difference in differences {
        assert_eq!(difference.meaning(), Meaning::Unknown);
        assert!(!difference.is_regression(0.0));
    }
}

#[test]
fn quantiles_are_within_half_a_percent() {
    let course = run(200, 500, 9);
    let values = course::metrics(&[&course], None);
    let place = Metric::all()
        .position(|metric| metric == COMMIT_P50)
        .unwrap();
    assert!(
        (values[place].unwrap() / 524.0 - 1.0).abs() < 0.01,
        "{values:?}"
    );
    assert_eq!(values[2], Some(0.0));
}
