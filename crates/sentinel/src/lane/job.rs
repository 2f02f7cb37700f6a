//! A write on its way through the lane.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use bytes::Bytes;
use cosmos::{Outline, Place};
use fairq::ClientKey;
use pacing::Nanos;
use rpc::BroadcastMethod;
use sha2::{Digest, Sha256};

use super::api::{Acknowledged, Delivery, Outbox, WriteAnswer};
use crate::budget::{Held, Reservation};
use crate::config::WriteOrder;
use crate::metrics::MethodClass;
use crate::refusal::Refusal;
use crate::shadow::Shadow;

/// SHA-256 of a transaction, by which blocks are searched for it.
pub(super) type TxHash = [u8; 32];

/// A write on its way through the lane: queued, under way, or waiting to be offered again. A pointer, because
/// it goes from list to list about ten times.
pub(super) type Job = Box<Record>;

/// What is known of a write.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) client: ClientKey,
    /// With which it stays in order: its connection, or the account that its client writes for.
    pub(super) line: u64,
    pub(super) method: BroadcastMethod,
    pub(super) tx: Bytes,
    pub(super) notes: Notes,
    pub(super) arrived: Nanos,
    pub(super) deadline: Nanos,
    pub(super) recipient: Recipient,
    pub(super) reservation: Reservation,
}

/// A place to wait for a block, counted for its client and in all, until it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "they count as long as they live")]
pub(super) struct CommitPlace(pub(super) Held, pub(super) Arc<()>);

/// Transactions of more bytes are hashed when they come: some 10 µs each.
const HASHED_AT_ONCE: usize = 16 << 10;

/// What the lane has found out about a write.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The transaction's hash, once it was needed.
    hash: OnceCell<TxHash>,
    /// Its signer, sequence and gas as a Cosmos SDK transaction, once that was needed.
    outline: OnceCell<Option<Box<Outline>>>,
    /// An application-side mempool refused it after its check had counted its sequence: until a block it is
    /// refused as used.
    pub(super) is_counted_by_check: bool,
    /// Its client's queue was short, beside a long one of another: it may go past the long one's writes.
    pub(super) is_from_short_queue: bool,
    /// It is no write, but the turn of a call that goes to the node otherwise.
    pub(super) is_turn: bool,
    /// Its client asks for little: it may have a place that is kept for such.
    pub(super) is_of_little: bool,
    /// A place to wait for its block, if it is a commit, until it waits.
    pub(super) commit_place: RefCell<Option<Box<CommitPlace>>>,
    /// It was offered again behind what the node had lost of its account.
    pub(super) is_behind_lost: bool,
    /// Connections that broke while it was under way.
    pub(super) breaks: u8,
}

/// The recipient of a job's answer.
#[derive(Debug)]
pub(super) enum Recipient {
    /// A connection of a client.
    Client { outbox: Arc<Outbox>, tag: u64 },
    /// None: it was acknowledged when it was admitted.
    Acknowledged(Arc<Acknowledged>),
    /// The account of what would have been refused: the call itself is at the node already.
    Shadow(Shadow, ClientKey),
    /// None any more: the answer was delivered, and the end counted.
    Answered,
}

impl Record {
    /// How the transaction goes to the node: a commit is a sync, and the block is awaited here. So is an
    /// acknowledged async of an account with sequences: only the answer of its check tells a refusal, after
    /// which the account's order has to be kept.
    pub(super) fn upstream_method(&self) -> BroadcastMethod {
        let is_async = self.method == BroadcastMethod::Async;
        if is_async && !(self.is_acknowledged() && self.place().is_some()) {
            BroadcastMethod::Async
        } else {
            BroadcastMethod::Sync
        }
    }

    pub(super) fn is_commit(&self) -> bool {
        self.method == BroadcastMethod::Commit
    }

    /// What kind of call it is.
    pub(super) const fn class(&self) -> MethodClass {
        MethodClass::of_broadcast(self.method)
    }

    /// Whether its deadline has passed. An acknowledged write has no deadline: it ends only
    /// at the node. A turn whose client has gone away does not keep the program from ending.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let is_left = matches!(&self.recipient, Recipient::Shadow(shadow, _) if shadow.is_ending());
        is_left || self.deadline <= now && !self.is_acknowledged()
    }

    /// Whether it was acknowledged when it was admitted, and the node has not answered.
    pub(super) const fn is_acknowledged(&self) -> bool {
        matches!(self.recipient, Recipient::Acknowledged(_))
    }

    /// Whether its recipient has no answer yet, and its end was not counted.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.recipient, Recipient::Answered)
    }

    /// Whether the node may have it from before.
    pub(super) const fn may_be_there(&self) -> bool {
        self.notes.breaks > 0 || !self.is_open()
    }

    /// The transaction's hash.
    pub(super) fn hash(&self) -> TxHash {
        let hash = || Sha256::digest(&self.tx).into();
        *self.notes.hash.get_or_init(hash)
    }

    /// Finds out now, in its connection's turn, what would take long later: under the queue's lock, or in the
    /// worker when the answers to many large transactions come at once.
    pub(super) fn prepare(&mut self, order: WriteOrder) {
        if order == WriteOrder::Account
            && let Some(Place { signer, .. }) = self.place()
        {
            // Accounts whose addresses begin alike share a line, which does no harm.
            let [a, b, c, d, e, f, g, h, ..] = signer.0;
            self.line = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        }
        if self.tx.len() > HASHED_AT_ONCE {
            let _ = self.hash();
        }
    }

    /// The hash, if it is known already.
    pub(super) fn known_hash(&self) -> Option<TxHash> {
        self.notes.hash.get().copied()
    }

    /// Its client has the answer that its check passed: from now on it is only kept, so that it can be offered again.
    pub(super) fn keep(&mut self) {
        self.reservation.shrink_to(self.tx.len());
        self.method = BroadcastMethod::Sync;
        self.deadline = Nanos::MAX;
    }

    fn outline(&self) -> Option<&Outline> {
        let read = || Outline::read(&self.tx).map(Box::new);
        self.notes.outline.get_or_init(read).as_deref()
    }

    /// Its account and sequence, if it is a Cosmos SDK's transaction that has them.
    pub(super) fn place(&self) -> Option<Place> {
        self.outline()?.place
    }

    /// The gas that it may use, if it is a Cosmos SDK's transaction.
    pub(super) fn gas(&self) -> Option<u64> {
        self.outline().map(|outline| outline.gas)
    }

    /// Whether the client has gone before any answer was sent.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(&self.recipient, Recipient::Client { outbox, .. } if outbox.is_closed())
    }

    /// Answers with a member of a JSON-RPC response. Whether there was no answer before.
    pub(super) fn answer(&mut self, member: Bytes) -> bool {
        self.recipient.deliver(WriteAnswer::Member(member));
        self.close()
    }

    /// Answers with a refusal, at its end.
    pub(super) fn refuse(&self, refusal: Refusal) {
        let refusal = if self.notes.breaks > 0 {
            refusal.maybe_forwarded()
        } else {
            refusal
        };
        self.recipient.deliver(WriteAnswer::Refused(refusal));
    }

    /// Its recipient waits for nothing more: what answers it is on its way elsewhere. Whether it was open before.
    pub(super) fn close(&mut self) -> bool {
        let before = std::mem::replace(&mut self.recipient, Recipient::Answered);
        !matches!(before, Recipient::Answered)
    }
}

impl Recipient {
    /// Hands the answer to the client that waits, if any.
    pub(super) fn deliver(&self, answer: WriteAnswer) {
        match self {
            Self::Client { outbox, tag } => outbox.deliver(Delivery { tag: *tag, answer }),
            Self::Acknowledged(acknowledged) => acknowledged.answered(&answer),
            Self::Shadow(shadow, client) => {
                if let WriteAnswer::Refused(refusal) = answer {
                    shadow.note(*client, &refusal);
                }
            }
            Self::Answered => {}
        }
    }
}
