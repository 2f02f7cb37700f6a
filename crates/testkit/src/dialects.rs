//! What nodes of several versions answered, to read it back in tests.

use crate::scripted::{ScriptedServer, http_answer};

/// The recorded answers of one version.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// As the node writes it.
    pub version: &'static str,
    /// The codes with which the transactions of the recorded block were executed.
    pub codes: &'static [u32],
    answers: &'static [(&'static str, &'static str)],
}

/// The answers in a folder of `dialects/`: those that every version has, and others.
macro_rules! dialect {
    (@ $version:literal, $folder:literal, $codes:expr, $($method:literal),*) => {
        Dialect {
            version: $version,
            codes: &$codes,
            answers: &[$((
                $method,
                include_str!(concat!("../dialects/", $folder, "/", $method, ".json")),
            )),*],
        }
    };
    ($version:literal, $folder:literal, FULL_OR_FAILED) => {
        dialect!(
            $version,
            $folder,
            [0, 1],
            ["mempool_full", "num_unconfirmed_txs_full", "broadcast_tx_commit_failed"]
        )
    };
    ($version:literal, $folder:literal, $codes:expr, [$($other:literal),*]) => {
        dialect!(@ $version, $folder, $codes, "status", "block", "block_results", "blockchain", "tx",
            "num_unconfirmed_txs", "consensus_params", "broadcast_tx_sync", "broadcast_tx_async",
            "broadcast_tx_commit", "broadcast_tx_sync_again", "bad_params", "unknown_method",
            "block_above_head", "ws_subscribe_reply", "ws_new_block" $(, $other)*)
    };
}

impl Dialect {
    /// A Tendermint of 2019, as BigchainDB 2.2 needs it.
    pub const TENDERMINT_0_31: Self = dialect!(
        "0.31.5",
        "tendermint-0.31.5",
        [0, 1],
        ["broadcast_tx_sync_refused"]
    );
    /// The CometBFT that most chains run.
    pub const COMETBFT_0_38: Self = dialect!(
        "0.38.17",
        "cometbft-0.38.17",
        [0, 0],
        [
            "mempool_full",
            "num_unconfirmed_txs_full",
            "broadcast_tx_sync_refused",
            "broadcast_tx_commit_refused"
        ]
    );
    /// The CometBFT with a version in its routes.
    pub const COMETBFT_1_0: Self = dialect!(
        "1.0.1",
        "cometbft-1.0.1",
        [0, 0],
        [
            "mempool_full",
            "num_unconfirmed_txs_full",
            "broadcast_tx_sync_refused",
            "broadcast_tx_commit_refused",
            "v1_status",
            "v1_slash_status",
            "v1_block_results"
        ]
    );
    /// All of them, the oldest first.
    pub const ALL: [Self; 7] = [
        Self::TENDERMINT_0_31,
        dialect!("0.32.14", "tendermint-0.32.14", FULL_OR_FAILED),
        dialect!("0.33.9", "tendermint-0.33.9", FULL_OR_FAILED),
        dialect!("0.34.24", "tendermint-0.34.24", FULL_OR_FAILED),
        dialect!("0.37.15", "cometbft-0.37.15", FULL_OR_FAILED),
        Self::COMETBFT_0_38,
        Self::COMETBFT_1_0,
    ];

    /// What it answered to a method; `None` where that was not recorded.
    pub fn answer(&self, method: &str) -> Option<&'static str> {
        let mut answers = self.answers.iter();
        let found = answers.find(|(name, _)| *name == method);
        found.map(|(_, text)| *text)
    }

    /// A server that gives the recorded answers to JSON-RPC requests over HTTP, and 404 to all others.
    #[must_use]
    pub fn serve(self) -> ScriptedServer {
        ScriptedServer::start(move |connection| {
            while let Some(request) = connection.read_request() {
                let text = String::from_utf8_lossy(&request.body).into_owned();
                let method = text
                    .split_once(r#""method":""#)
                    .and_then(|(_, rest)| rest.split('"').next());
                connection.send(match method.and_then(|method| self.answer(method)) {
                    Some(answer) => http_answer(200, answer),
                    None => http_answer(404, ""),
                });
            }
        })
    }
}
