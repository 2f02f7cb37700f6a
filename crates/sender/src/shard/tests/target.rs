//! A target whose transactions are their indices, and whose answers name them.

use std::sync::Arc;

use measure::{Failure, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{ConnectionError, Message};

use crate::protocol::{Closing, Limits, Protocol, ReplyTo, TxName, TxStream, WorkloadError};

/// A request is `7`, or `[7,8,9]`; an answer is `7=0,8=13`: a code for each.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptedTarget {
    pub(crate) limits: Limits,
    /// Whether a connection that ends without notice has ended as expected.
    pub(crate) closes: bool,
    pub(crate) texts: Arc<Mutex<RefusalTexts>>,
}

/// Transactions that are the text of their index.
pub(crate) struct Numbers;

impl TxStream for Numbers {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        out.extend_from_slice(index.to_string().as_bytes());
        Ok(TxName::Known([0; 32]))
    }
}

/// The name of a transaction.
pub(crate) fn hash(index: u64) -> TxHash {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&index.to_be_bytes());
    hash
}

/// The answer that accepts all of a request.
pub(crate) fn accepted(request: &str) -> String {
    let request = request.trim_matches(['[', ']']);
    let each: Vec<String> = request
        .split(',')
        .map(|index| format!("{index}=0"))
        .collect();
    each.join(",")
}

impl Protocol for ScriptedTarget {
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        _: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(tx);
        Ok(hash(index))
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        for text in std::str::from_utf8(message.body).unwrap().split(',') {
            let (index, code) = text.split_once('=').unwrap();
            let to = match index {
                "oldest" => ReplyTo::OldestRequest,
                "unknown" => ReplyTo::Unknown,
                index => ReplyTo::Index(index.parse().unwrap()),
            };
            let reply = match code.parse().unwrap() {
                0 => Reply::Accepted,
                code => Reply::rejected(code),
            };
            replies(to, reply);
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.texts)
    }

    fn closing(&self, error: &ConnectionError) -> Closing {
        match error {
            ConnectionError::ClosedAfterAnswer => Closing::Expected,
            _ if self.closes => Closing::Expected,
            _ => Closing::Outage(Failure::Closed),
        }
    }
}
