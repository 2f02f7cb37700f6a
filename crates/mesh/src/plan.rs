//! What a mesh run is to do: every default filled in, everything checked that can be checked before.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use gossip::app::Mix;
use harness::toml_errors::{place_of_phase, with_suggestion};
use harness::{BitRate, Part, Phase, Scale, StartAt, fresh_seed, text};
use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};
use serde::{Deserialize, Serialize};

use super::mix_file;
use crate::cli::{RampArgs, SquareArgs};
use crate::settings::{CpuShare, MeshSettings, PerNode, Topology, Variant};

/// A mesh run, resolved.
#[derive(Debug, Clone)]
pub(crate) struct MeshPlan {
    pub(crate) document: PlanDocument,
    /// Another implementation's program in place of our own nodes.
    pub(crate) program: Option<PathBuf>,
    /// Of the load.
    pub(crate) schedule: Schedule,
    pub(crate) mix: Mix,
    /// Which of several machines this is, where there are several.
    pub(crate) part: Option<Part>,
    /// With several machines, when the load begins.
    pub(crate) start_at: Option<StartAt>,
    pub(crate) connect_timeout: Nanos,
    pub(crate) drain_timeout: Nanos,
    pub(crate) out: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// What has to be the same on all machines of a mesh and at all of its nodes, under the names of the flags: `plan` in
/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanDocument {
    #[serde(flatten)]
    pub(crate) load: MeshLoad,
    pub(crate) nodes: u16,
    #[serde(flatten)]
    pub(crate) variant: Variant,
    pub(crate) mix: String,
    /// The text of the mix's file.
    pub(crate) mix_text: String,
    #[serde(with = "text::value")]
    pub(crate) topology: Topology,
    pub(crate) fanout: u16,
    pub(crate) queue: u32,
    pub(crate) remembered: u32,
    pub(crate) loopback_ip: bool,
    #[serde(with = "text::list")]
    pub(crate) node_rate: Vec<PerNode<BitRate>>,
    #[serde(with = "text::list")]
    pub(crate) delay: Vec<PerNode<Nanos>>,
    #[serde(with = "text::list")]
    pub(crate) node_cpu: Vec<PerNode<CpuShare>>,
    #[serde(with = "text")]
    pub(crate) switch: Option<BitRate>,
    /// The addresses of all machines; empty for one machine.
    pub(crate) hosts: Vec<IpAddr>,
    pub(crate) port: u16,
    pub(crate) seed: u64,
}

impl MeshPlan {
    /// Fills in the defaults and refuses what cannot be run.
    ///
    /// # Errors
    /// Where a value is out of range, or two contradict each other.
    pub(crate) fn resolve(load: MeshLoad, settings: MeshSettings) -> anyhow::Result<Self> {
        check_machines(&settings)?;
        let origin = settings.mix.as_deref().unwrap_or("app");
        let mix_text = mix_file::text_of(origin)?;
        let mix = mix_file::parse(&mix_text, origin)?;
        let nodes = settings.nodes.map_or(DEFAULT_NODES, Into::into);
        ensure!(
            (2..=MAX_NODES).contains(&nodes),
            "--nodes {nodes} is not possible; real nodes are 2 to {MAX_NODES} (for more: txmesh simulate)"
        );
        ensure!(
            settings.node_cpu.iter().all(|it| it.value.0 < 1.0),
            "--node-cpu takes shares below 100%: a node is a process of one thread"
        );
        // The same on all machines.
        let common_seed = settings.start_at.map(StartAt::unix_ns);
        let seed = settings.seed.or(common_seed).unwrap_or_else(fresh_seed);
        let plan = Self::of_document(PlanDocument {
            load,
            nodes,
            variant: Variant {
                protocol: settings.protocol.unwrap_or(Variant::default().protocol),
                batch: settings.batch,
                announce: settings.announce,
            },
            mix: mix.name().to_owned(),
            mix_text,
            topology: settings.topology.unwrap_or(Topology::Full),
            fanout: settings.fanout.map_or(DEFAULT_FANOUT, Into::into),
            queue: settings.queue.map_or(DEFAULT_QUEUE, Into::into),
            remembered: settings.remembered.map_or(DEFAULT_REMEMBERED, Into::into),
            loopback_ip: settings.loopback_ip,
            node_rate: settings.node_rate,
            delay: settings.delay,
            node_cpu: settings.node_cpu,
            switch: settings.switch,
            hosts: settings.hosts,
            port: settings.port.unwrap_or(DEFAULT_PORT),
            seed,
        })?;
        Ok(Self {
            part: settings.shard,
            start_at: settings.start_at,
            connect_timeout: settings.connect_timeout.unwrap_or(plan.connect_timeout),
            drain_timeout: settings.drain_timeout.unwrap_or(plan.drain_timeout),
            out: settings.out,
            quiet: settings.quiet,
            ..plan
        })
    }

    /// The plan of a whole mesh from what one of its machines recorded.
    ///
    /// # Errors
    /// Where the record is not of this version.
    pub(crate) fn of_document(document: PlanDocument) -> anyhow::Result<Self> {
        Ok(Self {
            schedule: document.load.schedule()?,
            mix: mix_file::parse(&document.mix_text, "the mix")?,
            program: None,
            part: None,
            start_at: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            out: None,
            quiet: false,
            document,
        })
    }

    /// What is compared: the protocol and the ways to send, or the program of another implementation.
    pub(crate) fn label(&self) -> String {
        match &self.program {
            Some(program) => format!("{} ({})", program.display(), self.document.variant),
            None => self.document.variant.to_string(),
        }
    }

    /// The nodes that this machine starts.
    pub(crate) fn own_nodes(&self) -> impl Iterator<Item = u16> {
        let part = self.part.unwrap_or_default();
        (part.number() as u16 - 1..self.document.nodes).step_by(part.of().get() as usize)
    }

    /// Where a node listens: its address and, when others have to know it in advance, its port.
    pub(crate) fn listens(&self, node: u16) -> (IpAddr, u16) {
        let document = &self.document;
        if !document.hosts.is_empty() {
            let place = usize::from(node) % document.hosts.len();
            return (document.hosts[place], document.port.saturating_add(node));
        }
        let [high, low] = node.to_be_bytes();
        let address = if document.loopback_ip {
            Ipv4Addr::new(127, 1, high, low.saturating_add(1))
        } else {
            Ipv4Addr::LOCALHOST
        };
        (address.into(), 0)
    }

    /// Every how many messages of a maker one is followed: about [`FOLLOWED_PER_SECOND`] at the peak.
    pub(crate) fn sample(&self) -> u64 {
        let messages = self.schedule.profile().peak().as_f64() * MESSAGES_PER_TRANSACTION;
        ((messages / FOLLOWED_PER_SECOND) as u64).max(1)
    }
}

fn check_machines(settings: &MeshSettings) -> anyhow::Result<()> {
    if settings.hosts.is_empty() {
        ensure!(
            settings.shard.is_none() && settings.start_at.is_none() && settings.port.is_none(),
            "--shard, --start-at and --port are for several machines; name all of them with --hosts"
        );
        return Ok(());
    }
    let (Some(part), Some(_)) = (settings.shard, settings.start_at) else {
        bail!(
            "--hosts needs --shard I/N (which machine this is) and --start-at TIME (the same on all)"
        );
    };
    ensure!(
        part.of().get() as usize == settings.hosts.len(),
        "--shard {part} is of {} machines, --hosts names {}",
        part.of(),
        settings.hosts.len()
    );
    Ok(())
}

/// A mesh file: the flags as the table `mesh`, and the phases of the load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeshFile {
    name: Option<String>,
    #[serde(default)]
    mesh: MeshSettings,
    phases: Vec<Phase>,
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
    // First: what is wrong in a phase has no place in the other message.
    if let Some(problem) = place_of_phase(&text) {
        bail!("{}: {}", of_file(), with_suggestion(&problem, &[]));
    }
    let file: MeshFile = toml::from_str(&text)
        .map_err(|error| anyhow!("{}", with_suggestion(&error.to_string(), &[])))
        .with_context(of_file)?;
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let name = file.name.or(stem).unwrap_or_else(|| "run".into());
    let mut settings = flags.over(file.mesh);
    let folder = path.parent().unwrap_or(Path::new(""));
    // A mix and traces in a file are named relative to it.
    if let Some(mix) = &settings.mix
        && mix.ends_with(".toml")
        && !Path::new(mix).exists()
    {
        settings.mix = Some(folder.join(mix).display().to_string());
    }
    let mut phases = file.phases;
    for phase in &mut phases {
        if let Phase::Trace { path } = phase {
            *path = folder.join(&path);
        }
    }
    Ok((MeshLoad { name, phases }, settings))
}

const DEFAULT_NODES: u16 = 5;
/// Each is a process with N − 1 links on this machine.
const MAX_NODES: u16 = 64;
/// The application of the study set it so.
const DEFAULT_FANOUT: u16 = 16;
/// The same.
const DEFAULT_QUEUE: u32 = 10_000;
const DEFAULT_REMEMBERED: u32 = 1 << 20;
const DEFAULT_PORT: u16 = 9200;
const DEFAULT_CONNECT_TIMEOUT: Nanos = Nanos::from_secs(30);
const DEFAULT_DRAIN_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Messages that are followed through the mesh, each second, at the peak.
const FOLLOWED_PER_SECOND: f64 = 50.0;
/// Commit, ACK, reveal, ACK and their missing requests.
const MESSAGES_PER_TRANSACTION: f64 = 5.4;

/// What is offered, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeshLoad {
    /// The word for it.
    pub(crate) name: String,
    /// As files have them; traces are relative to the working directory.
    #[serde(rename = "load")]
    pub(crate) phases: Vec<Phase>,
}

impl MeshLoad {
    fn of(name: &str, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phases: vec![phase],
        }
    }

    /// One rate for a time.
    pub(crate) fn constant(rate: Rate, duration: Nanos) -> Self {
        let duration = Some(duration);
        Self::of("constant", Phase::Constant { rate, duration })
    }

    /// Steps up.
    pub(crate) fn ramp(args: &RampArgs) -> Self {
        let phase = Phase::Ramp {
            start: args.start,
            step: args.step,
            every: args.every,
            to: Some(args.to),
        };
        Self::of("ramp", phase)
    }

    /// High and low.
    pub(crate) fn square(args: &SquareArgs) -> Self {
        let phase = Phase::Square {
            rate: args.rate,
            low: Some(args.low),
            on: args.on,
            off: args.off,
            cycles: args.cycles,
        };
        Self::of("square", phase)
    }

    /// When each transaction is due.
    ///
    /// # Errors
    /// Where a phase is none, or the load has no end.
    pub(crate) fn schedule(&self) -> anyhow::Result<Schedule> {
        let profiles = (1..).zip(&self.phases).map(|(number, phase)| {
            let profile = phase.profile(Path::new(""), Scale::ONE);
            profile.with_context(|| format!("phase {number}"))
        });
        let mut profiles = profiles.collect::<anyhow::Result<Vec<_>>>()?;
        let profile = match profiles.len() {
            0 => bail!("there is nothing to offer; add a [[phases]] table"),
            1 => profiles.remove(0),
            _ => Profile::phases(profiles)?,
        };
        if profile.duration().is_none() {
            bail!("the load has no end; give the last phase a duration, or a ramp a last rate");
        }
        Ok(Schedule::new(profile, Arrivals::Even))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A load of one phase.
    pub(crate) fn load(phase: serde_json::Value) -> MeshLoad {
        MeshLoad::of("test", serde_json::from_value(phase).unwrap())
    }

    #[test]
    fn a_node_gets_the_load_that_the_command_line_asked_for() {
        let args = RampArgs {
            start: "1/s".parse().unwrap(),
            step: "500/s".parse().unwrap(),
            every: "30s".parse().unwrap(),
            to: "7000/s".parse().unwrap(),
            settings: MeshSettings::default(),
        };
        let text = serde_json::to_string(&MeshLoad::ramp(&args)).unwrap();
        let sent: MeshLoad = serde_json::from_str(&text).unwrap();
        let schedule = sent.schedule().unwrap();
        let profile = schedule.profile();
        let asked = Profile::steps(args.start, args.step, args.every, Some(args.to)).unwrap();
        assert_eq!(profile.step_count(), asked.step_count());
        assert_eq!(profile.total(), asked.total());
        assert_eq!(profile.peak(), args.to);
    }

    #[test]
    fn a_load_without_an_end_is_refused() {
        let phase = serde_json::json!({"profile": "constant", "rate": "5/s"});
        let error = load(phase).schedule().unwrap_err();
        assert!(error.to_string().contains("has no end"), "{error}");
    }
}
