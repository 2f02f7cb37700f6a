//! The messages about a comparison in turns.

use measure::{Change, ComparisonVerdict, Difference, Gate, Metric, RunFigures, gated};
use report::text::percent;
use report::{interval_text, signed_change};

/// A pair of runs: by how much B differs in each metric.
pub(super) fn pair_line(number: u64, a: &RunFigures, b: &RunFigures, metrics: &[Metric]) -> String {
    let change = |metric: &Metric| {
        let [a, b] = [a, b].map(|run| run.figure(*metric).map(|figure| figure.value));
        let (a, b) = a.zip(b)?;
        let change = match metric {
            Metric::Lost => b - a,
            _ => b / a - 1.0,
        };
        change
            .is_finite()
            .then(|| format!("{} {}", metric.name(), signed_change(*metric, change)))
    };
    let changes: Vec<String> = metrics.iter().filter_map(change).collect();
    format!("pair {number:>2}  B to A: {}", changes.join(", "))
}

/// What is known after a block.
pub(super) fn so_far(differences: &[Difference]) -> String {
    let open = differences.iter().filter(|it| it.gate == Some(Gate::Open));
    let open: Vec<String> = open
        .map(|it| match it.change {
            Some(Change {
                interval: Some(_), ..
            }) => format!(
                "{} {}",
                it.metric.name(),
                interval_text(it.metric, it.change)
            ),
            _ => it.metric.name().to_owned(),
        })
        .collect();
    if open.is_empty() {
        "         decided".into()
    } else {
        format!("         open: {}", open.join(", "))
    }
}

/// The answer in one sentence.
pub(super) fn answer(differences: &[Difference], margin: f64) -> String {
    let margin = percent(margin);
    let of = |meaning: ComparisonVerdict| {
        let found = differences.iter().filter(|it| it.meaning == meaning);
        let found = found.map(|it| {
            let by = it.change.map(|change| signed_change(it.metric, change.by));
            format!(
                "{} {} ({})",
                it.metric.name(),
                by.unwrap_or_default(),
                interval_text(it.metric, it.change)
            )
        });
        found.collect::<Vec<_>>().join(", ")
    };
    let better = match of(ComparisonVerdict::Better) {
        none if none.is_empty() => String::new(),
        better => format!("; better: {better}"),
    };
    match gated(differences) {
        Some(Gate::Regression) => {
            format!("**B is worse**: {}{better}", of(ComparisonVerdict::Worse))
        }
        Some(Gate::Within) => format!(
            "**B is not worse** by more than {margin} in any metric, each taken by itself with 95 % (intervals that are \
             shown hold for all metrics together, so they are wider){better}"
        ),
        _ => {
            let open = differences.iter().filter(|it| it.gate == Some(Gate::Open));
            let open: Vec<&str> = open.map(|it| it.metric.name()).collect();
            format!(
                "**undecided**: it is not shown that B is worse, nor that it is not by more than {margin}; open: {}{better}",
                open.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::{Figure, Quantile, Uncertainty};

    use super::*;

    fn difference(meaning: ComparisonVerdict, gate: Gate) -> Difference {
        Difference {
            metric: Metric::Commit(Quantile::P50),
            base: None,
            other: None,
            change: Some(Change {
                by: 0.05,
                interval: Some((0.01, 0.09)),
            }),
            meaning,
            gate: Some(gate),
        }
    }

    #[test]
    fn the_answer_is_one_sentence() {
        let worse = difference(ComparisonVerdict::Worse, Gate::Regression);
        assert_eq!(
            answer(&[worse], 0.05),
            "**B is worse**: commit.p50 +5.0 % (+1.0 % to +9.0 %)"
        );
        let within = difference(ComparisonVerdict::Same, Gate::Within);
        assert_eq!(
            answer(&[within], 0.05),
            "**B is not worse** by more than 5 % in any metric, each taken by itself with 95 % (intervals that are shown \
             hold for all metrics together, so they are wider)"
        );
        let open = difference(
            ComparisonVerdict::CannotTell(Uncertainty::NoFigure),
            Gate::Open,
        );
        assert!(answer(&[within, open], 0.05).ends_with("open: commit.p50"));
        assert_eq!(so_far(&[within]), "         decided");
        assert_eq!(
            so_far(&[open]),
            "         open: commit.p50 +1.0 % to +9.0 %"
        );
    }

    #[test]
    fn a_pair_shows_by_how_much_b_differs() {
        let run = |value, lost| {
            let figure = |value| {
                Some(Figure {
                    value,
                    is_lower_bound: false,
                })
            };
            let run = RunFigures::default().with(Metric::Commit(Quantile::P50), figure(value));
            run.with(Metric::Lost, figure(lost))
        };
        let metrics = [
            Metric::Committed,
            Metric::Lost,
            Metric::Commit(Quantile::P50),
        ];
        assert_eq!(
            pair_line(3, &run(500.0, 0.0), &run(550.0, 0.01), &metrics),
            "pair  3  B to A: lost.share +1.0 pp, commit.p50 +10.0 %"
        );
    }
}
