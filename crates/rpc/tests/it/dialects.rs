//! The answers of real nodes of several versions, as they were recorded.

use std::time::Duration;

use rpc::{BroadcastMethod, Client, Endpoint, Outcome, decode_answer};
use testkit::Dialect;

fn client(url: &str) -> Client {
    let endpoint: Endpoint = url.parse().unwrap();
    Client::new(&endpoint, Duration::from_secs(60)).unwrap()
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
        let codes = client.block_results(1).await.unwrap();
        assert_eq!(codes.count, block.hashes.len(), "{version}");
        assert!(codes.count > 0);
        assert_eq!(client.num_unconfirmed_txs().await.unwrap().txs, 0);
        let reply = client.broadcast(BroadcastMethod::Sync, b"a").await.unwrap();
        assert_eq!((reply.code, reply.hash.len()), (0, 64), "{version}");
        let commit = decode_answer(dialect.answer("broadcast_tx_commit").unwrap().as_bytes());
        assert!(
            matches!(
                commit.unwrap().outcome,
                Outcome::Commit { check_code: 0, .. }
            ),
            "{version}"
        );
    }
}

/// Two transactions that spend one output: both are in the block, one has failed.
#[tokio::test]
async fn a_failed_transaction_of_tendermint_0_31_is_not_committed() {
    let server = Dialect::TENDERMINT_0_31.serve();
    let client = client(&server.http_url());
    let codes = client.block_results(18).await.unwrap();
    assert_eq!((codes.count, codes.codes), (2, vec![0, 1]));
}
