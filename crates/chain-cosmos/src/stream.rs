//! A load's transactions, each from its index and sequence.

use std::sync::Arc;

use chain::{TxName, TxStream, WorkloadError};
use cosmos::{Address, Draft, Filling, Message, Signer, Signing};
use pacing::Nanos;
use sender::clock::Origin;
use sha2::{Digest as _, Sha256};

use crate::{CosmosContent, Payments, Ready, Recipients};

/// Signs transactions one after the other.
#[derive(Debug)]
pub(crate) struct CosmosStream {
    pub(crate) content: Arc<CosmosContent>,
    pub(crate) ready: Arc<Ready>,
    pub(crate) signing: Signing,
}

impl TxStream for CosmosStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let sequence = self.ready.sequences.sequence(index);
        sign(
            &self.content,
            &self.ready,
            &mut self.signing,
            (index, sequence),
            out,
        )?;
        Ok(TxName::Sequenced(sequence))
    }
}

/// Appends the transaction with this index and sequence.
pub(crate) fn sign(
    content: &CosmosContent,
    ready: &Ready,
    signing: &mut Signing,
    (index, sequence): (u64, u64),
    out: &mut Vec<u8>,
) -> Result<(), WorkloadError> {
    let account = ready.sequences.account(index);
    let signer = &ready.signers[account];
    let messages = messages(content, ready, index, account)?;
    // A sequence may be used again, by a later transaction that pays the same: they must not be one.
    let memo = index.to_string();
    let draft = Draft {
        memo: &memo,
        unordered_until_ns: ready
            .unordered
            .map(|valid_for| unordered_until(Origin::capture().unix_ns(), valid_for, index)),
        ..Draft::new(&messages, &ready.fee)
    };
    let signer = Signer {
        key: &signer.key,
        account_number: signer.number,
        sequence,
    };
    signing.sign(&ready.chain_id, &draft, &signer, out);
    Ok(())
}

fn messages(
    content: &CosmosContent,
    ready: &Ready,
    index: u64,
    account: usize,
) -> Result<Vec<Message>, WorkloadError> {
    let from = ready.signers[account].key.address();
    let count = content.messages.get();
    let recipient = |number: u32| match content.recipients {
        Recipients::Warm => {
            let next = (account + 1 + number as usize) % ready.signers.len();
            ready.signers[next].key.address()
        }
        Recipients::Cold => unused_address(content.seed, index, number),
    };
    let (prefix, coin) = (&ready.prefix, &ready.coin);
    if let Some(template) = &content.template {
        let from = prefix.write(from);
        let filled = (0..count).map(|number| {
            let filling = Filling {
                from: &from,
                to: &prefix.write(recipient(number)),
                index,
            };
            let message = template.message(&filling);
            message.map_err(|error| WorkloadError::Unusable(error.to_string()))
        });
        return filled.collect();
    }
    Ok(match content.payments {
        Payments::Send => (0..count)
            .map(|number| Message::send(prefix, from, recipient(number), coin))
            .collect(),
        Payments::MultiSend => {
            let to: Vec<Address> = (0..count).map(recipient).collect();
            vec![Message::multi_send(prefix, from, &to, coin)]
        }
    })
}

/// An address that nobody has the key of and no other transaction pays.
fn unused_address(seed: u64, index: u64, number: u32) -> Address {
    let mut hasher = Sha256::new_with_prefix(b"tidegate cosmos recipient ");
    hasher.update(seed.to_le_bytes());
    hasher.update(index.to_le_bytes());
    hasher.update(number.to_le_bytes());
    let mut address = [0; 20];
    address.copy_from_slice(&hasher.finalize()[..20]);
    Address(address)
}

/// When an unordered transaction that is signed now ends to be valid. No two of an account may end at one instant
/// (ADR-070): the lowest bits, a millisecond, are those of its index.
pub(crate) const fn unordered_until(now_ns: u64, valid_for: Nanos, index: u64) -> u64 {
    let until = now_ns.saturating_add(valid_for.as_nanos());
    until & !INDEX_BITS | index & INDEX_BITS
}

const INDEX_BITS: u64 = (1 << 20) - 1;
