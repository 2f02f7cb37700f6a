//! Writes for the tests of the lane's parts.

use pacing::Nanos;
use rpc::BroadcastMethod;

use super::job::{Job, Notes, Recipient, Record};
use crate::budget::Ledger;

/// A sync of this transaction over a connection of 127.0.0.1, whose answer is not read, with a deadline of a minute.
pub(super) fn write(tx: Vec<u8>) -> Job {
    Job::from(Record {
        client: fairq::KeyScheme::default().key([127, 0, 0, 1].into()),
        line: 1,
        method: BroadcastMethod::Sync,
        tx: tx.into(),
        notes: Notes::default(),
        arrived: Nanos::ZERO,
        deadline: Nanos::from_secs(60),
        recipient: Recipient::Answered,
        reservation: Ledger::new(0).nothing(),
    })
}
