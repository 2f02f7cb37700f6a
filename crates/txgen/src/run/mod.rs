//! A run from its plan to its summary.

mod builtin;
mod conduct;
mod folder;
mod follow;
mod host;
mod preflight;
mod prepare;
mod ramp;
mod record;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use devnode::DevNodeError;
use measure::read::TxFate;
use measure::{RecordError, RunFolderWriters, ScheduleVerdict, Summary};
use ops::command::{CommandError, failed};
use pacing::Nanos;
use rpc::BroadcastMethod;

pub use builtin::BuiltInError;
pub use folder::{FolderError, RunFolder};
pub use follow::FollowSetupError;
pub use preflight::PreflightError;
pub use prepare::PreparationError;

use crate::clock::Origin;
use crate::exit;
use crate::folder::RecordedRun;
use crate::live::{Display, DisplayError, DisplaySettings, Scene};
use crate::output::{self, recorded};
use crate::plan::{Nodes, Plan};
use crate::profiler::{Profile, Profiler, ProfilerError};
use crate::settings::AtMaxInFlight;
use crate::shutdown::Shutdown;
use crate::start_at::{StartAt, StartAtError};
use crate::target::{Target, TargetVisitor};
use crate::threshold::Verdict as ThresholdVerdict;
use crate::workload::WorkloadError;
pub(crate) use builtin::BuiltInNode;
use conduct::{Played, Run};
pub(crate) use host::{default_folder, host};

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The whole account.
    pub summary: Summary,
    /// The plan's conditions.
    pub thresholds: Vec<ThresholdVerdict>,
    /// The condition that ended the run early.
    pub stopped_by: Option<ThresholdVerdict>,
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
    /// What the load builds on could not be committed.
    #[error(transparent)]
    Preparation(PreparationError),
    /// The process to sample cannot be sampled; nothing was sent.
    #[error(transparent)]
    Profiler(ProfilerError),
    /// The profile is missing; the run itself is recorded.
    #[error("the run is recorded, its profile is not")]
    Profile(#[source] ProfilerError),
    /// It cannot be shown as asked.
    #[error(transparent)]
    Display(#[from] DisplayError),
    /// Blocks cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowSetupError),
    /// The workload cannot be opened.
    #[error("the workload failed")]
    Workload(#[from] WorkloadError),
    /// The workload failed while the run went on; what was sent before is recorded.
    #[error("the workload failed during the run")]
    Source(#[source] WorkloadError),
    /// The figures are those of two loads.
    #[error(
        "the run is recorded, but somebody else used {account} while it went on: its figures are not those of this \
         load alone; give every generator accounts of its own (--shard, another --seed or --hd-path)"
    )]
    ForeignUse {
        /// The first account where that was seen.
        account: String,
    },
    /// A sender failed.
    #[error("a sender failed")]
    Sender(#[source] io::Error),
    /// The record could not be written whole; the summary was still printed.
    #[error("the record is incomplete: {} cannot be used", .files.join(", "))]
    Record {
        /// The files that lack something.
        files: Vec<String>,
        /// What went wrong first.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refuses threads.
    #[error("cannot start a thread")]
    System(#[source] io::Error),
    /// Connecting took longer than there was time.
    #[error(
        "the start {start} passed before all connections were up: nothing was sent; choose a later one"
    )]
    Late {
        /// The instant that was agreed on.
        start: StartAt,
    },
    /// The start that was agreed on is no use.
    #[error("--start-at")]
    StartAt(#[from] StartAtError),
    /// The user stopped it before the first transaction.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
    /// One of our own threads panicked.
    #[error("the {0} thread panicked; this is a bug in txgen, please report it")]
    Panicked(&'static str),
}

impl RunError {
    /// The process's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Folder(_)
            | Self::Preflight(_)
            | Self::Profiler(_)
            | Self::StartAt(_)
            | Self::Display(_)
            | Self::BuiltIn(BuiltInError::Node(DevNodeError::Config(_))) => exit::USAGE,
            Self::Interrupted => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        Self {
            code: error.exit_code(),
            source: error.into(),
        }
    }
}

impl Outcome {
    /// The ids of accepted transactions that no block has shown, some of them. None where the record
    /// cannot be read.
    pub(crate) fn uncommitted(&self) -> Vec<String> {
        let mut ids = Vec::new();
        if self.summary.fate.pending == 0 {
            return ids;
        }
        let Ok(mut txs) = RecordedRun::open(&self.folder).and_then(|run| run.txs()) else {
            return ids;
        };
        while let Ok(Some(tx)) = txs.next_row()
            && ids.len() < MOST_UNCOMMITTED
        {
            if tx.fate() == TxFate::Pending {
                ids.push(tx.txid.to_owned());
            }
        }
        ids
    }

    /// The process's exit code: an interruption beats an invalid schedule, which beats a threshold.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.summary.interrupted {
            exit::INTERRUPTED
        } else if self.summary.verdict.schedule == ScheduleVerdict::Invalid {
            exit::INVALID
        } else if self.stopped_by.is_some()
            || self.thresholds.iter().any(|threshold| !threshold.held)
        {
            exit::THRESHOLD
        } else {
            exit::DONE
        }
    }
}

/// Runs a plan: checks the target, opens the folder, offers, follows, drains, writes and prints.
///
/// A request to shut down ends the offering and drains; a second one leaves at once; everything
/// recorded is written either way.
///
/// # Errors
/// Before the first transaction when the target, the folder or the workload cannot be used, or the
/// metrics cannot be served; after the run when a thread failed or the record could not be written.
pub fn run(plan: &Plan, shutdown: &Shutdown) -> Result<Outcome, RunError> {
    start(plan, shutdown, Words::All)
}

/// As [`run`], with as many messages as are wanted.
fn start(plan: &Plan, shutdown: &Shutdown, words: Words) -> Result<Outcome, RunError> {
    let mut display = Display::open(&DisplaySettings::of(plan), shutdown)?;
    start_on(plan, shutdown, words, &mut display)
}

/// As [`start`], ended by signals.
pub(crate) fn start_on_signals(plan: &Plan, words: Words) -> Result<Outcome, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    Ok(start(plan, &shutdown, words)?)
}

/// As [`run`], on a display that may have shown other runs before and may show others after it.
pub(crate) fn start_on(
    plan: &Plan,
    shutdown: &Shutdown,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    let guest = guest(plan)?;
    let address = guest.as_ref().map(BuiltInNode::address);
    perform(plan, address, shutdown, words, display)
}

/// The built-in node of the plan, if it has one. It stops when it is dropped.
pub(crate) fn guest(plan: &Plan) -> Result<Option<BuiltInNode>, BuiltInError> {
    match &plan.nodes {
        Nodes::BuiltIn { config, .. } => {
            BuiltInNode::start((**config).clone(), plan.target.facts()).map(Some)
        }
        Nodes::Endpoints(_) => Ok(None),
    }
}

/// Whether the target can be measured, without measuring it.
pub(crate) fn check_target(plan: &Plan, guest: Option<SocketAddr>) -> Result<(), PreflightError> {
    struct Check<'a>(&'a Plan, Option<SocketAddr>);
    impl TargetVisitor for Check<'_> {
        type Output = Result<(), PreflightError>;

        fn visit<T: Target>(self) -> Self::Output {
            preflight::check(&self.0.target::<T>(), self.0, self.1).map(drop)
        }
    }
    plan.target.visit(Check(plan, guest))
}

/// How much a run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// What it does, every second, and the final table.
    All,
    /// Only warnings. For one run of many; a full-screen view still shows everything.
    Few,
}

/// Plays a run; `guest` is the address of the plan's built-in node, if it has one.
pub(crate) fn perform(
    plan: &Plan,
    guest: Option<SocketAddr>,
    shutdown: &Shutdown,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    plan.target.visit(Performance {
        plan,
        guest,
        shutdown,
        words,
        display,
    })
}

/// A run, before it is known what kind of target it has.
struct Performance<'a> {
    plan: &'a Plan,
    guest: Option<SocketAddr>,
    shutdown: &'a Shutdown,
    words: Words,
    display: &'a mut Display,
}

impl TargetVisitor for Performance<'_> {
    type Output = Result<Outcome, RunError>;

    fn visit<T: Target>(self) -> Self::Output {
        let Self {
            plan,
            guest,
            shutdown,
            words,
            display,
        } = self;
        let target: T = plan.target();
        if let Some(start) = plan.start_at {
            start.check(Origin::capture().unix_ns())?;
        }
        let nodes = preflight::check(&target, plan, guest)?;
        let learnt = preflight::learn(&target, plan, &nodes)?;
        let plan = learnt.as_ref().unwrap_or(plan);
        let target: T = plan.target();
        let slowest = nodes.iter().map(|node| node.round_trip).max();
        let plan = &plan.grown(slowest.unwrap_or_default(), nodes.len());
        let connections = u64::from(plan.connections.get()) * nodes.len() as u64;
        allow_open_files(connections, guest.is_some());
        let profiler = plan.profiling.as_ref().map(Profiler::check).transpose();
        let profiler = profiler.map_err(RunError::Profiler)?;
        let folder = RunFolder::create(
            plan.out
                .clone()
                .unwrap_or_else(|| default_folder(plan.shape())),
        )?;
        let files = Files::open(&folder)?;
        if words == Words::All {
            introduce(display, plan, &folder);
        }
        prepare::prepare::<T>(plan, guest, &folder, shutdown, words, display)?;
        let run = Run::new(target, plan, &nodes, guest.is_some(), shutdown);
        display.begin(Scene {
            brief: words == Words::Few,
            limits: host::limits(plan, &nodes),
            ..Scene::of(plan, Arc::clone(&run.board))
        });
        if let Some(start) = plan.start_at {
            // Connections that are open for long and idle would be closed by the node.
            await_start(start, OPENING_LEAD, shutdown)?;
        }
        let sampling = profiler.map(|profiler| profiler.attach(folder.path()));
        let sampling = sampling.transpose().map_err(RunError::Profiler)?;
        let mut played = run.play(files.writers, files.manifest, display)?;
        let profile = sampling.map(|sampling| sampling.finish(folder.path()));
        let (profile, unprofiled) = match profile {
            Some(Ok(profile)) => (Some(profile), None),
            Some(Err(error)) => (None, Some(RunError::Profile(error))),
            None => (None, None),
        };
        let foreign = plan.workload.sequences().and_then(|all| all.foreign());
        let foreign = foreign.map(|account| RunError::ForeignUse { account });
        let trouble = played.trouble.take().or(unprofiled).or(foreign);
        let outcome = conclude(
            plan,
            &folder,
            files.summary,
            played,
            profile.as_ref(),
            words,
            display,
        )?;
        trouble.map_or(Ok(outcome), Err)
    }
}

/// Raises the limit of open files for `connections` of our own and, with a built-in node, its ends of
/// them. Where the hard limit is lower, opening the connections fails with a message.
fn allow_open_files(connections: u64, built_in: bool) {
    let ends = if built_in { 2 } else { 1 };
    let _ = ops::open_files::allow(connections.saturating_mul(ends));
}

fn introduce(display: &mut Display, plan: &Plan, folder: &RunFolder) {
    display.message(&format!("target   {}", output::describe_target(plan)));
    display.message(&format!(
        "load     {}; {}; seed {}",
        output::describe_load(&plan.load),
        plan.workload,
        plan.seed
    ));
    if plan.at_max_in_flight == AtMaxInFlight::Wait {
        display.message(&format!(
            "limit    {} in flight; what is due beyond waits for answers and leaves late, in its order",
            output::grouped(plan.max_in_flight)
        ));
    }
    if let Some(profiling) = &plan.profiling {
        display.message(&format!("sampling {profiling}"));
    }
    display.message(&format!("writing  {}", folder.path().display()));
    if let Some(address) = display.metrics_address() {
        display.message(&format!("metrics  http://{address}/metrics"));
    }
    if !plan.part.is_whole() {
        display.message(&format!(
            "part     {} of the load: {} transactions of {}",
            plan.part,
            plan.planned().map_or("?".into(), output::grouped),
            plan.planned_by_all().map_or("?".into(), output::grouped),
        ));
    }
    if let Some(start) = plan.start_at {
        display.message(&format!("start    {start}"));
    }
    if plan.method == BroadcastMethod::Commit {
        display.message(
            "note     a commit is answered when the block is made: a connection carries about one transaction \
             per block",
        );
    }
}

/// Waits until `lead` before a start that was agreed on with other generators; how far ahead the start
/// is then.
fn await_start(start: StartAt, lead: Nanos, shutdown: &Shutdown) -> Result<Nanos, RunError> {
    loop {
        if shutdown.is_requested() {
            return Err(RunError::Interrupted);
        }
        let ahead = start.unix_ns().saturating_sub(Origin::capture().unix_ns());
        let ahead = Nanos::from_nanos(ahead);
        if ahead <= lead {
            return Ok(ahead);
        }
        let left = ahead.saturating_sub(lead).as_duration();
        thread::sleep(left.min(LOOK_INTERVAL));
    }
}

/// Writes and prints the summary, and checks the thresholds.
fn conclude(
    plan: &Plan,
    folder: &RunFolder,
    mut summary_file: File,
    played: Played,
    profile: Option<&Profile>,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    let Played {
        finished,
        broken: stopped_by,
        ..
    } = played;
    let summary = finished.summary;
    let record = record_error(
        &summary,
        finished.error,
        summary.write_to(&mut summary_file),
    );
    let document = serde_json::to_value(&summary).unwrap_or_default();
    let thresholds: Vec<ThresholdVerdict> = plan
        .thresholds
        .iter()
        .map(|threshold| threshold.check(&document))
        .collect();
    if words == Words::All {
        let mut text = output::table(&summary, &thresholds, stopped_by.as_ref());
        if let Some(profile) = profile {
            text.push_str(&profile.text(PROFILE_ROWS));
        }
        text.push_str(&format!("written to   {}\n", folder.path().display()));
        if let Some(error) = &record {
            text.push_str(&format!("but          {error}\n"));
        }
        display.result(&text);
    }
    drop(summary_file);
    draw(folder, words, display);
    match record {
        Some(error) => Err(error),
        None => Ok(Outcome {
            summary,
            thresholds,
            stopped_by,
            folder: folder.path().into(),
        }),
    }
}

/// Which files of the folder lack something, if any does, and why.
fn record_error(
    summary: &Summary,
    rows: Option<RecordError>,
    written: io::Result<()>,
) -> Option<RunError> {
    let mut files = summary.recorder.incomplete_files.clone();
    if written.is_err() {
        files.push("summary.json".into());
    }
    let source = match (rows, written) {
        (Some(error), _) => error.into(),
        (None, Err(error)) => error.into(),
        (None, Ok(())) => return None,
    };
    Some(RunError::Record { files, source })
}

/// Writes `report.html`. The run is recorded whatever comes of it, and `txgen report` draws it again.
fn draw(folder: &RunFolder, words: Words, display: &mut Display) {
    match recorded::write_html_after_run(folder.path()) {
        Ok(page) if words == Words::All => {
            display.result(&format!("report       {}\n", page.display()));
        }
        Ok(_) => {}
        Err(error) => display.message(&format!(
            "warning: {:#}; `txgen report {}` makes it from the record",
            anyhow::Error::from(error),
            folder.path().display()
        )),
    }
}

/// Enough to see whether a node still works on what it took.
const MOST_UNCOMMITTED: usize = 64;
/// The functions of a profile that are printed; all are in profile.txt.
const PROFILE_ROWS: usize = 10;

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

/// Connections are opened this long before a start that was agreed on: below the ten seconds after
/// which a CometBFT node closes idle ones.
const OPENING_LEAD: Nanos = Nanos::from_secs(4);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use measure::{ClosedLoop, Recorder, RecorderConfig, RunEnd};

    use super::*;

    #[test]
    fn a_summary_that_a_full_disk_did_not_take_is_named() {
        let writers = RunFolderWriters {
            txs: io::sink(),
            series: io::sink(),
            steps: io::sink(),
            blocks: io::sink(),
            hlog: io::sink(),
        };
        let plan = ClosedLoop::new(pacing::Step {
            index: 0,
            start: Nanos::ZERO,
            end: None,
            rate: pacing::Rate::ZERO,
            pause: false,
            again_of: None,
        });
        let recorder = Recorder::new(RecorderConfig::new(0, 1, 0), plan, writers);
        let mut summary = recorder.finish(RunEnd::default()).summary;
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = record_error(&summary, None, summary.write_to(&mut full)).unwrap();
        assert_eq!(
            error.to_string(),
            "the record is incomplete: summary.json cannot be used"
        );
        assert!(
            error
                .source()
                .unwrap()
                .to_string()
                .contains("No space left")
        );
        summary.recorder.incomplete_files = vec!["txs.csv".into()];
        let error = record_error(&summary, None, summary.write_to(&mut full)).unwrap();
        assert!(error.to_string().contains("txs.csv, summary.json"));
        assert!(record_error(&summary, None, summary.write_to(&mut io::sink())).is_none());
    }
}
