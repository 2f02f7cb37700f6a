//! The JSON-RPC of CometBFT nodes, seen from a client that measures.
//!
//! Three layers: bodies ([`encode_broadcast`], [`decode_answer`]), a non-blocking [`Connection`]
//! for an event loop that sends many transactions over few sockets, and an asynchronous side for
//! everything that is not hot: queries ([`Client`]) and every block of a chain ([`follow`]). What a
//! BigchainDB server in front of a node says is here too: its API and its events
//! ([`follow_bigchaindb`]), and what a Bitcoin node says over its JSON-RPC ([`follow_bitcoin`]) and to its
//! peers ([`follow_bitcoin_peer`]).
//!
//! It is not a general HTTP or WebSocket client: it speaks what a node's RPC speaks, bounded in
//! every dimension. Only the follower tries again by itself, and every stamp comes from the caller's
//! clock.
//!
//! Read first: [`Endpoint`], [`Connection`], [`Follower`].

mod bigchaindb;
mod bitcoin;
mod client;
mod codec;
mod connection;
mod endpoint;
mod follower;
mod peer;

pub use bigchaindb::{
    BigchaindbAbout, BigchaindbClient, EventFollowerWorker, bigchaindb_transactions_path,
    follow_bigchaindb,
};
pub use bitcoin::{
    BitcoinAdmission, BitcoinBlock, BitcoinClient, BitcoinInfo, BitcoinOutput, BitcoinRefusal,
    BitcoinScript, PeerInfo, follow_bitcoin, follow_bitcoin_peer, probe_peer,
};
pub use client::{
    AnswerLimit, BlockCodes, BlockContent, BroadcastReply, Client, ClientError, ClientOptions, Gas,
    HeaderTime, Mempool, Status, TimeError,
};
pub use codec::{Answer, AnswerId, DecodeError, Outcome, decode_answer};
pub use connection::{
    Connection, ConnectionError, ConnectionOptions, Counters, Flushed, Interest, Message,
    ReadProgress, Trust, TrustError,
};
pub use endpoint::{Endpoint, EndpointError, Transport};
pub use follower::{
    Backoff, FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower, FollowerWorker,
    Height, follow,
};
pub use peer::{PEER_NETWORKS, PeerNetwork};
pub use wire::jsonrpc::{BroadcastMethod, UnknownMethod, broadcast_len, encode_broadcast};
