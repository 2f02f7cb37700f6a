//! `txs.csv`: one row a sent transaction, written when its fate is final (by the recorder).
//!
//! The first six columns are those of BigchainDB's benchmark (its `--csv` output): milliseconds
//! since the Unix epoch, empty where it did not happen.

use crate::format::event::TxHash;

/// The first line of `txs.csv`, with its line break. Columns that were added are at the right.
pub const TXS_HEADER: &str = "txid,size,ts_send,ts_accept,ts_commit,ts_error,due_ns,sent_ns,accepted_ns,committed_ns,height,code,endpoint,step,codespace\n";

/// How a chain writes the ids of its transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdText {
    /// Upper-case hexadecimal digits, as CometBFT.
    #[default]
    UpperHex,
    /// Lower-case hexadecimal digits, as BigchainDB.
    LowerHex,
}

impl IdText {
    /// The id of a transaction as it is written.
    #[must_use]
    pub fn text(self, hash: &TxHash) -> String {
        let digit = |nibble: u8| char::from(self.digits()[usize::from(nibble)]);
        let digits = hash
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.collect()
    }

    pub(crate) const fn digits(self) -> &'static [u8; 16] {
        match self {
            Self::UpperHex => b"0123456789ABCDEF",
            Self::LowerHex => b"0123456789abcdef",
        }
    }
}
