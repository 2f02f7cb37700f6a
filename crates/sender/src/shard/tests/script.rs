//! A clock that only moves when a test moves it, sockets without a system, and a node that does as the
//! test says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use pacing::Nanos;
use rpc::{ConnectionError, Flushed, Interest, Message};

use super::super::load::Address;
use super::super::system::{Platform, Ready, Socket};

/// What the node does with one request.
#[derive(Debug, Clone)]
pub(super) enum Reaction {
    /// Sends this after a while.
    Say(Nanos, String),
    /// Sends this after a while of work, one request after the other.
    Serve(Nanos, String),
    /// Sends this after a while and closes the connection, as it said it would.
    SayAndClose(Nanos, String),
    /// Closes the connection after a while.
    Close(Nanos),
    /// Nothing.
    Silence,
}

/// One request that the node has received.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) at: Nanos,
    pub(super) body: String,
}

/// Decides by the number of the request, from 0, and what it says.
pub(super) type React = Box<dyn FnMut(usize, &str) -> Reaction>;

/// What happens at an instant.
enum Event {
    Arrive(Place, String),
    Close(Place, End),
    Do(Box<dyn FnOnce()>),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Announced,
    Sudden,
}

/// One connection: the link's token and the how-manieth on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    token: u32,
    generation: usize,
}

/// The machine and the node.
pub(super) struct World {
    now: u64,
    events: BTreeMap<(u64, usize), Event>,
    event_count: usize,
    /// The connection of each link.
    connections: Vec<Connection>,
    react: React,
    served_until: Nanos,
    pub(super) received: Vec<Received>,
    /// While the thread does not run: from, until.
    pub(super) stalls: Vec<(Nanos, Nanos)>,
    /// While sockets take nothing.
    pub(super) deaf: Vec<(Nanos, Nanos)>,
    /// Whether answers are stamped when they arrive.
    pub(super) stamps: bool,
    /// How far the system's clock has been set since.
    pub(super) clock_steps_by: Nanos,
    /// How often sockets were waited for or looked at.
    pub(super) looks: usize,
    /// Whether no socket is looked at.
    asleep: bool,
    /// While the port is closed.
    pub(super) refusing: Vec<(Nanos, Nanos)>,
    /// While no connection becomes a WebSocket.
    pub(super) refusing_upgrades: Vec<(Nanos, Nanos)>,
    /// When each attempt to connect was made.
    pub(super) attempts: Vec<Nanos>,
    /// Most connections that were open at once.
    pub(super) most_open: usize,
    /// How long a write takes, by its number.
    pub(super) write_takes: Box<dyn Fn(usize) -> Nanos>,
    writes: usize,
    /// How long a read takes.
    pub(super) read_takes: Nanos,
    ready: Vec<Ready>,
}

#[derive(Default)]
struct Connection {
    generation: usize,
    open: bool,
    interest: Option<Interest>,
    /// When each came, and what it says.
    inbox: Vec<(u64, String)>,
    end: Option<End>,
}

/// The world, as the shard and the test hold it.
#[derive(Clone)]
pub(super) struct Script(Rc<RefCell<World>>);

impl Script {
    pub(super) fn new(links: usize, react: React) -> Self {
        Self(Rc::new(RefCell::new(World {
            now: 0,
            events: BTreeMap::new(),
            event_count: 0,
            connections: (0..links).map(|_| Connection::default()).collect(),
            react,
            served_until: Nanos::ZERO,
            received: Vec::new(),
            stalls: Vec::new(),
            deaf: Vec::new(),
            stamps: false,
            clock_steps_by: Nanos::ZERO,
            looks: 0,
            asleep: false,
            refusing: Vec::new(),
            refusing_upgrades: Vec::new(),
            attempts: Vec::new(),
            most_open: 0,
            write_takes: Box::new(|_| Nanos::ZERO),
            writes: 0,
            read_takes: Nanos::ZERO,
            ready: Vec::new(),
        })))
    }

    pub(super) fn with<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        look(&mut self.0.borrow_mut())
    }

    /// Has something happen at an instant.
    pub(super) fn at(&self, at: Nanos, happens: impl FnOnce() + 'static) {
        self.with(|world| world.schedule(at, Event::Do(Box::new(happens))));
    }

    /// Closes the connection of a link.
    pub(super) fn close(&self, token: u32) {
        self.with(|world| {
            let connection = &mut world.connections[token as usize];
            connection.end = Some(End::Sudden);
        });
    }

    /// The origin: the clock begins anew at zero.
    pub(super) fn start(&self) {
        self.with(|world| {
            world.now = 0;
            world.attempts.clear();
        });
    }
}

impl World {
    fn schedule(&mut self, at: Nanos, event: Event) {
        self.event_count += 1;
        self.events.insert((at.as_nanos(), self.event_count), event);
    }

    fn during(&self, spans: &[(Nanos, Nanos)]) -> bool {
        let now = Nanos::from_nanos(self.now);
        spans.iter().any(|(from, to)| (*from..*to).contains(&now))
    }

    /// What is ready now.
    fn look(&mut self) {
        let deaf = self.during(&self.deaf);
        let ready = self
            .connections
            .iter()
            .enumerate()
            .filter_map(|(token, connection)| {
                let interest = connection.interest.filter(|_| connection.open)?;
                let readable = !self.asleep
                    && interest.read
                    && (!connection.inbox.is_empty() || connection.end.is_some());
                let writable = !self.asleep && interest.write && !deaf;
                (readable || writable).then_some(Ready {
                    token: token as u32,
                    readable,
                    writable,
                })
            });
        self.ready = ready.collect();
    }

    /// Takes the next event that happens until then, and the time to it.
    fn next_event(&mut self, until: u64) -> Option<Event> {
        let first = self.events.first_entry()?;
        let (at, _) = *first.key();
        if at > until {
            return None;
        }
        self.now = self.now.max(at);
        Some(first.remove())
    }

    fn happen(&mut self, event: Event) -> Option<Box<dyn FnOnce()>> {
        match event {
            Event::Do(happens) => return Some(happens),
            Event::Arrive(place, text) => {
                let now = self.now;
                if let Some(connection) = self.connection(place) {
                    connection.inbox.push((now, text));
                }
            }
            Event::Close(place, end) => {
                if let Some(connection) = self.connection(place) {
                    connection.end = Some(end);
                }
            }
        }
        None
    }

    fn connection(&mut self, place: Place) -> Option<&mut Connection> {
        let connection = &mut self.connections[place.token as usize];
        (connection.open && connection.generation == place.generation).then_some(connection)
    }

    fn receive(&mut self, place: Place, body: String) {
        let reaction = (self.react)(self.received.len(), &body);
        let at = Nanos::from_nanos(self.now);
        self.received.push(Received { at, body });
        match reaction {
            Reaction::Say(after, text) => {
                self.schedule(at.saturating_add(after), Event::Arrive(place, text));
            }
            Reaction::Serve(work, text) => {
                self.served_until = self.served_until.max(at).saturating_add(work);
                self.schedule(self.served_until, Event::Arrive(place, text));
            }
            Reaction::SayAndClose(after, text) => {
                let then = at.saturating_add(after);
                self.schedule(then, Event::Arrive(place, text));
                self.schedule(then, Event::Close(place, End::Announced));
            }
            Reaction::Close(after) => {
                let then = at.saturating_add(after);
                self.schedule(then, Event::Close(place, End::Sudden));
            }
            Reaction::Silence => {}
        }
    }
}

impl Platform for Script {
    type Socket = ScriptedSocket;

    fn now(&self) -> Nanos {
        Nanos::from_nanos(self.0.borrow().now)
    }

    fn since_unix(&self, unix_ns: u64) -> Nanos {
        let world = self.0.borrow();
        let ago = Nanos::from_nanos(world.now.saturating_sub(unix_ns));
        ago.saturating_add(world.clock_steps_by)
    }

    fn sleep(&mut self, until: Nanos) {
        self.with(|world| world.asleep = true);
        self.wait(self.now(), until).unwrap();
        self.with(|world| world.asleep = false);
    }

    fn open(&mut self, _: &Address, token: u32) -> Result<ScriptedSocket, String> {
        let now = self.now();
        self.with(|world| {
            world.attempts.push(now);
            if world.during(&world.refusing) {
                return Err("nobody listens".to_owned());
            }
            let connection = &mut world.connections[token as usize];
            *connection = Connection {
                generation: connection.generation + 1,
                open: true,
                interest: Some(CONNECTING),
                ..Connection::default()
            };
            let generation = connection.generation;
            let open = world
                .connections
                .iter()
                .filter(|connection| connection.open);
            world.most_open = world.most_open.max(open.count());
            Ok(ScriptedSocket {
                world: self.clone(),
                place: Place { token, generation },
                up: false,
                stream: 0,
                handed: 0,
                messages: Vec::new(),
            })
        })
    }

    fn watch(&mut self, _: &ScriptedSocket, token: u32, interest: Interest) -> io::Result<()> {
        self.with(|world| world.connections[token as usize].interest = Some(interest));
        Ok(())
    }

    fn wait(&mut self, _: Nanos, until: Nanos) -> io::Result<()> {
        let until = until.as_nanos();
        self.with(|world| world.looks += usize::from(!world.asleep));
        loop {
            self.with(World::look);
            let stalled = self.with(|world| {
                let now = Nanos::from_nanos(world.now);
                let stall = world
                    .stalls
                    .iter()
                    .find(|(from, to)| (*from..*to).contains(&now));
                stall.map(|(_, to)| to.as_nanos())
            });
            if stalled.is_none() && self.with(|world| !world.ready.is_empty() || world.now >= until)
            {
                return Ok(());
            }
            let horizon = stalled.unwrap_or(until);
            let event = self.with(|world| {
                // A stall begins on its own, also between events.
                let begin = world.stalls.iter().map(|(from, _)| from.as_nanos());
                let begin = begin.filter(|from| *from > world.now).min();
                let horizon = horizon.min(begin.unwrap_or(u64::MAX)).max(world.now);
                let event = world.next_event(horizon);
                if event.is_none() {
                    world.now = horizon;
                }
                event
            });
            if let Some(event) = event
                && let Some(happens) = self.with(|world| world.happen(event))
            {
                happens();
            }
        }
    }

    fn ready(&self, position: usize) -> Option<Ready> {
        self.0.borrow().ready.get(position).copied()
    }
}

/// One end of a scripted connection.
pub(super) struct ScriptedSocket {
    world: Script,
    place: Place,
    up: bool,
    stream: u64,
    handed: u64,
    /// Queued: where each ends, and what it says.
    messages: Vec<(u64, String)>,
}

impl Socket for ScriptedSocket {
    fn interest(&self) -> Interest {
        if self.up {
            Interest {
                read: true,
                write: self.unwritten() > 0,
            }
        } else {
            CONNECTING
        }
    }

    fn drive(&mut self) -> Result<bool, ConnectionError> {
        let is_refused = |world: &mut World| world.during(&world.refusing_upgrades);
        if self.world.with(is_refused) {
            let reason = "HTTP 403 Forbidden".to_owned();
            return Err(ConnectionError::Upgrade { reason });
        }
        self.up = true;
        Ok(true)
    }

    fn queue(&mut self, body: &[u8]) -> u64 {
        self.stream += body.len() as u64;
        let text = String::from_utf8(body.to_vec()).unwrap();
        self.messages.push((self.stream, text));
        self.stream
    }

    fn unwritten(&self) -> usize {
        (self.stream - self.handed) as usize
    }

    fn flush(&mut self) -> Result<Flushed, ConnectionError> {
        let place = self.place;
        self.world.with(|world| {
            let takes = (world.write_takes)(world.writes);
            world.writes += 1;
            world.now += takes.as_nanos();
            if !world.during(&world.deaf) {
                self.handed = self.stream;
                for (_, body) in self.messages.drain(..) {
                    world.receive(place, body);
                }
            }
        });
        Ok(Flushed {
            written_to: self.handed,
            blocked: self.unwritten() > 0,
        })
    }

    fn read(&mut self, on_message: &mut impl FnMut(Message<'_>)) -> Result<(), ConnectionError> {
        let place = self.place;
        self.world
            .with(|world| world.now += world.read_takes.as_nanos());
        let (inbox, end) = self.world.with(|world| match world.connection(place) {
            Some(connection) => (std::mem::take(&mut connection.inbox), connection.end),
            None => (Vec::new(), None),
        });
        let stamps = self.world.with(|world| world.stamps);
        for (at, text) in inbox {
            on_message(Message {
                body: text.as_bytes(),
                status: 200,
                arrived_unix_ns: stamps.then_some(at),
            });
        }
        match end {
            None => Ok(()),
            Some(End::Announced) => Err(ConnectionError::ClosedAfterAnswer),
            Some(End::Sudden) => Err(ConnectionError::Closed { mid_message: false }),
        }
    }
}

impl Drop for ScriptedSocket {
    fn drop(&mut self) {
        let place = self.place;
        self.world.with(|world| {
            if let Some(connection) = world.connection(place) {
                connection.open = false;
            }
        });
    }
}

const CONNECTING: Interest = Interest {
    read: false,
    write: true,
};
