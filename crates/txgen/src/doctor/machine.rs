//! The machine that is to generate.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use procfs::{CpuPressure, Current as _, LoadAverage};
use report::text::grouped;
use rustix::process::{Resource, getrlimit};

use super::Finding;

/// What a look at it shows.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) cores: usize,
    /// The kernel's clock source.
    pub(super) clock: Option<String>,
    /// Whether the clock is kept in step with others, where a program says so.
    pub(super) is_in_step: Option<bool>,
    /// Soft and hard limit of open files; `None` is unlimited.
    pub(super) open_files: [Option<u64>; 2],
    /// How much later than asked a thread wakes: median and 99th percentile, in microseconds.
    pub(super) late_us: [u64; 2],
    /// Share of the last ten seconds in which something waited for a core, in percent.
    pub(super) pressure: Option<f32>,
    /// Programs that run or wait for a core, over the last minute.
    pub(super) load: Option<f32>,
}

impl Machine {
    /// Takes half a second or more.
    pub(super) fn look() -> Self {
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

/// What the first program says that knows; chrony's leap status is its last but one field.
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

/// What is said of it.
pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
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
