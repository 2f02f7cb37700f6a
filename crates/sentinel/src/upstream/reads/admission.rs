//! The layers that admit a read to the node: which ones, and how many at a time.

use std::sync::Arc;
use std::time::Duration;

use fairq::ClientKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Service, service_fn};

use super::ReadRequest;
use super::methods::MethodList;
use crate::budget::{Budget, Held, Kind};
use crate::config::Config;
use crate::refusal::{Reason, Refusal};
use crate::upstream::nodes::{NodeIndex, Nodes};

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

/// What decides which reads are admitted.
pub(super) struct Admission {
    pub(super) methods: MethodList,
    pub(super) clients: Budget,
    pub(super) nodes: Nodes,
    /// Reads under way, of `all` at most.
    places: Arc<Semaphore>,
    all: usize,
}

impl Admission {
    pub(super) fn new(config: &Config, nodes: &Nodes) -> Self {
        let reads = &config.reads;
        Self {
            methods: MethodList::new(&reads.allow_methods, &reads.refuse_methods),
            clients: nodes.shared_context().budget.clone(),
            nodes: nodes.clone(),
            places: Arc::new(Semaphore::new(reads.concurrency)),
            all: reads.concurrency,
        }
    }

    /// Refuses a read, or notes what it is admitted with. The order matters: a node that answers nothing costs no
    /// client a place, and a read that is refused because others are under way costs nothing of the client's rate.
    fn check(&self, read: &mut Read) -> Result<(), Refusal> {
        if let Some(method) = &read.request.method {
            self.methods.check(method)?;
        }
        let silent = || Refusal::new(Reason::Upstream, "no node answers").retry_after(ABSENT_PAUSE);
        read.node = self.nodes.reading(read.node).ok_or_else(silent)?;
        let free = self.places.available_permits();
        let held = self.clients.hold(read.client, Kind::Read, (free, self.all));
        read.admitted.client = Some(held?);
        self.clients.admit(read.client, read.request.calls)
    }
}

/// A service that is cloned for each read and used from any thread: an async function over the service below it
/// ([`service_fn`]). Nothing in the stack waits in `poll_ready`; a layer refuses, or passes the read on.
pub(super) trait Step:
    Service<Read, Error = Refusal, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> Step for S where
    S: Service<Read, Error = Refusal, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}

/// The layer that refuses reads which may not go: by method, node, the client's reads under way, and its rate.
pub(super) fn admit<S>(
    admission: &Arc<Admission>,
    below: S,
) -> impl Step<Response = S::Response> + use<S>
where
    S: Step,
{
    let admission = Arc::clone(admission);
    service_fn(move |mut read: Read| {
        let (checked, mut below) = (admission.check(&mut read), below.clone());
        async move {
            checked?;
            below.call(read).await
        }
    })
}

/// The layer that bounds the reads under way in all. While all places are taken a read waits for [`PLACE_LIMIT`],
/// in the order of arrival, and is then refused.
pub(super) fn concurrency<S>(
    admission: &Admission,
    below: S,
) -> impl Step<Response = S::Response> + use<S>
where
    S: Step,
{
    let places = Arc::clone(&admission.places);
    service_fn(move |mut read: Read| {
        let (place, mut below) = (Arc::clone(&places).acquire_owned(), below.clone());
        async move {
            let place = tokio::time::timeout(PLACE_LIMIT, place).await;
            let place = place.map_err(|_| {
                Refusal::new(Reason::Rate, "too many reads are under way").retry_after(PLACE_LIMIT)
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
    use tokio_util::sync::CancellationToken;
    use tower::util::ServiceFn;

    use super::*;
    use crate::shared_context::SharedContext;

    type Answering = Ready<Result<Admitted, Refusal>>;

    /// A node that answers at once with what the read was admitted with.
    fn node() -> ServiceFn<fn(Read) -> Answering> {
        service_fn(|read| ready(Ok(read.admitted)))
    }

    fn admission(change: impl FnOnce(&mut Config)) -> Arc<Admission> {
        let mut config = Config::default();
        change(&mut config);
        let shared_context = SharedContext::new(config.clone(), CancellationToken::new());
        let nodes = Nodes::new(shared_context).unwrap();
        Arc::new(Admission::new(&config, &nodes))
    }

    fn client(last: u8) -> ClientKey {
        KeyScheme::default().key([127, 0, 0, last].into())
    }

    /// Reads under way of two clients.
    fn under_way(admission: &Admission) -> [usize; 2] {
        [1, 2].map(|last| admission.clients.reads_of(client(last)))
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
        let admission = admission(|config| config.reads.concurrency_per_client = 1);
        let mut layer = admit(&admission, node());
        let first = layer.call(read(1, 1)).await.unwrap();
        let second = layer.call(read(1, 1)).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        let other = layer.call(read(2, 1)).await.unwrap();
        assert_eq!(under_way(&admission), [1, 1]);
        drop((first, other));
        assert_eq!(under_way(&admission), [0, 0]);
        layer.call(read(1, 1)).await.unwrap();
    }

    #[tokio::test]
    async fn each_client_has_a_rate_of_its_own_and_each_call_counts() {
        // Three calls at once, and the next one in a quarter of an hour.
        let admission = admission(|config| {
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.fixed.read_burst = Duration::from_secs(3_000);
        });
        let mut layer = admit(&admission, node());
        layer.call(read(1, 2)).await.unwrap();
        let refused = layer.call(read(1, 2)).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Rate);
        layer.call(read(1, 1)).await.unwrap();
        layer.call(read(2, 3)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_second_for_a_body_to_be_dropped() {
        let admission = admission(|config| config.reads.concurrency = 1);
        let mut layer = concurrency(&admission, node());
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
        let admission = admission(|config| {
            config.reads.concurrency_per_client = 1;
            config.reads.refuse_methods = vec!["unsafe_*".to_owned()];
        });
        let mut layer = admit(&admission, node());
        let mut refused = read(1, 1);
        refused.request.method = Some("unsafe_flush_mempool".into());
        let refused = layer.call(refused).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Method);
        assert_eq!(under_way(&admission), [0, 0]);
        layer.call(read(1, 1)).await.unwrap();
    }
}
