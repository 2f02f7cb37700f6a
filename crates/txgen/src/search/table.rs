//! The end of a search as a person reads it.

use report::{Columns, Entries, Table, text};

use super::account::{Account, PointRow};
use super::words::{answer, drift_words, test_rows};
use crate::output::recorded;

/// Every point by rate, and the knee.
pub(super) fn table(account: &Account) -> String {
    let mut entries = Entries::default();
    entries.add("knee", answer(account).as_deref().unwrap_or("cannot tell"));
    entries.add("", &*account.reason);
    for (name, row) in test_rows(account) {
        entries.add(name, row);
    }
    if let Some(drift) = &account.drift {
        entries.add("drift", drift_words(drift));
    }
    let mut text = points(account).table().text();
    if let Some(resolution) = resolution(account) {
        text += &format!("  {resolution}\n");
    }
    text + &entries.text()
}

/// How exactly commits were seen in the last point whose blocks were not announced.
pub(super) fn resolution(account: &Account) -> Option<&str> {
    let mut latest = account.points.iter().rev();
    latest.find_map(|point| point.commit_resolution.as_deref())
}

/// The points by rate, one in a row.
pub(super) fn points(account: &Account) -> Columns<&PointRow> {
    let mut points: Vec<&PointRow> = account.points.iter().collect();
    points.sort_by(|one, other| one.rate_tps.total_cmp(&other.rate_tps));
    Table::of(points)
        .figure("point", |point| point.number.to_string())
        .not_on_phones()
        .number("offered", text::rate, |point| point.rate_tps)
        .link(|point| Some(format!("{}/{}", point.folder, recorded::FILE)))
        .text("finding", |point| point.finding)
        .number("lost", text::percent_tenths, |point| point.lost_share)
        .rest()
        .number("growth", text::percent_tenths, |point| point.growth_share)
        .rest()
        .number("committed", text::rate, |point| point.committed_tps)
        .number("commit p50", text::millis, |point| point.commit_p50_ms)
        .rest()
        .number("p95", text::millis, |point| point.commit_p95_ms)
        .rest()
        .number("p99", text::millis, |point| point.commit_p99_ms)
        .text("why not", |point| point.reasons.join("; "))
        .on_page_if(true)
}

/// What a point showed, for the line that is printed when it ends.
pub(super) fn finding_line(point: &PointRow) -> String {
    let committed = point
        .committed_tps
        .map_or(String::new(), |rate| format!(", {rate:.0}/s committed"));
    let latency = text::figure(point.commit_p95_ms, text::whole)
        .map_or(String::new(), |p95| format!(", commit p95 {p95} ms"));
    let why = match point.reasons.join("; ") {
        reasons if reasons.is_empty() => String::new(),
        reasons => format!(": {reasons}"),
    };
    format!("      {}{committed}{latency}{why}", point.finding)
}
