//! An application that the node does not know, through its public traits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use devnode::app::{App, Execution, Finalized, QueryAnswer, Tx};
use devnode::{Blueprint, Host, Kind, Node, Setup};

use crate::support::{quick, start};

/// Counts transactions, and refuses empty ones.
#[derive(Debug, Default)]
struct Counter(Arc<AtomicU64>);

impl App for Counter {
    fn check(&self, tx: &Tx) -> Option<u32> {
        Some(u32::from(tx.bytes.is_empty()))
    }

    fn app_hash(&self) -> Vec<u8> {
        self.0.load(Ordering::Relaxed).to_be_bytes().to_vec()
    }

    fn finalize(&self, block: Execution<'_>) -> Finalized {
        let (counter, count) = (Arc::clone(&self.0), block.txs.len() as u64);
        Finalized {
            failed: block.failing,
            outcomes: Vec::new(),
            app_hash: (counter.load(Ordering::Relaxed) + count)
                .to_be_bytes()
                .to_vec(),
            commit: Box::new(move || {
                counter.fetch_add(count, Ordering::Relaxed);
                None
            }),
        }
    }

    fn query(&self, _path: &str, _data: &[u8]) -> QueryAnswer {
        QueryAnswer {
            value: Some(self.app_hash()),
            ..QueryAnswer::default()
        }
    }
}

/// A node with it.
#[derive(Debug)]
struct CounterKind;

impl Kind for CounterKind {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn build(&self, host: &Arc<Host>) -> Setup {
        Node::new(host, Arc::new(Counter::default())).setup()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_of_another_crate_runs_on_the_node() {
    let node = Blueprint {
        kind: &CounterKind,
        config: quick(),
    };
    let running = start(node).await;
    let sent = running.get("/broadcast_tx_commit?tx=\"anything\"").await;
    assert_eq!(sent["result"]["tx_result"]["code"], 0);
    let refused = running.get("/broadcast_tx_sync?tx=0x").await;
    assert_eq!(refused["result"]["code"], 1);
    let found = running.get("/abci_query").await;
    assert_eq!(found["result"]["response"]["value"], "AAAAAAAAAAE=");
    running.stop().await;
}
