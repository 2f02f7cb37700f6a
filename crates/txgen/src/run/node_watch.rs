//! What the nodes of a load want of this machine's processor, and get.

use measure::NodeProcessor;
use procfs::process::Process;
use procfs::{CurrentSI as _, KernelStats};
use rpc::Endpoint;
use servers::listener;

use super::host::{busy_s, is_here, seconds};
use super::preflight::Node;

/// The processes that answer for the nodes on this machine.
pub(super) struct NodeWatch {
    processes: Vec<Process>,
    last: Option<Look>,
}

/// By one instant, in seconds of a core.
#[derive(Clone, Copy)]
struct Look {
    ran_s: f64,
    waited_s: f64,
    /// Everything on the machine, and what its host gave to other guests.
    all_s: f64,
}

impl NodeWatch {
    /// Those that listen where the nodes answer. A process that may not be looked at, or that another one replaces later,
    /// is left out: then nothing is known of it.
    pub(super) fn new(nodes: &[Node]) -> Self {
        let endpoints = nodes.iter().map(|node| &node.address.endpoint);
        let ports = endpoints
            .filter(|it| is_here(&it.host()))
            .map(Endpoint::port);
        let mut pids: Vec<i32> = ports.filter_map(listener).collect();
        pids.sort_unstable();
        pids.dedup();
        let processes = pids.into_iter().filter_map(|pid| Process::new(pid).ok());
        let mut watch = Self {
            processes: processes.collect(),
            last: None,
        };
        watch.last = watch.look();
        watch
    }

    /// Since the last call; `None` where the system does not say.
    pub(super) fn since(&mut self) -> Option<NodeProcessor> {
        let now = self.look();
        let before = std::mem::replace(&mut self.last, now)?;
        let passed = |of: fn(&Look) -> f64| now.map(|now| (of(&now) - of(&before)).max(0.0));
        let ran_s = passed(|look| look.ran_s)?;
        let others_s = passed(|look| look.all_s)? - ran_s;
        let waited_s = passed(|look| look.waited_s)?;
        Some(NodeProcessor::shared(ran_s, waited_s, others_s.max(0.0)))
    }

    fn look(&self) -> Option<Look> {
        if self.processes.is_empty() {
            return None;
        }
        let total = KernelStats::current().ok()?.total;
        let mut look = Look {
            ran_s: 0.0,
            waited_s: 0.0,
            all_s: busy_s(&total) + seconds(total.steal.unwrap_or(0)),
        };
        for process in &self.processes {
            for task in process.tasks().ok()?.flatten() {
                // A thread that has just ended has no figures.
                if let Ok(stat) = task.schedstat() {
                    look.ran_s += stat.sum_exec_runtime as f64 / 1e9;
                    look.waited_s += stat.run_delay as f64 / 1e9;
                }
            }
        }
        Some(look)
    }
}
