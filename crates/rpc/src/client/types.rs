//! What queries give back: what the nodes of several chains answer, or why a query has no result.

use std::error::Error;
use std::str::FromStr;
use std::{fmt, io};

use jiff::Timestamp;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, Transport};

/// How full a mempool is: of CometBFT's `num_unconfirmed_txs`, or of `getmempoolinfo` of a Bitcoin node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Mempool {
    /// Transactions waiting.
    #[serde(rename = "n_txs", alias = "size", deserialize_with = "number")]
    pub txs: u64,
    /// Their size in bytes; 0 where the node does not give it (before 0.31).
    #[serde(
        default,
        rename = "total_bytes",
        alias = "bytes",
        deserialize_with = "number"
    )]
    pub bytes: u64,
}

/// The gas of a block's transactions, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gas {
    /// What they asked for; a block is filled by it (`ReapMaxBytesMaxGas` in `mempool/clist_mempool.go`).
    pub wanted: u64,
    /// What their execution took.
    pub used: u64,
}

/// An instant of the wall clock, as a block's header has it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct HeaderTime {
    /// Seconds since the Unix epoch.
    pub unix_seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl HeaderTime {
    /// Nanoseconds since the Unix epoch.
    pub fn unix_nanos(self) -> i128 {
        i128::from(self.unix_seconds) * NANOS + i128::from(self.nanos)
    }
}

/// The text is not a time such as `2026-11-21T02:38:17.399835359Z`.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a time such as 2026-11-21T02:38:17.399835359Z was expected")]
pub struct TimeError;

impl FromStr for HeaderTime {
    type Err = TimeError;

    /// Reads RFC 3339 in UTC, which is the only form Go prints for a block.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        // A timestamp may leave its seconds out, or have another offset.
        let has_all = text.len() >= SHORTEST_TIME.len() && text.ends_with('Z');
        let time: Timestamp = text.parse().map_err(|_| TimeError)?;
        let nanos = time.as_nanosecond();
        let whole = i64::try_from(nanos.div_euclid(NANOS)).ok();
        let rest = u32::try_from(nanos.rem_euclid(NANOS)).ok();
        let (unix_seconds, nanos) = whole.zip(rest).filter(|_| has_all).ok_or(TimeError)?;
        Ok(Self {
            unix_seconds,
            nanos,
        })
    }
}

const SHORTEST_TIME: &str = "2026-11-21T02:38:17Z";
/// Nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;

/// A whole number as a string, which is how CometBFT writes 64 bits, or bare. A node's are signed (`int64`), so
/// a larger one is none of its own, and the height behind one is a number as well.
///
/// # Errors
/// When it is something else.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct NumberVisitor;

    impl Visitor<'_> for NumberVisitor {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, also as a string")
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
            match i64::try_from(value) {
                Ok(_) => Ok(value),
                Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(value), &self)),
            }
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            match text.parse() {
                Ok(value) => self.visit_u64(value),
                Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }
    deserializer.deserialize_any(NumberVisitor)
}

/// Why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The client cannot be built.
    #[error("{endpoint} cannot be used: {reason}")]
    Setup {
        /// The node.
        endpoint: String,
        /// What is in the way.
        reason: String,
    },
    /// The address does not answer, or the connection broke.
    #[error(
        "{endpoint} cannot be reached: {reason}; check that the node runs and that host and port are right"
    )]
    Unreachable {
        /// The node.
        endpoint: String,
        /// The innermost cause.
        reason: String,
    },
    /// TLS was wanted, and what answers speaks none.
    #[error(
        "{endpoint} answers without TLS; write {plain}:// in place of {tls}://, or check the port"
    )]
    NotTls {
        /// The node.
        endpoint: String,
        /// The scheme that would do.
        plain: &'static str,
        /// The scheme that was given.
        tls: &'static str,
    },
    /// No complete answer within the limit.
    #[error("{endpoint} did not answer in time; the node hangs, is overloaded or is not a node")]
    Timeout {
        /// The node.
        endpoint: String,
    },
    /// Something answers, but not JSON-RPC.
    #[error("{endpoint} is not a node's RPC: it answered {answer}; check host, port and path")]
    NotRpc {
        /// The node that was asked.
        endpoint: String,
        /// What it answered, cut short.
        answer: String,
    },
    /// The node wants a user and a password, or others.
    #[error(
        "{endpoint} refuses the user or the password (HTTP 401); write them into the URL, as in http://user:password@host:port"
    )]
    Unauthorized {
        /// The node that was asked.
        endpoint: String,
    },
    /// Something answers, but not BigchainDB's HTTP API.
    #[error(
        "{endpoint} is not BigchainDB's HTTP API: it answered {answer}; check host and port (9984 unless it was configured otherwise)"
    )]
    NotBigchaindb {
        /// The node that was asked.
        endpoint: String,
        /// What it answered, cut short.
        answer: String,
    },
    /// The answer is longer than [`ClientOptions::max_answer_bytes`](crate::ClientOptions).
    #[error("{endpoint} answered more than {limit} bytes; raise the limit or make blocks smaller")]
    TooLarge {
        /// The node.
        endpoint: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A Bitcoin node does not speak with us as its peers do.
    #[error("{endpoint}: {reason}")]
    Peer {
        /// The node.
        endpoint: String,
        /// What is the matter.
        reason: String,
    },
    /// A JSON-RPC error.
    #[error("the node refused {method}: {message}{}{data} (code {code})", if data.is_empty() { "" } else { ": " })]
    Rpc {
        /// The method called.
        method: String,
        /// The JSON-RPC code, such as -32603.
        code: i64,
        /// The short message.
        message: String,
        /// The detail; CometBFT puts the real text here.
        data: String,
    },
    /// A JSON-RPC result of another shape than CometBFT's.
    #[error(
        "{endpoint} answered {method} in another form than Tendermint 0.20 to CometBFT 1.0: {reason}"
    )]
    Unexpected {
        /// The node.
        endpoint: String,
        /// The method called.
        method: String,
        /// What does not fit.
        reason: String,
    },
}

impl ClientError {
    pub(super) fn of_request(endpoint: &Endpoint, error: &reqwest::Error) -> Self {
        let (plain, tls) = match endpoint.transport() {
            Transport::Http | Transport::P2p => ("http", "https"),
            Transport::Ws => ("ws", "wss"),
        };
        let endpoint = endpoint.to_string();
        if error.is_timeout() {
            return Self::Timeout { endpoint };
        }
        let reason = cause(error);
        if causes(error).any(is_not_tls) {
            return Self::NotTls {
                endpoint,
                plain,
                tls,
            };
        }
        // What cannot be parsed as HTTP is an answer, only not one of a node.
        if causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse)) {
            return Self::NotRpc {
                endpoint,
                answer: format!("something that is not HTTP ({reason})"),
            };
        }
        Self::Unreachable { endpoint, reason }
    }

    pub(super) fn not_rpc(endpoint: &Endpoint, status: Option<u16>, body: &[u8]) -> Self {
        if status == Some(UNAUTHORIZED) {
            return Self::Unauthorized {
                endpoint: endpoint.to_string(),
            };
        }
        Self::NotRpc {
            endpoint: endpoint.to_string(),
            answer: quoted(status, body),
        }
    }

    /// An answer that is none of a BigchainDB.
    pub fn not_bigchaindb(endpoint: &Endpoint, status: u16, body: &[u8]) -> Self {
        Self::NotBigchaindb {
            endpoint: endpoint.to_string(),
            answer: quoted(Some(status), body),
        }
    }

    /// Whether something came back, from the node or from what stands in its place.
    pub const fn is_an_answer(&self) -> bool {
        self.is_from_node()
            || matches!(
                self,
                Self::NotRpc { .. } | Self::NotBigchaindb { .. } | Self::Unauthorized { .. }
            )
    }

    /// Whether the node itself refused, so that the way to it works.
    pub const fn is_from_node(&self) -> bool {
        matches!(
            self,
            Self::Rpc { .. } | Self::Unexpected { .. } | Self::TooLarge { .. }
        )
    }
}

/// The last cause, which names what the system or the server did.
pub(super) fn cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

/// Whether the other side answered a TLS handshake with something else.
fn is_not_tls(mut error: &(dyn Error + 'static)) -> bool {
    // The source of an I/O error is that of what it carries.
    while let Some(carried) = error.downcast_ref().and_then(io::Error::get_ref) {
        error = carried;
    }
    let invalid = rustls::InvalidMessage::InvalidContentType;
    error.downcast_ref() == Some(&rustls::Error::InvalidMessage(invalid))
}

/// A foreign answer as an error quotes it.
fn quoted(status: Option<u16>, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN * 4)]);
    if text.trim_start().starts_with('<') {
        let status = status.map_or(String::new(), |status| format!(" (HTTP {status})"));
        return format!("with a web page{status}, so a web server or a proxy listens there");
    }
    let mut shown: String = text
        .chars()
        .filter(|char| !char.is_control())
        .take(SHOWN)
        .collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let status = status
        .map(|status| format!("HTTP {status} with "))
        .unwrap_or_default();
    format!("{status}'{shown}'")
}

const UNAUTHORIZED: u16 = 401;
/// Characters of a foreign answer that an error quotes.
const SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_headers() {
        let time = |text: &str| text.parse::<HeaderTime>();
        let known = time("2026-11-21T02:38:17.399835359Z").unwrap();
        assert_eq!(
            (known.unix_seconds, known.nanos),
            (1_795_228_697, 399_835_359)
        );
        assert_eq!(time("1970-01-01T00:00:00Z").unwrap().unix_nanos(), 0);
        assert_eq!(
            time("2000-02-29T23:59:59.5Z").unwrap().unix_nanos(),
            951_868_799_500_000_000
        );
        // Go's zero time, which a node without blocks prints.
        assert_eq!(
            time("0001-01-01T00:00:00Z").unwrap().unix_seconds,
            -62_135_596_800
        );
        for wrong in [
            "",
            "Z",
            "2026-11-21T02:38:17",
            "2026-13-21T02:38:17Z",
            "2026-11-21T02:38Z",
            "2026-11-21T02:38:+7Z",
            "2026-11-21T02:38:17.Z",
        ] {
            assert!(time(wrong).is_err() || wrong.ends_with(".Z"), "{wrong}");
        }
    }
}
