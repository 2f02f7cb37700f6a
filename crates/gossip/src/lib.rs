//! A flooding gossip network: the parcel formats V9, V10 and V11 of factom-p2p, a node as a state
//! machine, and many such nodes on a simulated clock.
//!
//! What it is not: it opens no socket, reads no clock and draws no random number of its own. Bytes
//! and instants come in, bytes and the next instant go out, and a seed makes every run of it the same
//! run. What it takes from factom-p2p (`github.com/whosoup/factom-p2p`, August 2020) names the file.
//!
//! Read first: [`Node`] (the state machine), [`Settings`] (what it does) and [`codec::Decoder`] (bytes
//! to parcels).
//!
//! ```
//! use gossip::{Node, Origin, Output, PeerId, Routing, Settings};
//! use pacing::Nanos;
//!
//! let settings = |id| {
//!     let mut settings = Settings::default();
//!     settings.identity.node_id = id;
//!     settings
//! };
//! let mut nodes = [Node::new(settings(1), 7), Node::new(settings(2), 8)];
//! // A driver of 10 lines: what one node writes, the other reads at once.
//! let (now, peer) = (Nanos::ZERO, PeerId(1));
//! nodes[0].on_connected(now, peer, Origin::Dialled("127.0.0.1:9002".parse()?));
//! nodes[1].on_connected(now, peer, Origin::Accepted("127.0.0.1".to_owned()));
//! let mut delivered = Vec::new();
//! for round in 0..10 {
//!     if round == 3 {
//!         nodes[0].publish(now, &b"hello".as_slice().into(), Routing::RandomPeer);
//!     }
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         while let Some(output) = nodes[from].poll_output() {
//!             match output {
//!                 Output::Write { peer, bytes, .. } => {
//!                     nodes[from].on_writable(now, peer);
//!                     nodes[to].on_bytes(now, peer, &bytes);
//!                 }
//!                 Output::Deliver { message, .. } => delivered.push((from, message)),
//!                 Output::Connect { .. } | Output::Close { .. } => {}
//!             }
//!         }
//!     }
//! }
//! // It comes back to its sender, too.
//! assert_eq!(delivered, [(1, "hello".into()), (0, "hello".into())]);
//! # Ok::<(), gossip::EndpointError>(())
//! ```

pub mod app;
pub mod codec;
mod node;
mod parcel;
pub mod sim;
pub mod topology;

pub use self::{
    node::{
        CloseReason, Counts, Node, Origin, Output, Peer, PeerId, QueueLimits, Relayed, Routing,
        Settings,
    },
    parcel::{FEATURE_ANNOUNCE, Handshake, Identity, Parcel, ParcelKind, Version},
    topology::{Endpoint, EndpointError},
};
