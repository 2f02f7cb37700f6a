//! A share of the CPU for each node, by control groups of either version.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::settings::CpuQuota;

/// A group for each node. Dropping takes them away, when the nodes have ended.
pub(super) struct CpuGroups {
    parent: PathBuf,
    quota: CpuQuota,
    made: Cell<u32>,
}

impl CpuGroups {
    pub(super) fn make(quota: CpuQuota) -> anyhow::Result<Self> {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let root = match unified {
            true => "/sys/fs/cgroup",
            false => "/sys/fs/cgroup/cpu",
        };
        let parent = Path::new(root).join(format!("txgen-{}", std::process::id()));
        fs::create_dir(&parent).with_context(|| {
            format!(
                "--cpu-quota needs the right to make control groups below {root} (root); to imitate weak \
                 machines without it, pin several nodes to one CPU with --pin"
            )
        })?;
        if unified {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu")
                .with_context(|| format!("cannot divide the CPU below {}", parent.display()))?;
        }
        Ok(Self {
            parent,
            quota,
            made: Cell::new(0),
        })
    }

    pub(super) fn admit(&self, pid: u32) -> anyhow::Result<()> {
        let group = self.group(self.made.replace(self.made.get() + 1));
        let (quota_us, period_us) = limits(self.quota);
        let refused = || format!("cannot limit the CPU of a node in {}", group.display());
        fs::create_dir(&group).with_context(refused)?;
        let limit = group.join("cpu.max");
        match limit.exists() {
            true => fs::write(limit, format!("{quota_us} {period_us}")),
            false => fs::write(group.join("cpu.cfs_period_us"), period_us.to_string())
                .and_then(|()| fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string())),
        }
        .and_then(|()| fs::write(group.join("cgroup.procs"), pid.to_string()))
        .with_context(refused)
    }

    fn group(&self, number: u32) -> PathBuf {
        self.parent.join(number.to_string())
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        // A group goes when its processes have; those that were killed just now may still be in it.
        for number in 0..self.made.get() {
            let _ = fs::remove_dir(self.group(number));
        }
        let _ = fs::remove_dir(&self.parent);
    }
}

/// How long a node may run in each period, and the period, in microseconds.
fn limits(CpuQuota(permille): CpuQuota) -> (u64, u64) {
    let permille = u64::from(permille);
    let period_us = PERIOD_US.max((SHORTEST_US * 1000).div_ceil(permille));
    (permille * period_us / 1000, period_us)
}

/// A tenth of the usual 100 ms, so that a node is slow rather than silent.
const PERIOD_US: u64 = 10_000;
/// The kernel refuses shorter quotas (min_cfs_quota_period in kernel/sched/core.c).
const SHORTEST_US: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quota_is_shorter_than_the_kernel_takes() {
        assert_eq!(limits(CpuQuota(250)), (2_500, 10_000));
        assert_eq!(limits(CpuQuota(64_000)), (640_000, 10_000));
        assert_eq!(limits(CpuQuota(10)), (1_000, 100_000));
        assert_eq!(limits(CpuQuota(30)), (1_000, 33_334));
    }
}
