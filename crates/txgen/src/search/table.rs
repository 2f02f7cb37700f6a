//! The end of a search as a person reads it.

use std::fmt::Write as _;

use super::account::{Account, PointRow};
use crate::report::grouped;

/// Every point by rate, and the knee.
pub(super) fn table(account: &Account) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<6}{:>10}  {:<9}{:>8}{:>10}{:>11}{:>12}{:>12}  why not",
        "point", "rate/s", "finding", "lost %", "growth %", "commit/s", "commit p50", "commit p95"
    );
    let mut points: Vec<&PointRow> = account.points.iter().collect();
    points.sort_by(|one, other| one.rate_tps.total_cmp(&other.rate_tps));
    for point in points {
        let _ = writeln!(text, "{}", row(point));
    }
    let knee = match &account.knee {
        Some(knee) => format!(
            "{}/s, {} to {} with {:.0} % confidence",
            whole(knee.rate_tps),
            whole(knee.low_tps),
            whole(knee.high_tps),
            knee.confidence * 100.0
        ),
        None => "not found".into(),
    };
    let _ = writeln!(text, "{:<13}{knee}", "knee");
    let _ = writeln!(text, "{:<13}{}", "", account.reason);
    text
}

/// One point in one line.
fn row(point: &PointRow) -> String {
    let percent =
        |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1}", share * 100.0));
    let plain = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    let line = format!(
        "{:<6}{:>10.1}  {:<9}{:>8}{:>10}{:>11}{:>12}{:>12}  {}",
        point.number,
        point.rate_tps,
        point.finding,
        percent(Some(point.lost_share)),
        percent(point.growth_share),
        plain(point.committed_tps),
        plain(point.commit_p50_ms),
        plain(point.commit_p95_ms),
        point.reasons.join("; ")
    );
    line.trim_end().into()
}

/// What a point showed, for the line that is printed when it ends.
pub(super) fn finding_line(point: &PointRow) -> String {
    let committed = point
        .committed_tps
        .map_or(String::new(), |rate| format!(", {rate:.0}/s committed"));
    let latency = point
        .commit_p95_ms
        .map_or(String::new(), |p95| format!(", commit p95 {p95:.0} ms"));
    let why = match point.reasons.join("; ") {
        reasons if reasons.is_empty() => String::new(),
        reasons => format!(": {reasons}"),
    };
    format!("      {}{committed}{latency}{why}", point.finding)
}

fn whole(rate: f64) -> String {
    if rate < 10.0 {
        return format!("{rate:.1}");
    }
    grouped(rate.round() as u64)
}
