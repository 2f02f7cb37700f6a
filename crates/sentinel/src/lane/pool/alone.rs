//! Writes that go in requests of their own, over HTTP: those that are too long for a message, and those with which
//! connections broke.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use pacing::Nanos;
use rpc::{BroadcastMethod, ConnectionError, Endpoint, Message, TaskConnection, Transport};
use tokio::time::timeout;

use super::link::open;
use crate::lane::job::Job;
use crate::lane::writes::WriteId;

/// Requests of one write each, a connection for each.
#[derive(Debug, Default)]
pub(super) struct Alone {
    asking: FuturesUnordered<Asking>,
    /// Which, whose, and when they were sent.
    under_way: Vec<(WriteId, ClientKey, Nanos)>,
}

type Asking = Pin<Box<dyn Future<Output = (WriteId, Result<Bytes, AloneError>)> + Send>>;

/// Why a write that was sent alone got no answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::lane) enum AloneError {
    /// Nothing was sent.
    #[error(transparent)]
    NotSent(#[from] ConnectionError),
    /// The node, or what is between, refuses the request.
    #[error("the node answered HTTP {0}")]
    Status(u16),
    /// Whether the node has it is unknown.
    #[error("the node did not answer ({0})")]
    Unanswered(String),
}

impl Alone {
    /// Whether another one of a client may be sent: it takes no more than it leaves to the others.
    pub(super) fn has_place(&self, client: ClientKey) -> bool {
        let own = self.under_way.iter().filter(|(_, of, _)| *of == client);
        own.count() < MOST.saturating_sub(self.under_way.len())
    }

    /// When the oldest one was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.under_way.iter().map(|(_, _, at)| *at).min()
    }

    /// Sends one. `patience` is for the connection and for the answer.
    pub(super) fn send(
        &mut self,
        endpoint: &Endpoint,
        number: WriteId,
        job: &Job,
        [connect, answer]: [Duration; 2],
        now: Nanos,
    ) {
        let endpoint = endpoint.with_transport(Transport::Http);
        let (method, tx) = (job.upstream_method(), job.tx.clone());
        self.under_way.push((number, job.client, now));
        self.asking.push(Box::pin(async move {
            let asked = async {
                let mut connection = open(endpoint, connect).await?;
                connection.connection().queue(&smallest(method, &tx));
                match timeout(answer, read_answer(&mut connection)).await {
                    Ok(Ok((body, _))) if body.first() == Some(&b'{') => Ok(body),
                    Ok(Ok((_, status))) => Err(AloneError::Status(status)),
                    Ok(Err(error)) => Err(AloneError::Unanswered(error.to_string())),
                    Err(_) => {
                        let reason = "upstream.timeout is over".to_owned();
                        Err(AloneError::Unanswered(reason))
                    }
                }
            };
            (number, asked.await)
        }));
    }

    /// The next that is over: when it was sent, and the answer.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(WriteId, Nanos, Result<Bytes, AloneError>)> {
        let Poll::Ready(Some((number, outcome))) = self.asking.poll_next_unpin(context) else {
            return Poll::Pending;
        };
        let place = self.under_way.iter().position(|(one, _, _)| *one == number);
        let sent = place.map_or(Nanos::ZERO, |place| self.under_way.swap_remove(place).2);
        Poll::Ready((number, sent, outcome))
    }

    /// Gives all of them up: their numbers.
    pub(super) fn give_up(&mut self) -> Vec<WriteId> {
        self.asking = FuturesUnordered::new();
        let under_way = std::mem::take(&mut self.under_way);
        under_way.into_iter().map(|(number, _, _)| number).collect()
    }
}

/// The body of the one answer, and its status.
async fn read_answer(connection: &mut TaskConnection) -> Result<(Bytes, u16), ConnectionError> {
    loop {
        let mut answer = None;
        let copy = |it: Message<'_>| answer = Some((Bytes::copy_from_slice(it.body), it.status));
        let read = connection.read(copy).await;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        read?;
    }
}

/// The shortest request that the node takes for this: no client has sent a shorter one.
fn smallest(method: BroadcastMethod, tx: &[u8]) -> Vec<u8> {
    let mut body = format!(r#"{{"id":1,"method":"{}","params":[""#, method.name()).into_bytes();
    base64_simd::STANDARD.encode_append(tx, &mut body);
    body.extend_from_slice(br#""]}"#);
    body
}

/// Requests of this kind at once: a megabyte each, and a descriptor each.
pub(in crate::lane) const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::testing::write;

    /// At 2b52556 a body of 999,999 bytes was sent on as one of 1,000,020.
    #[test]
    fn case_98_what_is_sent_is_never_longer_than_what_came() {
        let base64 = "A".repeat(999_948);
        let came = format!(r#"{{"id":1,"method":"broadcast_tx_sync","params":["{base64}"]}}"#);
        let tx = base64_simd::STANDARD.decode_to_vec(&base64).unwrap();
        assert_eq!(smallest(BroadcastMethod::Sync, &tx), came.as_bytes());
    }

    /// Before, sixteen requests of one client that the node did not answer were all that could go alone.
    #[test]
    fn case_110_one_client_leaves_as_many_places_as_it_takes() {
        let mut alone = Alone::default();
        let endpoint: Endpoint = "http://127.0.0.1:9".parse().unwrap();
        let mut number = 0;
        let mut fill = |alone: &mut Alone, of: u8| {
            let mut job = write(vec![1]);
            job.client = fairq::KeyScheme::default().key([10, 0, 0, of].into());
            let before = alone.under_way.len();
            while alone.has_place(job.client) {
                number += 1;
                let patience = [Duration::from_secs(1); 2];
                alone.send(&endpoint, WriteId::of(number), &job, patience, Nanos::ZERO);
            }
            alone.under_way.len() - before
        };
        assert_eq!(
            [1, 2, 3, 1, 4, 5].map(|of| fill(&mut alone, of)),
            [8, 4, 2, 0, 1, 1]
        );
        assert_eq!(alone.under_way.len(), MOST);
        assert_eq!(alone.give_up().len(), MOST);
        assert_eq!(fill(&mut alone, 6), 8);
    }
}
