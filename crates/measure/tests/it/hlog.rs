//! The interval log read back with the log reader of the `hdrhistogram` crate.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use measure::{LatencyKind, Quantiles, Summary};

use crate::support::{Folder, steady_run};

struct Interval {
    tag: String,
    start_s: f64,
    length_s: f64,
    histogram: Histogram<u64>,
}

fn read(log: &[u8]) -> Vec<Interval> {
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(log) {
        let LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        let encoded = base64_simd::STANDARD
            .decode_to_vec(interval.encoded_histogram())
            .unwrap();
        intervals.push(Interval {
            tag: interval.tag().unwrap().as_str().to_owned(),
            start_s: interval.start_timestamp().as_secs_f64(),
            length_s: interval.duration().as_secs_f64(),
            histogram: Deserializer::new().deserialize(&mut &encoded[..]).unwrap(),
        });
    }
    intervals
}

fn of(summary: &Summary, kind: LatencyKind) -> &Quantiles {
    let latencies = &summary.latency_ms;
    match kind {
        LatencyKind::Lateness => &latencies.lateness,
        LatencyKind::AcceptResponse => &latencies.accept_response,
        LatencyKind::AcceptService => &latencies.accept_service,
        LatencyKind::CommitFromDue => &latencies.commit_from_due,
        LatencyKind::CommitFromSent => &latencies.commit_from_sent,
        LatencyKind::CommitFromAccepted => &latencies.commit_from_accepted,
    }
}

#[test]
fn its_intervals_add_up_to_the_summary() {
    let folder = Folder::new();
    let summary = steady_run(&folder).summary;
    let mut sums: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for interval in read(&folder.hlog.bytes()) {
        sums.entry(interval.tag)
            .and_modify(|sum| sum.add(&interval.histogram).unwrap())
            .or_insert(interval.histogram);
    }
    assert_eq!(sums.len(), 6);
    for kind in LatencyKind::ALL {
        let sum = &sums[kind.name()];
        let quantiles = of(&summary, kind);
        assert_eq!(sum.len(), quantiles.count, "{}", kind.name());
        let p99_ms = sum.value_at_quantile(0.99) as f64 / 1e6;
        let difference = (p99_ms - quantiles.p99.unwrap()).abs();
        assert!(difference <= p99_ms * 1e-3, "{}: {difference}", kind.name());
    }
}

#[test]
fn its_lines_are_seconds_since_the_origin_and_empty_ones_are_left_out() {
    let folder = Folder::new();
    steady_run(&folder);
    let lateness: Vec<(f64, f64, u64)> = read(&folder.hlog.bytes())
        .into_iter()
        .filter(|interval| interval.tag == "lateness")
        .map(|interval| {
            (
                interval.start_s,
                interval.length_s,
                interval.histogram.len(),
            )
        })
        .collect();
    // Nothing is sent in the fourth second.
    assert_eq!(
        lateness,
        [(0.0, 1.0, 1_000), (1.0, 1.0, 1_000), (2.0, 1.0, 1_000)]
    );
}

#[test]
fn its_header_is_the_one_that_log_processors_know() {
    let folder = Folder::new();
    steady_run(&folder);
    let text = folder.hlog.text();
    let header: Vec<&str> = text.lines().take(5).collect();
    assert_eq!(
        header,
        [
            "#[Latencies of one run, in nanoseconds]",
            "#[Histogram log format version 1.3]",
            "#[StartTime: 1795132800.123 (seconds since epoch)]",
            "#[BaseTime: 1795132800.123 (seconds since epoch)]",
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
        ]
    );
    assert!(
        text.lines()
            .nth(5)
            .unwrap()
            .starts_with("Tag=lateness,0.000,1.000,0.020,HIST")
    );
}
