//! `txgen doctor`: what this machine and a node that is to be measured can show, and what to change. It sends no
//! transaction.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, anyhow};
use chain::{FollowWith, NodeClient, Probe};
use ops::command::{CommandError, failed, usage};
use pacing::{Nanos, Rate};
use procfs::{CpuPressure, Current as _, LoadAverage};
use report::Entries;
use report::text::grouped;
use rpc::{ClientOptions, Endpoint, FollowEvent, FollowOptions};
use rustix::process::{Resource, getrlimit};
use sender::clock::RunClock;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::cli::DoctorArgs;
use crate::exit;
use crate::output::print;
use crate::plan::{Nodes, Plan, Request, RequestedLoad};
use crate::settings::Settings;

/// Something that was looked at.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    about: &'static str,
    text: String,
    /// What to change, where something should be.
    advice: Option<&'static str>,
}

impl Finding {
    fn new(about: &'static str, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            advice: None,
        }
    }

    /// Where the finding is not as it should be, with the advice for it.
    fn unless(self, is_right: bool) -> Self {
        let about = self.about;
        self.advised_unless(is_right, about)
    }

    /// With the advice of this name, where there is none yet.
    fn advised_unless(mut self, is_right: bool, name: &str) -> Self {
        let mut all = ADVICE.lines().filter_map(|line| line.split_once(": "));
        let found = all.find(|(known, _)| *known == name && !is_right);
        self.advice = self.advice.or(found.map(|(_, advice)| advice));
        self
    }
}

/// Looks and prints; gives the exit code, which is 0 whatever was found.
///
/// # Errors
/// When the node cannot be measured; what was found of the machine is printed before.
pub(crate) fn execute(args: DoctorArgs) -> Result<u8, CommandError> {
    let mut findings = findings(&Machine::look());
    let Some(endpoint) = args.endpoint else {
        findings.push(Finding::new("node", "none was named: txgen doctor URL"));
        return Ok(print(&text(&findings)));
    };
    let settings = Settings {
        endpoints: vec![endpoint],
        target: args.target,
        ca_file: args.ca_file,
        ..Settings::default()
    };
    let rate = Rate::per_second(1).map_err(failed)?;
    let request = Request {
        command: "doctor".into(),
        load: RequestedLoad::constant(rate, Nanos::from_secs(1)).map_err(failed)?,
        builtin: devnode::Blueprint::default(),
    };
    let plan = Plan::resolve(request, settings, 0).map_err(usage)?;
    match look(&plan) {
        Ok(node) => findings.extend(node_findings(&node)),
        Err(error) => {
            print(&text(&findings));
            return Err(CommandError {
                code: exit::FAILED,
                source: error,
            });
        }
    }
    Ok(print(&text(&findings)))
}

/// A line for each finding, its advice under it, and how much there is to change.
fn text(findings: &[Finding]) -> String {
    let mut entries = Entries::default();
    for finding in findings {
        entries.add(finding.about, &finding.text);
        if let Some(advice) = finding.advice {
            entries.add("", format!("→ {advice}"));
        }
    }
    let advised = findings.iter().filter(|it| it.advice.is_some()).count();
    let answer = match advised {
        0 => "nothing to change".to_owned(),
        1 => "one thing to change (→)".to_owned(),
        several => format!("{several} things to change (→)"),
    };
    format!("{answer}\n\n{}", entries.text())
}

/// A line for each fault: its name, and what to do.
const ADVICE: &str = include_str!("advice.txt");

/// What a look at it shows.
#[derive(Debug, Clone)]
struct Machine {
    cores: usize,
    /// The kernel's clock source.
    clock: Option<String>,
    /// Whether the clock is kept in step with others, where a program reports it.
    is_in_step: Option<bool>,
    /// Soft and hard limit of open files; `None` is unlimited.
    open_files: [Option<u64>; 2],
    /// How much later than asked a thread wakes: median and 99th percentile, in microseconds.
    late_us: [u64; 2],
    /// Share of the last ten seconds in which something waited for a core, in percent.
    pressure: Option<f32>,
    /// Programs that run or wait for a core, over the last minute.
    load: Option<f32>,
}

impl Machine {
    /// Takes half a second or more.
    fn look() -> Self {
        let clock = fs::read_to_string(CLOCK_SOURCE).ok();
        let limits = getrlimit(Resource::Nofile);
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            clock: clock.map(|name| name.trim().to_owned()),
            is_in_step: is_in_step(),
            open_files: [limits.current, limits.maximum],
            late_us: lateness(),
            pressure: CpuPressure::current().ok().map(|it| it.some.avg10),
            load: LoadAverage::current().ok().map(|it| it.one),
        }
    }
}

/// How late sleeps of a millisecond end.
fn lateness() -> [u64; 2] {
    let mut late: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let asked = Instant::now();
            thread::sleep(SLEEP);
            asked.elapsed().saturating_sub(SLEEP).as_micros() as u64
        })
        .collect();
    late.sort_unstable();
    [late[SLEEPS / 2], late[SLEEPS * 99 / 100]]
}

/// The answer of the first program that has one; chrony's leap status is its last but one field.
fn is_in_step() -> Option<bool> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    if let Some(text) = said("chronyc", &["-c", "tracking"]) {
        return Some(!text.contains("Not synchronised"));
    }
    if let Some(text) = said("ntpq", &["-c", "rv 0 leap"]) {
        return Some(!text.contains("leap=11") && !text.contains("leap_alarm"));
    }
    let text = said("timedatectl", &["show", "-p", "NTPSynchronized", "--value"])?;
    Some(text == "yes")
}

/// The message about it.
fn findings(machine: &Machine) -> Vec<Finding> {
    let cores = machine.cores;
    let clock = machine.clock.as_deref().unwrap_or("unknown");
    let in_step = match machine.is_in_step {
        Some(true) => "in step with others",
        Some(false) => "not in step with others",
        None => "whether it is in step with others is unknown (no chronyc, ntpq or timedatectl)",
    };
    let [soft, hard] = machine
        .open_files
        .map(|limit| limit.map_or("unlimited".into(), grouped));
    let [median, late] = machine.late_us;
    let timer = format!("wakes {median} us late, {late} us at the 99th percentile");
    let is_fast = clock != "unknown" && !SLOW_CLOCKS.contains(&clock);
    let mut findings = vec![
        Finding::new("cores", cores.to_string()).unless(cores > 1),
        Finding::new("clock", format!("{clock}; {in_step}"))
            .advised_unless(is_fast, "clock source")
            .unless(machine.is_in_step != Some(false)),
        Finding::new("open files", format!("{soft}, at most {hard}"))
            .unless(machine.open_files[1].is_none_or(|hard| hard >= ENOUGH_FILES)),
        Finding::new("timer", timer).unless(late < TOLERABLE_LATE_US),
    ];
    if let Some(pressure) = machine.pressure {
        let text = format!("something waited for a core in {pressure:.0} % of the last 10 s");
        findings.push(Finding::new("pressure", text).unless(pressure < TOLERABLE_PRESSURE));
    }
    if let Some(load) = machine.load {
        let text = format!("{load:.1} over the last minute");
        findings.push(Finding::new("load", text));
    }
    findings
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Those that are read through a device (Linux, Documentation/timers/timekeeping.rst).
const SLOW_CLOCKS: [&str; 3] = ["acpi_pm", "hpet", "jiffies"];
const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: usize = 300;
/// Beyond this a schedule counts as late.
const TOLERABLE_LATE_US: u64 = 1_000;
const TOLERABLE_PRESSURE: f32 = 10.0;
const ENOUGH_FILES: u64 = 4_096;

/// What a look at it shows.
#[derive(Debug, Clone)]
struct NodeLook {
    probe: Probe,
    /// Whether it answers at an address of this machine.
    is_here: bool,
    /// The shortest and the longest of some small queries.
    round_trip: [Nanos; 2],
    /// Transactions that wait in its mempool, where it reports them.
    waiting: Option<u64>,
    /// Times between the blocks that it announced meanwhile.
    intervals: Vec<Nanos>,
}

/// Asks the plan's first node, and watches it for a few blocks.
///
/// # Errors
/// When it cannot be measured.
fn look(plan: &Plan) -> anyhow::Result<NodeLook> {
    let Nodes::Endpoints(endpoints) = &plan.nodes else {
        return Err(anyhow!("no node was named"));
    };
    let endpoint = endpoints.first().context("no node was named")?;
    let runtime = crate::runtime().context("cannot ask the node")?;
    runtime.block_on(async {
        let options = ClientOptions::new(PATIENCE, &plan.trust);
        let client = plan.target.target().connect(endpoint, options)?;
        let probe = client.probe(&plan.load_options()).await?;
        let (round_trip, waiting) = ask(client.as_ref()).await;
        Ok(NodeLook {
            is_here: endpoint.resolve().is_ok_and(|all| all.iter().any(is_own)),
            intervals: intervals(plan, endpoint, &probe).await?,
            round_trip,
            waiting,
            probe,
        })
    })
}

async fn ask(client: &dyn NodeClient) -> ([Nanos; 2], Option<u64>) {
    let (mut least, mut most, mut waiting) = (Nanos::MAX, Nanos::ZERO, None);
    for number in 0..QUERIES {
        let asked = Instant::now();
        let answer = client.pending(&[]).await;
        let took = Nanos::from(asked.elapsed());
        // The first opens a connection.
        if number > 0 {
            (least, most) = (least.min(took), most.max(took));
        }
        waiting = answer.ok().flatten().map(|mempool| mempool.txs).or(waiting);
    }
    ([least, most], waiting)
}

/// Whether something may listen at this address here: then it is one of this machine's.
fn is_own(address: &SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

/// Times between the blocks of the next seconds.
async fn intervals(plan: &Plan, endpoint: &Endpoint, probe: &Probe) -> anyhow::Result<Vec<Nanos>> {
    let shutdown = CancellationToken::new();
    // Until it is started a clock shows 0.
    let clock = RunClock::default();
    clock.start(Nanos::ZERO);
    let with = FollowWith {
        endpoint,
        options: FollowOptions {
            trust: plan.trust.clone(),
            codes: false,
            ..FollowOptions::default()
        },
        clock,
        shutdown: shutdown.clone(),
    };
    let (mut follower, task) = plan.target.target().follow(probe, with)?;
    let mut seen: Vec<Nanos> = Vec::new();
    let watch = async {
        while seen.len() <= BLOCKS
            && let Some(event) = follower.next().await
        {
            if let FollowEvent::Block(block) = event {
                seen.push(block.observed);
            }
        }
    };
    let _ = timeout(WATCH, async {
        tokio::select! {
            () = task => {}
            () = watch => {}
        }
    })
    .await;
    shutdown.cancel();
    Ok(seen
        .windows(2)
        .map(|two| two[1].saturating_sub(two[0]))
        .collect())
}

/// The message about it.
fn node_findings(node: &NodeLook) -> Vec<Finding> {
    let chain = node.probe.chain_id.as_deref().unwrap_or("not named");
    let [least, most] = node.round_trip.map(Nanos::as_millis_f64);
    let waiting = match node.waiting {
        Some(count) => format!("{} transactions", grouped(count)),
        None => "it does not tell how many transactions wait".into(),
    };
    let place = if node.is_here {
        "on this machine"
    } else {
        "on another machine"
    };
    vec![
        Finding::new(
            "node",
            format!("version {}, chain {chain}", node.probe.version),
        ),
        Finding::new("place", place).unless(!node.is_here),
        Finding::new("round trip", format!("{least:.2} to {most:.2} ms")),
        blocks(&node.intervals),
        Finding::new("mempool", waiting).unless(node.waiting.unwrap_or(0) == 0),
        limits(&node.probe),
    ]
}

fn blocks(intervals: &[Nanos]) -> Finding {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let text = match (sorted.first(), sorted.last()) {
        (Some(least), Some(most)) => format!(
            "every {:.2} s ({:.2} to {:.2} s over {} blocks)",
            sorted[sorted.len() / 2].as_secs_f64(),
            least.as_secs_f64(),
            most.as_secs_f64(),
            sorted.len() + 1
        ),
        _ => format!("fewer than two were seen in {} s", WATCH.as_secs()),
    };
    Finding::new("blocks", text).unless(!sorted.is_empty())
}

fn limits(probe: &Probe) -> Finding {
    let limits = &probe.limits;
    let known = [
        (limits.block_txs, "transactions in a block"),
        (limits.block_bytes, "bytes in a block"),
        (limits.block_gas, "gas in a block"),
        (limits.mempool_txs, "transactions in the mempool"),
    ];
    let known = known.into_iter();
    let known = known.filter_map(|(limit, of)| Some(format!("{} {of}", grouped(limit?))));
    let text = known.collect::<Vec<_>>().join(", ");
    let text = if text.is_empty() {
        "it tells none".into()
    } else {
        text
    };
    Finding::new("limits", text)
}

const PATIENCE: Duration = Duration::from_secs(5);
const QUERIES: usize = 11;
/// Intervals that are enough.
const BLOCKS: usize = 5;
const WATCH: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use super::*;
    use super::{NodeLook, node_findings as of_node};

    fn good() -> Machine {
        Machine {
            cores: 8,
            clock: Some("tsc".into()),
            is_in_step: Some(true),
            open_files: [Some(1_024), Some(524_288)],
            late_us: [60, 120],
            pressure: Some(0.4),
            load: Some(0.2),
        }
    }

    fn advised(findings: &[Finding]) -> Vec<&'static str> {
        let advised = findings.iter().filter(|it| it.advice.is_some());
        advised.map(|it| it.about).collect()
    }

    #[test]
    fn a_good_machine_needs_no_change_and_each_fault_is_named_alone() {
        assert_eq!(advised(&findings(&good())), [""; 0]);
        assert!(text(&findings(&good())).starts_with("nothing to change\n"));
        let with = |change: fn(&mut Machine)| {
            let mut machine = good();
            change(&mut machine);
            advised(&findings(&machine))
        };
        assert_eq!(with(|it| it.cores = 1), ["cores"]);
        assert_eq!(with(|it| it.clock = Some("hpet".into())), ["clock"]);
        assert_eq!(with(|it| it.is_in_step = Some(false)), ["clock"]);
        assert_eq!(with(|it| it.open_files[1] = Some(1_024)), ["open files"]);
        assert_eq!(with(|it| it.late_us[1] = 5_000), ["timer"]);
        assert_eq!(with(|it| it.pressure = Some(60.0)), ["pressure"]);
        // What is unknown is no fault, and unlimited is enough.
        let unknown = with(|it| {
            (it.is_in_step, it.pressure, it.load) = (None, None, None);
            it.open_files = [None, None];
        });
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn a_node_on_this_machine_a_full_mempool_and_a_chain_without_blocks_are_named() {
        let good = || NodeLook {
            probe: Probe::default(),
            is_here: false,
            round_trip: [Nanos::from_micros(200), Nanos::from_millis(3)],
            waiting: Some(0),
            intervals: [900, 1_000, 1_300].map(Nanos::from_millis).to_vec(),
        };
        assert_eq!(advised(&of_node(&good())), [""; 0]);
        let shown = text(&of_node(&good()));
        assert!(
            shown.contains("every 1.00 s (0.90 to 1.30 s over 4 blocks)"),
            "{shown}"
        );
        assert!(shown.contains("0.20 to 3.00 ms"), "{shown}");
        assert!(shown.contains("it tells none"), "{shown}");
        let with = |change: fn(&mut NodeLook)| {
            let mut node = good();
            change(&mut node);
            advised(&of_node(&node))
        };
        assert_eq!(with(|it| it.is_here = true), ["place"]);
        assert_eq!(with(|it| it.waiting = Some(7)), ["mempool"]);
        assert_eq!(with(|it| it.waiting = None), [""; 0]);
        assert_eq!(with(|it| it.intervals.clear()), ["blocks"]);
    }
}
