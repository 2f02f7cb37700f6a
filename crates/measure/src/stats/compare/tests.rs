use super::*;

/// Runs whose commit p50 has these values, in milliseconds.
fn commits(values: &[f64]) -> Vec<RunFigures> {
    runs(COMMIT_P50, values)
}

fn runs(metric: Metric, values: &[f64]) -> Vec<RunFigures> {
    let run = |value: &f64| RunFigures::default().with(metric, Some(Figure::exact(*value)));
    values.iter().map(run).collect()
}

fn bounded(value: f64) -> Vec<RunFigures> {
    let figure = Figure {
        value,
        is_lower_bound: true,
    };
    vec![RunFigures::default().with(COMMIT_P50, Some(figure)); 3]
}

fn compared(metric: Metric, base: &[RunFigures], other: &[RunFigures]) -> Difference {
    compare(base, other, &of(metric), &Doubts::default())[0]
}

fn of(metric: Metric) -> CompareTerms {
    CompareTerms {
        metrics: vec![metric],
        ..TERMS
    }
}

const COMMIT_P50: Metric = Metric::Commit(Quantile::P50);
const COMMIT_P99: Metric = Metric::Commit(Quantile::P99);
const TERMS: CompareTerms = CompareTerms {
    margin: 0.05,
    limit: Some(0.05),
    metrics: Vec::new(),
};

/// What the gate makes of it with this limit.
fn gate_at(limit: f64, metric: Metric, base: &[RunFigures], other: &[RunFigures]) -> Option<Gate> {
    let terms = CompareTerms {
        limit: Some(limit),
        ..of(metric)
    };
    compare(base, other, &terms, &Doubts::default())[0].gate
}

const RUNS_NEEDED: fn(RunsNeeded) -> ComparisonVerdict =
    |needed| ComparisonVerdict::CannotTell(Uncertainty::Runs { needed });

#[test]
fn a_single_run_a_side_gets_figures_and_no_verdict() {
    let difference = compared(COMMIT_P50, &commits(&[500.0]), &commits(&[1500.0]));
    assert_eq!(difference.base.unwrap().value.round(), 500.0);
    assert!((difference.change.unwrap().by - 2.0).abs() < 1e-9);
    assert_eq!(difference.change.unwrap().interval, None);
    assert_eq!(difference.meaning, RUNS_NEEDED(RunsNeeded::Fewest));
    // A gate that a build three times as slow passes, as it is measured once, is none.
    assert_eq!(difference.gate, Some(Gate::Open));
}

#[test]
fn two_runs_a_side_that_separate_by_chance_are_no_verdict() {
    // One pair of two equal sides in three separates; a bootstrap over runs called that "worse".
    let difference = compared(
        COMMIT_P50,
        &commits(&[500.0, 501.0]),
        &commits(&[502.0, 503.0]),
    );
    assert_eq!(difference.meaning, RUNS_NEEDED(RunsNeeded::About(10)));
}

#[test]
fn welch_agrees_with_a_published_example() {
    // The samples and the p-value of rosettacode.org/wiki/Welch's_t-test (R's t.test).
    let a1 = [
        27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4,
    ];
    let a2 = [
        27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4,
    ];
    let [a1, a2] = [a1, a2].map(|values| Sample::of(&values, 0.0).unwrap());
    let p = Welch::between(&a1, &a2).p_of_none();
    assert!((p - 0.021378).abs() < 5e-6, "{p}");
}

#[test]
fn holm_holds_each_p_against_its_own_level() {
    // The p of 0.01, 0.02, 0.03 and 0.005: two pass (0.005 ≤ 0.05/4, 0.01 ≤ 0.05/3), 0.03 does not.
    let levels = holm(&[0.01, 0.04, 0.03, 0.005], 0.05);
    assert_eq!(levels, [0.05 / 3.0, 0.05 / 2.0, 0.05 / 2.0, 0.05 / 4.0]);
    assert_eq!(holm(&[], 0.05), Vec::<f64>::new());
}

#[test]
fn a_slower_side_is_worse_with_its_interval_and_a_regression_only_beyond_the_limit() {
    let (base, other) = (
        commits(&[500.0, 505.0, 495.0]),
        commits(&[600.0, 606.0, 594.0]),
    );
    let difference = compared(COMMIT_P50, &base, &other);
    assert_eq!(difference.meaning, ComparisonVerdict::Worse);
    let (low, high) = difference.change.unwrap().interval.unwrap();
    assert!(low < 0.2 && 0.2 < high, "{low} {high}");
    let gate = |limit| gate_at(limit, COMMIT_P50, &base, &other).unwrap();
    assert_eq!(gate(low - 0.001), Gate::Regression);
    // The measured change is beyond this limit, and the interval is not; and the reverse.
    assert_eq!([gate(low + 0.001), gate(0.201)], [Gate::Open; 2]);
    assert_eq!(gate(high), Gate::Within);
    assert_eq!(
        compared(COMMIT_P50, &other, &base).meaning,
        ComparisonVerdict::Better
    );
}

#[test]
fn of_a_rate_less_is_worse() {
    let metric = Metric::Committed;
    let (base, other) = (
        runs(metric, &[100.0, 101.0, 99.0]),
        runs(metric, &[70.0, 71.0, 69.0]),
    );
    let difference = compared(metric, &base, &other);
    assert_eq!(difference.meaning, ComparisonVerdict::Worse);
    assert_eq!(gate_at(0.1, metric, &base, &other), Some(Gate::Regression));
    assert_eq!(gate_at(0.3, metric, &base, &other), Some(Gate::Open));
    assert_eq!(gate_at(0.1, metric, &other, &base), Some(Gate::Within));
}

#[test]
fn an_interval_of_everything_is_not_the_same() {
    let difference = compared(
        COMMIT_P50,
        &commits(&[1.0, 100.0, 10_000.0]),
        &commits(&[2.0, 150.0, 9_000.0]),
    );
    let (low, high) = difference.change.unwrap().interval.unwrap();
    assert!(low < -0.99 && high > 100.0, "{low} {high}");
    assert!(
        difference.meaning == RUNS_NEEDED(RunsNeeded::TooMany),
        "{difference:?}"
    );
}

#[test]
fn the_same_is_an_interval_within_the_margin() {
    let (base, other) = (
        commits(&[500.0, 501.0, 499.0]),
        commits(&[502.0, 501.0, 503.0]),
    );
    assert_eq!(
        compared(COMMIT_P50, &base, &other).meaning,
        ComparisonVerdict::Same
    );
}

#[test]
fn what_the_stamps_cannot_resolve_is_no_difference() {
    // 50 µs of 1 ms would be 5 % of figures that do not vary.
    let (base, other) = (commits(&[1.0; 5]), commits(&[1.05; 5]));
    let meaning = compared(COMMIT_P50, &base, &other).meaning;
    assert!(
        !matches!(
            meaning,
            ComparisonVerdict::Worse | ComparisonVerdict::Better
        ),
        "{meaning:?}"
    );
    let metric = Metric::Accepted;
    let (base, other) = (runs(metric, &[1000.0; 5]), runs(metric, &[999.5; 5]));
    assert_eq!(
        compared(metric, &base, &other).meaning,
        ComparisonVerdict::Same
    );
}

#[test]
fn a_gate_asks_for_no_more_than_the_stamps_resolve() {
    // 5 % of 0.3 ms are 15 µs: without this no gate on a near node was ever passed.
    let quick = commits(&[0.3, 0.31, 0.29]);
    assert_eq!(
        gate_at(0.05, COMMIT_P50, &quick, &quick),
        Some(Gate::Within)
    );
    let slow = commits(&[0.9, 0.91, 0.89]);
    assert_eq!(
        gate_at(0.05, COMMIT_P50, &quick, &slow),
        Some(Gate::Regression)
    );
}

#[test]
fn commits_that_were_polled_differ_by_more_than_the_poll_or_not_at_all() {
    let (base, mut other) = (commits(&[500.0; 5]), commits(&[600.0; 5]));
    assert_eq!(
        compared(COMMIT_P50, &base, &other).meaning,
        ComparisonVerdict::Worse
    );
    for run in &mut other {
        run.block_resolution_ms = 250.0;
    }
    let meaning = compared(COMMIT_P50, &base, &other).meaning;
    assert!(
        matches!(meaning, ComparisonVerdict::CannotTell(_)),
        "{meaning:?}"
    );
}

#[test]
fn lower_bounds_are_compared_as_such() {
    let exact = commits(&[500.0, 505.0, 495.0]);
    // Slower at least: the true figure is higher still.
    let difference = compared(COMMIT_P50, &exact, &bounded(900.0));
    assert_eq!(difference.meaning, ComparisonVerdict::Worse);
    assert_eq!(
        difference.change.unwrap().interval.unwrap().1,
        f64::INFINITY
    );
    // It looks faster, and may be slower.
    let difference = compared(COMMIT_P50, &exact, &bounded(100.0));
    assert!(matches!(
        difference.meaning,
        ComparisonVerdict::CannotTell(_)
    ));
    let difference = compared(COMMIT_P50, &bounded(100.0), &bounded(900.0));
    assert_eq!(
        difference.meaning,
        ComparisonVerdict::CannotTell(Uncertainty::LowerBounds)
    );
}

#[test]
fn a_quantile_that_unfinished_transactions_can_raise_is_a_lower_bound() {
    let mut latency = crate::format::latency::Quantiles {
        p50: Some(500.0),
        p99: Some(900.0),
        ..Default::default()
    };
    latency.at_least.insert("p99".into(), None);
    let of = |quantile| metric::of_quantile(&latency, quantile);
    assert!(!of(Quantile::P50).unwrap().is_lower_bound);
    assert!(of(Quantile::P99).unwrap().is_lower_bound);
    assert_eq!(of(Quantile::P95), None);
}

#[test]
fn a_figure_that_one_run_lacks_is_unknown() {
    let mut other = commits(&[500.0, 505.0, 495.0]);
    other[1] = RunFigures::default();
    for (base, other) in [
        (commits(&[500.0; 3]), other),
        (commits(&[500.0; 3]), Vec::new()),
    ] {
        let difference = compared(COMMIT_P50, &base, &other);
        assert_eq!(
            difference.meaning,
            ComparisonVerdict::CannotTell(Uncertainty::NoFigure)
        );
        assert_eq!(difference.gate, Some(Gate::Open));
    }
}

/// A figure of another kind of run.
fn other(is_gain: bool, base: &[f64], other: &[f64]) -> Difference {
    let metric = Metric::Other(OtherMetric {
        name: "parcels",
        unit: "",
        is_gain,
    });
    compared(metric, &runs(metric, base), &runs(metric, other))
}

#[test]
fn twice_as_much_of_another_figure_is_better_or_worse_by_what_it_is() {
    let (low, high) = ([100.0, 101.0, 99.0], [200.0, 202.0, 198.0]);
    let difference = other(true, &low, &high);
    assert_eq!(difference.meaning, ComparisonVerdict::Better);
    let change = difference.change.unwrap();
    assert!((change.by - 1.0).abs() < 0.01, "{change:?}");
    let (from, to) = change.interval.unwrap();
    assert!(from < 1.0 && to > 1.0 && from > 0.9, "{change:?}");
    let meaning = |is_gain, base, than| other(is_gain, base, than).meaning;
    assert_eq!(meaning(false, &low, &high), ComparisonVerdict::Worse);
    assert_eq!(meaning(false, &high, &low), ComparisonVerdict::Better);
    let same = meaning(true, &[10.0, 10.01, 9.99], &[10.0, 10.02, 9.98]);
    assert_eq!(same, ComparisonVerdict::Same);
}

#[test]
fn the_runs_needed_are_the_order_of_the_published_formula() {
    // Zar, "Biostatistical analysis", example 8.4: s² = 0.52, δ = 0.5, α = 0.05, power 0.9 gives 44.4
    // (45); with the power of 0.8 here the normal approximation, 2 · 0.52 (1.96 + 0.84)² / 0.25, is 32.7,
    // and Student's t adds one.
    let needed = |variance, present| runs_needed(variance, 0.5, 0.05, present);
    assert_eq!(needed(0.52, 3), RunsNeeded::About(30));
    assert_eq!(needed(0.52 / 3.0, 3), RunsNeeded::About(10));
    assert_eq!(needed(0.52 * 4.0, 3), RunsNeeded::About(100));
    assert_eq!(needed(0.52 * 20.0, 3), RunsNeeded::TooMany);
    // Never fewer than there are.
    assert_eq!(needed(1e-9, 12), RunsNeeded::About(30));
}

/// Runs of 3,000 transactions of which so many were lost.
fn lost(counts: &[u64]) -> Vec<RunFigures> {
    let shares: Vec<f64> = counts.iter().map(|count| *count as f64 / 3000.0).collect();
    let mut runs = runs(Metric::Lost, &shares);
    runs.iter_mut().for_each(|run| run.planned = 3000);
    runs
}

#[test]
fn what_is_lost_is_held_against_one_in_a_hundred_however_wide_the_limit_is() {
    // 4.3 % were lost, and `--fail-on-regression 5%` and `10%` were green.
    let (none, some) = (lost(&[0; 3]), lost(&[120, 130, 140]));
    for limit in [0.05, 0.1] {
        assert_eq!(
            gate_at(limit, Metric::Lost, &none, &some),
            Some(Gate::Regression)
        );
        assert_eq!(
            gate_at(limit, Metric::Lost, &none, &none),
            Some(Gate::Within)
        );
    }
    // A narrower limit holds for losses, too.
    let few = lost(&[4, 5, 3]);
    assert_eq!(gate_at(0.1, Metric::Lost, &none, &few), Some(Gate::Within));
    assert_eq!(gate_at(0.001, Metric::Lost, &none, &few), Some(Gate::Open));
}

#[test]
fn shares_lost_near_zero_vary_by_what_their_counts_do() {
    // Three runs that lost one each do not vary, and one in 3,000 is chance all the same.
    let difference = compared(Metric::Lost, &lost(&[0; 3]), &lost(&[1; 3]));
    let (low, high) = difference.change.unwrap().interval.unwrap();
    assert!(low < 0.0 && high > 0.001, "{low} {high}");
    // One burst in three runs: anything is possible.
    let burst = lost(&[0, 0, 300]);
    assert_eq!(
        gate_at(0.05, Metric::Lost, &lost(&[0; 3]), &burst),
        Some(Gate::Open)
    );
    // Of few transactions even none lost excludes little.
    let mut short = lost(&[0; 3]);
    short.iter_mut().for_each(|run| run.planned = 50);
    assert_eq!(
        gate_at(0.05, Metric::Lost, &short, &short),
        Some(Gate::Open)
    );
}

#[test]
fn what_no_run_measured_is_not_asked_for_and_all_that_is_has_to_be_within() {
    let (base, other) = (
        commits(&[500.0, 501.0, 499.0]),
        commits(&[502.0, 501.0, 503.0]),
    );
    let differences = compare(&base, &other, &TERMS, &Doubts::default());
    assert_eq!(differences.len(), 9);
    let gates: Vec<Gate> = differences.iter().filter_map(|it| it.gate).collect();
    assert_eq!(gates, [Gate::Within]);
    assert_eq!(gated(&differences), Some(Gate::Within));
    let asked = CompareTerms {
        metrics: vec![Metric::Committed, COMMIT_P50],
        ..TERMS
    };
    let found = compare(&base, &other, &asked, &Doubts::default());
    assert_eq!(found.len(), 2);
    let nothing = compare(&base[..0], &other[..0], &TERMS, &Doubts::default());
    assert_eq!(gated(&nothing), None);
    let of_one_side = compare(
        &base,
        &runs(Metric::Lost, &[0.0; 3]),
        &TERMS,
        &Doubts::default(),
    );
    assert_eq!(gated(&of_one_side), Some(Gate::Open));
    // A run of each side that has no figure: it was asked for all the same.
    let mut holes = [base, other];
    holes
        .iter_mut()
        .for_each(|side| side[0] = RunFigures::default());
    let holes = compare(&holes[0], &holes[1], &TERMS, &Doubts::default());
    assert_eq!(gated(&holes), Some(Gate::Open));
}

#[test]
fn a_doubt_leaves_the_figures_and_takes_the_verdict_of_what_it_touches() {
    let (base, other) = (
        commits(&[500.0, 505.0, 495.0]),
        commits(&[600.0, 606.0, 594.0]),
    );
    for (doubts, why) in [
        (
            Doubts {
                is_ordered: true,
                ..Doubts::default()
            },
            Uncertainty::Order,
        ),
        (
            Doubts {
                differing: vec![LoadDifference {
                    field: LoadField::Transport,
                    base: vec!["http".into()],
                    other: vec!["ws".into()],
                    is_varied: false,
                }],
                is_ordered: true,
            },
            Uncertainty::OtherLoad(LoadField::Transport),
        ),
    ] {
        let difference = compare(&base, &other, &of(COMMIT_P50), &doubts)[0];
        assert_eq!(difference.meaning, ComparisonVerdict::CannotTell(why));
        assert_eq!(difference.gate, Some(Gate::Open));
        let change = difference.change.unwrap();
        assert!((change.by - 0.2).abs() < 0.01, "{change:?}");
        assert_eq!(change.interval, None);
    }
}

#[test]
fn latencies_of_a_busy_generator_are_left_out_and_its_rates_are_not() {
    let busy = |late_ms: f64, p99: f64| {
        let mut run = RunFigures::default()
            .with(COMMIT_P50, Some(Figure::exact(500.0)))
            .with(Metric::Committed, Some(Figure::exact(100.0)))
            .with(COMMIT_P99, Some(Figure::exact(p99)));
        run.own_lateness_ms = [0.0, 0.0, late_ms];
        run
    };
    let late = [100.0; 3].map(|late_ms| busy(late_ms, 900.0));
    let difference = compared(COMMIT_P99, &late, &late);
    let why = ComparisonVerdict::CannotTell(Uncertainty::BusyGenerator);
    assert_eq!(
        (difference.meaning, difference.base.unwrap().value.round()),
        (why, 900.0)
    );
    for metric in [COMMIT_P50, Metric::Committed] {
        assert_eq!(
            compared(metric, &late, &late).meaning,
            ComparisonVerdict::Same
        );
    }
    // One of four: the others are compared.
    let mut mixed = [0.0; 3].map(|late_ms| busy(late_ms, 900.0)).to_vec();
    let three = compared(COMMIT_P99, &mixed, &mixed);
    mixed.push(busy(100.0, 990.0));
    assert_eq!(compared(COMMIT_P99, &mixed, &mixed), three);
    // A lateness that is small beside the figure is what it is known to.
    let [some, faster] = [900.0, 860.0].map(|p99| [60.0; 3].map(|late_ms| busy(late_ms, p99)));
    let meaning = compared(COMMIT_P99, &some, &faster).meaning;
    assert!(
        matches!(meaning, ComparisonVerdict::CannotTell(_)),
        "{meaning:?}"
    );
}
