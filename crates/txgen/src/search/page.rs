//! What people read of a search: `report.html` with the curve and every point, and the table at its end.

use measure::LatencyFigure;
use measure::limits::GROWTH_CONFIDENCE;
use report::chart::{Axis, Chart, Tone, Unit};
use report::{Columns, Entries, Page, Table, text};

use super::account::{Account, PointRow};
use super::words::{answer, drift_words, test_rows};
use crate::output::recorded;

pub(super) fn page(account: &Account) -> String {
    let mut page = Page::new("txgen search");
    page.headline(&headline(account));
    for (test, shown) in test_rows(account) {
        page.paragraph(&format!("Test ({test}): {shown}."));
    }
    if let Some(drift) = &account.drift {
        page.paragraph(&format!("Drift: {}.", drift_words(drift)));
    }
    page.paragraph(&format!("Target: {}.", account.target));
    page.paragraph(&format!(
        "A rate is held when at most {} is lost and the backlog grows by at most {} of the rate{}.",
        text::percent(account.limits.lost_share),
        text::percent(account.limits.growth_share),
        match account.limits.slo.join(", ") {
            limits if limits.is_empty() => String::new(),
            limits => format!(", and with {limits}"),
        }
    ));
    if account.points.iter().any(|point| point.verdict != "valid") {
        page.links(&[report::busy_machine_link()]);
    }
    let charts = [
        throughput(account),
        latency(account),
        strain(account),
        order(account),
    ];
    page.section("The knee", &Page::grid(charts));
    page.section("Points", &points(account).table().html());
    if let Some(resolution) = resolution(account) {
        page.paragraph(&format!("{resolution}."));
    }
    page.paragraph(&format!(
        "{} in {}, begun {}.",
        match account.points.len() {
            1 => "1 point".to_owned(),
            points => format!("{points} points"),
        },
        text::seconds(account.took_s),
        text::utc(&account.started)
    ));
    page.html()
}

/// Where the knee is, and why the search is over.
fn headline(account: &Account) -> String {
    match answer(account) {
        Some(knee) => format!("The knee: **{knee}**: {}.", account.reason),
        None => format!("{}.", account.reason),
    }
}

/// A chart over the rates that were offered, with the knee.
fn over_rates(account: &Account, title: &str, y: Axis) -> Chart {
    let chart = Chart::new(
        title,
        Axis::linear("offered per second", Unit::PerSecond),
        y,
    );
    match &account.knee {
        Some(knee) => chart
            .shade(knee.low_tps, knee.high_tps, "interval")
            .mark(knee.rate_tps, "knee"),
        None => chart,
    }
}

/// Where a rate above the interval held, why the interval does not hold it.
fn held_beyond(account: &Account) -> Option<String> {
    let high = account.knee.as_ref()?.high_tps;
    let held = account.points.iter().filter(|it| it.finding == "held");
    let beyond = held.filter(|point| point.rate_tps > high);
    let highest = beyond.map(|point| point.rate_tps).reduce(f64::max)?;
    Some(format!(
        "{} held, above the interval: later points at lower rates did not, so that the target or the machine changed, \
         or a point was chance.",
        text::rate(highest)
    ))
}

/// Committed against offered, with the line of a target that keeps up.
fn throughput(account: &Account) -> String {
    let points = &account.points;
    let rates = points.iter().map(|point| point.rate_tps);
    let top = rates.fold(0.0, f64::max);
    let committed = |finding: &'static str| {
        let found = points.iter().filter(move |point| point.finding == finding);
        found
            .filter_map(|point| Some((point.rate_tps, point.committed_tps.or(point.accepted_tps)?)))
    };
    let axis = Axis::linear("committed per second", Unit::PerSecond);
    over_rates(account, "Committed against offered", axis)
        .note(&format!(
            "Below the band the target does not keep up. {}",
            held_beyond(account).unwrap_or_default()
        ))
        .line(
            "all that was offered",
            Tone::Offered,
            [(0.0, 0.0), (top, top)],
        )
        // A finding lies above what was undecided at its rate.
        .dots("undecided", Tone::Plan, committed("undecided"))
        .dots("starved", Tone::Depth, committed("starved"))
        .dots("held", Tone::P50, committed("held"))
        .dots("broken", Tone::Bad, committed("broken"))
        .tall()
        .html()
}

fn latency(account: &Account) -> String {
    let of = |value: fn(&PointRow) -> Option<LatencyFigure>| {
        let points = account.points.iter();
        points.filter_map(move |point| Some((point.rate_tps, value(point)?.millis)))
    };
    let axis = Axis::log("from due", Unit::Millis);
    over_rates(account, "Commit latency against offered", axis)
        .dots("median", Tone::P50, of(|point| point.commit_p50_ms))
        .dots("95 %", Tone::P95, of(|point| point.commit_p95_ms))
        .dots("99 %", Tone::P99, of(|point| point.commit_p99_ms))
        .html()
}

/// What the findings rest on.
fn strain(account: &Account) -> String {
    let points = || account.points.iter();
    let growth = points().filter_map(|point| Some((point.rate_tps, point.growth_share?.max(0.0))));
    let spread = points().filter_map(|point| {
        let (growth, margin) = (point.growth_share?, point.growth_margin?);
        let low = (growth - margin).max(0.0);
        Some((point.rate_tps, low, (growth + margin).max(0.0)))
    });
    let lost = points().map(|point| (point.rate_tps, point.lost_share));
    let axis = Axis::linear("share of offered", Unit::Share);
    over_rates(account, "Lost, and growth of the backlog", axis)
        .note(&format!(
            "Each stroke holds the growth with {} confidence.",
            text::percent(GROWTH_CONFIDENCE)
        ))
        .ranges("its interval", Tone::Depth, spread)
        .dots("growth", Tone::Depth, growth)
        .dots("lost", Tone::Bad, lost)
        .level(account.limits.growth_share, "limit")
        .html()
}

/// The rates in the order in which they were tried.
fn order(account: &Account) -> String {
    let tried = |finding: Option<&'static str>| {
        let points = account.points.iter();
        let tried = points.filter(move |point| finding.is_none_or(|it| it == point.finding));
        tried.map(|point| (point.begun_s, point.rate_tps))
    };
    let time = Axis::linear("time since the search began", Unit::Time);
    let offered = Axis::linear("offered per second", Unit::PerSecond);
    let chart = Chart::new("How it was found", time, offered)
        .line("tried", Tone::Plan, tried(None))
        .dots("held", Tone::P50, tried(Some("held")))
        .dots("broken", Tone::Bad, tried(Some("broken")))
        .dots("undecided", Tone::Plan, tried(Some("undecided")))
        .dots("starved", Tone::Depth, tried(Some("starved")))
        .dots("unusable", Tone::Depth, tried(Some("unusable")));
    match &account.knee {
        Some(knee) => chart.level(knee.rate_tps, "knee").html(),
        None => chart.html(),
    }
}

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
