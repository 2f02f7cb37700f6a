//! The figures as text, for a pipe and for `--once`.

use report::Table;
use report::text::fit;

use super::rows::{self, CLIENT_HEADS, Figure};
use crate::overview::Overview;

/// Everything, in lines no wider than a terminal; it ends with an empty one.
pub(super) fn of(overview: &Overview) -> String {
    let line = |line: String| printable(&line) + "\n";
    let mut text = line(format!("sentinel: {}", rows::head(overview)));
    text.extend(rows::reasons(overview).map(line));
    text += &figures(&rows::now(overview)).text();
    text += "since the start\n";
    text += &figures(&rows::totals(overview)).text();
    if !overview.clients.is_empty() {
        text += &clients(overview).text();
    }
    let breaks = overview.breaks.iter();
    let breaks = breaks.map(|one| rows::one_break(one, overview.uptime_seconds));
    text.extend(breaks.map(|one| line(format!("break {one}"))));
    text.extend(rows::nodes(overview).map(|node| line(format!("node {node}"))));
    let events = overview.events.iter().map(|event| {
        let ago = rows::seconds(event.ago_seconds);
        format!("{ago:>9} ago {:<5} {}", event.level, event.text)
    });
    text.extend(events.map(line));
    fit(&text) + "\n"
}

/// Two in a line.
fn figures(figures: &[Figure]) -> Table {
    let second = |two: &&[Figure]| two.get(1).cloned().unwrap_or_default();
    Table::of(figures.chunks(2))
        .text("", |two| two[0].0)
        .figure("", |two| two[0].1.clone())
        .text("", move |two| second(two).0)
        .figure("", move |two| second(two).1)
        .table()
        .at_least(&[17, 11, 17, 11])
}

fn clients(overview: &Overview) -> Table {
    let rows = overview.clients.iter().map(rows::client);
    let mut table = Table::of(rows).text(CLIENT_HEADS[0], |row| printable(&row[0]));
    for place in 1..CLIENT_HEADS.len() {
        table = table.figure(CLIENT_HEADS[place], |row| row[place].clone());
    }
    table.table()
}

/// Without control characters: what is shown comes from elsewhere.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_control() { '\u{fffd}' } else { one })
        .collect()
}
