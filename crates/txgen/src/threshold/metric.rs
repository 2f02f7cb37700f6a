//! What a threshold is on, and its value in a summary.

use measure::Quantiles;
use serde_json::Value;

use super::schema;
use super::schema::Unit;

/// What a condition is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Metric {
    Path(Vec<String>),
    FailedShare,
}

/// A metric's value in a summary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) value: f64,
    /// The highest that it can be.
    pub(super) at_most: f64,
    /// How many observations had not ended, where they can raise it.
    pub(super) unfinished: Option<u64>,
    /// What it is at least without the generator's own lateness, where much of it may be that.
    pub(super) without_own: Option<f64>,
    /// The share that was refused, or failed in its block: it has no latency, and counts as one without end.
    pub(super) never: Option<f64>,
}

impl Measured {
    const fn exact(value: f64) -> Self {
        Self {
            value,
            at_most: value,
            unfinished: None,
            without_own: None,
            never: None,
        }
    }
}

impl Metric {
    /// The metric of this name, and its unit.
    pub(super) fn parse(text: &str) -> Option<(Self, Unit)> {
        let mut parts: Vec<String> = text.split('.').map(Into::into).collect();
        if parts.iter().any(String::is_empty) || parts.len() < 2 {
            return None;
        }
        let latency = schema::SHORT.iter().find(|(short, _)| *short == parts[0]);
        if let Some((_, latency)) = latency {
            let known = Quantiles::NAMES.contains(&parts[1].as_str()) && parts.len() == 2;
            parts = vec!["latency_ms".into(), (*latency).into(), parts.remove(1)];
            return known.then_some((Self::Path(parts), Unit::Duration(1)));
        }
        if FAILED_SHARE.contains(&text) {
            return Some((Self::FailedShare, Unit::Share));
        }
        schema::unit(&parts).map(|unit| (Self::Path(parts), unit))
    }

    /// Whether more of it is worse (`true`) or better; nothing where it is neither.
    pub(super) fn is_worse_when_more(&self) -> Option<bool> {
        let Self::Path(path) = self else {
            return Some(true);
        };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path[..] {
            ["latency_ms", _, "count" | "clamped" | "censored"] => None,
            ["latency_ms", ..] => Some(true),
            ["fate", "accepted" | "committed"] => Some(false),
            ["fate", "sent"] => None,
            ["fate", ..] | ["offered", "unsent", ..] => Some(true),
            ["rate", "accepted_tps" | "committed_tps", ..] => Some(false),
            _ => None,
        }
    }

    /// Whether a limit of it is the same for a part of a load: of a share, a latency, and of what is not to be at all.
    /// Of other numbers and of rates, each part has a share only.
    #[cfg(feature = "fleet")]
    pub(super) fn is_of_any_part(&self, limit: f64) -> bool {
        let Self::Path(path) = self else {
            return true;
        };
        let counts = ["count", "clamped", "censored"];
        limit == 0.0
            || path[0] == "latency_ms" && !path.iter().any(|key| counts.contains(&key.as_str()))
    }

    /// Its value in the summary.
    pub(super) fn measure(&self, summary: &Value) -> Option<Measured> {
        match self {
            Self::Path(path) => {
                let value = number(summary, path)?;
                let measured = censored(summary, path, value);
                let measured = Measured {
                    without_own: of_figure(summary, path, "without_own").and_then(Value::as_f64),
                    ..measured
                };
                Some(of_all_offered(summary, path, measured))
            }
            Self::FailedShare => failed_share(summary),
        }
    }

    /// Whether its value is known from blocks only.
    pub(super) fn needs_blocks(&self) -> bool {
        let Self::Path(path) = self else {
            return false;
        };
        let from_blocks = |key: &String| key == "pending" || key.starts_with("commit");
        path[0] == "blocks" || path[1..].iter().any(from_blocks)
    }
}

/// What failed for certain as a share of planned, and at most with what has not ended well.
fn failed_share(summary: &Value) -> Option<Measured> {
    let offered = |name| summary.get("offered")?.get(name)?.as_f64();
    let fate = |name| summary.get("fate")?.get(name)?.as_f64();
    let is_followed = summary.get("followed")?.as_bool()?;
    let failed = offered("unsent")? + fate("rejected")? + fate("errors")? + fate("commit_failed")?;
    let in_no_block = if is_followed { fate("pending")? } else { 0.0 };
    let open = fate("unanswered")? + fate("unverified")? + in_no_block;
    let planned = offered("planned")?.max(fate("sent")?);
    (planned > 0.0).then(|| Measured {
        at_most: (failed + open) / planned,
        unfinished: (open > 0.0).then_some(open as u64),
        ..Measured::exact(failed / planned)
    })
}

/// The same latency of everything that was offered. Its figure lies between that of the accepted and one that as many
/// more of them reach; it is without end where too few were accepted.
fn of_all_offered(summary: &Value, path: &[String], measured: Measured) -> Measured {
    let Some(share) = never_share(summary, path).filter(|share| *share > 0.0) else {
        return measured;
    };
    let known = [
        ("p50", 0.5),
        ("p68", 0.68),
        ("p95", 0.95),
        ("p99", 0.99),
        ("p99_7", 0.997),
        ("max", 1.0),
    ];
    let quantile = known
        .iter()
        .find(|(name, _)| Some(*name) == path.last().map(String::as_str));
    let wanted = quantile.map_or(f64::INFINITY, |(_, quantile)| quantile / (1.0 - share));
    let mut reached = known.iter().filter(|(_, quantile)| *quantile >= wanted);
    let at_most = reached.find_map(|(name, _)| {
        let mut path = path.to_vec();
        (*name).clone_into(path.last_mut()?);
        let value = number(summary, &path)?;
        Some(censored(summary, &path, value).at_most)
    });
    let value = match at_most {
        Some(_) => measured.value,
        None => f64::INFINITY,
    };
    Measured {
        value,
        at_most: at_most.unwrap_or(f64::INFINITY).max(measured.at_most),
        without_own: measured.without_own.filter(|_| value.is_finite()),
        never: Some(share),
        ..measured
    }
}

/// Of the answered, what was refused; of a latency up to the block, also what failed in it. Only latencies from due are
/// of everything.
fn never_share(summary: &Value, path: &[String]) -> Option<f64> {
    let fate = |name: &str| summary.get("fate")?.get(name)?.as_f64();
    let never = match path.get(1)?.as_str() {
        "accept_response" => fate("rejected")?,
        "commit_from_due" => fate("rejected")? + fate("commit_failed")?,
        _ => return None,
    };
    Some(never / fate("sent")?.max(1.0))
}

/// What one of the tables of a latency has for a figure of it.
fn of_figure<'a>(summary: &'a Value, path: &[String], table: &str) -> Option<&'a Value> {
    let (figure, of) = path.split_last()?;
    let latency = of.iter().try_fold(summary, |value, key| value.get(key))?;
    latency.get(table)?.get(figure)
}

/// A figure of a latency that observations which had not ended can raise.
fn censored(summary: &Value, path: &[String], value: f64) -> Measured {
    let exact = Measured::exact(value);
    let Some(at_most) = of_figure(summary, path, "at_least") else {
        return exact;
    };
    let of = &path[..path.len().saturating_sub(1)];
    let latency = of.iter().try_fold(summary, |value, key| value.get(key));
    let unfinished = latency.and_then(|it| it.get("censored")?.as_u64());
    Measured {
        at_most: at_most.as_f64().unwrap_or(f64::INFINITY),
        unfinished,
        ..exact
    }
}

/// The number at a path: counts by name (such as `fate.errors_by_kind`) are added up, statistics
/// (such as `rate.committed_tps`) stand for their mean. A code without a name space is that of any. Of a code that
/// did not occur there are 0, unless there were so many codes that some were counted together.
fn number(summary: &Value, path: &[String]) -> Option<f64> {
    let (last, of) = path.split_last()?;
    let of_value = of.iter().try_fold(summary, |value, key| value.get(key))?;
    if of.last().is_some_and(|key| key.contains(COUNTS_BY_NAME)) {
        let is_it = |key: &str| key == last || key.rsplit_once('/').is_some_and(|it| it.1 == last);
        let counts = of_value.as_object()?.iter();
        let counts = counts.filter(|(key, _)| is_it(key));
        let counts: Vec<f64> = counts.filter_map(|(_, count)| count.as_f64()).collect();
        let unknown = counts.is_empty() && of_value.get("other").is_some();
        return (!unknown).then(|| counts.iter().sum());
    }
    match of_value.get(last)? {
        Value::Object(fields) if last.contains(COUNTS_BY_NAME) => {
            fields.values().map(Value::as_f64).sum()
        }
        Value::Object(fields) => fields.get("mean")?.as_f64(),
        value => value.as_f64(),
    }
}

/// The share of sent that failed, and its earlier name.
pub(super) const FAILED_SHARE: [&str; 2] = ["failed.share", "rate.error"];
/// What is in the name of counts by name.
pub(super) const COUNTS_BY_NAME: &str = "_by_";
