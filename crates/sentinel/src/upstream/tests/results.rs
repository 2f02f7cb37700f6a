use rpc::BroadcastMethod;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{Rig, client, client_of, devnode, quick};
use crate::upstream::UpstreamError;

#[derive(serde::Deserialize)]
pub(super) struct Committed {
    pub(super) tx_result: Box<RawValue>,
    pub(super) height: String,
}

/// Commits a transaction at the node: its height, and its result as the node wrote it.
pub(super) async fn commit(rig: &Rig, tx: &str) -> (u64, String) {
    let params = format!(
        r#"{{"tx":"{}"}}"#,
        base64_simd::STANDARD.encode_to_string(tx)
    );
    let method = BroadcastMethod::Commit.name();
    let answer: Committed = client_of(rig).call(method, &params).await.unwrap();
    let result = answer.tx_result.get().to_owned();
    (answer.height.parse().unwrap(), result)
}

#[tokio::test]
async fn a_result_is_what_a_commit_says() {
    let node = quick().await;
    let rig = Rig::up(node.url()).await;
    let (height, expected) = commit(&rig, "a=1").await;
    let results = rig.nodes.results(0, height).await.unwrap();
    assert_eq!(results.tx_result(0), Some(expected.as_str()));
    assert_eq!(results.tx_result(1), None);
    assert!(rig.ledger.used() > 0);
    drop(results);
    rig.stop().await;
    node.stop().await;
}

/// At 2b52556 one call that waited for a block of 3,000 transactions fetched 1.9 MB of results of the others, which
/// were charged to nobody in particular.
#[tokio::test]
async fn case_93_the_result_of_one_transaction_is_asked_for_and_charged_alone() {
    for tx_index in [true, false] {
        let config = devnode::Config {
            tx_index,
            ..devnode::Config::default()
        };
        let node = devnode(config).await;
        let rig = Rig::up(node.url()).await;
        let (height, expected) = commit(&rig, "a=1").await;
        let hash = Sha256::digest("a=1").into();
        let asked = rig.nodes.tx_result(0, client(2), (&hash, height)).await;
        match asked {
            Ok(own) if tx_index => {
                assert_eq!(own.tx_result(0), Some(expected.as_str()));
                assert!(rig.ledger.used() > 0);
            }
            Err(UpstreamError::Refused(_)) if !tx_index => {}
            other => panic!("{other:?}"),
        }
        rig.stop().await;
        node.stop().await;
    }
}

#[tokio::test]
async fn what_the_node_does_not_have_is_an_error() {
    let node = quick().await;
    node.node.faults().halt();
    let rig = Rig::up(node.url()).await;
    let missing = rig.nodes.results(0, 1_000_000).await.map(|_| ());
    assert!(
        matches!(missing, Err(UpstreamError::Refused { .. })),
        "{missing:?}"
    );
    rig.stop().await;
    node.stop().await;
}
