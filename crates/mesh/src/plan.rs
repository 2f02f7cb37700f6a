//! What a mesh run is to do: every default filled in, everything checked that can be checked before.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use gossip::app::Mix;
use harness::Part;
use harness::StartAt;
use harness::fresh_seed;
use harness::toml_errors::{place_of_phase, with_suggestion};
use pacing::Nanos;
use serde::Deserialize;
use serde_json::json;

use super::control::NodeConfig;
use super::load::MeshLoad;
use super::mix_file;
use crate::settings::MeshSettings;
use crate::settings::{CpuQuota, Isolation, LinkShape, Topology, Variant};

/// A mesh run, resolved.
#[derive(Debug, Clone)]
pub(crate) struct MeshPlan {
    pub(crate) nodes: u16,
    pub(crate) variant: Variant,
    /// Another implementation's program in place of our own nodes.
    pub(crate) program: Option<PathBuf>,
    pub(crate) load: MeshLoad,
    pub(crate) mix: Arc<Mix>,
    pub(crate) mix_text: String,
    pub(crate) topology: Topology,
    pub(crate) fanout: u16,
    pub(crate) queue: u32,
    pub(crate) isolation: Isolation,
    pub(crate) link: Option<LinkShape>,
    pub(crate) pin: Vec<usize>,
    pub(crate) cpu_quota: Option<CpuQuota>,
    pub(crate) machines: Option<Machines>,
    pub(crate) connect_timeout: Nanos,
    pub(crate) drain_timeout: Nanos,
    pub(crate) seed: u64,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// A mesh over several machines.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) hosts: Vec<IpAddr>,
    pub(crate) part: Part,
    /// `None` where the parts of all are one again.
    pub(crate) start_at: Option<StartAt>,
    pub(crate) first_port: u16,
}

impl MeshPlan {
    /// Fills in the defaults and refuses what cannot be run.
    ///
    /// # Errors
    /// Where a value is out of range, or two contradict each other.
    pub(crate) fn resolve(load: MeshLoad, settings: MeshSettings) -> anyhow::Result<Self> {
        let origin = settings.mix.as_deref().unwrap_or("app");
        let mix_text = mix_file::text_of(origin)?;
        let mix = Arc::new(mix_file::parse(&mix_text, origin)?);
        let nodes = settings.nodes.map_or(DEFAULT_NODES, Into::into);
        ensure!(
            (2..=MAX_NODES).contains(&nodes),
            "--nodes {nodes} is not possible; real nodes are 2 to {MAX_NODES} (for more: txmesh simulate)"
        );
        let isolation = settings.isolation.unwrap_or_default();
        ensure!(
            settings.link.is_none() || isolation == Isolation::Netns,
            "--link shapes the links of network namespaces; add --isolation netns"
        );
        let cpus = std::thread::available_parallelism().map_or(1, Into::into);
        if let Some(cpu) = settings.pin.iter().find(|cpu| **cpu >= cpus) {
            bail!(
                "--pin {cpu}: there is no such CPU here; they are 0 to {}",
                cpus - 1
            );
        }
        Ok(Self {
            nodes,
            variant: Variant {
                protocol: settings.protocol.unwrap_or(Variant::default().protocol),
                batch: settings.batch,
                announce: settings.announce,
                resend_filter: settings.resend_filter,
            },
            program: None,
            machines: machines(&settings, isolation)?,
            load,
            mix,
            mix_text,
            topology: settings.topology.unwrap_or(Topology::Full),
            fanout: settings.fanout.map_or(DEFAULT_FANOUT, Into::into),
            queue: settings.queue.map_or(DEFAULT_QUEUE, Into::into),
            isolation,
            link: settings.link,
            pin: settings.pin,
            cpu_quota: settings.cpu_quota,
            connect_timeout: settings.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            drain_timeout: settings.drain_timeout.unwrap_or(DEFAULT_DRAIN_TIMEOUT),
            // The same on all machines.
            seed: (settings.seed)
                .or_else(|| Some(settings.start_at?.unix_ns()))
                .unwrap_or_else(fresh_seed),
            out: settings.out,
            quiet: settings.quiet,
        })
    }

    /// What is compared: the protocol and the ways to send, or the program of another implementation.
    pub(crate) fn label(&self) -> String {
        match &self.program {
            Some(program) => format!("{} ({})", program.display(), self.variant),
            None => self.variant.to_string(),
        }
    }

    /// The nodes that this machine starts.
    pub(crate) fn own_nodes(&self) -> impl Iterator<Item = u16> {
        let (first, step) = self.machines.as_ref().map_or((0, 1), |machines| {
            (machines.part.number() - 1, machines.part.of().get())
        });
        (first as u16..self.nodes).step_by(step as usize)
    }

    /// Where a node listens: its address and, when others have to know it in advance, its port.
    pub(crate) fn listens(&self, node: u16) -> (IpAddr, u16) {
        if let Some(machines) = &self.machines {
            let place = usize::from(node) % machines.hosts.len();
            return (machines.hosts[place], machines.first_port + node);
        }
        let [high, low] = node.to_be_bytes();
        let address = match self.isolation {
            Isolation::None => Ipv4Addr::LOCALHOST,
            Isolation::LoopbackIp => Ipv4Addr::new(127, 1, high, low.saturating_add(1)),
            Isolation::Netns => Ipv4Addr::new(10, 99, high, low.saturating_add(2)),
        };
        (address.into(), 0)
    }

    /// What a node is told that is told what to do on this socket.
    pub(crate) fn node_config(&self, node: u16, control: &Path) -> NodeConfig {
        let (address, port) = self.listens(node);
        let cpus = match self.pin.len() {
            0 => Vec::new(),
            many => vec![self.pin[usize::from(node) % many]],
        };
        NodeConfig {
            node,
            nodes: self.nodes,
            listen: SocketAddr::new(address, port),
            source: Some(address),
            variant: self.variant,
            topology: self.topology,
            fanout: self.fanout,
            queue: self.queue,
            mix: self.mix_text.clone(),
            phases: self.load.phases.clone(),
            seed: self.seed,
            sample: self.sample(),
            cpus,
            control: control.to_owned(),
        }
    }

    /// Every how many messages of a maker one is followed: about [`FOLLOWED_PER_SECOND`] at the peak.
    pub(crate) fn sample(&self) -> u64 {
        let messages = self.load.profile.peak().as_f64() * MESSAGES_PER_TRANSACTION;
        ((messages / FOLLOWED_PER_SECOND) as u64).max(1)
    }

    /// For the manifest: what was resolved, under the names of the flags.
    pub(crate) fn document(&self) -> serde_json::Value {
        json!({
            "load": self.load.phases,
            "nodes": self.nodes,
            "protocol": self.variant.protocol,
            "batch": self.variant.batch,
            "announce": self.variant.announce,
            "resend_filter": self.variant.resend_filter,
            "program": self.program,
            "mix": self.mix.name(),
            "topology": self.topology,
            "fanout": self.fanout,
            "queue": self.queue,
            "isolation": self.isolation,
            "link": self.link,
            "pin": self.pin,
            "cpu_quota": self.cpu_quota,
            "hosts": self.machines.as_ref().map(|machines| &machines.hosts),
            "shard": self.machines.as_ref().map(|machines| machines.part.to_string()),
            "drain_timeout": self.drain_timeout.to_string(),
        })
    }
}

fn machines(settings: &MeshSettings, isolation: Isolation) -> anyhow::Result<Option<Machines>> {
    if settings.hosts.is_empty() {
        ensure!(
            settings.shard.is_none() && settings.start_at.is_none() && settings.port.is_none(),
            "--shard, --start-at and --port are for several machines; name all of them with --hosts"
        );
        return Ok(None);
    }
    ensure!(
        isolation == Isolation::None,
        "--isolation {isolation} is for a mesh on one machine; leave it out with --hosts"
    );
    let (Some(part), Some(start_at)) = (settings.shard, settings.start_at) else {
        bail!(
            "--hosts needs --shard I/N (which machine this is) and --start-at TIME (the same on all)"
        );
    };
    ensure!(
        part.of().get() as usize == settings.hosts.len(),
        "--shard {part} speaks of {} machines, --hosts of {}",
        part.of(),
        settings.hosts.len()
    );
    Ok(Some(Machines {
        hosts: settings.hosts.clone(),
        part,
        start_at: Some(start_at),
        first_port: settings.port.unwrap_or(DEFAULT_PORT),
    }))
}

/// A mesh file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeshFile {
    name: Option<String>,
    #[serde(default)]
    mesh: MeshSettings,
    phases: Vec<serde_json::Value>,
}

/// Reads a mesh file: its load, and its settings below those of the command line.
///
/// # Errors
/// With the place in the file, and with the name that was probably meant.
pub(crate) fn read_file(
    path: &Path,
    flags: MeshSettings,
) -> anyhow::Result<(MeshLoad, MeshSettings)> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let of_file = || path.display().to_string();
    let file: MeshFile = toml::from_str(&text)
        .map_err(|error| anyhow!("{}", with_suggestion(&error.to_string(), &[])))
        .with_context(of_file)?;
    if let Some(problem) = place_of_phase(&text) {
        bail!("{}: {}", of_file(), with_suggestion(&problem, &[]));
    }
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let name = file.name.or(stem).unwrap_or_else(|| "run".into());
    let mut settings = flags.over(file.mesh);
    // A mix in a file is named relative to it, as traces are.
    if let (Some(mix), Some(folder)) = (&settings.mix, path.parent())
        && mix.ends_with(".toml")
        && !Path::new(mix).exists()
    {
        settings.mix = Some(folder.join(mix).display().to_string());
    }
    let load = MeshLoad::new(&name, file.phases, path).with_context(of_file)?;
    Ok((load, settings))
}

const DEFAULT_NODES: u16 = 5;
/// Each is a process with N − 1 links on this machine.
const MAX_NODES: u16 = 64;
/// The application of the study set it so.
const DEFAULT_FANOUT: u16 = 16;
/// The same.
const DEFAULT_QUEUE: u32 = 10_000;
const DEFAULT_PORT: u16 = 9200;
const DEFAULT_CONNECT_TIMEOUT: Nanos = Nanos::from_secs(30);
const DEFAULT_DRAIN_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Messages that are followed through the mesh, each second, at the peak.
const FOLLOWED_PER_SECOND: f64 = 50.0;
/// Commit, ACK, reveal, ACK and their missing requests.
const MESSAGES_PER_TRANSACTION: f64 = 5.4;
