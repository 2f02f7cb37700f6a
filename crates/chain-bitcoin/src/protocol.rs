//! Requests of a load on a node's JSON-RPC, and how its answers are read.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use chain::{Framing, Limits, Protocol, ReplyTo, TxName, WorkloadError};
use measure::{Codespace, Failure, MEMPOOL, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::Message;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use wire::encoding::push_hex;

use crate::workload::{BitcoinWorkload, bitcoin_id};

/// A Bitcoin node (btcd, bchd, Bitcoin Core), given transactions by `sendrawtransaction`.
#[derive(Debug, Clone)]
pub struct BitcoinNode {
    pub(crate) batch: NonZeroU32,
    /// Learns which transactions were refused, and finds those that cannot be valid any more.
    pub(crate) workload: Option<BitcoinWorkload>,
    /// Shared by the clones of all threads, and touched by refusals only.
    pub(crate) refusals: Arc<Mutex<RefusalTexts>>,
}

impl Protocol for BitcoinNode {
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        name: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(index.to_string().as_bytes());
        out.extend_from_slice(b",\"method\":\"sendrawtransaction\",\"params\":[\"");
        push_hex(out, tx);
        out.extend_from_slice(b"\"]}");
        match name {
            TxName::Known(id) => Ok(id),
            TxName::Hash | TxName::Sequenced(_) => bitcoin_id(index, tx),
        }
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let mut one = |answer: JsonRpcAnswer<'_>| {
            let subject = answer.id.map_or(ReplyTo::OldestRequest, ReplyTo::Index);
            replies(subject, self.reply(&answer));
        };
        let is_batch = message.body.trim_ascii_start().starts_with(b"[");
        let read = if is_batch {
            let mut body = serde_json::Deserializer::from_slice(message.body);
            body.deserialize_seq(Each(&mut one))
        } else {
            serde_json::from_slice(message.body).map(one)
        };
        if read.is_err() {
            let failure = match message.status {
                HTTP_OK => Failure::Malformed,
                _ => Failure::HttpStatus,
            };
            replies(ReplyTo::OldestRequest, Reply::Failed(failure));
        }
    }

    /// btcd closes a connection after its answer, and one that sends nothing for 10 s
    /// (`rpcAuthTimeoutSeconds` in its `rpcserver.go`).
    fn limits(&self) -> Limits {
        Limits {
            batch: self.batch,
            framing: Framing {
                open: b"[",
                between: b",",
                close: b"]",
            },
            on_demand: true,
        }
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.refusals)
    }
}

impl BitcoinNode {
    fn reply(&self, answer: &JsonRpcAnswer<'_>) -> Reply {
        let Some(error) = &answer.error else {
            let is_accepted = answer.result.is_some();
            return if is_accepted {
                Reply::Accepted
            } else {
                Reply::Failed(Failure::Malformed)
            };
        };
        let workload = self.workload.as_ref().zip(answer.id);
        if let Some((workload, index)) = workload {
            if workload.is_dead(index) {
                // It is no refusal of the node's that it does not know what was refused before.
                return Reply::Failed(Failure::Dead);
            }
            workload.refuse(index);
        }
        let (code, reply) = if error.is_for_room() {
            let (code, space) = (26, Codespace::named(MEMPOOL));
            (format!("{MEMPOOL}/{code}"), Reply::Rejected { code, space })
        } else {
            let code = i32::try_from(error.code).unwrap_or(i32::MIN);
            (error.code.to_string(), Reply::RpcError { code })
        };
        self.refusals.lock().count(&code, &error.message);
        reply
    }
}

#[derive(Deserialize)]
struct JsonRpcAnswer<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<JsonRpcError<'a>>,
}

#[derive(Deserialize)]
struct JsonRpcError<'a> {
    code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

impl JsonRpcError<'_> {
    /// Whether a mempool had no room, also for what pays too little beside others; the code is that of all that is not
    /// taken (Bitcoin Core, src/validation.cpp and src/rpc/protocol.h).
    fn is_for_room(&self) -> bool {
        let words = ["mempool full", "mempool min fee not met", "mempool is full"];
        self.code == -26 && words.iter().any(|words| self.message.contains(words))
    }
}

/// Hands over the answers of a batch one by one.
struct Each<'f, F>(&'f mut F);

impl<'de, F: FnMut(JsonRpcAnswer<'de>)> Visitor<'de> for Each<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of answers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut answers: A) -> Result<(), A::Error> {
        while let Some(answer) = answers.next_element()? {
            (self.0)(answer);
        }
        Ok(())
    }
}

const HTTP_OK: u16 = 200;
