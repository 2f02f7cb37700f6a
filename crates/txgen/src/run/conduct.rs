//! A run in progress: its threads, from their start to their end.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use chain::Loader;
use crossbeam_channel::{Receiver, Sender, bounded};
use harness::whole;
use measure::{Bar, Fate, Finished, Summary};
use pacing::Nanos;
use sender::clock::{Origin, RunClock};
use sender::shard::{
    BATCHES_IN_FLIGHT, Orders, Revision, ShardBatch, ShardChannels, ShardConfig, StopReason,
};
use sender::source::{Ring, SourceThread};

use super::conclude::PlayedRun;
use super::conclude::RunError;
use super::division::Division;
use super::follow::Follow;
use super::host::RowFiles;
use super::nodes::Node;
use super::own_nodes::NodeWatch;
use super::ramp::Course;
use super::record::{RecordChannels, Recording, Shared};
use super::{follow, host};
use crate::live::{Display, NodeBoard};
use crate::observe::Samples;
use crate::output::grouped;
use crate::plan::Plan;
use crate::shutdown::Shutdown;
use crate::threshold::ThresholdVerdict;
use harness::StartAt;

/// A run in progress, seen from the thread that watches it.
pub(super) struct Run<'a> {
    loader: Arc<dyn Loader>,
    pub(super) plan: &'a Plan,
    pub(super) nodes: &'a [Node],
    pub(super) orders: Orders,
    pub(super) clock: RunClock,
    pub(super) shutdown: &'a Shutdown,
    pub(super) built_in: bool,
    /// Where the followers report the state of the nodes.
    pub(super) board: Arc<NodeBoard>,
    /// Receives the sent transactions that other nodes are asked for.
    pub(super) samples: Option<Samples>,
}

impl<'a> Run<'a> {
    const fn division(&self) -> Division<'a> {
        Division::new(self.plan, self.nodes)
    }

    /// A run of this plan that has not begun.
    pub(super) fn new(
        plan: &'a Plan,
        nodes: &'a [Node],
        built_in: bool,
        shutdown: &'a Shutdown,
    ) -> Self {
        Self {
            loader: plan.loader(),
            plan,
            nodes,
            orders: Orders::default(),
            clock: RunClock::default(),
            shutdown,
            built_in,
            board: Arc::new(NodeBoard::new(nodes.iter().map(Node::state).collect())),
            samples: None,
        }
    }

    /// Plays the run to its end. Beside the account there may be a failure that ended it early, or a
    /// condition that did.
    pub(super) fn play(
        &self,
        rows: RowFiles,
        mut manifest: File,
        display: &mut Display,
    ) -> Result<PlayedRun, RunError> {
        let (batch_sender, batches) = bounded(BATCHES_IN_FLIGHT);
        let (seen_sender, seen) = bounded(SEEN_IN_FLIGHT);
        let follow = follow::start(
            self.plan,
            self.nodes,
            &self.clock,
            &seen_sender,
            &self.board,
        )
        .map_err(RunError::Failed)?;
        drop(seen_sender);
        let shared = Arc::new(Shared::default());
        self.orders
            .hold(self.division().ramp().is_some_and(|ramp| ramp.may_go_on()));
        thread::scope(|scope| {
            let begun = Instant::now();
            let senders = self.start_senders(scope, &batch_sender)?;
            if self.plan.signed_ahead > 0 {
                display.message(&self.signed_ahead(begun.elapsed()));
            }
            drop(batch_sender);
            let mut senders = self.await_senders(senders)?;
            let origin = self
                .await_origin()
                .inspect_err(|_| self.orders.abort(Nanos::ZERO))?;
            self.write_manifest(&mut manifest, origin)?;
            let error_ns = origin.error_ns();
            let channels = RecordChannels {
                batches,
                used: std::mem::take(&mut senders.used),
                seen,
                shared: shared.clone(),
                followers: follow.followers(),
                samples: self.samples.clone(),
                endpoints: self.nodes.iter().map(Node::url).collect(),
                block_gas: host::limits(self.plan, self.nodes).block_gas,
                own_nodes: NodeWatch::new(self.nodes),
            };
            let recording = Recording::new(self.plan, &self.orders, origin, rows, channels);
            let recorder = thread::Builder::new()
                .name("recorder".into())
                .spawn_scoped(scope, || recording.run(|| self.shutdown.is_requested()))
                .map_err(RunError::System)?;
            for start in senders.starts.drain(..) {
                let _ = start.send(origin);
            }
            let blind = self.watch(display, &shared, &follow, &recorder);
            display.end();
            let mut finished = recorder.join().map_err(|_| {
                // The shards' batches are not read any more: the shards must not wait for it.
                self.orders.abort(self.clock.now());
                RunError::Panicked("recorder")
            })?;
            self.tell_refusals(&mut finished.summary.fate);
            let set = host::clock_set(origin.error_ns().saturating_sub(error_ns));
            tell_obstacles(&mut finished.summary, blind, set);
            follow.stop();
            Ok(PlayedRun {
                finished,
                trouble: senders.trouble(),
                broken: shared.snapshot().and_then(|snapshot| snapshot.broken),
            })
        })
    }

    /// Adds what only the target and the workload know of refusals, and of what was no answer.
    fn tell_refusals(&self, fate: &mut Fate) {
        if let Some(texts) = self.loader.texts() {
            let texts = texts.lock();
            fate.rejected_by_text = texts.counts().clone();
            fate.unusable_by_text = texts.unusable().clone();
        }
        if let Some(sequences) = self.plan.workload.sequences() {
            fate.sequence_gaps = sequences.gaps();
        }
        fate.rejected_by_text.extend(self.plan.workload.refused());
    }

    /// How long it took to sign what is signed before the load begins.
    fn signed_ahead(&self, took: Duration) -> String {
        let planned = self.plan.planned().unwrap_or(u64::MAX);
        let signed = self.plan.signed_ahead.min(planned);
        let threads = self.plan.signing_threads;
        let rate =
            signed as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE) / f64::from(threads.get());
        format!(
            "{} transactions signed ahead in {:.1} s: {}/s for each of {threads} threads",
            grouped(signed),
            took.as_secs_f64(),
            grouped(rate as u64)
        )
    }

    /// The origin of the run: an instant from now, or the start that was agreed on.
    fn await_origin(&self) -> Result<Origin, RunError> {
        let Some(start) = self.plan.start_at else {
            return Ok(self.clock.start(START_NOTICE));
        };
        if await_start(start, START_NOTICE, self.shutdown)?.is_zero() {
            return Err(RunError::Failed(anyhow!(
                "the start {start} passed before all connections were up: nothing was sent; choose a later one"
            )));
        }
        Ok(self.clock.start_at(start.local_unix_ns(), start.ahead_ns()))
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
            let source = self.division().source(shard)?;
            let (ring, source) = self.loader.start_source(source).map_err(RunError::System)?;
            ring.await_full(&source);
            senders.sources.extend(source);
            let config = self.division().shard(shard)?;
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
            // The shards then report only that they were stopped.
            RunError::Interrupted => error,
            error => senders.trouble().unwrap_or(error),
        })
    }

    /// Runs one shard; one that fails ends the run for all.
    fn send(&self, config: ShardConfig, ring: Ring, channels: ShardChannels) -> io::Result<()> {
        let sent = self.loader.run_shard(config, ring, channels, &self.orders);
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

    /// Shows progress, passes on interruptions, and decides how a ramp goes on. Returns why it ended, where its steps could
    /// not be judged.
    fn watch(
        &self,
        display: &mut Display,
        shared: &Shared,
        follow: &Follow,
        recorder: &ScopedJoinHandle<'_, Finished>,
    ) -> Option<String> {
        let mut ramp = self.division().ramp();
        let (mut stopping, mut blind) = (false, None);
        let (mut warned, mut stopped) = (false, None);
        while !recorder.is_finished() {
            thread::sleep(WATCH_INTERVAL);
            let now = self.clock.now();
            stopping |= self.obey(display, shared, now, stopping);
            for note in follow.notes() {
                display.message(&format!("warning: {note}"));
            }
            let snapshot = shared.snapshot();
            let broken = snapshot.as_ref().and_then(|it| it.broken.as_ref());
            if !stopping && let Some(condition) = self.condition(broken) {
                stopping = true;
                self.stop(StopReason::Condition);
                display.message(&format!("stopped: {condition}; draining"));
                stopped = (!self.shutdown.is_over()).then_some(condition);
            }
            let Some(mut snapshot) = snapshot else {
                continue;
            };
            snapshot.update.live.stopped.clone_from(&stopped);
            if let Some(error) = &snapshot.write_error
                && !warned
            {
                warned = true;
                display.message(&format!("warning: {error}; counting goes on"));
            }
            if let Some(ramp) = ramp.as_mut().filter(|_| !stopping) {
                let course = ramp.look(&snapshot.update.new_steps, snapshot.unread, now);
                if let Course::Blind(reason) = &course {
                    blind = Some(reason.clone());
                }
                stopping |= self.go_on(course, display);
            }
            display.update(now, snapshot.update);
        }
        blind
    }

    /// What ends the load early: a condition that is broken here or at another generator of it.
    fn condition(&self, broken: Option<&ThresholdVerdict>) -> Option<String> {
        if self.shutdown.is_over() {
            return Some("another generator of the load was".to_owned());
        }
        let sequences = self.plan.workload.sequences().filter(|it| it.stops());
        let sequences = sequences.map(|it| {
            let causes: Vec<String> = it.gaps().into_keys().collect();
            let causes = causes.join("; ");
            format!("the sequence of an account is broken ({causes})")
        });
        sequences
            .or_else(|| broken.map(|it| format!("{} is broken ({})", it.text, it.value_text())))
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
                    let mut offering = self.division().offering(&schedule, shard);
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
            Course::Ended(reason) | Course::Blind(reason) => {
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

    fn write_manifest(&self, file: &mut File, origin: Origin) -> Result<(), RunError> {
        let manifest = host::manifest(self.plan, self.nodes, self.built_in, origin);
        whole(manifest.write_to(file), "manifest.json").map_err(|error| RunError::Record {
            files: vec!["manifest.json".into()],
            source: error.into(),
        })
    }
}

/// Waits until `lead` before a start that was agreed on with other generators; how far ahead the start
/// is then.
pub(super) fn await_start(
    start: StartAt,
    lead: Nanos,
    shutdown: &Shutdown,
) -> Result<Nanos, RunError> {
    loop {
        if shutdown.is_requested() {
            return Err(RunError::Interrupted);
        }
        let ahead = start
            .local_unix_ns()
            .saturating_sub(Origin::capture().unix_ns());
        let ahead = Nanos::from_nanos(ahead);
        if ahead <= lead {
            return Ok(ahead);
        }
        let left = ahead.saturating_sub(lead).as_duration();
        thread::sleep(left.min(LOOK_INTERVAL));
    }
}

/// Adds why blocks were not read by the end, unless what was read shows the knee all the same, and that the wall clock
/// was set.
fn tell_obstacles(summary: &mut Summary, blind: Option<String>, clock_set: Option<String>) {
    let is_told = summary.knee.is_some() || summary.verdict.bars.contains(&Bar::Commits);
    if let Some(reason) = blind.filter(|_| !is_told) {
        summary.verdict.bar(Bar::Commits, &reason);
    }
    summary.verdict.reasons.extend(clock_set);
}

/// The line for a note.
fn marked(text: &str, at: Nanos) -> String {
    format!("mark at {:.1} s: {text}", at.as_secs_f64())
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
        // Every thread is joined, whatever the ones before it return.
        shards.chain(sources).fold(None, Option::or)
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Orders to stop take effect this much later, so that they reach every shard in time and all stop at
/// one instant of the schedule.
const STOP_NOTICE: Nanos = Nanos::from_millis(50);
/// Long enough to write the manifest and start the recorder.
const START_NOTICE: Nanos = Nanos::from_millis(50);
/// Blocks and samples on their way to the recorder at most.
const SEEN_IN_FLIGHT: usize = 256;
