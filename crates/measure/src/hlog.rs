//! `latency.hlog`: HdrHistogram's interval log, version 1.3, one tagged line a latency and
//! interval, as its public log processors read it (HdrHistogram 2.x, `HistogramLogWriter`).

use std::io::Write;

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pacing::Nanos;

use crate::latency::{Latency, LatencyKind, LatencySet};

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
        for kind in LatencyKind::ALL {
            let latency = set.of(kind);
            if !latency.is_empty() {
                self.write_line(kind, latency, start, end, out);
            }
        }
    }

    fn write_line(
        &mut self,
        kind: LatencyKind,
        latency: &Latency,
        start: Nanos,
        end: Nanos,
        out: &mut Vec<u8>,
    ) {
        self.encoded.clear();
        self.serializer
            .serialize(latency.histogram(), &mut self.encoded)
            .expect("a vector takes every write");
        write!(
            out,
            "Tag={},{:.3},{:.3},{:.3},",
            kind.name(),
            start.as_secs_f64(),
            end.saturating_sub(start).as_secs_f64(),
            latency.max().map_or(0.0, Nanos::as_millis_f64),
        )
        .expect("a vector takes every write");
        let text = base64_simd::STANDARD.encode_to_string(&self.encoded);
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
}

impl std::fmt::Debug for HlogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HlogWriter").finish_non_exhaustive()
    }
}
