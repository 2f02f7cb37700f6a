//! What nodes of several versions answered, to read it back in tests.

use crate::scripted::{ScriptedServer, http_answer};

/// The recorded answers of one version.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// As the node writes it.
    pub version: &'static str,
    answers: &'static [(&'static str, &'static str)],
}

/// The answers in a folder of `dialects/`: those that every version has, and others.
macro_rules! dialect {
    ($version:literal, $folder:literal, [$($other:literal),*]) => {
        dialect!($version, $folder: "status", "block", "block_results", "num_unconfirmed_txs",
            "broadcast_tx_sync", "broadcast_tx_commit" $(, $other)*)
    };
    ($version:literal, $folder:literal: $($method:literal),*) => {
        Dialect {
            version: $version,
            answers: &[$((
                $method,
                include_str!(concat!("../dialects/", $folder, "/", $method, ".json")),
            )),*],
        }
    };
}

impl Dialect {
    /// A Tendermint of 2019, as BigchainDB 2.2 needs it.
    pub const TENDERMINT_0_31: Self = dialect!("0.31.5", "tendermint-0.31.5", []);
    /// The CometBFT that most chains run.
    pub const COMETBFT_0_38: Self = dialect!("0.38.17", "cometbft-0.38.17", ["blockchain"]);
    /// The CometBFT with a version in its routes.
    pub const COMETBFT_1_0: Self = dialect!("1.0.1", "cometbft-1.0.1", ["blockchain"]);
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [
        Self::TENDERMINT_0_31,
        Self::COMETBFT_0_38,
        Self::COMETBFT_1_0,
    ];

    /// What it answered to a method; `None` where that was not recorded.
    #[must_use]
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
