//! The figures as text, for a pipe and for `--once`.

use std::fmt::Write as _;

use super::rows::{self, Figure};
use crate::overview::Overview;

/// Everything, in lines; it ends with an empty one.
pub(super) fn of(overview: &Overview) -> String {
    let mut text = format!("sentinel: {}\n", rows::head(overview));
    let mut line = |line: String| {
        // A string takes any text.
        let _ = writeln!(text, "{}", printable(line.trim_end()));
    };
    rows::reasons(overview).into_iter().for_each(&mut line);
    figures(&rows::now(overview)).for_each(&mut line);
    line("since the start".to_owned());
    figures(&rows::totals(overview)).for_each(&mut line);
    if !overview.clients.is_empty() {
        line(cells(rows::CLIENT_HEADS.map(str::to_owned)));
    }
    for client in &overview.clients {
        line(cells(rows::client(client)));
    }
    for one in &overview.breaks {
        line(format!(
            "break {}",
            rows::one_break(one, overview.uptime_seconds)
        ));
    }
    rows::nodes(overview).for_each(|node| line(format!("node {node}")));
    for event in &overview.events {
        let ago = rows::seconds(event.ago_seconds);
        line(format!("{ago:>9} ago {:<5} {}", event.level, event.text));
    }
    line(String::new());
    text
}

/// Four in a line.
fn figures(figures: &[Figure]) -> impl Iterator<Item = String> + use<> {
    let lines: Vec<String> = figures
        .chunks(4)
        .map(|four| {
            four.iter()
                .map(|(what, value)| format!("{what:<18}{value:>11}   "))
                .collect()
        })
        .collect();
    lines.into_iter()
}

fn cells([client, numbers @ ..]: [String; 7]) -> String {
    let numbers: String = numbers
        .iter()
        .map(|number| format!("{number:>12}"))
        .collect();
    format!("{client:<26}{numbers}")
}

/// Without control characters: what is shown comes from elsewhere.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_control() { '\u{fffd}' } else { one })
        .collect()
}
