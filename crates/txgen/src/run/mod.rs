//! A run from its plan to its summary.

mod conclude;
mod conduct;
mod division;
mod follow;
mod host;
mod nodes;
mod own_nodes;
mod prepare;
mod ramp;
mod record;

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use chain::{ChainError, Settled, Supplied, Supply};
pub use harness::RunFolder;
pub(crate) use harness::default_folder;
use measure::judge::name_stage;
use measure::{LimitedBy, NodeRow, ScheduleVerdict, Summary};
use ops::command::{CommandError, failed};
use pacing::Nanos;
use sender::clock::{Origin, RunClock};

pub use self::conclude::Outcome;
pub use self::conclude::RunError;
pub(crate) use self::conclude::Words;
use self::conclude::{conclude, introduce};
use self::conduct::{Run, await_start};
pub(crate) use self::host::{host, observed_tables, open_all};
pub use self::own_nodes::BuiltInError;
pub(crate) use self::own_nodes::BuiltInNode;
use self::prepare::Preparation;
use crate::chains::TargetKind;
use crate::folder::rows_if_any;
use crate::live::{Display, RunInfo};
use crate::observe;
use crate::observe::{Chosen, Observation, Observers};
use crate::plan::{Guest, Nodes, Plan};
use crate::profiler::{Profile, Profiler};
use crate::shutdown::Shutdown;

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
    let mut display = Display::open(&plan.display, shutdown)?;
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
    let address = guest.as_ref().map(BuiltInNode::guest);
    perform(plan, address, shutdown, words, display)
}

/// The built-in node of the plan, if it has one. It stops when it is dropped.
pub(crate) fn guest(plan: &Plan) -> Result<Option<BuiltInNode>, BuiltInError> {
    match &plan.nodes {
        Nodes::BuiltIn { node, .. } => BuiltInNode::start((**node).clone(), plan.target).map(Some),
        Nodes::Endpoints(_) => Ok(None),
    }
}

/// Whether the target can be measured, without measuring it.
pub(crate) fn check_target(
    plan: &Plan,
    guest: Option<Guest>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    nodes::check(plan, guest, shutdown).map(drop)
}

/// Plays a run; `guest` is the address of the plan's built-in node, if it has one.
pub(crate) fn perform(
    plan: &Plan,
    guest: Option<Guest>,
    shutdown: &Shutdown,
    words: Words,
    display: &mut Display,
) -> Result<Outcome, RunError> {
    check_start(plan)?;
    let nodes = nodes::check(plan, guest, shutdown)?;
    let nodes = nodes.ok_or(RunError::Interrupted)?;
    let learnt = nodes::learn(plan, &nodes)?;
    let plan = learnt.as_ref().unwrap_or(plan);
    let slowest = nodes.iter().map(|node| node.round_trip).max();
    let plan = &plan.grown(slowest.unwrap_or_default(), nodes.len());
    allow_open_files(plan, nodes.len(), guest.is_some());
    let profiler = plan.profiled.map(Profiler::check).transpose()?;
    let folder = open_folder(plan)?;
    let files = open_all(&folder, plan.rows)?;
    if words == Words::All {
        introduce(display, plan, &folder);
    }
    let preparation = Preparation {
        plan,
        nodes: &nodes,
        guest,
        folder: &folder,
        shutdown,
        words,
    };
    preparation.perform(display)?;
    let supplied = supply(plan, guest, &nodes, &folder, shutdown, &mut |text| {
        if words == Words::All {
            display.message(text);
        }
    })?;
    let mut run = Run::new(plan, &nodes, guest.is_some(), shutdown);
    let observers = observers(plan, &run.clock, &folder, shutdown)?;
    run.samples = observers.as_ref().map(Observers::samples);
    display.begin(RunInfo {
        brief: words == Words::Few,
        limits: host::limits(plan, &nodes),
        ..RunInfo::of(plan, Arc::clone(&run.board))
    });
    if let Some(start) = plan.start_at {
        await_start(start, OPENING_LEAD, shutdown)?;
    }
    let sampling = profiler.map(|profiler| profiler.attach(folder.path()));
    let sampling = sampling.transpose()?;
    let mut played = run.play(files.rows, files.manifest, display)?;
    let observed = stop(observers, &run.clock);
    take_in(&mut played.finished.summary, &observed, &folder);
    let profile = sampling.map(|sampling| sampling.finish(folder.path()));
    let settled = supplied.map(|it| it.settle(folder.path())).transpose();
    blame(&mut played.finished.summary, settled.as_ref().ok());
    let (profile, unprofiled) = split(profile.transpose());
    let trouble = played.trouble.take().or(unprofiled);
    let trouble = trouble.or_else(|| foreign_use(plan));
    let outcome = conclude(
        plan,
        &folder,
        files.summary,
        played,
        profile.as_ref(),
        words,
        display,
    )?;
    let settled = settled?.map(|settled| settled.lines).unwrap_or_default();
    display_result(display, words, &(settled + &observed.text()));
    trouble.map_or(Ok(outcome), Err)
}

/// Whether the start that was asked for is still to come.
fn check_start(plan: &Plan) -> anyhow::Result<()> {
    let Some(start) = plan.start_at else {
        return Ok(());
    };
    start
        .check(Origin::capture().unix_ns())
        .context("--start-at")
}

/// What the workload needs beside transactions.
fn supply(
    plan: &Plan,
    guest: Option<Guest>,
    nodes: &[nodes::Node],
    folder: &RunFolder,
    shutdown: &Shutdown,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Box<dyn Supplied>>, ChainError> {
    let chain_id = nodes
        .first()
        .and_then(|node| node.probe.chain_id.as_deref());
    let endpoint = plan.nodes.rpc(guest);
    let observed = plan.observe.iter().map(|node| &node.endpoint);
    let others: Vec<_> = observed
        .filter(|it| Some(*it) != endpoint.as_ref())
        .cloned()
        .collect();
    plan.workload.supply(Supply {
        endpoint: endpoint.as_ref(),
        others: &others,
        trust: &plan.trust,
        chain_id,
        folder: folder.path(),
        is_cancelled: &|| shutdown.is_requested(),
        say,
    })
}

/// The folder of the plan, or one named after when it began.
fn open_folder(plan: &Plan) -> anyhow::Result<RunFolder> {
    let out = plan.out.clone();
    RunFolder::create(out.unwrap_or_else(|| default_folder(plan.shape())))
}

/// Shows what was found beside the load, if anything was and it is wanted.
fn display_result(display: &mut Display, words: Words, text: &str) {
    if words == Words::All && !text.is_empty() {
        display.result(text);
    }
}

/// A profile, or why there is none although one was wanted.
fn split(profile: anyhow::Result<Option<Profile>>) -> (Option<Profile>, Option<RunError>) {
    match profile {
        Ok(profile) => (profile, None),
        Err(error) => {
            let error = error.context("the run is recorded, its profile is not");
            (None, Some(RunError::Failed(error)))
        }
    }
}

/// What watches the plan's nodes, if it names any, those of the first one's network included.
fn observers(
    plan: &Plan,
    clock: &RunClock,
    folder: &RunFolder,
    shutdown: &Shutdown,
) -> Result<Option<Observers>, RunError> {
    let target = plan.target.target();
    let mut nodes = plan.observe.clone();
    if let (Some(wanted), Nodes::Endpoints(endpoints)) = (plan.discover, &plan.nodes)
        && let Some(first) = endpoints.first()
    {
        let found = observe::discover(target, first, wanted.get() as usize, &plan.trust, shutdown);
        nodes.extend(found.map_err(RunError::Failed)?);
    }
    if nodes.is_empty() {
        return Ok(None);
    }
    let tables = observed_tables(folder)?;
    let behind = target.facts().observed_as.map(str::parse::<TargetKind>);
    let target = behind
        .and_then(Result::ok)
        .map_or(target, TargetKind::target);
    let started = Observers::start(target, &nodes, &plan.trust, clock, Chosen::OfOurs, tables);
    started.map(Some).map_err(RunError::Failed)
}

/// What was seen of the nodes by now; nothing where none was observed.
fn stop(observers: Option<Observers>, clock: &RunClock) -> Observation {
    observers.map_or_else(Observation::default, |observers| {
        observers.stop(clock.now())
    })
}

/// An observed node that was away leaves holes: the run is usable with that in mind. The rows of one that times the
/// calls of its application name the stage that held the load back.
fn take_in(summary: &mut Summary, observed: &Observation, folder: &RunFolder) {
    // A table that cannot be read again is passed over: that it could not be written is reported elsewhere.
    let rows: Vec<NodeRow> = rows_if_any(folder.path()).unwrap_or_default();
    name_stage(summary, &rows);
    let verdict = &mut summary.verdict;
    for gap in &observed.gaps {
        verdict.schedule = verdict.schedule.max(ScheduleVerdict::Degraded);
        verdict.reasons.push(format!("degraded: {gap}"));
    }
}

/// Puts what names a stage of the node before the rest, where the node held the load back.
fn blame(summary: &mut Summary, settled: Option<&Option<Settled>>) {
    let evidence = settled.and_then(|settled| settled.as_ref()?.evidence.as_ref());
    if let Some(evidence) = evidence.filter(|_| summary.limited_by == LimitedBy::Node) {
        summary.evidence.insert(0, evidence.clone());
    }
}

/// What another program did with an account of the load while it ran.
fn foreign_use(plan: &Plan) -> Option<RunError> {
    let account = plan.workload.foreign_use()?;
    Some(RunError::Failed(anyhow!(
        "the run is recorded, but somebody else used {account} while it went on: its figures are not those of this \
         load alone; give every generator accounts of its own (--shard, another --seed or --hd-path)"
    )))
}

/// Raises the limit of open files for the connections to `nodes` and, with a built-in node, its ends of
/// them. Where the hard limit is lower, opening the connections fails with a message.
fn allow_open_files(plan: &Plan, nodes: usize, built_in: bool) {
    let connections = u64::from(plan.connections.get()) * nodes as u64;
    let ends = if built_in { 2 } else { 1 };
    let _ = ops::process::allow_open_files(connections.saturating_mul(ends));
}

/// Connections are opened this long before a start that was agreed on: below the ten seconds after
/// which a CometBFT node closes idle ones.
const OPENING_LEAD: Nanos = Nanos::from_secs(4);
