//! What this process uses, under the names that Prometheus' own clients give (prometheus.io, "Writing client libraries",
//! "Process metrics").

use std::fmt;

use procfs::process::Process;
use procfs::{CurrentSI as _, KernelStats, ProcResult, page_size, ticks_per_second};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

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
    /// The system does not say.
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

/// Appends the exposition of this process; nothing where the system does not say.
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
}
