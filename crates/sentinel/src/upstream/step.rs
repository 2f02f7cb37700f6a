//! What a layer of the upstream stacks is made of.

use tower::Service;

/// A service that is cloned for each request and used from any thread: an async function over the
/// service below it ([`tower::service_fn`]). Nothing in the stacks waits in `poll_ready`; a layer
/// refuses, or passes the request on.
pub(super) trait Step<Request>:
    Service<Request, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S, Request> Step<Request> for S where
    S: Service<Request, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}
