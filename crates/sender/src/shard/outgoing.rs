//! One request as it is put together, and transactions that are signed again for it.

use measure::Sent;

use crate::protocol::{Framing, Protocol};
use crate::source::Prepared;
use crate::stream::{TxStream, WorkloadError};

/// The request that is being put together.
#[derive(Default)]
pub(super) struct Request {
    pub(super) txs: Vec<Sent>,
    /// The parts of its transactions, joined; unused where a request carries one.
    pub(super) body: Vec<u8>,
}

/// Signs transactions again whose account goes on with another sequence than they were signed with.
pub(super) struct Resigner<T> {
    target: T,
    stream: Box<dyn TxStream>,
    tx: Vec<u8>,
    body: Vec<u8>,
}

impl<T: Protocol> Resigner<T> {
    pub(super) fn new(target: T, stream: Box<dyn TxStream>) -> Self {
        Self {
            target,
            stream,
            tx: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The transaction as it is signed now.
    pub(super) fn sign(&mut self, index: u64) -> Result<Prepared<'_>, WorkloadError> {
        self.tx.clear();
        self.body.clear();
        let name = self.stream.write(index, &mut self.tx)?;
        let hash = self.target.encode(index, &self.tx, name, &mut self.body)?;
        Ok(Prepared {
            hash,
            size: self.tx.len() as u32,
            sequence: 0,
            body: &self.body,
        })
    }
}

impl Request {
    pub(super) fn add(&mut self, part: &[u8], sent: Sent, framing: Framing) {
        self.body.extend_from_slice(match self.txs.len() {
            0 => framing.open,
            _ => framing.between,
        });
        self.body.extend_from_slice(part);
        self.txs.push(sent);
    }

    /// A request of one has no framing.
    pub(super) fn end(&mut self, framing: Framing) {
        if self.txs.len() == 1 {
            self.body.drain(..framing.open.len());
        } else if !self.txs.is_empty() {
            self.body.extend_from_slice(framing.close);
        }
    }
}
