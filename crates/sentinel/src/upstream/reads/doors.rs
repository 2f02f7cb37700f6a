//! Reads at the other listeners of a Cosmos SDK's nodes: they go to a node as those at the RPC do, and their answers are
//! shared and kept as the RPC's are.

use fairq::ClientKey;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response};
use tokio::time::sleep_until;

use super::admission::{Admitted, no_node};
use super::cache::{Found, Kept};
use super::subject::Subject;
use super::{Reads, Shared, asking};
use crate::budget::{Reservation, work_of};
use crate::refusal::Refusal;
use crate::upstream::answer::AnswerBody;
use crate::upstream::choice::Wanted;
use crate::upstream::doors::{CallBody, DoorNodes};
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
    ) -> Result<Response<AnswerBody>, Refusal> {
        let nodes = &self.admission.nodes;
        let (ledger, reader) = (nodes.ledger().of(client), self.clients().reader(client));
        let asked = Subject::at_door(doors.door(), &head, &body);
        let height = match asked {
            Some(Subject::Height(height)) => Some(height),
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
        let call = (&head, body);
        let answer = (self.ask_at_door(doors, way, call, (admitted, window))).await?;
        let Some((asking, asked)) = for_all else {
            return Ok(answer);
        };
        let shared = Shared {
            asking,
            node: near,
            id: None,
            // The node says nothing of it.
            default_s: match asked {
                Subject::Latest => 0,
                _ => asking::LONGEST_SECONDS,
            },
            charge: ledger.nothing(),
        };
        let question = (asked, doors.door(), head.uri.path());
        self.share_at_door(shared, question, answer).await
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
    ) -> Result<Response<AnswerBody>, Refusal> {
        let way = (client, at(doors, node), false);
        let asking = self.ask_at_door(doors, way, call, (self.admission.beside(), window));
        asking.await
    }

    async fn ask_at_door(
        &self,
        doors: &DoorNodes,
        (client, wanted, is_read): (ClientKey, Wanted, bool),
        call: (&Parts, CallBody),
        held: (Admitted, Reservation),
    ) -> Result<Response<AnswerBody>, Refusal> {
        let first = self.admission.nodes.reading(&wanted).ok_or_else(no_node)?;
        let (node, answer) = doors.ask((first, wanted), is_read, call, held).await?;
        self.admission.note_read(client, node);
        Ok(answer)
    }

    async fn share_at_door(
        &self,
        shared: Shared<'_>,
        (asked, door, path): (Subject, NodeDoor, &str),
        answer: Response<AnswerBody>,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let (head, mut body) = answer.into_parts();
        let read = |whole: &[u8], trailers: Option<&HeaderMap>, height| {
            let is_final = match door {
                NodeDoor::Grpc if !is_served(trailers) => return None,
                NodeDoor::Grpc => asked.is_final_call(path, whole, height),
                _ => asked.is_final(whole, height),
            };
            Some((whole.len()..whole.len(), is_final))
        };
        let told = (head.status.as_u16(), &head.headers);
        self.share(shared, told, &mut body, read).await?;
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
fn answer_of(kept: &Kept) -> Response<AnswerBody> {
    let [all, ..] = kept.body(None);
    let body = AnswerBody::whole(all, kept.trailers().cloned());
    let mut answer = Response::new(body);
    *answer.headers_mut() = kept.headers();
    answer
}
