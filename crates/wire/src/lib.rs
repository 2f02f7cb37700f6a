//! The bytes of HTTP/1.1, of WebSockets and of JSON-RPC, as pure functions over buffers.
//!
//! One implementation for the senders of `rpc`, the built-in node, the proxy and the sink of the benches: heads and
//! bodies in [`http`], frames in [`ws`], Go's JSON in [`json`], requests in [`jsonrpc`] and what they ask for in
//! [`calls`], requests to a Cosmos SDK's other listeners in [`doors`], the header of the PROXY protocol in `proxy` (a
//! feature); beside them hex, base64 and queries ([`encoding`]) and protobuf ([`proto`]).
//!
//! It is not a client or a server: nothing here owns a socket or reads a clock. Input is refused
//! rather than repaired: a message whose limits two readers could understand differently is an
//! error.
//!
//! Read first: [`http::HeadReader`], [`ws::FrameReader`], [`json::Scanner`].

pub mod calls;
pub mod doors;
pub mod encoding;
pub mod http;
pub mod json;
pub mod jsonrpc;
pub mod proto;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod ws;
