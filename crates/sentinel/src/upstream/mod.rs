//! The nodes behind the proxy: how they are, and the ways to them that are not for writes.
//!
//! [`Nodes`] watches them, [`Reads`] passes requests on over kept-alive HTTP connections, a
//! [`ClientLink`] is the way of one client's WebSocket: the read lane for its questions, and the [`Hub`] for
//! its subscriptions. None of them decides anything about writes.

mod answer;
mod body;
mod choice;
mod client_link;
mod dial;
mod doors;
mod health;
mod http;
mod hub;
mod node_state;
mod nodes;
mod query;
mod questions;
mod reads;
mod results;
#[cfg(test)]
mod tests;
mod watch;

pub use self::answer::{AnswerBody, BodyError};
pub(crate) use self::body::{Pieces, charged};
pub use self::client_link::{ClientLink, RelayEvent, RelayLink, RelayMessage};
pub use self::dial::UpstreamError;
pub(crate) use self::doors::{CallBody, Deadline, DoorNodes, STREAM_WINDOW_BYTES};
pub(crate) use self::health::{ABSENT, SILENT};
pub use self::hub::{Hub, HubCounters, HubWorker};
pub(crate) use self::node_state::NodeDoor;
pub use self::node_state::{BlockLimits, NodeEvent, NodeIndex, NodeState, Version};
pub use self::nodes::Nodes;
pub(crate) use self::query::result;
pub use self::reads::{ReadAnswer, ReadRequest, Reads};
pub(crate) use self::reads::{changes, price, price_of_page};
pub use self::results::BlockResults;
pub use self::watch::NodesWorker;
