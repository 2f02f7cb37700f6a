//! Bitcoin nodes: queries over their JSON-RPC, and blocks of a chain that may take some back, over that or as a peer.
//!
//! Ids are in the order of bytes in which they are shown, so their text is their bytes in hexadecimal.

mod api;
mod branch;
mod follow;
mod observe;
mod peer;

pub use self::api::{
    BitcoinAdmission, BitcoinBlock, BitcoinClient, BitcoinInfo, BitcoinOutput, BitcoinRefusal,
    BitcoinScript,
};
pub use self::follow::{follow_bitcoin, follow_bitcoin_peer};
pub use self::peer::{PeerInfo, probe_peer};
