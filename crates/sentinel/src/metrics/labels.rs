//! The values that labels can have. They are enums, so that nothing a client sends can become a
//! label: the number of series is fixed when the program starts.

use rpc::BroadcastMethod;

use crate::refusal::Reason;

base::named! {
    /// How a request came in.
    pub enum Transport {
        /// JSON-RPC by POST; each element of a batch counts.
        Post => "post",
        /// A GET with the call in the target.
        Uri => "uri",
        /// A WebSocket message.
        Ws => "ws",
        /// gRPC.
        Grpc => "grpc",
        /// The REST API of a Cosmos SDK chain.
        Rest => "rest",
    }
}

base::named! {
    /// What kind of call it was. Unknown methods are [`MethodClass::Other`].
    pub enum MethodClass {
        /// `broadcast_tx_async`
        BroadcastAsync => "broadcast_async",
        /// `broadcast_tx_sync`
        BroadcastSync => "broadcast_sync",
        /// `broadcast_tx_commit`
        BroadcastCommit => "broadcast_commit",
        /// `abci_query`, `abci_info`, `check_tx`.
        Abci => "abci",
        /// Blocks, headers, commits, their results and searches for them.
        Block => "block",
        /// `tx`, `tx_search`: the transaction index.
        Tx => "tx",
        /// `status`, `health`, `net_info`, genesis, validators, consensus, mempool.
        Status => "status",
        /// `subscribe`, `unsubscribe`, `unsubscribe_all`.
        Subscribe => "subscribe",
        /// Anything else.
        Other => "other",
    }
}

impl MethodClass {
    /// The class of a method by its name.
    pub fn of(method: &str) -> Self {
        match method {
            "broadcast_tx_async" => Self::BroadcastAsync,
            "broadcast_tx_sync" => Self::BroadcastSync,
            "broadcast_tx_commit" => Self::BroadcastCommit,
            "abci_query" | "abci_info" | "check_tx" => Self::Abci,
            "block" | "block_by_hash" | "block_results" | "block_search" | "blockchain"
            | "commit" | "header" | "header_by_hash" => Self::Block,
            "tx" | "tx_search" => Self::Tx,
            "status"
            | "health"
            | "net_info"
            | "genesis"
            | "genesis_chunked"
            | "validators"
            | "consensus_params"
            | "consensus_state"
            | "dump_consensus_state"
            | "num_unconfirmed_txs"
            | "unconfirmed_txs" => Self::Status,
            "subscribe" | "unsubscribe" | "unsubscribe_all" => Self::Subscribe,
            _ => Self::Other,
        }
    }

    /// The class of a broadcast.
    pub const fn of_broadcast(method: BroadcastMethod) -> Self {
        match method {
            BroadcastMethod::Async => Self::BroadcastAsync,
            BroadcastMethod::Sync => Self::BroadcastSync,
            BroadcastMethod::Commit => Self::BroadcastCommit,
        }
    }

    /// Whether requests of this class take the write lane, the fair queue.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::BroadcastAsync | Self::BroadcastSync | Self::BroadcastCommit
        )
    }
}

base::named! {
    /// The one end of a request.
    pub enum OutcomeLabel {
        /// The node has answered, with a result or an error.
        Forwarded => "forwarded",
        /// It was refused when it came: see `rejected_total` for the reason.
        Rejected => "rejected",
        /// It waited past its deadline.
        Expired => "expired",
        /// Its client went away first.
        Cancelled => "cancelled",
        /// The node was lost under it, or the program ended.
        Lost => "lost",
    }
}

impl OutcomeLabel {
    /// The outcome of a read that was refused.
    pub const fn of_read(reason: Reason) -> Self {
        match reason {
            Reason::Upstream | Reason::Shutdown => Self::Lost,
            _ => Self::Rejected,
        }
    }

    /// The outcome of a write that was refused after it had been queued.
    pub const fn of_write(reason: Reason) -> Self {
        match reason {
            Reason::QueueTimeout => Self::Expired,
            _ => Self::of_read(reason),
        }
    }
}

base::named! {
    /// What went wrong between here and a node.
    pub enum UpstreamError {
        /// The mempool is full.
        Full => "full",
        /// The mempool is being checked again after a block.
        Rechecking => "rechecking",
        /// No answer in time.
        Timeout => "timeout",
        /// The transaction was there already.
        Duplicate => "duplicate",
        /// Earlier transactions of the account are missing at the node.
        Sequence => "sequence",
        /// No connection could be made.
        Connect => "connect",
        /// A connection broke.
        Broken => "broken",
    }
}

base::named! {
    /// Where the answer to a read came from that is kept if it cannot change.
    pub enum CacheEnd {
        /// It was kept.
        Hit => "hit",
        /// A node was asked for it.
        Miss => "miss",
        /// A node was asked for it by another client at the same time.
        Collapsed => "collapsed",
    }
}

base::named! {
    /// How an acknowledged write ended.
    pub enum AckEnd {
        /// The node accepted it.
        Accepted => "accepted",
        /// The node refused it.
        Refused => "refused",
        /// It was pushed out of the queue.
        Displaced => "displaced",
        /// It was still here when the program ended.
        Lost => "lost",
        /// The node had accepted it, lost it, and refused it when it was offered again.
        RefusedLater => "refused_later",
        /// The node had accepted it, and no block has shown it for a minute.
        Uncommitted => "uncommitted",
    }
}

impl AckEnd {
    /// Whether sentinel lost an acknowledged write that had no fault: the operator is alarmed.
    /// Any client can send what the node refuses on its merits, or accepts and does not commit.
    pub const fn is_broken_promise(self) -> bool {
        matches!(self, Self::Displaced | Self::Lost)
    }
}

base::named! {
    /// A task that begins anew when it ends by a fault of the program.
    pub enum RestartedTask {
        /// The watching of a node.
        NodeWatch => "node_watch",
        /// The operator's listener.
        OperatorListener => "operator_listener",
    }
}

base::named! {
    /// Why a write connection was opened again.
    pub enum ReconnectCause {
        /// A break of the schedule.
        Interval => "interval",
        /// A break because throughput fell.
        Threshold => "threshold",
        /// The old one broke.
        Broken => "broken",
        /// The node did not answer in time.
        Timeout => "timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_stands_at_its_own_place() {
        for (place, class) in MethodClass::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), place);
        }
        assert_eq!(OutcomeLabel::ALL.len(), 5);
    }

    #[test]
    fn classes_follow_the_names_of_methods() {
        assert_eq!(
            MethodClass::of("broadcast_tx_sync"),
            MethodClass::BroadcastSync
        );
        assert!(MethodClass::of("broadcast_tx_commit").is_write());
        assert_eq!(MethodClass::of("tx_search"), MethodClass::Tx);
        assert_eq!(MethodClass::of("no_such_thing"), MethodClass::Other);
        assert!(!MethodClass::of("Broadcast_tx_sync").is_write());
    }
}
