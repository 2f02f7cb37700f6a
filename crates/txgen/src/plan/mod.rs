//! A run as it was asked for, resolved once: every default is filled in, every value is legal.

mod load;
mod nodes;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use chain::{Chain, LoadOptions, Loader, NodeOptions, Table, Workload, WorkloadError};
pub(crate) use harness::fresh_seed;
use measure::KeptRows;
use measure::judge::StepTerms;
use pacing::Nanos;
use rpc::{BroadcastMethod, Trust};
use sender::shard::Rules;

pub(crate) use self::load::wanted;
pub use self::load::{Load, RequestedLoad};
use self::nodes::Concurrency;
pub use self::nodes::{Guest, Nodes};
pub(crate) use self::nodes::{endpoint_of, fitting};
use crate::chains::TargetKind;
use crate::part::Part;
use crate::profiler::ProfiledProcess;
use crate::settings::{DisplaySettings, Observed, Settings};
use crate::threshold::Threshold;
use harness::StartAt;

/// Everything a run needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The command that was given, e.g. `ramp`.
    pub command: String,
    /// What is offered, and when.
    pub load: Load,
    /// Where it goes.
    pub nodes: Nodes,
    /// Nodes that are recorded beside.
    pub observe: Vec<Observed>,
    /// How many nodes of the first one's network have to answer; they are recorded, too.
    pub discover: Option<NonZeroU32>,
    /// Which kind of node that is.
    pub target: TargetKind,
    /// Which broadcast call carries it.
    pub method: BroadcastMethod,
    /// Connections per endpoint.
    pub connections: NonZeroU32,
    /// Connections per endpoint that the run may open when its rate and the round trip need more.
    pub most_connections: NonZeroU32,
    /// How it is sent.
    pub rules: Rules,
    /// Local addresses that the connections take in turn; the system's choice when empty.
    pub sources: Vec<IpAddr>,
    /// Whose certificates are accepted over https and wss.
    pub trust: Trust,
    /// What is sent.
    pub workload: Arc<dyn Workload>,
    /// The settings of the chain whose transactions are sent, as they were given.
    pub chain: (&'static dyn Chain, Table),
    /// How the nodes are spoken to.
    pub node_options: NodeOptions,
    /// Threads that make transactions ahead, in all.
    pub signing_threads: NonZeroU32,
    /// Transactions that are made before the load begins, in all; at least what the rings hold.
    pub signed_ahead: u64,
    /// The seed of transactions and random arrivals.
    pub seed: u64,
    /// Which part of the load this generator sends.
    pub part: Part,
    /// When the load begins; as soon as everything is ready when `None`.
    pub start_at: Option<StartAt>,
    /// What happens before this is left out of latencies and per-second rates.
    pub warmup: Nanos,
    /// Which transactions have a row in `txs.csv`.
    pub rows: KeptRows,
    /// Sender threads.
    pub threads: NonZeroU32,
    /// Whether blocks are followed.
    pub follow: bool,
    /// Whether the schedule counts as kept only to the millisecond.
    pub strict: bool,
    /// Conditions on the summary.
    pub thresholds: Vec<Threshold>,
    /// Conditions that end the run when they are broken.
    pub abort_on: Vec<Threshold>,
    /// The run folder; named after the start and the profile when `None`.
    pub out: Option<PathBuf>,
    /// How it is shown.
    pub display: DisplaySettings,
    /// The process that is sampled while the load runs.
    pub profiled: Option<ProfiledProcess>,
}

/// How queries are made.
pub(crate) const QUERY: &str = "GET";

/// The part of a plan that differs between commands.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command that was given.
    pub command: String,
    /// What is offered.
    pub load: RequestedLoad,
    /// The built-in node's configuration, used when no endpoints are given.
    pub builtin: devnode::Blueprint,
}

impl Plan {
    /// Fills in the defaults and refuses what cannot be run. `fresh_seed` is used when none is given.
    ///
    /// # Errors
    /// When endpoints repeat, the workload is impossible, or a value is out of range.
    pub fn resolve(
        request: Request,
        settings: Settings,
        fresh_seed: u64,
    ) -> Result<Self, PlanError> {
        let seed = settings.seed.unwrap_or(fresh_seed);
        let target = settings.target();
        let load = load::resolve(request.load, settings.arrivals, seed)?;
        let workload = load::resolve_workload(&settings, target, seed, load.planned())?;
        let mut nodes = nodes::resolve(&settings, target, request.builtin)?;
        if let Nodes::BuiltIn { node, .. } = &mut nodes {
            workload.built_in(node)?;
        }
        if workload.queries().is_some() && nodes.has_websocket() {
            let problem = "goes over http or https, not over ws";
            return Err(PlanError::of("--workload queries", problem));
        }
        let part = load::resolve_part(&settings, &load, &nodes, workload.as_ref())?;
        let Concurrency {
            connections,
            most_connections,
            threads,
            signing_threads,
            signed_ahead,
        } = Concurrency::resolve(&settings, &load, nodes.transport(), workload.as_ref())?;
        let is_followed = !settings.no_follow && workload.queries().is_none();
        if !is_followed {
            unfollowable(&settings, workload.as_ref())?;
        }
        let warmup = resolve_warmup(&settings, &load)?;
        Ok(Self {
            command: request.command,
            method: settings.broadcast_tx_method,
            chain: chain_of(&settings),
            node_options: node_options(&settings, target)?,
            signing_threads,
            signed_ahead,
            threads,
            trust: nodes::resolve_trust(&settings)?,
            observe: observed(&settings.observe)?,
            discover: discovered(&settings)?,
            load,
            nodes,
            target,
            connections,
            most_connections,
            workload,
            seed,
            part,
            start_at: settings.start_at,
            warmup,
            rules: settings.rules,
            follow: is_followed,
            strict: settings.strict,
            rows: settings.rows,
            profiled: settings.profile_pid,
            sources: settings.source_address,
            thresholds: settings.threshold,
            abort_on: settings.abort_on.into_iter().map(|it| it.0).collect(),
            out: settings.out,
            display: checked_display(settings.display)?,
        })
    }

    /// How the nodes are loaded.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            method: self.method,
            follow: self.follow,
            batch: self.node_options.batch,
            blocks: self.node_options.blocks.clone(),
            workload: Arc::clone(&self.workload),
        }
    }

    /// The threads that send it.
    pub(crate) fn loader(&self) -> Arc<dyn Loader> {
        let queries = self.workload.queries();
        queries.unwrap_or_else(|| self.target.target().loader(&self.load_options()))
    }

    /// How its requests are made: the broadcast method, or [`QUERY`].
    pub(crate) fn method_name(&self) -> String {
        match self.workload.queries() {
            Some(_) => QUERY.into(),
            None => self.method.to_string(),
        }
    }

    /// How the steps of its run are judged.
    pub(crate) const fn step_terms(&self) -> StepTerms {
        StepTerms {
            followed: self.follow,
            strict: self.strict,
        }
    }

    /// Whether an answer shows that the node has checked the transaction.
    pub(crate) fn is_checked(&self) -> bool {
        self.method != BroadcastMethod::Async
            || !self.target.facts().answers_unchecked
            || self.workload.queries().is_some()
    }

    /// The name of the load's shape, for the run folder's name.
    pub fn shape(&self) -> &str {
        match &self.load {
            Load::Open { schedule, .. } => schedule.profile().name(),
            Load::Flood { .. } => "flood",
        }
    }

    /// Transactions this generator plans to send; `None` for a load without end.
    pub fn planned(&self) -> Option<u64> {
        self.planned_by_all()
            .map(|planned| self.part.count(planned))
    }

    /// Transactions all generators of the load plan together; `None` for a load without end.
    pub fn planned_by_all(&self) -> Option<u64> {
        match (self.load.planned(), self.workload.count()) {
            (Some(planned), Some(supply)) => Some(planned.min(supply)),
            (planned, supply) => planned.or(supply),
        }
    }

    /// How long the load is offered; `None` when it has no fixed end.
    pub fn duration(&self) -> Option<Nanos> {
        match &self.load {
            Load::Open { schedule, .. } => schedule.profile().duration(),
            Load::Flood { .. } => None,
        }
    }
}

/// The chain whose transactions are sent, with its settings.
fn chain_of(settings: &Settings) -> (&'static dyn Chain, Table) {
    let chain = settings.chain();
    (chain, settings.chains.of(chain).clone())
}

fn node_options(settings: &Settings, target: TargetKind) -> Result<NodeOptions, PlanError> {
    let chain = target.chain();
    Ok(chain.node_options(settings.chains.of(chain))?)
}

/// Refuses to do without blocks where they are needed.
fn unfollowable(settings: &Settings, workload: &dyn Workload) -> Result<(), PlanError> {
    if workload.preparation().is_some() {
        let problem = format!(
            "cannot be used with {workload}: what it spends has to be seen in blocks first"
        );
        return Err(PlanError::of("--no-follow", problem));
    }
    let kept = settings.abort_on.iter().map(|it| &it.0);
    let conditions = settings.threshold.iter().chain(kept);
    match conditions
        .into_iter()
        .find(|condition| condition.needs_blocks())
    {
        None => Ok(()),
        Some(condition) => {
            let problem =
                format!("cannot be used with '{condition}', which is known from blocks only");
            let without = match workload.queries() {
                Some(_) => "--workload queries",
                None => "--no-follow",
            };
            Err(PlanError::of(without, problem))
        }
    }
}

fn checked_display(display: DisplaySettings) -> Result<DisplaySettings, PlanError> {
    let interval = display.report_interval;
    if interval.is_some_and(|interval| interval < MIN_REPORT_INTERVAL) {
        let problem = format!("is too short; use {MIN_REPORT_INTERVAL} or more");
        return Err(PlanError::of("--report-interval", problem));
    }
    Ok(display)
}

fn resolve_warmup(settings: &Settings, load: &Load) -> Result<Nanos, PlanError> {
    let warmup = settings.warmup.unwrap_or(Nanos::ZERO);
    if let Load::Open { schedule, .. } = load
        && let Some(duration) = schedule.profile().duration()
        && warmup >= duration
    {
        let problem = format!("{warmup} leaves nothing of a load of {duration} to be measured");
        return Err(PlanError::of("--warmup", problem));
    }
    Ok(warmup)
}

const MIN_REPORT_INTERVAL: Nanos = Nanos::from_millis(100);

/// The nodes to observe, each with a name of its own.
pub(crate) fn observed(nodes: &[Observed]) -> Result<Vec<Observed>, PlanError> {
    at_most("--observe", nodes.len() as u64, MAX_OBSERVED)?;
    for (place, node) in nodes.iter().enumerate() {
        if nodes[..place]
            .iter()
            .any(|earlier| earlier.name == node.name)
        {
            let problem = format!("names two nodes {}; give each its own name", node.name);
            return Err(PlanError::of("--observe", problem));
        }
    }
    Ok(nodes.to_vec())
}

fn discovered(settings: &Settings) -> Result<Option<NonZeroU32>, PlanError> {
    if settings.discover.is_some() && settings.endpoints.is_empty() {
        let problem = "needs a node to ask for its peers: give --endpoints";
        return Err(PlanError::of("--discover", problem));
    }
    Ok(settings.discover)
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The schedule is illegal.
    #[error(transparent)]
    Profile(#[from] pacing::ProfileError),
    /// The workload is illegal.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The certificates cannot be used.
    #[error("--ca-file {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value is out of its range.
    #[error("{name} {problem}")]
    OutOfRange {
        /// The flag.
        name: String,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
}

impl PlanError {
    /// The value of a flag that cannot be used, and what can.
    fn of(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::OutOfRange {
            name: name.into(),
            problem: problem.into(),
        }
    }
}

/// Refuses a value above its limit.
fn at_most(name: &'static str, value: impl Into<u64>, limit: u64) -> Result<(), PlanError> {
    let value = value.into();
    if value > limit {
        let problem = format!("is {value}; at most {limit} is possible");
        return Err(PlanError::of(name, problem));
    }
    Ok(())
}

/// Each is asked some ten times a second.
const MAX_OBSERVED: u64 = 64;
