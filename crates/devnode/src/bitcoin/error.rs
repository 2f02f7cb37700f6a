//! The errors that btcd answers, by their codes.

/// An error answer, with the codes of btcd 0.26.2 (`btcjson/jsonrpcerr.go`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: String,
}

/// Breaks the chain's rules, or spends an output that is unknown.
pub(super) const TX_ERROR: i32 = -25;
/// Breaks the mempool's rules.
pub(super) const TX_REJECTED: i32 = -26;
/// Is in the chain.
pub(super) const TX_ALREADY_IN_CHAIN: i32 = -27;
/// Is not hexadecimal, or no transaction.
pub(super) const NOT_DECODED: i32 = -22;
/// Names an unknown block.
pub(super) const NOT_FOUND: i32 = -5;
/// Names a height that the chain does not have.
pub(super) const OUT_OF_RANGE: i32 = -1;

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(super) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32_700, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32_600, message)
    }

    pub(super) fn method_not_found() -> Self {
        Self::new(-32_601, "Method not found")
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32_602, message)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32_603, message)
    }
}
