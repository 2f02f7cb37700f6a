//! The machine that the nodes run on, from `/proc/stat`.

use procfs::{CpuTime, CurrentSI as _, KernelStats};
use serde::{Deserialize, Serialize};

/// One second of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineSecond {
    pub(crate) second: u64,
    /// CPUs that were busy, with any program.
    pub(crate) busy: f64,
    /// CPUs that another guest of the host had (steal).
    pub(crate) stolen: f64,
    /// All CPUs.
    pub(crate) cpus: f64,
}

/// Reads what the machine did between two looks.
#[derive(Debug, Default)]
pub(crate) struct MachineMeter {
    last: Option<KernelStats>,
}

impl MachineMeter {
    /// The CPU time since the last call; `None` at the first one, and where the system has no `/proc/stat`.
    pub(crate) fn look(&mut self, second: u64) -> Option<MachineSecond> {
        let now = KernelStats::current().ok()?;
        let last = self.last.replace(now.clone())?;
        since(&last, &now, second)
    }
}

fn since(last: &KernelStats, now: &KernelStats, second: u64) -> Option<MachineSecond> {
    let ticks = |of: fn(&CpuTime) -> u64| of(&now.total).saturating_sub(of(&last.total)) as f64;
    let all = ticks(|cpu| busy(cpu) + cpu.idle + cpu.iowait.unwrap_or(0) + stolen(cpu));
    let cpus = now.cpu_time.len().max(1) as f64;
    (all > 0.0).then(|| MachineSecond {
        second,
        busy: ticks(busy) / all * cpus,
        stolen: ticks(stolen) / all * cpus,
        cpus,
    })
}

/// The guests' times are in the user's already (proc(5)).
fn busy(cpu: &CpuTime) -> u64 {
    let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
    cpu.user + cpu.nice + cpu.system + interrupts
}

fn stolen(cpu: &CpuTime) -> u64 {
    cpu.steal.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use procfs::FromReadSI as _;

    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy_time() {
        let stat = |user: u64, idle: u64, steal: u64| {
            let cpu = "1 0 0 1 0 0 0 0 0 0";
            let text = format!(
                "cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 {cpu}\ncpu1 {cpu}\nctxt 1\nbtime 1\nprocesses 1\n"
            );
            KernelStats::from_read(text.as_bytes(), procfs::current_system_info()).unwrap()
        };
        let before = stat(100, 1000, 7);
        let second = since(&before, &stat(200, 1050, 57), 3).unwrap();
        assert_eq!((second.busy, second.stolen, second.cpus), (1.0, 0.5, 2.0));
        assert!(since(&before, &before, 3).is_none(), "no time has passed");
    }
}
