//! What has to be kept from one second to the next: rates, the last minutes, the breaks.

use std::collections::{HashMap, VecDeque};

use control::{BreakCause, BreakState};
use pacing::Nanos;

use super::{BreakFigures, ClientFigures, Event, Figures, History, Holding, Overview, Totals};
use crate::lane::Accounts;
use crate::metrics::{Counted, Gauges};
use crate::views::{ClientView, Readiness};

/// What the parts of the program tell at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// The state in numbers.
    pub gauges: Gauges,
    /// How admitted writes ended.
    pub accounts: Accounts,
    /// What was counted.
    pub counted: Counted,
    /// What holds the next write back, in a sentence.
    pub bound: String,
    /// What shares are counted in, and why.
    pub counted_in: String,
}

/// Follows the program with one look a second. Pure: the time is an argument.
#[derive(Debug, Default)]
pub struct Keeper {
    last: Option<(Nanos, Moment)>,
    figures: Figures,
    seconds: VecDeque<(f64, Figures)>,
    breaks: VecDeque<BreakFigures>,
    clients: Vec<ClientFigures>,
}

impl Keeper {
    /// Looks at the program, and at the clients with the longest queues.
    pub fn look(&mut self, now: Nanos, moment: Moment, clients: Vec<ClientView>) {
        self.figures = figures(&moment);
        let since = self.last.as_ref().map_or(now, |(before, _)| *before);
        self.list(clients, now.saturating_sub(since).as_secs_f64());
        if let Some((before_at, before)) = &self.last {
            let seconds = now.saturating_sub(*before_at).as_secs_f64();
            add_rates(&mut self.figures, &moment, before, seconds);
        }
        self.note_breaks(now, &moment.counted);
        push(
            &mut self.seconds,
            (tenths(now.as_secs_f64()), self.figures),
            SECONDS,
        );
        self.last = Some((now, moment));
    }

    /// Breaks that began since the last look, how long the last one lasts, and what it gained. A gain
    /// is always that of the last break: when another begins, the measurement of the one before is
    /// dropped.
    fn note_breaks(&mut self, now: Nanos, counted: &Counted) {
        let before = self
            .last
            .as_ref()
            .map(|(_, last)| last.counted)
            .unwrap_or_default();
        for cause in BreakCause::ALL {
            let place = cause as usize;
            if counted.pauses[place] > before.pauses[place] {
                let began = BreakFigures {
                    at_seconds: tenths(now.as_secs_f64()),
                    cause: cause.name().to_owned(),
                    ..BreakFigures::default()
                };
                push(&mut self.breaks, began, BREAKS);
            }
        }
        if let Some(last) = self.breaks.back_mut() {
            last.paused_seconds += counted.paused_seconds - before.paused_seconds;
            if counted.pause_gain != before.pause_gain {
                last.gain = Some(counted.pause_gain);
            }
        }
    }

    /// Everything, with what is not kept: whether the program is ready, and the log.
    pub fn overview(&self, readiness: &Readiness, events: Vec<Event>) -> Overview {
        let Some((now, moment)) = &self.last else {
            return Overview::default();
        };
        let (now, totals) = (*now, totals(moment));
        let bound = Holding {
            name: moment.gauges.bound.name().to_owned(),
            text: moment.bound.clone(),
        };
        Overview {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: tenths(now.as_secs_f64()),
            ready: readiness.is_ready(),
            why: readiness.why(),
            gate: gate(readiness.controller).to_owned(),
            controller: readiness.controller.name().to_owned(),
            bound,
            counted_in: moment.counted_in.clone(),
            now: self.figures,
            totals,
            history: self.history(),
            nodes: readiness.nodes.clone(),
            clients: self.clients.clone(),
            breaks: self.breaks.iter().rev().map(rounded).collect(),
            events,
        }
    }

    fn history(&self) -> History {
        let mut history = History::default();
        for (at, second) in &self.seconds {
            history.at_seconds.push(*at);
            history.received.push(second.received_per_second);
            history.forwarded.push(second.forwarded_per_second);
            history.committed.push(second.committed_per_second);
            history.pace.push(second.pace_per_second);
            history.queued.push(second.queued);
            history.mempool.push(second.mempool_txs);
        }
        history
    }

    /// Keeps these clients, and how fast their writes left in the `seconds` since the last look.
    fn list(&mut self, clients: Vec<ClientView>, seconds: f64) {
        let before: HashMap<String, u64> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|one| (one.client.client, one.client.dispatched))
            .collect();
        let with_rate = |client: ClientView| ClientFigures {
            forwarded_per_second: before
                .get(&client.client)
                .and_then(|before| rate(client.dispatched, *before, seconds)),
            client,
        };
        self.clients = clients.into_iter().map(with_rate).collect();
    }
}

/// The figures of a moment that need no other one.
fn figures(moment: &Moment) -> Figures {
    let gauges = &moment.gauges;
    Figures {
        committed_per_second: tenths(gauges.committed_tx_rate),
        pace_per_second: tenths(gauges.pace_rate),
        share_per_second: tenths(gauges.fair_share),
        pace_is_blind: gauges.pace_blind,
        queued: gauges.queue_depth,
        queued_bytes: gauges.queue_bytes,
        in_flight: gauges.writes_in_flight,
        mempool_txs: gauges.upstream_mempool_txs,
        buffered_bytes: gauges.buffered_bytes,
        buffer_capacity_bytes: gauges.buffer_capacity_bytes,
        connections: gauges.connections,
        waiting_clients: gauges.clients_active,
        known_clients: gauges.client_table_entries,
        ..Figures::default()
    }
}

fn add_rates(figures: &mut Figures, moment: &Moment, before: &Moment, seconds: f64) {
    let (now, then) = (totals(moment), totals(before));
    let rate =
        |count: fn(&Totals) -> u64| rate(count(&now), count(&then), seconds).unwrap_or_default();
    figures.received_per_second = rate(|totals| totals.received);
    figures.forwarded_per_second = rate(|totals| totals.forwarded);
    figures.refused_per_second = rate(|totals| totals.refused + totals.displaced + totals.expired);
    figures.reads_per_second = rate(|totals| totals.reads);
}

fn totals(moment: &Moment) -> Totals {
    let (accounts, counted) = (&moment.accounts, &moment.counted);
    Totals {
        received: accounts.admitted + accounts.refused,
        forwarded: accounts.forwarded,
        refused: accounts.refused,
        displaced: accounts.displaced,
        expired: accounts.expired,
        cancelled: accounts.cancelled,
        reads: counted.reads,
        committed: counted.committed,
        breaks: counted.pauses.iter().sum(),
        paused_seconds: tenths(counted.paused_seconds),
    }
}

/// Whether writes may be sent in this state.
const fn gate(state: BreakState) -> &'static str {
    match state {
        BreakState::Running => "open",
        BreakState::Draining => "draining",
        BreakState::Paused | BreakState::Reconnecting => "paused",
    }
}

/// What a count grew by, a second; none when it began anew, or no time has passed.
fn rate(now: u64, before: u64, seconds: f64) -> Option<f64> {
    let grown = now.checked_sub(before)?;
    (seconds > 0.0).then(|| tenths(grown as f64 / seconds))
}

fn rounded(one: &BreakFigures) -> BreakFigures {
    BreakFigures {
        paused_seconds: tenths(one.paused_seconds),
        ..one.clone()
    }
}

/// To a tenth: what a person reads, and a third of the bytes.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn push<T>(list: &mut VecDeque<T>, value: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(value);
}

/// Five minutes: what one looks at after an alert has fired.
pub(super) const SECONDS: usize = 300;
/// A break an interval of minutes, so the last hour or so.
pub(super) const BREAKS: usize = 20;
