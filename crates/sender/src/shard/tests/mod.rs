//! The shard on a scripted clock: no sleeping, no sockets, no threads, every instant exact.

mod accounts;
mod connections;
mod endings;
mod lateness;
mod requests;
mod script;
pub(crate) mod target;
mod unsent;

use std::collections::HashSet;
use std::io;
use std::num::{NonZeroU32, NonZeroU64};
use std::rc::Rc;

use crossbeam_channel::{bounded, unbounded};
use measure::{
    Answered, Cause, Reconnected, Recorder, RecorderConfig, Reply, RunEnd, RunFolderWriters,
    SchedulePlan, ScheduleVerdict, Sent, Summary, Unsent, UnsentReason,
};
use pacing::{Arrivals, CatchUp, Nanos, Profile, Rate, Schedule};

use self::script::{React, Reaction, Received, Script};
use self::target::{Numbers, ScriptedTarget};
use super::{
    AtMaxInFlight, Offering, Orders, Reporter, Rules, ShardBatch, ShardConfig, ShardLoad, assemble,
};
use crate::protocol::Limits;
use crate::shard::Address;
use crate::source::{SourceConfig, SteppedSource};

/// A shard, its node and its machine, as a test wants them.
struct Scenario {
    config: ShardConfig,
    target: ScriptedTarget,
    script: Script,
    orders: Rc<Orders>,
    /// Batches that the source fills before the origin, and when it fills one more.
    prepared: usize,
    prepared_later: Vec<Nanos>,
    /// Indices that the workload has transactions for.
    supply: u64,
}

/// All that a shard reported.
struct Outcome {
    sent: Vec<Sent>,
    answered: Vec<Answered>,
    unsent: Vec<Unsent>,
    reconnected: Vec<Reconnected>,
    stray_answers: u64,
    late_answers: u64,
    /// How far the loop was behind its times at most.
    stall: Nanos,
    /// The watermark of the first batch with which nothing falls due any more.
    offered: Option<Nanos>,
    /// The watermark of the last batch: when the shard ended.
    ended: Nanos,
    received: Vec<Received>,
    attempts: Vec<Nanos>,
}

impl Scenario {
    /// An open loop over connections to an endpoint.
    fn open(rate_per_second: u64, duration: Nanos, links: &[&str], react: React) -> Self {
        let rate = Rate::per_second(rate_per_second).unwrap();
        let profile = Profile::constant(rate, Some(duration)).unwrap();
        Self::over(profile, Arrivals::Even, links, react)
    }

    fn over(profile: Profile, arrivals: Arrivals, links: &[&str], react: React) -> Self {
        let ends_at = profile.duration().unwrap();
        let schedule = Schedule::new(profile.clone(), arrivals);
        let load = ShardLoad::Open {
            offering: Box::new(Offering {
                dues: schedule.shard(0, NonZeroU32::MIN),
                profile,
                ends_at,
            }),
            end: u64::MAX,
            reconnect_in_pauses: false,
        };
        Self::new(load, links, react)
    }

    fn flood(count: u64, slots: usize, links: &[&str], react: React) -> Self {
        Self::new(ShardLoad::Flood { end: count, slots }, links, react)
    }

    fn new(load: ShardLoad, links: &[&str], react: React) -> Self {
        let address = |(number, url): (usize, &&str)| Address {
            number: number as u16,
            endpoint: url.parse().unwrap(),
            socket: "127.0.0.1:1".parse().unwrap(),
            options: Default::default(),
        };
        Self {
            config: ShardConfig {
                shard: 0,
                of: 1,
                connections: links.iter().enumerate().map(address).collect(),
                rules: Rules {
                    max_in_flight: NonZeroU64::new(1_000_000).unwrap(),
                    answer_timeout: Nanos::from_secs(30),
                    drain_timeout: Nanos::from_secs(10),
                    ..Rules::default()
                },
                load,
                ordered: None,
                families: None,
            },
            target: ScriptedTarget::default(),
            script: Script::new(links.len(), react),
            orders: Rc::default(),
            prepared: 40,
            prepared_later: Vec::new(),
            supply: u64::MAX,
        }
    }

    /// Gives an order at an instant.
    fn order(&self, at: Nanos, give: impl FnOnce(&Orders) + 'static) {
        let orders = self.orders.clone();
        self.script.at(at, move || give(&orders));
    }

    /// The thread does not run from then to then.
    fn stall(&self, from: u64, to: u64) {
        self.script
            .with(|world| world.stalls.push((ms(from), ms(to))));
    }

    /// Breaks the connection of a link.
    fn break_at(&self, at: Nanos, token: u32) {
        let script = self.script.clone();
        self.script.at(at, move || script.close(token));
    }

    /// The port is closed in this interval.
    fn refuse(&self, from: u64, to: u64) {
        self.script
            .with(|world| world.refusing.push((ms(from), ms(to))));
    }

    /// No connection becomes a WebSocket from then to then.
    fn refuse_upgrades(&self, from: u64, to: u64) {
        self.script
            .with(|world| world.refusing_upgrades.push((ms(from), ms(to))));
    }

    /// Sockets take nothing from then to then.
    fn take_nothing(&self, from: u64, to: u64) {
        self.script
            .with(|world| world.deaf.push((ms(from), ms(to))));
    }

    fn run(self) -> Outcome {
        self.try_run().unwrap()
    }

    fn try_run(self) -> io::Result<Outcome> {
        let (full, batches) = unbounded();
        let (_used, empty) = bounded(1);
        let (ring, mut source) = SteppedSource::start(
            &self.target,
            SourceConfig {
                streams: vec![Box::new(Numbers)],
                shard: 0,
                first: 0,
                stride: NonZeroU32::MIN,
                end: self.supply,
                largest: 8,
                ahead: 0,
            },
        );
        (0..self.prepared).for_each(|_| source.fill());
        let source = Rc::new(std::cell::RefCell::new(source));
        for at in self.prepared_later {
            let source = source.clone();
            self.script.at(at, move || source.borrow_mut().fill());
        }
        let reporter = Reporter::new(0, full, empty);
        let mut sender = assemble(
            self.target,
            self.config,
            self.script.clone(),
            ring,
            reporter,
            &self.orders,
        );
        sender.open_all()?;
        self.script.start();
        sender.run()?;
        Ok(Outcome::of(batches.try_iter(), &self.script))
    }
}

impl Outcome {
    /// Adds the batches up, and checks what holds for all of them.
    fn of(batches: impl Iterator<Item = ShardBatch>, script: &Script) -> Self {
        let (received, attempts) =
            script.with(|world| (world.received.clone(), world.attempts.clone()));
        let mut outcome = Self {
            sent: Vec::new(),
            answered: Vec::new(),
            unsent: Vec::new(),
            reconnected: Vec::new(),
            stray_answers: 0,
            late_answers: 0,
            stall: Nanos::ZERO,
            offered: None,
            ended: Nanos::ZERO,
            received,
            attempts,
        };
        let mut finished = false;
        let mut seen = HashSet::new();
        for batch in batches {
            assert!(!finished, "a batch after the last");
            finished = batch.finished;
            let stamps = batch.sent.iter().map(|sent| sent.sent);
            let stamps = stamps.chain(batch.answered.iter().map(|answered| answered.at));
            let earliest = stamps
                .chain(batch.unsent.iter().map(|unsent| unsent.at))
                .min();
            assert!(
                earliest.is_none_or(|earliest| earliest >= outcome.ended),
                "an event before the last watermark"
            );
            outcome.ended = batch.watermark;
            let before = outcome.sent.len();
            outcome.stray_answers += batch.stray_answers;
            outcome.late_answers += batch.late_answers;
            outcome.stall = outcome.stall.max(batch.stall);
            if batch.offered_all && outcome.offered.is_none() {
                outcome.offered = Some(batch.watermark);
            }
            outcome.sent.extend(batch.sent);
            outcome.answered.extend(batch.answered);
            outcome.unsent.extend(batch.unsent);
            outcome.reconnected.extend(batch.reconnected);
            seen.extend(outcome.sent[before..].iter().map(|sent| sent.index));
            let answered = &outcome.answered;
            assert!(
                answered
                    .iter()
                    .all(|answered| seen.contains(&answered.index))
            );
        }
        assert!(finished, "no last batch");
        outcome.assert_each_once();
        outcome
    }

    /// Every index is either sent or unsent, once, and answered at most once.
    fn assert_each_once(&self) {
        let sent = self.sent.iter().map(|sent| sent.index);
        let mut all: Vec<u64> = sent
            .chain(self.unsent.iter().map(|unsent| unsent.index))
            .collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        let mut answered: Vec<u64> = self
            .answered
            .iter()
            .map(|answered| answered.index)
            .collect();
        answered.sort_unstable();
        assert!(
            answered.windows(2).all(|pair| pair[0] < pair[1]),
            "{answered:?}"
        );
    }

    /// The indices that left for this cause.
    fn caused_by(&self, cause: Cause) -> Vec<u64> {
        let caused = self.sent.iter().filter(|sent| sent.cause == cause);
        caused.map(|sent| sent.index).collect()
    }

    /// The indices that the shard's own loop delayed.
    fn own_late(&self) -> Vec<u64> {
        let late = self.sent.iter().filter(|sent| sent.own_late);
        let mut late: Vec<u64> = late.map(|sent| sent.index).collect();
        late.sort_unstable();
        late
    }

    /// What is concluded from a run of one constant rate that had this outcome.
    fn summary(&self, rate_per_second: u64, duration: Nanos) -> Summary {
        let rate = Rate::per_second(rate_per_second).unwrap();
        let profile = Profile::constant(rate, Some(duration)).unwrap();
        let schedule = Schedule::new(profile, Arrivals::Even);
        let planned = schedule.planned();
        let writers = RunFolderWriters {
            txs: io::sink(),
            answers: io::sink(),
            series: io::sink(),
            steps: io::sink(),
            blocks: io::sink(),
            hlog: io::sink(),
        };
        let config = RecorderConfig::new(0, 1, 0);
        let mut recorder = Recorder::new(config, SchedulePlan::new(schedule), writers);
        self.sent.iter().for_each(|sent| recorder.sent(sent));
        self.unsent
            .iter()
            .for_each(|unsent| recorder.unsent(unsent));
        let answered = self.answered.iter();
        answered.for_each(|answered| recorder.answered(answered));
        recorder.stalled(self.stall);
        let end = RunEnd {
            planned,
            offered_until: duration,
            ended: self.ended,
            interrupted: false,
        };
        recorder.finish(end).summary
    }

    /// The indices that were given up for this reason.
    fn unsent_for(&self, reason: UnsentReason) -> Vec<u64> {
        let unsent = self.unsent.iter().filter(|unsent| unsent.reason == reason);
        unsent.map(|unsent| unsent.index).collect()
    }

    /// What came back for an index.
    fn reply(&self, index: u64) -> Option<Reply> {
        let answered = self
            .answered
            .iter()
            .find(|answered| answered.index == index);
        answered.map(|answered| answered.reply)
    }

    /// What the node received, request by request.
    fn bodies(&self) -> Vec<&str> {
        self.received
            .iter()
            .map(|received| &*received.body)
            .collect()
    }
}

/// A node that accepts everything after a while.
fn accepts(after: Nanos) -> React {
    Box::new(move |_, body| accept(after, body))
}

fn accept(after: Nanos, body: &str) -> Reaction {
    Reaction::Say(after, target::accepted(body))
}

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn us(micros: u64) -> Nanos {
    Nanos::from_nanos(micros * 1_000)
}

fn indices(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

const HTTP: &str = "http://127.0.0.1:1";
const WS: &str = "ws://127.0.0.1:1/websocket";
