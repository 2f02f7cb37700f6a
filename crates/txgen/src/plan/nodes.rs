//! Where transactions go, whose certificates are accepted there, and how many of them at a time: connections, transactions
//! in flight, threads.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use chain::Workload;
use pacing::Nanos;
use rpc::{BroadcastMethod, Endpoint, Transport, Trust, TrustError};
use sender::shard::{QUEUED_FACTOR, SLOW_ANSWER};

use super::load::Load;
use super::{Plan, PlanError, at_most};
use crate::chains::TargetKind;
use crate::settings::Settings;

/// Where transactions go.
#[derive(Debug, Clone)]
pub enum Nodes {
    /// A node that the run starts and stops.
    BuiltIn {
        /// Its kind.
        target: TargetKind,
        /// What it is; the address is chosen by the system.
        node: Box<devnode::Blueprint>,
        /// How to speak to it.
        transport: Transport,
    },
    /// Nodes that are already there.
    Endpoints(Vec<Endpoint>),
}

/// Where a node that the run has started listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// For what the load speaks.
    pub address: SocketAddr,
    /// For its RPC.
    pub rpc: SocketAddr,
}

impl Nodes {
    /// Where transactions go; a node that the run starts listens at `guest`.
    pub fn endpoints(&self, guest: Option<Guest>) -> Vec<Endpoint> {
        match self {
            Self::BuiltIn {
                target,
                transport,
                node,
            } => guest
                .map(|guest| endpoint_of(*target, node, *transport, guest.address))
                .into_iter()
                .collect(),
            Self::Endpoints(endpoints) => endpoints.clone(),
        }
    }

    /// Where the first node answers JSON-RPC.
    pub(crate) fn rpc(&self, guest: Option<Guest>) -> Option<Endpoint> {
        match self {
            Self::BuiltIn { target, node, .. } => {
                guest.map(|guest| endpoint_of(*target, node, Transport::Http, guest.rpc))
            }
            Self::Endpoints(endpoints) => endpoints.first().cloned(),
        }
    }

    /// What a node that the run starts commits at most, in words.
    pub(crate) fn ceiling(&self) -> Option<String> {
        match self {
            Self::BuiltIn { node, .. } => Some(node.ceiling()),
            Self::Endpoints(_) => None,
        }
    }

    /// How the target is spoken to; mixed endpoints count as HTTP.
    pub fn transport(&self) -> Transport {
        match self {
            Self::BuiltIn { transport, .. } => *transport,
            Self::Endpoints(endpoints) => {
                if endpoints.iter().all(is_websocket) {
                    Transport::Ws
                } else {
                    Transport::Http
                }
            }
        }
    }

    /// Whether some are spoken to over WebSockets.
    pub(super) fn has_websocket(&self) -> bool {
        match self {
            Self::BuiltIn { transport, .. } => *transport == Transport::Ws,
            Self::Endpoints(endpoints) => endpoints.iter().any(is_websocket),
        }
    }
}

fn is_websocket(endpoint: &Endpoint) -> bool {
    endpoint.transport() == Transport::Ws
}

/// A built-in node at this address, with the user that it asks for.
pub(crate) fn endpoint_of(
    target: TargetKind,
    node: &devnode::Blueprint,
    transport: Transport,
    address: SocketAddr,
) -> Endpoint {
    let endpoint = Endpoint::of(transport, address);
    target.target().built_in_endpoint(endpoint, &node.config)
}

/// Chooses between endpoints and a built-in node, and refuses what the target does not speak.
pub(super) fn resolve(
    settings: &Settings,
    target: TargetKind,
    builtin: devnode::Blueprint,
) -> Result<Nodes, PlanError> {
    let transport = settings.transport;
    let of = |endpoint: &Endpoint| transport.unwrap_or(endpoint.transport());
    let websocket = transport == Some(Transport::Ws)
        || settings
            .endpoints
            .iter()
            .any(|endpoint| of(endpoint) == Transport::Ws);
    let facts = target.facts();
    let mut endpoints = settings.endpoints.iter();
    if let Some(peer) = endpoints.find(|it| it.transport() == Transport::P2p) {
        let problem = format!(
            "{peer} takes no loads: give the node's JSON-RPC, http://user:password@host:port, and observe its blocks \
             by --observe NAME={peer}"
        );
        return Err(PlanError::of("the endpoint", problem));
    }
    if let Some(problem) = facts.no_websocket.filter(|_| websocket) {
        return Err(PlanError::of(
            "--target",
            format!("{} {problem}", facts.name),
        ));
    }
    if settings.endpoints.is_empty() {
        return Ok(Nodes::BuiltIn {
            target,
            node: Box::new(fitting(builtin, settings)?),
            transport: transport.unwrap_or(Transport::Http),
        });
    }
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(settings.endpoints.len());
    for endpoint in &settings.endpoints {
        let endpoint = endpoint.with_transport(of(endpoint));
        if endpoints.iter().any(|earlier| earlier.same_node(&endpoint)) {
            let problem = format!(
                "{endpoint} is given twice; name each node once and use --connections for more connections"
            );
            return Err(PlanError::of("the endpoint", problem));
        }
        endpoints.push(endpoint);
    }
    Ok(Nodes::Endpoints(endpoints))
}

/// The built-in node with the application that understands what the settings send.
pub(crate) fn fitting(
    builtin: devnode::Blueprint,
    settings: &Settings,
) -> Result<devnode::Blueprint, PlanError> {
    let chain = settings.chain();
    Ok(chain.built_in(builtin, settings.chains.of(chain))?)
}

pub(super) fn resolve_trust(settings: &Settings) -> Result<Trust, PlanError> {
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

/// How much goes on at a time.
pub(super) struct Concurrency {
    pub(super) connections: NonZeroU32,
    pub(super) most_connections: NonZeroU32,
    pub(super) threads: NonZeroU32,
    pub(super) signing_threads: NonZeroU32,
    pub(super) signed_ahead: u64,
}

impl Concurrency {
    /// Fills in the defaults for this load over this transport.
    pub(super) fn resolve(
        settings: &Settings,
        load: &Load,
        transport: Transport,
        workload: &dyn Workload,
    ) -> Result<Self, PlanError> {
        let default = default_connections(load, transport);
        let connections = settings.connections.unwrap_or(default);
        at_most("--connections", connections.get(), MAX_CONNECTIONS)?;
        let max_in_flight = settings.rules.max_in_flight.get();
        at_most("--max-in-flight", max_in_flight, MAX_IN_FLIGHT)?;
        if let Load::Flood { concurrency, .. } = load {
            let name = "--concurrency (see --max-in-flight)";
            at_most(name, concurrency.get(), max_in_flight)?;
        }
        let signed_ahead = settings.signed_ahead.map_or(0, |ahead| ahead.get().into());
        at_most("--signed-ahead", signed_ahead, MAX_SIGNED_AHEAD)?;
        let mut threads = resolve_threads(settings, load, connections)?;
        if let Some(accounts) = workload.accounts() {
            let generators = settings.shard.unwrap_or_default().of();
            threads = fitting_threads(accounts, generators, threads);
        }
        Ok(Self {
            connections,
            most_connections: match (settings.connections, load, transport) {
                (None, Load::Open { .. }, Transport::Http) => {
                    let facts = settings.target().facts();
                    facts.most_connections.max(connections)
                }
                _ => connections,
            },
            threads,
            signing_threads: resolve_signing_threads(settings, workload, threads)?,
            signed_ahead,
        })
    }
}

impl Plan {
    /// The plan with the connections that its highest rate needs, when it may grow and `endpoints`
    /// answer after `round_trip`: over HTTP each carries one request in a round trip. The headroom is
    /// what an answer may take before the senders conclude that the node queues requests.
    pub(crate) fn grown(&self, round_trip: Nanos, endpoints: usize) -> Self {
        let Load::Open { schedule, .. } = &self.load else {
            return self.clone();
        };
        let shortest = match self.method {
            BroadcastMethod::Commit => COMMIT_TAKES,
            BroadcastMethod::Async | BroadcastMethod::Sync => SLOW_ANSWER,
        };
        let hold = round_trip.saturating_mul(QUEUED_FACTOR).max(shortest);
        let rate = schedule.profile().peak().as_f64() / f64::from(self.part.of().get());
        let needed = (rate * hold.as_secs_f64() / endpoints.max(1) as f64).ceil();
        let needed = NonZeroU32::new(needed as u32).unwrap_or(NonZeroU32::MIN);
        let most = self.most_connections;
        let connections = needed.max(self.connections).min(most);
        Self {
            connections,
            most_connections: connections,
            ..self.clone()
        }
    }
}

/// Over HTTP a connection carries one request at a time, so a flood needs one per slot.
fn default_connections(load: &Load, transport: Transport) -> NonZeroU32 {
    match (load, transport) {
        (_, Transport::Ws) => DEFAULT_WS_CONNECTIONS,
        (Load::Flood { concurrency, .. }, _) => *concurrency,
        (Load::Open { .. }, _) => DEFAULT_HTTP_CONNECTIONS,
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
    let too_few = |what: String| {
        let problem = format!("is {threads}, but {what}; a thread needs at least one");
        Err(PlanError::of("--threads", problem))
    };
    if threads > slots {
        return too_few(format!("only {slots} transactions are in flight"));
    }
    if threads > connections {
        return too_few(format!("there are only {connections} connections"));
    }
    at_most("--threads", threads.get(), MAX_THREADS)?;
    Ok(threads)
}

/// At least one for each sender; more only where making a transaction takes long.
fn resolve_signing_threads(
    settings: &Settings,
    workload: &dyn Workload,
    threads: NonZeroU32,
) -> Result<NonZeroU32, PlanError> {
    if !workload.is_signed() {
        return Ok(threads);
    }
    let signing = settings.signing_threads.unwrap_or(half_the_cores());
    at_most("--signing-threads", signing.get(), MAX_THREADS)?;
    Ok(signing.max(threads))
}

/// The most sender threads, up to `wanted`, that share the accounts without a rest: each account belongs to
/// one of them.
fn fitting_threads(accounts: NonZeroU32, generators: NonZeroU32, wanted: NonZeroU32) -> NonZeroU32 {
    let each = accounts.get() / generators.get();
    (1..=wanted.get())
        .rev()
        .find(|threads| each.is_multiple_of(*threads))
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN)
}

fn half_the_cores() -> NonZeroU32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    NonZeroU32::new(cores / 2).unwrap_or(NonZeroU32::MIN)
}

const DEFAULT_HTTP_CONNECTIONS: NonZeroU32 = NonZeroU32::new(16).expect("not zero");
/// A node reads each WebSocket serially: a few keep its readers busy without starving consensus.
const DEFAULT_WS_CONNECTIONS: NonZeroU32 = NonZeroU32::new(4).expect("not zero");
/// A commit is answered when the block is made; most chains make one in this time.
const COMMIT_TAKES: Nanos = Nanos::from_secs(1);
/// Bounds memory: about 150 MB at one million in flight.
const MAX_IN_FLIGHT: u64 = 10_000_000;
const MAX_CONNECTIONS: u64 = 50_000;
const MAX_THREADS: u64 = 1024;
/// Bounds memory: 0.9 GB of Bitcoin requests.
const MAX_SIGNED_AHEAD: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Request, RequestedLoad};

    fn plan(rate: u64, change: impl FnOnce(&mut Settings)) -> Plan {
        let mut settings = Settings::default();
        change(&mut settings);
        let rate = pacing::Rate::per_second(rate).unwrap();
        let request = Request {
            command: "constant".into(),
            load: RequestedLoad::constant(rate, Nanos::from_secs(10)).unwrap(),
            builtin: devnode::Blueprint::default(),
        };
        Plan::resolve(request, settings, 1).unwrap()
    }

    /// With 16 connections and 20 ms of round trip 800/s are the most that can be offered.
    #[test]
    fn connections_grow_to_what_the_rate_needs_with_the_round_trip_before_the_measurement() {
        let round_trip = Nanos::from_millis(20);
        let grown = |rate, endpoints| {
            let plan = plan(rate, |_| {}).grown(round_trip, endpoints);
            plan.connections.get()
        };
        assert_eq!(grown(1_200, 1), 96, "24 under way, and headroom");
        assert_eq!(grown(1_200, 2), 48, "each");
        assert_eq!(grown(100_000, 1), 512, "within a bound");
        assert_eq!(grown(100, 1), 16, "enough");
    }

    #[test]
    fn connections_that_were_chosen_or_carry_many_requests_do_not_grow() {
        let round_trip = Nanos::from_millis(20);
        let chosen = plan(1_200, |settings| settings.connections = NonZeroU32::new(16));
        assert_eq!(chosen.grown(round_trip, 1).connections.get(), 16);
        let websocket = plan(1_200, |settings| settings.transport = Some(Transport::Ws));
        assert_eq!(websocket.grown(round_trip, 1).connections.get(), 4);
    }
}
