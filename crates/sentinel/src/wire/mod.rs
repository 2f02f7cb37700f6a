//! Bytes on the wire of the listener: HTTP/1.1 and WebSocket, as pure functions over buffers.
//!
//! Nothing here owns a socket or reads a clock. Input is refused rather than repaired: where two
//! readers could disagree about a message's limits, there is none.

pub mod http;
pub mod ws;
