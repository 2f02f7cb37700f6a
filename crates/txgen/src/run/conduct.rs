//! A run in progress: its threads, from their start to their end.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use measure::{Finished, RunFolderWriters};
use pacing::{Arrivals, Nanos, Schedule};

use super::follow::{self, Follow};
use super::preflight::Node;
use super::ramp::{Course, Ramp};
use super::record::{RecordChannels, Recording, Shared};
use super::{RunError, await_start, host};
use crate::clock::{Origin, RunClock};
use crate::live::{Display, NodeBoard};
use crate::plan::{Load, Plan};
use crate::shard::{
    self, Address, BATCHES_IN_FLIGHT, Offering, Ordered, Orders, Revision, Rules, ShardBatch,
    ShardChannels, ShardConfig, ShardLoad, StopReason,
};
use crate::shutdown::Shutdown;
use crate::source::{self, Ring, SourceConfig, SourceThread};
use crate::target::Target;
use crate::threshold::Verdict;
use crate::workload::WorkloadError;

/// A run in progress, seen from the thread that watches it.
pub(super) struct Run<'a, T> {
    pub(super) target: T,
    pub(super) plan: &'a Plan,
    pub(super) nodes: &'a [Node],
    pub(super) orders: Orders,
    pub(super) clock: RunClock,
    pub(super) shutdown: &'a Shutdown,
    pub(super) built_in: bool,
    /// Where the followers say how the nodes are.
    pub(super) board: Arc<NodeBoard>,
}

impl<'a, T: Target> Run<'a, T> {
    /// A run of this plan that has not begun.
    pub(super) fn new(
        target: T,
        plan: &'a Plan,
        nodes: &'a [Node],
        built_in: bool,
        shutdown: &'a Shutdown,
    ) -> Self {
        Self {
            target,
            plan,
            nodes,
            orders: Orders::default(),
            clock: RunClock::default(),
            shutdown,
            built_in,
            board: Arc::new(NodeBoard::new(nodes.iter().map(Node::state).collect())),
        }
    }

    /// Plays the run to its end. Beside the account there may be a failure that ended it early, or a
    /// condition that did.
    pub(super) fn play(
        &self,
        writers: RunFolderWriters<File>,
        mut manifest: File,
        display: &mut Display,
    ) -> Result<Played, RunError> {
        let (batch_sender, batches) = bounded(BATCHES_IN_FLIGHT);
        let (seen_sender, seen) = bounded(SEEN_IN_FLIGHT);
        let follow = follow::start::<T>(
            self.plan,
            self.nodes,
            &self.clock,
            &seen_sender,
            &self.board,
        )?;
        drop(seen_sender);
        let shared = Arc::new(Shared::default());
        self.orders
            .hold(self.ramp().is_some_and(|ramp| ramp.may_go_on()));
        thread::scope(|scope| {
            let senders = self.start_senders(scope, &batch_sender)?;
            drop(batch_sender);
            let mut senders = self.await_senders(senders)?;
            let origin = self
                .await_origin()
                .inspect_err(|_| self.orders.abort(Nanos::ZERO))?;
            self.write_manifest(&mut manifest, origin)?;
            let channels = RecordChannels {
                batches,
                used: std::mem::take(&mut senders.used),
                seen,
                shared: shared.clone(),
                followers: follow.followers(),
                answers: self.target.limits().answers,
            };
            let recording = Recording::new(self.plan, &self.orders, origin, writers, channels);
            let recorder = thread::Builder::new()
                .name("recorder".into())
                .spawn_scoped(scope, || recording.run(|| self.shutdown.is_requested()))
                .map_err(RunError::System)?;
            for start in senders.starts.drain(..) {
                let _ = start.send(origin);
            }
            self.watch(display, &shared, &follow, &recorder);
            display.end();
            let mut finished = recorder.join().map_err(|_| {
                // The shards' batches are not read any more: the shards must not wait for it.
                self.orders.abort(self.clock.now());
                RunError::Panicked("recorder")
            })?;
            finished.summary.fate.rejected_by_text = self.target.refusal_texts();
            if let Some(sequences) = self.plan.workload.sequences() {
                let fate = &mut finished.summary.fate;
                fate.sequence_gaps = sequences.gaps();
                fate.rejected_by_text.extend(sequences.mismatches());
            }
            follow.stop();
            Ok(Played {
                finished,
                trouble: senders.trouble(),
                broken: shared.glance().and_then(|glance| glance.broken),
            })
        })
    }

    /// The origin of the run: an instant from now, or the start that was agreed on.
    fn await_origin(&self) -> Result<Origin, RunError> {
        let Some(start) = self.plan.start_at else {
            return Ok(self.clock.start(START_NOTICE));
        };
        if await_start(start, START_NOTICE, self.shutdown)?.is_zero() {
            return Err(RunError::Late { start });
        }
        Ok(self.clock.start_at(start.unix_ns()))
    }

    /// Starts a source and a sender per shard; each source runs ahead before its sender begins.
    fn start_senders<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        batches: &Sender<ShardBatch>,
    ) -> Result<Senders<'scope>, RunError> {
        let (opened_sender, opened) = bounded(self.plan.threads.get() as usize);
        let mut senders = Senders {
            shards: Vec::new(),
            sources: Vec::new(),
            opened,
            starts: Vec::new(),
            used: Vec::new(),
        };
        for shard in 0..self.plan.threads.get() {
            let (used, empty) = bounded(BATCHES_IN_FLIGHT);
            let (start_sender, start) = bounded(1);
            let channels = ShardChannels {
                full: batches.clone(),
                empty,
                opened: opened_sender.clone(),
                start,
            };
            let (ring, source) =
                source::spawn(&self.target, self.source(shard)?).map_err(RunError::System)?;
            ring.await_full(&source);
            senders.sources.extend(source);
            let config = self.shard(shard)?;
            let thread = thread::Builder::new()
                .name(format!("sender-{shard}"))
                .spawn_scoped(scope, || self.send(config, ring, channels))
                .map_err(RunError::System)?;
            senders.shards.push(thread);
            senders.used.push(used);
            senders.starts.push(start_sender);
        }
        Ok(senders)
    }

    /// Waits until every sender has its connections.
    fn await_senders<'scope>(
        &self,
        mut senders: Senders<'scope>,
    ) -> Result<Senders<'scope>, RunError> {
        let ready = self.await_shards(&senders.opened, &senders.shards);
        let called_off = self
            .shutdown
            .is_requested()
            .then_some(RunError::Interrupted);
        let Some(error) = ready.err().or(called_off) else {
            return Ok(senders);
        };
        self.orders.abort(Nanos::ZERO);
        senders.starts.clear();
        Err(match error {
            // What the shards say then is only that they were called off.
            RunError::Interrupted => error,
            error => senders.trouble().unwrap_or(error),
        })
    }

    /// Runs one shard; one that fails ends the run for all.
    fn send(&self, config: ShardConfig, ring: Ring, channels: ShardChannels) -> io::Result<()> {
        let sent = shard::run(self.target.clone(), config, ring, channels, &self.orders);
        if sent.is_err() {
            self.orders
                .abort(self.clock.now().saturating_add(STOP_NOTICE));
        }
        sent
    }

    /// Waits until every shard has its connections; a shard that gave up ends the wait.
    fn await_shards(
        &self,
        opened: &Receiver<u32>,
        shards: &[ScopedJoinHandle<'_, io::Result<()>>],
    ) -> Result<(), RunError> {
        let mut missing = shards.len();
        while missing > 0 {
            match opened.recv_timeout(WATCH_INTERVAL) {
                Ok(_) => missing -= 1,
                Err(_) if shards.iter().any(ScopedJoinHandle::is_finished) => {
                    return Err(RunError::Sender(io::Error::other(
                        "it ended before the start",
                    )));
                }
                Err(_) if self.shutdown.is_requested() => {
                    return Err(RunError::Interrupted);
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Shows progress, passes on interruptions, and says how a ramp goes on.
    fn watch(
        &self,
        display: &mut Display,
        shared: &Shared,
        follow: &Follow,
        recorder: &ScopedJoinHandle<'_, Finished>,
    ) {
        let mut ramp = self.ramp();
        let mut stopping = false;
        let mut warned = false;
        while !recorder.is_finished() {
            thread::sleep(WATCH_INTERVAL);
            let now = self.clock.now();
            stopping |= self.obey(display, shared, now, stopping);
            for note in follow.notes() {
                display.message(&format!("warning: {note}"));
            }
            if !stopping
                && let Some(sequences) = self.plan.workload.sequences()
                && sequences.stops()
            {
                stopping = true;
                self.stop(StopReason::Condition);
                let causes: Vec<String> = sequences.gaps().into_keys().collect();
                display.message(&format!(
                    "stopped: the sequence of an account is broken ({}); draining",
                    causes.join("; ")
                ));
            }
            let Some(glance) = shared.glance() else {
                continue;
            };
            if let Some(error) = &glance.write_error
                && !warned
            {
                warned = true;
                display.message(&format!("warning: {error}; counting goes on"));
            }
            if let Some(broken) = &glance.broken
                && !stopping
            {
                stopping = true;
                self.stop(StopReason::Condition);
                display.message(&format!(
                    "stopped: {} is broken ({}); draining",
                    broken.text,
                    broken.value_text()
                ));
            }
            if let Some(ramp) = ramp.as_mut().filter(|_| !stopping) {
                let course = ramp.look(&glance.moment.new_steps, now);
                stopping |= self.go_on(course, display);
            }
            display.update(now, glance.moment);
        }
    }

    /// What is offered in steps until the target is saturated, or offers some of them again.
    fn ramp(&self) -> Option<Ramp> {
        let Load::Open {
            schedule,
            stop_when_saturated,
            ..
        } = &self.plan.load
        else {
            return None;
        };
        let repeats = self.plan.part.is_whole() && self.plan.workload.count().is_none();
        let how = (*stop_when_saturated, repeats);
        Some(Ramp::new(schedule.clone(), how, self.plan.follow))
    }

    /// Does what a ramp asks for; whether the offering stops.
    fn go_on(&self, course: Course, display: &mut Display) -> bool {
        match course {
            Course::Same => {}
            Course::Planned => self.orders.hold(false),
            Course::Revised {
                schedule,
                from,
                text,
            } => {
                let shards = 0..self.plan.threads.get();
                let offering = |shard| {
                    let mut offering = self.offering(&schedule, shard);
                    while offering.dues.peek().is_some_and(|due| due.at < from) {
                        offering.dues.next();
                    }
                    offering
                };
                let offerings = shards.map(offering).collect();
                self.orders.revise(Revision {
                    schedule,
                    from,
                    offerings,
                });
                display.message(&text);
            }
            Course::Ended(reason) => {
                self.stop(StopReason::Saturated);
                display.message(&format!("the ramp ends: {reason}"));
                return true;
            }
        }
        false
    }

    /// Passes on what the user asks for: notes, and to stop or to leave; whether the offering stops.
    fn obey(&self, display: &mut Display, shared: &Shared, now: Nanos, stopping: bool) -> bool {
        // Orders first: they name an instant ahead, and messages may take their time.
        let stop = self.shutdown.is_requested() && !stopping;
        if stop {
            self.stop(StopReason::Interrupted);
            display
                .message("interrupted: no more is offered; draining (Ctrl-C again leaves at once)");
        }
        for text in display.marks() {
            if shared.mark(now, &text) {
                display.message(&marked(&text, now));
            }
        }
        if self.shutdown.is_urgent() {
            self.orders
                .abort(self.clock.now().saturating_add(STOP_NOTICE));
        }
        stop
    }

    /// Ends the offering an instant from now, so that the order reaches every shard in time.
    fn stop(&self, reason: StopReason) {
        self.orders
            .stop(self.clock.now().saturating_add(STOP_NOTICE), reason);
    }

    fn source(&self, shard: u32) -> Result<SourceConfig, WorkloadError> {
        let plan = self.plan;
        let (first, stride) = plan.part.of_thread(shard, plan.threads);
        let threads = part(u64::from(plan.signing_threads.get()), shard, plan.threads).max(1);
        let streams: Result<Vec<_>, _> = (0..threads).map(|_| plan.workload.open()).collect();
        Ok(SourceConfig {
            streams: streams?,
            shard,
            first,
            stride,
            end: self.end(),
            largest: plan.workload.largest(),
        })
    }

    /// The first index that is not offered.
    fn end(&self) -> u64 {
        let planned = match &self.plan.load {
            // To count random arrivals takes long for long loads.
            Load::Open { schedule, .. } => match schedule.arrivals() {
                Arrivals::Poisson { .. } => u64::MAX,
                // More than planned when a step is offered again.
                _ if self.ramp().is_some_and(|ramp| ramp.may_go_on()) => u64::MAX,
                Arrivals::Even | Arrivals::Burst { .. } => schedule.planned().unwrap_or(u64::MAX),
            },
            Load::Flood { count, .. } => *count,
        };
        planned.min(self.plan.workload.count().unwrap_or(u64::MAX))
    }

    /// When the offering ends by itself: with the profile, or with the last transaction of the
    /// workload.
    fn ends_at(&self, schedule: &Schedule) -> Nanos {
        let end = schedule.profile().duration().unwrap_or(Nanos::MAX);
        let used_up = self
            .plan
            .workload
            .count()
            .and_then(|supply| schedule.due(supply));
        used_up.map_or(end, |used_up| used_up.min(end))
    }

    fn offering(&self, schedule: &Schedule, shard: u32) -> Offering {
        let (first, stride) = self.plan.part.of_thread(shard, self.plan.threads);
        Offering {
            dues: schedule.shard(first, stride),
            profile: schedule.profile().clone(),
            ends_at: self.ends_at(schedule),
        }
    }

    fn shard(&self, shard: u32) -> Result<ShardConfig, WorkloadError> {
        let of = self.plan.threads.get();
        let load = match &self.plan.load {
            Load::Open {
                schedule,
                reconnect_in_pauses,
                ..
            } => ShardLoad::Open {
                offering: Box::new(self.offering(schedule, shard)),
                end: self.end(),
                reconnect_in_pauses: *reconnect_in_pauses,
            },
            Load::Flood { concurrency, .. } => ShardLoad::Flood {
                end: self.end(),
                slots: part(u64::from(concurrency.get()), shard, self.plan.threads) as usize,
            },
        };
        Ok(ShardConfig {
            shard,
            of,
            ordered: self.ordered(shard)?,
            connections: self.connections(shard),
            answer_timeout: self.plan.answer_timeout,
            rules: Rules {
                catch_up: self.plan.catch_up,
                max_in_flight: part(self.plan.max_in_flight, shard, self.plan.threads).max(1)
                    as usize,
                at_max_in_flight: self.plan.at_max_in_flight,
                drain_timeout: self.plan.drain_timeout,
                spin: self.plan.spin,
            },
            load,
        })
    }

    /// The accounts whose order a shard keeps, if order matters.
    fn ordered(&self, shard: u32) -> Result<Option<Ordered>, WorkloadError> {
        let Some(sequences) = self.plan.workload.sequences() else {
            return Ok(None);
        };
        let (first, stride) = self.plan.part.of_thread(shard, self.plan.threads);
        Ok(Some(Ordered {
            sequences: sequences.clone(),
            first: u64::from(first),
            stride: u64::from(stride.get()),
            stream: self.plan.workload.open()?,
        }))
    }

    /// This shard's connections, the endpoints in turn, and in each round from another address.
    fn connections(&self, shard: u32) -> Vec<Address> {
        (0..self.plan.connections.get() as usize)
            // Another order in each round, so that every shard gets connections to every node.
            .flat_map(|round| {
                let nodes = self.nodes.iter().cycle().skip(round % self.nodes.len());
                let nodes = nodes.take(self.nodes.len());
                nodes.map(move |node| node.address.clone().reached_from(self.local_address(round)))
            })
            .skip(shard as usize)
            .step_by(self.plan.threads.get() as usize)
            .collect()
    }

    fn local_address(&self, round: usize) -> Option<IpAddr> {
        self.plan
            .sources
            .iter()
            .cycle()
            .nth(round % self.plan.sources.len().max(1))
            .copied()
    }

    fn write_manifest(&self, file: &mut File, origin: Origin) -> Result<(), RunError> {
        host::manifest(self.plan, self.nodes, self.built_in, origin)
            .write_to(file)
            .map_err(|error| RunError::Record {
                files: vec!["manifest.json".into()],
                source: error.into(),
            })
    }
}

/// What is said of a note.
fn marked(text: &str, at: Nanos) -> String {
    format!("mark at {:.1} s: {text}", at.as_secs_f64())
}

/// The `shard`-th part of a whole that is divided without remainder.
fn part(whole: u64, shard: u32, of: NonZeroU32) -> u64 {
    let (of, shard) = (u64::from(of.get()), u64::from(shard));
    whole / of + u64::from(shard < whole % of)
}

/// A run that was played to its end.
pub(super) struct Played {
    pub(super) finished: Finished,
    /// What ended it early, if something failed.
    pub(super) trouble: Option<RunError>,
    /// The condition that ended it early.
    pub(super) broken: Option<Verdict>,
}

/// The threads of all shards, and the ways to them.
struct Senders<'scope> {
    shards: Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
    sources: Vec<SourceThread>,
    opened: Receiver<u32>,
    starts: Vec<Sender<Origin>>,
    used: Vec<Sender<ShardBatch>>,
}

impl Senders<'_> {
    /// Waits for all; the first failure among them, a sender's before a source's.
    fn trouble(self) -> Option<RunError> {
        let shards = self.shards.into_iter().map(|shard| match shard.join() {
            Ok(sent) => sent.err().map(RunError::Sender),
            Err(_) => Some(RunError::Panicked("sender")),
        });
        let sources = self.sources.into_iter().map(|source| match source.join() {
            Ok(made) => made.err().map(RunError::Source),
            Err(_) => Some(RunError::Panicked("source")),
        });
        // Every thread is joined, whatever the ones before it say.
        shards.chain(sources).fold(None, Option::or)
    }
}

const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Orders to stop take effect this much later, so that they reach every shard in time and all stop at
/// one instant of the schedule.
const STOP_NOTICE: Nanos = Nanos::from_millis(50);
/// Long enough to write the manifest and start the recorder.
const START_NOTICE: Nanos = Nanos::from_millis(50);
/// Blocks and samples on their way to the recorder at most.
const SEEN_IN_FLIGHT: usize = 256;
