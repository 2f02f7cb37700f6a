//! What stands behind the front: the write lane, the read lane and the nodes' WebSockets; and one connection's side of the
//! write lane: its outbox, its tags, and its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;

use crate::budget::Reservation;
use crate::lane::{Delivery, Lane, Outbox, Write};
use crate::refusal::Refusal;
use crate::shared_context::SharedContext;
use crate::upstream::{
    AnswerBody, ClientLink, Hub, Pieces, ReadAnswer, ReadRequest, Reads, RelayLink,
};

/// The lanes, as the front sees them. Clones share them.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Pieces<Error: Into<Refusal>>;
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
pub struct Lanes(Arc<Behind>);

/// Shared, as each connection and each stream has a clone.
struct Behind {
    lane: Lane,
    reads: Reads,
    hub: Hub,
    context: SharedContext,
}

impl Lanes {
    /// The lanes of one proxy.
    pub fn new(context: &SharedContext, (lane, reads): (Lane, Reads), hub: Hub) -> Self {
        let (turns, accounts) = (lane.clone(), context.ledger.clone());
        let judged = context.shadow.clone();
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
        Self(Arc::new(Behind {
            lane,
            reads,
            hub,
            context: context.clone(),
        }))
    }

    /// What decides which reads are admitted.
    pub(super) fn reads(&self) -> &Reads {
        &self.0.reads
    }

    /// The node that serves reads: the one that takes the writes, so that clients read what they
    /// wrote.
    pub(super) fn node(&self) -> usize {
        self.0.lane.node().unwrap_or(0)
    }
}

impl Backend for Lanes {
    type Body = AnswerBody;
    type Relay = ClientLink;

    fn submit(&self, write: Write) -> Result<(), Refusal> {
        self.0.reads.note_write(write.client);
        self.0.lane.submit(write)
    }

    fn has_room(&self, client: ClientKey) -> bool {
        self.0.lane.has_room(client)
    }

    async fn room(&self, client: ClientKey) {
        self.0.lane.room(client).await;
    }

    fn judge(&self, client: ClientKey, call: Bytes) {
        self.0.reads.note_write(client);
        let room = WRITE_OVERHEAD + call.len();
        match self.0.context.ledger.of(client).reserve(room) {
            Some(room) => self.0.lane.judge(client, call, room),
            None => self.0.context.shadow.note(client, &Refusal::buffers_full()),
        }
    }

    fn disconnect(&self, client: ClientKey, connection: u64) {
        self.0.lane.disconnect(client, connection);
    }

    fn check_method(&self, client: ClientKey, method: &str) -> Result<(), Refusal> {
        let of_key = self
            .0
            .context
            .config
            .load()
            .known
            .check_method(client, method);
        let checked = of_key.and_then(|()| self.0.reads.check_method(method));
        self.0.context.shadow.judge(client, checked).map(drop)
    }

    fn has_v1_routes(&self) -> bool {
        self.0.reads.has_v1_routes(self.node())
    }

    fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.0.reads.admit(client, calls)
    }

    async fn forward(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> Result<ReadAnswer<AnswerBody>, Refusal> {
        match &request.method {
            // It was checked when it came.
            Some(_) if request.has_writes => {}
            Some(method) => self.check_method(client, method)?,
            None => {}
        }
        self.0.reads.forward(client, self.node(), request).await
    }

    fn relay(&self, client: ClientKey) -> ClientLink {
        let ways = (&self.0.reads, &self.0.hub);
        let whose = (client, self.node());
        let subscriptions = self.0.context.config.fixed().subscriptions;
        ClientLink::new(ways, &self.0.context.ledger, whose, subscriptions)
    }
}

/// Submits the writes of one connection and takes their answers. Dropped with writes under way, it
/// takes them out of the queue: a client that has gone away wants nothing sent. A stream's writes there are dropped at their
/// turn.
#[derive(Debug)]
pub(crate) struct Queue<B: Backend> {
    backend: B,
    /// The connection, unique in this process.
    number: u64,
    /// Made with the first write: most idle connections never make one.
    outbox: Option<Arc<Outbox>>,
    /// Whose writes are under way. One connection of a trusted proxy serves many clients, but one
    /// after the other.
    client: Option<ClientKey>,
    under_way: usize,
    /// Whether others have the same number.
    is_stream: bool,
}

/// What one write costs the ledger beside its transaction: its place in the queue, its id, and the
/// answer that will wait for its client.
pub(crate) const WRITE_OVERHEAD: usize = 512;

impl<B: Backend> Queue<B> {
    /// No writes yet.
    pub(crate) const fn new(backend: B, number: u64) -> Self {
        Self {
            backend,
            number,
            outbox: None,
            client: None,
            under_way: 0,
            is_stream: false,
        }
    }

    /// The same for one stream of a connection: its writes stay in order with those of the others.
    pub(crate) fn of_stream(backend: B, number: u64) -> Self {
        let mut queue = Self::new(backend, number);
        queue.is_stream = true;
        queue
    }

    /// Puts a write into the client's queue. Its answer carries `tag`.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) fn submit(
        &mut self,
        client: ClientKey,
        tag: u64,
        (method, tx): (BroadcastMethod, Bytes),
        reservation: Reservation,
    ) -> Result<(), Refusal> {
        let outbox = self.outbox.get_or_insert_with(Outbox::new);
        self.backend.submit(Write {
            client,
            connection: self.number,
            tag,
            method,
            tx,
            reservation,
            outbox: Arc::clone(outbox),
        })?;
        self.client = Some(client);
        self.under_way += 1;
        Ok(())
    }

    /// Every answer that is there, once one is.
    pub(crate) fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        let Some(outbox) = &self.outbox else {
            return Poll::Pending;
        };
        let answers = outbox.poll_take(context);
        if let Poll::Ready(answers) = &answers {
            self.under_way = self.under_way.saturating_sub(answers.len());
        }
        answers
    }

    /// Writes that have no answer yet.
    pub(crate) const fn under_way(&self) -> usize {
        self.under_way
    }
}

impl<B: Backend> Drop for Queue<B> {
    fn drop(&mut self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
        }
        let has_left = self.under_way > 0 && !self.is_stream;
        if let Some(client) = self.client.filter(|_| has_left) {
            self.backend.disconnect(client, self.number);
        }
    }
}
