//! The overview as text, for `sentinel top`: what is needed first stands first, and no figure is ever cut. All figures
//! are in the metrics.

use std::fmt;

use super::journal::Event;
use super::overview::{Overview, Waited};

impl fmt::Display for Overview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self;
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
        clients(f, self)?;
        nodes(f, self)?;
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
        Ok(())
    }
}

/// The clients with the longest queues.
fn clients(f: &mut fmt::Formatter<'_>, overview: &Overview<'_>) -> fmt::Result {
    let heads = ["waiting", "out/s", "share/s", "refused", "out", "sockets"];
    let mut line = |name: &str, cells: &[String]| {
        write!(f, "{name:<ADDRESS$}")?;
        // A figure that is wider than its cell makes the line longer, and loses nothing.
        cells
            .iter()
            .try_for_each(|cell| write!(f, " {cell:>CELL$}"))?;
        writeln!(f)
    };
    line("client", &heads.map(str::to_owned))?;
    for one in overview.clients {
        let rate = one.forwarded_per_second;
        let cells = [
            one.queued.to_string(),
            rate.map_or("-".into(), |rate| format!("{rate:.1}")),
            format!("{:.1}", one.share_per_second),
            one.refused.to_string(),
            one.dispatched.to_string(),
            one.connections.to_string(),
        ];
        line(&one.client, &cells)?;
    }
    Ok(())
}

fn nodes(f: &mut fmt::Formatter<'_>, overview: &Overview<'_>) -> fmt::Result {
    for one in overview.nodes {
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
const CELL: usize = 9;
