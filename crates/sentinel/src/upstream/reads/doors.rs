//! Reads at the other listeners of a Cosmos SDK's nodes: they go to a node as those at the RPC do, and their answers are
//! shared and kept as the RPC's are.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response};
use tokio::time::sleep_until;

use super::admission::{Admitted, no_node};
use super::asked::Asked;
use super::cache::{Asking, Found, Headers, Kept, KeptHead};
use super::{Reads, asking};
use crate::budget::{Reservation, work_of};
use crate::refusal::{Reason, Refusal};
use crate::upstream::body::charged;
use crate::upstream::choice::Wanted;
use crate::upstream::doors::{CallBody, DoorBody, DoorNodes};
use crate::upstream::node_state::{NodeDoor, NodeIndex};

impl Reads {
    /// Passes a read on, which takes `calls` of its client's rate. An answer that is kept takes nothing of it, and a unit
    /// of work. `node` takes the writes.
    ///
    /// # Errors
    /// A refusal: over the client's rate or concurrency, or no answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives the read up; the node may have carried it out.
    pub(crate) async fn at_door(
        &self,
        doors: &DoorNodes,
        (client, node): (ClientKey, NodeIndex),
        (head, body): (Parts, CallBody),
        (calls, window): (u32, Reservation),
    ) -> Result<Response<DoorBody>, Refusal> {
        let nodes = &self.admission.nodes;
        let (ledger, reader) = (nodes.ledger().of(client), self.clients().reader(client));
        let asked = Asked::at_door(doors.door(), &head, &body);
        let height = match asked {
            Some(Asked::Height(height)) => Some(height),
            _ => told_height(&head.headers),
        };
        let wanted = Wanted {
            spread: (!reader.stays).then_some(client),
            seen: reader.height,
            height,
            is_light: calls == 1,
            ..at(doors, node)
        };
        let near = nodes.reading(&wanted).unwrap_or(node);
        let chain = (near, nodes.chain(near).0);
        let mut for_all = None;
        if let Some(asked) = asked
            && let Some(key) = asking::key_at_door(doors.door(), (&head, &body), chain)
        {
            match self.cache.find(key, &ledger).await {
                Found::Answer(kept) => {
                    if !kept.is_final() {
                        self.admission.charge(client, calls)?;
                    } else if let Some(until) = self.clients().work(client, work_of(0)) {
                        sleep_until(until).await;
                    }
                    self.admission.note_read(client, near);
                    return Ok(answer_of(&kept));
                }
                Found::Ask(asking) => for_all = Some((asking, asked)),
                Found::AskAlone => {}
            }
        }
        let admitted = self.admission.place(client, calls).await?;
        let way = (client, wanted, true);
        let asking = self.ask_at_door(doors, way, (&head, body), (admitted, window));
        let (by, answer) = asking.await?;
        match for_all {
            // Another node's is kept under another key, and measured by another height.
            Some((asking, asked)) if by == near => {
                let about = (asked, (doors.door(), near), head.uri.path());
                self.keep(asking, about, answer, ledger.nothing()).await
            }
            _ => Ok(answer),
        }
    }

    /// In shadow: passes a broadcast on to the node that takes the writes, once.
    ///
    /// # Errors
    /// A refusal: no answer.
    pub(crate) async fn write_at_door(
        &self,
        doors: &DoorNodes,
        (client, node): (ClientKey, NodeIndex),
        call: (&Parts, CallBody),
        window: Reservation,
    ) -> Result<Response<DoorBody>, Refusal> {
        let way = (client, at(doors, node), false);
        let asking = self.ask_at_door(doors, way, call, (self.admission.beside(), window));
        Ok(asking.await?.1)
    }

    async fn ask_at_door(
        &self,
        doors: &DoorNodes,
        (client, wanted, is_read): (ClientKey, Wanted, bool),
        call: (&Parts, CallBody),
        held: (Admitted, Reservation),
    ) -> Result<(NodeIndex, Response<DoorBody>), Refusal> {
        let first = self.admission.nodes.reading(&wanted).ok_or_else(no_node)?;
        let (node, answer) = doors.ask((first, wanted), is_read, call, held).await?;
        self.admission.note_read(client, node);
        Ok((node, answer))
    }

    /// Gives an answer to those who wait, and keeps it if it cannot change.
    async fn keep(
        &self,
        mut asking: Asking,
        (asked, (door, node), path): (Asked, (NodeDoor, NodeIndex), &str),
        answer: Response<DoorBody>,
        charge: Reservation,
    ) -> Result<Response<DoorBody>, Refusal> {
        let (head, mut body) = answer.into_parts();
        let copy = |(name, value): (&HeaderName, &HeaderValue)| {
            let name = Cow::Owned(name.as_str().to_owned());
            (name, Bytes::copy_from_slice(value.as_bytes()))
        };
        let headers: Headers = head.headers.iter().map(copy).collect();
        let is_awaited = asking.answered();
        let is_wanted = |fresh: &Duration| is_awaited || !fresh.is_zero();
        // The node says nothing of it.
        let unless_told = match asked {
            Asked::Latest => 0,
            _ => asking::LONGEST_SECONDS,
        };
        let fresh = asking::public_for(head.status.as_u16(), &headers, unless_told);
        let broke = |_| Refusal::new(Reason::Upstream, "the node broke the connection off");
        if let Some(mut fresh) = fresh.filter(is_wanted)
            && let Some((whole, trailers, charge)) =
                body.read(charge, self.cache.most()).await.map_err(broke)?
        {
            let (_, height) = self.admission.nodes.chain(node);
            let (is_served, is_final) = match door {
                NodeDoor::Grpc => (
                    is_served(trailers.as_ref()),
                    asked.is_final_call(path, &whole, height),
                ),
                _ => (true, asked.is_final(&whole, height)),
            };
            if !is_final {
                fresh = Duration::ZERO;
            }
            let end = whole.len();
            let kept = if is_served && is_wanted(&fresh) {
                let head = KeptHead {
                    headers,
                    trailers: trailers.clone(),
                    fresh,
                };
                asking.keep(head, (whole, charge), end..end)
            } else {
                Err((whole, charge))
            };
            let data = match kept {
                Ok(kept) => all_of(&kept),
                Err((whole, charge)) => charged(whole, charge),
            };
            body = DoorBody::whole(data, trailers);
        }
        Ok(Response::from_parts(head, body))
    }
}

/// What is asked at these listeners, of this node if it can serve.
fn at(doors: &DoorNodes, node: NodeIndex) -> Wanted {
    Wanted {
        door: doors.door(),
        tried: doors.lacking().collect(),
        ..Wanted::of(node)
    }
}

/// Whether a call of gRPC ended well.
fn is_served(trailers: Option<&HeaderMap>) -> bool {
    trailers.is_some_and(|trailers| trailers.get("grpc-status").is_some_and(|code| code == "0"))
}

/// The height that a request wants the state of (`GRPCBlockHeightHeader` in the SDK's `types/grpc/headers.go`).
fn told_height(headers: &HeaderMap) -> Option<u64> {
    let height = headers.get("x-cosmos-block-height")?.to_str().ok()?;
    height.parse().ok().filter(|height| *height > 0)
}

/// A kept answer, with its age.
fn answer_of(kept: &Kept) -> Response<DoorBody> {
    let body = DoorBody::whole(all_of(kept), kept.trailers().cloned());
    let mut answer = Response::new(body);
    for (name, value) in kept.headers() {
        let value = HeaderValue::from_maybe_shared(value);
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

/// The body, which has no id.
fn all_of(kept: &Kept) -> Bytes {
    let [all, ..] = kept.body(None);
    all
}
