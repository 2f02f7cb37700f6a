//! BEP-23's published numbers come out of its published plots.

use report::{Bep23Collector, SecondFigures};

/// Per experiment: per-second counts, accept and finalize histograms, and what the text and the plots
/// say: transactions, mean and median accepted and finalized, .68/.95/.997 of both in seconds.
struct Experiment {
    per_second: &'static str,
    accept: &'static str,
    finalize: &'static str,
    transactions: u64,
    accepted: (f64, f64),
    finalized: (f64, f64),
    accept_s: [f64; 3],
    finalize_s: [f64; 3],
}

const EXPERIMENTS: [Experiment; 3] = [
    Experiment {
        per_second: include_str!("../data/bep23/experiment1_per_second.csv"),
        accept: include_str!("../data/bep23/experiment1_hist_accept.csv"),
        finalize: include_str!("../data/bep23/experiment1_hist_finalize.csv"),
        transactions: 1_000_000,
        accepted: (299.0, 309.0),
        finalized: (298.0, 320.0),
        accept_s: [0.112, 0.294, 0.730],
        finalize_s: [2.855, 5.143, 9.392],
    },
    Experiment {
        per_second: include_str!("../data/bep23/experiment2_per_second.csv"),
        accept: include_str!("../data/bep23/experiment2_hist_accept.csv"),
        finalize: include_str!("../data/bep23/experiment2_hist_finalize.csv"),
        transactions: 1_000_000,
        accepted: (636.0, 615.0),
        // The text repeats the mean as the median; the plot says 510.
        finalized: (636.0, 510.0),
        accept_s: [0.018, 0.113, 2.033],
        finalize_s: [2.898, 5.402, 7.686],
    },
    Experiment {
        per_second: include_str!("../data/bep23/experiment3_per_second.csv"),
        accept: include_str!("../data/bep23/experiment3_hist_accept.csv"),
        finalize: include_str!("../data/bep23/experiment3_hist_finalize.csv"),
        transactions: 16_000,
        accepted: (1_092.0, 1_072.0),
        finalized: (889.0, 1_102.0),
        accept_s: [0.014, 0.074, 0.373],
        finalize_s: [3.081, 4.099, 4.358],
    },
];

fn column(text: &str, position: usize) -> Vec<f64> {
    text.lines()
        .skip(1)
        .map(|line| line.split(',').nth(position).unwrap().parse().unwrap())
        .collect()
}

fn counts(text: &str, position: usize) -> Vec<u32> {
    column(text, position)
        .into_iter()
        .map(|count| count as u32)
        .collect()
}

/// The plots are padded with zeros to the longest series.
fn accepted(experiment: &Experiment) -> Vec<u32> {
    let mut counts = counts(experiment.per_second, 1);
    while counts.last() == Some(&0) {
        counts.pop();
    }
    counts
}

#[test]
fn mean_and_median_per_second_are_the_published_ones() {
    for experiment in &EXPERIMENTS {
        let figures = SecondFigures::of(accepted(experiment));
        assert_eq!((figures.mean, figures.median), experiment.accepted);
        let figures = SecondFigures::of(counts(experiment.per_second, 2));
        assert_eq!((figures.mean, figures.median), experiment.finalized);
    }
}

/// Events in the middle of the seconds of the plot, and those that the original loses after its
/// end: 711 accepted ones in experiment 3.
#[test]
fn a_run_with_these_seconds_has_these_figures() {
    let experiment = &EXPERIMENTS[2];
    let start = 1_530_000_000_000_000;
    let mut collector = Bep23Collector::new(start);
    let at = |second: usize, micros: u64| start + second as u64 * 1_000_000 + micros;
    let (accepted, finalized) = (accepted(experiment), counts(experiment.per_second, 2));
    let mut lost = experiment.transactions;
    for (second, count) in accepted.iter().enumerate() {
        for _ in 0..*count {
            collector.stamps(start, Some(at(second, 300_000)), None);
            lost -= 1;
        }
    }
    assert_eq!(lost, 711);
    for _ in 0..lost {
        collector.stamps(start, Some(at(accepted.len() - 1, 700_000)), None);
    }
    for (second, count) in finalized.iter().enumerate() {
        for _ in 0..*count {
            collector.stamps(start, None, Some(at(second, 300_000)));
        }
    }
    let figures = collector.finish();
    assert_eq!(figures.accepted.counts, accepted);
    assert_eq!(
        (figures.accepted.mean, figures.accepted.median),
        experiment.accepted
    );
    assert_eq!(figures.finalized.counts, finalized);
    assert_eq!(
        (figures.finalized.mean, figures.finalized.median),
        experiment.finalized
    );
    assert_eq!(figures.accept.count, 16_000);
}

/// The histograms have 25 bins, so a quantile comes out within one of them.
#[test]
fn quantiles_of_the_histograms_are_the_published_ones_within_a_bin() {
    for experiment in &EXPERIMENTS {
        for (bins, published, accept) in [
            (experiment.accept, experiment.accept_s, true),
            (experiment.finalize, experiment.finalize_s, false),
        ] {
            let (from, to, count) = (column(bins, 0), column(bins, 1), column(bins, 2));
            let share = if experiment.transactions > 100_000 {
                10.0
            } else {
                1.0
            };
            let mut collector = Bep23Collector::new(0);
            for bin in 0..from.len() {
                let micros = (f64::midpoint(from[bin], to[bin]) * 1e6) as u64;
                // A tenth of a million is enough, and one where a bin holds less.
                for _ in 0..(count[bin] / share).ceil() as u64 {
                    let (accepted, committed) = (Some(micros), Some(1_000_000 + micros));
                    if accept {
                        collector.stamps(0, accepted, None);
                    } else {
                        collector.stamps(0, Some(1_000_000), committed);
                    }
                }
            }
            let figures = collector.finish();
            let found = if accept {
                figures.accept
            } else {
                figures.finalize
            };
            let width = to[0] - from[0];
            for (found, published) in [found.p68, found.p95, found.p99_7]
                .into_iter()
                .zip(published)
            {
                let found = found.unwrap();
                assert!(
                    (found - published).abs() <= width,
                    "{found} is not {published} ± {width}"
                );
            }
        }
    }
}

#[test]
fn seconds_round_half_to_even_and_quantiles_interpolate() {
    let mut collector = Bep23Collector::new(0);
    for micros in [500_000, 1_500_000, 2_500_000, 3_100_000] {
        collector.stamps(0, Some(micros), Some(micros));
    }
    let figures = collector.finish();
    // 0.5 → 0, 1.5 → 2, 2.5 → 2, 3.1 → 3; seconds 0 to ⌈3.1⌉ − 1.
    assert_eq!(figures.accepted.counts, [1, 0, 2, 1]);
    let p68 = figures.accept.p68.unwrap();
    assert!((p68 - (2.5 * 0.96 + 3.1 * 0.04)).abs() < 1e-9, "{p68}");
    assert_eq!(figures.finalize.p95, Some(0.0));
    assert_eq!(figures.accept.histogram.len(), 25);
    let text = figures.to_string();
    assert!(text.contains("accept (send to answer)"), "{text}");
}
