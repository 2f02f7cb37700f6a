//! The other listeners of a Cosmos SDK's node, gRPC and REST: a broadcast takes the one write lane as its client's, a
//! simulation is an expensive read, everything else passes under the limits of reads, streams included.
//!
//! HTTP/1.1 and HTTP/2 are hyper's. One task serves a connection and all streams on it.

mod answers;
mod web;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::StreamExt as _;
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use rpc::BroadcastMethod;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use wire::doors::{DoorRoute, GrpcWeb, grpc_broadcast, plain_path, rest_broadcast, route};

use self::answers::{Failure, broadcast, ended, grpc_answer, json_answer};
use self::web::{WebBody, is_preflight, preflight};
use super::Shared;
use super::backend::{Backend as _, Lanes};
use super::listener::{self, Prepared};
use super::socket::Stream;
use super::streams::{Answer, Streams, drive};
use crate::budget::{Held, Reservation, work_of};
use crate::identity::{FORWARDED_FOR, Identity, Peer, denied};
use crate::metrics::{MethodClass, OutcomeLabel, Transport};
use crate::refusal::{Reason, Refusal};
use crate::respond::GrpcStatus;
use crate::upstream::{
    AnswerBody, CallBody, Deadline, DoorNodes, NodeDoor, STREAM_WINDOW_BYTES, price_of_page,
};

/// Serves a listener in front of those of the nodes as [`listener::accept`] does.
pub(super) async fn serve(
    front: Arc<Shared<Lanes>>,
    listener: TcpListener,
    nodes: DoorNodes,
) -> usize {
    let nodes = Arc::new(nodes);
    let admit = |connections: &mut JoinSet<()>, stream, address| {
        connections.spawn(connection(
            Arc::clone(&front),
            stream,
            address,
            Arc::clone(&nodes),
        ));
    };
    listener::accept(&front, listener, admit).await
}

/// Serves one connection to its end.
async fn connection(
    front: Arc<Shared<Lanes>>,
    stream: TcpStream,
    address: SocketAddr,
    nodes: Arc<DoorNodes>,
) {
    let address = address.ip().to_canonical();
    match listener::prepared(&front, stream, address).await {
        Some(Prepared::Encrypted(encrypted)) => {
            let (stream, peer, slot) = *encrypted;
            serve_peer(front, stream, (peer, slot), nodes).await;
        }
        Some(Prepared::Plain(stream, address)) => match listener::slot(&front, address) {
            (peer, Ok(slot)) => serve_peer(front, stream, (peer, slot), nodes).await,
            (peer, Err(refusal)) => front.refused(peer.identity.client, &refusal),
        },
        None => {}
    }
}

/// Serves one that was let in.
async fn serve_peer<IO: Stream>(
    front: Arc<Shared<Lanes>>,
    stream: IO,
    (peer, _slot): (Peer, Held),
    nodes: Arc<DoorNodes>,
) {
    let end = front.stop.child_token();
    let caller = Arc::new(Caller {
        nodes,
        end: end.clone(),
        peer,
        number: front.next_connection(),
        streams: Streams::new(&front),
        front: Arc::clone(&front),
    });
    let answer = |request| {
        let caller = Arc::clone(&caller);
        async move { Ok(caller.answer(request).await) }
    };
    let bounds = (&*caller.streams, end);
    let client = peer.identity.client;
    if let Err(refusal) = drive(&front, (stream, client), bounds, answer).await {
        front.refused(client, &refusal);
    }
    front
        .backend
        .disconnect(peer.identity.client, caller.number);
}

/// One connection, as its requests see it.
struct Caller {
    front: Arc<Shared<Lanes>>,
    nodes: Arc<DoorNodes>,
    peer: Peer,
    /// Unique in this process: writes of one connection stay in order.
    number: u64,
    streams: Arc<Streams>,
    /// Cancelled when the connection is to end once its requests have.
    end: CancellationToken,
}

/// An answer, or why there is none.
type Answered = Result<Response<AnswerBody>, Failure>;

impl Caller {
    /// Whether gRPC is spoken here, and not REST.
    fn is_grpc(&self) -> bool {
        self.nodes.door() == NodeDoor::Grpc
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Answer<WebBody>> {
        if self.front.leave.is_cancelled() {
            self.end.cancel();
        }
        let origin = request.headers().get(header::ORIGIN).cloned();
        let seen = self.front.see(|name| request.headers().get(name));
        let (identity, key) = self.identify(&mut request);
        let mut under_way = self.streams.begin(identity.client);
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
        let is_grpc = self.is_grpc() || content_type.starts_with(b"application/grpc");
        let web = GrpcWeb::of(content_type);
        let is_post = request.method() == Method::POST;
        let route = route(is_post, request.uri().path(), content_type);
        let class = match route {
            DoorRoute::GrpcWrite | DoorRoute::RestWrite => MethodClass::BroadcastSync,
            _ => MethodClass::Other,
        };
        let transport = if self.is_grpc() {
            Transport::Grpc
        } else {
            Transport::Rest
        };
        let call = crate::access::Ended {
            client: identity.client,
            call: Some((transport, class)),
            seen: seen.as_ref(),
        };
        let open = self.front.open(call);
        let is_own = route == DoorRoute::GrpcWrite && !self.front.shadow.is_on();
        let served = match key {
            Ok(()) => self.in_time(identity, request, (route, web)).await,
            Err(refusal) => Err(refusal.into()),
        };
        let (outcome, answer) = match served {
            Ok(answer) => (OutcomeLabel::Forwarded, answer),
            Err(failure) => {
                // Nothing bounds how many of these come.
                if let Some(until) = self.front.budget.work(identity.client, work_of(0)) {
                    sleep_until(until).await;
                }
                let (outcome, status) = self.failed(call, failure);
                (outcome, ended(&status, is_grpc))
            }
        };
        open.close();
        self.front.ended(call, outcome);
        under_way.answered();
        // The node answers pages of REST itself.
        let mut answer = match web {
            Some(web) if self.is_grpc() || is_own => web::wrap(web, answer),
            _ => answer.map(WebBody::plain),
        };
        if web.is_some() {
            let cors = &self.front.config.load().cors;
            web::allow(cors, origin.as_ref(), answer.headers_mut());
        }
        answer.map(|body| Answer::new(body, under_way))
    }

    /// Writes down a call that failed: how it ended, and what it is answered.
    fn failed(
        &self,
        call: crate::access::Ended<'_>,
        failure: Failure,
    ) -> (OutcomeLabel, GrpcStatus) {
        match failure {
            Failure::Ended(outcome, status) => {
                // It has no reason of ours, with which it would be written down.
                if outcome != OutcomeLabel::Forwarded {
                    self.front.write_down(call, outcome, None);
                }
                (outcome, status)
            }
            Failure::Refused(refusal) => {
                self.front.refused_call(call, &refusal);
                (OutcomeLabel::of_write(refusal.reason), (&refusal).into())
            }
        }
    }

    /// Whose request it is, and the refusal of a key that is none.
    fn identify(&self, request: &mut Request<Incoming>) -> (Identity, Result<(), Refusal>) {
        let lines = || {
            let lines = request.headers().get_all(FORWARDED_FOR).iter();
            lines.map(HeaderValue::as_bytes).collect()
        };
        let identity = self.front.identity(&self.peer, lines);
        let key = self.take_key(request);
        let key = self.front.shadow.judge(identity.client, key);
        let client = match &key {
            Ok(Some(Some(client))) => *client,
            _ => identity.client,
        };
        (Identity { client, ..identity }, key.map(drop))
    }

    /// The client whose key a request has, if it has one. The node does not see the key.
    fn take_key(&self, request: &mut Request<Incoming>) -> Result<Option<ClientKey>, Refusal> {
        let known = &self.front.config.load().known;
        if known.is_empty() {
            return Ok(None);
        }
        let target = request.uri().path_and_query();
        let target = target.map_or("", |target| target.as_str()).to_owned();
        let header = request.headers_mut().remove(known.header());
        if let Some(without) = known.without_secret(target.as_bytes()) {
            let mut parts = request.uri().clone().into_parts();
            // What is left of a target is one.
            parts.path_and_query = without.as_slice().try_into().ok();
            *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        }
        let header = header.as_ref().map(HeaderValue::as_bytes);
        known.client(header, target.as_bytes())
    }

    /// Serves a request until its client's deadline, if it has one. A failure after the deadline is reported as its end.
    async fn in_time(
        &self,
        identity: Identity,
        mut request: Request<Incoming>,
        how: (DoorRoute, Option<GrpcWeb>),
    ) -> Answered {
        let Some(deadline) = Deadline::of(request.headers()) else {
            return self.serve(identity, request, how).await;
        };
        request.extensions_mut().insert(deadline);
        let served = timeout_at(deadline.at(), self.serve(identity, request, how)).await;
        match served {
            Ok(served) if served.is_ok() || !deadline.is_over() => served,
            _ => Err(Failure::Ended(
                OutcomeLabel::Expired,
                GrpcStatus::deadline_exceeded(),
            )),
        }
    }

    async fn serve(
        &self,
        identity: Identity,
        request: Request<Incoming>,
        (route, web): (DoorRoute, Option<GrpcWeb>),
    ) -> Answered {
        let (front, client) = (&self.front, identity.client);
        let allowed = identity.allowed.then_some(()).ok_or_else(denied);
        front.shadow.judge(client, allowed)?;
        // A stream of a trusted proxy's connection is a connection of its client's.
        let counted = self.peer.is_proxy.then(|| front.budget.request(client));
        let counted = counted.map(|slot| front.shadow.judge(client, slot));
        let _slot = counted.transpose()?;
        if self.is_grpc() && is_preflight(&request) {
            return Ok(preflight(&self.front.config.load().cors, &request));
        }
        let calls = reads(route);
        if calls > 0 {
            let path = plain_path(request.uri().path());
            self.front.backend.check_method(identity.client, &path)?;
        }
        match route {
            _ if calls == 0 && front.shadow.is_on() => {
                self.judged(identity, request, (route, web)).await
            }
            DoorRoute::GrpcWrite | DoorRoute::RestWrite => {
                let (body, held) = self.body(identity, request.into_body()).await?;
                let write = broadcast_in(route, web, body)?;
                let response = broadcast(front, (client, self.number), write, held).await?;
                Ok(match route {
                    DoorRoute::GrpcWrite => grpc_answer(&response),
                    _ => json_answer(200, response.json()),
                })
            }
            DoorRoute::Unserved(instead) => {
                Err(Failure::rejected(GrpcStatus::UNIMPLEMENTED, instead))
            }
            _ => self.read(identity, request, (calls, web)).await,
        }
    }

    /// Reads a body whole, within the bounds of a request and as far as the client's account has room.
    async fn body(
        &self,
        identity: Identity,
        body: Incoming,
    ) -> Result<(Bytes, Reservation), Refusal> {
        let config = self.front.config.current();
        let most = config.limits.body_bytes;
        let mut held = self.front.ledger.of(identity.client).nothing();
        let (mut pieces, mut bytes) = (BodyDataStream::new(body), Vec::new());
        let reading = async {
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(broken)?;
                if bytes.len() + piece.len() > most {
                    let text = format!("a body of more than {most} bytes");
                    return Err(Refusal::new(Reason::Body, text));
                }
                if !held.grow(piece.len()) {
                    return Err(Refusal::buffers_full());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(())
        };
        let late = |_| Refusal::new(Reason::Parse, "the body did not come in time");
        timeout(config.fixed.body_timeout, reading)
            .await
            .map_err(late)??;
        Ok((bytes.into(), held))
    }

    /// In shadow: passes a broadcast on, and has the lane judge it if the node will take it for one.
    async fn judged(
        &self,
        identity: Identity,
        request: Request<Incoming>,
        (route, web): (DoorRoute, Option<GrpcWeb>),
    ) -> Answered {
        let (mut head, body) = request.into_parts();
        let (body, held) = self.body(identity, body).await?;
        let plain = web::decode(web, body.clone()).ok_or_else(no_base64)?;
        let broadcast = match route {
            DoorRoute::Unserved(instead) => {
                let refusal = Refusal::new(Reason::Parse, instead);
                self.front.shadow.note(identity.client, &refusal);
                None
            }
            _ => broadcast_in(route, web, body.clone()).ok(),
        };
        let backend = &self.front.backend;
        if let Some((method, tx)) = broadcast {
            backend.check_method(identity.client, method.name())?;
            backend.judge(identity.client, tx);
        }
        let window = self.window(held)?;
        let body = if self.is_grpc() {
            if web.is_some() {
                web::translate(&mut head.headers);
            }
            plain
        } else {
            body
        };
        let (call, whose) = (
            (&head, CallBody::whole(body)),
            (identity.client, backend.node()),
        );
        let reads = backend.reads();
        Ok(reads
            .write_at_door(&self.nodes, whose, call, window)
            .await?)
    }

    /// Passes a read on: a request to REST, a call of gRPC-Web with one message, to which many may be answered, or a
    /// stream of gRPC of any kind.
    async fn read(
        &self,
        identity: Identity,
        request: Request<Incoming>,
        (base, web): (u32, Option<GrpcWeb>),
    ) -> Answered {
        let (mut head, body) = request.into_parts();
        let (body, window) = if self.is_grpc() && web.is_none() {
            let window = self.window(self.front.ledger.of(identity.client).nothing())?;
            (CallBody::begun(body).await.map_err(broken)?, window)
        } else {
            let (body, held) = self.body(identity, body).await?;
            (CallBody::whole(body), self.window(held)?)
        };
        let plain = web.map(|web| {
            let plain = web::decode(Some(web), body.ahead().clone());
            plain.map(CallBody::whole).ok_or_else(no_base64)
        });
        let plain = plain.transpose()?;
        let message = plain.as_ref().unwrap_or(&body).first_message();
        let calls = base.max(price_of_page(head.uri.query(), message));
        let body = match plain {
            Some(plain) if self.is_grpc() => {
                web::translate(&mut head.headers);
                plain
            }
            _ => body,
        };
        let backend = &self.front.backend;
        let (reads, whose) = (backend.reads(), (identity.client, backend.node()));
        let call = (head, body);
        Ok(reads
            .at_door(&self.nodes, whose, call, (calls, window))
            .await?)
    }

    /// Beside what is held, what may wait of an answer, and of a stream in both directions.
    fn window(&self, mut held: Reservation) -> Result<Reservation, Refusal> {
        let bytes = if self.is_grpc() {
            STREAM_WINDOW_BYTES
        } else {
            self.front.config.load().fixed.window_bytes
        };
        let has_room = held.grow(bytes);
        has_room.then_some(held).ok_or_else(Refusal::buffers_full)
    }
}

/// What a request takes of its client's rate of reads; nothing if it is none. A simulation executes the transaction as a
/// block does, some milliseconds, where a read takes a tenth of that. A search is as much as the node's own of a whole
/// page (`tx_search`), which it asks for.
const fn reads(route: DoorRoute) -> u32 {
    match route {
        DoorRoute::GrpcWrite | DoorRoute::RestWrite | DoorRoute::Unserved(_) => 0,
        DoorRoute::Simulation => 10,
        DoorRoute::Search => 40,
        DoorRoute::Read => 1,
    }
}

/// The broadcast in the body of a request on such a route.
fn broadcast_in(
    route: DoorRoute,
    web: Option<GrpcWeb>,
    body: Bytes,
) -> Result<(BroadcastMethod, Bytes), Failure> {
    if route == DoorRoute::RestWrite {
        let (method, tx) = rest_broadcast(&body)?;
        return Ok((method, tx.into()));
    }
    let body = web::decode(web, body).ok_or_else(no_base64)?;
    let (method, tx) = grpc_broadcast(&body)?;
    Ok((method, body.slice_ref(tx)))
}

fn broken(_: hyper::Error) -> Refusal {
    Refusal::new(Reason::Parse, "the request broke off")
}

fn no_base64() -> Failure {
    let text = "the body is not base64, as application/grpc-web-text has it";
    Failure::rejected(GrpcStatus::INVALID_ARGUMENT, text)
}
