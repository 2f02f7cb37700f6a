//! The event loop.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use bytes::Bytes;
use measure::Latency;
use pacing::{Nanos, Schedule};

use super::{Direction, Host, Outcome, Pool, SimSettings, Task};
use crate::{
    app::{App, KindId, Mix, Stamp, Timeline},
    node::{Counts, Node, Origin, Output, PeerId, Relayed},
    topology::Endpoint,
};

pub(super) struct World<'a> {
    settings: &'a SimSettings,
    hosts: Vec<Host>,
    connections: Vec<Connection>,
    events: BinaryHeap<Reverse<Event>>,
    /// Events at one instant happen in the order in which they were planned.
    planned: u64,
    pool: Pool,
    outcome: Outcome,
}

/// Both directions and both ends; the dialler's are the first.
struct Connection {
    ends: [usize; 2],
    directions: [Direction; 2],
    /// Bytes that have arrived at each end and are not read.
    arrived: [Vec<u8>; 2],
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Nanos,
    order: u64,
    what: What,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Timer(usize),
    Offer,
    /// A host has done a task.
    Done(usize),
    Arrived {
        connection: usize,
        end: usize,
        bytes: Vec<u8>,
    },
    Closed {
        connection: usize,
        end: usize,
    },
}

impl<'a> World<'a> {
    pub(super) fn new(
        settings: &'a SimSettings,
        mix: Mix,
        schedule: &Schedule,
        duration: Nanos,
    ) -> Self {
        let (nodes, mix) = (settings.dials.len(), Arc::new(mix));
        let host = |number: usize| {
            let mut own = settings.node.clone();
            own.identity.node_id = number as u32 + 1;
            own.identity.listen_port = port(number);
            own.relayed = Relayed::kinds(&mix.relayed());
            let node = Node::new(own, base::mix(settings.seed ^ (number as u64) << 32));
            let app = App::new(Arc::clone(&mix), number as u16, number == 0, settings.seed);
            let timeline = (number == 0).then(|| Timeline::new(schedule.iter(), &mix, duration));
            Host::new(node, app, timeline)
        };
        let mut world = Self {
            settings,
            hosts: (0..nodes).map(host).collect(),
            connections: Vec::new(),
            events: BinaryHeap::new(),
            planned: 0,
            pool: Pool::new(settings.processors, nodes),
            outcome: Outcome {
                totals: Counts::default(),
                offered: 0,
                made: 0,
                sights: 0,
                entries_host: 0,
                entries_sum: 0,
                latency: Latency::new(),
                busy: Vec::new(),
                nodes,
                duration,
            },
        };
        world.begin();
        world
    }

    /// The load begins once every handshake is done.
    fn begin(&mut self) {
        for (from, dialled) in self.settings.dials.iter().enumerate() {
            for to in dialled {
                self.connect(from, *to);
            }
        }
        for host in 0..self.hosts.len() {
            self.give(host, Task::Timer);
        }
        self.plan(START, What::Offer);
    }

    pub(super) fn run(&mut self, end: Nanos) {
        let end = end.saturating_add(START);
        self.assign(Nanos::ZERO);
        while let Some(Reverse(event)) = self.events.pop() {
            if event.at > end {
                break;
            }
            self.happen(event.at, event.what);
            self.assign(event.at);
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        let mut totals = Counts::default();
        for host in &self.hosts {
            totals += host.node.counts();
        }
        self.outcome.totals = totals;
        let duration = self.outcome.duration.as_secs_f64().max(1e-9);
        let busy = self
            .hosts
            .iter()
            .map(|host| host.busy.as_secs_f64() / duration);
        self.outcome.busy = busy.collect();
        self.outcome
    }

    fn plan(&mut self, at: Nanos, what: What) {
        self.planned += 1;
        let order = self.planned;
        self.events.push(Reverse(Event { at, order, what }));
    }

    fn happen(&mut self, now: Nanos, what: What) {
        match what {
            What::Timer(host) => {
                self.hosts[host].timer = Nanos::MAX;
                self.give(host, Task::Timer);
            }
            What::Offer => self.give(0, Task::Offer),
            What::Done(host) => {
                let it = &self.hosts[host];
                if !it.tasks.is_empty() && now < it.slice_end {
                    self.next_task(host, now);
                } else {
                    self.pool.done();
                    self.hosts[host].engaged = false;
                    self.engage(host);
                }
            }
            What::Arrived {
                connection,
                end,
                bytes,
            } => self.arrived(connection, end, &bytes),
            What::Closed { connection, end } => {
                self.give(
                    self.connections[connection].ends[end],
                    Task::Closed(connection),
                );
            }
        }
    }

    fn arrived(&mut self, connection: usize, end: usize, bytes: &[u8]) {
        let link = &mut self.connections[connection];
        let waits = !link.arrived[end].is_empty();
        link.arrived[end].extend_from_slice(bytes);
        let host = link.ends[end];
        if !waits {
            self.give(host, Task::Readable(connection));
        }
    }

    fn connect(&mut self, from: usize, to: usize) {
        let connection = self.connections.len();
        let direction = || Direction::new(self.settings.link);
        self.connections.push(Connection {
            ends: [from, to],
            directions: [direction(), direction()],
            arrived: [Vec::new(), Vec::new()],
        });
        if let Ok(endpoint) = Endpoint::new(HOST, port(to)) {
            self.give(from, Task::Connected(connection, Origin::Dialled(endpoint)));
            self.give(
                to,
                Task::Connected(connection, Origin::Accepted(HOST.to_owned())),
            );
        }
    }

    fn give(&mut self, host: usize, task: Task) {
        self.hosts[host].tasks.push_back(task);
        self.engage(host);
    }

    fn engage(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if !it.engaged && !it.tasks.is_empty() {
            it.engaged = true;
            self.pool.wants(host);
        }
    }

    /// Gives free processors to the hosts that wait for one.
    fn assign(&mut self, now: Nanos) {
        while let Some(host) = self.pool.next() {
            self.hosts[host].slice_end = now.saturating_add(self.pool.slice);
            self.next_task(host, now);
        }
    }

    fn next_task(&mut self, host: usize, now: Nanos) {
        let done = match self.hosts[host].tasks.pop_front() {
            Some(task) => self.work(host, now, task),
            None => now,
        };
        let it = &mut self.hosts[host];
        it.busy = it.busy.saturating_add(done.saturating_sub(now));
        self.plan(done, What::Done(host));
    }

    /// Does a task; gives when it is done.
    fn work(&mut self, host: usize, now: Nanos, task: Task) -> Nanos {
        let node = &mut self.hosts[host].node;
        let mut clock = now;
        match task {
            Task::Timer => node.on_timeout(now),
            Task::Offer => self.offer(now),
            Task::Connected(connection, origin) => {
                node.on_connected(now, PeerId(connection as u64), origin);
            }
            Task::Writable(connection) => node.on_writable(now, PeerId(connection as u64)),
            Task::Closed(connection) => node.on_closed(now, PeerId(connection as u64)),
            Task::Readable(connection) => clock = self.read(host, connection, now),
        }
        let clock = self.pump(host, clock);
        self.plan_timer(host, clock);
        clock
    }

    fn plan_timer(&mut self, host: usize, now: Nanos) {
        let it = &mut self.hosts[host];
        let next = it.node.next_timeout().max(now);
        if next < it.timer {
            it.timer = next;
            self.plan(next, What::Timer(host));
        }
    }

    fn read(&mut self, host: usize, connection: usize, now: Nanos) -> Nanos {
        let link = &mut self.connections[connection];
        let end = usize::from(link.ends[1] == host);
        let bytes = std::mem::take(&mut link.arrived[end]);
        let freed = link.directions[1 - end].read(now, bytes.len());
        let writer = link.ends[1 - end];
        if let Some((at, bytes)) = freed {
            self.plan(
                at,
                What::Arrived {
                    connection,
                    end,
                    bytes,
                },
            );
            self.give(writer, Task::Writable(connection));
        }
        let node = &mut self.hosts[host].node;
        let before = node.counts().parcels_read;
        node.on_bytes(now, PeerId(connection as u64), &bytes);
        let parcels = node.counts().parcels_read - before;
        let prices = &self.settings.prices;
        now.saturating_add(Nanos::new(prices.read_ns + parcels * prices.parcel_in_ns))
            .saturating_add(prices.bytes(bytes.len()))
    }

    /// Does what the node wants done; each thing takes its time.
    fn pump(&mut self, host: usize, mut clock: Nanos) -> Nanos {
        while let Some(output) = self.hosts[host].node.poll_output() {
            match output {
                Output::Write {
                    peer,
                    bytes,
                    parcels,
                } => {
                    let prices = &self.settings.prices;
                    let price = prices.write_ns + u64::from(parcels) * prices.parcel_out_ns;
                    let price = price + self.wake_ns(host, peer);
                    clock = clock
                        .saturating_add(Nanos::new(price))
                        .saturating_add(prices.bytes(bytes.len()));
                    self.write(host, clock, peer, bytes);
                }
                Output::Deliver { from, message, .. } => {
                    let price = Nanos::new(self.settings.prices.first_sight_ns);
                    clock = clock.saturating_add(price);
                    self.deliver(host, clock, from, &message);
                }
                Output::Connect { endpoint } => {
                    let to = usize::from(endpoint.port() - FIRST_PORT);
                    if to < self.hosts.len() {
                        self.connect(host, to);
                    }
                }
                Output::Close { peer, .. } => {
                    let connection = peer.0 as usize;
                    let end = usize::from(self.connections[connection].ends[0] == host);
                    let at = clock.saturating_add(self.settings.link.delay);
                    self.plan(at, What::Closed { connection, end });
                }
            }
        }
        clock
    }

    /// What a write costs more where the other node has nothing to do.
    fn wake_ns(&self, host: usize, peer: PeerId) -> u64 {
        let [one, other] = self.connections[peer.0 as usize].ends;
        let reader = if one == host { other } else { one };
        if self.hosts[reader].engaged {
            0
        } else {
            self.settings.prices.wake_ns
        }
    }

    fn write(&mut self, host: usize, now: Nanos, peer: PeerId, bytes: Vec<u8>) {
        let connection = peer.0 as usize;
        let link = &mut self.connections[connection];
        let end = usize::from(link.ends[1] == host);
        if let Some((at, bytes)) = link.directions[end].write(now, bytes) {
            let end = 1 - end;
            self.plan(
                at,
                What::Arrived {
                    connection,
                    end,
                    bytes,
                },
            );
            self.hosts[host].node.on_writable(now, peer);
        }
    }

    fn offer(&mut self, now: Nanos) {
        let since = now.saturating_sub(START);
        while let Some(timeline) = &mut self.hosts[0].timeline
            && let Some(offer) = timeline.take(since)
        {
            for kind in self.hosts[0].app.messages(offer.what) {
                let entries = u64::from(self.hosts[0].app.mix().kind(kind).entries);
                self.outcome.offered += entries;
                self.make(0, now, kind, offer.at, None);
            }
        }
        let timeline = self.hosts[0].timeline.as_ref();
        if let Some(due) = timeline.and_then(Timeline::next_due) {
            self.plan(due.saturating_add(START), What::Offer);
        }
    }

    fn make(&mut self, host: usize, now: Nanos, kind: KindId, due: Nanos, to: Option<PeerId>) {
        let it = &mut self.hosts[host];
        let message = Bytes::from(it.app.message(kind, due));
        self.outcome.made += u64::from(it.app.mix().kind(kind).relay);
        it.node.publish(now, &message, it.app.routing(kind, to));
    }

    fn deliver(&mut self, host: usize, now: Nanos, from: Option<PeerId>, message: &[u8]) {
        let since = now.saturating_sub(START);
        if let Some(stamp) = Stamp::of(message) {
            self.outcome.latency.record(since.saturating_sub(stamp.due));
        }
        let Some(reaction) = self.hosts[host].app.receive(message) else {
            return;
        };
        self.outcome.sights += u64::from(reaction.relay);
        if since <= Nanos::from_secs(self.outcome.whole_seconds()) {
            let entries = u64::from(reaction.entries);
            self.outcome.entries_sum += entries;
            self.outcome.entries_host += if host == 0 { entries } else { 0 };
        }
        if let (Some(kind), Some(peer)) = (reaction.answer, from) {
            self.make(host, now, kind, since, Some(peer));
        }
        if let Some(kind) = reaction.request {
            self.make(host, now, kind, since, None);
        }
    }
}

const HOST: &str = "10.0.0.1";
const FIRST_PORT: u16 = 10_000;
/// When the load begins: handshakes are done.
const START: Nanos = Nanos::from_secs(1);

const fn port(host: usize) -> u16 {
    FIRST_PORT + host as u16
}
