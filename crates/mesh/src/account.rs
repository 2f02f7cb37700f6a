//! The account of a mesh run: every row of every node, added up by node, by step and for the whole.

use std::collections::HashMap;

use measure::{Latency, Quantiles};
use pacing::{Nanos, Schedule, Step};
use serde::Serialize;

use super::control::{CodecTime, Counters, NodeMessage, Row, Sample, Status};
use super::crew::MachineSecond;

/// One second of one node, as in `series.csv`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeSecond {
    pub(crate) second: u64,
    pub(crate) node: u16,
    /// Transactions due in it; zero but for the generator.
    pub(crate) planned: u64,
    pub(crate) counters: Counters,
    pub(crate) queued: u64,
    pub(crate) links: u64,
    pub(crate) latency: Spread,
    pub(crate) lateness: Spread,
}

/// Median, upper end and maximum of a second, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

impl Spread {
    fn of(latency: &Latency) -> Self {
        let at = |quantile| latency.quantile(quantile).map(Nanos::as_millis_f64);
        Self {
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: latency.max().map(Nanos::as_millis_f64),
        }
    }
}

/// All of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeAccount {
    pub(crate) total: Counters,
    /// What it counted while the load was offered.
    pub(crate) offering: Counters,
    pub(crate) latency: Latency,
    pub(crate) codec: CodecTime,
    /// Its last report; `None` when it ended before one.
    pub(crate) status: Option<Status>,
    /// When it ended before it was asked to, in seconds since the origin.
    pub(crate) ended_s: Option<f64>,
}

/// All of one step of the profile.
#[derive(Debug, Clone)]
pub(crate) struct StepAccount {
    pub(crate) step: Step,
    pub(crate) planned: u64,
    /// Whole seconds that are in it.
    pub(crate) seconds: u64,
    pub(crate) host: Counters,
    pub(crate) all: Counters,
    /// New entries of each node.
    pub(crate) entries: Vec<u64>,
    pub(crate) latency: Latency,
    pub(crate) lateness: Latency,
}

/// Followed messages: how many nodes saw each, and when the last one did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    followed: HashMap<(u16, u64), Followed>,
    /// Not followed since there were too many.
    pub(crate) untracked: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    due_us: u64,
    seen: u32,
    last_us: u64,
}

/// What became of the followed messages.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReachSummary {
    /// One in so many messages of each maker was followed.
    pub(crate) one_in: u64,
    pub(crate) followed: u64,
    pub(crate) seen_by_all: u64,
    pub(crate) seen_by_none: u64,
    /// The mean share of nodes that saw a message.
    pub(crate) share: Option<f64>,
    /// From due to the last node's first sight, of those that all saw.
    pub(crate) last_ms: Quantiles,
}

/// The account of a mesh run.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) nodes: Vec<NodeAccount>,
    pub(crate) seconds: Vec<NodeSecond>,
    pub(crate) steps: Vec<StepAccount>,
    pub(crate) machine: Vec<MachineSecond>,
    pub(crate) lateness: Latency,
    pub(crate) reach: Reach,
    schedule: Schedule,
    pub(crate) duration: Nanos,
}

/// A run that has ended.
pub(crate) struct PlayedMesh {
    pub(crate) account: Account,
    /// The origin, in nanoseconds since the Unix epoch.
    pub(crate) origin_unix_ns: u64,
    /// The user stopped it.
    pub(crate) interrupted: bool,
    /// What was still under way when the drain ended, if anything.
    pub(crate) undrained: Option<String>,
}

impl Account {
    /// An empty one.
    pub(crate) fn new(nodes: u16, schedule: Schedule) -> Self {
        let duration = schedule.profile().duration().unwrap_or(Nanos::MAX);
        let steps = schedule.profile().iter_steps().take(MAX_STEPS);
        let planned = |step: &Step| {
            let end = step.end.unwrap_or(duration);
            schedule.due_before(end) - schedule.due_before(step.start)
        };
        let steps = steps.map(|step| StepAccount {
            planned: planned(&step),
            step,
            seconds: 0,
            host: Counters::default(),
            all: Counters::default(),
            entries: vec![0; usize::from(nodes)],
            latency: Latency::new(),
            lateness: Latency::new(),
        });
        Self {
            nodes: vec![NodeAccount::default(); usize::from(nodes)],
            seconds: Vec::new(),
            steps: steps.collect(),
            machine: Vec::new(),
            lateness: Latency::new(),
            reach: Reach::default(),
            duration,
            schedule,
        }
    }

    /// Transactions planned in all.
    pub(crate) fn planned(&self) -> u64 {
        self.schedule.due_before(self.duration)
    }

    /// Adds what a message of a node counted.
    pub(crate) fn message(&mut self, node: u16, message: NodeMessage) {
        match message {
            NodeMessage::Row(row) => drop(self.row(node, row)),
            NodeMessage::Done { row, status } => {
                self.row(node, row);
                self.nodes[usize::from(node)].status = Some(status);
            }
            _ => {}
        }
    }

    /// Adds a row of a node; gives it as it stands in the series.
    pub(crate) fn row(&mut self, node: u16, row: Row) -> &NodeSecond {
        let latency = of_pairs(&row.latency_us);
        let lateness = of_pairs(&row.lateness_us);
        let start = Nanos::from_secs(row.second);
        let end = start.saturating_add(Nanos::from_secs(1));
        let account = &mut self.nodes[usize::from(node)];
        account.total += row.counters;
        account.latency.merge(&latency);
        account.codec += row.codec;
        self.lateness.merge(&lateness);
        if start < self.duration {
            account.offering += row.counters;
            // A second belongs to the step in its middle: steps are whole seconds in practice.
            let middle = start.saturating_add(Nanos::from_millis(500));
            let middle = middle.min(self.duration.saturating_sub(Nanos::new(1)));
            let index = self.schedule.profile().step_at(middle).index as usize;
            if let Some(step) = self.steps.get_mut(index) {
                step.all += row.counters;
                step.entries[usize::from(node)] += row.counters.entries;
                step.latency.merge(&latency);
                step.lateness.merge(&lateness);
                if node == GENERATOR {
                    step.seconds += 1;
                    step.host += row.counters;
                }
            }
        }
        for sample in row.sampled {
            self.reach.add(sample);
        }
        let planned = match node {
            GENERATOR => self.schedule.due_before(end) - self.schedule.due_before(start),
            _ => 0,
        };
        self.seconds.push(NodeSecond {
            second: row.second,
            node,
            planned,
            counters: row.counters,
            queued: row.queued,
            links: row.links,
            latency: Spread::of(&latency),
            lateness: Spread::of(&lateness),
        });
        &self.seconds[self.seconds.len() - 1]
    }

    /// The seconds of each node in which the load was offered; what comes later is a part of a second, while the
    /// mesh drains. A machine of several has rows of its own nodes only.
    pub(crate) fn offered_rows(&self) -> Vec<Vec<&NodeSecond>> {
        let mut nodes: Vec<Vec<&NodeSecond>> = vec![Vec::new(); self.nodes.len()];
        let rows = self.seconds.iter();
        for row in rows.filter(|row| row.second < self.duration.as_secs()) {
            nodes[usize::from(row.node)].push(row);
        }
        nodes.retain(|rows| !rows.is_empty());
        nodes
    }

    /// All nodes together.
    pub(crate) fn total(&self) -> Counters {
        sum(self.nodes.iter().map(|node| node.total))
    }

    /// All nodes together while the load was offered.
    pub(crate) fn offering(&self) -> Counters {
        sum(self.nodes.iter().map(|node| node.offering))
    }

    /// First sights of all nodes by their latency from due.
    pub(crate) fn latency(&self) -> Latency {
        let mut all = Latency::new();
        for node in &self.nodes {
            all.merge(&node.latency);
        }
        all
    }

    /// What coding cost, of the parcels that were timed.
    pub(crate) fn codec(&self) -> CodecTime {
        let mut all = CodecTime::default();
        for node in &self.nodes {
            all += node.codec;
        }
        all
    }
}

impl Reach {
    fn add(&mut self, sample: Sample) {
        let key = (sample.maker, sample.sequence);
        if !self.followed.contains_key(&key) && self.followed.len() >= MAX_FOLLOWED {
            self.untracked += 1;
            return;
        }
        let followed = self.followed.entry(key).or_default();
        followed.due_us = sample.due_us;
        if let Some(seen_us) = sample.seen_us {
            followed.seen += 1;
            followed.last_us = followed.last_us.max(seen_us);
        }
    }

    /// What became of them in a mesh of so many nodes.
    pub(crate) fn summary(&self, nodes: u16, one_in: u64) -> ReachSummary {
        let messages = || self.followed.values();
        let followed = messages().count() as u64;
        let seen: u64 = messages().map(|it| u64::from(it.seen)).sum();
        let places = followed * u64::from(nodes);
        let mut last = Latency::new();
        for message in messages().filter(|it| it.seen >= u32::from(nodes)) {
            let took = message.last_us.saturating_sub(message.due_us);
            last.record(Nanos::from_micros(took));
        }
        ReachSummary {
            one_in,
            followed,
            seen_by_all: last.count(),
            seen_by_none: messages().filter(|it| it.seen == 0).count() as u64,
            share: (places > 0).then(|| seen as f64 / places as f64),
            last_ms: last.quantiles(&Latency::new()),
        }
    }
}

/// The node that offers the load.
pub(crate) const GENERATOR: u16 = 0;

fn sum(counters: impl Iterator<Item = Counters>) -> Counters {
    let mut sum = Counters::default();
    for counters in counters {
        sum += counters;
    }
    sum
}

fn of_pairs(pairs: &[(u64, u64)]) -> Latency {
    let mut latency = Latency::new();
    for (micros, times) in pairs {
        latency.record_n(Nanos::from_micros(*micros), *times);
    }
    latency
}

/// Steps that have an account of their own; a trace may have millions.
const MAX_STEPS: usize = 10_000;
/// Over half an hour at the rate at which messages are chosen to be followed.
const MAX_FOLLOWED: usize = 100_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tests::load;

    fn account(nodes: u16) -> Account {
        let phase = json!({"profile": "ramp", "start": "10/s", "step": "10/s", "every": "2s", "to": "20/s"});
        Account::new(nodes, load(phase).schedule().unwrap())
    }

    fn row(second: u64, entries: u64) -> Row {
        Row {
            second,
            counters: Counters {
                entries,
                offered: entries,
                ..Counters::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn a_row_counts_for_its_node_its_step_and_the_whole_but_after_the_load_for_no_step() {
        let mut account = account(2);
        assert_eq!(account.planned(), 60);
        for second in 0..6 {
            account.row(0, row(second, 10));
            account.row(1, row(second, 1));
        }
        assert_eq!(account.total().entries, 66);
        assert_eq!(account.offering().entries, 44, "the load has four seconds");
        let steps = account.steps.iter();
        let steps: Vec<_> = steps
            .map(|step| (step.planned, step.host.entries, step.all.entries))
            .collect();
        assert_eq!(steps, [(20, 20, 22), (40, 20, 22)]);
        assert_eq!(account.steps[1].entries, [20, 2]);
        assert_eq!(account.seconds[0].planned, 10);
        assert_eq!(
            account.seconds[1].planned, 0,
            "only the generator has a plan"
        );
    }

    #[test]
    fn a_message_has_reached_the_mesh_when_every_node_saw_it_and_not_before() {
        let mut reach = Reach::default();
        let mut sample = |sequence, seen_us| {
            reach.add(Sample {
                maker: 0,
                sequence,
                due_us: 1000,
                seen_us,
            });
        };
        for seen in [None, Some(2000), Some(5000)] {
            sample(1, seen);
        }
        for seen in [None, Some(3000)] {
            sample(2, seen);
        }
        sample(3, None);
        let figures = reach.summary(2, 1);
        assert_eq!(
            (figures.followed, figures.seen_by_all, figures.seen_by_none),
            (3, 1, 1)
        );
        assert_eq!(figures.share, Some(0.5));
        assert_eq!(figures.last_ms.max, Some(4.0));
    }
}
