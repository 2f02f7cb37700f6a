//! The log of refusals: one line a second for each reason. All of them are counted.

use fairq::ClientKey;
use tracing::info;

use crate::clock::Clock;
use crate::refusal::{Reason, Refusal};
use crate::sampled::Sampled;

/// The log lines about refusals: for each reason one a second at most, with how many were left out.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    clock: Clock,
    by_reason: [Sampled; Reason::ALL.len()],
}

impl RefusalLog {
    /// Nothing was refused yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            by_reason: std::array::from_fn(|_| Sampled::default()),
        }
    }

    /// Logs that a client was refused, if a line is due.
    pub(crate) fn tell(&self, client: ClientKey, refusal: &Refusal) {
        let of_reason = &self.by_reason[refusal.reason.index()];
        if let Some(untold) = of_reason.turn(self.clock.now()) {
            info!(
                reason = refusal.reason.name(),
                %client,
                detail = refusal.detail,
                untold,
                "refused"
            );
        }
    }
}
