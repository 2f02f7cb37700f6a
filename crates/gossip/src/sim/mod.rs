//! Many nodes on a simulated clock: the state machine of [`crate::Node`] on an event heap, with simulated
//! links and processors. The same settings and seed give the same outcome, on any machine.
//!
//! Bytes are really encoded, sent, read and hashed; only time is computed. A processor works off what
//! its node has to do, one thing after the other, at the prices of [`Prices`]; what a node writes leaves
//! when the work before it is done. A connection takes bytes as long as fewer than
//! [`LinkModel::buffer`] are unread, as a socket does, so queues fill as they do in the real node.
//! Packets, acknowledgements and TCP's slow start are not simulated.

mod link;
mod outcome;
mod processors;
mod world;

use pacing::Nanos;

pub use self::{
    link::Line,
    outcome::{Outcome, Second},
    processors::{Prices, Processors},
};
use crate::{app::Mix, node::Settings};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimSettings {
    /// Every node's settings; its number and its port are filled in.
    pub node: Settings,
    /// For each node, those that it dials at the beginning ([`crate::topology`]).
    pub dials: Vec<Vec<usize>>,
    /// Every connection.
    pub link: LinkModel,
    /// What work costs.
    pub prices: Prices,
    /// Where it is done.
    pub processors: Processors,
    /// Connections that break: when, and which in the order of the dials.
    pub breaks: Vec<(Nanos, usize)>,
    /// How long the generator's messages may take after the last is due.
    pub drain: Nanos,
    /// Every random choice.
    pub seed: u64,
}

base::settings! {
    /// A connection, the same in both directions.
    #[derive(Debug, Clone, Copy)]
    pub struct LinkModel {
        /// From the last byte's departure to its arrival.
        pub delay: Nanos = Nanos::from_micros(20),
        /// Bits per second; none for no limit.
        pub bits_per_s: Option<u64> = None,
        /// How many bytes may be written and unread: both sockets' buffers.
        pub buffer: usize = 256 << 10,
    }
}

/// Runs a load of `duration` through the simulated network.
///
/// `schedule` has the instant at which each transaction of `mix` is due at node 0, as in a real run.
pub fn run(
    settings: &SimSettings,
    mix: Mix,
    schedule: &pacing::Schedule,
    duration: Nanos,
) -> Outcome {
    let mut world = world::World::new(settings, mix, schedule, duration);
    world.run(duration.saturating_add(settings.drain));
    world.finish()
}
