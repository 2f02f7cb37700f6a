//! What this process uses, under the names that Prometheus' own clients give (prometheus.io, "Writing client libraries",
//! "Process metrics"); and its limit of open files (`RLIMIT_NOFILE`), raised as far as the system allows.

use std::fmt;

use procfs::process::Process;
use procfs::{CurrentSI as _, KernelStats, ProcResult, page_size, ticks_per_second};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessFigures {
    cpu_s: f64,
    resident_bytes: u64,
    open_files: u64,
    started_unix_s: f64,
}

impl ProcessFigures {
    /// Of this process.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn now() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
        Ok(Self {
            cpu_s: seconds(stat.utime + stat.stime),
            resident_bytes: stat.rss * page_size(),
            open_files: process.fd_count()? as u64,
            started_unix_s: KernelStats::current()?.btime as f64 + seconds(stat.starttime),
        })
    }

    /// Adds a metric for each figure.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "process_cpu",
            "Processor time that all threads have used, by the user and the system",
            Unit::Seconds,
            ConstCounter::new(self.cpu_s),
        );
        registry.register_with_unit(
            "process_resident_memory",
            "Memory of the process that is resident",
            Unit::Bytes,
            ConstGauge::new(self.resident_bytes as f64),
        );
        registry.register(
            "process_open_fds",
            "Open file descriptors",
            ConstGauge::new(self.open_files as f64),
        );
        registry.register_with_unit(
            "process_start_time",
            "Start of the process since the Unix epoch",
            Unit::Seconds,
            ConstGauge::new(self.started_unix_s),
        );
    }
}

/// Appends the exposition of this process; nothing where the system does not report it.
///
/// # Errors
/// Those of the writer.
pub fn encode(writer: &mut impl fmt::Write) -> fmt::Result {
    let Ok(figures) = ProcessFigures::now() else {
        return Ok(());
    };
    let mut registry = Registry::default();
    figures.register(&mut registry);
    prometheus_client::encoding::text::encode_registry(writer, &registry)
}

/// The limit stayed below what the program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewOpenFiles {
    /// Files the program may need at once.
    pub needed: u64,
    /// The soft limit now in force.
    pub limit: u64,
}

/// Raises the soft limit to `needed` files, and [`RESERVED_FILES`] for the program itself.
///
/// # Errors
/// The hard limit is lower, or the system refuses; the soft limit is then as high as it can be.
pub fn allow_open_files(needed: u64) -> Result<(), TooFewOpenFiles> {
    let needed = needed.saturating_add(RESERVED_FILES);
    let limits = getrlimit(Resource::Nofile);
    let Some(current) = limits.current.filter(|current| *current < needed) else {
        return Ok(());
    };
    let reachable = limits.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(reachable),
        maximum: limits.maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => reachable,
        Err(_) => current,
    };
    if limit < needed {
        return Err(TooFewOpenFiles { needed, limit });
    }
    Ok(())
}

/// Log, record and configuration files, listeners, timers: more than any program of ours opens.
pub const RESERVED_FILES: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_other_programs() {
        let mut text = String::new();
        encode(&mut text).unwrap();
        for name in [
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_open_fds ",
            "process_start_time_seconds ",
        ] {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            let value: f64 = value
                .unwrap_or_else(|| panic!("{name}: {text}"))
                .parse()
                .unwrap();
            assert!(value >= 0.0, "{name}");
        }
    }

    #[test]
    fn a_file_more_is_counted_and_the_start_stays() {
        let before = ProcessFigures::now().unwrap();
        let files: Vec<_> = (0..40)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let after = ProcessFigures::now().unwrap();
        // Other tests of this process open and close a few.
        assert!(after.open_files + 20 > before.open_files + files.len() as u64);
        assert!((after.started_unix_s - before.started_unix_s).abs() < 1.5);
        assert!(after.cpu_s >= before.cpu_s && after.resident_bytes > 0);
    }

    #[test]
    fn what_is_there_already_is_enough() {
        assert_eq!(allow_open_files(0), Ok(()));
    }

    #[test]
    fn a_limit_that_cannot_be_reached_is_named() {
        // Without a hard limit there is nothing to name.
        if getrlimit(Resource::Nofile).maximum.is_none() {
            return;
        }
        let refused = allow_open_files(u64::MAX).unwrap_err();
        assert_eq!(refused.needed, u64::MAX);
        assert!(refused.limit > 0);
    }
}
