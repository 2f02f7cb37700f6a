//! What a node says of itself before it is loaded.

use std::pin::Pin;

use measure::NodeLimits;
use rpc::Endpoint;

/// An answer to come.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is known of a node that can be loaded.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// `None` where the interface does not say.
    pub chain_id: Option<String>,
    /// The node's version, in its own words.
    pub version: String,
    /// The path, with its query, that requests are posted to; the endpoint's when `None`.
    pub path: Option<String>,
    /// Where the node tells what is committed, when that is not where it is asked.
    pub events: Option<Endpoint>,
    /// What it takes at most, as far as it says so.
    pub limits: NodeLimits,
    /// The name of its network, where a follower has to know it.
    pub network: Option<String>,
}
