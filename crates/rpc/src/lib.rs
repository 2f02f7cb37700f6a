//! The JSON-RPC of CometBFT nodes, seen from a client that measures.
//!
//! Three layers: bodies ([`encode_broadcast`], [`decode_answer`]), a non-blocking [`Connection`]
//! for an event loop that sends many transactions over few sockets, and an asynchronous side for
//! everything that is not hot: queries ([`Client`]) and every block of a chain ([`follow`]). Chains whose nodes
//! speak something else build on [`Client`], [`Connection`] and [`Follower`].
//!
//! It is not a general HTTP or WebSocket client: it speaks what a node's RPC speaks, bounded in
//! every dimension. Only the follower tries again by itself, and every stamp comes from the caller's
//! clock.
//!
//! Read first: [`Endpoint`], [`Connection`], [`Follower`].

mod client;
mod codec;
mod connection;
mod endpoint;
mod follower;

pub use client::{
    AnswerLimit, BlockCodes, BlockContent, BroadcastReply, Client, ClientError, ClientOptions, Gas,
    HeaderTime, Mempool, Status, TimeError, check_trust, number,
};
pub use codec::{Answer, AnswerId, DecodeError, Outcome, decode_answer};
pub use connection::{
    Connection, ConnectionError, ConnectionOptions, Counters, Flushed, Interest, Message,
    ReadProgress, TaskConnection, Trust, TrustError,
};
pub use endpoint::{Endpoint, EndpointError, Transport};
pub use follower::{
    Backoff, FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower, FollowerWorker,
    Height, Query, finished, follow,
};
pub use wire::jsonrpc::{BroadcastMethod, UnknownMethod, broadcast_len, encode_broadcast};
