//! What a node counts beside what [`gossip::Node`] does, and the rows made of both.

use std::time::Instant;

use gossip::app::{Reaction, Stamp};
use gossip::codec::{Decoder, Encoder};
use gossip::{Handshake, Identity, Parcel, ParcelKind, Version};
use measure::Latency;
use pacing::Nanos;
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

use crate::control::{CodecTime, Counters, Row, Sample};

/// Counts of a node, and what of them was reported.
pub(super) struct Meter {
    /// Since the beginning, without what the node counts itself.
    pub(super) counts: Counters,
    /// What the rows so far have reported.
    reported: Counters,
    latency: Latency,
    lateness: Latency,
    sampled: Vec<Sample>,
    sample: u64,
    pub(super) codec: CodecTime,
}

impl Meter {
    /// Follows every `sample`-th message of each maker.
    pub(super) fn new(sample: u64) -> Self {
        Self {
            counts: Counters::default(),
            reported: Counters::default(),
            latency: Latency::new(),
            lateness: Latency::new(),
            sampled: Vec::new(),
            sample: sample.max(1),
            codec: CodecTime::default(),
        }
    }

    /// A message was made.
    pub(super) fn count_made(&mut self, message: &[u8], for_all: bool) {
        self.counts.made += 1;
        self.counts.made_for_all += u64::from(for_all);
        if for_all {
            self.follow(message, None);
        }
    }

    /// A transaction, or what is periodic, was handed to the node.
    pub(super) fn count_offered(&mut self, due: Nanos, now: Nanos) {
        self.lateness.record(now.saturating_sub(due));
    }

    /// A message was seen for the first time at `now` since the origin; from a peer or, when
    /// messages are announced, as it was made here.
    pub(super) fn count_seen(
        &mut self,
        message: &[u8],
        reaction: &Reaction,
        from_peer: bool,
        now: Nanos,
    ) {
        self.counts.first_seen += 1;
        self.counts.transactions += u64::from(reaction.transactions);
        self.counts.entries += u64::from(reaction.entries);
        if !reaction.relay {
            return;
        }
        self.counts.first_seen_for_all += 1;
        self.follow(message, Some(now));
        if let Some(stamp) = Stamp::of(message).filter(|_| from_peer) {
            self.latency.record(now.saturating_sub(stamp.due));
        }
    }

    fn follow(&mut self, message: &[u8], seen: Option<Nanos>) {
        let stamp = Stamp::of(message).filter(|stamp| stamp.sequence.is_multiple_of(self.sample));
        if let Some(stamp) = stamp
            && self.sampled.len() < MAX_SAMPLED
        {
            self.sampled.push(Sample {
                maker: stamp.node,
                sequence: stamp.sequence,
                due_us: stamp.due.as_micros(),
                seen_us: seen.map(Nanos::as_micros),
            });
        }
    }

    /// What was counted since the last row, where `counts` are all since the beginning.
    pub(super) fn row(
        &mut self,
        second: u64,
        mut counts: Counters,
        queued: u64,
        links: u64,
    ) -> Row {
        let (cpu_ns, wait_ns) = cpu_times();
        (counts.cpu_ns, counts.wait_ns) = (cpu_ns, wait_ns);
        let row = Row {
            second,
            counters: counts.since(&self.reported),
            queued,
            links,
            latency_us: pairs(&self.latency),
            lateness_us: pairs(&self.lateness),
            sampled: std::mem::take(&mut self.sampled),
            codec: std::mem::take(&mut self.codec),
        };
        self.reported = counts;
        self.latency.clear();
        self.lateness.clear();
        row
    }

    /// Forgets what was counted before the origin.
    pub(super) fn reset(&mut self, counts: Counters) {
        self.row(0, counts, 0, 0);
    }
}

/// Microseconds and how many, of the histogram's buckets that are not empty.
fn pairs(latency: &Latency) -> Vec<(u64, u64)> {
    let values = latency.histogram().iter_recorded();
    values
        .map(|value| (value.value_iterated_to() / 1000, value.count_at_value()))
        .collect()
}

/// CPU time of this process, and how long it was ready and waited for a CPU, in nanoseconds. The latter
/// is that of the only thread, from `/proc/self/schedstat` (the kernel's sched-stats.rst); zero where
/// the kernel does not report it.
fn cpu_times() -> (u64, u64) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
    let schedstat = Process::myself().and_then(|process| process.schedstat());
    (cpu_ns, schedstat.map_or(0, |it| it.run_delay))
}

/// Measures what encoding and decoding costs, on some of the messages of the run: an encoder and a decoder of its own.
pub(super) struct CodecTimer {
    encoder: Encoder,
    decoder: Decoder,
    bytes: Vec<u8>,
    seen: u64,
}

impl CodecTimer {
    pub(super) fn new(version: Version, identity: Identity, max_parcel: usize) -> Self {
        let mut timer = Self {
            encoder: Encoder::new(version, identity),
            decoder: Decoder::new(max_parcel),
            bytes: Vec::new(),
            seen: 0,
        };
        let handshake = Handshake {
            kind: ParcelKind::Handshake,
            identity,
            version,
            nonce: 1,
            features: 0,
        };
        timer.encoder.handshake(&handshake, &mut timer.bytes);
        timer.decoder.push(&timer.bytes);
        // Our own handshake is well-formed; were it not, every time below would be that of an error.
        let _ = timer.decoder.next();
        timer.decoder.speak(version);
        timer
    }

    /// Times one in [`ONE_IN`] messages.
    pub(super) fn message(&mut self, message: &[u8], time: &mut CodecTime) {
        self.seen += 1;
        if !self.seen.is_multiple_of(ONE_IN) {
            return;
        }
        let parcel = Parcel {
            kind: ParcelKind::Message,
            target: "<BROADCAST>",
            payload: message,
        };
        self.bytes.clear();
        let start = Instant::now();
        self.encoder.parcel(&parcel, &mut self.bytes);
        let encoded = Instant::now();
        self.decoder.push(&self.bytes);
        let is_whole = matches!(self.decoder.next(), Ok(Some(_)));
        let decoded = Instant::now();
        if is_whole {
            time.parcels += 1;
            time.encode_ns += (encoded - start).as_nanos() as u64;
            time.decode_ns += (decoded - encoded).as_nanos() as u64;
        }
    }
}

/// Followed messages in a second: many times what is asked for.
const MAX_SAMPLED: usize = 10_000;
/// Two looks at the clock cost as much as the coding itself.
const ONE_IN: u64 = 256;
