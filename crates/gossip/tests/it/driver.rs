//! A node with sockets, for tests with programs of others: a thread for each connection reads, the
//! test's own thread does everything else.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gossip::{CloseReason, Endpoint, Node, Origin, Output, PeerId, Routing, Settings};
use pacing::Nanos;

pub(crate) struct Driver {
    pub(crate) node: Node,
    pub(crate) delivered: Vec<Bytes>,
    pub(crate) closed: Vec<CloseReason>,
    /// Writes in pieces of so many bytes; 0 for whole ones.
    pub(crate) pieces: usize,
    endpoint: Endpoint,
    start: Instant,
    sockets: HashMap<PeerId, TcpStream>,
    next_peer: u64,
    happened: Receiver<Happening>,
    tell: Sender<Happening>,
}

enum Happening {
    Accepted(TcpStream),
    Bytes(PeerId, Vec<u8>),
    Ended(PeerId),
}

impl Driver {
    /// A node that listens on a free port.
    pub(crate) fn new(mut settings: Settings, number: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        settings.identity.listen_port = port;
        settings.identity.node_id = number;
        let (tell, happened) = channel();
        let accepted = tell.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepted.send(Happening::Accepted(stream.unwrap())).is_err() {
                    break;
                }
            }
        });
        Self {
            node: Node::new(settings, u64::from(number)),
            delivered: Vec::new(),
            closed: Vec::new(),
            pieces: 0,
            endpoint: Endpoint::new("127.0.0.1", port).unwrap(),
            start: Instant::now(),
            sockets: HashMap::new(),
            next_peer: 0,
            happened,
            tell,
        }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(crate) fn broadcast(&mut self, message: &[u8]) {
        let now = self.now();
        self.node
            .publish(now, &Bytes::copy_from_slice(message), Routing::Broadcast);
        self.carry_out();
    }

    /// Opens a connection to its own listener.
    pub(crate) fn dial_yourself(&mut self) {
        let endpoint = self.endpoint();
        let stream = TcpStream::connect((endpoint.host(), endpoint.port())).unwrap();
        self.connected(stream, Origin::Dialled(endpoint));
    }

    /// Does what there is to do now, and waits a little for more.
    pub(crate) fn turn(&mut self) {
        let now = self.now();
        if self.node.next_timeout() <= now {
            self.node.on_timeout(now);
        }
        self.carry_out();
        let Ok(first) = self.happened.recv_timeout(Duration::from_millis(5)) else {
            return;
        };
        let mut next = Some(first);
        while let Some(happening) = next {
            self.happen(happening);
            self.carry_out();
            next = self.happened.try_recv().ok();
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now();
        match happening {
            Happening::Accepted(stream) => {
                let host = stream.peer_addr().unwrap().ip().to_string();
                self.connected(stream, Origin::Accepted(host));
            }
            Happening::Bytes(peer, bytes) => self.node.on_bytes(now, peer, &bytes),
            Happening::Ended(peer) => {
                self.sockets.remove(&peer);
                self.node.on_closed(now, peer);
            }
        }
    }

    fn connected(&mut self, stream: TcpStream, origin: Origin) {
        stream.set_nodelay(true).unwrap();
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        let (mut reading, tell) = (stream.try_clone().unwrap(), self.tell.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = reading.read(&mut buffer) {
                let bytes = buffer[..length].to_vec();
                if tell.send(Happening::Bytes(peer, bytes)).is_err() {
                    return;
                }
            }
            // The other end may be gone.
            let _ = tell.send(Happening::Ended(peer));
        });
        self.sockets.insert(peer, stream);
        let now = self.now();
        self.node.on_connected(now, peer, origin);
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Connect { endpoint } => {
                    if let Ok(stream) = TcpStream::connect((endpoint.host(), endpoint.port())) {
                        self.connected(stream, Origin::Dialled(endpoint));
                    }
                }
                Output::Write { peer, bytes, .. } => self.write(peer, &bytes),
                Output::Close { peer, reason } => {
                    self.closed.push(reason);
                    if let Some(stream) = self.sockets.remove(&peer) {
                        // The other end may have closed first.
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                }
                Output::Deliver { message, .. } => self.delivered.push(message),
            }
        }
    }

    fn write(&mut self, peer: PeerId, bytes: &[u8]) {
        let pieces = match self.pieces {
            0 => bytes.len(),
            pieces => pieces,
        };
        let Some(stream) = self.sockets.get_mut(&peer) else {
            return;
        };
        let written = bytes
            .chunks(pieces)
            .try_for_each(|piece| stream.write_all(piece));
        let now = self.now();
        match written {
            Ok(()) => self.node.on_writable(now, peer),
            Err(_) => self.node.on_closed(now, peer),
        }
    }
}
