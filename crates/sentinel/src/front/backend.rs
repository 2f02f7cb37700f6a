//! What stands behind the front: the write lane, the read lane and the nodes' WebSockets.

use fairq::ClientKey;

use crate::lane::Write;
use crate::refusal::Refusal;
use crate::upstream::{Pieces, ReadAnswer, ReadRequest, RelayLink};

/// The lanes, as the front sees them. Clones share them.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Pieces<Error = Refusal>;
    /// One client's own WebSocket to a node.
    type Relay: RelayLink;

    /// Puts a write into its client's queue; on refusal nothing was taken.
    fn submit(&self, write: Write) -> Result<(), Refusal>;

    /// Whether the client's queue has room for another write.
    fn has_room(&self, client: ClientKey) -> bool;

    /// Waits until it has.
    fn room(&self, client: ClientKey) -> impl Future<Output = ()> + Send;

    /// A connection is gone: what it has in the queue is not sent.
    fn disconnect(&self, client: ClientKey, connection: u64);

    /// Whether a method may be called.
    fn check_method(&self, method: &str) -> Result<(), Refusal>;

    /// Whether the node serves every route under `/v1` too, as far as is known.
    fn has_v1_routes(&self) -> bool;

    /// Takes calls from the client's rate that do not go through [`forward`](Self::forward).
    fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal>;

    /// Forwards a read.
    fn forward(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> impl Future<Output = Result<ReadAnswer<Self::Body>, Refusal>> + Send;

    /// Forwards a write whose turn has come.
    fn pass(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> impl Future<Output = Result<ReadAnswer<Self::Body>, Refusal>> + Send;

    /// A WebSocket for one client, not yet connected.
    fn relay(&self, client: ClientKey) -> Self::Relay;
}
