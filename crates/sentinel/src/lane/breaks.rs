//! Breaks as the lane takes them: the controller's decisions, logged and counted.

use std::sync::Arc;

use control::{
    BlockSeen, BreakCause, BreakController, BreakEvent, BreakFacts, BreakState, PauseSettings,
};
use pacing::Nanos;
use tracing::{debug, info, warn};

use crate::metrics::{Metrics, ReconnectCause};

/// The break controller.
pub(super) struct Breaks {
    controller: BreakController,
    metrics: Arc<Metrics>,
    /// Why the last break began.
    cause: ReconnectCause,
}

impl Breaks {
    pub(super) fn new(
        now: Nanos,
        settings: &PauseSettings,
        seed: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            controller: BreakController::new(now, settings, seed),
            metrics,
            cause: ReconnectCause::Interval,
        }
    }

    /// Moves on with the time. Whether the write connections are to be replaced.
    pub(super) fn tick(&mut self, now: Nanos, facts: &BreakFacts) -> bool {
        let events = self.controller.tick(now, facts);
        for event in &events {
            self.report(event);
        }
        events.contains(&BreakEvent::Reconnect)
    }

    fn report(&mut self, event: &BreakEvent) {
        match event {
            BreakEvent::Entered(state) => {
                info!(state = state.name(), "break controller");
                self.metrics.controller(*state);
            }
            BreakEvent::Began {
                cause,
                rate,
                baseline,
            } => {
                info!(
                    cause = cause.name(),
                    rate = rate.round(),
                    baseline = baseline.map(f64::round),
                    "a break begins: no writes are sent"
                );
                self.metrics.paused(*cause);
                self.cause = match cause {
                    BreakCause::Interval => ReconnectCause::Interval,
                    BreakCause::Threshold => ReconnectCause::Threshold,
                };
            }
            BreakEvent::Reconnect => debug!("new connections are opened"),
            BreakEvent::Reopened { closed } => self.metrics.paused_for(*closed),
            BreakEvent::Skipped => debug!("a break is left out: no demand, or no blocks"),
            BreakEvent::Measured { gain } => {
                info!(
                    gain = (gain * 1e3).round() / 1e3,
                    "the effect of the break was measured"
                );
                self.metrics.pause_gain(*gain - 1.0);
            }
            BreakEvent::Spread { interval } => {
                warn!(%interval, "breaks do not help; the time between them is doubled");
            }
        }
    }

    /// The new connections are in use.
    pub(super) fn reconnected(&mut self) {
        self.controller.reconnected();
        self.metrics.reconnected(self.cause);
    }

    pub(super) fn block(&mut self, block: &BlockSeen) {
        self.controller.block(block);
    }

    pub(super) fn chain_replaced(&mut self, now: Nanos) {
        self.controller.chain_replaced(now);
    }

    /// The share of the rate that may be used, 0 to 1.
    pub(super) const fn factor(&self) -> f64 {
        self.controller.factor()
    }

    pub(super) const fn state(&self) -> BreakState {
        self.controller.state()
    }

    /// Until when nothing is sent, as far as is known.
    pub(super) fn closed_until(&self, now: Nanos) -> Nanos {
        self.controller.closed_until(now)
    }
}
