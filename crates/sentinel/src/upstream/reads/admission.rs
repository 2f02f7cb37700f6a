//! The layers that admit a read to the node: which methods, and how many reads at a time.

use std::sync::Arc;
use std::time::Duration;

use fairq::ClientKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::service_fn;

use super::methods::MethodList;
use super::request::ReadRequest;
use crate::budget::{Budget, Held};
use crate::refusal::{Reason, Refusal};
use crate::upstream::nodes::{NodeIndex, Nodes};
use crate::upstream::step::Step;

/// A read on its way through the layers.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) client: ClientKey,
    pub(super) node: NodeIndex,
    pub(super) request: ReadRequest,
    pub(super) admitted: Admitted,
}

/// What a read was admitted with. It counts until this is dropped, so its answer's body keeps it;
/// tower's `ConcurrencyLimit` would give it back with the answer's head.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    client: Option<Held>,
    place: Option<OwnedSemaphorePermit>,
}

impl Admitted {
    /// Whether reads wait for a place.
    pub(super) fn is_wanted(&self) -> bool {
        let places = self.place.as_ref().map(OwnedSemaphorePermit::semaphore);
        places.is_some_and(|places| places.available_permits() == 0)
    }
}

/// Refuses methods that are not served.
pub(super) fn methods(methods: Arc<MethodList>) -> impl Check {
    move |read: &mut Read| {
        let method = read.request.method.as_deref();
        method.map_or(Ok(()), |method| methods.check(method))
    }
}

/// Finds the node that answers. It comes before all that counts, so that a node that answers nothing costs
/// nobody a place, and whoever asks is told of the node and not of a limit.
pub(super) fn answering(nodes: Nodes) -> impl Check {
    move |read: &mut Read| {
        read.node = nodes.reading(read.node).ok_or_else(|| {
            Refusal::new(Reason::Upstream, "no node answers").retry_after(ABSENT_PAUSE)
        })?;
        Ok(())
    }
}

/// Bounds each client's reads under way. It comes before the client's rate, so that a read that is
/// refused because others are under way costs nothing of the rate.
pub(super) fn client_concurrency(clients: Budget, places: Arc<Semaphore>) -> impl Check {
    let all = places.available_permits();
    move |read: &mut Read| {
        let free = places.available_permits();
        read.admitted.client = Some(clients.read(read.client, (free, all))?);
        Ok(())
    }
}

/// Bounds each client's calls a second.
pub(super) fn client_rate(clients: Budget) -> impl Check {
    move |read: &mut Read| clients.admit(read.client, read.request.calls)
}

/// What a layer decides at once: it refuses a read, or notes what the read is admitted with.
pub(super) trait Check:
    Fn(&mut Read) -> Result<(), Refusal> + Clone + Send + Sync + 'static
{
}

impl<F: Fn(&mut Read) -> Result<(), Refusal> + Clone + Send + Sync + 'static> Check for F {}

/// The layer of a check.
pub(super) fn admit<S>(
    check: impl Check,
    below: S,
) -> impl Step<Read, Response = S::Response, Error = Refusal>
where
    S: Step<Read, Error = Refusal>,
{
    service_fn(move |mut read: Read| {
        let (admitted, mut below) = (check(&mut read), below.clone());
        async move {
            admitted?;
            below.call(read).await
        }
    })
}

/// Bounds the reads under way in all. While all places are taken a read waits for [`PLACE_LIMIT`], in
/// the order of arrival, and is then refused.
pub(super) fn concurrency<S>(
    places: Arc<Semaphore>,
    below: S,
) -> impl Step<Read, Response = S::Response, Error = Refusal>
where
    S: Step<Read, Error = Refusal>,
{
    service_fn(move |mut read: Read| {
        let (place, mut below) = (Arc::clone(&places).acquire_owned(), below.clone());
        async move {
            let place = tokio::time::timeout(PLACE_LIMIT, place)
                .await
                .map_err(|_| {
                    Refusal::new(Reason::Rate, "too many reads are under way")
                        .retry_after(PLACE_LIMIT)
                })?;
            read.admitted.place = Some(place.map_err(|_| Refusal::going_down())?);
            below.call(read).await
        }
    })
}

/// The next health check but one shows whether the node is back.
const ABSENT_PAUSE: Duration = Duration::from_secs(2);
/// How long a read waits for one of the places that all share.
const PLACE_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use bytes::Bytes;
    use fairq::KeyScheme;
    use hyper::{HeaderMap, Method};
    use tokio::time::{Instant, sleep};
    use tower::Service as _;
    use tower::util::ServiceFn;

    use super::*;
    use crate::config::Config;

    type Answering = Ready<Result<Admitted, Refusal>>;

    /// A node that answers at once with what the read was admitted with.
    fn node() -> ServiceFn<fn(Read) -> Answering> {
        service_fn(|read| ready(Ok(read.admitted)))
    }

    fn clients(change: impl FnOnce(&mut Config)) -> Budget {
        let mut config = Config::default();
        change(&mut config);
        Budget::new(&config, [1, 2])
    }

    fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(100))
    }

    fn client(last: u8) -> ClientKey {
        KeyScheme::default().key([127, 0, 0, last].into())
    }

    /// Reads under way of two clients.
    fn under_way(clients: &Budget) -> [usize; 2] {
        [1, 2].map(|last| clients.reads_of(client(last)))
    }

    fn read(last: u8, calls: u32) -> Read {
        Read {
            client: client(last),
            node: NodeIndex::default(),
            request: ReadRequest {
                http_method: Method::GET,
                target: Bytes::from_static(b"/status"),
                headers: HeaderMap::new(),
                body: Bytes::new(),
                method: Some("status".into()),
                calls,
            },
            admitted: Admitted::default(),
        }
    }

    #[tokio::test]
    async fn a_read_counts_until_its_body_is_dropped() {
        let clients = clients(|config| config.reads.concurrency_per_client = 1);
        let mut layer = admit(client_concurrency(clients.clone(), places()), node());
        let first = layer.call(read(1, 1)).await.unwrap();
        let second = layer.call(read(1, 1)).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        let other = layer.call(read(2, 1)).await.unwrap();
        assert_eq!(under_way(&clients), [1, 1]);
        drop((first, other));
        assert_eq!(under_way(&clients), [0, 0]);
        layer.call(read(1, 1)).await.unwrap();
    }

    #[tokio::test]
    async fn each_client_has_a_rate_of_its_own_and_each_call_counts() {
        // Three calls at once, and the next one in a quarter of an hour.
        let clients = clients(|config| {
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.reads.burst_per_client = Duration::from_secs(3_000);
        });
        let mut layer = admit(client_rate(clients), node());
        layer.call(read(1, 2)).await.unwrap();
        let refused = layer.call(read(1, 2)).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Rate);
        layer.call(read(1, 1)).await.unwrap();
        layer.call(read(2, 3)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_second_for_a_body_to_be_dropped() {
        let mut layer = concurrency(Arc::new(Semaphore::new(1)), node());
        let start = Instant::now();
        let first = layer.call(read(1, 1)).await.unwrap();
        let second = layer.call(read(1, 1)).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        assert_eq!(start.elapsed(), PLACE_LIMIT);
        let (second, ()) = tokio::join!(layer.call(read(1, 1)), async {
            sleep(PLACE_LIMIT / 2).await;
            drop(first);
        });
        second.unwrap();
        assert_eq!(start.elapsed(), PLACE_LIMIT * 3 / 2);
    }

    #[tokio::test]
    async fn a_refused_method_costs_nothing() {
        let clients = clients(|config| config.reads.concurrency_per_client = 1);
        let list = Arc::new(MethodList::new(&[], &["unsafe_*".to_owned()]));
        let below = admit(client_concurrency(clients.clone(), places()), node());
        let mut stack = admit(methods(list), below);
        let mut refused = read(1, 1);
        refused.request.method = Some("unsafe_flush_mempool".into());
        let refused = stack.call(refused).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Method);
        assert_eq!(under_way(&clients), [0, 0]);
        stack.call(read(1, 1)).await.unwrap();
    }
}
