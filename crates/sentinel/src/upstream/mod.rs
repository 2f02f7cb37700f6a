//! The nodes behind the proxy: how they are, and the ways to them that are not for writes.
//!
//! [`Nodes`] watches them, [`Reads`] passes requests on over kept-alive HTTP connections, a
//! [`Relay`] is the way of one client's WebSocket. None of them decides anything about writes.

mod dial;
mod error;
mod health;
mod limits;
mod methods;
mod nodes;
mod pool;
mod query;
mod reads;
mod relay;
mod results;
mod target;
#[cfg(test)]
mod tests;
mod watch;

pub use self::error::UpstreamError;
pub use self::nodes::{EVENTS, NodeEvent, NodeIndex, NodeState, Nodes, NodesWorker, Surroundings};
pub use self::reads::{ReadAnswer, ReadBody, ReadRequest, Reads};
pub use self::relay::{MAX_RELAYS, Relay, RelayCounters, RelayEvent, Relays};
pub use self::results::BlockResults;
