//! Where transactions go, and whose certificates are accepted there.

use std::net::SocketAddr;

use rpc::{Endpoint, Transport, Trust, TrustError};

use super::PlanError;
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
