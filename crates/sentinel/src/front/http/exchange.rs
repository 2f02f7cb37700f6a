//! One connection as the handlers of its requests see it: its client's socket, its place in the
//! lanes, and the account of how its requests end.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;
use tokio::time::Instant;
use wire::http::{Head, HeadView};

use super::answers::with_date;
use super::plan::plan;
use super::request::{NoRequest, RequestReader};
use super::work::{BatchWrite, CallInfo, Next, Plan};
use crate::access;
use crate::access::Seen;
use crate::budget::{Held, Ledger, Reservation, work_of};
use crate::front::backend::{Backend, Queue};
use crate::front::socket::{Ended, Socket, Stream};
use crate::front::{OpenCall, Shared};
use crate::identity::{FORWARDED_FOR, Identity, Peer};
use crate::keys::KnownKeys;
use crate::lane::WriteAnswer;
use crate::metrics::OutcomeLabel;
use crate::refusal::Refusal;
use crate::respond::{Asked, HttpAnswer};
use crate::upstream::{ReadAnswer, ReadRequest};

/// One connection while it speaks HTTP.
pub(super) struct Exchange<B: Backend, IO> {
    front: Arc<Shared<B>>,
    socket: Socket<IO>,
    queue: Queue<B>,
    peer: Peer,
    /// Whose request is served, or was last.
    client: ClientKey,
    /// The account of a trusted proxy's socket between requests, and of any other socket once it has served a request with
    /// a key.
    proxy: Option<Box<Proxy>>,
    /// The work that the request makes, unless it is admitted to a lane, whose limits bound it then.
    work: u64,
    /// The work of earlier requests whose answers are gathered in the output.
    gathered_work: u64,
    /// The `Access-Control-Allow-Origin` of the answer, if a web page asks that may read it.
    allowed_origin: Option<Box<Bytes>>,
    /// The record of the request for the access log.
    seen: Option<Box<Seen>>,
}

/// A trusted proxy's connection.
struct Proxy {
    /// Its own account, for heads that are not complete.
    ledger: Ledger,
    /// The request under way counts as a connection of its client's.
    slot: Option<Held>,
}

/// The client whose key a request has, if it has one.
fn key_of(known: &KnownKeys, view: &HeadView<'_>) -> Result<Option<ClientKey>, Refusal> {
    let mut fields = view.fields();
    let header = fields.find(|field| known.is_header(field.name));
    known.client(header.map(|field| field.value), view.target)
}

/// What a client begins a connection of HTTP/2 with that nothing else begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// Bytes around a chunk: its length, and two line ends.
const CHUNK_FRAME: usize = 32;

/// Work whose answers are written together: some 30 µs of it, and 5 KiB of answers.
const MOST_GATHERED: u64 = 32;

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    pub(super) fn new(front: Arc<Shared<B>>, io: IO, (peer, queue): (Peer, Queue<B>)) -> Self {
        let ledger = front.ledger.of(peer.identity.client);
        let proxy = peer.is_proxy.then(|| Proxy {
            ledger: ledger.clone(),
            slot: None,
        });
        Self {
            socket: Socket::new(io, &ledger, front.budget.turn(peer.identity.client)),
            queue,
            client: peer.identity.client,
            proxy: proxy.map(Box::new),
            work: 0,
            gathered_work: 0,
            allowed_origin: None,
            seen: None,
            peer,
            front,
        }
    }

    /// The connection for other purposes than HTTP.
    pub(super) fn into_parts(self) -> (Arc<Shared<B>>, Socket<IO>, Queue<B>, ClientKey) {
        (self.front, self.socket, self.queue, self.client)
    }

    /// The connection for HTTP/2, and what was read of it.
    pub(super) fn into_io(self) -> (Arc<Shared<B>>, (IO, Bytes), Peer) {
        (self.front, self.socket.into_io(), self.peer)
    }

    /// Whether the client speaks HTTP/2. It does so from the beginning, when nothing is still to be sent.
    pub(super) fn begins_http2(&self) -> bool {
        self.socket.unsent() == 0 && self.socket.input.filled().starts_with(PREFACE)
    }

    /// The connection's socket.
    pub(super) const fn socket(&mut self) -> &mut Socket<IO> {
        &mut self.socket
    }

    /// Reads the next request, takes it off the input and decides what is to be done with it.
    pub(super) async fn next(
        &mut self,
        requests: &mut RequestReader,
    ) -> Result<(Plan, Asked), NoRequest> {
        self.end();
        let head = requests.head(&mut self.socket).await?;
        // The same until the request is passed on: those of a configuration that comes while its body is read would let
        // its key through to the node.
        let known = Arc::clone(&self.front.config.load().known);
        let identity = self.begin(&head, &known).map_err(NoRequest::Refused)?;
        let request = requests.body(&mut self.socket, head).await?;
        let input = self.socket.input.filled();
        let planned = plan(&self.front, &request, input, (identity, &known));
        self.socket.input.consume(request.in_place);
        self.socket.apart = 0;
        self.work = work_of(request.len());
        Ok(planned)
    }

    /// Whose request this head begins. Behind a trusted proxy, and with a key, the connection is its client's until the request
    /// has ended: what waits in its buffers, its turns, and its place among the client's connections.
    fn begin(&mut self, head: &Head, known: &KnownKeys) -> Result<Identity, Refusal> {
        self.work = work_of(head.len);
        let view = head.view(&self.socket.input.filled()[..head.len]);
        let origin = view.first("origin");
        let allowed = origin.and_then(|origin| self.front.config.load().cors.allows(origin));
        self.allowed_origin = allowed.map(Box::new);
        self.seen = self.front.see(|name| view.first(name)).map(Box::new);
        let key = if known.is_empty() {
            None
        } else {
            let key = key_of(known, &view);
            (self.front.shadow)
                .judge(self.peer.identity.client, key)?
                .flatten()
        };
        let lines = || view.all(FORWARDED_FOR).collect();
        let mut identity = self.front.identity(&self.peer, lines);
        identity.client = key.unwrap_or(identity.client);
        self.client = identity.client;
        if !self.peer.is_proxy && key.is_none() {
            return Ok(identity);
        }
        let proxy = self.proxy.get_or_insert_with(|| {
            let (ledger, slot) = (self.socket.ledger().clone(), None);
            Box::new(Proxy { ledger, slot })
        });
        let slot = self.front.budget.request(self.client);
        proxy.slot = self.front.shadow.judge(self.client, slot)?;
        let ledger = self.front.ledger.of(self.client);
        let has_room = self.socket.bind(&ledger, self.client);
        has_room
            .then_some(identity)
            .ok_or_else(Refusal::buffers_full)
    }

    /// The request has ended: the connection of a trusted proxy belongs to no client again.
    fn end(&mut self) {
        self.seen = None;
        self.allowed_origin = None;
        if let Some(proxy) = &mut self.proxy {
            proxy.slot = None;
            self.socket.bind(&proxy.ledger, self.peer.identity.client);
        }
    }

    /// Whether the next request is served before this answer is written, so that the answers to requests of a pipeline
    /// that no lane bounds are written, paid for and woken for together: a write costs as much as ten of them.
    pub(super) fn gather(&mut self) -> bool {
        let gathers = self.work > 0
            && self.proxy.is_none()
            && !self.socket.input.is_empty()
            && self.gathered_work + self.work < MOST_GATHERED;
        if gathers {
            self.gathered_work += std::mem::take(&mut self.work);
        }
        gathers
    }

    /// Until when the answers are held back, because no lane bounds their requests and the client's rate of work has no
    /// room for them.
    pub(super) fn pay(&mut self) -> Option<Instant> {
        let work = std::mem::take(&mut self.work) + std::mem::take(&mut self.gathered_work);
        (work > 0).then(|| self.front.budget.work(self.client, work))?
    }

    /// Sets room aside for a whole request: what was set aside to read it travels on.
    ///
    /// # Errors
    /// The ledger is full.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<Reservation, Refusal> {
        let reserved = self.socket.take_reserved(bytes);
        reserved.ok_or_else(Refusal::buffers_full)
    }

    /// Puts a write into the client's queue. Its answer carries `tag`.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(super) fn submit(
        &mut self,
        tag: u64,
        write: (BroadcastMethod, Bytes),
        room: Reservation,
    ) -> Result<(), Refusal> {
        self.queue.submit(self.client, tag, write, room)?;
        self.work = 0;
        Ok(())
    }

    /// Waits for the answers to writes under way, whose tags are their places here.
    pub(super) async fn answers_to(&mut self, writes: &mut [BatchWrite]) -> Result<(), Ended> {
        let (client, seen) = (self.client, self.seen.as_deref());
        let waiting = writes.iter().filter(|write| write.end.is_none());
        let open = waiting.map(|write| self.front.open(write.call.ended(client, seen)));
        let open: Vec<_> = open.collect();
        while writes.iter().any(|write| write.end.is_none()) {
            let answers = poll_fn(|context| self.queue.poll_answers(context));
            for delivery in self.socket.unless_gone(answers).await? {
                let place = usize::try_from(delivery.tag).ok();
                if let Some(write) = place.and_then(|place| writes.get_mut(place)) {
                    write.end = Some(delivery.answer);
                }
            }
        }
        open.into_iter().for_each(OpenCall::close);
        Ok(())
    }

    /// The answer to the one write under way.
    pub(super) async fn answer_to(&mut self, call: &CallInfo) -> Result<WriteAnswer, Ended> {
        let ended = call.ended(self.client, self.seen.as_deref());
        let open = self.front.open(ended);
        loop {
            let answers = poll_fn(|context| self.queue.poll_answers(context));
            let mut answers = self.socket.unless_gone(answers).await?;
            if let Some(delivery) = answers.pop_back() {
                open.close();
                return Ok(delivery.answer);
            }
        }
    }

    /// Forwards a read, unless the client hangs up before its answer begins. A refusal is counted, and so is a client
    /// that hangs up.
    pub(super) async fn forward(
        &mut self,
        call: &CallInfo,
        request: ReadRequest,
    ) -> Result<Result<ReadAnswer<B::Body>, Refusal>, Ended> {
        let ended = call.ended(self.client, self.seen.as_deref());
        let open = self.front.open(ended);
        let forwarding = self.front.backend.forward(self.client, request);
        let forwarded = self.socket.unless_gone(forwarding).await?;
        open.close();
        match &forwarded {
            Ok(answer) => {
                // A kept answer is none: no lane bounded the request.
                if answer.is_counted {
                    self.work = 0;
                }
                if let Some(took) = answer.took {
                    self.front.metrics.upstream_request(call.class, took);
                }
            }
            Err(refusal) => self.count(call, OutcomeLabel::of_read(refusal.reason)),
        }
        Ok(forwarded)
    }

    /// What comes of a call's answer, unless the client hangs up before, which is counted.
    pub(super) async fn unless_gone<T>(
        &mut self,
        call: &CallInfo,
        collecting: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let open = self
            .front
            .open(call.ended(self.client, self.seen.as_deref()));
        let collected = self.socket.unless_gone(collecting).await?;
        open.close();
        Ok(collected)
    }

    /// Writes an answer behind those that are still to be sent.
    pub(super) fn answer(&mut self, asked: Asked, write: impl FnOnce(HttpAnswer<'_>)) -> Next {
        let out = self.socket.output.tail();
        let origin = self.allowed_origin.as_deref().map(Bytes::as_ref);
        with_date(|date| {
            write(HttpAnswer::new(out, asked, date).allowing(origin));
        });
        Next::after(asked.keep_alive)
    }

    /// Sends what is to be sent.
    pub(super) async fn flush(&mut self) -> Result<(), Ended> {
        let patience = self.front.config.fixed().write_timeout;
        self.socket.flush(patience).await
    }

    /// How long a client may take too little of an answer, and what a piece of one has at most.
    pub(super) fn stream_limits(&self) -> (Duration, usize) {
        let fixed = self.front.config.fixed();
        // Beside the piece stands the frame of a chunk.
        (fixed.write_timeout, fixed.window_bytes + CHUNK_FRAME)
    }

    /// Counts the end of a request.
    pub(super) fn count(&self, call: &CallInfo, outcome: OutcomeLabel) {
        self.front.ended(self.ended(Some(call)), outcome);
    }

    /// Counts and logs a refusal of something on this connection.
    pub(super) fn note(&self, call: Option<&CallInfo>, refusal: &Refusal) {
        self.front.refused_call(self.ended(call), refusal);
    }

    fn ended(&self, call: Option<&CallInfo>) -> access::Ended<'_> {
        access::Ended {
            client: self.client,
            call: call.map(|call| (call.transport, call.class)),
            seen: self.seen.as_deref(),
        }
    }

    /// The place among its client's connections that a trusted proxy's has, for a WebSocket to keep.
    pub(super) fn take_slot(&mut self) -> Option<Held> {
        self.proxy.as_mut()?.slot.take()
    }
}
