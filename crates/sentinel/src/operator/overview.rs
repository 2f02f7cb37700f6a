//! The overview: what the page and `sentinel top` show. It keeps rates, the last minutes and the breaks from one look
//! at the program to the next. As text, for `sentinel top`, what is needed first stands first, and no figure is ever cut.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use control::{BreakCause, BreakState};
use pacing::Nanos;
use serde::Serialize;

use super::journal::Event;
use super::{ClientView, NodeView, Snapshot, journal};
use crate::lane::Accounts;
use crate::metrics::{Counted, Gauges, QUEUE_WAITS};

/// Follows the program with one look a second. Pure: the time is in the snapshots.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    last: Snapshot,
    rates: Rates,
    history: History,
    breaks: VecDeque<BreakFigures>,
    clients: Vec<ClientView>,
    /// The counts of waits at each look of the last minute, oldest first.
    waits: VecDeque<[u64; QUEUE_WAITS.len() + 1]>,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
pub(super) struct Overview<'a> {
    pub(super) version: &'static str,
    pub(super) uptime_seconds: f64,
    /// Whether clients may be sent here.
    pub(super) ready: bool,
    pub(super) why: String,
    /// Whether writes may be sent: `open`, `draining` or `paused`.
    pub(super) gate: &'static str,
    /// The state of the break controller.
    pub(super) controller: &'static str,
    pub(super) bound: Holding,
    pub(super) counted_in: String,
    /// The gauges that metrics show, under their names here.
    pub(super) now: &'a Gauges,
    pub(super) rates: &'a Rates,
    /// None where no write left the queue within the last minute.
    pub(super) waited: Option<Waited>,
    pub(super) totals: Totals<'a>,
    pub(super) history: &'a History,
    pub(super) nodes: &'a [NodeView],
    /// The clients with the longest queues, longest first.
    pub(super) clients: &'a [ClientView],
    /// The last breaks, latest first.
    pub(super) breaks: &'a VecDeque<BreakFigures>,
    /// The last lines of the log, latest first.
    pub(super) events: Vec<Event>,
}

/// What holds the next write back: its name as in metrics, and a sentence with its numbers.
#[derive(Debug, Serialize)]
pub(super) struct Holding {
    name: &'static str,
    pub(super) text: String,
}

/// Counts since the start.
#[derive(Debug, Serialize)]
pub(super) struct Totals<'a> {
    #[serde(flatten)]
    accounts: &'a Accounts,
    #[serde(flatten)]
    counted: &'a Counted,
}

/// Means over the last second, a second: writes that came (taken or not), that a node answered, that were refused or
/// given up while they waited; reads that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) received: f64,
    pub(super) forwarded: f64,
    pub(super) refused: f64,
    pub(super) reads: f64,
}

/// How long the writes had waited that left the queue within the last minute: half of them, and 95 in 100, at most so many
/// seconds. None where that is longer than the longest bound of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Waited {
    pub(super) p50_at_most_seconds: Option<f64>,
    pub(super) p95_at_most_seconds: Option<f64>,
}

impl Waited {
    /// From the counts at the begin and at the end of a time.
    fn between(before: &[u64], after: &[u64]) -> Option<Self> {
        let counts = after.iter().zip(before);
        let counts: Vec<u64> = counts
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let all: u64 = counts.iter().sum();
        let at_most = |percent: u64| {
            let wanted = (all * percent).div_ceil(100);
            let mut seen = 0;
            let reached = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            QUEUE_WAITS.get(reached?).copied()
        };
        (all > 0).then(|| Self {
            p50_at_most_seconds: at_most(50),
            p95_at_most_seconds: at_most(95),
        })
    }
}

/// The last minutes, oldest first, in columns of equal length.
#[derive(Debug, Default, Serialize)]
pub(super) struct History {
    pub(super) at_seconds: VecDeque<f64>,
    pub(super) received: VecDeque<f64>,
    forwarded: VecDeque<f64>,
    committed: VecDeque<f64>,
    pace: VecDeque<f64>,
    pub(super) queued: VecDeque<usize>,
    mempool: VecDeque<usize>,
}

/// One break.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BreakFigures {
    /// When it began: seconds since the start, to a second.
    pub(super) at_seconds: f64,
    /// Why: `interval` or `threshold`.
    pub(super) cause: &'static str,
    /// How long no writes were sent.
    pub(super) paused_seconds: f64,
    #[serde(skip)]
    paused_exactly: f64,
    /// What it gained in committed transactions, its own time included: 0.05 is 5 % more. None until it is judged,
    /// and when it cannot be.
    pub(super) gain: Option<f64>,
}

impl Keeper {
    /// With a first look.
    pub(super) fn new(first: Snapshot) -> Self {
        Self {
            last: first,
            ..Self::default()
        }
    }

    /// Looks at the program, and at the clients with the longest queues.
    pub(super) fn look(&mut self, now: Snapshot, clients: Vec<ClientView>) {
        let seconds = now.at.saturating_sub(self.last.at).as_secs_f64();
        let rate = |count: fn(&Snapshot) -> u64| {
            per_second(count(&now), count(&self.last), seconds).unwrap_or_default()
        };
        self.rates = Rates {
            received: rate(|one| one.status.accounts.admitted + one.status.accounts.refused),
            forwarded: rate(|one| one.status.accounts.forwarded),
            refused: rate(|one| {
                let accounts = &one.status.accounts;
                accounts.refused + accounts.displaced + accounts.expired
            }),
            reads: rate(|one| one.counted.reads),
        };
        self.list(clients, seconds);
        self.note_breaks(now.at, &now.counted);
        if self.waits.len() > WAIT_LOOKS {
            self.waits.pop_front();
        }
        self.waits.push_back(now.counted.waits);
        self.history.push(&now, &self.rates);
        self.last = now;
    }

    /// Breaks that began since the last look, how long the last one lasts, and what it gained. A gain is always that
    /// of the last break: when another begins, the measurement of the one before is dropped.
    fn note_breaks(&mut self, now: Nanos, counted: &Counted) {
        let before = self.last.counted;
        for cause in BreakCause::ALL {
            let place = cause as usize;
            if counted.pauses[place] > before.pauses[place] {
                self.breaks.truncate(BREAKS - 1);
                self.breaks.push_front(BreakFigures {
                    at_seconds: tenths(now.as_secs_f64()),
                    cause: cause.name(),
                    paused_seconds: 0.0,
                    paused_exactly: 0.0,
                    gain: None,
                });
            }
        }
        if let Some(last) = self.breaks.front_mut() {
            last.paused_exactly += counted.paused_seconds - before.paused_seconds;
            last.paused_seconds = tenths(last.paused_exactly);
            if counted.pause_gain != before.pause_gain {
                last.gain = Some(counted.pause_gain);
            }
        }
    }

    /// Keeps these clients, and how fast their writes left in the `seconds` since the last look.
    fn list(&mut self, mut clients: Vec<ClientView>, seconds: f64) {
        let before = std::mem::take(&mut self.clients).into_iter();
        let before: HashMap<_, _> = before.map(|one| (one.client, one.dispatched)).collect();
        for one in &mut clients {
            let dispatched = before.get(&one.client);
            let rate = |before: &u64| per_second(one.dispatched, *before, seconds);
            one.forwarded_per_second = dispatched.and_then(rate);
        }
        self.clients = clients;
    }

    /// Everything, with the log.
    pub(super) fn overview(&self) -> Overview<'_> {
        let (status, gauges) = (&self.last.status, &self.last.gauges);
        let (ready, why) = self.last.readiness();
        Overview {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: tenths(self.last.at.as_secs_f64()),
            ready,
            why,
            gate: match status.state {
                BreakState::Running => "open",
                BreakState::Draining => "draining",
                BreakState::Paused => "paused",
            },
            controller: status.state.name(),
            bound: Holding {
                name: gauges.bound.name(),
                text: self.last.bound(),
            },
            counted_in: status.shortage.to_string(),
            now: gauges,
            rates: &self.rates,
            waited: (self.waits.front().zip(self.waits.back()))
                .and_then(|(before, after)| Waited::between(before, after)),
            totals: Totals {
                accounts: &status.accounts,
                counted: &self.last.counted,
            },
            history: &self.history,
            nodes: &self.last.nodes,
            clients: &self.clients,
            breaks: &self.breaks,
            events: journal::recent(),
        }
    }
}

impl History {
    fn push(&mut self, now: &Snapshot, rates: &Rates) {
        let gauges = &now.gauges;
        push(&mut self.at_seconds, tenths(now.at.as_secs_f64()));
        push(&mut self.received, rates.received);
        push(&mut self.forwarded, rates.forwarded);
        push(&mut self.committed, tenths(gauges.committed_tx_rate));
        push(&mut self.pace, tenths(gauges.pace_rate));
        push(&mut self.queued, gauges.queue_depth);
        push(&mut self.mempool, gauges.upstream_mempool_txs);
    }
}

fn push<T>(column: &mut VecDeque<T>, value: T) {
    if column.len() == SECONDS {
        column.pop_front();
    }
    column.push_back(value);
}

/// What a count grew by, a second; none when it began anew, or no time has passed.
fn per_second(now: u64, before: u64, seconds: f64) -> Option<f64> {
    let grown = now.checked_sub(before)?;
    (seconds > 0.0).then(|| tenths(grown as f64 / seconds))
}

/// To a tenth: what a person reads, and a third of the bytes.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Looks of a minute.
const WAIT_LOOKS: usize = 60;
/// Five minutes: what an operator looks at after an alert has fired.
pub(super) const SECONDS: usize = 300;
/// A break an interval of minutes, so the last hour or so.
pub(super) const BREAKS: usize = 20;

/// A text without control characters but the ends of its lines: what is shown in a terminal comes from elsewhere.
pub fn printable(text: &str) -> String {
    text.replace(|one: char| one.is_control() && one != '\n', "\u{fffd}")
}

impl fmt::Display for Overview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self;
        let gate = if it.ready { it.gate } else { "not ready" };
        let (version, up, why) = (it.version, it.uptime_seconds, &it.why);
        writeln!(f, "sentinel {version}, up {up} s, gate {gate} ({why})")?;
        if it.bound.name == "nothing" {
            writeln!(f, "nothing holds writes back")?;
        } else {
            writeln!(f, "writes wait for {}", it.bound.text)?;
        }
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
