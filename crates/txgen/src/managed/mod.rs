//! What a run starts beside itself: a node of its own and a sentinel in front of it, as processes that
//! end with it.

mod sentinel;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chain_cometbft::Client;
use harness::BitRate;
use pacing::Nanos;
use rpc::{Endpoint, Transport, Trust};
use servers::{
    Btcd, BtcdOptions, CometBft, CometBftOptions, Link, Process, Simd, SimdOptions, StartError,
    Throttle, Wait, on_cores,
};

use crate::chains::TargetKind;
use crate::drain::Drain;
use crate::plan::{self, PlanError};
use crate::run::{BuiltInError, BuiltInNode};
use crate::scenario::{NodeKind, NodeSection, ScriptRun, SentinelSection};
use crate::settings::{Observed, Settings};
use crate::shutdown::Shutdown;
use sentinel::Sentinel;

/// Where the programs are, and where their homes may be.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// CometBFT; looked for in PATH otherwise.
    pub cometbft: Option<PathBuf>,
    /// btcd; looked for in PATH otherwise.
    pub btcd: Option<PathBuf>,
    /// simd; looked for in PATH otherwise.
    pub simd: Option<PathBuf>,
    /// sentinel; looked for beside this program and in PATH otherwise.
    pub sentinel: Option<PathBuf>,
    /// This program, if its command line may be used to start others that end with it.
    pub guard: Option<PathBuf>,
    /// Where temporary homes are made.
    pub folder: PathBuf,
}

/// Why something could not be started. Messages end with its own log where it has written one.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// A program is nowhere.
    #[error(
        "{name} is not found: give --{name} PATH, set {variable}, or put it into PATH ({hint})"
    )]
    Missing {
        /// The program, and the flag that names it.
        name: &'static str,
        /// The variable that names it.
        variable: &'static str,
        /// How to get it.
        hint: &'static str,
    },
    /// A server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The built-in node does not start.
    #[error(transparent)]
    BuiltIn(#[from] BuiltInError),
    /// The settings do not fit what is to be started.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// What was started for a run, or for several.
pub(crate) struct Stage {
    // Fields are dropped in this order: the processes run freely before they end, the sentinel before its node.
    throttle: Option<Throttle>,
    sentinel: Option<Sentinel>,
    node: Option<Node>,
    /// Between the load and a node that is alone.
    _link: Option<Link>,
    of: (NodeSection, Option<SentinelSection>),
    target: TargetKind,
    /// Where transactions go; empty when the run starts the built-in node itself.
    endpoints: Vec<Endpoint>,
}

enum Node {
    BuiltIn(BuiltInNode, Box<devnode::Blueprint>),
    /// The load goes to the first one.
    CometBft(Vec<CometBft>),
    Simd(Simd),
    /// The load goes to the first one, which is stopped last.
    Btcd(Vec<Btcd>),
}

impl Node {
    fn address(&self) -> SocketAddr {
        match self {
            Self::BuiltIn(node, _) => node.guest().address,
            Self::CometBft(nodes) => nodes.first().map_or(UNSPECIFIED, CometBft::address),
            Self::Simd(node) => node.address(),
            Self::Btcd(nodes) => nodes.last().map_or(UNSPECIFIED, Btcd::address),
        }
    }

    /// Where the load goes when the node is reached at this address.
    fn endpoint(&self, target: TargetKind, transport: Transport, at: SocketAddr) -> Endpoint {
        match self {
            Self::BuiltIn(_, blueprint) => plan::endpoint_of(target, blueprint, transport, at),
            Self::CometBft(_) | Self::Simd(_) => Endpoint::of(transport, at),
            Self::Btcd(_) => btcd_endpoint(transport, at),
        }
    }
}

impl Stage {
    /// Starts what the run needs; its complete `settings` have the endpoints of a run that brings its
    /// own.
    pub(crate) fn set(
        run: &ScriptRun,
        settings: &Settings,
        transport: Transport,
        programs: &Programs,
        shutdown: &Shutdown,
    ) -> Result<Self, ManagedError> {
        let target = settings.target();
        let start = || start_node(run, settings, programs, shutdown);
        let node = match run.node.cores {
            Some(cores) => on_cores(cores, start)
                .map_err(StartError::io(format!("cannot set node.cores = {cores}")))?,
            None => start(),
        }?;
        let address = node.as_ref().map_or(UNSPECIFIED, Node::address);
        let is_alone = run.node.nodes.get() == 1;
        let link = run.node.link.filter(|_| is_alone);
        let link = Link::before(address, link.map(|rate| rate.bits_per_second()))?;
        let address = link.as_ref().map_or(address, Link::address);
        let mut endpoints = match &node {
            Some(node) => vec![node.endpoint(target, transport, address)],
            None => settings.endpoints.clone(),
        };
        let sentinel = match &run.sentinel {
            Some(section) => {
                let sentinel = Sentinel::start(section, &endpoints, programs, shutdown)?;
                endpoints = vec![Endpoint::of(transport, sentinel.address)];
                Some(sentinel)
            }
            None => None,
        };
        let mut stage = Self {
            throttle: None,
            sentinel,
            node,
            _link: link,
            of: (run.node.clone(), run.sentinel.clone()),
            target,
            endpoints,
        };
        if let Some(share) = run.node.processor {
            let processes = stage.processes().into_iter().map(|started| started.process);
            let throttle = Throttle::start(processes, share.as_f64());
            stage.throttle =
                Some(throttle.map_err(StartError::io("cannot hold the node's processes back"))?);
        }
        Ok(stage)
    }

    /// Whether a run may go on with what is there.
    pub(crate) fn serves(&self, run: &ScriptRun) -> bool {
        !run.node.is_fresh() && self.of.0 == run.node && self.of.1 == run.sentinel
    }

    /// Where transactions go; empty when the run starts the built-in node itself.
    pub(crate) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The nodes that are recorded each: those of a network that was started, and every one that times the calls
    /// of its application.
    pub(crate) fn observed(&self) -> Vec<Observed> {
        let nodes = self.processes();
        let is_single = nodes.len() == 1;
        let observed = |(number, node): (usize, Started<'_>)| Observed {
            name: format!("node-{number}"),
            endpoint: node.endpoint,
            peer: node.peers.map(|at| Endpoint::of(Transport::P2p, at)),
            pid: i32::try_from(node.process.id()).ok(),
            metrics: node
                .metrics
                .and_then(|address| format!("http://{address}/metrics").parse().ok()),
            is_loaded: is_single,
        };
        let nodes = nodes
            .into_iter()
            .filter(|node| !is_single || node.metrics.is_some());
        nodes.enumerate().map(observed).collect()
    }

    /// The nodes that are processes.
    fn processes(&self) -> Vec<Started<'_>> {
        match &self.node {
            Some(Node::CometBft(nodes)) => {
                let started = nodes.iter().filter_map(|node| {
                    let process = node.process()?;
                    Some(Started::of_comet(node.address(), process, node.metrics()))
                });
                started.collect()
            }
            Some(Node::Btcd(nodes)) => {
                let started = nodes.iter().rev().map(|node| Started {
                    endpoint: btcd_endpoint(Transport::Http, node.address()),
                    process: node.process(),
                    metrics: None,
                    peers: Some(node.peers()),
                });
                started.collect()
            }
            Some(Node::Simd(node)) => {
                let (address, process) = (node.address(), node.process());
                vec![Started::of_comet(address, process, node.metrics())]
            }
            Some(Node::BuiltIn(..)) | None => Vec::new(),
        }
    }

    /// What has ended although it should not, with the end of its log.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        let sentinel = self.sentinel.as_mut();
        let sentinel = sentinel.and_then(|sentinel| sentinel.process.trouble());
        let node = match &mut self.node {
            Some(Node::CometBft(nodes)) => {
                let mut nodes = nodes.iter_mut().filter_map(CometBft::process_mut);
                nodes.find_map(Process::trouble)
            }
            Some(Node::Simd(node)) => node.process_mut().trouble(),
            Some(Node::Btcd(nodes)) => {
                let mut nodes = nodes.iter_mut();
                nodes.find_map(|node| node.process_mut().trouble())
            }
            _ => None,
        };
        sentinel.or(node)
    }

    /// Copies the logs of the processes into the run folder, the end of each.
    pub(crate) fn keep_logs(&self, folder: &Path) {
        let processes = self.processes();
        for (number, node) in processes.iter().enumerate() {
            let name = match processes.len() {
                1 => "node.log".into(),
                _ => format!("node-{number}.log"),
            };
            node.process.keep_log(&folder.join(name));
        }
        if let Some(sentinel) = &self.sentinel {
            sentinel.process.keep_log(&folder.join("sentinel.log"));
        }
    }

    /// Waits until the nodes hold no transactions, `own` among them; returns what is in the way if they
    /// still do after `patience`.
    pub(crate) fn settle(
        &self,
        own: &[String],
        patience: Duration,
        shutdown: &Shutdown,
    ) -> Option<String> {
        let trust = Trust::native();
        match Drain::new(self.target, &self.endpoints, &trust) {
            Ok(drain) => {
                let drained = drain.await_empty(own, Nanos::from(patience), shutdown);
                drained.obstacle
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

/// A node that is a process.
struct Started<'a> {
    /// Where it answers requests.
    endpoint: Endpoint,
    process: &'a Process,
    /// Where its metrics are, if it has some.
    metrics: Option<SocketAddr>,
    /// Where it announces blocks to its peers, if it does.
    peers: Option<SocketAddr>,
}

impl<'a> Started<'a> {
    fn of_comet(address: SocketAddr, process: &'a Process, metrics: SocketAddr) -> Self {
        Self {
            endpoint: Endpoint::of(Transport::Http, address),
            process,
            metrics: Some(metrics),
            peers: None,
        }
    }
}

/// Where a btcd that was started takes requests.
fn btcd_endpoint(transport: Transport, address: SocketAddr) -> Endpoint {
    Endpoint::of(transport, address).with_credentials(Btcd::USER, Btcd::USER)
}

/// The node of a run; none where the run finds it, or starts it itself.
fn start_node(
    run: &ScriptRun,
    settings: &Settings,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<Option<Node>, ManagedError> {
    let node = match run.node.kind() {
        NodeKind::Endpoints => return Ok(None),
        // The run starts it itself, with the rest of its clockwork.
        NodeKind::Builtin if run.node.is_fresh() && run.sentinel.is_none() => return Ok(None),
        NodeKind::Builtin => {
            let blueprint = plan::fitting(run.request.builtin.clone(), settings)?;
            let node = BuiltInNode::start(blueprint.clone(), settings.target())?;
            Node::BuiltIn(node, Box::new(blueprint))
        }
        NodeKind::Cometbft => Node::CometBft(start_cometbft(&run.node, programs, shutdown)?),
        NodeKind::Simd => Node::Simd(start_simd(&run.node, settings, programs, shutdown)?),
        NodeKind::Btcd => Node::Btcd(start_btcds(run, settings, programs, shutdown)?),
    };
    Ok(Some(node))
}

/// CometBFTs as a scenario's section wants them: one, or a network of validators.
fn start_cometbft(
    section: &NodeSection,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<Vec<CometBft>, ManagedError> {
    let found = servers::find(programs.cometbft.as_deref(), "cometbft");
    let binary = found.ok_or(ManagedError::Missing {
        name: "cometbft",
        variable: "COMETBFT_BIN",
        hint: "go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.17",
    })?;
    make_folder(programs)?;
    let options = CometBftOptions {
        binary,
        folder: Some(programs.folder.clone()),
        app: section.app.clone(),
        config: section.cometbft.clone(),
        genesis: section.genesis.clone(),
        link: section.link.map(BitRate::bits_per_second),
        guard: programs.guard.clone(),
    };
    when_ready(
        (1, section.start_timeout.into()),
        shutdown,
        |wait| match section.nodes.get() {
            1 => CometBft::start(&options, wait).map(|node| vec![node]),
            nodes => CometBft::network(&options, nodes, wait),
        },
    )
}

/// simd as a scenario's section wants it, with the accounts of the load in its genesis.
fn start_simd(
    section: &NodeSection,
    settings: &Settings,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<Simd, ManagedError> {
    let found = servers::find(programs.simd.as_deref(), "simd");
    let binary = found.ok_or(ManagedError::Missing {
        name: "simd",
        variable: "SIMD_BIN",
        hint: ".ci/simd builds ibc-go's",
    })?;
    make_folder(programs)?;
    let options = SimdOptions {
        binary,
        folder: Some(programs.folder.clone()),
        config: section.cometbft.clone(),
        app: section.simd.clone(),
        genesis: section.genesis.clone(),
        guard: programs.guard.clone(),
    };
    let endow = |genesis: &Path| {
        let wanted = plan::wanted(settings, "", settings.seed.unwrap_or_default(), None);
        let written = settings.chain().write_genesis(&wanted, genesis);
        written.map_err(|error| format!("{error:#}"))
    };
    // The node shows a block before its application answers for it.
    when_ready((2, section.start_timeout.into()), shutdown, |wait| {
        Simd::start(&options, endow, wait)
    })
}

fn make_folder(programs: &Programs) -> Result<(), StartError> {
    let folder = &programs.folder;
    fs::create_dir_all(folder).map_err(StartError::io(format!("cannot make {}", folder.display())))
}

/// btcds as a scenario's section wants them, each connected to the first, which comes last.
fn start_btcds(
    run: &ScriptRun,
    settings: &Settings,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<Vec<Btcd>, ManagedError> {
    let found = servers::find(programs.btcd.as_deref(), "btcd");
    let binary = found.ok_or(ManagedError::Missing {
        name: "btcd",
        variable: "BTCD_BIN",
        hint: "go install github.com/btcsuite/btcd@v0.26.2",
    })?;
    let chain = settings.chain();
    let mining_address = chain
        .mining_address(settings.chains.of(chain))
        .map_err(PlanError::from)?;
    let mut options = BtcdOptions {
        binary,
        folder: Some(programs.folder.clone()),
        mining_address: mining_address.unwrap_or_default(),
        connect: None,
        link: None,
        guard: programs.guard.clone(),
    };
    make_folder(programs)?;
    let mut wait = Wait {
        is_ready: &mut |address| TcpStream::connect_timeout(&address, PROBE_TIMEOUT).is_ok(),
        is_cancelled: &|| shutdown.is_requested(),
        timeout: run.node.start_timeout.into(),
    };
    let mut nodes: Vec<Btcd> = Vec::new();
    for _ in 0..run.node.nodes.get() {
        let is_first = nodes.is_empty();
        options.link = run
            .node
            .link
            .filter(|_| is_first)
            .map(BitRate::bits_per_second);
        let node = Btcd::start(&options, &mut wait)?;
        options.connect.get_or_insert(node.dialled());
        nodes.push(node);
    }
    nodes.reverse();
    Ok(nodes)
}

/// Starts a server that is ready when its RPC shows this height.
fn when_ready<T>(
    (height, timeout): (u64, Duration),
    shutdown: &Shutdown,
    start: impl FnOnce(&mut Wait<'_>) -> Result<T, StartError>,
) -> Result<T, ManagedError> {
    let runtime = crate::runtime().map_err(StartError::io("cannot ask whether it is ready"))?;
    let mut is_ready = |address| {
        let client = Client::new(&Endpoint::of(Transport::Http, address), PROBE_TIMEOUT);
        client.is_ok_and(|client| {
            let status = runtime.block_on(client.status());
            status.is_ok_and(|status| status.latest_block_height >= height)
        })
    };
    let mut wait = Wait {
        is_ready: &mut is_ready,
        is_cancelled: &|| shutdown.is_requested(),
        timeout,
    };
    Ok(start(&mut wait)?)
}

const UNSPECIFIED: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
