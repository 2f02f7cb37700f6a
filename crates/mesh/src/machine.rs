//! The machine that the nodes run on, from `/proc/stat`.

use std::fs;

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
    last: Option<Ticks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
    cpus: u64,
}

impl MachineMeter {
    /// The CPU time since the last call; `None` at the first one, and where the system has no `/proc/stat`.
    pub(crate) fn look(&mut self, second: u64) -> Option<MachineSecond> {
        let now = Ticks::of(&fs::read_to_string("/proc/stat").ok()?)?;
        let last = self.last.replace(now)?;
        now.since(&last, second)
    }
}

impl Ticks {
    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal
    /// (proc(5)); the guests' times are in user's already.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().find(|line| line.starts_with("cpu "))?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .map_while(|text| text.parse().ok())
            .collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or_default();
        let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        (ticks.len() >= 4).then(|| Self {
            busy: at(0) + at(1) + at(2) + at(5) + at(6),
            stolen: at(7),
            all: ticks.iter().take(8).sum(),
            cpus: stat.lines().filter(is_cpu).count().max(1) as u64,
        })
    }

    fn since(&self, last: &Self, second: u64) -> Option<MachineSecond> {
        let all = self.all.checked_sub(last.all).filter(|all| *all > 0)?;
        let cpus = self.cpus as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all as f64 * cpus;
        Some(MachineSecond {
            second,
            busy: share(self.busy, last.busy),
            stolen: share(self.stolen, last.stolen),
            cpus,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy_time() {
        let stat = |user: u64, idle: u64, steal: u64| {
            format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1\ncpu1 1\nintr 5\n")
        };
        let before = Ticks::of(&stat(100, 1000, 7)).unwrap();
        let after = Ticks::of(&stat(200, 1050, 57)).unwrap();
        let second = after.since(&before, 3).unwrap();
        assert_eq!((second.busy, second.stolen, second.cpus), (1.0, 0.5, 2.0));
        assert!(before.since(&before, 3).is_none(), "no time has passed");
        assert!(Ticks::of("nonsense").is_none());
    }
}
