//! Sets of keys that answer one question: was this key claimed before?

mod exact;
mod fast;
mod generations;
mod rolling;
mod sharded;

pub use exact::ExactSet;
pub use fast::{FastFilter, Layout, Secret};
pub use generations::TwoGenerationFilter;
pub use rolling::RollingFilter;
pub use sharded::Sharded;

/// A set of keys, perhaps an approximate one: it may take a new key for a known one.
///
/// Claiming needs exclusive access. That is what gives each key one winner: with bits that are set one
/// by one through shared access, two threads that claim the same key can each find one of its bits
/// unset. [`Sharded`] divides a set so that several threads may claim.
pub trait Filter<K>: Send {
    /// Adds a key. True if it was not there: the caller is the first, or the first since the filter
    /// forgot it.
    fn claim(&mut self, key: &K) -> bool;

    /// Whether a key seems to be there.
    fn contains(&self, key: &K) -> bool;

    /// Forgets every key.
    fn clear(&mut self);
}
