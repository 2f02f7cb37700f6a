use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::*;
use crate::app::kvstore::KvStore;

fn limits() -> Limits {
    Limits {
        config: MempoolConfig::default(),
        max_data_bytes: 1_000_000,
        check_cost: Duration::ZERO,
        recheck_cost: Duration::ZERO,
    }
}

fn app() -> &'static dyn App {
    static APP: LazyLock<KvStore> = LazyLock::new(|| KvStore::new(10));
    &*APP
}

fn tx(text: &str) -> Tx {
    Tx::new(Bytes::from(text.to_owned()))
}

#[tokio::test]
async fn a_full_pool_refuses_before_it_looks_at_anything_else() {
    let mut limits = limits();
    limits.config.size = 1;
    limits.config.max_tx_bytes = 3;
    let pool = Mempool::new(limits);
    assert_eq!(pool.submit(tx("a=1"), app(), || ()).await, Ok(0));
    let refusal = pool
        .submit(tx("much too large=1"), app(), || ())
        .await
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "mempool is full: number of txs 1 (max: 1), total txs bytes 3 (max: 1073741824)"
    );
}

#[tokio::test]
async fn each_limit_has_its_text() {
    let mut limits = limits();
    limits.config.max_tx_bytes = 10;
    limits.config.max_txs_bytes = 12;
    limits.max_data_bytes = 9;
    let pool = Mempool::new(limits);
    let text = async |of: &str| {
        pool.submit(tx(of), app(), || ())
            .await
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        text("abcde=12345").await,
        "Tx too large. Max size is 10, but got 11"
    );
    assert_eq!(
        text("abcd=1234").await,
        "tx pre check: tx size is too big: 11, max: 9"
    );
    assert_eq!(pool.submit(tx("abc=123"), app(), || ()).await, Ok(0));
    assert_eq!(
        text("abd=123").await,
        "mempool is full: number of txs 1 (max: 5000), total txs bytes 7 (max: 12)"
    );
    assert_eq!(pool.depth(), Depth { txs: 1, bytes: 7 });
}

#[tokio::test]
async fn a_seen_transaction_is_refused_and_a_bad_one_may_come_again() {
    let pool = Mempool::new(limits());
    assert_eq!(pool.submit(tx("a=1"), app(), || ()).await, Ok(0));
    assert_eq!(
        pool.submit(tx("a=1"), app(), || ()).await,
        Err(Refusal::InCache)
    );
    assert_eq!(pool.submit(tx("bad"), app(), || ()).await, Ok(2));
    assert_eq!(pool.submit(tx("bad"), app(), || ()).await, Ok(2));
    assert_eq!(pool.depth().txs, 1);
}

#[tokio::test]
async fn a_committed_transaction_stays_in_the_cache() {
    let pool = Mempool::new(limits());
    let committed = tx("a=1");
    pool.submit(committed.clone(), app(), || ()).await.unwrap();
    pool.update()
        .await
        .remove_committed(std::slice::from_ref(&committed), |_| true);
    assert_eq!(pool.depth().txs, 0);
    assert_eq!(
        pool.submit(committed.clone(), app(), || ()).await,
        Err(Refusal::InCache)
    );
    pool.update()
        .await
        .remove_committed(std::slice::from_ref(&committed), |_| false);
    assert_eq!(pool.submit(committed, app(), || ()).await, Ok(0));
}

#[tokio::test]
async fn a_block_takes_the_oldest_that_fit() {
    let pool = Mempool::new(limits());
    for text in ["a=1", "b=1", "c=1"] {
        pool.submit(tx(text), app(), || ()).await.unwrap();
    }
    let texts = |txs: Vec<Tx>| txs.into_iter().map(|tx| tx.bytes).collect::<Vec<_>>();
    assert_eq!(texts(pool.reap(10, 100)), ["a=1", "b=1"]);
    assert_eq!(texts(pool.reap(14, 100)), ["a=1", "b=1"]);
    assert_eq!(texts(pool.reap(15, 100)), ["a=1", "b=1", "c=1"]);
    assert_eq!(texts(pool.reap(100, 1)), ["a=1"]);
}

#[tokio::test(start_paused = true)]
async fn checks_queue_for_the_one_application() {
    let mut limits = limits();
    limits.check_cost = Duration::from_millis(10);
    let pool = Arc::new(Mempool::new(limits));
    let start = Instant::now();
    let both = tokio::join!(
        pool.submit(tx("a=1"), app(), || ()),
        pool.submit(tx("b=1"), app(), || ())
    );
    assert_eq!(both, (Ok(0), Ok(0)));
    assert_eq!(start.elapsed().as_millis(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_recheck_keeps_everybody_out_for_as_long_as_it_takes() {
    let mut limits = limits();
    limits.recheck_cost = Duration::from_millis(5);
    let pool = Mempool::new(limits);
    for text in ["a=1", "b=1", "c=1"] {
        pool.submit(tx(text), app(), || ()).await.unwrap();
    }
    let start = Instant::now();
    let update = pool.update().await;
    update.remove_committed(&[tx("a=1")], |_| true);
    let recheck = async {
        update.recheck(app()).await;
        drop(update);
    };
    let ((), answer) = tokio::join!(recheck, pool.submit(tx("d=1"), app(), || ()));
    assert_eq!(answer, Ok(0));
    assert_eq!(start.elapsed().as_millis(), 10);
}
