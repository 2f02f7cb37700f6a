//! The node between its sockets: events go in, and what the node returns is carried out at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use gossip::app::{App, Timeline};
use gossip::{Endpoint, Node, Origin, Output, PeerId, Relayed};
use pacing::Nanos;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connection::{Connection, MAX_CONNECTIONS, Written, Wrote};
use super::connection::{Released, Shaper, Switch};
use super::state::{CodecTimer, LinkCounts, Meter, NodeParts};
use super::{ControlWriter, settings};
use crate::account::GENERATOR;
use crate::control::{Counters, NodeConfig, NodeMessage, Order, Row};
use crate::mix_file;

/// A node with its sockets.
pub(super) struct Engine {
    config: NodeConfig,
    start: Instant,
    state: RefCell<NodeParts>,
    /// Tasks to start: connections to serve, endpoints to dial.
    tasks: RefCell<Vec<Task>>,
    wake: Notify,
    /// The next timer that the loop waits for, since the engine's start.
    planned: Cell<Nanos>,
    /// Of all connections.
    written: Rc<Written>,
}

/// A task to start.
pub(super) enum Task {
    Serve(PeerId, Rc<Connection>),
    Dial(Endpoint),
}

impl Engine {
    pub(super) fn new(
        config: NodeConfig,
        listen: SocketAddr,
        peers: &[SocketAddr],
        control: ControlWriter,
    ) -> anyhow::Result<Self> {
        let mix = Arc::new(mix_file::parse(
            &config.plan.mix_text,
            "the node's configuration",
        )?);
        let relayed = Relayed::kinds(&mix.relayed());
        let settings = settings(&config, listen, peers, relayed)?;
        let is_generator = config.node == GENERATOR;
        let timeline = if is_generator {
            let schedule = config.plan.load.schedule()?;
            let end = schedule.profile().duration().unwrap_or(Nanos::MAX);
            Some(Timeline::new(schedule.iter(), &mix, end))
        } else {
            None
        };
        let codec = CodecTimer::new(settings.version, settings.identity, settings.max_parcel);
        let switch = config.switch_file.as_ref().zip(config.plan.switch);
        let switch = switch.map(|(path, rate)| Switch::open(path, rate.bits_per_second() as u64));
        let delay = Nanos::from_micros(config.delay_us);
        let shaper = Shaper::new(config.bits_per_s, delay, switch.transpose()?);
        let own_seed = base::mix(config.plan.seed ^ u64::from(config.node) << 32);
        Ok(Self {
            start: Instant::now(),
            state: RefCell::new(NodeParts {
                node: Node::new(settings, own_seed),
                app: App::new(mix, config.node, is_generator, config.plan.seed),
                meter: Meter::new(config.sample),
                codec,
                connections: HashMap::new(),
                next_peer: 0,
                timeline,
                origin: None,
                links: LinkCounts::default(),
                next_second: 0,
                control,
                shaper,
                reads: 0,
            }),
            tasks: RefCell::default(),
            wake: Notify::new(),
            planned: Cell::new(Nanos::ZERO),
            written: Rc::default(),
            config,
        })
    }

    /// Waits until there are tasks to start, or a timer is earlier than was planned.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The tasks to start.
    pub(super) fn take_tasks(&self) -> Vec<Task> {
        self.tasks.take()
    }

    /// Sends the last message, when no connection is served any more.
    pub(super) async fn finish(&self) {
        let writer = {
            let mut state = self.state.borrow_mut();
            let now = self.now();
            self.report_second(&mut state, now);
            let second = state.since_origin(now).as_secs();
            let row = self.row(&mut state, second);
            let status = state.status(0);
            state.control.send(&NodeMessage::Done { row, status });
            state.control.close()
        };
        if let Some(writer) = writer {
            // It ends when all is written, or the program has ended.
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
        self.with(|state, now| {
            let connection = state.connections.get(&peer);
            if connection.is_some_and(|connection| connection.take_owed()) {
                state.node.on_writable(now, peer);
            }
        });
    }

    /// A connection has ended.
    pub(super) fn closed(&self, peer: PeerId) {
        self.with(|state, now| state.on_closed(peer, now));
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
            self.tasks.borrow_mut().push(Task::Serve(peer, connection));
            self.wake.notify_one();
        });
    }

    /// Does something with the node, then all that comes of it, and what is due by then.
    fn with(&self, act: impl FnOnce(&mut NodeParts, Nanos)) {
        let mut state = self.state.borrow_mut();
        let now = self.now();
        act(&mut state, now);
        self.report_second(&mut state, now);
        self.offer(&mut state);
        self.release(&mut state);
        self.pump(&mut state);
        state.report_links(&self.config);
        if next_timeout(&state) < self.planned.get() {
            self.wake.notify_one();
        }
    }

    /// Carries out what the node returns until it returns nothing.
    fn pump(&self, state: &mut NodeParts) {
        while let Some(output) = state.node.poll_output() {
            match output {
                Output::Write {
                    peer,
                    bytes,
                    parcels,
                } => {
                    if !state.connections.contains_key(&peer) {
                        continue;
                    }
                    state.links.wrote(peer, parcels);
                    let now = self.now();
                    match &mut state.shaper {
                        Some(shaper) => {
                            shaper.write(now, peer, bytes);
                            self.release(state);
                        }
                        None => {
                            self.write(state, peer, bytes);
                            self.on_sent(state, peer);
                        }
                    }
                }
                Output::Deliver { from, message, .. } => {
                    let now = self.now();
                    state.on_delivered(from, &message, now);
                }
                Output::Connect { endpoint } => {
                    self.tasks.borrow_mut().push(Task::Dial(endpoint));
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

    /// Carries out what the shaper releases by now.
    fn release(&self, state: &mut NodeParts) {
        let now = self.now();
        while let Some(released) = state.shaper.as_mut().and_then(|it| it.release(now)) {
            match released {
                Released::Write(peer, bytes) => self.write(state, peer, bytes),
                Released::Writable(peer) => self.on_sent(state, peer),
            }
        }
    }

    /// Gives bytes to a socket.
    fn write(&self, state: &mut NodeParts, peer: PeerId, bytes: Vec<u8>) {
        let Some(connection) = state.connections.get(&peer) else {
            return;
        };
        if connection.write(bytes) == Wrote::Broken {
            connection.close();
            state.on_closed(peer, self.now());
        }
    }

    /// The node may write to a peer again: at once, or when the socket has taken what waits for it.
    fn on_sent(&self, state: &mut NodeParts, peer: PeerId) {
        match state.connections.get(&peer) {
            Some(connection) if connection.waits() => connection.owe_writable(),
            Some(_) => state.node.on_writable(self.now(), peer),
            None => {}
        }
    }

    /// Publishes all that is due.
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
                    state.control.send(&NodeMessage::Offered {});
                }
                return;
            };
            state.meter.count_offered(offer.at, Nanos::new(now));
            state.publish_due(offer.what, offer.at, self.now());
            self.pump(state);
        }
    }

    /// Reports what was counted in a second that is over.
    fn report_second(&self, state: &mut NodeParts, now: Nanos) {
        if let Some(second) = state.second_over(now) {
            let row = self.row(state, second);
            state.control.send(&NodeMessage::Row(row));
        }
    }

    /// When [`Engine::on_time`] has something to do.
    pub(super) fn next_timer(&self) -> Instant {
        let state = self.state.borrow();
        let mut next = next_timeout(&state);
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

    /// Carries out a command.
    pub(super) fn on_order(&self, order: &Order) {
        self.with(|state, now| match order {
            &Order::Start { origin_unix_ns } => {
                let ahead = origin_unix_ns.saturating_sub(harness::part::unix_now_ns());
                state.origin = Some(now.saturating_add(Nanos::new(ahead)));
                let counts = self.counts(state);
                state.meter.reset(counts);
            }
            Order::Stop {} => {
                if state.timeline.take().is_some() {
                    state.control.send(&NodeMessage::Offered {});
                }
            }
            &Order::Status { round } => {
                let status = state.status(round);
                state.control.send(&NodeMessage::Status(status));
            }
            // `Join` comes before the engine, `Finish` ends the loop.
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
            never_came: node.unserved + node.given_up,
            forgotten: node.forgotten,
            broken_links: state.links.broken,
            refused: own.refused + node.refused,
            ..own
        }
    }
}

/// The next timer of the node or of its shaper, since the engine's start.
fn next_timeout(state: &NodeParts) -> Nanos {
    let released = state.shaper.as_ref().and_then(Shaper::next_due);
    state
        .node
        .next_timeout()
        .min(released.unwrap_or(Nanos::MAX))
}

/// The longest wait for a timer.
const LONGEST_SLEEP: Nanos = Nanos::from_secs(60);
