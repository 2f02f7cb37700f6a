//! The mempool of the built-in CometBFT node, with the rules and error texts of CometBFT 0.38's flood mempool
//! (`mempool/clist_mempool.go`).

mod pool;

use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Notify, RwLock, RwLockWriteGuard};
use tokio::time::Instant;

use self::pool::{Pool, SeenCache};
use crate::app::{App, Tx};
use crate::chain::data_bytes;
use crate::config::MempoolConfig;

/// Why the mempool refuses a transaction. The texts are CometBFT's.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Too many transactions or bytes.
    #[error(
        "mempool is full: number of txs {txs} (max: {max_txs}), total txs bytes {bytes} (max: {max_bytes})"
    )]
    Full {
        /// Transactions in the pool.
        txs: usize,
        /// Its limit.
        max_txs: usize,
        /// Their bytes.
        bytes: u64,
        /// Their limit.
        max_bytes: u64,
    },
    /// Above `max_tx_bytes`.
    #[error("Tx too large. Max size is {max}, but got {actual}")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
        /// The transaction's bytes.
        actual: usize,
    },
    /// Too large for a block.
    #[error("tx pre check: tx size is too big: {actual}, max: {max}")]
    NeverFits {
        /// Bytes in a block's data.
        actual: u64,
        /// Room of a block.
        max: u64,
    },
    /// Already in the cache of transactions that were checked.
    #[error("tx already exists in cache")]
    InCache,
}

/// The limits of a mempool and the costs of its checks.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) config: MempoolConfig,
    /// Bytes that a block has for transactions.
    pub(crate) max_data_bytes: u64,
    /// Time that the application takes for one check.
    pub(crate) check_cost: Duration,
    /// Time that the application takes to check one transaction again after a block.
    pub(crate) recheck_cost: Duration,
}

/// The pool of checked transactions.
///
/// Checks hold `update_lock` shared, an update after a block holds it alone: as in CometBFT, nothing is
/// admitted while a block's transactions are removed and the rest is checked again.
#[derive(Debug)]
pub(crate) struct Mempool {
    limits: Limits,
    update_lock: RwLock<()>,
    inner: Mutex<Inner>,
    available: Notify,
}

#[derive(Debug)]
struct Inner {
    pool: Pool,
    cache: SeenCache,
    /// When the application has finished the checks that were given to it; it does one at a time.
    app_free_at: Instant,
}

/// What is in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) txs: usize,
    pub(crate) bytes: u64,
}

impl Mempool {
    pub(crate) fn new(limits: Limits) -> Self {
        let inner = Inner {
            pool: Pool::default(),
            cache: SeenCache::new(limits.config.cache_size),
            app_free_at: Instant::now(),
        };
        Self {
            limits,
            update_lock: RwLock::new(()),
            inner: Mutex::new(inner),
            available: Notify::new(),
        }
    }

    /// Whether [`Self::submit`] never waits, except for an update after a block.
    pub(crate) fn checks_at_once(&self, app: &dyn App) -> bool {
        self.limits.check_cost.is_zero() && !app.is_behind_socket()
    }

    /// Checks a transaction, keeps it if it is valid, and returns the application's code or a refusal.
    /// It calls `queued` once only the application's check can still refuse the transaction.
    ///
    /// # Cancel safety
    /// None: a call that is dropped while the application checks leaves the transaction in the cache
    /// but not in the pool.
    pub(crate) async fn submit(
        &self,
        mut tx: Tx,
        app: &dyn App,
        queued: impl FnOnce() + Send,
    ) -> Result<u32, Refusal> {
        let _shared = match self.update_lock.try_read() {
            Ok(guard) => guard,
            Err(_) => self.update_lock.read().await,
        };
        let cost = self.limits.check_cost;
        if cost.is_zero()
            && let Some(code) = app.check(&tx)
        {
            // Under one lock: nothing can fill the pool between the two checks of its size.
            let mut inner = self.inner.lock();
            self.admit(&mut inner, &tx)?;
            self.finish(&mut inner, tx, code);
            return Ok(code);
        }
        let done_at = {
            let mut inner = self.inner.lock();
            self.admit(&mut inner, &tx)?;
            (!cost.is_zero()).then(|| {
                inner.app_free_at = inner.app_free_at.max(Instant::now()) + cost;
                inner.app_free_at
            })
        };
        queued();
        if let Some(done_at) = done_at {
            tokio::time::sleep_until(done_at).await;
        }
        let code = app.check_later(&mut tx).await;
        self.finish(&mut self.inner.lock(), tx, code);
        Ok(code)
    }

    /// The tests before the application's check, in CometBFT's order.
    fn admit(&self, inner: &mut Inner, tx: &Tx) -> Result<(), Refusal> {
        let config = &self.limits.config;
        self.room_for(inner, tx)?;
        if tx.bytes.len() > config.max_tx_bytes {
            return Err(Refusal::TooLarge {
                max: config.max_tx_bytes,
                actual: tx.bytes.len(),
            });
        }
        let actual = data_bytes(tx.bytes.len()) as u64;
        if actual > self.limits.max_data_bytes {
            return Err(Refusal::NeverFits {
                actual,
                max: self.limits.max_data_bytes,
            });
        }
        if inner.cache.push(tx.hash) {
            Ok(())
        } else {
            Err(Refusal::InCache)
        }
    }

    fn room_for(&self, inner: &Inner, tx: &Tx) -> Result<(), Refusal> {
        let config = &self.limits.config;
        let depth = inner.pool.depth();
        if depth.txs < config.size && depth.bytes + tx.bytes.len() as u64 <= config.max_txs_bytes {
            return Ok(());
        }
        Err(self.full(depth))
    }

    /// The refusal that a full pool of this depth answers.
    pub(crate) fn full(&self, depth: Depth) -> Refusal {
        let config = &self.limits.config;
        Refusal::Full {
            txs: depth.txs,
            max_txs: config.size,
            bytes: depth.bytes,
            max_bytes: config.max_txs_bytes,
        }
    }

    /// Keeps or drops a transaction after the application's check. If the pool has filled up meanwhile, the
    /// transaction is dropped, and the client still gets the application's code.
    fn finish(&self, inner: &mut Inner, tx: Tx, code: u32) {
        if code != 0 || self.room_for(inner, &tx).is_err() {
            if code == 0 || !self.limits.config.keep_invalid_txs_in_cache {
                inner.cache.remove(&tx.hash);
            }
            return;
        }
        let was_empty = inner.pool.depth().txs == 0;
        inner.pool.push(tx);
        if was_empty {
            self.available.notify_one();
        }
    }

    pub(crate) fn depth(&self) -> Depth {
        self.inner.lock().pool.depth()
    }

    /// The oldest transactions, at most `count`.
    pub(crate) fn oldest(&self, count: usize) -> Vec<Tx> {
        self.inner.lock().pool.iter().take(count).cloned().collect()
    }

    /// The oldest transactions that fit into a block of `max_bytes` and `max_txs`.
    pub(crate) fn reap(&self, max_bytes: u64, max_txs: usize) -> Vec<Tx> {
        let inner = self.inner.lock();
        let mut bytes = 0;
        inner
            .pool
            .iter()
            .take(max_txs)
            .take_while(|tx| {
                bytes += data_bytes(tx.bytes.len()) as u64;
                bytes <= max_bytes
            })
            .cloned()
            .collect()
    }

    /// Waits until the pool may hold something.
    pub(crate) async fn available(&self) {
        while self.depth().txs == 0 {
            self.available.notified().await;
        }
    }

    /// Stops admission until the returned update is dropped.
    pub(crate) async fn update(&self) -> Update<'_> {
        Update {
            pool: self,
            _alone: self.update_lock.write().await,
        }
    }

    /// Empties the pool and the cache, as a restart of the node does.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.pool = Pool::default();
        inner.cache.clear();
    }
}

/// The pool while a block's transactions are removed; it admits nothing until this is dropped.
#[derive(Debug)]
pub(crate) struct Update<'a> {
    pool: &'a Mempool,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Update<'_> {
    /// Takes a block's transactions out; `succeeded` is true for the indices that took effect.
    pub(crate) fn remove_committed(&self, txs: &[Tx], succeeded: impl Fn(usize) -> bool) {
        let mut inner = self.pool.inner.lock();
        for (index, tx) in txs.iter().enumerate() {
            if succeeded(index) {
                inner.cache.push(tx.hash);
            } else if !self.pool.limits.config.keep_invalid_txs_in_cache {
                inner.cache.remove(&tx.hash);
            }
            inner.pool.remove(&tx.hash);
        }
    }

    /// Gives the application the transactions that are left.
    pub(crate) fn show_to(&self, app: &dyn App) {
        app.mempool_is(&mut self.pool.inner.lock().pool.iter());
    }

    /// Checks everything left again, at `recheck_cost` for each transaction, and drops what does
    /// not pass any more.
    pub(crate) async fn recheck(&self, app: &dyn App) {
        let limits = &self.pool.limits;
        if !limits.config.recheck {
            return;
        }
        if !limits.recheck_cost.is_zero() {
            let txs = u32::try_from(self.pool.depth().txs).unwrap_or(u32::MAX);
            tokio::time::sleep(limits.recheck_cost.saturating_mul(txs)).await;
        }
        if app.rechecks() {
            let mut inner = self.pool.inner.lock();
            let inner = &mut *inner;
            for hash in inner.pool.failing(|tx| app.recheck(tx) == 0) {
                inner.pool.remove(&hash);
                if !limits.config.keep_invalid_txs_in_cache {
                    inner.cache.remove(&hash);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
}
