//! What a node's process has used: from /proc of this machine, or from the node's Prometheus metrics.

use std::collections::BTreeMap;
use std::fs;

use measure::NodeRow;
use procfs::net::DeviceStatus;
use procfs::process::Process;
use procfs::{CpuTime, CurrentSI as _, KernelStats, ticks_per_second};

/// Everything that was used since a process began; what a source does not have is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counters {
    /// Processor time in seconds, of the process and of each of its threads.
    cpu_s: Option<f64>,
    threads_s: BTreeMap<i32, f64>,
    /// Of everything on the machine.
    machine_s: Option<f64>,
    rss_bytes: Option<u64>,
    threads: Option<u64>,
    disk_read: Option<u64>,
    disk_written: Option<u64>,
    net_received: Option<u64>,
    net_sent: Option<u64>,
    /// By their names, those whose capacity is known.
    links: BTreeMap<String, Link>,
    calls: Calls,
}

/// What a CometBFT called its application for; nothing of a program without these metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Calls {
    checks: Option<f64>,
    rechecks: Option<f64>,
    checking_s: Option<f64>,
    executing_s: Option<f64>,
    commit_step_s: Option<f64>,
}

impl Calls {
    /// Adds the value of a metric (`proxy/metrics.go`, `mempool/metrics.go` and `consensus/metrics.go` of CometBFT 0.37
    /// to 1.0); what all names begin with is in the node's configuration.
    fn add(&mut self, name: &str, labels: &str, value: f64) {
        let is = |of: &str| name.ends_with(of);
        let has = |label: &str| labels.contains(label);
        let sum = if is("mempool_recheck_times") {
            &mut self.rechecks
        } else if is("consensus_step_duration_seconds_sum") && has("step=\"Commit\"") {
            &mut self.commit_step_s
        } else if is("abci_connection_method_timing_seconds_count") && has(CHECKING) {
            &mut self.checks
        } else if !is("abci_connection_method_timing_seconds_sum") {
            return;
        } else if has(CHECKING) {
            &mut self.checking_s
        } else if EXECUTING.iter().any(|call| has(call)) {
            &mut self.executing_s
        } else {
            return;
        };
        *sum = Some(sum.unwrap_or_default() + value);
    }

    fn note(&self, before: &Self, row: &mut NodeRow) {
        let since = |of: fn(&Self) -> Option<f64>| {
            // A counter without a value yet is at zero.
            let before = of(before).unwrap_or_default();
            of(self)
                .map(|now| now - before)
                .filter(|since| *since >= 0.0)
        };
        row.checks = since(|calls| calls.checks).map(|checks| checks as u64);
        row.rechecks = since(|calls| calls.rechecks).map(|checks| checks as u64);
        row.checking_s = since(|calls| calls.checking_s);
        row.executing_s = since(|calls| calls.executing_s);
        row.commit_step_s = since(|calls| calls.commit_step_s);
    }
}

const CHECKING: &str = "method=\"check_tx\"";
/// Calls in which a block is executed and committed; of ABCI 2.0 the first and the last.
const EXECUTING: [&str; 5] = [
    "method=\"finalize_block\"",
    "method=\"begin_block\"",
    "method=\"deliver_tx\"",
    "method=\"end_block\"",
    "method=\"commit\"",
];

/// An interface of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Link {
    received: u64,
    sent: u64,
    /// Bits a second in a direction.
    capacity: f64,
}

impl Counters {
    /// Of a process of this machine. Its interfaces are those of its network namespace, the loopback
    /// included: several nodes that share one share these figures.
    pub(super) fn of_process(process: &Process) -> procfs::ProcResult<Self> {
        let stat = process.stat()?;
        let mut threads_s = BTreeMap::new();
        for task in process.tasks()?.flatten() {
            // A thread may end between the list and the look.
            if let Ok(stat) = task.stat() {
                threads_s.insert(task.tid, seconds(stat.utime + stat.stime));
            }
        }
        // What others may not read of a process of another user's stays unknown.
        let io = process.io().ok();
        let interfaces = process.dev_status().ok();
        let total = |of: fn(&DeviceStatus) -> u64| {
            interfaces.as_ref().map(|all| all.values().map(of).sum())
        };
        let machine = KernelStats::current().ok().map(|stats| stats.total);
        Ok(Self {
            cpu_s: Some(seconds(stat.utime + stat.stime)),
            threads_s,
            machine_s: machine.map(|cpu| busy_s(&cpu)),
            rss_bytes: Some(stat.rss * procfs::page_size()),
            threads: u64::try_from(stat.num_threads).ok(),
            disk_read: io.as_ref().map(|io| io.read_bytes),
            disk_written: io.as_ref().map(|io| io.write_bytes),
            net_received: total(|device| device.recv_bytes),
            net_sent: total(|device| device.sent_bytes),
            links: if shares_our_network(process) {
                links(
                    interfaces
                        .iter()
                        .flatten()
                        .map(|(name, device)| (&**name, device)),
                )
            } else {
                BTreeMap::new()
            },
            calls: Calls::default(),
        })
    }

    /// Of what Prometheus' client libraries export of their process (`process_*`, in Go also `go_threads`) and a
    /// CometBFT of its work, in the text format 0.0.4; a metric with several label sets counts with their sum.
    pub(super) fn of_metrics(text: &str) -> Self {
        let samples = || text.lines().filter_map(sample);
        let value = |name: &str| {
            let values = samples().filter(|(of, ..)| *of == name);
            values
                .map(|(.., value)| value)
                .reduce(|sum, value| sum + value)
        };
        let mut calls = Calls::default();
        for (name, labels, value) in samples() {
            calls.add(name, labels, value);
        }
        let whole = |name: &str| value(name).map(|value| value as u64);
        Self {
            cpu_s: value("process_cpu_seconds_total"),
            rss_bytes: whole("process_resident_memory_bytes"),
            threads: whole("go_threads"),
            net_received: whole("process_network_receive_bytes_total"),
            net_sent: whole("process_network_transmit_bytes_total"),
            calls,
            ..Self::default()
        }
    }

    /// The same with the calls that `metrics` count.
    pub(super) fn with_calls_of(self, metrics: &Self) -> Self {
        Self {
            calls: metrics.calls,
            ..self
        }
    }

    /// Fills in what was used since `before`, over so many seconds. A counter that went back belongs to
    /// another process, and shows nothing.
    pub(super) fn note(&self, before: &Self, seconds: f64, row: &mut NodeRow) {
        let cores = |now: Option<f64>, before: Option<f64>| {
            now.zip(before)
                .map(|(now, before)| (now - before) / seconds)
                .filter(|cores| *cores >= 0.0)
        };
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before)
                .and_then(|(now, before)| now.checked_sub(before))
        };
        row.cpu = cores(self.cpu_s, before.cpu_s);
        row.machine_cpu = cores(self.machine_s, before.machine_s);
        let busiest = self.threads_s.iter().filter_map(|(thread, now)| {
            let before = before.threads_s.get(thread).copied();
            cores(Some(*now), before.or(Some(0.0)))
        });
        row.busiest_thread = row.cpu.and_then(|_| busiest.max_by(f64::total_cmp));
        self.calls.note(&before.calls, row);
        row.rss_bytes = self.rss_bytes;
        row.threads = self.threads;
        row.disk_read_bytes = since(self.disk_read, before.disk_read);
        row.disk_written_bytes = since(self.disk_written, before.disk_written);
        row.net_received_bytes = since(self.net_received, before.net_received);
        row.net_sent_bytes = since(self.net_sent, before.net_sent);
        let links = self.links.iter().filter_map(|(name, now)| {
            let before = before.links.get(name)?;
            let bytes = now
                .received
                .checked_sub(before.received)?
                .max(now.sent.checked_sub(before.sent)?);
            Some((bytes as f64 * 8.0 / seconds, now.capacity))
        });
        let fullest = links.max_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
        (row.link_bits, row.link_capacity_bits) = fullest.unzip();
    }
}

/// What the processors of a machine have worked, in seconds.
pub(crate) fn busy_s(cpu: &CpuTime) -> f64 {
    let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
    seconds(cpu.user + cpu.nice + cpu.system + interrupts)
}

/// Ticks of the kernel in seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_second() as f64
}

/// Name, labels and value of a line of metrics.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, labels, value) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, value) = rest.rsplit_once('}')?;
            (name, labels, value)
        }
        None => {
            let (name, value) = line.split_once(' ')?;
            (name, "", value)
        }
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

/// The capacities of links are read of our own network namespace alone.
fn shares_our_network(process: &Process) -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let own = network("self");
    own.is_some() && own == network(&process.pid().to_string())
}

/// Interfaces whose capacity the system knows: not the loopback, and not most of virtual machines.
fn links<'a>(devices: impl Iterator<Item = (&'a str, &'a DeviceStatus)>) -> BTreeMap<String, Link> {
    let capacity = |name: &str| {
        let megabits = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
        let megabits: f64 = megabits.trim().parse().ok()?;
        (megabits > 0.0).then_some(megabits * 1e6)
    };
    let link = |(name, device): (&str, &DeviceStatus)| {
        let link = Link {
            received: device.recv_bytes,
            sent: device.sent_bytes,
            capacity: capacity(name)?,
        };
        Some((name.to_owned(), link))
    };
    devices.filter_map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a CometBFT 0.38 with `prometheus = true` exports them.
    const METRICS: &str = "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.\n\
        # TYPE process_cpu_seconds_total counter\n\
        process_cpu_seconds_total 12.5\n\
        process_resident_memory_bytes 6.4622592e+07\n\
        go_threads 11\n\
        go_threads_max 99\n\
        process_network_receive_bytes_total{device=\"eth0\"} 100\n\
        process_network_receive_bytes_total{device=\"eth1\"} 23\n\
        process_network_transmit_bytes_total 5 1795292000123\n";

    #[test]
    fn metrics_of_a_node_elsewhere_are_read_by_their_names() {
        let counters = Counters::of_metrics(METRICS);
        assert_eq!(counters.cpu_s, Some(12.5));
        assert_eq!(counters.rss_bytes, Some(64_622_592));
        assert_eq!(
            (counters.threads, counters.net_received, counters.net_sent),
            (Some(11), Some(123), Some(5))
        );
        assert_eq!(
            Counters::of_metrics("<html>not found</html>"),
            Counters::default()
        );
    }

    /// As a CometBFT 0.38.17 exports them (1.0 by the same names), with this many calls of each kind.
    fn calls(checks: u64, rechecks: u64, ms: u64) -> String {
        let timing = "cometbft_abci_connection_method_timing_seconds";
        let of = |method: &str| format!("{{chain_id=\"c\",method=\"{method}\"");
        let (check, finalize, commit) = (of("check_tx"), of("finalize_block"), of("commit"));
        let seconds = ms as f64 / 1e3;
        format!(
            "{timing}_bucket{check},type=\"async\",le=\"0.0001\"}} 77\n\
             {timing}_sum{check},type=\"async\"}} {seconds}\n{timing}_count{check},type=\"async\"}} {checks}\n\
             {timing}_sum{finalize},type=\"sync\"}} {seconds}\n{timing}_sum{commit},type=\"sync\"}} {seconds}\n\
             {timing}_sum{},type=\"sync\"}} 99\n\
             cometbft_mempool_recheck_times{{chain_id=\"c\"}} {rechecks}\n\
             cometbft_consensus_step_duration_seconds_sum{{chain_id=\"c\",step=\"Commit\"}} {seconds}\n\
             cometbft_consensus_step_duration_seconds_sum{{chain_id=\"c\",step=\"Propose\"}} 99\n",
            of("process_proposal")
        )
    }

    #[test]
    fn the_calls_of_a_node_s_application_are_counted_by_their_kinds_and_unknown_where_it_tells_of_none()
     {
        let row = |before: &str, now: &str| {
            let [before, now] = [before, now].map(Counters::of_metrics);
            let mut row = NodeRow::default();
            now.note(&before, 1.0, &mut row);
            let times = [row.checking_s, row.executing_s, row.commit_step_s];
            (row.checks, row.rechecks, times)
        };
        let (before, now) = (calls(100, 10, 250), calls(150, 15, 500));
        let quarter = Some(0.25);
        let expected = (Some(50), Some(5), [quarter, Some(0.5), quarter]);
        assert_eq!(row(&before, &now), expected);
        // The first call of a kind brings its metric.
        let first = (Some(150), Some(15), [Some(0.5), Some(1.0), Some(0.5)]);
        assert_eq!(row(METRICS, &now), first);
        // The node was started anew, or times nothing.
        let unknown = (None, None, [None; 3]);
        assert_eq!(row(&now, &before), unknown);
        assert_eq!(row(METRICS, METRICS), unknown);
    }

    #[test]
    fn a_row_has_the_differences_and_none_where_a_process_was_replaced() {
        let counters = |cpu_s: f64, threads: &[(i32, f64)], sent: u64| Counters {
            cpu_s: Some(cpu_s),
            threads_s: threads.iter().copied().collect(),
            net_sent: Some(sent),
            ..Counters::default()
        };
        let before = counters(10.0, &[(1, 6.0), (2, 4.0)], 1_000);
        let now = counters(13.0, &[(1, 6.2), (2, 5.9), (3, 0.9)], 9_000);
        let mut row = NodeRow::default();
        now.note(&before, 2.0, &mut row);
        assert_eq!(
            (row.cpu, row.net_sent_bytes, row.machine_cpu),
            (Some(1.5), Some(8_000), None)
        );
        assert!((row.busiest_thread.unwrap() - 0.95).abs() < 1e-9, "{row:?}");
        let mut row = NodeRow::default();
        before.note(&now, 2.0, &mut row);
        assert_eq!(
            (row.cpu, row.busiest_thread, row.net_sent_bytes),
            (None, None, None)
        );
    }

    #[test]
    fn of_several_links_the_one_nearest_its_capacity_is_told_of() {
        let counters = |wide: u64, narrow: u64| Counters {
            links: [("eth0", wide, 10e9), ("eth1", narrow, 100e6)]
                .map(|(name, sent, capacity)| {
                    let link = Link {
                        received: sent / 10,
                        sent,
                        capacity,
                    };
                    (name.to_owned(), link)
                })
                .into(),
            ..Counters::default()
        };
        let mut row = NodeRow::default();
        counters(200_000_000, 20_000_000).note(&counters(0, 0), 2.0, &mut row);
        assert_eq!(
            (row.link_bits, row.link_capacity_bits),
            (Some(80e6), Some(100e6))
        );
        counters(1, 1).note(&counters(2, 2), 2.0, &mut row);
        assert_eq!(
            (row.link_bits, row.link_capacity_bits),
            (None, None),
            "it was replaced"
        );
    }

    #[test]
    fn this_process_has_threads_memory_and_a_machine() {
        let me = Process::myself().unwrap();
        let counters = Counters::of_process(&me).unwrap();
        assert!(counters.rss_bytes.unwrap() > 1_000_000 && counters.threads.unwrap() >= 1);
        assert!(counters.machine_s.unwrap() >= counters.cpu_s.unwrap());
        assert!(!counters.threads_s.is_empty());
    }
}
