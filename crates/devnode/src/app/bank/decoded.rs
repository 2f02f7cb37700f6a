//! A transaction read as the bank needs it.

use std::fmt;
use std::ops::Deref;

use ::cosmos::{Message, SignedTx, Transfer};

use super::Refusal;

/// A transaction whose messages are known here.
pub(super) struct Decoded<'a> {
    tx: SignedTx<'a>,
    /// One for each message.
    pub(super) transfers: Vec<Transfer>,
}

impl<'a> Decoded<'a> {
    /// As the SDK's decoder, which looks at the form before the type of a message.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let refused = |text: &dyn fmt::Display| Refusal::new(2, text.to_string());
        // ADR-027: all fields of a transaction are of bytes.
        let kind = bytes.first().map_or(BYTES, |tag| tag & 7);
        if kind != BYTES {
            return Err(refused(&format_args!(
                "expected {BYTES} wire type, got {kind}"
            )));
        }
        let tx = SignedTx::read(bytes).map_err(|error| refused(&error))?;
        if tx.unordered {
            // Fields that SDK 0.53 has in addition.
            let text = r#"errUnknownField "*tx.TxBody": {TagNum: 4, WireType:"varint"}"#;
            return Err(refused(&text));
        }
        let transfer = |message: &Message| match message.transfer() {
            Ok(Some(transfer)) => Ok(transfer),
            Ok(None) => Err(refused(&format_args!(
                "unable to resolve type URL {}",
                message.type_url()
            ))),
            Err(error) => Err(refused(&error)),
        };
        let transfers: Result<_, _> = tx.messages.iter().map(transfer).collect();
        let transfers = transfers?;
        Ok(Self { tx, transfers })
    }

    /// Who signs, each once.
    pub(super) fn signers(&self) -> Vec<&str> {
        let mut signers: Vec<&str> = Vec::new();
        for input in self.transfers.iter().flat_map(|transfer| &transfer.inputs) {
            if !signers.contains(&&*input.address) {
                signers.push(&input.address);
            }
        }
        signers
    }

    /// Who pays the fee.
    pub(super) fn payer(&self) -> Option<&str> {
        let inputs = self.transfers.iter().flat_map(|transfer| &transfer.inputs);
        inputs.map(|input| &*input.address).next()
    }
}

impl<'a> Deref for Decoded<'a> {
    type Target = SignedTx<'a>;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

/// Protobuf's wire type of bytes and messages.
const BYTES: u8 = 2;
