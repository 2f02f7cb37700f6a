//! Reads of a Cosmos SDK's REST gateway: what cannot change of its answers is kept as the RPC's is.

use std::borrow::Cow;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::Response;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use tokio::time::sleep_until;

use super::Reads;
use super::cache::{Asking, Found, Headers, Kept};
use super::unchanging::{self, Asked};
use crate::budget::{Reservation, work_of};
use crate::refusal::Refusal;
use crate::upstream::body::charged;
use crate::upstream::doors::{DoorBody, DoorNode};

impl Reads {
    /// Passes a read of the gateway on, which takes `calls` of its client's rate. An answer that is kept takes nothing of
    /// it, and a unit of work.
    ///
    /// # Errors
    /// A refusal: over the client's rate or concurrency, no room, or no answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives the read up; the node may have carried it out.
    pub(crate) async fn of_gateway(
        &self,
        (client, node): (ClientKey, &DoorNode),
        (head, body): (Parts, Bytes),
        (calls, mut held): (u32, Reservation),
    ) -> Result<Response<DoorBody>, Refusal> {
        let nodes = &self.admission.nodes;
        let ledger = nodes.ledger().of(client);
        let mut for_all = None;
        if let Some((key, asked)) = unchanging::key_at_gateway(&head, &body, nodes.chains().0) {
            match self.cache.find(key, &ledger).await {
                Found::Answer(kept) => {
                    if let Some(until) = self.clients().work(client, work_of(0)) {
                        sleep_until(until).await;
                    }
                    return Ok(answer_of(&kept));
                }
                Found::Ask(asking) => for_all = Some((asking, asked)),
                Found::AskAlone => {}
            }
        }
        let admitted = self.place(client, calls).await?;
        if !held.grow(self.window_bytes()) {
            return Err(Refusal::buffers_full());
        }
        let answer = node.ask(head, body, (admitted, held)).await?;
        match for_all {
            Some(asking) => self.keep(asking, answer, ledger.nothing()).await,
            None => Ok(answer),
        }
    }

    /// Keeps an answer of the gateway if it cannot change.
    async fn keep(
        &self,
        (asking, asked): (Asking, Asked),
        answer: Response<DoorBody>,
        charge: Reservation,
    ) -> Result<Response<DoorBody>, Refusal> {
        let (head, mut body) = answer.into_parts();
        let copy = |(name, value): (&HeaderName, &HeaderValue)| {
            let name = Cow::Owned(name.as_str().to_owned());
            (name, Bytes::copy_from_slice(value.as_bytes()))
        };
        let headers: Headers = head.headers.iter().map(copy).collect();
        // The gateway says nothing of it.
        let unless_told = Some(unchanging::LONGEST_SECONDS);
        if let Some(fresh) = unchanging::may_be_kept(head.status.as_u16(), &headers, unless_told)
            && let Some((whole, charge)) = body.read(charge, self.cache.most()).await?
        {
            let (_, height) = self.admission.nodes.chains();
            let end = whole.len();
            let kept = if asked.is_final(&whole, height) {
                asking.keep((headers, fresh), (whole, charge), end..end)
            } else {
                Err((whole, charge))
            };
            body = DoorBody::whole(match kept {
                Ok(kept) => all_of(&kept),
                Err((whole, charge)) => charged(whole, charge),
            });
        }
        Ok(Response::from_parts(head, body))
    }
}

/// A kept answer, with its age.
fn answer_of(kept: &Kept) -> Response<DoorBody> {
    let mut answer = Response::new(DoorBody::whole(all_of(kept)));
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
