//! `latency.hlog`: the intervals of HdrHistogram's interval log, version 1.3.

use std::io::BufRead;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::Lines;
use crate::format::document::ReadError;
use crate::format::hlog::CENSORED;
use crate::format::latency::{Latency, LatencyKind, LatencySet};

/// Reads `latency.hlog` in the memory of one line.
pub struct HlogReader<R> {
    lines: Lines<R>,
    deserializer: Deserializer,
    censored: LatencySet,
}

/// The values of one latency in one interval.
pub struct HlogInterval<'a> {
    /// Which latency.
    pub kind: LatencyKind,
    /// Begin, seconds since the origin.
    pub start_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
    encoded: &'a [u8],
    deserializer: &'a mut Deserializer,
    line: u64,
}

impl<R: BufRead> HlogReader<R> {
    /// Nothing is read yet.
    pub fn new(reader: R) -> Self {
        Self {
            lines: Lines::new(FILE, reader),
            deserializer: Deserializer::new(),
            censored: LatencySet::new(),
        }
    }

    /// At the end: the ages of the observations that had not ended when the run did.
    pub const fn censored(&self) -> &LatencySet {
        &self.censored
    }

    /// The next interval; `None` at the end. Intervals of tags that this version does not know are
    /// passed over.
    ///
    /// # Errors
    /// When the file cannot be read or a line is not one of an interval log.
    pub fn next_interval(&mut self) -> Result<Option<HlogInterval<'_>>, ReadError> {
        let (kind, parsed) = loop {
            if !self.lines.advance()? {
                return Ok(None);
            }
            let line = self.lines.line();
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"\"") {
                continue;
            }
            let parsed = Parsed::of(line).ok_or_else(|| {
                bad(
                    self.lines.number(),
                    "it is no tagged line of an interval log",
                )
            })?;
            let Some(kind) = parsed.kind else { continue };
            if !parsed.censored {
                break (kind, parsed);
            }
            interval(&self.lines, &mut self.deserializer, kind, &parsed)
                .add_to(self.censored.of_mut(kind))?;
        };
        let deserializer = &mut self.deserializer;
        Ok(Some(interval(&self.lines, deserializer, kind, &parsed)))
    }

    /// The six latencies of the intervals that begin at `from_s` or later. With the end of the
    /// warm-up these are the latencies of the summary.
    ///
    /// # Errors
    /// As [`next_interval`](Self::next_interval).
    pub fn sum(&mut self, from_s: f64) -> Result<LatencySet, ReadError> {
        let mut sum = LatencySet::new();
        while let Some(interval) = self.next_interval()? {
            // Written with three decimals.
            if interval.start_s >= from_s - 0.000_5 {
                let kind = interval.kind;
                interval.add_to(sum.of_mut(kind))?;
            }
        }
        Ok(sum)
    }

    /// At the end: whether the last line was cut off and therefore left out.
    pub const fn is_torn(&self) -> bool {
        self.lines.is_torn()
    }
}

impl HlogInterval<'_> {
    /// Adds its values to `sum`. The sum's maximum stays exact; its mean is that of the histograms,
    /// within 0.1 %.
    ///
    /// # Errors
    /// When it does not decode, or into another range than a run writes.
    pub fn add_to(self, sum: &mut Latency) -> Result<(), ReadError> {
        self.add_to_each([sum])
    }

    /// The same for several sums, decoded once.
    ///
    /// # Errors
    /// As [`Self::add_to`].
    pub fn add_to_each<const N: usize>(self, sums: [&mut Latency; N]) -> Result<(), ReadError> {
        let line = self.line;
        let max_ns = (self.max_ms * 1e6).round() as u64;
        let histogram = self.histogram()?;
        for sum in sums {
            sum.absorb(&histogram, max_ns)
                .ok_or_else(|| bad(line, "its histogram is of another range"))?;
        }
        Ok(())
    }

    /// The histogram, in nanoseconds.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn histogram(self) -> Result<Histogram<u64>, ReadError> {
        let bytes = base64_simd::STANDARD
            .decode_to_vec(self.encoded)
            .map_err(|_| bad(self.line, "its histogram is not base64"))?;
        self.deserializer
            .deserialize(&mut &bytes[..])
            .map_err(|error| {
                bad(
                    self.line,
                    &format!("its histogram does not decode: {error}"),
                )
            })
    }
}

fn interval<'a, R: BufRead>(
    lines: &'a Lines<R>,
    deserializer: &'a mut Deserializer,
    kind: LatencyKind,
    parsed: &Parsed,
) -> HlogInterval<'a> {
    HlogInterval {
        kind,
        start_s: parsed.start_s,
        length_s: parsed.length_s,
        max_ms: parsed.max_ms,
        encoded: &lines.line()[parsed.encoded_from..],
        deserializer,
        line: lines.number(),
    }
}

struct Parsed {
    /// `None` for a tag of another version.
    kind: Option<LatencyKind>,
    censored: bool,
    start_s: f64,
    length_s: f64,
    max_ms: f64,
    encoded_from: usize,
}

impl Parsed {
    fn of(line: &[u8]) -> Option<Self> {
        let mut rest = line.strip_prefix(b"Tag=")?;
        let mut field = || {
            let comma = rest.iter().position(|byte| *byte == b',')?;
            let (field, after) = rest.split_at(comma);
            rest = &after[1..];
            std::str::from_utf8(field).ok()
        };
        let tag = field()?;
        let name = tag.strip_suffix(CENSORED);
        let mut number = || {
            let number: f64 = field()?.parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        let (start_s, length_s, max_ms) = (number()?, number()?, number()?);
        Some(Self {
            kind: LatencyKind::ALL
                .into_iter()
                .find(|kind| kind.name() == name.unwrap_or(tag)),
            censored: name.is_some(),
            start_s,
            length_s,
            max_ms,
            encoded_from: line.len() - rest.len(),
        })
    }
}

fn bad(line: u64, problem: &str) -> ReadError {
    ReadError::line(FILE, line, problem)
}

const FILE: &str = "latency.hlog";
