//! The JSON-RPC of Bitcoin nodes: queries, and blocks of a chain that may take some back.
//!
//! Ids are in the order of bytes in which they are shown, so their text is their bytes in hexadecimal.

mod api;
mod branch;
mod follow;

pub use self::api::{
    BitcoinAdmission, BitcoinBlock, BitcoinClient, BitcoinInfo, BitcoinOutput, BitcoinRefusal,
    BitcoinScript,
};
pub use self::follow::{BitcoinFollowerWorker, follow_bitcoin};
