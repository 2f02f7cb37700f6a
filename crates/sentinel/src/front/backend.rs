//! What stands behind the front: the write lane, the read lane and the nodes' WebSockets.

use std::sync::Arc;

use bytes::Bytes;
use fairq::ClientKey;

use crate::budget::Ledger;
use crate::config::Live;
use crate::front::queue::WRITE_OVERHEAD;
use crate::lane::{Lane, Write};
use crate::refusal::Refusal;
use crate::shadow::Shadow;
use crate::shared_context::SharedContext;
use crate::upstream::{
    ClientLink, Hub, Pieces, ReadAnswer, ReadBody, ReadRequest, Reads, RelayLink,
};

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

    /// In shadow: a write, or what costs the node as much, goes to the node at once, and what its lane would do is
    /// counted.
    fn judge(&self, client: ClientKey, call: Bytes);

    /// A connection is gone: what it has in the queue is not sent.
    fn disconnect(&self, client: ClientKey, connection: u64);

    /// Whether this client may call a method.
    fn check_method(&self, client: ClientKey, method: &str) -> Result<(), Refusal>;

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

    /// A WebSocket for one client, not yet connected.
    fn relay(&self, client: ClientKey) -> Self::Relay;
}

/// The write lane, the read lane and the clients' subscriptions.
#[derive(Clone)]
pub struct Lanes {
    lane: Lane,
    reads: Reads,
    hub: Hub,
    ledger: Ledger,
    config: Live,
    shadow: Shadow,
}

impl Lanes {
    /// The lanes of one proxy.
    pub fn new(context: &SharedContext, (lane, reads): (Lane, Reads), hub: Hub) -> Self {
        let (config, ledger, shadow) = (&context.config, &context.ledger, &context.shadow);
        let (turns, accounts, judged) = (lane.clone(), ledger.clone(), shadow.clone());
        let reads = reads.in_turn(Arc::new(move |client, call| {
            let (lane, shadow) = (turns.clone(), judged.clone());
            let room = accounts.of(client).reserve(WRITE_OVERHEAD);
            let room = room.ok_or_else(Refusal::buffers_full);
            Box::pin(async move {
                if shadow.is_on() {
                    lane.judge(client, call, room?);
                    return Ok(());
                }
                lane.turn(client, call, room?).await
            })
        }));
        Self {
            lane,
            reads,
            hub,
            ledger: ledger.clone(),
            config: config.clone(),
            shadow: shadow.clone(),
        }
    }

    /// What decides which reads are admitted.
    pub(super) const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The node that serves reads: the one that takes the writes, so that clients read what they
    /// wrote.
    pub(super) fn node(&self) -> usize {
        self.lane.node().unwrap_or(0)
    }
}

impl Backend for Lanes {
    type Body = ReadBody;
    type Relay = ClientLink;

    fn submit(&self, write: Write) -> Result<(), Refusal> {
        self.reads.note_write(write.client);
        self.lane.submit(write)
    }

    fn has_room(&self, client: ClientKey) -> bool {
        self.lane.has_room(client)
    }

    async fn room(&self, client: ClientKey) {
        self.lane.room(client).await;
    }

    fn judge(&self, client: ClientKey, call: Bytes) {
        self.reads.note_write(client);
        let room = WRITE_OVERHEAD + call.len();
        match self.ledger.of(client).reserve(room) {
            Some(room) => self.lane.judge(client, call, room),
            None => self.shadow.note(client, &Refusal::buffers_full()),
        }
    }

    fn disconnect(&self, client: ClientKey, connection: u64) {
        self.lane.disconnect(client, connection);
    }

    fn check_method(&self, client: ClientKey, method: &str) -> Result<(), Refusal> {
        let of_key = self.config.load().known.check_method(client, method);
        let checked = of_key.and_then(|()| self.reads.check_method(method));
        self.shadow.judge(client, checked, || Ok(()))
    }

    fn has_v1_routes(&self) -> bool {
        self.reads.has_v1_routes(self.node())
    }

    fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.reads.admit(client, calls)
    }

    async fn forward(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> Result<ReadAnswer<ReadBody>, Refusal> {
        match &request.method {
            // It was checked when it came.
            Some(_) if request.has_writes => {}
            Some(method) => self.check_method(client, method)?,
            None => {}
        }
        self.reads.forward(client, self.node(), request).await
    }

    fn relay(&self, client: ClientKey) -> ClientLink {
        let ways = (&self.reads, &self.hub);
        let whose = (client, self.node());
        let subscriptions = self.config.fixed().subscriptions;
        ClientLink::new(ways, &self.ledger, whose, subscriptions)
    }
}
