//! The traffic of a mesh: the application above the gossip protocol, as a model.
//!
//! A [`Mix`] is the traffic as data: kinds of messages with their sizes, the transactions that make
//! them, what is sent periodically, and what is answered. A [`Timeline`] has what a generator offers
//! and when it is due. An [`App`] is one node's part: it makes messages, and gives the reaction of a node to
//! one that it sees for the first time. All of it is a function of a seed.

mod message;
mod mix;
mod model;
mod timeline;

pub use message::{STAMP_BYTES, Stamp};
pub use mix::{Fan, Kind, KindId, Mix, MixError, Periodic, Request, Transaction};
pub use model::{App, Reaction};
pub use timeline::{Offer, Source, Timeline};
