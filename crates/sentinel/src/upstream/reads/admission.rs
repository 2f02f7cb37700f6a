//! Which reads may go to a node, and how many of them at a time.

use std::sync::Arc;
use std::time::Duration;

use fairq::ClientKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::methods::MethodList;
use crate::refusal::{Reason, Refusal};
use crate::upstream::limits::{ClientLimits, ClientSlot};

/// Admits reads: refuses methods that are not served, bounds the reads under way and the reads a
/// second of each client, and the reads under way in all.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) methods: MethodList,
    pub(super) clients: Arc<ClientLimits>,
    places: Arc<Semaphore>,
}

/// A read that was admitted. It counts until this is dropped, so its answer's body keeps it.
#[derive(Debug)]
pub(super) struct Admitted {
    _client: ClientSlot,
    _place: OwnedSemaphorePermit,
}

impl Admission {
    /// No read is under way. `reads` may be at a time.
    pub(super) fn new(methods: MethodList, clients: Arc<ClientLimits>, reads: usize) -> Self {
        Self {
            methods,
            clients,
            places: Arc::new(Semaphore::new(reads)),
        }
    }

    /// Admits a request of this many calls. While all places are taken it waits for
    /// [`PLACE_LIMIT`], in the order of arrival, and is then refused.
    ///
    /// The client's concurrency comes before its rate, so that a read that is refused because
    /// others are under way costs nothing of the rate.
    ///
    /// # Cancel safety
    /// Dropping the future gives everything back but the rate.
    pub(super) async fn enter(
        &self,
        client: ClientKey,
        method: Option<&str>,
        calls: u32,
    ) -> Result<Admitted, Refusal> {
        method.map_or(Ok(()), |method| self.methods.check(method))?;
        let slot = self.clients.enter(client)?;
        self.clients.admit(client, calls)?;
        let place = Arc::clone(&self.places).acquire_owned();
        match timeout(PLACE_LIMIT, place).await {
            Ok(Ok(place)) => Ok(Admitted {
                _client: slot,
                _place: place,
            }),
            Ok(Err(_)) => Err(Refusal::new(Reason::Shutdown, "the proxy is going down")),
            Err(_) => {
                let busy = Refusal::new(Reason::Rate, "too many reads are under way");
                Err(busy.retry_after(PLACE_LIMIT))
            }
        }
    }
}

/// How long a read waits for one of the places that all share.
const PLACE_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;

    /// The admission of the default configuration, changed.
    fn admission(change: impl FnOnce(&mut Config)) -> Admission {
        let mut config = Config::default();
        change(&mut config);
        let clients = ClientLimits::new(&config, Clock::start(), [1, 2]).unwrap();
        let methods = MethodList::new(&[], &["unsafe_*".to_owned()]);
        Admission::new(methods, Arc::new(clients), config.reads.concurrency)
    }

    async fn enter(admission: &Admission, client: u8) -> Result<Admitted, Refusal> {
        let client = KeyScheme::default().key([127, 0, 0, client].into());
        admission.enter(client, Some("status"), 1).await
    }

    #[tokio::test]
    async fn a_read_counts_until_its_body_is_dropped() {
        let admission = admission(|config| config.reads.concurrency_per_client = 1);
        let first = enter(&admission, 1).await.unwrap();
        let second = enter(&admission, 1).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        let other = enter(&admission, 2).await.unwrap();
        assert_eq!(admission.clients.under_way(), 2);
        drop((first, other));
        assert_eq!(admission.clients.under_way(), 0);
        enter(&admission, 1).await.unwrap();
    }

    #[tokio::test]
    async fn each_client_has_a_rate_of_its_own_and_each_call_counts() {
        // Three calls at once, and the next one in a quarter of an hour.
        let admission = admission(|config| {
            config.reads.rate_per_client = "0.001/s".parse().unwrap();
            config.reads.burst_per_client = Duration::from_secs(3_000);
        });
        let calls = |client, calls| {
            let client = KeyScheme::default().key([127, 0, 0, client].into());
            admission.enter(client, Some("status"), calls)
        };
        calls(1, 2).await.unwrap();
        assert_eq!(calls(1, 2).await.unwrap_err().reason, Reason::Rate);
        calls(1, 1).await.unwrap();
        calls(2, 3).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_second_for_a_body_to_be_dropped() {
        let admission = admission(|config| config.reads.concurrency = 1);
        let start = Instant::now();
        let first = enter(&admission, 1).await.unwrap();
        let second = enter(&admission, 1).await;
        assert_eq!(second.unwrap_err().reason, Reason::Rate);
        assert_eq!(start.elapsed(), PLACE_LIMIT);
        let (second, ()) = tokio::join!(enter(&admission, 1), async {
            sleep(PLACE_LIMIT / 2).await;
            drop(first);
        });
        second.unwrap();
        assert_eq!(start.elapsed(), PLACE_LIMIT * 3 / 2);
    }

    #[tokio::test]
    async fn a_refused_method_costs_nothing() {
        let admission = admission(|config| config.reads.concurrency_per_client = 1);
        let client = KeyScheme::default().key([127, 0, 0, 1].into());
        let refused = admission.enter(client, Some("unsafe_flush_mempool"), 1);
        assert_eq!(refused.await.unwrap_err().reason, Reason::Method);
        assert_eq!(admission.clients.under_way(), 0);
        enter(&admission, 1).await.unwrap();
    }
}
