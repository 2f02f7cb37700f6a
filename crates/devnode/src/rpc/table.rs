//! The methods: names, parameters in order, transport, and which answers may be cached
//! (`rpc/core/routes.go` of CometBFT 0.38).

use Caching::{Always, Never, With};

/// What a parameter is decoded into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `int64`.
    Int64,
    /// `*int64`: may be missing.
    MaybeInt64,
    /// `*int`: may be missing.
    MaybeInt,
    /// `uint`.
    Uint,
    /// `bool`.
    Bool,
    /// `string`.
    Text,
    /// `types.Tx`: base64.
    Tx,
    /// `[]byte`: base64.
    Bytes,
    /// `bytes.HexBytes`: hex in JSON.
    HexBytes,
    /// `types.Evidence`: an interface.
    Evidence,
}

/// Which answers carry a `Cache-Control` of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    Never,
    Always,
    /// If this parameter, the one with the given index, is there.
    With(usize),
}

/// A method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: Name,
    pub(crate) text: &'static str,
    pub(crate) params: &'static [(&'static str, Kind)],
    pub(crate) caching: Caching,
    /// Only over a WebSocket.
    pub(crate) ws_only: bool,
}

/// Makes [`Name`] and [`METHODS`] of a table's rows: name as a value and as text, parameters,
/// caching, and whether the method exists only over a WebSocket.
macro_rules! methods {
    ($($name:ident $text:literal ($($param:ident: $kind:ident),*) $caching:expr $(, $ws:ident)?;)*) => {
        /// A method's name as a value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Name {
            $($name,)*
        }

        /// All methods, sorted by name as the list of endpoints is.
        pub(crate) const METHODS: &[Method] = &[$(Method {
            name: Name::$name,
            text: $text,
            params: &[$((stringify!($param), Kind::$kind)),*],
            caching: $caching,
            ws_only: !stringify!($($ws)?).is_empty(),
        },)*];
    };
}

methods! {
    AbciInfo "abci_info" () Always;
    AbciQuery "abci_query" (path: Text, data: HexBytes, height: Int64, prove: Bool) Never;
    Block "block" (height: MaybeInt64) With(0);
    BlockByHash "block_by_hash" (hash: Bytes) Always;
    BlockResults "block_results" (height: MaybeInt64) With(0);
    BlockSearch "block_search" (query: Text, page: MaybeInt, per_page: MaybeInt, order_by: Text) Never;
    Blockchain "blockchain" (minHeight: Int64, maxHeight: Int64) Always;
    BroadcastEvidence "broadcast_evidence" (evidence: Evidence) Never;
    BroadcastTxAsync "broadcast_tx_async" (tx: Tx) Never;
    BroadcastTxCommit "broadcast_tx_commit" (tx: Tx) Never;
    BroadcastTxSync "broadcast_tx_sync" (tx: Tx) Never;
    CheckTx "check_tx" (tx: Tx) Never;
    Commit "commit" (height: MaybeInt64) With(0);
    ConsensusParams "consensus_params" (height: MaybeInt64) With(0);
    ConsensusState "consensus_state" () Never;
    DumpConsensusState "dump_consensus_state" () Never;
    Genesis "genesis" () Always;
    GenesisChunked "genesis_chunked" (chunk: Uint) Always;
    Header "header" (height: MaybeInt64) With(0);
    HeaderByHash "header_by_hash" (hash: HexBytes) Always;
    Health "health" () Never;
    NetInfo "net_info" () Never;
    NumUnconfirmedTxs "num_unconfirmed_txs" () Never;
    Status "status" () Never;
    Subscribe "subscribe" (query: Text) Never, ws_only;
    Tx "tx" (hash: Bytes, prove: Bool) Always;
    TxSearch "tx_search" (query: Text, prove: Bool, page: MaybeInt, per_page: MaybeInt, order_by: Text) Never;
    UnconfirmedTxs "unconfirmed_txs" (limit: MaybeInt) Never;
    Unsubscribe "unsubscribe" (query: Text) Never, ws_only;
    UnsubscribeAll "unsubscribe_all" () Never, ws_only;
    Validators "validators" (height: MaybeInt64, page: MaybeInt, per_page: MaybeInt) With(0);
}

/// The method of that name.
pub(crate) fn find(text: &str) -> Option<&'static Method> {
    METHODS
        .binary_search_by(|method| method.text.cmp(text))
        .ok()
        .map(|at| &METHODS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_method_is_found() {
        for method in METHODS {
            assert_eq!(find(method.text).map(|found| found.name), Some(method.name));
        }
        assert!(find("nope").is_none());
    }
}
