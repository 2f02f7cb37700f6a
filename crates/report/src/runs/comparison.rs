//! What differs between two sides of runs: a table, a plot, a document, words.

use measure::{
    Change, ComparisonVerdict, Difference, Figure, Gate, Metric, OtherMetric, RunsNeeded,
    Uncertainty,
};
use serde_json::{Value, json};

use crate::chart::{ForestRow, Tone, forest};
use crate::table::Table;
use crate::text::{number, rate};

/// A side beside the first one.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    /// What tables call the first side.
    pub base: &'a str,
    /// What tables call this one.
    pub name: &'a str,
    /// How many runs count on the first side and on this one.
    pub runs: [usize; 2],
    /// How it differs.
    pub differences: &'a [Difference],
    /// The same with the runs that do not count, whose figures are shown where a side has no others.
    pub of_all: &'a [Difference],
}

impl ComparedSide<'_> {
    /// What is compared.
    #[must_use]
    pub fn heading(&self) -> String {
        let (name, base, [before, after]) = (self.name, self.base, self.runs);
        format!("{name} against {base} ({after} against {before} runs)")
    }

    /// What is shown to be worse or better, in bold between `**`; `None` where nothing is.
    fn shown_changes(&self) -> Option<String> {
        let of = |meaning: ComparisonVerdict, word: &str| {
            let found = self.differences.iter().filter(|it| it.meaning == meaning);
            let names: Vec<String> = found.map(sized).collect();
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = names[..names.len().min(NAMED)].join(", ");
            (!names.is_empty()).then(|| format!("**{word}** in {named}{more}"))
        };
        let found = [
            of(ComparisonVerdict::Worse, "worse"),
            of(ComparisonVerdict::Better, "better"),
        ];
        let found = found.into_iter().flatten().collect::<Vec<_>>().join(", ");
        (!found.is_empty()).then(|| format!("{} is {found}", self.name))
    }

    /// What is shown to have changed against the first side, or else the number of figures that are undecided.
    #[must_use]
    pub fn answer(others: &[Self]) -> String {
        let base = match others {
            _ if others.iter().any(|side| side.runs.contains(&0)) => {
                return "**nothing can be told**: a side has no valid run".into();
            }
            [] => return "one side alone: nothing is compared".into(),
            [first, ..] => first.base,
        };
        let shown = others.iter().filter_map(Self::shown_changes);
        let all = || others.iter().flat_map(|side| side.differences);
        let open = all().filter(|it| matches!(it.meaning, ComparisonVerdict::CannotTell(_)));
        match (shown.collect::<Vec<_>>().join("; "), open.count()) {
            (none, 0) if none.is_empty() => "no difference is shown".into(),
            (none, open) if none.is_empty() => {
                let all = all().count();
                format!("no difference is shown; cannot tell for {open} of {all} metrics")
            }
            (shown, _) => format!("against {base}: {shown}"),
        }
    }

    /// One difference in a line.
    #[must_use]
    pub fn words(&self, difference: &Difference) -> String {
        let metric = difference.metric;
        let [before, after] = [difference.base, difference.other].map(|it| value_text(metric, it));
        let change = difference.change.map_or_else(String::new, |change| {
            let by = signed_change(metric, change.by);
            format!(", {by} ({})", interval_text(metric, Some(change)))
        });
        let verdict = verdict_words(difference.meaning);
        format!("{before} before, {after} after{change}: {verdict}")
    }

    /// One row a metric.
    #[must_use]
    pub fn table(&self) -> Table {
        let has_empty_side = self.runs.contains(&0);
        Table::of(self.differences)
            .text("metric", |it| it.metric.name())
            .code()
            .figure("before", |it| self.shown(it, |it| it.base))
            .figure("after", |it| self.shown(it, |it| it.other))
            .figure("change", |it| match it.change {
                Some(change) => signed_change(it.metric, change.by),
                None => "-".into(),
            })
            .figure("interval", |it| interval_text(it.metric, it.change))
            .not_on_phones()
            .text("", |it| {
                if is_regression(it) {
                    "REGRESSION".into()
                } else if has_empty_side {
                    "cannot tell: a side has no valid run".into()
                } else {
                    verdict_words(it.meaning)
                }
            })
            .alarm(|it| is_regression(it))
            .table()
    }

    /// A figure of a side; in parentheses where only runs that do not count have it.
    fn shown(&self, difference: &Difference, of: fn(&Difference) -> Option<Figure>) -> String {
        let metric = difference.metric;
        let all = || self.of_all.iter().find(|it| it.metric == metric);
        match (of(difference), all().and_then(of)) {
            (None, Some(figure)) => format!("({})", value_text(metric, Some(figure))),
            (figure, _) => value_text(metric, figure),
        }
    }

    /// The changes and their intervals as HTML; nothing where there are none.
    #[must_use]
    pub fn forest(&self) -> String {
        let rows: Vec<ForestRow> = self.differences.iter().filter_map(forest_row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let about = "The dot is the change, the stroke its interval; where the stroke crosses the line in \
                     the middle, no difference is shown.";
        forest("Changes and their intervals", about, &rows, WIDEST_CHANGE)
    }

    /// Each difference for a program.
    pub fn json(&self) -> impl Iterator<Item = Value> {
        let value = |figure: Option<Figure>| figure.map(|figure| figure.value);
        let is_lower_bound =
            |figure: Option<Figure>| figure.is_some_and(|figure| figure.is_lower_bound);
        self.differences.iter().map(move |it| {
            let interval = it.change.and_then(|change| change.interval);
            json!({
                "side": self.name,
                "runs": self.runs,
                "metric": it.metric.name(),
                "unit": it.metric.unit(),
                "before": value(it.base),
                "before_is_lower_bound": is_lower_bound(it.base),
                "after": value(it.other),
                "after_is_lower_bound": is_lower_bound(it.other),
                "change": it.change.map(|change| change.by),
                "low": interval.map(|(low, _)| low),
                "high": interval.map(|(_, high)| high).filter(|high| high.is_finite()),
                "meaning": verdict_name(it.meaning),
                "runs_needed": match it.meaning {
                    ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }) => needed.number(),
                    _ => None,
                },
                "gate": it.gate.map(gate_name),
            })
        })
    }
}

fn is_regression(difference: &Difference) -> bool {
    difference.gate == Some(Gate::Regression)
}

/// What a limit makes of a difference, for programs.
#[must_use]
pub const fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Regression => "regression",
        Gate::Within => "within",
        Gate::Open => "open",
    }
}

/// A metric with its change and the interval around it.
fn sized(difference: &Difference) -> String {
    let metric = difference.metric;
    let by = difference.change.map(|it| signed_change(metric, it.by));
    match (by, difference.change.and_then(|it| it.interval)) {
        (None, _) => metric.name().to_owned(),
        (Some(by), None) => format!("{} {by}", metric.name()),
        (Some(by), Some(_)) => {
            let interval = interval_text(metric, difference.change);
            format!("{} {by} ({interval})", metric.name())
        }
    }
}

/// A change and its interval in a forest plot; `None` where there is none.
fn forest_row(difference: &Difference) -> Option<ForestRow> {
    let change = difference.change?;
    // Without an interval the change alone is drawn.
    let (low, high) = change.interval.unwrap_or((change.by, change.by));
    Some(ForestRow {
        name: difference.metric.name().to_owned(),
        by: change.by,
        low,
        high,
        tone: match difference.meaning {
            ComparisonVerdict::Better => Tone::Accepted,
            ComparisonVerdict::Worse => Tone::Bad,
            ComparisonVerdict::Same | ComparisonVerdict::CannotTell(_) => Tone::Plan,
        },
        text: verdict_words(difference.meaning),
    })
}

fn value_text(metric: Metric, figure: Option<Figure>) -> String {
    let Some(figure) = figure else {
        return "-".into();
    };
    let value = figure.value;
    let text = match metric {
        Metric::Lost => format!("{:.2} %", value * 100.0),
        Metric::Committed | Metric::Accepted => format!("{value:.1}/s"),
        Metric::Accept(_) | Metric::Commit(_) if value < 10.0 => format!("{value:.3} ms"),
        Metric::Accept(_) | Metric::Commit(_) => format!("{value:.1} ms"),
        Metric::Other(OtherMetric { unit: "/s", .. }) => rate(value),
        Metric::Other(OtherMetric { unit, .. }) => format!("{} {unit}", number(value)),
    };
    let bound = if figure.is_lower_bound { "≥ " } else { "" };
    format!("{bound}{}", text.trim_end())
}

/// A change; of shares in percentage points. Beyond a factor of a hundred a change is no figure any more.
#[must_use]
pub fn signed_change(metric: Metric, change: f64) -> String {
    if change > 99.0 {
        return "over +9,900 %".to_owned();
    }
    // No minus before a zero.
    let tenths = (change * 1e3).round() / 10.0 + 0.0;
    let unit = if metric == Metric::Lost { "pp" } else { "%" };
    format!("{tenths:+.1} {unit}")
}

/// The interval of a change.
#[must_use]
pub fn interval_text(metric: Metric, change: Option<Change>) -> String {
    let Some((low, high)) = change.and_then(|change| change.interval) else {
        return "-".into();
    };
    let is_wide = high.is_finite() && 1.0 + high > MAX_SPAN * (1.0 + low);
    if (low <= 0.0 && high.is_finite() && high > TOO_NOISY) || low.is_infinite() {
        "too noisy".into()
    } else if is_wide || high.is_infinite() {
        format!("{} or more", signed_change(metric, low))
    } else {
        format!(
            "{} to {}",
            signed_change(metric, low),
            signed_change(metric, high)
        )
    }
}

/// The verdict on a difference, for programs.
fn verdict_name(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "better",
        ComparisonVerdict::Worse => "worse",
        ComparisonVerdict::Same => "same",
        ComparisonVerdict::CannotTell(_) => "cannot tell",
    }
}

/// The verdict on a difference and, where there is none, the reason.
fn verdict_words(verdict: ComparisonVerdict) -> String {
    let why = match verdict {
        ComparisonVerdict::CannotTell(why) => format!(": {}", why_words(why)),
        _ => String::new(),
    };
    verdict_name(verdict).to_owned() + &why
}

fn why_words(why: Uncertainty) -> String {
    match why {
        Uncertainty::NoFigure => "a run has no figure".into(),
        Uncertainty::OtherLoad(field) => format!("{} differs", field.title()),
        Uncertainty::BusyGenerator => "much of it is the generator's own lateness".into(),
        Uncertainty::LowerBounds => "both are lower bounds".into(),
        Uncertainty::Order => "one side ran before the other".into(),
        Uncertainty::Runs { needed } => match needed {
            RunsNeeded::Fewest => "needs 3 runs a side".into(),
            RunsNeeded::About(runs) if runs <= MOST_RUNS => {
                format!("needs about {runs} runs a side")
            }
            RunsNeeded::About(_) | RunsNeeded::TooMany => "too noisy".into(),
        },
    }
}

/// Metrics that a headline names.
const NAMED: usize = 3;
/// What changed by more than this has changed; how much is in the table.
const WIDEST_CHANGE: f64 = 1.0;
/// An interval around no change that reaches further shows nothing.
const TOO_NOISY: f64 = 1.0;
/// More runs a side than this are not advised: a user would not take them.
const MOST_RUNS: u32 = 50;
/// From the lower to the upper end of an interval, as a factor: a wider one has no meaning.
const MAX_SPAN: f64 = 100.0;

#[cfg(test)]
mod tests {
    use measure::LoadField;

    use super::*;

    #[test]
    fn what_cannot_be_told_is_said_with_the_reason() {
        for (why, words) in [
            (
                Uncertainty::Runs {
                    needed: RunsNeeded::About(30),
                },
                "cannot tell: needs about 30 runs a side",
            ),
            (
                Uncertainty::Runs {
                    needed: RunsNeeded::About(100),
                },
                "cannot tell: too noisy",
            ),
            (
                Uncertainty::Runs {
                    needed: RunsNeeded::TooMany,
                },
                "cannot tell: too noisy",
            ),
            (
                Uncertainty::OtherLoad(LoadField::Workload),
                "cannot tell: the workload differs",
            ),
        ] {
            assert_eq!(verdict_words(ComparisonVerdict::CannotTell(why)), words);
        }
        assert_eq!(verdict_words(ComparisonVerdict::Same), "same");
    }

    #[test]
    fn an_answer_says_of_how_much_nothing_can_be_told() {
        let difference = |meaning| Difference {
            metric: Metric::Committed,
            base: None,
            other: None,
            change: None,
            meaning,
            gate: None,
        };
        let open = ComparisonVerdict::CannotTell(Uncertainty::NoFigure);
        let answer = |runs, meanings: [ComparisonVerdict; 2]| {
            ComparedSide::answer(&[ComparedSide {
                base: "a",
                name: "b",
                runs,
                differences: &meanings.map(difference),
                of_all: &[],
            }])
        };
        let (same, better) = (ComparisonVerdict::Same, ComparisonVerdict::Better);
        assert_eq!(answer([3, 3], [same, same]), "no difference is shown");
        assert_eq!(
            answer([3, 3], [same, open]),
            "no difference is shown; cannot tell for 1 of 2 metrics"
        );
        assert!(answer([3, 3], [open, better]).starts_with("against a: b is **better** in "));
        assert!(answer([3, 0], [open, open]).contains("a side has no valid run"));
        assert!(ComparedSide::answer(&[]).contains("one side alone"));
    }

    #[test]
    fn figures_of_runs_that_do_not_count_are_shown_where_there_are_no_others() {
        let figure = |value| {
            Some(Figure {
                value,
                is_lower_bound: false,
            })
        };
        let difference = |base, other| Difference {
            metric: Metric::Committed,
            base,
            other,
            change: None,
            meaning: ComparisonVerdict::CannotTell(Uncertainty::NoFigure),
            gate: None,
        };
        let (counted, all) = (
            [difference(figure(200.0), None)],
            [difference(figure(150.0), figure(635.0))],
        );
        let side = ComparedSide {
            base: "a",
            name: "b",
            runs: [3, 0],
            differences: &counted,
            of_all: &all,
        };
        let text = side.table().text();
        assert!(text.contains("200.0/s (635.0/s)"), "{text}");
        assert!(!text.contains("150"), "valid runs have the word: {text}");
    }

    #[test]
    fn an_interval_without_a_meaning_is_not_printed() {
        let of = |metric, low, high| {
            let change = Change {
                by: 0.5,
                interval: Some((low, high)),
            };
            interval_text(metric, Some(change))
        };
        let rate = Metric::Committed;
        assert_eq!(of(rate, -0.2, 0.1), "-20.0 % to +10.0 %");
        assert_eq!(of(Metric::Lost, -0.2, 0.0), "-20.0 pp to +0.0 pp");
        assert_eq!(of(rate, 2.0, 120.0), "+200.0 % to over +9,900 %");
        assert_eq!(of(rate, -0.999, 80.0), "too noisy");
        assert_eq!(of(rate, -0.3, 1.2), "too noisy");
        assert_eq!(of(rate, -0.3, 0.9), "-30.0 % to +90.0 %");
        assert_eq!(of(rate, 0.1, 1.2), "+10.0 % to +120.0 %", "a change");
        assert_eq!(
            of(rate, 2.5, 900.0),
            "+250.0 % or more",
            "the nearer end is shown"
        );
        assert_eq!(of(rate, -0.1, f64::INFINITY), "-10.0 % or more");
        assert_eq!(interval_text(rate, None), "-");
    }
}
