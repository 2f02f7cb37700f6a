//! A run as it was asked for, resolved once: every default is filled in, every value is legal.

mod workload;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use pacing::{Arrivals, CatchUp, Nanos, Profile, Schedule};
use rpc::{BroadcastMethod, Endpoint, Transport, Trust, TrustError};

use crate::cli::{Settings, TransportChoice};
use crate::part::Part;
use crate::profiler::{DEFAULT_FREQUENCY, Profiling};
use crate::start_at::StartAt;
use crate::target::{BuiltIn, Target, TargetKind, TargetOptions};
use crate::threshold::Threshold;
use crate::workload::{Workload, WorkloadError, WorkloadKind};

/// Everything a run needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The command that was given, e.g. `ramp`.
    pub command: String,
    /// What is offered, and when.
    pub load: Load,
    /// Where it goes.
    pub nodes: Nodes,
    /// Which kind of node that is.
    pub target: TargetKind,
    /// Which broadcast call carries it.
    pub method: BroadcastMethod,
    /// Connections per endpoint.
    pub connections: NonZeroU32,
    /// Local addresses that the connections take in turn; the system's choice when empty.
    pub sources: Vec<IpAddr>,
    /// Whose certificates are accepted over https and wss.
    pub trust: Trust,
    /// What is sent.
    pub workload: Workload,
    /// Threads that make transactions ahead, in all.
    pub signing_threads: NonZeroU32,
    /// The seed of transactions and random arrivals.
    pub seed: u64,
    /// Which part of the load this generator sends.
    pub part: Part,
    /// When the load begins; as soon as everything is ready when `None`.
    pub start_at: Option<StartAt>,
    /// What becomes of late transactions.
    pub catch_up: CatchUp,
    /// What happens before this is left out of latencies and per-second rates.
    pub warmup: Nanos,
    /// How long answers and commits are awaited after the last due time.
    pub drain_timeout: Nanos,
    /// Transactions due and not yet answered, at most.
    pub max_in_flight: u64,
    /// How long an answer may take.
    pub answer_timeout: Nanos,
    /// Sender threads.
    pub threads: NonZeroU32,
    /// Spinning before each due time.
    pub spin: Nanos,
    /// Whether blocks are followed.
    pub follow: bool,
    /// Conditions on the summary.
    pub thresholds: Vec<Threshold>,
    /// Conditions that end the run when they are broken.
    pub abort_on: Vec<Threshold>,
    /// The run folder; named after the start and the profile when `None`.
    pub out: Option<PathBuf>,
    /// Interval of JSON lines on stdout.
    pub report_interval: Option<Nanos>,
    /// The process that is sampled while the load runs.
    pub profiling: Option<Profiling>,
    /// Where live figures are served as metrics.
    pub metrics: Option<ops::ListenAddress>,
    /// Whether a full-screen view may be drawn.
    pub tui: bool,
}

/// What is offered, and when.
#[derive(Debug, Clone)]
pub enum Load {
    /// Open loop: the schedule alone decides when.
    Open {
        /// The due times.
        schedule: Schedule,
        /// End when the target is saturated for two steps.
        stop_when_saturated: bool,
        /// Break all connections in every pause of the profile.
        reconnect_in_pauses: bool,
    },
    /// Closed loop: the next transaction goes out when an answer came back.
    Flood {
        /// Transactions in flight.
        concurrency: NonZeroU32,
        /// Transactions in all.
        count: u64,
    },
}

/// Where transactions go.
#[derive(Debug, Clone)]
pub enum Nodes {
    /// A node that the run starts and stops.
    BuiltIn {
        /// Its configuration; the address is chosen by the system.
        config: Box<devnode::Config>,
        /// How to speak to it.
        transport: Transport,
    },
    /// Nodes that are already there.
    Endpoints(Vec<Endpoint>),
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The same node is named twice.
    #[error(
        "the endpoint {endpoint} is given twice; name each node once and use --connections for more connections"
    )]
    DuplicateEndpoint {
        /// The repeated endpoint.
        endpoint: Endpoint,
    },
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
        name: &'static str,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
}

/// The part of a plan that differs between commands.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command that was given.
    pub command: String,
    /// What is offered.
    pub load: RequestedLoad,
    /// The built-in node's configuration, used when no endpoints are given.
    pub builtin: devnode::Config,
}

/// What is offered, before arrivals and seed are known.
#[derive(Debug, Clone)]
pub enum RequestedLoad {
    /// Open loop.
    Open {
        /// The rate as a function of time.
        profile: Profile,
        /// See [`Load::Open`].
        stop_when_saturated: bool,
        /// See [`Load::Open`].
        reconnect_in_pauses: bool,
    },
    /// Closed loop.
    Flood {
        /// Transactions in flight.
        concurrency: NonZeroU32,
        /// Transactions in all.
        count: u64,
    },
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
        let target = settings.target.unwrap_or_default();
        let arrivals = settings.arrivals.unwrap_or(Arrivals::Even);
        let load = resolve_load(request.load, arrivals, seed)?;
        let workload = workload::resolve(&settings, target, seed, load.planned())?;
        let nodes = resolve_nodes(&settings, target, request.builtin)?;
        let part = resolve_part(&settings, &load, &nodes, &workload)?;
        let websocket = nodes.transport() == Transport::Ws;
        let connections = settings
            .connections
            .unwrap_or(default_connections(&load, websocket));
        at_most(
            "--connections",
            u64::from(connections.get()),
            MAX_CONNECTIONS,
        )?;
        let max_in_flight = settings
            .max_in_flight
            .map_or(DEFAULT_MAX_IN_FLIGHT, Into::into);
        at_most("--max-in-flight", max_in_flight, MAX_IN_FLIGHT)?;
        if let Load::Flood { concurrency, .. } = &load {
            let concurrency = u64::from(concurrency.get());
            at_most(
                "--concurrency (see --max-in-flight)",
                concurrency,
                max_in_flight,
            )?;
        }
        let spin = settings.spin.unwrap_or(Nanos::ZERO);
        at_most("--spin (in ns)", spin.as_nanos(), MAX_SPIN.as_nanos())?;
        let report_interval = settings.report_interval;
        if report_interval.is_some_and(|interval| interval < MIN_REPORT_INTERVAL) {
            return Err(PlanError::OutOfRange {
                name: "--report-interval",
                problem: format!("is too short; use {MIN_REPORT_INTERVAL} or more"),
            });
        }
        if workload.preparation().is_some() && settings.no_follow {
            return Err(PlanError::OutOfRange {
                name: "--no-follow",
                problem: format!(
                    "cannot be used with {workload}: what it spends has to be seen in blocks first"
                ),
            });
        }
        if workload.preparation().is_some() && !part.is_whole() {
            return Err(PlanError::OutOfRange {
                name: "--shard",
                problem: format!(
                    "cannot be used with {workload}: each generator would prepare the same"
                ),
            });
        }
        let profiling = resolve_profiling(&settings)?;
        let threads = resolve_threads(&settings, &load, connections)?;
        Ok(Self {
            command: request.command,
            method: settings
                .broadcast_tx_method
                .unwrap_or(BroadcastMethod::Sync),
            signing_threads: resolve_signing_threads(&settings, &workload, threads)?,
            threads,
            trust: resolve_trust(&settings)?,
            load,
            nodes,
            target,
            connections,
            sources: settings.source_address,
            workload,
            seed,
            part,
            start_at: settings.start_at,
            catch_up: settings.catch_up.unwrap_or(CatchUp::Full),
            warmup: settings.warmup.unwrap_or(Nanos::ZERO),
            drain_timeout: settings.drain_timeout.unwrap_or(DEFAULT_DRAIN_TIMEOUT),
            max_in_flight,
            answer_timeout: settings.answer_timeout.unwrap_or(DEFAULT_ANSWER_TIMEOUT),
            spin,
            follow: !settings.no_follow,
            thresholds: settings.threshold,
            abort_on: settings.abort_on,
            out: settings.out,
            report_interval,
            profiling,
            metrics: settings.metrics,
            tui: !settings.no_tui,
        })
    }

    /// The target of this kind, as the plan's parts talk to it.
    pub(crate) fn target<T: Target>(&self) -> T {
        T::new(TargetOptions {
            method: self.method,
            follow: self.follow,
        })
    }

    /// The name of the load's shape, for the run folder's name.
    #[must_use]
    pub fn shape(&self) -> &str {
        match &self.load {
            Load::Open { schedule, .. } => schedule.profile().name(),
            Load::Flood { .. } => "flood",
        }
    }

    /// Transactions this generator plans to send; `None` for a load without end.
    #[must_use]
    pub fn planned(&self) -> Option<u64> {
        self.planned_by_all()
            .map(|planned| self.part.count(planned))
    }

    /// Transactions all generators of the load plan together; `None` for a load without end.
    #[must_use]
    pub fn planned_by_all(&self) -> Option<u64> {
        match (self.load.planned(), self.workload.count()) {
            (Some(planned), Some(supply)) => Some(planned.min(supply)),
            (planned, supply) => planned.or(supply),
        }
    }

    /// How long the load is offered; `None` when it has no fixed end.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        match &self.load {
            Load::Open { schedule, .. } => schedule.profile().duration(),
            Load::Flood { .. } => None,
        }
    }
}

impl Load {
    /// Transactions planned in all; `None` for a load without end.
    #[must_use]
    pub fn planned(&self) -> Option<u64> {
        match self {
            Self::Open { schedule, .. } => schedule.planned(),
            Self::Flood { count, .. } => Some(*count),
        }
    }
}

impl Nodes {
    /// Where transactions go; a node that the run starts listens at `guest`.
    #[must_use]
    pub fn endpoints(&self, guest: Option<SocketAddr>) -> Vec<Endpoint> {
        match self {
            Self::BuiltIn { transport, .. } => guest
                .map(|address| Endpoint::of(*transport, address))
                .into_iter()
                .collect(),
            Self::Endpoints(endpoints) => endpoints.clone(),
        }
    }

    /// How the target is spoken to; mixed endpoints count as HTTP.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match self {
            Self::BuiltIn { transport, .. } => *transport,
            Self::Endpoints(endpoints) => {
                if endpoints
                    .iter()
                    .all(|endpoint| endpoint.transport() == Transport::Ws)
                {
                    Transport::Ws
                } else {
                    Transport::Http
                }
            }
        }
    }
}

fn resolve_load(load: RequestedLoad, arrivals: Arrivals, seed: u64) -> Result<Load, PlanError> {
    match load {
        RequestedLoad::Flood { count: 0, .. } => Err(PlanError::OutOfRange {
            name: "--count",
            problem: "is 0; send at least one transaction".into(),
        }),
        RequestedLoad::Flood { concurrency, count } => Ok(Load::Flood { concurrency, count }),
        RequestedLoad::Open {
            profile,
            stop_when_saturated,
            reconnect_in_pauses,
        } => Ok(Load::Open {
            schedule: Schedule::new(profile, arrivals.with_seed(seed)),
            stop_when_saturated,
            reconnect_in_pauses,
        }),
    }
}

fn resolve_nodes(
    settings: &Settings,
    target: TargetKind,
    builtin: devnode::Config,
) -> Result<Nodes, PlanError> {
    let transport = settings.transport.map(|choice| match choice {
        TransportChoice::Http => Transport::Http,
        TransportChoice::Ws => Transport::Ws,
    });
    let websocket = transport == Some(Transport::Ws)
        || settings
            .endpoints
            .iter()
            .any(|endpoint| transport.is_none() && endpoint.transport() == Transport::Ws);
    let facts = target.facts();
    if let Some(problem) = facts.no_websocket.filter(|_| websocket) {
        return Err(PlanError::OutOfRange {
            name: "--target",
            problem: format!("{} {problem}", facts.name),
        });
    }
    if settings.endpoints.is_empty() {
        return Ok(Nodes::BuiltIn {
            config: Box::new(fitting(builtin, settings)),
            transport: transport.unwrap_or(Transport::Http),
        });
    }
    let endpoints: Vec<Endpoint> = settings
        .endpoints
        .iter()
        .map(|endpoint| match transport {
            Some(transport) => endpoint.with_transport(transport),
            None => endpoint.clone(),
        })
        .collect();
    for (position, endpoint) in endpoints.iter().enumerate() {
        if endpoints[..position]
            .iter()
            .any(|earlier| earlier.same_node(endpoint))
        {
            return Err(PlanError::DuplicateEndpoint {
                endpoint: endpoint.clone(),
            });
        }
    }
    Ok(Nodes::Endpoints(endpoints))
}

/// One of several generators must make the same plan as the others.
fn resolve_part(
    settings: &Settings,
    load: &Load,
    nodes: &Nodes,
    workload: &Workload,
) -> Result<Part, PlanError> {
    let part = settings.shard.unwrap_or_default();
    let refuse = |problem: &str| {
        Err(PlanError::OutOfRange {
            name: "--shard",
            problem: problem.into(),
        })
    };
    if part.is_whole() {
        return Ok(part);
    }
    match (load, nodes) {
        (Load::Flood { .. }, _) => {
            refuse("divides a schedule, and a flood has none; give each flood its own --count")
        }
        (
            Load::Open {
                stop_when_saturated: true,
                ..
            },
            _,
        ) => refuse(
            "needs a load that ends at the same time for all generators; give the ramp a --to",
        ),
        (_, Nodes::BuiltIn { .. }) => {
            refuse("needs --endpoints: each generator would load a built-in node of its own")
        }
        _ if workload.preparation().is_some() => refuse(
            "divides transactions that stand alone; these spend outputs that one generator has to make first",
        ),
        _ if settings.seed.is_none() => {
            refuse("needs --seed, the same for all generators, or their plans differ")
        }
        _ => Ok(part),
    }
}

/// The built-in node with the application that understands what the settings send. BigchainDB gets its
/// usual limits, unless it was given others: a closed loop waits for answers, not for blocks, and
/// fills a small mempool at once.
pub(crate) fn fitting(builtin: devnode::Config, settings: &Settings) -> devnode::Config {
    let signed = matches!(
        settings.workload,
        Some(WorkloadKind::BigchainCreate | WorkloadKind::BigchainTransfer)
    );
    let facts = settings.target.unwrap_or_default().facts();
    if facts.built_in != BuiltIn::BigchaindbApi && !signed {
        return builtin;
    }
    let mut config = builtin;
    let usual = devnode::Config::bigchaindb();
    config.app = usual.app;
    if config.mempool == devnode::MempoolConfig::default() {
        config.mempool = usual.mempool;
    }
    if config.rpc == devnode::RpcConfig::default() {
        config.rpc = usual.rpc;
    }
    config
}

fn resolve_profiling(settings: &Settings) -> Result<Option<Profiling>, PlanError> {
    let Some(process) = settings.profile_pid else {
        let alone = settings.profile_frequency.is_some() || settings.profile_stacks.is_some();
        return if alone {
            Err(PlanError::OutOfRange {
                name: "--profile-frequency or --profile-stacks",
                problem: "is given without a process; add --profile-pid".into(),
            })
        } else {
            Ok(None)
        };
    };
    let frequency = settings.profile_frequency.unwrap_or(DEFAULT_FREQUENCY);
    at_most(
        "--profile-frequency",
        u64::from(frequency.get()),
        MAX_PROFILE_FREQUENCY,
    )?;
    Ok(Some(Profiling {
        process,
        frequency,
        stacks: settings.profile_stacks.unwrap_or_default(),
    }))
}

fn resolve_trust(settings: &Settings) -> Result<Trust, PlanError> {
    let Some(path) = &settings.ca_file else {
        return Ok(Trust::native());
    };
    let failed = |source| PlanError::CaFile {
        path: path.clone(),
        source,
    };
    let pem = std::fs::read(path).map_err(|error| failed(error.into()))?;
    Trust::native_and(&pem).map_err(|error: TrustError| failed(error.into()))
}

/// Over HTTP a connection carries one request at a time, so a flood needs one per slot.
fn default_connections(load: &Load, websocket: bool) -> NonZeroU32 {
    match load {
        Load::Flood { concurrency, .. } if !websocket => *concurrency,
        _ if websocket => DEFAULT_WS_CONNECTIONS,
        _ => DEFAULT_HTTP_CONNECTIONS,
    }
}

fn resolve_threads(
    settings: &Settings,
    load: &Load,
    connections: NonZeroU32,
) -> Result<NonZeroU32, PlanError> {
    let slots = match load {
        Load::Flood { concurrency, .. } => *concurrency,
        Load::Open { .. } => NonZeroU32::MAX,
    };
    let threads = settings
        .threads
        .unwrap_or(half_the_cores().min(connections).min(slots));
    if threads > slots {
        return Err(PlanError::OutOfRange {
            name: "--threads",
            problem: format!(
                "is {threads}, but only {slots} transactions are in flight; a thread needs at least one"
            ),
        });
    }
    if threads > connections {
        return Err(PlanError::OutOfRange {
            name: "--threads",
            problem: format!(
                "is {threads}, but there are only {connections} connections; a thread needs at least one"
            ),
        });
    }
    at_most("--threads", u64::from(threads.get()), MAX_THREADS)?;
    Ok(threads)
}

/// At least one for each sender; more only where making a transaction takes long.
fn resolve_signing_threads(
    settings: &Settings,
    workload: &Workload,
    threads: NonZeroU32,
) -> Result<NonZeroU32, PlanError> {
    if !workload.is_signed() {
        return Ok(threads);
    }
    let signing = settings.signing_threads.unwrap_or(half_the_cores());
    at_most("--signing-threads", u64::from(signing.get()), MAX_THREADS)?;
    Ok(signing.max(threads))
}

fn half_the_cores() -> NonZeroU32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    NonZeroU32::new(cores / 2).unwrap_or(NonZeroU32::MIN)
}

fn at_most(name: &'static str, value: u64, limit: u64) -> Result<(), PlanError> {
    if value > limit {
        return Err(PlanError::OutOfRange {
            name,
            problem: format!("is {value}; at most {limit} is possible"),
        });
    }
    Ok(())
}

const DEFAULT_HTTP_CONNECTIONS: NonZeroU32 = NonZeroU32::new(16).expect("not zero");
/// A node reads each WebSocket serially: a few keep its readers busy without starving consensus.
const DEFAULT_WS_CONNECTIONS: NonZeroU32 = NonZeroU32::new(4).expect("not zero");
const DEFAULT_DRAIN_TIMEOUT: Nanos = Nanos::from_secs(30);
const DEFAULT_ANSWER_TIMEOUT: Nanos = Nanos::from_secs(60);
const DEFAULT_MAX_IN_FLIGHT: u64 = 100_000;
/// Bounds memory: about 150 MB at one million in flight.
const MAX_IN_FLIGHT: u64 = 10_000_000;
const MAX_CONNECTIONS: u64 = 50_000;
const MAX_THREADS: u64 = 1024;
/// The kernel's default limit is 100,000; at this one, unwinding copies 80 MB a second and core.
const MAX_PROFILE_FREQUENCY: u64 = 10_000;
/// Longer spins burn a core without making any due time more exact.
const MAX_SPIN: Nanos = Nanos::from_millis(10);
const MIN_REPORT_INTERVAL: Nanos = Nanos::from_millis(100);
