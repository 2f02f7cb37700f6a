//! What the lane says to the operator: one line per change of state, refusals sampled.

use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use crate::refusal::{Reason, Refusal};
use control::BreakEvent;

/// The lane's log lines.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Lines about single transactions come at most once a second.
    last_refused: Option<Instant>,
    unsaid: u64,
    failing: bool,
}

impl Log {
    pub(super) fn connected(&mut self, node: Option<usize>) {
        self.failing = false;
        info!(node, "write connections are up");
    }

    pub(super) fn not_connected(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            warn!(reason, "the node takes no write connections; trying on");
        }
    }

    pub(super) fn broken(&self, reason: &str, under_way: usize) {
        warn!(
            reason,
            under_way,
            "the write connections broke; what was under way is held until its fate is known"
        );
    }

    pub(super) fn recovered(&self, accepted: usize, under_way: usize) {
        info!(
            accepted,
            under_way, "what the node may have lost is offered again"
        );
    }

    pub(super) fn active(&self, node: Option<usize>, url: &str) {
        match node {
            Some(node) => info!(node, url, "writes go to this node"),
            None => warn!("no node takes writes; they wait until their deadlines"),
        }
    }

    pub(super) fn about_break(&self, event: &BreakEvent) {
        match event {
            BreakEvent::Entered(state) => info!(state = state.name(), "breaks"),
            BreakEvent::Began {
                cause,
                rate,
                baseline,
            } => info!(?cause, rate, baseline, "the node gets a break"),
            BreakEvent::Skipped => debug!("a break is left out: nothing to give a break from"),
            BreakEvent::Judged { gain } => info!(gain, "the break was judged"),
            BreakEvent::Spread { interval } => {
                warn!(%interval, "breaks do not help; they come further apart");
            }
        }
    }

    /// A transaction whose client was told that all is well.
    pub(super) fn refused_later(&mut self, answer: &str) {
        let now = Instant::now();
        if self
            .last_refused
            .is_some_and(|last| now.duration_since(last) < Duration::from_secs(1))
        {
            self.unsaid += 1;
            return;
        }
        self.last_refused = Some(now);
        let unsaid = std::mem::take(&mut self.unsaid);
        warn!(
            answer,
            unsaid, "the node refused a transaction that was acknowledged before"
        );
    }

    pub(super) fn stopped(&self, lost: usize) {
        if lost > 0 {
            warn!(lost, "stopped with writes that were not forwarded");
        } else {
            info!("every admitted write was dealt with");
        }
    }
}

/// The refusal of what is still here at the end.
pub(super) fn stopped() -> Refusal {
    Refusal::new(Reason::Shutdown, "the proxy is going down").retry_after(Duration::from_secs(5))
}

/// The refusal of one commit too many.
pub(super) fn too_many_commits() -> Refusal {
    Refusal::new(
        Reason::Rate,
        "too many broadcast_tx_commit calls wait for a block; use broadcast_tx_sync",
    )
    .retry_after(Duration::from_secs(1))
}
