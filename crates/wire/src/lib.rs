//! The bytes of HTTP/1.1 and of WebSockets, as pure functions over buffers.
//!
//! One implementation for the senders of `rpc`, the built-in node, the proxy and the sink of the
//! benches: heads and bodies in [`http`], frames in [`ws`].
//!
//! It is not a client or a server: nothing here owns a socket or reads a clock. Input is refused
//! rather than repaired: a message whose limits two readers could understand differently is an
//! error.
//!
//! Read first: [`http::HeadReader`], [`http::BodyReader`], [`ws::FrameReader`].

pub mod http;
pub mod ws;
