//! Servers for tests: a real CometBFT on free ports and scripted doubles. And what can be checked of
//! texts: queries against metrics, examples against command lines; `tests/it` follows the links of all
//! documents.
//!
//! It is a development aid: it starts processes and opens sockets, and its calls block. It is not
//! a client of the RPC (that is the `rpc` crate) and never a dependency of a shipped program.
//!
//! Read first: [`CometBft`], [`CometOptions`], [`Http`].

mod authority;
mod chain;
mod comet;
mod dialects;
mod http;
mod node;
mod program;
mod queries;
mod scripted;

pub use authority::{Authority, Issued};
pub use chain::{FakeChain, Upgrades};
pub use comet::{CometBft, CometError, CometOptions};
pub use comet::{Simd, SimdError};
pub use dialects::Dialect;
pub use http::{Http, HttpAnswer, RawAnswer, exchange};
pub use node::{Behaviour, FakeNode};
pub use program::Nats;
pub use program::{Ended, Judged, Place, Running, wait_until};
pub use queries::Exposition;
pub use queries::{complaints_about_examples, examples};
pub use scripted::{
    FrameKind, ScriptedConnection, ScriptedFrame, ScriptedRequest, ScriptedServer, frame,
    http_answer,
};
pub use servers::free_port;
