//! The access log: a line of JSON for each request that ended, or for one in so many.
//!
//! A thread of its own writes the lines, which a bounded queue feeds. A disk that does not keep up costs lines, which are
//! counted, and never a request.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairq::ClientKey;
use pacing::Nanos;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::metrics::{MethodClass, Metrics, OutcomeLabel, Transport};
use crate::refusal::Refusal;

/// Where lines go. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lines: SyncSender<Line>,
    /// One request in so many has a line.
    sample: u64,
    count: AtomicU64,
    metrics: Arc<Metrics>,
}

enum Line {
    Text(String),
    /// All lines before are to be written, and this told.
    Flush(oneshot::Sender<()>),
}

/// What is known of a request while it is served, if there is a log.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    id: Option<Box<str>>,
    began: Instant,
}

impl Seen {
    /// A request that begins now, with the `X-Request-Id` that its client gave it.
    pub(crate) fn new(id: Option<&[u8]>) -> Self {
        let id = id.and_then(|id| std::str::from_utf8(id).ok());
        let id = id.filter(|id| id.len() <= ID_BYTES);
        Self {
            id: id.map(Into::into),
            began: Instant::now(),
        }
    }
}

/// The end of a request: what it was, as far as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) client: ClientKey,
    pub(crate) call: Option<(Transport, MethodClass)>,
    pub(crate) seen: Option<&'a Seen>,
}

/// A line. Its fields are in the manual.
#[derive(Serialize)]
struct Fields<'a> {
    at_ms: u64,
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'static str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
}

impl AccessLog {
    /// Lines are appended to this file, one for `sample` requests.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path, sample: usize, metrics: &Arc<Metrics>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Self::to(file, sample, metrics)
    }

    fn to(
        file: impl Write + Send + 'static,
        sample: usize,
        metrics: &Arc<Metrics>,
    ) -> io::Result<Self> {
        let (lines, queue) = sync_channel(MOST_LINES);
        let counted = Arc::clone(metrics);
        let named = thread::Builder::new().name("sentinel-access".to_owned());
        // It ends with the last handle. A disk that answers nothing must not keep the program from ending.
        named.spawn(move || write_all(&queue, BufWriter::new(file), &counted))?;
        Ok(Self(Arc::new(Inner {
            lines,
            sample: sample.max(1) as u64,
            count: AtomicU64::new(0),
            metrics: Arc::clone(metrics),
        })))
    }

    /// A request has ended, with this refusal if it was refused.
    pub(crate) fn tell(&self, ended: Ended<'_>, outcome: OutcomeLabel, refusal: Option<&Refusal>) {
        let inner = &*self.0;
        let number = inner.count.fetch_add(1, Ordering::Relaxed);
        if !number.is_multiple_of(inner.sample) {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ms = at.map_or(0, |at| Nanos::from(at).as_millis());
        let took = |seen: &Seen| seen.began.elapsed().as_micros() as f64 / 1_000.0;
        let fields = Fields {
            at_ms,
            client: ended.client.to_string(),
            id: ended.seen.and_then(|seen| seen.id.as_deref()),
            transport: ended.call.map(|(transport, _)| transport.name()),
            class: ended.call.map(|(_, class)| class.name()),
            outcome: outcome.name(),
            reason: refusal.map(|refusal| refusal.reason.name()),
            detail: refusal.map(|refusal| refusal.detail.as_str()),
            took_ms: ended.seen.map(took),
        };
        let Ok(mut text) = serde_json::to_string(&fields) else {
            return;
        };
        text.push('\n');
        if inner.lines.try_send(Line::Text(text)).is_err() {
            inner.metrics.access_lines_lost.inc();
        }
    }

    /// Waits until what was told is in the file.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let mut line = Line::Flush(done);
        while let Err(TrySendError::Full(full)) = self.0.lines.try_send(line) {
            tokio::time::sleep(FLUSH_PAUSE).await;
            line = full;
        }
        // Without the thread there is nothing to wait for.
        let _ = written.await;
    }
}

/// Writes lines until the last handle is gone. What cannot be written is lost, and counted.
fn write_all(queue: &Receiver<Line>, mut file: BufWriter<impl Write>, metrics: &Metrics) {
    let count = |written: io::Result<()>| {
        if written.is_err() {
            metrics.access_lines_lost.inc();
        }
    };
    while let Ok(first) = queue.recv() {
        let mut waiting = Vec::new();
        for line in std::iter::once(first).chain(queue.try_iter().take(MOST_LINES)) {
            match line {
                Line::Text(text) => count(file.write_all(text.as_bytes())),
                Line::Flush(done) => waiting.push(done),
            }
        }
        count(file.flush());
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// Lines that wait for the disk: 2 MiB of usual ones, a second of 4,000 requests.
const MOST_LINES: usize = 4_096;
/// How often the end of the program looks whether the queue has room.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);
/// The longest id that is written down.
const ID_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use fairq::KeyScheme;
    use parking_lot::Mutex;

    use super::*;
    use crate::metrics::Gauges;
    use crate::refusal::Reason;

    /// A file in memory, which takes nothing while its gate is closed.
    #[derive(Clone, Default)]
    struct Disk {
        text: Arc<Mutex<Vec<u8>>>,
        gate: Arc<Mutex<()>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.gate.lock());
            self.text.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ended(seen: Option<&Seen>) -> Ended<'_> {
        Ended {
            client: KeyScheme::default().key([192, 0, 2, 7].into()),
            call: Some((Transport::Post, MethodClass::Status)),
            seen,
        }
    }

    #[tokio::test]
    async fn a_line_says_who_asked_what_and_how_it_ended() {
        let (disk, metrics) = (Disk::default(), Arc::new(Metrics::new()));
        let log = AccessLog::to(disk.clone(), 1, &metrics).unwrap();
        let seen = Seen::new(Some(b"a\"\n1"));
        log.tell(ended(Some(&seen)), OutcomeLabel::Forwarded, None);
        let refusal = Refusal::new(Reason::Rate, "more than 1/s");
        log.tell(ended(None), OutcomeLabel::Rejected, Some(&refusal));
        log.flush().await;
        let text = String::from_utf8(disk.text.lock().clone()).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (name, first, second) in [
            ("client", "192.0.2.7", "192.0.2.7"),
            ("id", "a\"\n1", ""),
            ("transport", "post", "post"),
            ("class", "status", "status"),
            ("outcome", "forwarded", "rejected"),
            ("reason", "", "rate"),
            ("detail", "", "more than 1/s"),
        ] {
            let found = [&lines[0], &lines[1]].map(|line| line[name].as_str().unwrap_or_default());
            assert_eq!(found, [first, second], "{name}");
        }
        assert!(lines[0]["at_ms"].is_u64() && lines[0]["took_ms"].is_f64());
    }

    #[tokio::test]
    async fn a_disk_that_takes_nothing_costs_lines_and_no_request() {
        let (disk, metrics) = (Disk::default(), Arc::new(Metrics::new()));
        let log = AccessLog::to(disk.clone(), 1, &metrics).unwrap();
        let (tell, told) = channel();
        let closed = disk.gate.lock();
        // More than the queue and the writer hold.
        thread::spawn(move || {
            for _ in 0..4 * MOST_LINES {
                log.tell(ended(None), OutcomeLabel::Forwarded, None);
            }
            tell.send(log).unwrap();
        });
        let log = told.recv().unwrap();
        drop(closed);
        log.flush().await;
        let lost = metrics.access_lines_lost.get();
        let kept = disk
            .text
            .lock()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert!(lost >= MOST_LINES as u64, "{lost}");
        assert_eq!(kept as u64 + lost, 4 * MOST_LINES as u64);
        let text = metrics.render(&Gauges::default());
        assert!(text.contains(&format!("sentinel_access_lines_lost_total {lost}\n")));
    }

    #[tokio::test]
    async fn one_in_so_many_requests_has_a_line() {
        let (disk, metrics) = (Disk::default(), Arc::new(Metrics::new()));
        let log = AccessLog::to(disk.clone(), 10, &metrics).unwrap();
        for _ in 0..95 {
            log.tell(ended(None), OutcomeLabel::Forwarded, None);
        }
        log.flush().await;
        let lines = disk
            .text
            .lock()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert_eq!(lines, 10);
    }

    #[test]
    fn a_long_id_is_left_out() {
        assert_eq!(Seen::new(Some(&[b'x'; ID_BYTES + 1])).id, None);
        assert_eq!(Seen::new(Some(b"\xff")).id, None);
        assert!(Seen::new(Some(&[b'x'; ID_BYTES])).id.is_some());
    }
}
