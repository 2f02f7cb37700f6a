//! Spans of requests, for a collector of OpenTelemetry: OTLP over HTTP, in JSON (OTLP 1.3, "OTLP/HTTP" and "JSON Protobuf
//! Encoding").
//!
//! A thread of its own sends them, so a collector that is slow or away costs spans, which are counted, and never a
//! request.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base::Random;
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use rpc::Trust;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::access::{Record, Requests};
use crate::background::{Entry, Queue};
use crate::shared_context::seed;

/// Feeds a thread that sends spans to this collector.
///
/// # Errors
/// The address is none, TLS cannot be set up, or the system gives no thread: which.
pub(crate) fn queue(collector: &str, trust: &Trust, lost: &Counter) -> Result<Requests, String> {
    let mut url = Url::parse(collector).map_err(|error| error.to_string())?;
    // The path that the protocol has by default stands behind one that a gateway wants.
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    let tls = trust.for_reqwest(url.scheme() == "https");
    let http = Client::builder()
        .timeout(TIMEOUT)
        .no_proxy()
        .tls_backend_preconfigured(tls.map_err(|error| error.to_string())?)
        .build()
        .map_err(|error| error.to_string())?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let mut exporter = Exporter {
        http,
        url,
        runtime: runtime.map_err(|error| error.to_string())?,
        lost: lost.clone(),
        random: Random::new(seed()[0]),
        is_taken: true,
    };
    let queue = Queue::of("sentinel-traces", lost.clone(), move |queue| {
        exporter.run(&queue);
    });
    queue.map_err(|error| error.to_string())
}

/// Sends spans in batches.
struct Exporter {
    http: Client,
    url: Url,
    runtime: Runtime,
    lost: Counter,
    random: Random,
    /// Whether the collector took the batch before.
    is_taken: bool,
}

impl Exporter {
    /// Until the last handle of the queue is gone.
    fn run(&mut self, queue: &Receiver<Entry<Box<Record>>>) {
        while let Ok(first) = queue.recv() {
            let (batch, waiting) = batch(queue, first);
            self.export(&batch);
            for done in waiting {
                let _ = done.send(());
            }
        }
    }

    /// Sends spans of these requests, again and again while the collector asks for that or is away.
    fn export(&mut self, batch: &[Record]) {
        let spans: Vec<Value> = batch
            .iter()
            .filter_map(|record| self.span(record))
            .collect();
        if spans.is_empty() {
            return;
        }
        let count = spans.len() as u64;
        let body = Bytes::from(body(&spans).to_string());
        let sent = self.send(&body);
        let lost = sent
            .as_ref()
            .map_or(count, |rejected| (*rejected).min(count));
        self.lost.inc_by(lost);
        match sent {
            Ok(_) if !self.is_taken => info!("the collector of log.traces takes spans again"),
            Err(reason) if self.is_taken => {
                warn!(reason, "the collector of log.traces takes no spans");
            }
            _ => {}
        }
        self.is_taken = lost < count;
    }

    /// How many spans the collector rejected of those that it took.
    fn send(&self, body: &Bytes) -> Result<u64, String> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let request = self
                .http
                .post(self.url.clone())
                .header(CONTENT_TYPE, "application/json");
            let asked = async {
                let answer = request.body(body.clone()).send().await?;
                let (status, wait) = (answer.status(), retry_after(&answer));
                Ok::<_, reqwest::Error>((status, wait, answer.text().await?))
            };
            let (reason, wait) = match self.runtime.block_on(asked) {
                Ok((status, _, text)) if status.is_success() => {
                    return Ok(rejected(&text));
                }
                Ok((status, wait, _)) if is_passing(status) => (status.to_string(), wait),
                Ok((status, ..)) => return Err(status.to_string()),
                Err(error) => (error.to_string(), None),
            };
            if attempt == ATTEMPTS {
                return Err(reason);
            }
            std::thread::sleep(wait.unwrap_or(pause).min(LONGEST_PAUSE));
            pause *= 2;
        }
        unreachable!("the last attempt returns")
    }

    /// The span of a request whose beginning is known.
    fn span(&mut self, record: &Record) -> Option<Value> {
        let took = record.took?;
        let mut parent = record
            .traceparent
            .iter()
            .flat_map(|it| it.split('-').skip(1));
        let (trace, within) = match (parent.next(), parent.next()) {
            (Some(trace), Some(span)) => (trace.to_owned(), span),
            _ => (format!("{:016x}{:016x}", self.id(), self.id()), ""),
        };
        let texts = [
            ("client.address", Some(record.client.as_str())),
            ("sentinel.request_id", record.id.as_deref()),
            ("sentinel.transport", record.transport),
            ("sentinel.outcome", Some(record.outcome)),
            ("error.type", record.reason),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(key, text)| Some(attribute(key, text?)));
        let status = match &record.detail {
            // 2 is an error; 0, of a server that has none to tell, is left out.
            Some(detail) => json!({"code": 2, "message": detail}),
            None => json!({}),
        };
        Some(json!({
            "traceId": trace,
            "spanId": format!("{:016x}", self.id()),
            "parentSpanId": within,
            "name": record.class.unwrap_or("request"),
            // That of a server.
            "kind": 2,
            "startTimeUnixNano": record.at.saturating_sub(took).as_nanos().to_string(),
            "endTimeUnixNano": record.at.as_nanos().to_string(),
            "attributes": texts.collect::<Vec<_>>(),
            "status": status,
        }))
    }

    /// One that is not zero, which means none.
    fn id(&mut self) -> u64 {
        self.random.word().max(1)
    }
}

/// How many spans a collector reports as rejected of a batch that it took: a number of 64 bits, which stands as text in
/// the protocol's JSON, and as a number in that of some collectors.
fn rejected(answer: &str) -> u64 {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    let text = || count.as_str()?.parse().ok();
    count.as_u64().or_else(text).unwrap_or(0)
}

/// What has come until the batch is full, has waited long enough or is wanted now; and who wants it.
fn batch(
    queue: &Receiver<Entry<Box<Record>>>,
    first: Entry<Box<Record>>,
) -> (Vec<Record>, Vec<oneshot::Sender<()>>) {
    let until = Instant::now() + DELAY;
    let (mut batch, mut waiting) = (Vec::new(), Vec::new());
    let mut next = Some(first);
    while let Some(entry) = next {
        match entry {
            Entry::Of(record) => batch.push(*record),
            Entry::Flush(done) => waiting.push(done),
        }
        if batch.len() == BATCH || !waiting.is_empty() {
            break;
        }
        next = queue
            .recv_timeout(until.saturating_duration_since(Instant::now()))
            .ok();
    }
    (batch, waiting)
}

fn body(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{
        "resource": {"attributes": [attribute("service.name", "sentinel")]},
        "scopeSpans": [{
            "scope": {"name": "sentinel", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn attribute(key: &str, text: &str) -> Value {
    json!({"key": key, "value": {"stringValue": text}})
}

/// The answers that the protocol wants to be tried again.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502..=504)
}

fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Spans of one request to the collector, and how long the first of them waits for others: the defaults of
/// OpenTelemetry's batch processor (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`, `OTEL_BSP_SCHEDULE_DELAY`).
const BATCH: usize = 512;
const DELAY: Duration = Duration::from_secs(5);
/// The default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is tried, and the pauses between: 1, 2 and 4 s, or what the collector asks for.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use fairq::KeyScheme;

    use super::*;
    use crate::access::{AccessLog, Ended, Seen};
    use crate::metrics::{MethodClass, Metrics, OutcomeLabel, Transport};
    use crate::refusal::{Reason, Refusal};

    /// A collector that gives these answers, one a connection, and then is gone; the first lines and bodies that it was
    /// sent.
    fn collector(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<(String, Value)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/gateway/", listener.local_addr().unwrap());
        let serve = move |answer: &&str| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.to_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let (head, text) = answer.split_once('|').unwrap();
            let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\n");
            let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            (
                first.trim().to_owned(),
                serde_json::from_slice(&body).unwrap(),
            )
        };
        (
            address,
            thread::spawn(move || answers.iter().map(serve).collect()),
        )
    }

    /// What became of three requests: one within a client's trace, one refused, one whose beginning is not known. Spans that
    /// were lost, and what the collector was sent.
    async fn exported(answers: &'static [&'static str]) -> (u64, Vec<(String, Value)>) {
        let metrics = Metrics::default();
        let (address, served) = collector(answers);
        let queue = queue(&address, &Trust::native(), &metrics.access_lost[1]).unwrap();
        let log = AccessLog::new(vec![queue], 1);
        let ended = |seen| Ended {
            client: KeyScheme::default().key([192, 0, 2, 7].into()),
            call: Some((Transport::Post, MethodClass::Status)),
            seen,
        };
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let within = Seen::new(|name| (name == "traceparent").then_some(parent));
        log.tell(ended(Some(&within)), OutcomeLabel::Forwarded.name(), None);
        let refusal = Refusal::new(Reason::Rate, "more than 1/s");
        let alone = Seen::new(|_| None::<&str>);
        log.tell(
            ended(Some(&alone)),
            OutcomeLabel::Rejected.name(),
            Some(&refusal),
        );
        log.tell(ended(None), OutcomeLabel::Forwarded.name(), None);
        log.flush().await;
        let seen = served.join().unwrap();
        (metrics.access_lost[1].get(), seen)
    }

    #[tokio::test]
    async fn a_span_says_when_and_how_a_request_ended_within_its_clients_trace() {
        let (lost, seen) = exported(&["200 OK|{}"]).await;
        assert_eq!((lost, seen.len()), (0, 1));
        let (first, body) = &seen[0];
        assert_eq!(first, "POST /gateway/v1/traces HTTP/1.1");
        let resource = &body["resourceSpans"][0];
        let name = &resource["resource"]["attributes"][0];
        assert_eq!(name, &attribute("service.name", "sentinel"));
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 2, "{body:#}");
        assert_eq!(spans[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(spans[0]["parentSpanId"], "b7ad6b7169203331");
        assert_eq!(spans[0]["status"], json!({}));
        assert_eq!(
            spans[1]["status"],
            json!({"code": 2, "message": "more than 1/s"})
        );
        let is_id = |id: &Value, digits| {
            let id = id.as_str().unwrap();
            id.len() == digits && u128::from_str_radix(id, 16).unwrap() > 0
        };
        assert!(is_id(&spans[1]["traceId"], 32) && is_id(&spans[1]["spanId"], 16));
        assert_ne!(spans[0]["spanId"], spans[1]["spanId"]);
        let at = |name: &str| spans[0][name].as_str().unwrap().parse::<u64>().unwrap();
        let (start, end) = (at("startTimeUnixNano"), at("endTimeUnixNano"));
        assert!(
            start <= end && start > 1_700_000_000_000_000_000,
            "{start} {end}"
        );
        let attributes = spans[1]["attributes"].as_array().unwrap();
        for (key, text) in [
            ("client.address", "192.0.2.7"),
            ("sentinel.transport", "post"),
            ("sentinel.outcome", "rejected"),
            ("error.type", "rate"),
        ] {
            assert!(
                attributes.contains(&attribute(key, text)),
                "{key}: {attributes:?}"
            );
        }
    }

    /// The protocol has 429, 502, 503 and 504 tried again, and nothing else.
    #[tokio::test]
    async fn a_batch_is_sent_again_where_the_collector_wants_it_and_counted_where_it_is_lost() {
        let answers = &[
            "503 x\r\nRetry-After: 0|",
            "429 x\r\nRetry-After: 0|",
            "200 OK|",
        ];
        let (lost, seen) = exported(answers).await;
        assert_eq!((lost, seen.len()), (0, 3));
        assert!(
            seen.iter().all(|(_, body)| *body == seen[0].1),
            "the same spans"
        );
        for (answer, expected) in [
            (&["400 Bad Request|no"], 2),
            (&[r#"200 OK|{"partialSuccess": {"rejectedSpans": "1"}}"#], 1),
            (&[r#"200 OK|{"partialSuccess": {"rejectedSpans": 2}}"#], 2),
        ] {
            assert_eq!(exported(answer).await.0, expected, "{answer:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_at_the_start() {
        let wrong = queue(
            "http://[collector",
            &Trust::native(),
            &Metrics::default().access_lost[1],
        );
        assert!(wrong.is_err());
    }
}
