//! Where a connection goes, and which node each transaction of a family goes to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rpc::{ConnectionOptions, Endpoint, Transport};

use crate::protocol::Families;

/// The families of a load and the nodes that they are divided among.
#[derive(Debug)]
pub(super) struct Homes {
    families: Families,
    /// The nodes' places in the plan's list, each once.
    endpoints: Vec<u16>,
    /// Families that follow one another and go to one node.
    run: u64,
}

impl Homes {
    /// `run` consecutive families go to one node, so that requests can be filled: fewer where some node would get
    /// none. At least one connection is needed.
    pub(super) fn new(families: Families, connections: &[Address], run: u64) -> Self {
        let mut endpoints: Vec<u16> = connections.iter().map(|it| it.number).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        let most = families.count() / endpoints.len().max(1) as u64;
        Self {
            families,
            run: run.clamp(1, most.max(1)),
            endpoints,
        }
    }

    /// The nodes of a transaction's family: the first that can be reached is meant.
    pub(super) fn turn(&self, index: u64) -> impl Iterator<Item = u16> {
        let count = self.endpoints.len() as u64;
        let first = self.families.of(index) / self.run;
        (0..count).map(move |step| self.endpoints[((first + step) % count) as usize])
    }
}

/// A node's address, resolved once before the run.
#[derive(Debug, Clone)]
pub struct Address {
    /// Its place in the plan's list.
    pub number: u16,
    /// How the node is reached.
    pub endpoint: Endpoint,
    /// Its resolved address.
    pub socket: SocketAddr,
    /// How its connections are made.
    pub options: Arc<ConnectionOptions>,
}

impl Address {
    /// Whether the system says when an answer came, and each is the only one on its way.
    pub(super) fn is_stamped(&self) -> bool {
        let plain_http = self.endpoint.transport() == Transport::Http && !self.endpoint.is_tls();
        plain_http && self.options.arrival_stamps
    }

    /// The same node, reached from a local address.
    #[must_use]
    pub fn reached_from(mut self, source: Option<IpAddr>) -> Self {
        if source.is_some() {
            Arc::make_mut(&mut self.options).source = source;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes(families: u64, endpoints: u16, run: u64) -> Homes {
        let address = |number| Address {
            number,
            endpoint: "http://127.0.0.1:1".parse().unwrap(),
            socket: "127.0.0.1:1".parse().unwrap(),
            options: Default::default(),
        };
        // Two connections to each.
        let connections: Vec<Address> = (0..endpoints).chain(0..endpoints).map(address).collect();
        let of = move |index| index % families;
        Homes::new(Families::new(families, of), &connections, run)
    }

    fn firsts(homes: &Homes, indices: std::ops::Range<u64>) -> Vec<u16> {
        let first = |index| homes.turn(index).next().unwrap();
        indices.map(first).collect()
    }

    #[test]
    fn families_are_divided_in_runs_that_leave_no_node_without() {
        assert_eq!(firsts(&homes(4, 2, 1), 0..8), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(firsts(&homes(4, 2, 20), 0..8), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(firsts(&homes(9, 3, 2), 0..9), [0, 0, 1, 1, 2, 2, 0, 0, 1]);
        assert_eq!(firsts(&homes(1, 3, 5), 0..3), [0, 0, 0]);
    }

    #[test]
    fn every_node_is_in_a_turn_once() {
        let homes = homes(6, 3, 1);
        assert_eq!(homes.turn(4).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
