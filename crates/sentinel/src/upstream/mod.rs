//! The nodes behind the proxy: how they are, and the ways to them that are not for writes.
//!
//! [`Nodes`] watches them, [`Reads`] passes requests on over kept-alive HTTP connections, a
//! [`ClientLink`] is the way of one client's WebSocket: the read lane for its questions, and the [`Hub`] for
//! its subscriptions. None of them decides anything about writes.

mod body;
mod breaker;
mod choice;
mod client_link;
mod dial;
mod doors;
mod error;
mod first_answer;
mod health;
mod http;
mod hub;
mod nodes;
mod query;
mod questions;
mod reads;
mod results;
mod target;
#[cfg(test)]
mod tests;
mod version;
mod watch;

pub(crate) use self::body::{Pieces, charged};
pub use self::client_link::{ClientLink, RelayEvent, RelayLink, RelayMessage};
pub(crate) use self::doors::{BodyError, CallBody, DoorBody, DoorNodes, next_piece};
pub use self::error::UpstreamError;
pub(crate) use self::health::{ABSENT, SILENT};
pub use self::hub::{Hub, HubCounters, HubWorker};
pub(crate) use self::nodes::NodeDoor;
pub use self::nodes::{BlockLimits, NodeEvent, NodeIndex, NodeState, Nodes};
pub(crate) use self::reads::{Admitted, changes, price, price_of_page};
pub use self::reads::{ReadAnswer, ReadBody, ReadRequest, Reads};
pub use self::results::BlockResults;
pub use self::version::Version;
pub use self::watch::NodesWorker;
