//! What can be set. The program that owns a controller resolves these values; nothing here parses.

use std::time::Duration;

use pacing::Rate;

/// What bounds the writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaceMode {
    /// What the node does; `max_req` is the ceiling.
    #[default]
    Adaptive,
    /// The rate `max_req`.
    Fixed,
    /// Nothing but the writes under way.
    Off,
}

base::settings! {
    /// The settings of a `BreakController`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PauseSettings {
        /// Time from the end of one break of the clock to the start of the next. Default: the clock triggers none.
        pub interval: Option<Duration> = None,
        /// Breaks when fewer transactions a second are committed under demand. Default: none.
        pub min_tx_rate: MinTxRate = MinTxRate::Off,
        /// How long a break lasts. Default 1 s.
        pub length: Duration = Duration::from_secs(1),
        /// What a break does. Default: pause.
        pub action: PauseAction = PauseAction::Pause,
    }
}

/// Below which throughput the node is given a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinTxRate {
    /// Throughput brings no breaks.
    Off,
    /// Committed transactions a second.
    Rate(Rate),
    /// Percent of the rate that the node was seen to sustain.
    Percent(u8),
}

/// What a break does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseAction {
    /// Nothing is sent.
    Pause,
    /// The write connections are replaced as well.
    Reconnect,
}

impl PaceMode {
    /// Connections to the node at most: the adaptive pace has as many as lines, or fewer where answers come as fast.
    pub const fn most_connections(self) -> usize {
        match self {
            Self::Adaptive => MOST_CONNECTIONS,
            Self::Fixed | Self::Off => 1,
        }
    }
}

/// Clients of a node have ten or so where they flood it (`docs/experiments.md`); with each connection
/// more readers take CPU from consensus.
const MOST_CONNECTIONS: usize = 64;
