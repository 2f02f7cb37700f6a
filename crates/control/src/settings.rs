//! What can be set. The program that owns a controller resolves these values; nothing here parses.

use std::time::Duration;

use pacing::Rate;

pacing::settings! {
    /// The settings of a `Pacer`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PaceSettings {
        /// What bounds the writes.
        pub mode: PaceMode = PaceMode::Adaptive,
        /// The pace is never below this. Default 50/s.
        pub min_req: Rate = Rate::per_second(50).expect("50/s is a rate"),
        /// How much may be sent at once, as time at the current rate; at most 20 ms. Default 20 ms.
        pub burst: Duration = Duration::from_millis(20),
        /// Writes under way at most. Default 512.
        pub in_flight: usize = 512,
        /// Connections to the node at first; more are opened where that raises the rate of answers.
        /// Default 1.
        pub connections: usize = 1,
        /// Transactions the node's mempool holds at most, if known. Otherwise the number is taken from
        /// the node's refusals.
        pub mempool_size: Option<usize> = None,
        /// Share of the mempool that may be filled, above 0 and at most 1. Default 0.99.
        pub mempool_fill: f64 = 0.99,
    }
}

/// What bounds the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceMode {
    /// What the node does; `max_req` is the ceiling.
    Adaptive,
    /// The rate `max_req`.
    Fixed,
    /// Nothing but the writes under way.
    Off,
}

pacing::settings! {
    /// The settings of a `BreakController`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PauseSettings {
        /// What triggers a break. Default: nothing.
        pub mode: PauseMode = PauseMode::Off,
        /// What a break does. Default: pause.
        pub action: PauseAction = PauseAction::Pause,
        /// Time from the end of one break to the start of the next. Default 100 s.
        pub interval: Duration = Duration::from_secs(100),
        /// How long a break lasts. Default 1 s.
        pub length: Duration = Duration::from_secs(1),
        /// Threshold mode: breaks when fewer transactions a second are committed under demand.
        pub min_tx_rate: Option<Rate> = None,
        /// Threshold mode without a fixed rate: share of the learnt baseline. Default 0.55.
        pub min_fraction: f64 = 0.55,
    }
}

/// What triggers a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Nothing.
    Off,
    /// The clock.
    Interval,
    /// Measured throughput.
    Threshold,
    /// Either.
    Both,
}

/// What a break does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseAction {
    /// Nothing is sent.
    Pause,
    /// The write connections are replaced as well.
    Reconnect,
}

impl PaceSettings {
    /// Connections to the node at most.
    pub const fn most_connections(&self) -> usize {
        match self.mode {
            PaceMode::Adaptive if self.connections < MOST_CONNECTIONS => MOST_CONNECTIONS,
            _ => self.connections,
        }
    }
}

/// Clients of a node have ten or so where they flood it (`docs/experiments.md`); with each connection
/// more readers take CPU from consensus.
const MOST_CONNECTIONS: usize = 64;

impl PauseMode {
    /// Whether the clock triggers breaks.
    pub const fn by_clock(self) -> bool {
        matches!(self, Self::Interval | Self::Both)
    }

    /// Whether measured throughput triggers breaks.
    pub const fn by_throughput(self) -> bool {
        matches!(self, Self::Threshold | Self::Both)
    }
}
