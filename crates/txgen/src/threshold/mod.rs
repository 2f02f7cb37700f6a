//! Conditions on `summary.json`: `commit.p99<5s`, `failed.share<0.5%`, `fate.errors==0`.

mod schema;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// One condition, checked when the run has ended.
///
/// The left side is a path into `summary.json` or a short name: `lateness.X`, `accept.X` (response
/// time), `service.X`, `commit.X` (from due) for the latencies with `X` one of `p50 p68 p95 p99 p99_7
/// max mean`, and `failed.share` (rejected, failed and unanswered as a share of sent; `rate.error` is its
/// earlier name and means the same). The right side is a number, a duration for latencies (`5s`, `250ms`, `80us`) or a percentage.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    metric: Metric,
    comparison: Comparison,
    limit: f64,
}

/// What a threshold came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The condition as it was written.
    pub text: String,
    /// The measured value in the unit of `summary.json`; `None` when the run has none.
    pub value: Option<f64>,
    /// Whether the condition held. A missing value never holds.
    pub held: bool,
}

impl Verdict {
    /// The value in words.
    #[must_use]
    pub fn value_text(&self) -> String {
        match self.value {
            None => "no value".into(),
            Some(value) if value.fract() == 0.0 => format!("{value}"),
            Some(value) => format!("{value:.3}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Metric {
    Path(Vec<String>),
    FailedShare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Threshold {
    /// Checks the condition on a `summary.json` document.
    #[must_use]
    pub fn check(&self, summary: &Value) -> Verdict {
        let value = self.metric.value(summary);
        Verdict {
            text: self.text.clone(),
            value,
            held: value.is_some_and(|value| self.comparison.holds(value, self.limit)),
        }
    }
}

impl Metric {
    fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<String> = text.split('.').map(Into::into).collect();
        if parts.iter().any(String::is_empty) || parts.len() < 2 {
            return None;
        }
        let latency = schema::SHORT.iter().find(|(short, _)| *short == parts[0]);
        if let Some((_, latency)) = latency {
            let known = QUANTILES.contains(&parts[1].as_str()) && parts.len() == 2;
            return known.then(|| {
                Self::Path(vec![
                    "latency_ms".into(),
                    (*latency).into(),
                    parts.remove(1),
                ])
            });
        }
        if FAILED_SHARE.contains(&text) {
            return Some(Self::FailedShare);
        }
        schema::is_known(&parts).then_some(Self::Path(parts))
    }

    fn value(&self, summary: &Value) -> Option<f64> {
        match self {
            Self::Path(path) => number(summary, path),
            Self::FailedShare => {
                let count = |name: &str| summary.get("fate")?.get(name)?.as_f64();
                let sent = count("sent")?;
                let lost = count("rejected")? + count("errors")? + count("unanswered")?;
                (sent > 0.0).then(|| lost / sent)
            }
        }
    }
}

/// The share of sent that failed, and its earlier name.
const FAILED_SHARE: [&str; 2] = ["failed.share", "rate.error"];
/// What is in the name of counts by name.
const COUNTS_BY_NAME: &str = "_by_";

/// The number at a path: counts by name (such as `fate.errors_by_kind`) are added up, statistics
/// (such as `rate.committed_tps`) stand for their mean.
fn number(summary: &Value, path: &[String]) -> Option<f64> {
    let value = path.iter().try_fold(summary, |value, key| value.get(key))?;
    match value {
        Value::Object(fields) if path.last()?.contains(COUNTS_BY_NAME) => {
            fields.values().map(Value::as_f64).sum()
        }
        Value::Object(fields) => fields.get("mean")?.as_f64(),
        value => value.as_f64(),
    }
}

impl Comparison {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
            Self::Greater => value > limit,
            Self::GreaterOrEqual => value >= limit,
            Self::Equal => (value - limit).abs() < f64::EPSILON,
            Self::NotEqual => (value - limit).abs() >= f64::EPSILON,
        }
    }

    /// Two-character signs first, so that `<=` is not read as `<`.
    const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (metric, comparison, limit) = Comparison::ALL
            .into_iter()
            .find_map(|(sign, comparison)| {
                let (metric, limit) = text.split_once(sign)?;
                Some((metric.trim(), comparison, limit.trim()))
            })
            .ok_or_else(|| {
                format!("no comparison in {text:?}; write for instance commit.p99<5s")
            })?;
        let metric = Metric::parse(metric)
            .ok_or_else(|| format!("unknown metric {metric:?}; {}", hint(&schema::near(metric))))?;
        let limit = parse_limit(limit).ok_or_else(|| {
            format!(
                "cannot read the limit {limit:?}; use a number, a duration (5s, 250ms) or a percentage (0.5%)"
            )
        })?;
        Ok(Self {
            text: text.into(),
            metric,
            comparison,
            limit,
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The near metrics, or where to look for one.
fn hint(near: &[String]) -> String {
    match near {
        [] => {
            "use commit.p99, accept.p95, service.p50, lateness.max, failed.share, or a path into \
               summary.json such as fate.errors"
                .into()
        }
        [one] => format!("did you mean {one}?"),
        [most @ .., last] => format!("did you mean {} or {last}?", most.join(", ")),
    }
}

/// Durations become milliseconds, the unit of every latency in the summary; percentages fractions.
fn parse_limit(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [
        ("%", 0.01),
        ("ns", 1e-6),
        ("us", 1e-3),
        ("ms", 1.0),
        ("s", 1e3),
        ("m", 60e3),
    ];
    let (digits, factor) = UNITS
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .unwrap_or((text, 1.0));
    let number: f64 = digits.trim().parse().ok()?;
    number.is_finite().then_some(number * factor)
}

const QUANTILES: [&str; 7] = ["p50", "p68", "p95", "p99", "p99_7", "max", "mean"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str) -> Verdict {
        let summary = json!({
            "fate": {"sent": 1000, "rejected": 2, "errors": 1, "unanswered": 1,
                "errors_by_kind": {"closed": 1, "timeout": 0}},
            "rate": {"committed_tps": {"mean": 300.0, "median": 310.0, "stddev": 50.0, "max": 500.0}},
            "latency_ms": {"commit_from_due": {"p99": 4200.0}, "lateness": {"max": 0.2}},
        });
        text.parse::<Threshold>().unwrap().check(&summary)
    }

    #[test]
    fn conditions_hold_or_break() {
        assert!(check("commit.p99<5s").held);
        assert!(!check("commit.p99 < 4s").held);
        assert!(check("lateness.max<=200us").held);
        for failed in ["failed.share<0.5%", "rate.error<0.5%"] {
            assert_eq!(check(failed).value, Some(0.004));
            assert!(check(failed).held);
        }
        assert!(!check("fate.errors==0").held);
        assert_eq!(check("fate.errors_by_kind<2").value, Some(1.0));
        assert_eq!(check("rate.committed_tps>=1000").value, Some(300.0));
        assert!(check("fate.sent>=1000").held);
    }

    #[test]
    fn a_missing_value_never_holds() {
        let verdict = check("blocks.count>=0");
        assert_eq!((verdict.value, verdict.held), (None, false));
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text: &str| text.parse::<Threshold>().unwrap_err();
        assert!(error("commit.p99").contains("no comparison"));
        assert!(error("commit.p98<1s").contains("unknown metric \"commit.p98\""));
        assert!(error("weather.max<1").contains("unknown metric"));
        assert!(error("fate.eror==0").contains("unknown metric"));
        assert!(error("commit.p98<1s").contains("did you mean commit.p"));
        let near = error("fate.eror==0");
        assert!(
            near.contains("did you mean") && near.contains("fate.errors"),
            "{near}"
        );
        assert!(error("comit.p99<1").contains("did you mean commit.p99"));
        assert!(error("commited_tps>1").contains("rate.committed_tps"));
        assert!(error("weather.rain<1").contains("a path into summary.json"));
        // A text is no metric.
        assert!(error("verdict.schedule==0").contains("unknown metric"));
        assert!(error("commit.p99<soon").contains("cannot read the limit \"soon\""));
    }
}
