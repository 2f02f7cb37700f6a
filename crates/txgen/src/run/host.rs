//! What is written before the first transaction: the manifest, and the run folder with its files.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use chain::NodeOptions;
use harness::RunFolder;
use jiff::Timestamp;
use measure::read::TableRow as _;
use measure::{
    ClockBound, EndpointInfo, FORMAT, Host, KeptRows, Machine, Manifest, NodeLimits, NodeRow,
    PlanDocument, RunFolderWriters, ShardName, SightRow,
};
use pacing::{Arrivals, Nanos, Schedule};
use procfs::{CpuPressure, Current as _, CurrentSI as _, KernelStats};
use sender::clock::Origin;
use sender::shard::Rules;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::nodes::Node;
use crate::observe::{Tables, busy_s, seconds};
use crate::output;
use crate::plan::{Load, Nodes, Plan};
use crate::threshold::Threshold;

pub(super) fn manifest(plan: &Plan, nodes: &[Node], built_in: bool, origin: Origin) -> Manifest {
    let started = Timestamp::from_nanosecond(i128::from(origin.unix_ns()))
        .map_or_else(|_| String::new(), |stamp| stamp.to_string());
    Manifest {
        format: FORMAT.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        origin_unix_ns: origin.unix_ns(),
        origin_error_ns: origin.error_ns(),
        started,
        plan: plan_document(plan),
        profile: output::describe_load(&plan.load),
        planned: plan.planned(),
        seed: plan.seed,
        endpoints: nodes
            .iter()
            .map(|node| EndpointInfo {
                url: node.url(),
                chain_id: node.probe.chain_id.clone(),
                node_version: Some(node.probe.version.clone()),
                built_in,
            })
            .collect(),
        limits: limits(plan, nodes),
        host: host(),
    }
}

/// The first node's answers about itself, and the configuration of the built-in one.
pub(super) fn limits(plan: &Plan, nodes: &[Node]) -> NodeLimits {
    let said = nodes.first().map(|node| node.probe.limits);
    let mut limits = said.unwrap_or_default();
    if let Nodes::BuiltIn { node, .. } = &plan.nodes {
        limits.block_txs = node.config.max_block_txs.map(|txs| txs as u64);
        limits.mempool_txs = Some(node.config.mempool.size as u64);
    }
    limits
}

/// The resolved plan under the names of the flags.
fn plan_document(plan: &Plan) -> PlanDocument {
    let texts = |conditions: &[Threshold]| conditions.iter().map(ToString::to_string).collect();
    let mut document = PlanDocument {
        command: plan.command.clone(),
        target: plan.target.facts().name.into(),
        method: plan.method_name(),
        connections: plan.connections.get(),
        source_address: plan.sources.iter().map(ToString::to_string).collect(),
        workload: plan.workload.to_string(),
        warmup: plan.warmup,
        threads: plan.threads.get(),
        signing_threads: plan.signing_threads.get(),
        signed_ahead: plan.signed_ahead,
        observe: plan.observe.iter().map(ToString::to_string).collect(),
        follow: plan.follow,
        strict: plan.strict,
        rows: plan.rows,
        checked: plan.is_checked(),
        shard: ShardName {
            number: plan.part.number(),
            of: plan.part.of().get(),
        },
        start_at: plan.start_at.map(|start| start.to_string()),
        planned_by_all: plan.planned_by_all(),
        abort_on: texts(&plan.abort_on),
        profile: plan.profiled.map(|process| process.to_string()),
        thresholds: texts(&plan.thresholds),
        ..PlanDocument::default()
    };
    let other = &mut document.other;
    if let Some(table) = plan.chain.0.settings() {
        other.insert(table.name().into(), plan.chain.1.clone().into());
    }
    if let Some(workload) = plan.workload.document() {
        let NodeOptions {
            batch,
            confirmations,
            ..
        } = plan.node_options;
        other.insert("transactions".into(), workload);
        other.insert("batch".into(), batch.get().into());
        other.insert("confirmations".into(), confirmations.get().into());
    }
    if let Load::Open {
        schedule,
        stop_when_saturated,
        reconnect_in_pauses,
    } = &plan.load
    {
        document.schedule = Some(fingerprint(schedule));
        document.arrivals = Some(schedule.arrivals().to_string());
        document.stop_when_saturated = Some(*stop_when_saturated);
        document.reconnect_in_pauses = Some(*reconnect_in_pauses);
    }
    with_rules(&document, &plan.rules)
        .expect("the document takes texts and numbers under the flags' names")
}

/// The document with the rules as they are written in a file.
fn with_rules(document: &PlanDocument, rules: &Rules) -> serde_json::Result<PlanDocument> {
    let mut keys: Map<String, Value> = serde_json::from_value(serde_json::to_value(document)?)?;
    let rules: Map<String, Value> = serde_json::from_value(serde_json::to_value(rules)?)?;
    keys.extend(rules);
    serde_json::from_value(Value::Object(keys))
}

/// Distinguishes schedules: a hash over the due times of transactions all along the profile. Two
/// generators of one load have the same.
fn fingerprint(schedule: &Schedule) -> String {
    // Random arrivals follow from the seed; what they are drawn along is the even schedule.
    let even = Schedule::new(schedule.profile().clone(), Arrivals::Even);
    let stride = even
        .planned()
        .map_or(1, |planned| planned.div_ceil(FINGERPRINT_SAMPLES).max(1));
    let mut hash = Sha256::new();
    for sample in 0..FINGERPRINT_SAMPLES {
        let due = even.due(sample * stride).map_or(u64::MAX, Nanos::as_nanos);
        hash.update(due.to_le_bytes());
    }
    hash.update(even.planned().unwrap_or(u64::MAX).to_le_bytes());
    hash.update(
        schedule
            .profile()
            .duration()
            .map_or(u64::MAX, Nanos::as_nanos)
            .to_le_bytes(),
    );
    let digest = hash.finalize();
    hex_simd::encode_to_string(&digest[..8], hex_simd::AsciiCase::Lower)
}

/// The machine that generates.
pub(crate) fn host() -> Host {
    let system = rustix::system::uname();
    let os = format!(
        "{} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy()
    );
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    Host {
        os,
        cpu: field("/proc/cpuinfo", "model name"),
        cpus,
        memory_bytes: field("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
            .map(|kibibytes| kibibytes * 1024),
        clock: clock_bound(),
    }
}

/// The bound of the wall clock's error, from chrony or else ntpd. `None` where neither runs, or neither has a source.
fn clock_bound() -> Option<ClockBound> {
    let answer = |program: &str, args: &[&str]| {
        let answer = Command::new(program).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&answer.stdout).into_owned())
    };
    let chrony = || chrony_bound(&answer("chronyc", &["-c", "tracking"])?);
    let ntp = || ntp_bound(&answer("ntpq", &["-c", "rv"])?);
    chrony().or_else(ntp)
}

fn bound(source: &str, error_ms: f64) -> ClockBound {
    ClockBound {
        source: source.into(),
        error_ms,
    }
}

/// From `chronyc -c tracking`: the offset from the sources, half of their delay, and their dispersion
/// (chrony's documentation of `tracking` gives this sum as the bound of the error).
fn chrony_bound(tracking: &str) -> Option<ClockBound> {
    let fields: Vec<&str> = tracking.trim().split(',').collect();
    let seconds = |place: usize| fields.get(place)?.parse::<f64>().ok();
    let synchronised = fields
        .last()
        .is_some_and(|leap| *leap != "Not synchronised");
    let error_s = seconds(4)?.abs() + seconds(10)? / 2.0 + seconds(11)?;
    synchronised.then(|| bound("chrony", error_s * 1e3))
}

/// From `ntpq -c rv`, in milliseconds: the same sum (RFC 5905, section 11.2: the root distance).
fn ntp_bound(variables: &str) -> Option<ClockBound> {
    let mut values = variables.split([',', '\n']).map(str::trim);
    let number = |name: &str| {
        let value = values.clone().find_map(|it| it.strip_prefix(name));
        value?.parse::<f64>().ok()
    };
    let error_ms = number("offset=")?.abs() + number("rootdelay=")? / 2.0 + number("rootdisp=")?;
    let alone = values.any(|it| it == "leap=11" || it.contains("leap_alarm"));
    (!alone).then(|| bound("ntpd", error_ms))
}

/// That the wall clock was set while a run went on, by so much against the monotonic one; nothing where it was not.
pub(super) fn clock_set(by_ns: i64) -> Option<String> {
    (by_ns.unsigned_abs() >= CLOCK_SET_NS).then(|| {
        format!(
            "this machine's clock was set by {:+.3} s while the run went on, or the machine slept: all times since 1970 \
             (ts_* of txs.csv) are by the clock as it was at the start, and durations are by one that is never set",
            by_ns as f64 / 1e9
        )
    })
}

/// More than reading both clocks one after the other takes on a busy machine.
const CLOCK_SET_NS: u64 = 100_000_000;
const FINGERPRINT_SAMPLES: u64 = 256;

/// The first `name: value` of a file of the kernel's.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().into())
}

/// What everything has used by one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineLook {
    at: Instant,
    busy_s: f64,
    stolen_s: f64,
    own_s: f64,
    waited_s: Option<f64>,
}

impl MachineLook {
    /// By now, `own_s` being what this process has used; `None` where the system does not report it.
    pub(super) fn now(own_s: f64) -> Option<Self> {
        let total = KernelStats::current().ok()?.total;
        let pressure = CpuPressure::current().ok();
        Some(Self {
            at: Instant::now(),
            busy_s: busy_s(&total),
            stolen_s: seconds(total.steal.unwrap_or(0)),
            own_s,
            waited_s: pressure.map(|pressure| pressure.some.total as f64 / 1e6),
        })
    }

    /// How busy it was from this look to a later one.
    pub(super) fn until(&self, later: &Self, has_node: bool) -> Machine {
        let length_s = later.at.duration_since(self.at).as_secs_f64().max(1e-3);
        let cores = |of: fn(&Self) -> f64| (of(later) - of(self)).max(0.0) / length_s;
        Machine {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            busy: cores(|look| look.busy_s),
            own: cores(|look| look.own_s),
            stolen: cores(|look| look.stolen_s),
            waited_s: later
                .waited_s
                .zip(self.waited_s)
                .map(|(to, from)| to - from),
            has_node,
        }
    }
}

/// Creates all files of a run.
///
/// # Errors
/// When one cannot be created.
pub(crate) fn open_all(folder: &RunFolder, rows: KeptRows) -> anyhow::Result<Files> {
    let manifest = with_room(folder.open("manifest.json")?)
        .context("cannot write manifest.json: free some space or choose another folder")?;
    let rows = RunFolderWriters {
        txs: open_rows(folder, rows)?,
        answers: folder.open("answers.csv")?,
        series: folder.open("series.csv")?,
        steps: folder.open("steps.csv")?,
        blocks: folder.open("blocks.csv")?,
        hlog: folder.open("latency.hlog")?,
    };
    Ok(Files {
        manifest,
        rows,
        summary: folder.open("summary.json")?,
    })
}

/// The empty file, on a disk that has taken a block of it: a full one is known before anything is sent.
fn with_room(mut file: File) -> std::io::Result<File> {
    file.write_all(&[b' '; BLOCK])?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

const BLOCK: usize = 4_096;

/// The file for the rows of transactions; `/dev/null` where none are kept.
fn open_rows(folder: &RunFolder, rows: KeptRows) -> anyhow::Result<File> {
    match rows {
        KeptRows::All | KeptRows::Sample(_) => folder.open("txs.csv"),
        KeptRows::None => {
            let path = Path::new("/dev/null");
            let opened = File::options().write(true).open(path);
            opened.context("cannot open /dev/null")
        }
    }
}

/// The files that the recorder writes.
pub(crate) type RowFiles = RunFolderWriters<File>;

/// The tables of observed nodes.
///
/// # Errors
/// When a file cannot be created.
pub(crate) fn observed_tables(folder: &RunFolder) -> anyhow::Result<Tables<File>> {
    Ok(Tables {
        nodes: folder.open(NodeRow::FILE)?,
        sights: folder.open(SightRow::FILE)?,
    })
}

/// All files of the folder, open.
pub(crate) struct Files {
    pub(crate) rows: RowFiles,
    pub(crate) manifest: File,
    pub(crate) summary: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge reads `waits_at`; what nothing reads is there for people.
    #[test]
    fn the_rules_of_sending_stand_in_the_document_under_their_flags() {
        let rules = Rules {
            at_max_in_flight: sender::shard::AtMaxInFlight::Wait,
            ..Rules::default()
        };
        let document = with_rules(&PlanDocument::default(), &rules).unwrap();
        assert_eq!(document.waits_at(), rules.waits_at());
        assert_eq!(document.other["catch_up"], "full");
        assert_eq!(document.other["answer_timeout"], "1m");
    }

    #[test]
    fn a_clock_that_was_set_during_the_run_is_told_to_both_sides() {
        let told = |by_ns| clock_set(by_ns).unwrap();
        assert!(told(3_600_000_000_000).contains("set by +3600.000 s"));
        assert!(told(-1_000_000_000).contains("set by -1.000 s"));
        assert!(clock_set(i64::MIN).is_some());
        assert_eq!(clock_set(5_000_000), None);
        assert_eq!(clock_set(0), None);
    }

    /// Fields as `chronyc -c tracking` of chrony 4 prints them.
    #[test]
    fn the_bound_of_the_clock_is_chronys_and_unknown_when_it_has_no_source() {
        let tracking = "C0A80001,192.168.0.1,3,1795292000.123,0.000200000,0.000012,0.000034,-7.4,0.001,0.02,\
                        0.004000000,0.001000000,64.2,Normal\n";
        let bound = chrony_bound(tracking).unwrap();
        assert!((bound.error_ms - 3.2).abs() < 1e-9, "{bound:?}");
        let alone = "7F7F0101,,10,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n";
        assert_eq!(chrony_bound(alone), None);
        assert_eq!(chrony_bound("506 Cannot talk to daemon\n"), None);
        assert_eq!(chrony_bound(""), None);
    }

    /// Lines as `ntpq -c rv` of ntpd 4.2.8 prints them.
    #[test]
    fn the_bound_of_the_clock_is_ntpds_root_distance() {
        let variables = "associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,\n\
                         leap=00, stratum=3, precision=-23, rootdelay=4.000, rootdisp=1.000,\n\
                         refid=192.168.0.1, offset=-0.200000, frequency=-7.4\n";
        let found = ntp_bound(variables).unwrap();
        assert_eq!(found.source, "ntpd");
        assert!((found.error_ms - 3.2).abs() < 1e-9, "{found:?}");
        assert_eq!(ntp_bound(&variables.replace("leap=00", "leap=11")), None);
        assert_eq!(ntp_bound("ntpq: read: Connection refused\n"), None);
    }
}
