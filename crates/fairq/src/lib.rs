//! Divides a scarce write capacity among clients: client keys, a fair queue between clients, exact
//! rate limits, and a table of clients that cannot grow.
//!
//! What it is not: it opens no socket, reads no clock, draws no random number and starts no thread.
//! Time comes in as [`pacing::Nanos`], the seed of its hashes as a parameter, so every run of it is
//! the same run. It does not know what the queued values are.
//!
//! Read first: [`FairQueue`] (whose turn it is), [`Gcra`] (when the next one may leave) and
//! [`ClientKey`] (what counts as one client).
//!
//! ```
//! use fairq::{FairQueue, Gcra, Item, KeyScheme, QueueLimits, Weight};
//! use pacing::Nanos;
//!
//! let scheme = KeyScheme::default();
//! let loud = scheme.key("127.0.0.2".parse()?);
//! let quiet = scheme.key("127.0.0.3".parse()?);
//! let mut queue = FairQueue::new(QueueLimits::default(), [7, 11])?;
//! for n in 0..1_000 {
//!     queue.push(loud, 1, Weight::ONE, Item::new(n, 250))?;
//! }
//! queue.push(quiet, 2, Weight::ONE, Item::new(5_000, 250))?;
//!
//! let mut emitter = Gcra::new("2000/s".parse()?, Nanos::from_millis(1));
//! let mut now = Nanos::ZERO;
//! let mut sent = Vec::new();
//! while sent.len() < 4 {
//!     match emitter.try_take(now) {
//!         Ok(()) => sent.extend(queue.pop().map(|popped| popped.item.value)),
//!         Err(at) => now = at,
//!     }
//! }
//! // The quiet one does not wait for the thousand.
//! assert_eq!(sent, [0, 5_000, 1, 2]);
//! assert_eq!(now, Nanos::from_millis(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod gcra;
mod key;
mod network;
mod queue;
mod table;

pub use self::{
    gcra::{Gcra, GcraLimit, GcraState},
    key::{ClientKey, KeyScheme},
    network::{Network, NetworkMap},
    queue::{
        Age, Backlog, FairQueue, Item, Popped, PushError, Pushed, QueueLimits, Refusal, Weight,
    },
    table::{ClientTable, Entry, Neutral, SlotId, TableLimits},
};

/// Why a setting or a text is not legal.
///
/// Displays as one line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);

/// Refuses a `value` that is out of range; `name` is the setting's.
pub(crate) fn check_limit(
    name: &str,
    value: usize,
    (least, most): (usize, usize),
) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error(format!("{name} is {least} to {most}, not {value}")))
}
