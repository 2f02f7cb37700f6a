//! What the read lane takes: which reads are admitted to the node, and how many at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::{HeaderMap, Method};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::budget::{Budget, Held, Kind};
use crate::config::Config;
use crate::refusal::{Reason, Refusal};
use crate::respond::KeptId;
use crate::shadow::Shadow;
use crate::upstream::choice::Wanted;
use crate::upstream::http::Repeat;
use crate::upstream::node_state::NodeIndex;
use crate::upstream::nodes::Nodes;

/// A request to pass on.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Its HTTP method.
    pub http_method: Method,
    /// The target as the client wrote it, a path with its query.
    pub target: Bytes,
    /// Its headers, without those that belong to the connection or to the framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The JSON-RPC method it calls, if it is one call whose method is known.
    pub method: Option<Box<str>>,
    /// The id as the node echoes it, if its body is one call.
    pub id: Option<KeptId>,
    /// What it takes from the client's rate: the price of the calls in it, or 0 if that was done when they came.
    pub calls: u32,
    /// Whether broadcasts are in it, which the write lane judges in shadow.
    pub has_writes: bool,
}

impl ReadRequest {
    /// Its question to the node, in its body or its target.
    pub(super) fn call(&self) -> Bytes {
        let call = if self.body.is_empty() {
            &self.target
        } else {
            &self.body
        };
        call.clone()
    }
}

/// A read, what it needs of a node, and the node that it goes to.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) client: ClientKey,
    pub(super) wanted: Wanted,
    pub(super) node: NodeIndex,
    pub(super) request: ReadRequest,
}

/// What a read was admitted with. It counts until this is dropped, so its answer's body keeps it.
#[derive(Debug)]
pub(crate) struct Admitted {
    _client: Option<Held>,
    /// None for what does not count.
    place: Option<Place>,
}

impl Admitted {
    /// Whether reads wait for a place.
    pub(in crate::upstream) fn is_wanted(&self) -> bool {
        self.place.as_ref().is_some_and(Place::is_wanted)
    }
}

/// What decides which reads are admitted.
pub(super) struct Admission {
    pub(super) clients: Budget,
    pub(super) nodes: Nodes,
    /// Reads under way.
    places: Places,
}

impl Admission {
    pub(super) fn new(config: &Config, nodes: &Nodes) -> Self {
        Self {
            clients: nodes.shared_context().budget.clone(),
            nodes: nodes.clone(),
            places: Places::new(config.reads.concurrency),
        }
    }

    /// Refuses a read, or says to which node it goes and what it is admitted with. The order matters: a node that answers
    /// nothing costs no client a place, and a read that is refused because others are under way costs nothing of the
    /// client's rate. While all places are taken a read waits for [`PLACE_LIMIT`], in
    /// the order of arrival, and is then refused.
    pub(super) async fn admit(
        self: Arc<Self>,
        mut read: Read,
    ) -> Result<(Read, Admitted), Refusal> {
        self.check(read.request.method.as_deref())?;
        read.node = self.nodes.reading(&read.wanted).ok_or_else(no_node)?;
        let admitted = if read.request.has_writes && self.shadow().is_on() {
            self.charge(read.client, read.request.calls)?;
            self.beside()
        } else {
            self.place(read.client, read.request.calls).await?
        };
        Ok((read, admitted))
    }

    /// Whether a method may be called. In shadow that was decided when the call came.
    pub(super) fn check(&self, method: Option<&str>) -> Result<(), Refusal> {
        match method {
            Some(method) if !self.shadow().is_on() => self.check_method(method),
            _ => Ok(()),
        }
    }

    pub(super) fn check_method(&self, method: &str) -> Result<(), Refusal> {
        let config = self.nodes.shared_context().config.load();
        config.reads.check(method)
    }

    /// When a request is sent once more.
    pub(super) fn repeat(&self, request: &ReadRequest) -> Repeat {
        if request.has_writes {
            return Repeat::IfUnwritten;
        }
        let config = self.nodes.shared_context().config.load();
        config.reads.repeat(request.method.as_deref())
    }

    /// Takes calls from a client's rate.
    pub(super) fn charge(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        let taken = self.clients.admit(client, calls);
        self.shadow().judge(client, taken).map(drop)
    }

    /// What is admitted with neither a share of its client's nor a place.
    pub(super) fn beside(&self) -> Admitted {
        Admitted {
            _client: None,
            place: None,
        }
    }

    fn shadow(&self) -> &Shadow {
        &self.nodes.shared_context().shadow
    }

    /// A client has read what a node has, which matters where there are several.
    pub(super) fn note_read(&self, client: ClientKey, node: NodeIndex) {
        if self.nodes.count() > 1 {
            self.clients.note_read(client, self.nodes.chain(node).1);
        }
    }

    /// What a read of so many calls is admitted with, wherever it goes.
    pub(super) async fn place(&self, client: ClientKey, calls: u32) -> Result<Admitted, Refusal> {
        let shared = self.places.free_and_all();
        let held = self.clients.hold(client, Kind::Read, shared);
        let held = self.shadow().judge(client, held)?;
        let crowded =
            || Refusal::new(Reason::Rate, "too many reads are under way").retry_after(PLACE_LIMIT);
        let place = if self.shadow().is_on() {
            let place = self.places.take_free();
            if place.is_none() {
                self.shadow().note(client, &crowded());
            }
            place
        } else {
            let place = tokio::time::timeout(PLACE_LIMIT, self.places.take()).await;
            let place = place.map_err(|_| crowded())?;
            Some(place.ok_or_else(Refusal::going_down)?)
        };
        self.charge(client, calls)?;
        Ok(Admitted {
            _client: held,
            place,
        })
    }
}

/// No node is asked for anything but its health, or none has what the client has seen.
pub(super) fn no_node() -> Refusal {
    Refusal::new(Reason::Upstream, "no node answers").retry_after(ABSENT_PAUSE)
}

/// The next health check but one shows whether the node is back.
const ABSENT_PAUSE: Duration = Duration::from_secs(2);
/// How long a read waits for one of the places that all share.
const PLACE_LIMIT: Duration = Duration::from_secs(1);

/// So many reads may be under way.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    /// Each read that waits for a place has a clone.
    waiting: Arc<()>,
}

/// A place, taken until dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    waiting: Weak<()>,
}

impl Places {
    pub(super) fn new(all: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(all)),
            all,
            waiting: Arc::new(()),
        }
    }

    /// How many are free, and how many there are.
    pub(super) fn free_and_all(&self) -> (usize, usize) {
        (self.free.available_permits(), self.all)
    }

    /// Waits for one, in the order of arrival; none once there are to be no more.
    ///
    /// # Cancel safety
    /// Dropping the future gives the turn up.
    pub(super) async fn take(&self) -> Option<Place> {
        let _waiting = Arc::clone(&self.waiting);
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(self.of(permit))
    }

    /// One that is free.
    pub(super) fn take_free(&self) -> Option<Place> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(self.of(permit))
    }

    fn of(&self, permit: OwnedSemaphorePermit) -> Place {
        Place {
            _permit: permit,
            waiting: Arc::downgrade(&self.waiting),
        }
    }
}

impl Place {
    /// Whether a read waits for one. That none is free is not enough: then all slow clients would lose theirs, and ask
    /// the node for the same again.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.strong_count() > 1
    }
}

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;
    use futures_util::FutureExt as _;
    use tokio::time::{Instant, sleep};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::shared_context::SharedContext;

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

    /// A read of so many calls by a client, admitted.
    async fn call(
        admission: &Arc<Admission>,
        method: &str,
        last: u8,
        calls: u32,
    ) -> Result<Admitted, Refusal> {
        let read = Read {
            client: client(last),
            node: NodeIndex::default(),
            wanted: Wanted::of(NodeIndex::default()),
            request: ReadRequest {
                http_method: Method::GET,
                target: Bytes::from_static(b"/status"),
                headers: HeaderMap::new(),
                body: Bytes::new(),
                method: Some(method.into()),
                id: None,
                calls,
                has_writes: false,
            },
        };
        let admitted = Arc::clone(admission).admit(read).await;
        admitted.map(|(_, admitted)| admitted)
    }

    async fn read(admission: &Arc<Admission>, last: u8, calls: u32) -> Result<Admitted, Refusal> {
        call(admission, "status", last, calls).await
    }

    #[tokio::test]
    async fn a_read_counts_until_its_body_is_dropped() {
        let admission = admission(|config| config.fixed.reads_per_client = 1);
        let first = read(&admission, 1, 1).await.unwrap();
        let second = read(&admission, 1, 1).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        let other = read(&admission, 2, 1).await.unwrap();
        assert_eq!(under_way(&admission), [1, 1]);
        drop((first, other));
        assert_eq!(under_way(&admission), [0, 0]);
        read(&admission, 1, 1).await.unwrap();
    }

    #[tokio::test]
    async fn each_client_has_a_rate_of_its_own_and_each_call_counts() {
        // Three calls at once, and the next one in a quarter of an hour.
        let admission = admission(|config| {
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.fixed.read_burst = Duration::from_secs(3_000);
        });
        read(&admission, 1, 2).await.unwrap();
        let refused = read(&admission, 1, 2).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Rate);
        read(&admission, 1, 1).await.unwrap();
        read(&admission, 2, 3).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_second_for_a_body_to_be_dropped() {
        let admission = admission(|config| {
            config.reads.concurrency = 1;
            // As many as are served: at c1876d9d the refused one had paid, too.
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.fixed.read_burst = Duration::from_secs(2_000);
        });
        let start = Instant::now();
        let first = read(&admission, 1, 1).await.unwrap();
        let second = read(&admission, 1, 1).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        assert_eq!(start.elapsed(), PLACE_LIMIT);
        let (second, ()) = tokio::join!(read(&admission, 1, 1), async {
            sleep(PLACE_LIMIT / 2).await;
            drop(first);
        });
        second.unwrap();
        assert_eq!(start.elapsed(), PLACE_LIMIT * 3 / 2);
    }

    #[tokio::test]
    async fn a_refused_method_costs_nothing() {
        let admission = admission(|config| {
            config.fixed.reads_per_client = 1;
            config.reads.refuse_methods = vec!["unsafe_*".to_owned()];
        });
        let refused = call(&admission, "unsafe_flush_mempool", 1, 1).await;
        assert_eq!(refused.unwrap_err().reason, Reason::Method);
        assert_eq!(under_way(&admission), [0, 0]);
        read(&admission, 1, 1).await.unwrap();
    }

    /// While no place was free each counted as wanted, whichever client waited: all slow readers were cut off twice a second.
    #[tokio::test]
    async fn sharing_88_places_are_wanted_while_a_read_waits_for_one() {
        let places = Places::new(2);
        let mut taken = vec![places.take().await.unwrap(), places.take().await.unwrap()];
        let are_wanted = |taken: &[Place]| taken.iter().all(Place::is_wanted);
        assert!(!are_wanted(&taken));
        let mut waiting = [0; 2].map(|_| Box::pin(places.take()));
        for take in &mut waiting {
            assert!(take.as_mut().now_or_never().is_none());
        }
        for take in waiting {
            assert!(are_wanted(&taken));
            taken.remove(0);
            taken.push(take.await.unwrap());
        }
        assert!(!are_wanted(&taken));
        // One that waits no longer wants none.
        let mut waiting = Box::pin(places.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(are_wanted(&taken));
        drop(waiting);
        assert!(!are_wanted(&taken));
    }
}
