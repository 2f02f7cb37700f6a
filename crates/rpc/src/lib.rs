//! Nodes, seen from a client that measures, whatever their chain.
//!
//! A non-blocking [`Connection`] for an event loop that sends many transactions over few sockets, and an
//! asynchronous side for everything that is not hot: queries over JSON-RPC ([`Client`]) and what a follower of
//! blocks tells ([`Follower`]). Chains build on these.
//!
//! It is not a general HTTP or WebSocket client: it speaks what a node's RPC speaks, bounded in
//! every dimension. It tries nothing again by itself, and every stamp comes from the caller's clock.
//!
//! Read first: [`Endpoint`], [`Connection`], [`Follower`].

mod client;
mod connection;
mod endpoint;
mod follow;

pub use client::{
    AnswerLimit, Client, ClientError, ClientOptions, Gas, HeaderTime, Mempool, TimeError,
    check_trust, encode_call, number,
};
pub use connection::{
    Connection, ConnectionError, ConnectionOptions, Counters, Flushed, Interest, Message,
    ReadProgress, TaskConnection, Trust, TrustError, keep_alive,
};
pub use endpoint::{Endpoint, EndpointError, Transport};
pub use follow::{
    Arrival, Backoff, BlockAnswer, BlockSource, ChainStatus, FollowError, FollowEvent,
    FollowOptions, FollowedBlock, Follower, FollowerWorker, Height, Loss, Query, Question,
    Reconnecting, SourceBlock, SourceEvent, finished,
};
pub use wire::jsonrpc::{BroadcastMethod, UnknownMethod, broadcast_len, encode_broadcast};
