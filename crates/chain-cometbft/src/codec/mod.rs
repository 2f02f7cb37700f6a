//! JSON-RPC answers, read in one pass, and the errors that are refused checks: CometBFT 1.x writes the result of CheckTx
//! into the text of an error. Requests are written by [`wire::jsonrpc`].

mod read;
#[cfg(test)]
mod reference;

use std::borrow::Cow;

use wire::encoding::decode_hash;
use wire::json::Fault;

/// One JSON-RPC answer, borrowing from the body it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Which request it answers.
    pub id: AnswerId<'a>,
    /// Its message.
    pub outcome: Outcome<'a>,
}

/// The `id` of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerId<'a> {
    /// A number; `-1` for requests by URI.
    Number(i64),
    /// A string; some servers give a number back as text.
    Text(Cow<'a, str>),
    /// Absent or null: the node could not read the request.
    Missing,
}

impl AnswerId<'_> {
    /// The id as the number that was sent, whether it came back as a number or as its digits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(text) => text.parse().ok(),
            Self::Missing => None,
        }
    }
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// To `broadcast_tx_async`, `broadcast_tx_sync` or `check_tx`; CometBFT 1.x answers a refused check,
    /// that of `broadcast_tx_commit` too, by an error, which is read as this.
    Broadcast {
        /// CheckTx's code; 0 = accepted.
        code: u32,
        /// The name space of the code, often empty.
        codespace: Cow<'a, str>,
        /// The application's words, often empty.
        log: Cow<'a, str>,
        /// SHA-256 of the transaction; `None` when the node gave none, or one of another length.
        hash: Option<[u8; 32]>,
    },
    /// To `broadcast_tx_commit`.
    Commit {
        /// CheckTx's code; 0 = accepted.
        check_code: u32,
        /// The code of the execution in the block; meaningful when `check_code` is 0.
        tx_code: u32,
        /// SHA-256 of the transaction, as above.
        hash: Option<[u8; 32]>,
        /// The block's height; 0 when it is in none.
        height: u64,
        /// The words of whichever of the two steps refused it, else of the execution.
        log: Cow<'a, str>,
        /// The name space of that step's code.
        codespace: Cow<'a, str>,
    },
    /// A JSON-RPC error that is no refused check.
    Error {
        /// The JSON-RPC code, such as -32603.
        code: i64,
        /// The short message.
        message: Cow<'a, str>,
        /// The detail: CometBFT puts the real text here. JSON text when it is not a string.
        data: Cow<'a, str>,
    },
    /// A result of another shape, such as the `{}` that confirms a subscription.
    Other,
}

/// Why a body is not an answer.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not JSON.
    #[error("the answer is not JSON: {0}; check that the endpoint is a node's RPC")]
    NotJson(#[from] Fault),
    /// It is JSON, but neither a result nor an error of JSON-RPC.
    #[error("the answer is JSON but not JSON-RPC; check that the endpoint is a node's RPC")]
    NotAnAnswer,
    /// A field has a type or a value that makes no sense.
    #[error("the answer's field '{0}' cannot be read; the node speaks another dialect")]
    Field(&'static str),
}

/// Reads one answer.
///
/// Fields may come in any order, unknown ones are skipped, numbers may be strings, `data` may be an
/// object. Text without escapes is borrowed from the body.
///
/// # Errors
/// [`DecodeError`] when the body is not a JSON-RPC answer.
pub fn decode_answer(body: &[u8]) -> Result<Answer<'_>, DecodeError> {
    match read::usual(body) {
        Some(answer) => Ok(answer),
        None => read::any(body),
    }
}

/// The parts of an answer's `result` that matter, before it is known which kind it is.
struct ResultParts<'a> {
    code: Option<u32>,
    log: Cow<'a, str>,
    codespace: Cow<'a, str>,
    hash: Option<[u8; 32]>,
    height: Option<u64>,
    check: Option<StepResult<'a>>,
    executed: Option<StepResult<'a>>,
}

/// The result of one step of `broadcast_tx_commit`.
#[derive(Default)]
struct StepResult<'a> {
    code: u32,
    log: Cow<'a, str>,
    codespace: Cow<'a, str>,
}

impl<'a> ResultParts<'a> {
    fn outcome(self) -> Outcome<'a> {
        if let Some(check) = self.check {
            let executed = self.executed.unwrap_or_default();
            let (check_code, tx_code) = (check.code, executed.code);
            let decisive = if check_code == 0 { executed } else { check };
            return Outcome::Commit {
                check_code,
                tx_code,
                hash: self.hash,
                height: self.height.unwrap_or(0),
                log: decisive.log,
                codespace: decisive.codespace,
            };
        }
        let Some(code) = self.code else {
            return Outcome::Other;
        };
        Outcome::Broadcast {
            code,
            codespace: self.codespace,
            log: self.log,
            hash: self.hash,
        }
    }
}

/// What a JSON-RPC error means: a refused check where its text is one, else the error.
fn outcome_of_error<'a>(code: i64, message: Cow<'a, str>, data: Cow<'a, str>) -> Outcome<'a> {
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

#[cfg(test)]
mod tests;
