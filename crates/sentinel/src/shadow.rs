//! Shadow: everything is decided and counted and nothing is refused, so that an operator sees in production what the
//! limits would do to the present clients.
//!
//! Every decision passes through [`Shadow::judge`], which turns a refusal into a count while `limits.shadow` is
//! set. What bounds memory is refused all the same: that is not for trying.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use fairq::{ClientKey, ClientTable, Neutral, TableLimits};
use pacing::Nanos;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessLog, Ended, WOULD_REJECT};
use crate::clock::Clock;
use crate::config::Live;
use crate::metrics::Metrics;
use crate::refusal::{Reason, Refusal};

/// What would have been refused. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Shadow(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Live,
    clock: Clock,
    metrics: Arc<Metrics>,
    access: OnceLock<AccessLog>,
    /// Made for the first.
    clients: Mutex<Option<ClientTable<Counts>>>,
    seed: [u64; 2],
    stop: CancellationToken,
}

/// How often one client would have been refused, by reason.
#[derive(Debug, Default)]
struct Counts {
    of: [u32; Reason::ALL.len()],
    last: Nanos,
}

impl Neutral for Counts {
    fn is_neutral(&self, now: Nanos) -> bool {
        self.of == [0; Reason::ALL.len()] || self.last.saturating_add(REMEMBERED) <= now
    }
}

impl Shadow {
    /// Nothing would have been refused yet. `seed` has to be secret.
    pub(crate) fn new(
        config: &Live,
        clock: Clock,
        (metrics, seed): (&Arc<Metrics>, [u64; 2]),
        stop: &CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            config: config.clone(),
            clock,
            metrics: Arc::clone(metrics),
            access: OnceLock::new(),
            clients: Mutex::new(None),
            seed,
            stop: stop.clone(),
        }))
    }

    /// Writes down there, too, what would have been refused.
    pub(crate) fn write_to(&self, access: &AccessLog) {
        // The first one stays: there is one in a program.
        let _ = self.0.access.set(access.clone());
    }

    /// Whether nothing is refused.
    pub(crate) fn is_on(&self) -> bool {
        self.0.config.load().limits.shadow
    }

    /// Whether no more requests are taken.
    pub(crate) fn is_ending(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// A decision about this client: in shadow a refusal is counted, and nothing is left of it.
    ///
    /// # Errors
    /// The refusal, unless in shadow.
    pub(crate) fn judge<T>(
        &self,
        client: ClientKey,
        decided: Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        match decided {
            Err(refusal) if self.is_on() => {
                self.note(client, &refusal);
                Ok(None)
            }
            decided => decided.map(Some),
        }
    }

    /// Counts what would have been refused, and writes it down.
    pub(crate) fn note(&self, client: ClientKey, refusal: &Refusal) {
        if self.is_ending() {
            return;
        }
        let inner = &*self.0;
        inner.metrics.would_refuse(refusal.reason);
        let now = inner.clock.now();
        let table = || ClientTable::new(LIMITS, inner.seed);
        let table = || table().expect("10,000 clients can be told apart");
        let mut clients = inner.clients.lock();
        let counts = clients.get_or_insert_with(table).entry(client, now).state;
        let count = &mut counts.of[refusal.reason.index()];
        *count = count.saturating_add(1);
        counts.last = now;
        drop(clients);
        if let Some(access) = inner.access.get() {
            access.tell(Ended::of(client), WOULD_REJECT, Some(refusal));
        }
    }

    /// What this client would have been refused for, and how often, as long as it is remembered.
    pub(crate) fn of(&self, client: ClientKey) -> BTreeMap<&'static str, u32> {
        let clients = self.0.clients.lock();
        let counts = clients.as_ref().and_then(|clients| clients.peek(&client));
        let counts = counts.map_or([0; Reason::ALL.len()], |counts| counts.of);
        let named = Reason::ALL.map(Reason::name).into_iter().zip(counts);
        named.filter(|(_, count)| *count > 0).collect()
    }
}

/// Clients whose counts are remembered: those that are refused, who are few.
const LIMITS: TableLimits = TableLimits {
    clients: 10_000,
    shared: 256,
};
/// How long after the last.
const REMEMBERED: Nanos = Nanos::from_secs(3_600);

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;

    use super::*;
    use crate::config::Config;
    use crate::shared_context::SharedContext;

    fn client(last: u8) -> ClientKey {
        KeyScheme::default().key([127, 0, 0, last].into())
    }

    #[test]
    fn a_refusal_is_a_count_in_shadow_and_a_refusal_without() {
        let full = || Refusal::new(Reason::QueueFull, "full");
        for shadow in [false, true] {
            let mut config = Config::default();
            config.limits.shadow = shadow;
            let context = SharedContext::new(config, CancellationToken::new());
            let judged = (context.shadow).judge(client(1), Err::<&str, _>(full()));
            assert_eq!(judged, if shadow { Ok(None) } else { Err(full()) });
            let expected = shadow.then_some(("queue_full", 1)).into_iter().collect();
            assert_eq!(context.shadow.of(client(1)), expected);
            assert!(context.shadow.of(client(2)).is_empty());
            // What is let through is not counted.
            let judged = context.shadow.judge(client(2), Ok("own"));
            assert_eq!(judged, Ok(Some("own")));
            assert!(context.shadow.of(client(2)).is_empty());
        }
    }
}
