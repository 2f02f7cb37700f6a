//! A request that was not carried out is sent once more, over a new connection.

use std::future::{Ready, ready};

use hyper::Response;
use tower::retry::Policy;

use super::pool::{Delivery, Failed};
use super::request::{Connection, Outgoing, Repeat};

/// Sends a request once more if a kept connection turned out to be dead, which is what a node's
/// own limit of idle time looks like from here.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct OnNewConnection;

impl<B> Policy<Outgoing, Response<B>, Failed> for OnNewConnection {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        request: &mut Outgoing,
        result: &mut Result<Response<B>, Failed>,
    ) -> Option<Ready<()>> {
        let failed = result.as_ref().err()?;
        let again = match failed.delivery {
            Delivery::Unwritten => true,
            Delivery::Unanswered => request.repeat == Repeat::Always,
            Delivery::Final => false,
        };
        request.connection = Connection::New;
        again.then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Outgoing) -> Option<Outgoing> {
        Some(request.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tower::retry::Retry;
    use tower::{ServiceExt as _, service_fn};

    use super::super::testing::request;
    use super::*;
    use crate::upstream::UpstreamError;

    /// The connections that a request goes over which always fails in this way on a kept one.
    async fn connections(delivery: Delivery, repeat: Repeat) -> Vec<Connection> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noting = Arc::clone(&seen);
        let inner = service_fn(move |request: Outgoing| {
            noting.lock().unwrap().push(request.connection);
            let delivery = match request.connection {
                Connection::Kept => delivery,
                Connection::New => Delivery::Final,
            };
            ready(Err::<Response<()>, _>(Failed {
                error: UpstreamError::Memory,
                delivery,
            }))
        });
        let service = Retry::new(OnNewConnection, inner);
        service.oneshot(request(repeat)).await.unwrap_err();
        let seen = seen.lock().unwrap();
        seen.clone()
    }

    #[tokio::test]
    async fn the_second_attempt_goes_over_a_new_connection_and_is_the_last() {
        let twice = [Connection::Kept, Connection::New];
        for repeat in [Repeat::Always, Repeat::IfUnwritten] {
            assert_eq!(connections(Delivery::Unwritten, repeat).await, twice);
            assert_eq!(connections(Delivery::Final, repeat).await, twice[..1]);
        }
        assert_eq!(
            connections(Delivery::Unanswered, Repeat::Always).await,
            twice
        );
    }

    #[tokio::test]
    async fn what_may_have_been_written_is_not_written_twice_unless_its_caller_says_so() {
        let once = [Connection::Kept];
        let seen = connections(Delivery::Unanswered, Repeat::IfUnwritten).await;
        assert_eq!(seen, once);
    }
}
