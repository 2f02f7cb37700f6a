//! A run from its plan to its summary.

mod builtin;
mod folder;
mod follow;
mod host;
mod preflight;
mod record;
pub mod saturation;

use std::fs::File;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use measure::{Finished, RunFolderWriters, ScheduleVerdict, Summary};
use pacing::{Nanos, Schedule};
use rpc::BroadcastMethod;

pub use builtin::BuiltInError;
pub use folder::{FolderError, RunFolder};
pub use follow::FollowSetupError;
pub use preflight::PreflightError;

use crate::clock::{Origin, RunClock};
use crate::exit;
use crate::plan::{Load, Plan, Target};
use crate::report::{self, Progress};
use crate::shard::{
    self, Address, BATCHES_IN_FLIGHT, Orders, ShardChannels, ShardConfig, ShardLoad, StopReason,
};
use crate::shutdown::Shutdown;
use crate::source::{self, Ring, SourceConfig};
use crate::threshold::Verdict as ThresholdVerdict;
use crate::workload::WorkloadError;
use builtin::BuiltInNode;
use follow::Follow;
use preflight::Node;
use record::{RecordChannels, Recording, Shared};

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The whole account.
    pub summary: Summary,
    /// The plan's conditions.
    pub thresholds: Vec<ThresholdVerdict>,
    /// The run folder.
    pub folder: PathBuf,
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The target cannot be measured.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The built-in node does not start.
    #[error(transparent)]
    BuiltIn(#[from] BuiltInError),
    /// Blocks cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowSetupError),
    /// The workload cannot be opened.
    #[error("the workload failed")]
    Workload(#[from] WorkloadError),
    /// The workload failed while the run went on; what was sent before is recorded.
    #[error("the workload failed during the run")]
    Source(#[source] WorkloadError),
    /// A sender failed.
    #[error("a sender failed")]
    Sender(#[source] io::Error),
    /// The record could not be written whole; the summary was still printed.
    #[error("the record is incomplete")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system refuses threads.
    #[error("cannot start a thread")]
    System(#[source] io::Error),
    /// The user stopped it before the first transaction.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
    /// One of our own threads panicked.
    #[error("the {0} thread panicked; this is a bug in txgen, please report it")]
    Panicked(&'static str),
}

impl Outcome {
    /// The process's exit code: an interruption beats an invalid schedule, which beats a threshold.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.summary.interrupted {
            exit::INTERRUPTED
        } else if self.summary.verdict.schedule == ScheduleVerdict::Invalid {
            exit::INVALID
        } else if self.thresholds.iter().any(|threshold| !threshold.held) {
            exit::THRESHOLD
        } else {
            exit::DONE
        }
    }
}

/// Runs a plan: checks the target, opens the folder, offers, follows, drains, writes and prints.
///
/// Progress goes to stderr, the final table to stdout. A request to shut down ends the offering and
/// drains; a second one leaves at once; everything recorded is written either way.
///
/// # Errors
/// Before the first transaction when the target, the folder or the workload cannot be used; after the
/// run when a thread failed or the record could not be written.
pub fn run(plan: &Plan, shutdown: &Shutdown) -> Result<Outcome, RunError> {
    let guest = match &plan.target {
        Target::BuiltIn { config, .. } => Some(BuiltInNode::start((**config).clone())?),
        Target::Endpoints(_) => None,
    };
    let nodes = preflight::check(plan, guest.as_ref().map(BuiltInNode::address))?;
    let folder = RunFolder::create(
        plan.out
            .clone()
            .unwrap_or_else(|| host::default_folder(plan.shape())),
    )?;
    let files = Files::open(&folder)?;
    let progress = Progress::new(plan);
    introduce(&progress, plan, &folder);
    let run = Run {
        plan,
        nodes: &nodes,
        orders: Orders::default(),
        clock: RunClock::default(),
        shutdown,
        built_in: guest.is_some(),
    };
    let (finished, trouble) = run.play(files.writers, files.manifest, progress)?;
    drop(guest);
    let outcome = conclude(plan, &folder, files.summary, finished)?;
    trouble.map_or(Ok(outcome), Err)
}

fn introduce(progress: &Progress, plan: &Plan, folder: &RunFolder) {
    progress.message(&format!("target   {}", report::describe_target(plan)));
    progress.message(&format!(
        "load     {}; {}; seed {}",
        report::describe_load(&plan.load),
        plan.workload,
        plan.seed
    ));
    progress.message(&format!("writing  {}", folder.path().display()));
    if plan.method == BroadcastMethod::Commit {
        progress.message(
            "note     broadcast_tx_commit is answered when the block is made: a connection carries about one \
             transaction per block",
        );
    }
}

/// Writes and prints the summary, and checks the thresholds.
fn conclude(
    plan: &Plan,
    folder: &RunFolder,
    mut summary_file: File,
    finished: Finished,
) -> Result<Outcome, RunError> {
    let summary = finished.summary;
    let written = summary.write_to(&mut summary_file);
    let document = serde_json::to_value(&summary).unwrap_or_default();
    let thresholds: Vec<ThresholdVerdict> = plan
        .thresholds
        .iter()
        .map(|threshold| threshold.check(&document))
        .collect();
    let mut text = report::table(&summary, &thresholds);
    text.push_str(&format!("written to   {}\n", folder.path().display()));
    // A reader that has gone does not make the run a failure.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    if let Some(error) = finished.error {
        return Err(RunError::Record(error.into()));
    }
    written.map_err(|error| RunError::Record(error.into()))?;
    Ok(Outcome {
        summary,
        thresholds,
        folder: folder.path().into(),
    })
}

/// All files of the folder, open.
struct Files {
    writers: RunFolderWriters<File>,
    manifest: File,
    summary: File,
}

impl Files {
    fn open(folder: &RunFolder) -> Result<Self, FolderError> {
        Ok(Self {
            manifest: folder.open("manifest.json")?,
            writers: RunFolderWriters {
                txs: folder.open("txs.csv")?,
                series: folder.open("series.csv")?,
                steps: folder.open("steps.csv")?,
                blocks: folder.open("blocks.csv")?,
                hlog: folder.open("latency.hlog")?,
            },
            summary: folder.open("summary.json")?,
        })
    }
}

/// A run in progress, seen from the thread that watches it.
struct Run<'a> {
    plan: &'a Plan,
    nodes: &'a [Node],
    orders: Orders,
    clock: RunClock,
    shutdown: &'a Shutdown,
    built_in: bool,
}

type SourceThread = JoinHandle<Result<(), WorkloadError>>;

impl Run<'_> {
    fn play(
        &self,
        writers: RunFolderWriters<File>,
        mut manifest: File,
        mut progress: Progress,
    ) -> Result<(Finished, Option<RunError>), RunError> {
        let (batch_sender, batches) = bounded(BATCHES_IN_FLIGHT);
        let (seen_sender, seen) = bounded(SEEN_IN_FLIGHT);
        let follow = follow::start(self.plan, self.nodes, &self.clock, &seen_sender)?;
        drop(seen_sender);
        let shared = Arc::new(Shared::default());
        thread::scope(|scope| {
            let (opened_sender, opened) = bounded(self.plan.threads.get() as usize);
            let mut used = Vec::new();
            let mut starts = Vec::new();
            let mut shards = Vec::new();
            let mut sources: Vec<SourceThread> = Vec::new();
            for shard in 0..self.plan.threads.get() {
                let (used_sender, empty) = bounded(BATCHES_IN_FLIGHT);
                let (start_sender, start) = bounded(1);
                let channels = ShardChannels {
                    full: batch_sender.clone(),
                    empty,
                    opened: opened_sender.clone(),
                    start,
                };
                let (ring, source) =
                    source::spawn(self.source(shard)?).map_err(RunError::System)?;
                ring.await_full(&source);
                sources.push(source);
                let config = self.shard(shard);
                let thread = thread::Builder::new()
                    .name(format!("sender-{shard}"))
                    .spawn_scoped(scope, || self.send(config, ring, channels))
                    .map_err(RunError::System)?;
                shards.push(thread);
                used.push(used_sender);
                starts.push(start_sender);
            }
            drop((batch_sender, opened_sender));
            if let Err(error) = self.await_shards(&opened, &shards) {
                self.orders.abort(Nanos::ZERO);
                drop(starts);
                return Err(match error {
                    // What the shards say then is only that they were called off.
                    RunError::Interrupted => error,
                    error => first_error(shards).unwrap_or(error),
                });
            }
            if self.shutdown.is_requested() {
                self.orders.abort(Nanos::ZERO);
                return Err(RunError::Interrupted);
            }
            let origin = self.clock.start(START_NOTICE);
            self.write_manifest(&mut manifest, origin)?;
            let channels = RecordChannels {
                batches,
                used,
                seen,
            };
            let recording = Recording::new(
                self.plan,
                &self.orders,
                origin,
                writers,
                channels,
                shared.clone(),
                follow.followers(),
            );
            let recorder = thread::Builder::new()
                .name("recorder".into())
                .spawn_scoped(scope, || recording.run(|| self.shutdown.is_requested()))
                .map_err(RunError::System)?;
            for start in starts {
                let _ = start.send(origin);
            }
            self.watch(&mut progress, &shared, &follow, &recorder);
            progress.finish();
            let finished = recorder.join().map_err(|_| {
                // Nobody reads the shards' batches any more: they must not wait for it.
                self.orders.abort(self.clock.now());
                RunError::Panicked("recorder")
            })?;
            follow.stop();
            let trouble = first_error(shards).or_else(|| sources.into_iter().find_map(failure));
            Ok((finished, trouble))
        })
    }

    /// Runs one shard; one that fails ends the run for all.
    fn send(&self, config: ShardConfig, ring: Ring, channels: ShardChannels) -> io::Result<()> {
        let sent = shard::run(config, ring, channels, &self.orders);
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

    /// Shows progress, passes on interruptions, and ends a saturated ramp.
    fn watch(
        &self,
        progress: &mut Progress,
        shared: &Shared,
        follow: &Follow,
        recorder: &ScopedJoinHandle<'_, Finished>,
    ) {
        let mut steps = Vec::new();
        let mut stopping = false;
        let mut warned = false;
        while !recorder.is_finished() {
            thread::sleep(WATCH_INTERVAL);
            let now = self.clock.now();
            // Orders first: they name an instant ahead, and messages may take their time.
            if self.shutdown.is_requested() && !stopping {
                stopping = true;
                self.stop(StopReason::Interrupted);
                progress.message(
                    "interrupted: no more is offered; draining (Ctrl-C again leaves at once)",
                );
            }
            if self.shutdown.is_urgent() {
                self.orders
                    .abort(self.clock.now().saturating_add(STOP_NOTICE));
            }
            for note in follow.notes() {
                progress.message(&format!("warning: {note}"));
            }
            let Some(glance) = shared.glance() else {
                continue;
            };
            progress.update(now, &glance.live, glance.draining);
            if let Some(error) = glance.write_error
                && !warned
            {
                warned = true;
                progress.message(&format!("warning: {error}; counting goes on"));
            }
            steps.extend(glance.new_steps);
            if !stopping && self.stops_when_saturated() {
                let judgement = saturation::judge(&steps, self.plan.follow);
                if judgement.saturated {
                    stopping = true;
                    self.stop(StopReason::Saturated);
                    progress.message(&format!("saturated: {}", judgement.reason));
                }
            }
        }
    }

    /// Ends the offering an instant from now, so that every shard knows it in time.
    fn stop(&self, reason: StopReason) {
        self.orders
            .stop(self.clock.now().saturating_add(STOP_NOTICE), reason);
    }

    fn stops_when_saturated(&self) -> bool {
        matches!(
            self.plan.load,
            Load::Open {
                stop_when_saturated: true,
                ..
            }
        )
    }

    fn source(&self, shard: u32) -> Result<SourceConfig, WorkloadError> {
        Ok(SourceConfig {
            stream: self.plan.workload.open()?,
            method: self.plan.method,
            shard,
            of: self.plan.threads,
            end: self.end(),
        })
    }

    /// The first index that is not offered.
    fn end(&self) -> u64 {
        let planned = match &self.plan.load {
            Load::Open { .. } => u64::MAX,
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

    fn shard(&self, shard: u32) -> ShardConfig {
        let of = self.plan.threads.get();
        let load = match &self.plan.load {
            Load::Open {
                schedule,
                reconnect_in_pauses,
                ..
            } => ShardLoad::Open {
                dues: Box::new(schedule.shard(shard, self.plan.threads)),
                profile: schedule.profile().clone(),
                end: self.end(),
                ends_at: self.ends_at(schedule),
                reconnect_in_pauses: *reconnect_in_pauses,
            },
            Load::Flood { concurrency, .. } => ShardLoad::Flood {
                end: self.end(),
                slots: part(u64::from(concurrency.get()), shard, self.plan.threads) as usize,
            },
        };
        ShardConfig {
            shard,
            of,
            connections: self.connections(shard),
            catch_up: self.plan.catch_up,
            max_in_flight: part(self.plan.max_in_flight, shard, self.plan.threads).max(1) as usize,
            answer_timeout: self.plan.answer_timeout,
            drain_timeout: self.plan.drain_timeout,
            spin: self.plan.spin,
            load,
        }
    }

    /// This shard's connections, the endpoints in turn.
    fn connections(&self, shard: u32) -> Vec<Address> {
        (0..self.plan.connections.get() as usize)
            // Another order in each round, so that every shard gets connections to every node.
            .flat_map(|round| {
                let nodes = self.nodes.iter().cycle().skip(round % self.nodes.len());
                nodes.take(self.nodes.len()).map(|node| &node.address)
            })
            .skip(shard as usize)
            .step_by(self.plan.threads.get() as usize)
            .cloned()
            .collect()
    }

    fn write_manifest(&self, file: &mut File, origin: Origin) -> Result<(), RunError> {
        host::manifest(self.plan, self.nodes, self.built_in, origin)
            .write_to(file)
            .map_err(|error| RunError::Record(error.into()))
    }
}

/// The `shard`-th part of a whole that is divided without remainder.
fn part(whole: u64, shard: u32, of: NonZeroU32) -> u64 {
    let (of, shard) = (u64::from(of.get()), u64::from(shard));
    whole / of + u64::from(shard < whole % of)
}

/// How a source failed, if it did.
fn failure(source: SourceThread) -> Option<RunError> {
    match source.join() {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(RunError::Source(error)),
        Err(_) => Some(RunError::Panicked("source")),
    }
}

fn first_error(shards: Vec<ScopedJoinHandle<'_, io::Result<()>>>) -> Option<RunError> {
    let mut first = None;
    for shard in shards {
        let error = match shard.join() {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => RunError::Sender(error),
            Err(_) => RunError::Panicked("sender"),
        };
        first.get_or_insert(error);
    }
    first
}

const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Orders to stop take effect this much later, so that every shard knows them in time and all stop at
/// one instant of the schedule.
const STOP_NOTICE: Nanos = Nanos::from_millis(50);
/// Long enough to write the manifest and start the recorder.
const START_NOTICE: Nanos = Nanos::from_millis(50);
/// Blocks and samples on their way to the recorder at most.
const SEEN_IN_FLIGHT: usize = 256;
