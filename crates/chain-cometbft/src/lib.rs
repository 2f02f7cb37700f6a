//! CometBFT and Tendermint nodes: their answers read in one pass ([`decode_answer`]), their queries ([`Client`]), every
//! block of their chain ([`follow`]), and, with the feature `load`, what `txgen` lists ([`COMETBFT`]).
//!
//! Read first: [`decode_answer`], [`follow`], [`Cometbft`], which writes the requests of a load.

mod client;
mod codec;
mod follower;
#[cfg(feature = "load")]
mod kvstore;
#[cfg(feature = "load")]
mod load;

pub use self::client::{BlockCodes, BlockContent, BroadcastReply, ByHash, Client, Naming, Status};
pub use self::codec::{Answer, AnswerId, DecodeError, Outcome, decode_answer};
pub use self::follower::{CometbftSource, follow, follow_named};
#[cfg(feature = "load")]
pub use self::kvstore::{KvStore, MIN_SIZE};
#[cfg(feature = "load")]
pub use self::load::{COMETBFT, Cometbft, CometbftChain, CometbftTarget, caught_up};
