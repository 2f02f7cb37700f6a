//! From what a transaction says to its bytes.

use bitcoin::secp256k1::{self, Secp256k1, SignOnly};
use sha2::{Digest, Sha256};

use crate::message::Message;
use crate::proto;
use crate::{Coin, Key};

/// What a transaction says.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// Executed in this order, all or none.
    pub messages: &'a [Message],
    /// What it pays for and how much it may use.
    pub fee: &'a Fee,
    /// A text for people.
    pub memo: &'a str,
    /// When an unordered transaction ends to be valid, in nanoseconds since the Unix epoch. Such a
    /// transaction has no sequence; this instant, unlike that of every other of its account, makes it
    /// unique (SDK 0.53, ADR-070).
    pub unordered_until_ns: Option<u64>,
}

/// What a transaction pays, and the most gas it may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fee {
    /// Sorted by denomination; empty where gas is free.
    pub coins: Vec<Coin>,
    /// Most gas.
    pub gas: u64,
}

/// Who signs, and what the chain knows of the account.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    /// The account's key.
    pub key: &'a Key,
    /// The number that the chain gave the account.
    pub account_number: u64,
    /// How many transactions of the account came before; ignored for an unordered transaction.
    pub sequence: u64,
}

/// Signs transactions; keeps its buffers from one to the next.
#[derive(Debug, Clone)]
pub struct Signing {
    secp: Secp256k1<SignOnly>,
    body: Vec<u8>,
    auth_info: Vec<u8>,
    document: Vec<u8>,
}

impl Default for Signing {
    fn default() -> Self {
        Self {
            secp: Secp256k1::signing_only(),
            body: Vec::new(),
            auth_info: Vec::new(),
            document: Vec::new(),
        }
    }
}

impl<'a> Draft<'a> {
    /// These messages, without a memo and in order.
    #[must_use]
    pub const fn new(messages: &'a [Message], fee: &'a Fee) -> Self {
        Self {
            messages,
            fee,
            memo: "",
            unordered_until_ns: None,
        }
    }

    /// `cosmos.tx.v1beta1.TxBody`.
    fn write_body(&self, out: &mut Vec<u8>) {
        for message in self.messages {
            proto::nested(out, 1, |out| message.write(out));
        }
        proto::bytes(out, 2, self.memo.as_bytes());
        if let Some(until_ns) = self.unordered_until_ns {
            proto::number(out, 4, 1);
            proto::nested(out, 5, |out| {
                proto::number(out, 1, until_ns / NANOS_PER_SECOND);
                proto::number(out, 2, until_ns % NANOS_PER_SECOND);
            });
        }
    }

    /// `cosmos.tx.v1beta1.AuthInfo`.
    fn write_auth_info(&self, signer: &Signer<'_>, out: &mut Vec<u8>) {
        proto::nested(out, 1, |out| {
            proto::nested(out, 1, |out| signer.key.public().write(out));
            proto::nested(out, 2, |out| {
                proto::nested(out, 1, |out| proto::number(out, 1, SIGN_MODE_DIRECT));
            });
            let sequence = match self.unordered_until_ns {
                Some(_) => 0,
                None => signer.sequence,
            };
            proto::number(out, 3, sequence);
        });
        proto::nested(out, 2, |out| {
            for coin in &self.fee.coins {
                proto::nested(out, 1, |out| coin.write(out));
            }
            proto::number(out, 2, self.fee.gas);
        });
    }
}

impl Signing {
    /// Appends `cosmos.tx.v1beta1.TxRaw` to `out`, signed for a chain in SIGN_MODE_DIRECT.
    pub fn sign(
        &mut self,
        chain_id: &str,
        draft: &Draft<'_>,
        signer: &Signer<'_>,
        out: &mut Vec<u8>,
    ) {
        self.body.clear();
        draft.write_body(&mut self.body);
        self.auth_info.clear();
        draft.write_auth_info(signer, &mut self.auth_info);
        self.document.clear();
        let parts = (&*self.body, &*self.auth_info);
        write_document(&mut self.document, parts, chain_id, signer.account_number);
        let digest = secp256k1::Message::from_digest(Sha256::digest(&self.document).into());
        let signature = self.secp.sign_ecdsa(&digest, &signer.key.secret);
        proto::bytes(out, 1, &self.body);
        proto::bytes(out, 2, &self.auth_info);
        proto::bytes(out, 3, &signature.serialize_compact());
    }
}

/// Appends `cosmos.tx.v1beta1.SignDoc` of a body and an auth info.
pub(crate) fn write_document(
    out: &mut Vec<u8>,
    (body, auth_info): (&[u8], &[u8]),
    chain_id: &str,
    account_number: u64,
) {
    proto::bytes(out, 1, body);
    proto::bytes(out, 2, auth_info);
    proto::bytes(out, 3, chain_id.as_bytes());
    proto::number(out, 4, account_number);
}

pub(crate) const SIGN_MODE_DIRECT: u64 = 1;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
