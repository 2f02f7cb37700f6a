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
    compare(&[metric], base, other, &TERMS)[0]
}

const COMMIT_P50: Metric = Metric::Commit(Quantile::P50);
const TERMS: CompareTerms = CompareTerms {
    margin: 0.05,
    limit: Some(0.05),
};

#[test]
fn a_single_run_a_side_gets_figures_and_no_verdict() {
    let difference = compared(COMMIT_P50, &commits(&[500.0]), &commits(&[1500.0]));
    assert_eq!(difference.base.unwrap().value.round(), 500.0);
    assert!((difference.change.unwrap().by - 2.0).abs() < 1e-9);
    assert_eq!(difference.change.unwrap().interval, None);
    let needed = ComparisonVerdict::CannotTell(Uncertainty::Runs { needed: 3 });
    assert_eq!(difference.meaning, needed);
    assert!(!difference.is_regression(0.05));
}

#[test]
fn two_runs_a_side_that_separate_by_chance_are_no_verdict() {
    // One pair of two equal sides in three separates; a bootstrap over runs called that "worse".
    let difference = compared(
        COMMIT_P50,
        &commits(&[500.0, 501.0]),
        &commits(&[502.0, 503.0]),
    );
    assert!(matches!(
        difference.meaning,
        ComparisonVerdict::CannotTell(Uncertainty::Runs { needed: 3 })
    ));
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
    assert!(difference.is_regression(low - 0.001));
    // The measured change is beyond this limit, and the interval is not.
    assert!(!difference.is_regression(low + 0.001));
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
    assert!(difference.is_regression(0.1) && !difference.is_regression(0.3));
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
        matches!(difference.meaning, ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }) if needed > 3)
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
    let of = |quantile| figures::of_quantile(&latency, quantile);
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
        assert!(!difference.is_regression(0.05));
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
fn the_runs_needed_are_those_of_the_published_formula() {
    // Zar, "Biostatistical analysis", example 8.4: s² = 0.52, δ = 0.5, α = 0.05, power 0.9 gives 44.4
    // (45); with the power of 0.8 here the normal approximation, 2 · 0.52 (1.96 + 0.84)² / 0.25, is 32.7,
    // and Student's t adds one.
    let needed = runs_needed(0.52, 0.5, 0.05);
    assert!((33..=35).contains(&needed), "{needed}");
    assert_eq!(runs_needed(1e-9, 0.5, 0.05), MIN_RUNS);
}
