//! How busy this machine is, from /proc: what competes with the generator, and with a node beside it.

use std::time::Instant;

use measure::Machine;
use procfs::{CpuPressure, CpuTime, Current as _, CurrentSI as _, KernelStats, ticks_per_second};

use super::preflight::Node;

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
    /// By now, `own_s` being what this process has used; `None` where the system does not say.
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

/// Whether one of the nodes answers on this machine.
pub(super) fn has_node(nodes: &[Node]) -> bool {
    let is_here = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    nodes
        .iter()
        .any(|node| is_here(&node.address.endpoint.host()))
}

fn busy_s(cpu: &CpuTime) -> f64 {
    let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
    seconds(cpu.user + cpu.nice + cpu.system + interrupts)
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_second() as f64
}
