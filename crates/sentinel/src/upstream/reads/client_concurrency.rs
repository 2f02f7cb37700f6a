//! How many reads of one client may be under way.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::{Layer, Service};

use super::request::{Answering, Read, ReadAnswer};
use crate::refusal::Refusal;
use crate::upstream::body::Permitted;
use crate::upstream::limits::{ClientLimits, ClientSlot};

/// Makes [`ClientConcurrency`] services.
#[derive(Clone, Debug)]
pub(super) struct ClientConcurrencyLayer(pub(super) Arc<ClientLimits>);

/// Counts a read against its client until the answer's body is dropped, or refuses it.
#[derive(Clone, Debug)]
pub(super) struct ClientConcurrency<S> {
    inner: S,
    clients: Arc<ClientLimits>,
}

impl<S> Layer<S> for ClientConcurrencyLayer {
    type Service = ClientConcurrency<S>;

    fn layer(&self, inner: S) -> ClientConcurrency<S> {
        let clients = Arc::clone(&self.0);
        ClientConcurrency { inner, clients }
    }
}

impl<S, B> Service<Read> for ClientConcurrency<S>
where
    S: Service<Read, Response = ReadAnswer<B>, Error = Refusal>,
    S::Future: Send + 'static,
{
    type Response = ReadAnswer<Permitted<B, ClientSlot>>;
    type Error = Refusal;
    type Future = Answering<Permitted<B, ClientSlot>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, read: Read) -> Self::Future {
        let entered = self.clients.enter(read.client);
        // Not called for a read that is refused: the layers below would count it.
        let entered = entered.map(|slot| (slot, self.inner.call(read)));
        Box::pin(async move {
            let (slot, answering) = entered?;
            let answer = answering.await?;
            Ok(answer.map(|body| Permitted::new(body, slot)))
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::super::testing::{limits, node, read};
    use super::*;
    use crate::refusal::Reason;

    #[tokio::test]
    async fn a_read_counts_until_its_body_is_dropped() {
        let clients = limits(|config| config.reads.concurrency_per_client = 1);
        let service = ClientConcurrencyLayer(Arc::clone(&clients)).layer(node());
        let ask = |client| service.clone().oneshot(read(client, "status"));
        let first = ask(1).await.unwrap();
        assert_eq!(ask(1).await.unwrap_err().reason, Reason::Rate);
        let other = ask(2).await.unwrap();
        assert_eq!(clients.under_way(), 2);
        drop((first, other));
        assert_eq!(clients.under_way(), 0);
        ask(1).await.unwrap();
    }
}
