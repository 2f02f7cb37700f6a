//! The methods: names, parameters in order, and which answers may be cached
//! (`rpc/core/routes.go` of CometBFT 0.38).

use wire::jsonrpc::BroadcastMethod;

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

/// A method's name as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    AbciInfo,
    AbciQuery,
    Block,
    BlockByHash,
    BlockResults,
    BlockSearch,
    Blockchain,
    BroadcastEvidence,
    Broadcast(BroadcastMethod),
    CheckTx,
    Commit,
    ConsensusParams,
    ConsensusState,
    DumpConsensusState,
    Genesis,
    GenesisChunked,
    Header,
    HeaderByHash,
    Health,
    NetInfo,
    NumUnconfirmedTxs,
    Status,
    Subscribe,
    Tx,
    TxSearch,
    UnconfirmedTxs,
    Unsubscribe,
    UnsubscribeAll,
    Validators,
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

const fn method(
    name: Name,
    text: &'static str,
    params: &'static [(&'static str, Kind)],
    caching: Caching,
) -> Method {
    Method {
        name,
        text,
        params,
        caching,
        ws_only: false,
    }
}

const fn ws(name: Name, text: &'static str, params: &'static [(&'static str, Kind)]) -> Method {
    Method {
        name,
        text,
        params,
        caching: Caching::Never,
        ws_only: true,
    }
}

const HEIGHT: &[(&str, Kind)] = &[("height", Kind::MaybeInt64)];
const TX: &[(&str, Kind)] = &[("tx", Kind::Tx)];

/// All methods, sorted by name as the list of endpoints is.
pub(crate) const METHODS: &[Method] = &[
    method(Name::AbciInfo, "abci_info", &[], Caching::Always),
    method(
        Name::AbciQuery,
        "abci_query",
        &[
            ("path", Kind::Text),
            ("data", Kind::HexBytes),
            ("height", Kind::Int64),
            ("prove", Kind::Bool),
        ],
        Caching::Never,
    ),
    method(Name::Block, "block", HEIGHT, Caching::With(0)),
    method(
        Name::BlockByHash,
        "block_by_hash",
        &[("hash", Kind::Bytes)],
        Caching::Always,
    ),
    method(
        Name::BlockResults,
        "block_results",
        HEIGHT,
        Caching::With(0),
    ),
    method(
        Name::BlockSearch,
        "block_search",
        &[
            ("query", Kind::Text),
            ("page", Kind::MaybeInt),
            ("per_page", Kind::MaybeInt),
            ("order_by", Kind::Text),
        ],
        Caching::Never,
    ),
    method(
        Name::Blockchain,
        "blockchain",
        &[("minHeight", Kind::Int64), ("maxHeight", Kind::Int64)],
        Caching::Always,
    ),
    method(
        Name::BroadcastEvidence,
        "broadcast_evidence",
        &[("evidence", Kind::Evidence)],
        Caching::Never,
    ),
    method(
        Name::Broadcast(BroadcastMethod::Async),
        "broadcast_tx_async",
        TX,
        Caching::Never,
    ),
    method(
        Name::Broadcast(BroadcastMethod::Commit),
        "broadcast_tx_commit",
        TX,
        Caching::Never,
    ),
    method(
        Name::Broadcast(BroadcastMethod::Sync),
        "broadcast_tx_sync",
        TX,
        Caching::Never,
    ),
    method(Name::CheckTx, "check_tx", TX, Caching::Never),
    method(Name::Commit, "commit", HEIGHT, Caching::With(0)),
    method(
        Name::ConsensusParams,
        "consensus_params",
        HEIGHT,
        Caching::With(0),
    ),
    method(Name::ConsensusState, "consensus_state", &[], Caching::Never),
    method(
        Name::DumpConsensusState,
        "dump_consensus_state",
        &[],
        Caching::Never,
    ),
    method(Name::Genesis, "genesis", &[], Caching::Always),
    method(
        Name::GenesisChunked,
        "genesis_chunked",
        &[("chunk", Kind::Uint)],
        Caching::Always,
    ),
    method(Name::Header, "header", HEIGHT, Caching::With(0)),
    method(
        Name::HeaderByHash,
        "header_by_hash",
        &[("hash", Kind::HexBytes)],
        Caching::Always,
    ),
    method(Name::Health, "health", &[], Caching::Never),
    method(Name::NetInfo, "net_info", &[], Caching::Never),
    method(
        Name::NumUnconfirmedTxs,
        "num_unconfirmed_txs",
        &[],
        Caching::Never,
    ),
    method(Name::Status, "status", &[], Caching::Never),
    ws(Name::Subscribe, "subscribe", &[("query", Kind::Text)]),
    method(
        Name::Tx,
        "tx",
        &[("hash", Kind::Bytes), ("prove", Kind::Bool)],
        Caching::Always,
    ),
    method(
        Name::TxSearch,
        "tx_search",
        &[
            ("query", Kind::Text),
            ("prove", Kind::Bool),
            ("page", Kind::MaybeInt),
            ("per_page", Kind::MaybeInt),
            ("order_by", Kind::Text),
        ],
        Caching::Never,
    ),
    method(
        Name::UnconfirmedTxs,
        "unconfirmed_txs",
        &[("limit", Kind::MaybeInt)],
        Caching::Never,
    ),
    ws(Name::Unsubscribe, "unsubscribe", &[("query", Kind::Text)]),
    ws(Name::UnsubscribeAll, "unsubscribe_all", &[]),
    method(
        Name::Validators,
        "validators",
        &[
            ("height", Kind::MaybeInt64),
            ("page", Kind::MaybeInt),
            ("per_page", Kind::MaybeInt),
        ],
        Caching::With(0),
    ),
];

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
