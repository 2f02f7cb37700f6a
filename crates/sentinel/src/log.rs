//! The log on stderr.
//!
//! A terminal that was stopped (Ctrl-S) or a collector that hangs takes nothing from stderr, and a thread that writes to it
//! then waits as long. So a thread of its own writes there, and only that thread waits.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing::{Level, error};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry};

use crate::background::Queue;
use crate::operator::journal;

/// What writes the log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: Arc<Queue<Vec<u8>>>,
    lost: Counter,
}

impl Log {
    /// Begins to log what is of this level, panics of threads and tasks included; and gives back what changes the level.
    ///
    /// # Errors
    /// The system gives no descriptor, or no thread.
    pub(crate) fn begin(level: Level) -> io::Result<(Self, Handle<LevelFilter, Registry>)> {
        // The standard library's stderr has a lock, which would be held for as long as a write waits.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let is_terminal = io::stderr().is_terminal();
        let log = Self::to(stderr)?;
        let writer = log.clone();
        let (filter, handle) = reload::Layer::new(LevelFilter::from_level(level));
        let to_stderr = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(is_terminal)
            .with_filter(filter);
        tracing_subscriber::registry()
            .with(to_stderr)
            .with(journal::recording())
            .init();
        panic::set_hook(Box::new(|panicked| {
            let trace = Backtrace::capture();
            match trace.status() {
                BacktraceStatus::Captured => error!("{panicked}\n{trace}"),
                _ => error!("{panicked}"),
            }
        }));
        Ok((log, handle))
    }

    fn to(file: impl Write + Send + 'static) -> io::Result<Self> {
        let lost = Counter::default();
        let lines = Queue::of_lines(
            "sentinel-log",
            file,
            lost.clone(),
            |file, line: &Vec<u8>| file.write_all(line),
        )?;
        Ok(Self {
            lines: Arc::new(lines),
            lost,
        })
    }

    /// Waits until everything is written, but no longer than a second; whether it is.
    pub(crate) async fn end(&self) -> bool {
        let written = tokio::time::timeout(GOODBYE, self.lines.flush());
        written.await.is_ok()
    }
}

/// A line comes in one piece.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = self.lost.inner().swap(0, Ordering::Relaxed);
        let mut text = Vec::new();
        if lost > 0 {
            writeln!(
                text,
                "WARN {lost} lines are missing here: nothing took them from stderr"
            )?;
        }
        text.extend_from_slice(line.get(..LONGEST).unwrap_or(line));
        if line.len() > LONGEST {
            text.extend_from_slice("…\n".as_bytes());
        }
        if !self.lines.put(text) {
            self.lost.inc_by(lost);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long the end of the program waits for stderr.
const GOODBYE: Duration = Duration::from_secs(1);
/// Bytes of a line.
const LONGEST: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn lines_that_nothing_took_are_counted_where_they_are_missing() {
        let (taken, given) = io::pipe().unwrap();
        let mut log = Log::to(given).unwrap();
        let long = [b"x".repeat(2 * LONGEST), b"\n".to_vec()].concat();
        let written = 10_000;
        for _ in 0..written {
            log.write_all(&long).unwrap();
        }
        assert!(!log.end().await);
        let taken = thread::spawn(move || {
            let lines = BufReader::new(taken).lines();
            lines.map(Result::unwrap).collect::<Vec<_>>()
        });
        while !log.end().await {}
        log.write_all(b"after\n").unwrap();
        drop(log);
        let lines = taken.join().unwrap();
        assert_eq!(lines[0].len(), LONGEST + "…".len());
        let (mut found, mut missing) = (0, 0);
        for line in &lines {
            match line
                .strip_prefix("WARN ")
                .and_then(|line| line.split_once(' '))
            {
                Some((lost, _)) => missing += lost.parse::<u64>().unwrap(),
                None => found += 1,
            }
        }
        assert!(missing > 0);
        assert_eq!(found + missing, written + 1);
    }
}
