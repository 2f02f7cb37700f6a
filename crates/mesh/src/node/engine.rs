//! The node between its sockets: what comes in is given to it, what comes out is done at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gossip::app::{App, Timeline};
use gossip::{Endpoint, Node, Origin, Output, PeerId, Relayed};
use pacing::{Arrivals, Nanos, Schedule};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::codec_timer::CodecTimer;
use super::connection::{Connection, MAX_CONNECTIONS, Written, Wrote};
use super::control::Words;
use super::links::LinkBook;
use super::meter::Meter;
use super::settings::settings;
use super::state::NodeParts;
use crate::account::GENERATOR;
use crate::control::{NodeConfig, Order, Row, Word};
use crate::counters::Counters;
use crate::{load, mix_file};

/// A node with its sockets.
pub(super) struct Engine {
    config: NodeConfig,
    start: Instant,
    state: RefCell<NodeParts>,
    /// Tasks to start: connections to serve, endpoints to dial.
    errands: RefCell<Vec<Errand>>,
    wake: Notify,
    /// When the node is looked at again, since the engine's start.
    planned: Cell<Nanos>,
    /// Of all connections.
    written: Rc<Written>,
}

/// A task to start.
pub(super) enum Errand {
    Serve(PeerId, Rc<Connection>),
    Dial(Endpoint),
}

impl Engine {
    pub(super) fn new(
        config: NodeConfig,
        listen: SocketAddr,
        peers: &[SocketAddr],
        words: Words,
    ) -> anyhow::Result<Self> {
        let mix = Arc::new(mix_file::parse(&config.mix, "the node's configuration")?);
        let relayed = Relayed::kinds(&mix.relayed());
        let settings = settings(&config, listen, peers, relayed)?;
        let is_generator = config.node == GENERATOR;
        let timeline = match is_generator {
            true => {
                let profile = load::profile(&config.phases, Path::new(""))?;
                let end = profile.duration().unwrap_or(Nanos::MAX);
                let schedule = Schedule::new(profile, Arrivals::Even);
                Some(Timeline::new(schedule.iter(), &mix, end))
            }
            false => None,
        };
        let codec = CodecTimer::new(settings.version, settings.identity, settings.max_parcel);
        let own_seed = pacing::mix(config.seed ^ u64::from(config.node) << 32);
        Ok(Self {
            start: Instant::now(),
            state: RefCell::new(NodeParts {
                node: Node::new(settings, own_seed),
                app: App::new(mix, config.node, is_generator, config.seed),
                meter: Meter::new(config.sample),
                codec,
                connections: HashMap::new(),
                next_peer: 0,
                timeline,
                origin: None,
                links: LinkBook::default(),
                next_second: 0,
                words,
                reads: 0,
            }),
            errands: RefCell::default(),
            wake: Notify::new(),
            planned: Cell::new(Nanos::ZERO),
            written: Rc::default(),
            config,
        })
    }

    /// Waits until there are tasks to start, or the node has to be looked at earlier than was planned.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The tasks to start.
    pub(super) fn errands(&self) -> Vec<Errand> {
        self.errands.take()
    }

    /// The last word, when nothing is served any more.
    pub(super) async fn finish(&self) {
        let writer = {
            let mut state = self.state.borrow_mut();
            let now = self.now();
            self.tell_second(&mut state, now);
            let second = state.since_origin(now).as_secs();
            let row = self.row(&mut state, second);
            let status = state.status(0);
            state.words.say(&Word::Done { row, status });
            state.words.close()
        };
        if let Some(writer) = writer {
            // It ends when all is written, or nobody reads any more.
            let _ = writer.await;
        }
    }

    /// Now, since the engine's start.
    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    /// Bytes came on a connection.
    pub(super) fn bytes(&self, peer: PeerId, bytes: &[u8]) {
        self.with(|state, now| {
            state.reads += 1;
            state.node.on_bytes(now, peer, bytes);
        });
    }

    /// A connection has taken all that was to be written.
    pub(super) fn writable(&self, peer: PeerId) {
        self.with(|state, now| state.node.on_writable(now, peer));
    }

    /// A connection has ended.
    pub(super) fn closed(&self, peer: PeerId) {
        self.with(|state, now| state.lose(peer, now));
    }

    /// A connection is there.
    pub(super) fn connected(&self, stream: TcpStream, origin: Origin) {
        self.with(|state, now| {
            if state.connections.len() >= MAX_CONNECTIONS {
                // Dropped, and so closed.
                state.meter.counts.refused += 1;
                return;
            }
            let peer = PeerId(state.next_peer);
            state.next_peer += 1;
            let connection = Rc::new(Connection::new(stream, Rc::clone(&self.written)));
            state.connections.insert(peer, Rc::clone(&connection));
            state.node.on_connected(now, peer, origin);
            self.errands
                .borrow_mut()
                .push(Errand::Serve(peer, connection));
            self.wake.notify_one();
        });
    }

    /// Does something with the node, then all that comes of it, and what is due by then.
    fn with(&self, act: impl FnOnce(&mut NodeParts, Nanos)) {
        let mut state = self.state.borrow_mut();
        let now = self.now();
        act(&mut state, now);
        self.tell_second(&mut state, now);
        self.offer(&mut state);
        self.pump(&mut state);
        state.tell_links(&self.config);
        if state.node.next_timeout() < self.planned.get() {
            self.wake.notify_one();
        }
    }

    /// Takes what the node wants done until it wants nothing.
    fn pump(&self, state: &mut NodeParts) {
        while let Some(output) = state.node.poll_output() {
            match output {
                Output::Write {
                    peer,
                    bytes,
                    parcels,
                } => {
                    let Some(connection) = state.connections.get(&peer).cloned() else {
                        continue;
                    };
                    state.links.wrote(peer, parcels);
                    match connection.write(bytes) {
                        Wrote::All => state.node.on_writable(self.now(), peer),
                        Wrote::Part => {}
                        Wrote::Broken => {
                            connection.close();
                            state.lose(peer, self.now());
                        }
                    }
                }
                Output::Deliver { from, message, .. } => {
                    let now = self.now();
                    state.deliver(from, &message, now);
                }
                Output::Connect { endpoint } => {
                    self.errands.borrow_mut().push(Errand::Dial(endpoint));
                    self.wake.notify_one();
                }
                Output::Close { peer, .. } => {
                    if let Some(connection) = state.connections.remove(&peer) {
                        connection.close();
                        state.links.closed(peer);
                    }
                }
            }
        }
    }

    /// Hands out all that is due.
    fn offer(&self, state: &mut NodeParts) {
        let (Some(origin), true) = (state.origin, state.timeline.is_some()) else {
            return;
        };
        while let Some(now) = self.now().as_nanos().checked_sub(origin.as_nanos()) {
            let Some(timeline) = &mut state.timeline else {
                return;
            };
            let Some(offer) = timeline.take(Nanos::new(now)) else {
                if timeline.next_due().is_none() {
                    state.timeline = None;
                    state.words.say(&Word::Offered {});
                }
                return;
            };
            state.meter.offered(offer.at, Nanos::new(now));
            state.hand_out(offer.what, offer.at, self.now());
            self.pump(state);
        }
    }

    /// Tells what was counted in a second that is over.
    fn tell_second(&self, state: &mut NodeParts, now: Nanos) {
        if let Some(second) = state.second_over(now) {
            let row = self.row(state, second);
            state.words.say(&Word::Row(row));
        }
    }

    /// When [`Engine::on_time`] has something to do.
    pub(super) fn next_timer(&self) -> Instant {
        let state = self.state.borrow();
        let mut next = state.node.next_timeout();
        self.planned.set(next);
        if let Some(origin) = state.origin {
            let second = state.since_origin(self.now()).as_secs() + 1;
            next = next.min(origin.saturating_add(Nanos::from_secs(second)));
            if let Some(due) = state.timeline.as_ref().and_then(Timeline::next_due) {
                next = next.min(origin.saturating_add(due));
            }
        }
        self.start
            + next
                .min(LONGEST_SLEEP.saturating_add(self.now()))
                .as_duration()
    }

    /// Does what is due.
    pub(super) fn on_time(&self) {
        self.with(|state, now| {
            if now >= state.node.next_timeout() {
                state.node.on_timeout(now);
            }
        });
    }

    /// Does as it is told.
    pub(super) fn obey(&self, order: &Order) {
        self.with(|state, now| match order {
            &Order::Start { origin_unix_ns } => {
                let ahead = origin_unix_ns.saturating_sub(harness::start_at::unix_now_ns());
                state.origin = Some(now.saturating_add(Nanos::new(ahead)));
                let counts = self.counts(state);
                state.meter.begin(counts);
            }
            Order::Stop {} => {
                if state.timeline.take().is_some() {
                    state.words.say(&Word::Offered {});
                }
            }
            &Order::Status { round } => {
                let status = state.status(round);
                state.words.say(&Word::Status(status));
            }
            // Said once, before the engine; the end is the loop's.
            Order::Join { .. } | Order::Finish {} => {}
        });
    }

    fn row(&self, state: &mut NodeParts, second: u64) -> Row {
        let counts = self.counts(state);
        let queued = state.queued();
        let links = state.node.peers_up() as u64;
        state.meter.row(second, counts, queued, links)
    }

    /// All counts since the beginning.
    fn counts(&self, state: &NodeParts) -> Counters {
        let node = state.node.counts();
        let own = state.meter.counts;
        Counters {
            duplicates: node.duplicates,
            parcels_out: node.parcels_written,
            writes: self.written.calls.get(),
            bytes_out: self.written.bytes.get(),
            parcels_in: node.parcels_read,
            reads: state.reads,
            bytes_in: node.bytes_read,
            payload_in: node.payload_read,
            queued_in: node.queued,
            messages_out: node.messages_written,
            messages_in: node.received,
            dropped_full: node.dropped,
            dropped_link: node.lost,
            dropped_no_peer: node.unroutable,
            filtered: node.filtered,
            broken_links: state.links.broken,
            refused: own.refused + node.refused,
            ..own
        }
    }
}

/// Timers are looked at again at the latest then.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(60);
