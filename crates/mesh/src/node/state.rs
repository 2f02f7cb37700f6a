//! The state of a node: the gossip node, its application, the load that it offers; what it counts beside what
//! [`gossip::Node`] does, and the rows made of both.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use gossip::app::{App, KindId, Reaction, Source, Stamp, Timeline};
use gossip::codec::{Decoder, Encoder};
use gossip::{Handshake, Identity, Node, Parcel, ParcelKind, PeerId, Version};
use measure::Latency;
use pacing::Nanos;
use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

use super::ControlWriter;
use super::connection::Connection;
use super::connection::Shaper;
use crate::control::{
    CodecTime, Counters, LinkCount, NodeConfig, NodeMessage, Row, Sample, Status,
};

/// Everything of a node but its sockets.
pub(super) struct NodeParts {
    pub(super) node: Node,
    pub(super) app: App,
    pub(super) meter: Meter,
    pub(super) codec: CodecTimer,
    pub(super) connections: HashMap<PeerId, Rc<Connection>>,
    pub(super) next_peer: u64,
    pub(super) timeline: Option<Timeline>,
    /// Since the engine's start; `None` before the load's is known.
    pub(super) origin: Option<Nanos>,
    pub(super) links: LinkCounts,
    /// The first second that was not reported.
    pub(super) next_second: u64,
    pub(super) control: ControlWriter,
    /// `None` where neither a rate nor a delay is set.
    pub(super) shaper: Option<Shaper>,
    pub(super) reads: u64,
}

impl NodeParts {
    pub(super) fn since_origin(&self, now: Nanos) -> Nanos {
        self.origin
            .map_or(Nanos::ZERO, |origin| now.saturating_sub(origin))
    }

    /// The second that has ended and was not reported.
    pub(super) fn second_over(&mut self, now: Nanos) -> Option<u64> {
        let second = self.since_origin(now).as_secs();
        let over = second.checked_sub(1)?;
        (over >= self.next_second).then(|| {
            self.next_second = second;
            over
        })
    }

    pub(super) fn queued(&self) -> u64 {
        self.node.peers().map(|peer| peer.queued as u64).sum()
    }

    /// Publishes the messages of a transaction, or periodic ones.
    pub(super) fn publish_due(&mut self, what: Source, due: Nanos, now: Nanos) {
        self.meter.counts.offered += u64::from(matches!(what, Source::Transaction(_)));
        for kind in self.app.messages(what) {
            self.publish(kind, due, None, now);
        }
    }

    /// Makes a message and publishes it.
    fn publish(&mut self, kind: KindId, due: Nanos, to: Option<PeerId>, now: Nanos) {
        let message = self.app.message(kind, due);
        self.meter
            .count_made(&message, self.app.mix().kind(kind).relay);
        let routing = self.app.routing(kind, to);
        self.node.publish(now, &Bytes::from(message), routing);
    }

    /// The node has seen a message for the first time.
    pub(super) fn on_delivered(&mut self, from: Option<PeerId>, message: &Bytes, now: Nanos) {
        let Some(reaction) = self.app.receive(message) else {
            self.meter.counts.unknown += 1;
            return;
        };
        let at = self.since_origin(now);
        self.meter
            .count_seen(message, &reaction, from.is_some(), at);
        self.codec.message(message, &mut self.meter.codec);
        self.react(&reaction, from, at, now);
    }

    /// Answers a message, and requests one that is missing.
    fn react(&mut self, reaction: &Reaction, from: Option<PeerId>, at: Nanos, now: Nanos) {
        if let (Some(kind), Some(peer)) = (reaction.answer, from) {
            self.meter.counts.answers += 1;
            self.publish(kind, at, Some(peer), now);
        }
        if let Some(kind) = reaction.request {
            self.meter.counts.requests += 1;
            self.publish(kind, at, None, now);
        }
    }

    /// A connection is broken.
    pub(super) fn on_closed(&mut self, peer: PeerId, now: Nanos) {
        if self.connections.remove(&peer).is_some() {
            self.links.update(&self.node);
            self.links.broke(peer);
            self.node.on_closed(now, peer);
        }
    }

    /// The counts of all links.
    pub(super) fn status(&mut self, round: u64) -> Status {
        self.links.update(&self.node);
        Status {
            round,
            queued: self.queued(),
            links: self.links.counts(),
        }
    }

    /// Reports the peers when their number has changed.
    pub(super) fn report_links(&mut self, config: &NodeConfig) {
        if self.links.reported == self.node.peers_up() {
            return;
        }
        self.links.reported = self.node.peers_up();
        self.links.update(&self.node);
        let up = self.node.peers().filter(|peer| peer.version.is_some());
        let mut peers: Vec<u16> = up.filter_map(|peer| number(peer.node_id)).collect();
        peers.sort_unstable();
        peers.dedup();
        peers.retain(|peer| *peer != config.node);
        self.control.send(&NodeMessage::Links { peers });
    }
}

/// What was carried over each link, also over those that have ended.
#[derive(Debug, Default)]
pub(super) struct LinkCounts {
    links: HashMap<PeerId, LinkCount>,
    /// Links that ended without being asked to.
    pub(super) broken: u64,
    /// How many links were last reported to the program.
    pub(super) reported: usize,
}

impl LinkCounts {
    pub(super) fn wrote(&mut self, peer: PeerId, parcels: u32) {
        self.links.entry(peer).or_insert(UNKNOWN).written += u64::from(parcels);
    }

    /// Copies what the node counted on its links.
    pub(super) fn update(&mut self, node: &Node) {
        for peer in node.peers() {
            if let Some(number) = number(peer.node_id) {
                let link = self.links.entry(peer.id).or_insert(UNKNOWN);
                (link.peer, link.read) = (number, peer.parcels_read);
            }
        }
    }

    /// A link ended without being asked to.
    pub(super) fn broke(&mut self, peer: PeerId) {
        if self
            .links
            .get(&peer)
            .is_some_and(|link| link.peer != UNKNOWN.peer)
        {
            self.broken += 1;
        }
        self.closed(peer);
    }

    pub(super) fn closed(&mut self, peer: PeerId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.broken = 1;
        }
    }

    /// All links to a peer together.
    pub(super) fn counts(&self) -> Vec<LinkCount> {
        let mut counts: Vec<LinkCount> = Vec::new();
        for link in self.links.values().filter(|link| link.peer != UNKNOWN.peer) {
            match counts.iter_mut().find(|count| count.peer == link.peer) {
                Some(count) => {
                    count.written += link.written;
                    count.read += link.read;
                    count.broken += link.broken;
                }
                None => counts.push(*link),
            }
        }
        counts.sort_unstable_by_key(|count| count.peer);
        counts
    }
}

const UNKNOWN: LinkCount = LinkCount {
    peer: u16::MAX,
    written: 0,
    read: 0,
    broken: 0,
};

/// A node's number from the id in its handshake, which counts from 1.
pub(super) fn number(node_id: u32) -> Option<u16> {
    u16::try_from(node_id.checked_sub(1)?).ok()
}

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
