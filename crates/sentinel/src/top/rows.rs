//! Figures as words and numbers, for the full screen and for text.

use crate::overview::{BreakFigures, ClientFigures, Overview};

/// A figure: what it is, and its value.
pub(super) type Figure = (&'static str, String);

/// The figures of this moment, in the order of the page.
pub(super) fn now(overview: &Overview) -> Vec<Figure> {
    let now = &overview.now;
    vec![
        ("in, writes/s", number(now.received_per_second)),
        ("out, writes/s", number(now.forwarded_per_second)),
        ("refused, writes/s", number(now.refused_per_second)),
        ("queue, writes", number(now.queued as f64)),
        ("queue, size", bytes(now.queued_bytes)),
        ("under way", number(now.in_flight as f64)),
        ("pace, writes/s", number(now.pace_per_second)),
        ("waiting share/s", number(now.share_per_second)),
        ("committed, txs/s", number(now.committed_per_second)),
        ("mempool, txs", number(now.mempool_txs as f64)),
        ("clients waiting", number(now.waiting_clients as f64)),
        ("clients known", number(now.known_clients as f64)),
        ("connections", number(now.connections as f64)),
        ("reads/s", number(now.reads_per_second)),
        ("buffers", bytes(now.buffered_bytes)),
        ("buffers, most", bytes(now.buffer_capacity_bytes)),
    ]
}

/// Counts since the start.
pub(super) fn totals(overview: &Overview) -> Vec<Figure> {
    let totals = &overview.totals;
    vec![
        ("writes in", number(totals.received as f64)),
        ("out", number(totals.forwarded as f64)),
        ("refused", number(totals.refused as f64)),
        ("displaced", number(totals.displaced as f64)),
        ("expired", number(totals.expired as f64)),
        ("client left", number(totals.cancelled as f64)),
        ("reads", number(totals.reads as f64)),
        ("committed", number(totals.committed as f64)),
        ("breaks", number(totals.breaks as f64)),
        ("in breaks", seconds(totals.paused_seconds)),
    ]
}

/// What all writes wait for, and what else decides.
pub(super) fn reasons(overview: &Overview) -> [String; 2] {
    let blind = match overview.now.pace_is_blind {
        true => "; the pace knows neither blocks nor the mempool",
        false => "",
    };
    [
        format!("writes wait for {}", overview.bound.text),
        format!(
            "shares are counted in {}; break controller: {}{blind}",
            overview.counted_in, overview.controller
        ),
    ]
}

pub(super) const CLIENT_HEADS: [&str; 7] = [
    "client",
    "waiting",
    "out/s",
    "share/s",
    "connections",
    "out",
    "refused",
];

pub(super) fn client(one: &ClientFigures) -> [String; 7] {
    let client = &one.client;
    [
        client.client.clone(),
        number(client.queued as f64),
        one.forwarded_per_second.map_or("–".to_owned(), number),
        number(client.share_per_second),
        number(client.connections as f64),
        number(client.dispatched as f64),
        number(client.refused as f64),
    ]
}

/// A break in one line; `now` is the time since the start.
pub(super) fn one_break(one: &BreakFigures, now: f64) -> String {
    let gain = one.gain.map_or("gain not measured".to_owned(), |gain| {
        format!("gain {:+.1} %", gain * 100.0)
    });
    let (ago, paused) = (
        seconds((now - one.at_seconds).round()),
        seconds(one.paused_seconds),
    );
    format!("{ago} ago ({}): no writes for {paused}, {gain}", one.cause)
}

/// With a digit after the point below 100, in groups of three digits above.
pub(super) fn number(value: f64) -> String {
    match value.abs() < 100.0 {
        true => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        false => report::text::count(value),
    }
}

fn bytes(value: usize) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit = units.into_iter().find(|(size, _)| value >= *size);
    let (size, unit) = unit.unwrap_or((1, "B"));
    format!("{} {unit}", number(value as f64 / size as f64))
}

pub(super) fn seconds(value: f64) -> String {
    let whole = value as u64;
    match whole {
        0..60 => format!("{} s", number(value)),
        60..3_600 => format!("{} min", whole / 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

/// Which sentinel it is, and whether it serves.
pub(super) fn head(overview: &Overview) -> String {
    let gate = match overview.ready {
        true => overview.gate.as_str(),
        false => "not ready",
    };
    let why = match overview.why.as_str() {
        "running" => String::new(),
        why => format!(" ({why})"),
    };
    format!(
        "gate {gate}{why}, version {}, up {}",
        overview.version,
        seconds(overview.uptime_seconds)
    )
}

/// The state of each node in one line.
pub(super) fn nodes(overview: &Overview) -> impl Iterator<Item = String> {
    overview.nodes.iter().map(|node| {
        let height = node
            .height
            .map_or(String::new(), |height| format!(", height {height}"));
        format!("{} {}{height}", node.url, node.state())
    })
}
