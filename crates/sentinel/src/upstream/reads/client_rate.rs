//! How many reads a second one client may send.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use tower::{Layer, Service};

use super::request::Read;
use crate::refusal::Refusal;
use crate::upstream::limits::ClientLimits;

/// Makes [`ClientRate`]s.
#[derive(Clone, Debug)]
pub(super) struct ClientRateLayer(pub(super) Arc<ClientLimits>);

/// Takes the calls of a read from its client's rate, or refuses it.
#[derive(Clone, Debug)]
pub(super) struct ClientRate<S> {
    inner: S,
    clients: Arc<ClientLimits>,
}

impl<S> Layer<S> for ClientRateLayer {
    type Service = ClientRate<S>;

    fn layer(&self, inner: S) -> ClientRate<S> {
        let clients = Arc::clone(&self.0);
        ClientRate { inner, clients }
    }
}

impl<S> Service<Read> for ClientRate<S>
where
    S: Service<Read, Error = Refusal>,
{
    type Response = S::Response;
    type Error = Refusal;
    type Future = Either<Ready<Result<S::Response, Refusal>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, read: Read) -> Self::Future {
        match self.clients.admit(read.client, read.request.calls) {
            Ok(()) => Either::Right(self.inner.call(read)),
            Err(refusal) => Either::Left(ready(Err(refusal))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower::ServiceExt as _;

    use super::super::testing::{limits, node, read};
    use super::*;
    use crate::refusal::Reason;

    #[tokio::test]
    async fn each_client_has_a_rate_of_its_own_and_each_call_counts() {
        // Three calls at once, and the next one in a quarter of an hour.
        let clients = limits(|config| {
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.reads.burst_per_client = Duration::from_secs(3_000);
        });
        let service = ClientRateLayer(clients).layer(node());
        let calls = |client, calls| {
            let mut read = read(client, "status");
            read.request.calls = calls;
            service.clone().oneshot(read)
        };
        calls(1, 2).await.unwrap();
        assert_eq!(calls(1, 2).await.unwrap_err().reason, Reason::Rate);
        calls(1, 1).await.unwrap();
        calls(2, 3).await.unwrap();
    }
}
