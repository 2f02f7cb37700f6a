//! The overview as text, for `sentinel top`: what is needed first stands first, and no figure is ever cut.

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

use super::journal::Event;
use super::overview::{Overview, Waited};

/// An overview in lines of so many columns; what is longer goes on below, and no figure or word is cut.
pub(super) struct Lines<'a> {
    pub(super) overview: Overview<'a>,
    pub(super) columns: usize,
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text)?;
        let columns = self.columns.max(LEAST_COLUMNS);
        text.lines().try_for_each(|line| fold(f, line, columns))
    }
}

impl Lines<'_> {
    fn write(&self, f: &mut String) -> fmt::Result {
        let it = &self.overview;
        let gate = if it.ready { it.gate } else { "not ready" };
        let (version, up, why) = (it.version, it.uptime_seconds, &it.why);
        writeln!(f, "sentinel {version}, up {up} s, gate {gate} ({why})")?;
        writeln!(f, "writes wait for {}", it.bound.text)?;
        let (rates, now) = (it.rates, it.now);
        writeln!(
            f,
            "writes/s: in {:.1}, out {:.1}, refused {:.1}, committed {:.1}",
            rates.received, rates.forwarded, rates.refused, now.committed_tx_rate
        )?;
        writeln!(f, "waiting {}: {}", now.queue_depth, waits(it.waited))?;
        self.clients(f)?;
        self.nodes(f)?;
        let about = "shares are counted in";
        writeln!(
            f,
            "{about} {}; break controller: {}",
            it.counted_in, it.controller
        )?;
        for one in it.breaks {
            let ago = up - one.at_seconds;
            let gain = one.gain.map_or("not measured".to_owned(), |gain| {
                format!("{:+.1} %", gain * 100.0)
            });
            let (cause, paused) = (one.cause, one.paused_seconds);
            writeln!(
                f,
                "break {ago:.0} s ago ({cause}): no writes for {paused:.1} s, gain {gain}"
            )?;
        }
        for Event {
            ago_seconds,
            level,
            text,
        } in &it.events
        {
            writeln!(f, "{ago_seconds:>6} s ago {level:<5} {text}")?;
        }
        self.figures(f, "a second", it.rates)?;
        self.figures(f, "now", it.now)?;
        self.figures(f, "since the start", &it.totals)
    }

    /// The clients with the longest queues; where there is no room for all columns, the first of them.
    fn clients(&self, f: &mut String) -> fmt::Result {
        let heads = ["waiting", "out/s", "share/s", "refused", "out", "sockets"];
        let room = self.columns.saturating_sub(ADDRESS) / CELL;
        let shown = room.clamp(1, heads.len());
        let line = |f: &mut String, name: &str, cells: &[String]| {
            write!(f, "{name:<ADDRESS$}")?;
            // A figure that is wider than its cell makes the line longer, and loses nothing.
            cells[..shown]
                .iter()
                .try_for_each(|cell| write!(f, " {cell:>0$}", CELL - 1))?;
            writeln!(f)
        };
        line(f, "client", &heads.map(str::to_owned))?;
        for one in self.overview.clients {
            let rate = one.forwarded_per_second;
            let cells = [
                one.queued.to_string(),
                rate.map_or("-".into(), |rate| format!("{rate:.1}")),
                format!("{:.1}", one.share_per_second),
                one.refused.to_string(),
                one.dispatched.to_string(),
                one.connections.to_string(),
            ];
            line(f, &one.client.to_string(), &cells)?;
        }
        Ok(())
    }

    fn nodes(&self, f: &mut String) -> fmt::Result {
        for one in self.overview.nodes {
            let state = match (one.up, one.silent_ms, one.catching_up) {
                (false, ..) => "down".to_owned(),
                (true, Some(silent), _) => format!("answers nothing for {silent} ms"),
                (true, None, true) => "catching up".to_owned(),
                (true, None, false) => "up".to_owned(),
            };
            let height = one
                .height
                .map_or(String::new(), |height| format!(", height {height}"));
            writeln!(f, "node {} {state}{height}", one.url)?;
        }
        Ok(())
    }

    /// The figures of a part, two in a line where there is room, under the names that they have in JSON.
    fn figures(&self, f: &mut String, about: &str, part: &impl Serialize) -> fmt::Result {
        writeln!(f, "\n{about}")?;
        let Ok(Value::Object(figures)) = serde_json::to_value(part) else {
            return Ok(());
        };
        let mut cells = Vec::new();
        for (name, value) in &figures {
            let mut cell = format!("{:<24}", name.replace('_', " "));
            match value.as_f64() {
                Some(number) if number.fract() != 0.0 => write!(cell, "{number:>14.1}")?,
                _ => write!(cell, "{:>14}", value.to_string())?,
            }
            cells.push(cell);
        }
        let in_line = if self.columns < 78 { 1 } else { 2 };
        cells
            .chunks(in_line)
            .try_for_each(|some| writeln!(f, "{}", some.join("  ")))
    }
}

/// A line, and below it the words for which it has no room.
fn fold(f: &mut fmt::Formatter<'_>, line: &str, columns: usize) -> fmt::Result {
    let mut rest = line;
    while let Some((end, _)) = rest.char_indices().nth(columns) {
        // A blank right behind the last column ends the line, too.
        let is_whole = rest[end..].starts_with(' ').then_some(end);
        let blank = is_whole.or_else(|| rest[..end].rfind(' '));
        let Some(at) = blank.filter(|at| !rest[..*at].trim().is_empty()) else {
            break;
        };
        writeln!(f, "{}", rest[..at].trim_end())?;
        rest = &rest[at + 1..];
    }
    writeln!(f, "{rest}")
}

fn waits(waited: Option<Waited>) -> String {
    let Some(waited) = waited else {
        return "none left the queue within a minute".to_owned();
    };
    let [p50, p95] =
        [waited.p50_at_most_seconds, waited.p95_at_most_seconds].map(|at_most| match at_most {
            None => "over 30 s".to_owned(),
            Some(seconds @ ..1.0) => format!("at most {} ms", seconds * 1e3),
            Some(seconds) => format!("at most {seconds} s"),
        });
    format!("those that left waited {p50} (p50), {p95} (p95)")
}

/// Room for an IPv4 network, and for most of IPv6.
const ADDRESS: usize = 19;
/// With the blank before it.
const CELL: usize = 10;
/// A narrower terminal breaks the lines itself.
const LEAST_COLUMNS: usize = 40;
/// Where nothing is known of the terminal.
pub(super) const COLUMNS: usize = 80;
