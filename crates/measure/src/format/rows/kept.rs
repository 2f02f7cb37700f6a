//! `txs.csv`: one row a sent transaction, written when its fate is final (by the recorder); and which rows are kept.
//! Counts, latencies, tables and the report go by all transactions.
//!
//! The first six columns are those of BigchainDB's benchmark (its `--csv` output): milliseconds
//! since the Unix epoch, empty where it did not happen.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::format::event::TxHash;

/// Which transactions have a row in `txs.csv`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptRows {
    /// Each.
    #[default]
    All,
    /// One in so many, chosen by its hash: the same ones for every sender, and at random with regard to
    /// everything else, as a hash is.
    Sample(NonZeroU64),
    /// None; the file is not there.
    None,
}

/// Why a text does not name rows to keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} does not say which rows of transactions are kept: write all, sample:1/100 or none"
)]
pub struct KeptRowsError {
    text: String,
}

impl KeptRows {
    /// Whether every transaction has one.
    #[must_use]
    pub const fn is_each(self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether the row of this transaction is kept.
    #[must_use]
    pub fn keeps(self, hash: &TxHash) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Sample(one_in) => {
                let [a, b, c, d, e, f, g, h, ..] = *hash;
                u64::from_le_bytes([a, b, c, d, e, f, g, h]).is_multiple_of(one_in.get())
            }
        }
    }
}

impl FromStr for KeptRows {
    type Err = KeptRowsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sample = || {
            let one_in = text.strip_prefix("sample:1/")?.parse().ok()?;
            Some(Self::Sample(one_in))
        };
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            text => sample().ok_or_else(|| KeptRowsError { text: text.into() }),
        }
    }
}

impl fmt::Display for KeptRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Sample(one_in) => write!(f, "sample:1/{one_in}"),
            Self::None => f.write_str("none"),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_which_rows_are_kept() {
        for text in ["all", "none", "sample:1/1", "sample:1/1000"] {
            assert_eq!(text.parse::<KeptRows>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "sample",
            "sample:1/0",
            "sample:2/3",
            "sample:1/-1",
            "parquet",
        ] {
            let error = text.parse::<KeptRows>().unwrap_err();
            assert!(error.to_string().contains("sample:1/100"), "{text}");
        }
    }

    #[test]
    fn a_sample_has_about_its_share_of_hashes() {
        let sample = KeptRows::Sample(NonZeroU64::new(10).unwrap());
        let hash = |number: u64| {
            let mut hash = [7; 32];
            // As evenly spread as a hash, and the same in each run of this test.
            let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash[..8].copy_from_slice(&spread.to_le_bytes());
            hash
        };
        let kept = (0..10_000)
            .filter(|number| sample.keeps(&hash(*number)))
            .count();
        assert!((900..1_100).contains(&kept), "{kept}");
    }
}
