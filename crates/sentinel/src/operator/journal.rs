//! The last lines of the log, for the operator's page: the same words as on stderr.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::registry::LookupSpan;

/// The last lines of the log, oldest first. A process has one log, and so one of these.
static LINES: Mutex<VecDeque<Entry>> = Mutex::new(VecDeque::new());

/// One line of the log, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// How long ago.
    pub ago_seconds: f64,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: &'static str,
    /// What happened.
    pub text: String,
}

/// When it was written, its level and its text.
type Entry = (Instant, Level, String);

/// Writes what is logged at INFO and above to the journal, whatever `log.level` is: INFO never grows
/// with the load.
pub fn recording<S>() -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    layer()
        .with_writer(Journal)
        .with_ansi(false)
        .with_target(false)
        .with_level(false)
        .without_time()
        .with_filter(LevelFilter::INFO)
}

/// The last lines, latest first.
pub fn recent() -> Vec<Event> {
    let lines = LINES.lock();
    let event = |(at, level, text): &Entry| Event {
        ago_seconds: at.elapsed().as_secs() as f64,
        level: level.as_str(),
        text: text.clone(),
    };
    lines.iter().rev().map(event).collect()
}

/// Makes a writer for each line.
struct Journal;

impl MakeWriter<'_> for Journal {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line(Level::INFO)
    }

    fn make_writer_for(&self, about: &Metadata<'_>) -> Line {
        Line(*about.level())
    }
}

/// One line of this level: it comes in one piece.
struct Line(Level);

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = LINES.lock();
        if lines.len() == MOST_LINES {
            lines.pop_front();
        }
        let text = text.trim().chars().take(LONGEST).collect();
        lines.push_back((Instant::now(), self.0, text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const MOST_LINES: usize = 40;
/// Characters of a line.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn the_last_lines_of_the_log_are_kept_and_no_more() {
        let log = tracing_subscriber::registry().with(recording());
        tracing::subscriber::with_default(log, || {
            tracing::info!(node = 0, "write connections are up");
            tracing::debug!("a line for developers");
            for number in 0..MOST_LINES {
                tracing::warn!(number, "{}", "long ".repeat(100));
            }
        });
        let lines = recent();
        assert_eq!(lines.len(), MOST_LINES);
        assert!(lines.iter().all(|line| line.level == "WARN"));
        assert!(lines[0].text.chars().count() <= LONGEST);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recording()), || {
            tracing::info!(node = 1, "write connections are up");
        });
        let last = &recent()[0];
        assert_eq!(
            (last.level, last.text.as_str()),
            ("INFO", "write connections are up node=1")
        );
    }
}
