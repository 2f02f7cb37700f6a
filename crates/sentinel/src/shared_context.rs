//! What the parts of one proxy share.

use std::sync::Arc;

use rpc::Trust;
use tokio_util::sync::CancellationToken;

use crate::access::AccessLog;
use crate::budget::{Budget, Ledger};
use crate::clock::Clock;
use crate::config::{Config, Live};
use crate::identity::LiveIdentities;
use crate::metrics::Metrics;
use crate::shadow::Shadow;
use crate::tls::LiveTls;

/// What the parts of one proxy share. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedContext {
    /// The configuration in force.
    pub config: Live,
    /// The clock that stamps everything.
    pub clock: Clock,
    /// Where events are counted.
    pub metrics: Arc<Metrics>,
    /// The account of buffered bytes.
    pub ledger: Ledger,
    /// What clients have taken of all that they share.
    pub budget: Budget,
    /// How clients are identified.
    pub(crate) identities: LiveIdentities,
    /// What clients' connections are encrypted with.
    pub tls: LiveTls,
    /// Whose certificates are accepted of nodes.
    pub trust: Trust,
    /// Where the ends of requests are written down, if anywhere.
    pub(crate) access: Option<AccessLog>,
    /// What would have been refused, where nothing is.
    pub(crate) shadow: Shadow,
    /// Random numbers that clients cannot guess: the seeds of all hashes of what clients send, and of
    /// the jitter of breaks.
    pub seed: [u64; 2],
    /// Cancelled when no more requests are to be taken.
    pub stop: CancellationToken,
    /// Cancelled when no more connections are to be taken, with `stop` or before it: then another process takes them.
    pub leave: CancellationToken,
    /// Cancelled last: the nodes' watchers and the operator's listener outlive the clients.
    pub end: CancellationToken,
}

impl SharedContext {
    /// What surrounds a proxy of this configuration, which takes requests until `stop`.
    pub fn new(config: Config, stop: CancellationToken) -> Self {
        let seed = seed();
        let budget = Budget::new(&config, seed);
        let (config, clock) = (Live::new(config), Clock::start());
        let metrics = Arc::new(Metrics::default());
        Self {
            shadow: Shadow::new(&config, clock, (&metrics, seed), &stop),
            ledger: budget.ledger(),
            budget,
            config,
            clock,
            metrics,
            identities: LiveIdentities::default(),
            tls: LiveTls::default(),
            trust: Trust::native(),
            access: None,
            seed,
            leave: stop.child_token(),
            stop,
            end: CancellationToken::new(),
        }
    }
}

/// Numbers that clients cannot guess: the keys of the standard library's hash maps, which come
/// from the system's randomness.
pub(crate) fn seed() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    [1, 2].map(|number: u64| RandomState::new().hash_one(number))
}
