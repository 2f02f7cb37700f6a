//! BigchainDB's HTTP API and event stream.
//!
//! The API has no headers and no height to ask for: what is committed comes as events, one for each
//! valid transaction, and can be looked up block by block. So [`follow_bigchaindb`] takes events as
//! they come, and asks for blocks where events may have been lost.

mod api;
mod follow;
mod gather;

pub use self::api::{BigchaindbAbout, BigchaindbClient, bigchaindb_transactions_path};
pub use self::follow::{EventSource, follow_bigchaindb};
