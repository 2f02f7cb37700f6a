//! Where transactions go, and whose certificates are accepted there.

use std::net::SocketAddr;

use chain::BuiltIn;
use chain_bigchaindb::{CREATE, TRANSFER};
use chain_bitcoin::workload::{DEFAULT_WALLET_SEED, Keys, Network};
use devnode::DevNode;
use rpc::{Endpoint, Transport, Trust, TrustError};

use super::error::PlanError;
use crate::chains::{TargetKind, WorkloadKind};
use crate::settings::{BitcoinSettings, Settings};

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
            Self::BuiltIn { transport, config } => guest
                .map(|guest| endpoint_of(config, *transport, guest.address))
                .into_iter()
                .collect(),
            Self::Endpoints(endpoints) => endpoints.clone(),
        }
    }

    /// Where the first node answers JSON-RPC.
    pub(crate) fn rpc(&self, guest: Option<Guest>) -> Option<Endpoint> {
        match self {
            Self::BuiltIn { config, .. } => {
                guest.map(|guest| endpoint_of(config, Transport::Http, guest.rpc))
            }
            Self::Endpoints(endpoints) => endpoints.first().cloned(),
        }
    }

    /// What a node that the run starts commits at most, in words.
    pub(crate) fn ceiling(&self) -> Option<String> {
        match self {
            Self::BuiltIn { config, .. } => Some(config.ceiling()),
            Self::Endpoints(_) => None,
        }
    }

    /// How the target is spoken to; mixed endpoints count as HTTP.
    pub fn transport(&self) -> Transport {
        match self {
            Self::BuiltIn { transport, .. } => *transport,
            Self::Endpoints(endpoints) => {
                let is_websocket = |it: &Endpoint| it.transport() == Transport::Ws;
                if endpoints.iter().all(is_websocket) {
                    Transport::Ws
                } else {
                    Transport::Http
                }
            }
        }
    }
}

/// A built-in node at this address, with the user that it asks for.
pub(crate) fn endpoint_of(
    config: &devnode::Config,
    transport: Transport,
    address: SocketAddr,
) -> Endpoint {
    let endpoint = Endpoint::of(transport, address);
    match config.app {
        devnode::Application::Bitcoin => {
            let devnode::BitcoinConfig {
                rpc_user,
                rpc_password,
                ..
            } = &config.bitcoin;
            endpoint.with_credentials(rpc_user, rpc_password)
        }
        _ => endpoint,
    }
}

/// Chooses between endpoints and a built-in node, and refuses what the target does not speak.
pub(super) fn resolve(
    settings: &Settings,
    target: TargetKind,
    builtin: devnode::Config,
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
            config: Box::new(fitting(builtin, settings)),
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

/// The built-in node with the application that understands what the settings send. BigchainDB and Bitcoin get
/// their usual limits, unless it was given others: a closed loop waits for answers, not for blocks, and
/// fills a small mempool at once.
pub(crate) fn fitting(builtin: devnode::Config, settings: &Settings) -> devnode::Config {
    let is_signed = |kind: &WorkloadKind| kind.is(CREATE) || kind.is(TRANSFER);
    let signed = settings.workload.as_ref().is_some_and(is_signed);
    let facts = settings.target().facts();
    let usual = match facts.built_in {
        BuiltIn::BitcoinRpc => devnode::Config::bitcoin(),
        BuiltIn::Rpc if !signed => return builtin,
        BuiltIn::Rpc | BuiltIn::BigchaindbApi => devnode::Config::bigchaindb(),
    };
    let mut config = builtin;
    if usual.app == devnode::Application::Bitcoin {
        let seed = settings.bitcoin.wallet_seed.unwrap_or(DEFAULT_WALLET_SEED);
        let keys = Keys::new(seed, settings.bitcoin.digest.unwrap_or_default());
        let address = config.bitcoin.mining_address.take();
        config.bitcoin.mining_address =
            address.or_else(|| Some(keys.address(Network::Regtest.version())));
        let BitcoinSettings {
            admission,
            validators,
            ..
        } = settings.bitcoin;
        config.admission.mode = admission.map(Into::into).or(config.admission.mode);
        if let Some(validators) = validators {
            config.admission.validators = validators.get() as usize;
        }
    }
    config.app = usual.app;
    if config.mempool == devnode::MempoolConfig::default() {
        config.mempool = usual.mempool;
    }
    if config.rpc == devnode::RpcConfig::default() {
        config.rpc = usual.rpc;
    }
    config
}

/// Where the built-in node listens for what this target speaks.
pub(crate) fn listening(target: TargetKind, node: &DevNode) -> SocketAddr {
    let own = match target.facts().built_in {
        BuiltIn::BigchaindbApi => node.api_address(),
        BuiltIn::Rpc | BuiltIn::BitcoinRpc => None,
    };
    own.unwrap_or_else(|| node.rpc_address())
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
