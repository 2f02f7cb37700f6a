//! `report.html` of a search: the curve, and every point.

use report::chart::{Axis, Chart, Tone, Unit};
use report::{Cell, Page, Table, text};

use super::account::{Account, KneeRow, PointRow};

pub(super) fn page(account: &Account) -> String {
    let title = format!("txgen {}: {}", account.kind, account.target);
    let mut page = Page::new(&title);
    page.headline(&text::escape(&headline(account)));
    page.paragraph(&format!(
        "A rate counts as sustained when at most {} is lost and the backlog grows by at most {} of the rate{}.",
        text::percent(account.limits.lost_share),
        text::percent(account.limits.growth_share),
        match account.limits.slo.join(", ") {
            limits if limits.is_empty() => String::new(),
            limits => format!(", and with {limits}"),
        }
    ));
    let mut points: Vec<&PointRow> = account.points.iter().collect();
    points.sort_by(|one, other| one.rate_tps.total_cmp(&other.rate_tps));
    page.push(&Page::grid([
        throughput(account, &points),
        latency(account, &points),
        strain(account, &points),
        order(account),
    ]));
    page.section("Points", &table(&points));
    page.paragraph(&format!(
        "{} points in {}, begun {}.",
        points.len(),
        text::seconds(account.took_s),
        account.started
    ));
    page.html()
}

fn headline(account: &Account) -> String {
    match &account.knee {
        Some(knee) => format!(
            "The target sustained {} ({} to {} with {} confidence): {}.",
            text::rate(knee.rate_tps),
            text::rate(knee.low_tps),
            text::rate(knee.high_tps),
            text::percent(knee.confidence),
            account.reason
        ),
        None => format!("No knee was found: {}.", account.reason),
    }
}

fn rates() -> Axis {
    Axis::linear("offered", Unit::PerSecond)
}

/// Committed against offered, with the line of a target that keeps up.
fn throughput(account: &Account, points: &[&PointRow]) -> String {
    let top = points
        .iter()
        .map(|point| point.rate_tps)
        .fold(0.0, f64::max);
    let committed = |finding: &'static str| {
        points
            .iter()
            .filter(move |point| point.finding == finding)
            .filter_map(|point| Some((point.rate_tps, point.committed_tps.or(point.accepted_tps)?)))
    };
    let chart = Chart::new(
        "Committed against offered",
        rates(),
        Axis::linear("committed", Unit::PerSecond),
    )
    .note("Below the dashed line the target does not keep up.")
    .line("kept up", Tone::Plan, [(0.0, 0.0), (top, top)])
    .dots("sustained", Tone::P50, committed("held"))
    .dots("not sustained", Tone::Bad, committed("broken"));
    with_knee(chart, account.knee.as_ref()).tall().html()
}

fn latency(account: &Account, points: &[&PointRow]) -> String {
    let of = |value: fn(&PointRow) -> Option<f64>| {
        points
            .iter()
            .filter_map(move |point| Some((point.rate_tps, value(point)?)))
    };
    let chart = Chart::new(
        "Commit latency against offered",
        rates(),
        Axis::log("from due", Unit::Millis),
    )
    .dots("median", Tone::P50, of(|point| point.commit_p50_ms))
    .dots("95 %", Tone::P95, of(|point| point.commit_p95_ms))
    .dots("99 %", Tone::P99, of(|point| point.commit_p99_ms));
    with_knee(chart, account.knee.as_ref()).html()
}

/// What the findings rest on.
fn strain(account: &Account, points: &[&PointRow]) -> String {
    let growth = points
        .iter()
        .filter_map(|point| Some((point.rate_tps, point.growth_share?.max(0.0))));
    let spread = points.iter().filter_map(|point| {
        let (growth, error) = (point.growth_share?, point.growth_error?);
        let low = (growth - 2.0 * error).max(0.0);
        Some((point.rate_tps, low, (growth + 2.0 * error).max(0.0)))
    });
    let lost = points
        .iter()
        .map(|point| (point.rate_tps, point.lost_share));
    let chart = Chart::new(
        "Lost, and growth of the backlog",
        rates(),
        Axis::linear("share of offered", Unit::Share),
    )
    .note("Strokes are two standard errors of the growth.")
    .ranges("its error", Tone::Depth, spread)
    .dots("growth", Tone::Depth, growth)
    .dots("lost", Tone::Bad, lost)
    .level(account.limits.growth_share, "limit");
    with_knee(chart, account.knee.as_ref()).html()
}

/// The rates in the order in which they were tried.
fn order(account: &Account) -> String {
    let tried = |finding: &'static str| {
        account
            .points
            .iter()
            .filter(move |point| point.finding == finding)
            .map(|point| (point.number as f64, point.rate_tps))
    };
    let all = account
        .points
        .iter()
        .map(|point| (point.number as f64, point.rate_tps));
    let chart = Chart::new(
        "How it was found",
        Axis::linear("point", Unit::Number),
        Axis::linear("offered", Unit::PerSecond),
    )
    .line("tried", Tone::Plan, all)
    .dots("sustained", Tone::P50, tried("held"))
    .dots("not sustained", Tone::Bad, tried("broken"))
    .dots("not usable", Tone::Depth, tried("unusable"));
    match &account.knee {
        Some(knee) => chart.level(knee.rate_tps, "knee").html(),
        None => chart.html(),
    }
}

fn with_knee(chart: Chart, knee: Option<&KneeRow>) -> Chart {
    match knee {
        Some(knee) => chart.mark(knee.rate_tps, "knee"),
        None => chart,
    }
}

fn table(points: &[&PointRow]) -> String {
    let mut table = Table::new([
        "point",
        "offered",
        "finding",
        "committed",
        "lost",
        "growth",
        "commit p50",
        "p95",
        "p99",
        "why not",
        "run folder",
    ]);
    for point in points {
        let finding = match point.finding {
            "held" => Cell::text("sustained"),
            "broken" => Cell::text("not sustained"),
            other => Cell::text(other),
        };
        table.row([
            Cell::figure(point.number.to_string()),
            Cell::figure(text::rate(point.rate_tps)),
            finding,
            Cell::figure(text::or_dash(point.committed_tps, text::rate)),
            Cell::figure(text::percent(point.lost_share)),
            Cell::figure(text::or_dash(point.growth_share, text::percent)),
            Cell::figure(text::or_dash(point.commit_p50_ms, text::millis)),
            Cell::figure(text::or_dash(point.commit_p95_ms, text::millis)),
            Cell::figure(text::or_dash(point.commit_p99_ms, text::millis)),
            Cell::text(point.reasons.join("; ")),
            Cell::text(point.folder.clone()),
        ]);
    }
    table.html()
}
