//! Nodes in memory: what one writes, the other reads, in order, and nothing takes time by itself.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use gossip::{CloseReason, Counts, Endpoint, Node, Origin, Output, PeerId, Settings};
use pacing::Nanos;

pub(crate) struct Mesh {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Nanos,
    /// The other end of each connection.
    other: BTreeMap<(usize, PeerId), (usize, PeerId)>,
    wire: VecDeque<(usize, PeerId, Vec<u8>)>,
    next_peer: u64,
    pub(crate) delivered: Vec<Vec<Bytes>>,
    pub(crate) closed: Vec<(usize, CloseReason)>,
    /// Parcels that were on the way to a connection that was closed.
    pub(crate) lost: u64,
    /// Who does not read, so that writes to it do not end.
    pub(crate) deaf: Option<usize>,
}

pub(crate) fn endpoint(node: usize) -> Endpoint {
    Endpoint::new("127.0.0.1", 9_000 + node as u16).expect("an address and a port")
}

impl Mesh {
    /// Nodes with these settings, numbered, without links.
    pub(crate) fn new(settings: Vec<Settings>) -> Self {
        let nodes: Vec<Node> = (settings.into_iter().enumerate())
            .map(|(number, mut settings)| {
                settings.identity.node_id = number as u32 + 1;
                settings.identity.listen_port = endpoint(number).port();
                Node::new(settings, number as u64 + 1)
            })
            .collect();
        Self {
            delivered: vec![Vec::new(); nodes.len()],
            nodes,
            now: Nanos::ZERO,
            other: BTreeMap::new(),
            wire: VecDeque::new(),
            next_peer: 0,
            closed: Vec::new(),
            lost: 0,
            deaf: None,
        }
    }

    /// A full mesh that is up.
    pub(crate) fn full(nodes: usize, settings: &Settings) -> Self {
        let mut mesh = Self::new(vec![settings.clone(); nodes]);
        for (from, dialled) in gossip::topology::full(nodes).into_iter().enumerate() {
            for to in dialled {
                mesh.connect(from, to);
            }
        }
        mesh.settle();
        assert!(mesh.nodes.iter().all(|node| node.peers_up() == nodes - 1));
        mesh
    }

    /// Lets time pass to this second of the mesh, tick by tick.
    pub(crate) fn until(&mut self, seconds: u64) {
        while self.now < Nanos::from_secs(seconds) {
            self.now = self.now.saturating_add(Nanos::from_millis(100));
            for node in 0..self.nodes.len() {
                if self.nodes[node].next_timeout() <= self.now {
                    self.nodes[node].on_timeout(self.now);
                }
            }
            self.settle();
        }
    }

    pub(crate) fn publish(&mut self, node: usize, message: &[u8], routing: gossip::Routing) {
        self.nodes[node].publish(self.now, &Bytes::copy_from_slice(message), routing);
    }

    /// Everything that can happen without time happens.
    pub(crate) fn settle(&mut self) {
        loop {
            for node in 0..self.nodes.len() {
                while let Some(output) = self.nodes[node].poll_output() {
                    self.carry_out(node, output);
                }
            }
            let Some((to, peer, bytes)) = self.wire.pop_front() else {
                break;
            };
            self.nodes[to].on_bytes(self.now, peer, &bytes);
        }
    }

    fn carry_out(&mut self, node: usize, output: Output) {
        match output {
            Output::Connect { endpoint } => {
                let to = usize::from(endpoint.port() - 9_000);
                if to < self.nodes.len() {
                    self.connect(node, to);
                }
            }
            Output::Write {
                peer,
                bytes,
                parcels,
            } => match self.other.get(&(node, peer)) {
                Some(&(to, _)) if Some(to) == self.deaf => {}
                Some(&(to, other)) => {
                    self.wire.push_back((to, other, bytes));
                    self.nodes[node].on_writable(self.now, peer);
                }
                None => self.lost += u64::from(parcels),
            },
            Output::Close { peer, reason } => {
                self.closed.push((node, reason));
                self.cut(node, peer);
            }
            Output::Deliver { message, .. } => self.delivered[node].push(message),
        }
    }

    pub(crate) fn connect(&mut self, from: usize, to: usize) {
        let (here, there) = (PeerId(self.next_peer), PeerId(self.next_peer + 1));
        self.next_peer += 2;
        self.other.insert((from, here), (to, there));
        self.other.insert((to, there), (from, here));
        let dialled = Origin::Dialled(endpoint(to));
        let accepted = Origin::Accepted("127.0.0.1".to_owned());
        self.nodes[from].on_connected(self.now, here, dialled);
        self.nodes[to].on_connected(self.now, there, accepted);
    }

    /// A connection ends; what was written before is read first, as TCP does.
    fn cut(&mut self, node: usize, peer: PeerId) {
        let Some((to, other)) = self.other.remove(&(node, peer)) else {
            return;
        };
        self.other.remove(&(to, other));
        let (due, rest): (Vec<_>, Vec<_>) = self
            .wire
            .drain(..)
            .partition(|(at, on, _)| (*at, *on) == (to, other));
        self.wire = rest.into();
        for (_, _, bytes) in due {
            self.nodes[to].on_bytes(self.now, other, &bytes);
        }
        self.nodes[to].on_closed(self.now, other);
    }

    /// A node goes: all its connections end.
    pub(crate) fn leave(&mut self, node: usize) {
        let peers: Vec<_> = self.nodes[node].peers().map(|peer| peer.id).collect();
        for peer in peers {
            self.nodes[node].on_closed(self.now, peer);
            self.cut(node, peer);
        }
        self.settle();
    }

    /// The sum of a counter over all nodes.
    pub(crate) fn sum(&self, counter: impl Fn(Counts) -> u64) -> u64 {
        self.nodes.iter().map(|node| counter(node.counts())).sum()
    }
}
