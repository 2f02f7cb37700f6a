//! What goes into the controller of breaks, and what comes out.

use pacing::Nanos;

/// What the controller has to know at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakFacts {
    /// Writes wait.
    pub backlogged: bool,
    /// Writes sent and not answered.
    pub in_flight: usize,
    /// The node is down, or reads blocks that others made long ago.
    pub catching_up: bool,
    /// Connections for writes are up.
    pub connected: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakDecision {
    /// Whether writes may be sent.
    pub gate: Gate,
    /// Open new connections now, then call `BreakController::reconnected`, then close the old
    /// ones.
    pub reconnect: bool,
    /// What has happened, for the log and for metrics, in order.
    pub events: Vec<BreakEvent>,
}

/// Whether writes may be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// At this share of the rate, above 0 and at most 1.
    Open {
        /// The share.
        factor: f64,
    },
    /// Nothing new; what is under way is awaited.
    Draining,
    /// Nothing.
    Paused,
}

pacing::named! {
    /// Why there is a break.
    pub enum BreakCause {
        /// The clock.
        Interval => "interval",
        /// Measured throughput.
        Threshold => "threshold",
    }
}

pacing::named! {
    /// The states.
    #[derive(Default)]
    pub enum BreakState {
        /// Writes are sent.
        #[default]
        Running => "running",
        /// What is under way is awaited.
        Draining => "draining",
        /// Nothing is sent.
        Paused => "paused",
        /// The pause is over, the new connections are not up yet.
        Reconnecting => "reconnecting",
        /// The rate rises to the full rate.
        Ramping => "ramping",
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEvent {
    /// The state changed.
    Entered(BreakState),
    /// A break began.
    Began {
        /// Why.
        cause: BreakCause,
        /// Committed transactions a second at that moment, smoothed.
        rate: f64,
        /// What is usual, if that was learnt.
        baseline: Option<f64>,
    },
    /// A break by the clock was left out: there was no demand, or no blocks.
    Skipped,
    /// The gain of a break was measured: what was committed with it, as a ratio to without.
    Measured {
        /// 1 is no effect.
        gain: f64,
    },
    /// Breaks did not help: they will be so far apart now.
    Spread {
        /// The new time between them.
        interval: Nanos,
    },
}
