//! What differs between the sides, and by how much.

use measure::{Change, ValueDifference, Values, compare_values};
use report::text::{number, percent_tenths};
use report::{Page, Table, verdict_name, verdict_words};
use serde_json::json;

use super::{MeshSummary, Side};

/// A figure that is compared.
pub(super) struct Metric {
    name: &'static str,
    is_gain: bool,
    pub(super) of: fn(&MeshSummary) -> Option<f64>,
}

impl Metric {
    /// More is better.
    const fn gain(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Self {
        let is_gain = true;
        Self { name, is_gain, of }
    }

    /// Less is better.
    const fn cost(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Self {
        let is_gain = false;
        Self { name, is_gain, of }
    }
}

/// What was found.
pub(super) struct Comparison<'a> {
    sides: &'a [Side],
    /// For each of the other sides.
    pub(super) others: Vec<Vec<ValueDifference>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn of(sides: &'a [Side], margin: f64) -> Self {
        let others = sides.iter().skip(1).map(|other| {
            let values = METRICS.iter().map(|metric| Values {
                base: sides[0].values(metric),
                other: other.values(metric),
                is_gain: metric.is_gain,
            });
            compare_values(&values.collect::<Vec<_>>(), margin)
        });
        Self {
            sides,
            others: others.collect(),
        }
    }

    /// A heading and a table for each of the other sides; the means alone when there is none.
    fn tables(&self) -> Vec<(String, Table)> {
        let base = &self.sides[0];
        if self.others.is_empty() {
            return vec![(base.name.clone(), means(base))];
        }
        let others = self.sides.iter().skip(1).zip(&self.others);
        others
            .map(|(side, differences)| {
                let heading = format!(
                    "{} against {} ({} against {} runs)",
                    side.name,
                    base.name,
                    side.valid().count(),
                    base.valid().count()
                );
                (heading, table(differences))
            })
            .collect()
    }

    /// Runs in which something gave: their rates are what the mesh could do, the others' what was
    /// asked of it. And how many do not count.
    pub(super) fn remarks(&self) -> Vec<String> {
        let left_out = |side: &Side| {
            let count = side.left_out();
            (count > 0).then(|| {
                format!(
                    "{}: {count} of {} runs are invalid and left out: the load was not the planned one, or other \
                     programs had the CPUs",
                    side.name,
                    side.runs.len()
                )
            })
        };
        let remark = |side: &Side| {
            let runs = side.valid();
            let gave = runs.filter_map(|run| run.verdict.gave_first.as_ref());
            let first = gave.clone().next()?;
            Some(format!(
                "{}: not sustained in {} of {} runs; {}",
                side.name,
                gave.count(),
                side.valid().count(),
                first.sentence
            ))
        };
        let sides = || self.sides.iter();
        let left_out = sides().filter_map(left_out);
        left_out.chain(sides().filter_map(remark)).collect()
    }

    pub(super) fn text(&self) -> String {
        let tables = self.tables().into_iter();
        let tables: String = tables
            .map(|(heading, table)| format!("\n{heading}\n{}", table.text()))
            .collect();
        let remarks: String = self
            .remarks()
            .iter()
            .map(|remark| format!("{remark}\n"))
            .collect();
        format!("{tables}\n{remarks}")
    }

    pub(super) fn page(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let mut page = Page::new(&format!("Mesh: {}", names.join(", ")));
        for remark in self.remarks() {
            page.paragraph(&remark);
        }
        for (heading, table) in self.tables() {
            page.section(&heading, &table.html());
        }
        let links: Vec<(String, String)> = self
            .sides
            .iter()
            .flat_map(|side| (1..=side.runs.len()).map(move |run| format!("{}-{run}", side.name)))
            .map(|name| (format!("{}/report.html", name.replace('+', "-")), name))
            .collect();
        page.links(&links);
        page.html()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let sides: Vec<_> = self
            .sides
            .iter()
            .map(|side| {
                let figures: serde_json::Map<String, serde_json::Value> = METRICS
                    .iter()
                    .map(|metric| (metric.name.to_owned(), json!(side.values(metric))))
                    .collect();
                json!({
                    "name": side.name,
                    "runs": side.valid().count(),
                    "left_out": side.left_out(),
                    "figures": figures,
                })
            })
            .collect();
        let differences: Vec<_> = self
            .sides
            .iter()
            .skip(1)
            .zip(&self.others)
            .flat_map(|(side, differences)| {
                METRICS.iter().zip(differences).map(|(metric, it)| {
                    let interval = it.change.and_then(|change| change.interval);
                    json!({
                        "side": side.name,
                        "metric": metric.name,
                        "before": it.base,
                        "after": it.other,
                        "change": it.change.map(|change| change.by),
                        "low": interval.map(|(low, _)| low),
                        "high": interval.map(|(_, high)| high),
                        "meaning": verdict_name(it.meaning),
                    })
                })
            })
            .collect();
        json!({
            "format": "tidegate.mesh-compare/1",
            "sides": sides,
            "differences": differences,
            "remarks": self.remarks(),
        })
    }
}

fn means(side: &Side) -> Table {
    let mean = |metric: &Metric| {
        let values = side.values(metric);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Table::of(&METRICS)
        .text("figure", |it| it.name)
        .number("mean", number, |it| mean(it))
        .table()
}

fn table(differences: &[ValueDifference]) -> Table {
    Table::of(METRICS.iter().zip(differences))
        .text("figure", |(metric, _)| metric.name)
        .number("before", number, |(_, it)| it.base)
        .number("after", number, |(_, it)| it.other)
        .figure("change", |(_, it)| match it.change {
            Some(change) => signed(change.by),
            None => "-".into(),
        })
        .figure("interval", |(_, it)| interval(it.change))
        .text("", |(_, it)| verdict_words(it.meaning))
        .table()
}

/// Beyond a factor of a hundred a change is no figure any more.
fn signed(change: f64) -> String {
    if change > 99.0 {
        return "over +9,900 %".to_owned();
    }
    let sign = if change < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent_tenths(change.abs()))
}

fn interval(change: Option<Change>) -> String {
    match change.and_then(|change| change.interval) {
        Some((low, high)) if 1.0 + high > MAX_SPAN * (1.0 + low) => match low > 0.0 {
            true => format!("{} or more", signed(low)),
            false => "runs differ too much".into(),
        },
        Some((low, high)) => format!("{} to {}", signed(low), signed(high)),
        None => "-".into(),
    }
}

/// From the lower to the upper end of an interval, as a factor: a wider one says nothing.
const MAX_SPAN: f64 = 100.0;

const METRICS: [Metric; 11] = [
    Metric::gain("EPS host", |it| Some(it.figures.eps_host)),
    Metric::gain("EPS of the slowest node", |it| Some(it.figures.eps_least)),
    Metric::gain("EPS sum", |it| Some(it.figures.eps_sum)),
    Metric::cost("bytes per message", |it| it.figures.bytes_per_message),
    Metric::cost("parcels per message", |it| it.figures.parcels_per_message),
    Metric::cost("bytes per parcel", |it| it.figures.bytes_per_parcel),
    Metric::cost("overhead per parcel, bytes", |it| {
        it.figures.overhead_per_parcel
    }),
    Metric::cost("duplicates, share", |it| it.figures.duplicate_share),
    Metric::cost("CPU ms per 1,000 parcels", |it| {
        it.figures.cpu_ms_per_1000_parcels
    }),
    Metric::cost("latency p50, ms", |it| it.latency_ms.p50),
    Metric::cost("latency p99, ms", |it| it.latency_ms.p99),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_is_not_printed_as_if_it_did() {
        let of = |low, high| {
            interval(Some(Change {
                by: 0.5,
                interval: Some((low, high)),
            }))
        };
        assert_eq!(of(-0.2, 0.1), "-20.0 % to +10.0 %");
        assert_eq!(of(2.0, 120.0), "+200.0 % to over +9,900 %");
        assert_eq!(of(-0.999, 80.0), "runs differ too much");
        assert_eq!(
            of(2.5, 900.0),
            "+250.0 % or more",
            "the nearer end is shown"
        );
        assert_eq!(interval(None), "-");
    }
}
