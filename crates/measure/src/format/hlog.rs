//! `latency.hlog`: HdrHistogram's interval log, version 1.3, one tagged line a latency and
//! interval, as its public log processors read it (HdrHistogram 2.x, `HistogramLogWriter`).

use std::io::Write;

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pacing::Nanos;

use crate::format::latency::{Latency, LatencyKind, LatencySet};

/// The lines before the first interval. `StartTime` and `BaseTime` are both the run's origin, so
/// the time of a line is in seconds since the origin.
pub(crate) fn header(origin_unix_ns: u64) -> String {
    let seconds = origin_unix_ns / 1_000_000_000;
    let thousandths = origin_unix_ns % 1_000_000_000 / 1_000_000;
    format!(
        "#[Latencies of one run, in nanoseconds]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {seconds}.{thousandths:03} (seconds since epoch)]\n\
         #[BaseTime: {seconds}.{thousandths:03} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
}

/// What follows the name of a latency in the tag of its censored observations.
pub(crate) const CENSORED: &str = "_censored";

/// Formats lines and keeps its buffers.
pub(crate) struct HlogWriter {
    serializer: V2DeflateSerializer,
    encoded: Vec<u8>,
}

impl HlogWriter {
    pub(crate) fn new() -> Self {
        Self {
            serializer: V2DeflateSerializer::new(),
            encoded: Vec::new(),
        }
    }

    /// One line for each latency that has values.
    pub(crate) fn write(&mut self, set: &LatencySet, start: Nanos, end: Nanos, out: &mut Vec<u8>) {
        let span = (start, end.saturating_sub(start));
        for kind in LatencyKind::ALL {
            self.write_line(kind.name(), set.of(kind), span, out);
        }
    }

    /// The ages of what had not ended at the end of a run, under tags of their own, so that log
    /// processors do not take them for latencies.
    pub(crate) fn write_censored(&mut self, set: &LatencySet, ended: Nanos, out: &mut Vec<u8>) {
        for kind in LatencyKind::ALL {
            let tag = kind.name().to_owned() + CENSORED;
            self.write_line(&tag, set.of(kind), (ended, Nanos::ZERO), out);
        }
    }

    fn write_line(
        &mut self,
        tag: &str,
        latency: &Latency,
        (start, length): (Nanos, Nanos),
        out: &mut Vec<u8>,
    ) {
        if latency.is_empty() {
            return;
        }
        self.encoded.clear();
        self.serializer
            .serialize(latency.histogram(), &mut self.encoded)
            .expect("a vector takes every write");
        write!(
            out,
            "Tag={tag},{:.3},{:.3},{:.3},",
            start.as_secs_f64(),
            length.as_secs_f64(),
            latency.max().map_or(0.0, Nanos::as_millis_f64),
        )
        .expect("a vector takes every write");
        let text = base64_simd::STANDARD.encode_to_string(&self.encoded);
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
}
