//! Why a transaction or a question was refused.

use crate::app::Outcome;

/// Why a transaction was refused, in the words of the SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) codespace: &'static str,
    pub(crate) code: u32,
    pub(crate) log: String,
}

impl Refusal {
    /// Of the name space `sdk`, in these words and those of the code (`types/errors/errors.go`).
    pub(super) fn new(code: u32, log: impl AsRef<str>) -> Self {
        let text = TEXTS.iter().find(|(of, _)| *of == code);
        let (log, text) = (log.as_ref(), text.map_or("", |(_, text)| text));
        Self::of(Self::SDK, code, format!("{log}: {text}"))
    }

    pub(super) fn of(codespace: &'static str, code: u32, log: impl Into<String>) -> Self {
        Self {
            codespace,
            code,
            log: log.into(),
        }
    }

    /// The outcome of an execution that ended so.
    pub(super) fn outcome(self, gas_wanted: u64, gas_used: u64) -> (u32, Outcome) {
        let outcome = Outcome {
            codespace: self.codespace,
            log: self.log,
            gas_wanted,
            gas_used,
            ..Outcome::default()
        };
        (self.code, outcome)
    }

    /// The name space of the SDK's own codes.
    pub(super) const SDK: &str = "sdk";
}

/// What the SDK's codes mean.
const TEXTS: [(u32, &str); 16] = [
    (2, "tx parse error"),
    (4, "unauthorized"),
    (5, "insufficient funds"),
    (6, "unknown request"),
    (7, "invalid address"),
    (8, "invalid pubkey"),
    (9, "unknown address"),
    (10, "invalid coins"),
    (11, "out of gas"),
    (12, "memo too large"),
    (13, "insufficient fee"),
    (18, "invalid request"),
    (22, "key not found"),
    (32, "incorrect account sequence"),
    (35, "internal logic error"),
    (41, "invalid gas limit"),
];
