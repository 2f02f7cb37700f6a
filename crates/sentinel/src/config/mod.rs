//! Everything that can be set, resolved: nothing behind this module parses text.

mod check;
mod error;
mod keys;
mod layers;
mod resolve;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

use control::PaceSettings;

pub use control::{PaceMode, PauseAction, PauseMode, PauseSettings};

pub use self::error::{ConfigError, ConfigErrors, Origin};
pub use self::keys::{
    Admin, Buffer, Config, Fair, Flag, KEYS, Key, Limits, Listen, Log, Pace, Reads, Shutdown,
    Trust, Upstream, Ws,
};
pub use self::layers::{FlagValue, Sources};
pub use self::resolve::{Resolved, load, parse};

/// Which writes stay in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    /// Those of a connection.
    Connection,
    /// All of a client.
    Client,
    /// Those of a connection, and those of a Cosmos SDK's account, over whichever connections and clients.
    Account,
}

/// When a `broadcast_tx_async` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncAck {
    /// When it was admitted, with the hash computed here: the default.
    Buffered,
    /// When the node has answered.
    Forwarded,
}

impl Config {
    /// The value of a key, as people write it; empty if there is no such key.
    pub fn shown(&self, key: &str) -> String {
        let known = KEYS.iter().find(|known| known.name == key);
        let value = known.map(|known| known.value(self)).unwrap_or_default();
        value.trim_matches('"').to_owned()
    }

    /// The settings of the pacer.
    pub const fn pacer(&self) -> PaceSettings {
        let pace = &self.pace;
        PaceSettings {
            mode: pace.mode,
            min_req: pace.min_req,
            burst: pace.burst,
            in_flight: pace.inflight,
            connections: self.upstream.connections,
            mempool_size: pace.mempool_size,
            mempool_fill: pace.mempool_fill,
        }
    }
}
