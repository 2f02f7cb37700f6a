//! The answers of real nodes of several versions, as they were recorded.

use std::time::Duration;

use chain_cometbft::{Client, Outcome, decode_answer};
use rpc::{BroadcastMethod, Endpoint};
use testkit::Dialect;

fn client(url: &str) -> Client {
    let endpoint: Endpoint = url.parse().unwrap();
    Client::new(&endpoint, Duration::from_secs(60)).unwrap()
}

/// What the recorded answer to a method says, if there is one.
fn outcome(dialect: &Dialect, method: &str) -> Option<Outcome<'static>> {
    let answer = decode_answer(dialect.answer(method)?.as_bytes()).unwrap();
    assert_eq!(answer.id.as_u64(), Some(1));
    Some(answer.outcome)
}

#[tokio::test]
async fn every_version_is_read() {
    for dialect in Dialect::ALL {
        let version = dialect.version;
        let server = dialect.serve();
        let client = client(&server.http_url());
        let status = client.status().await.unwrap();
        assert_eq!(status.version, version);
        assert!(status.latest_block_height >= 3 && !status.catching_up);
        let block = client.block(1).await.unwrap();
        assert_eq!(block.chain_id, status.chain_id);
        assert!(block.hash.is_some(), "{version}: the block's own hash");
        assert_eq!(block.hashes.len(), dialect.codes.len(), "{version}");
        assert_eq!(client.num_unconfirmed_txs().await.unwrap().txs, 0);
        let reply = client.broadcast(BroadcastMethod::Sync, b"a").await.unwrap();
        assert_eq!((reply.code, reply.hash.len()), (0, 64), "{version}");
    }
}

/// `results.DeliverTx` in 0.31, `results.deliver_tx` in 0.32, `txs_results` from 0.33 on.
#[tokio::test]
async fn a_transaction_that_failed_in_its_block_is_not_committed_in_any_version() {
    for dialect in Dialect::ALL {
        let server = dialect.serve();
        let codes = client(&server.http_url()).block_results(1).await.unwrap();
        let all_zero = dialect.codes.iter().all(|code| *code == 0);
        // Only where one has failed are there codes.
        let expected = if all_zero { &[] } else { dialect.codes };
        assert_eq!(codes.count, dialect.codes.len(), "{}", dialect.version);
        assert_eq!(codes.codes, expected, "{}", dialect.version);
    }
}

#[test]
fn broadcasts_are_read_in_every_version() {
    for dialect in Dialect::ALL {
        let version = dialect.version;
        for method in ["broadcast_tx_sync", "broadcast_tx_async"] {
            let taken = outcome(&dialect, method);
            assert!(
                matches!(
                    taken,
                    Some(Outcome::Broadcast {
                        code: 0,
                        hash: Some(_),
                        ..
                    })
                ),
                "{version}: {taken:?}"
            );
        }
        let committed = outcome(&dialect, "broadcast_tx_commit");
        assert!(
            matches!(
                committed,
                Some(Outcome::Commit {
                    check_code: 0,
                    tx_code: 0,
                    height: 1..,
                    ..
                })
            ),
            "{version}: {committed:?}"
        );
        match outcome(&dialect, "broadcast_tx_commit_failed") {
            Some(Outcome::Commit {
                check_code: 0,
                tx_code: 1,
                log,
                ..
            }) => {
                assert!(log.contains("Expected 'pubkey!power'"), "{version}: {log}");
            }
            None => assert!(["0.31.5", "0.38.17", "1.0.1"].contains(&version)),
            other => panic!("{version}: {other:?}"),
        }
    }
}

/// CometBFT 1.0 answers by an error, to a commit too.
#[test]
fn a_refused_check_is_a_rejection_with_its_code_in_every_version() {
    let recorded = [
        ("0.31.5", "broadcast_tx_sync_refused", 1),
        ("0.38.17", "broadcast_tx_sync_refused", 2),
        ("1.0.1", "broadcast_tx_sync_refused", 2),
        ("1.0.1", "broadcast_tx_commit_refused", 2),
    ];
    for (version, method, expected) in recorded {
        let dialect = Dialect::ALL.into_iter().find(|it| it.version == version);
        match outcome(&dialect.unwrap(), method) {
            Some(Outcome::Broadcast {
                code,
                hash: Some(_),
                ..
            }) => assert_eq!(code, expected, "{version}: {method}"),
            other => panic!("{version}: {method}: {other:?}"),
        }
    }
}

#[test]
fn errors_are_read_in_every_version() {
    for dialect in Dialect::ALL {
        let version = dialect.version;
        for (method, wanted) in [
            ("broadcast_tx_sync_again", "already exists in cache"),
            ("bad_params", "illegal base64"),
            ("unknown_method", "Method not found"),
            ("mempool_full", "mempool is full: number of txs 2 (max: 2)"),
        ] {
            match outcome(&dialect, method) {
                Some(Outcome::Error {
                    code,
                    message,
                    data,
                    ..
                }) => {
                    assert!(code < 0, "{version}: {code}");
                    assert!(
                        format!("{message}{data}").contains(wanted),
                        "{version}: {message} {data}"
                    );
                }
                None => assert_eq!((method, version), ("mempool_full", "0.31.5")),
                other => panic!("{version}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_full_mempool_is_counted_in_every_version() {
    for dialect in Dialect::ALL {
        let Some(text) = dialect.answer("num_unconfirmed_txs_full") else {
            continue;
        };
        let server = testkit::ScriptedServer::start(move |connection| {
            while connection.read_request().is_some() {
                connection.send(testkit::http_answer(200, text));
            }
        });
        let mempool = client(&server.http_url())
            .num_unconfirmed_txs()
            .await
            .unwrap();
        assert_eq!(mempool.txs, 2, "{}", dialect.version);
        assert!(mempool.bytes >= 6, "{}", dialect.version);
    }
}

#[test]
fn version_1_0_answers_under_v1_as_it_does_under_the_root() {
    let json = |method| -> serde_json::Value {
        serde_json::from_str(Dialect::COMETBFT_1_0.answer(method).unwrap()).unwrap()
    };
    assert_eq!(json("v1_block_results"), json("block_results"));
    let version = |method| json(method)["result"]["node_info"]["version"].clone();
    assert_eq!(version("v1_status"), "1.0.1");
    assert_eq!(version("v1_slash_status"), version("status"));
}
