//! JSON-RPC requests as CometBFT writes and reads them.
//!
//! [`encode_broadcast`] writes the request that matters, [`PlainBroadcast`] recognises it in one
//! pass, and [`Request`] decodes any other with the rules of Go's `encoding/json`.

mod broadcast;
mod request;

pub use self::broadcast::{
    BroadcastMethod, PlainBroadcast, UnknownMethod, broadcast_len, encode_broadcast,
};
pub use self::request::{Request, RequestFault, RequestId};
