//! The access log: a line of JSON for each request that ended, or for one in so many, and a span of each for a collector.
//!
//! A thread of its own writes the lines.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairq::ClientKey;
use pacing::Nanos;
use prometheus_client::metrics::counter::Counter;
use serde::{Serialize, Serializer};

use crate::background::Queue;
use crate::metrics::{MethodClass, Transport};
use crate::refusal::Refusal;

/// Where requests are written down. Clones share the queues.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queues: Vec<Requests>,
    /// One request in so many is written down.
    sample: u64,
    count: AtomicU64,
}

/// Feeds a thread that writes requests down.
pub(crate) type Requests = Queue<Box<Record>>;

/// Of lines of JSON, which are appended to this file.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn to_file(path: &Path, lost: &Counter) -> io::Result<Requests> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    to_writer(file, lost.clone())
}

fn to_writer(file: impl Write + Send + 'static, lost: Counter) -> io::Result<Requests> {
    Queue::of_lines("sentinel-access", file, lost, |file, record| {
        serde_json::to_writer(&mut *file, record)?;
        file.write_all(b"\n")
    })
}

/// What is known of a request while it is served, if it may be written down.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    id: Option<Box<str>>,
    traceparent: Option<Box<str>>,
    began: Instant,
}

impl Seen {
    /// A request that begins now, with the fields of its head.
    pub(crate) fn new<T: AsRef<[u8]>>(field: impl Fn(&'static str) -> Option<T>) -> Self {
        let text = |name| {
            let value = field(name)?;
            let text = std::str::from_utf8(value.as_ref()).ok()?;
            (text.len() <= FIELD_BYTES).then(|| Box::from(text))
        };
        Self {
            id: text("x-request-id"),
            traceparent: text("traceparent").filter(|it| is_traceparent(it)),
            began: Instant::now(),
        }
    }
}

/// Whether this names a trace and a span in it: version, trace, span and flags of W3C Trace Context, level 1.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut hex = |digits: usize| {
        let part = parts.next().unwrap_or_default();
        let is_hex = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let is_set = part.bytes().any(|digit| digit != b'0');
        (part.len() == digits && part.bytes().all(is_hex)).then_some((part, is_set))
    };
    let (version, trace, span, flags) = (hex(2), hex(32), hex(16), hex(2));
    // Later versions may have more parts, this one has not.
    let is_known = version
        .is_some_and(|(version, is_later)| version != "ff" && (is_later || parts.next().is_none()));
    let is_set = |id: Option<(&str, bool)>| id.is_some_and(|(_, is_set)| is_set);
    is_known && is_set(trace) && is_set(span) && flags.is_some()
}

/// The end of a request: what it was, as far as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) client: ClientKey,
    pub(crate) call: Option<(Transport, MethodClass)>,
    pub(crate) seen: Option<&'a Seen>,
}

impl Ended<'_> {
    /// Something of a client's that is no call.
    pub(crate) const fn of(client: ClientKey) -> Self {
        Self {
            client,
            call: None,
            seen: None,
        }
    }
}

/// A request that ended. Its fields are in the manual.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    #[serde(rename = "at_ms", serialize_with = "as_ms")]
    pub(crate) at: Duration,
    pub(crate) client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<&'static str>,
    pub(crate) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(
        rename = "took_ms",
        serialize_with = "as_fraction",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) took: Option<Duration>,
}

fn as_ms<S: Serializer>(at: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(Nanos::from(*at).as_millis())
}

fn as_fraction<S: Serializer>(took: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    took.map(|took| took.as_micros() as f64 / 1_000.0)
        .serialize(to)
}

impl AccessLog {
    /// One in `sample` requests goes into each of these queues.
    pub(crate) fn new(queues: Vec<Requests>, sample: usize) -> Self {
        Self(Arc::new(Inner {
            queues,
            sample: sample.max(1) as u64,
            count: AtomicU64::new(0),
        }))
    }

    /// A request has ended so, with this refusal if it was refused; or [would have been](WOULD_REJECT).
    pub(crate) fn tell(&self, ended: Ended<'_>, outcome: &'static str, refusal: Option<&Refusal>) {
        let inner = &*self.0;
        let number = inner.count.fetch_add(1, Ordering::Relaxed);
        if !number.is_multiple_of(inner.sample) {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let record = Box::new(Record {
            at: at.unwrap_or_default(),
            client: ended.client.to_string(),
            id: ended.seen.and_then(|seen| seen.id.clone()),
            traceparent: ended.seen.and_then(|seen| seen.traceparent.clone()),
            transport: ended.call.map(|(transport, _)| transport.name()),
            class: ended.call.map(|(_, class)| class.name()),
            outcome,
            reason: refusal.map(|refusal| refusal.reason.name()),
            detail: refusal.map(|refusal| refusal.detail.clone()),
            took: ended.seen.map(|seen| seen.began.elapsed()),
        });
        for queue in &inner.queues {
            queue.put(record.clone());
        }
    }

    /// Waits until all records so far are written.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn flush(&self) {
        for queue in &self.0.queues {
            queue.flush().await;
        }
    }
}

/// The outcome of what is decided in shadow: the request goes on, and has its own line.
pub(crate) const WOULD_REJECT: &str = "would_reject";
/// The longest field of a head that is written down: a `traceparent` has 55 bytes.
const FIELD_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use fairq::KeyScheme;
    use parking_lot::Mutex;

    use super::*;
    use crate::background::MOST_ENTRIES;
    use crate::metrics::{Gauges, Metrics, OutcomeLabel};
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

    fn to_disk(disk: &Disk, sample: usize, metrics: &Metrics) -> AccessLog {
        let queue = to_writer(disk.clone(), metrics.access_lost[0].clone()).unwrap();
        AccessLog::new(vec![queue], sample)
    }

    /// A head that has one field.
    fn head<'a>(has: &'a str, value: &'a [u8]) -> impl Fn(&'static str) -> Option<&'a [u8]> {
        move |name| (name == has).then_some(value)
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
        let (disk, metrics) = (Disk::default(), Metrics::default());
        let log = to_disk(&disk, 1, &metrics);
        let seen = Seen::new(head("x-request-id", b"a\"\n1"));
        log.tell(ended(Some(&seen)), OutcomeLabel::Forwarded.name(), None);
        let refusal = Refusal::new(Reason::Rate, "more than 1/s");
        log.tell(ended(None), OutcomeLabel::Rejected.name(), Some(&refusal));
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
        let (disk, metrics) = (Disk::default(), Metrics::default());
        let log = to_disk(&disk, 1, &metrics);
        let (tell, told) = channel();
        let closed = disk.gate.lock();
        // More than the queue and the writer hold.
        thread::spawn(move || {
            for _ in 0..4 * MOST_ENTRIES {
                log.tell(ended(None), OutcomeLabel::Forwarded.name(), None);
            }
            tell.send(log).unwrap();
        });
        let log = told.recv().unwrap();
        drop(closed);
        log.flush().await;
        let lost = metrics.access_lost[0].get();
        let kept = disk
            .text
            .lock()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert!(lost >= MOST_ENTRIES as u64, "{lost}");
        assert_eq!(kept as u64 + lost, 4 * MOST_ENTRIES as u64);
        let text = metrics.render(&Gauges::default());
        assert!(text.contains(&format!(
            "sentinel_access_lost_total{{to=\"file\"}} {lost}\n"
        )));
    }

    #[tokio::test]
    async fn one_in_so_many_requests_has_a_line() {
        let (disk, metrics) = (Disk::default(), Metrics::default());
        let log = to_disk(&disk, 10, &metrics);
        for _ in 0..95 {
            log.tell(ended(None), OutcomeLabel::Forwarded.name(), None);
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
        let id = |value: &[u8]| Seen::new(head("x-request-id", value)).id;
        assert_eq!(id(&[b'x'; FIELD_BYTES + 1]), None);
        assert_eq!(id(b"\xff"), None);
        assert!(id(&[b'x'; FIELD_BYTES]).is_some());
    }

    #[test]
    fn what_is_no_span_of_trace_context_is_left_out() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let kept = |text: &str| Seen::new(head("traceparent", text.as_bytes())).traceparent;
        // A later version may have more parts.
        for right in [
            "00-TRACE-b7ad6b7169203331-01",
            "01-TRACE-b7ad6b7169203331-01-x",
        ] {
            let right = right.replace("TRACE", trace);
            assert_eq!(kept(&right).as_deref(), Some(&*right));
        }
        for wrong in [
            "00-TRACE-b7ad6b7169203331-01-x",
            "ff-TRACE-b7ad6b7169203331-01",
            "00-TRACE-B7AD6B7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-TRACE-0000000000000000-01",
            "00-TRACE-b7ad6b716920333-01",
            "00-TRACE-b7ad6b7169203331",
            "",
        ] {
            assert_eq!(kept(&wrong.replace("TRACE", trace)), None, "{wrong}");
        }
    }
}
