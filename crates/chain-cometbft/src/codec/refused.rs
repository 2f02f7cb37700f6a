//! Errors that are refused checks: CometBFT 1.x writes the result of CheckTx into the text of an error.

use std::borrow::Cow;

use wire::encoding::decode_hash;

use super::answer::Outcome;

/// What a JSON-RPC error says: a refused check where its text is one, else the error.
pub(super) fn outcome_of_error<'a>(
    code: i64,
    message: Cow<'a, str>,
    data: Cow<'a, str>,
) -> Outcome<'a> {
    let refused = match &data {
        Cow::Borrowed(text) => RefusedCheck::read(text).map(|check| check.outcome(Cow::Borrowed)),
        Cow::Owned(text) => {
            RefusedCheck::read(text).map(|check| check.outcome(|part| Cow::Owned(part.to_owned())))
        }
    };
    refused.unwrap_or(Outcome::Error {
        code,
        message,
        data,
    })
}

/// `tx 99…B6 is invalid: code=2, data=, log='', codespace=''` (`ErrInvalidTx` in `mempool/errors.go`,
/// v1.0.1). `broadcast_tx_sync` and `broadcast_tx_commit` put [`PREFIX`] before it, `broadcast_tx_async`
/// nothing.
struct RefusedCheck<'t> {
    code: u32,
    log: &'t str,
    codespace: &'t str,
    hash: [u8; 32],
}

impl<'t> RefusedCheck<'t> {
    /// The log may hold anything, also quotes, so it is what lies between the first mark before it and the
    /// last one after it. A code of 0 refuses nothing.
    fn read(text: &'t str) -> Option<Self> {
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        let (hash, rest) = text.strip_prefix("tx ")?.split_once(" is invalid: code=")?;
        let (code, rest) = rest.split_once(", data=")?;
        let (_, rest) = rest.split_once(", log='")?;
        let (log, codespace) = rest.strip_suffix('\'')?.rsplit_once("', codespace='")?;
        let code = code.parse().ok().filter(|code| *code != 0)?;
        Some(Self {
            code,
            log,
            codespace,
            hash: decode_hash(hash.as_bytes())?,
        })
    }

    fn outcome<'a>(self, part: impl Fn(&'t str) -> Cow<'a, str>) -> Outcome<'a> {
        Outcome::Broadcast {
            code: self.code,
            codespace: part(self.codespace),
            log: part(self.log),
            hash: Some(self.hash),
        }
    }
}

/// `rpc/core/mempool.go`, v1.0.1.
const PREFIX: &str = "broadcast error on transaction validation: ";
