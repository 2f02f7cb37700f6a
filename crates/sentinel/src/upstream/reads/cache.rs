//! Answers that cannot change, kept within a bound of bytes, and questions that several ask at the same time.
//!
//! One of each question is under way at a time. Clients that ask it meanwhile get its answer only if that cannot change: any
//! other may be older than their question, so that a client would not see what it has just written. They wait for its
//! end. Then one of them asks, for all that came before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use hyper::HeaderMap;
use hyper::header::{AGE, HeaderValue};
use parking_lot::Mutex;
use quick_cache::sync::Cache as KeyedCache;
use quick_cache::{OptionsBuilder, Weighter};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::budget::{Ledger, Reservation};
use crate::metrics::{CacheEnd, Metrics};
use crate::respond::KeptId;
use crate::upstream::body::charged;

/// What is kept, and what is asked for. Clones share it.
#[derive(Clone)]
pub(super) struct Cache(Arc<Inner>);

struct Inner {
    kept: KeyedCache<Box<[u8]>, Arc<Kept>, ByBytes>,
    asked: Mutex<HashMap<Box<[u8]>, UnderWay>>,
    /// Questions that were asked, of any kind.
    count: AtomicU64,
    /// What is kept, or was and is still being sent.
    alive: Ledger,
    /// The proxy's account.
    ledger: Ledger,
    metrics: Arc<Metrics>,
    /// Bytes of one answer, at most.
    most: usize,
}

/// A question under way, by its number.
#[derive(Clone)]
struct UnderWay {
    number: u64,
    end: watch::Receiver<Option<End>>,
}

/// What clients get that came before a question was asked: its answer, or nothing, and each asks alone. If its client has
/// gone or was refused there is no end, and another one of them asks.
type End = Option<Arc<Kept>>;

/// An answer for several.
#[derive(Debug)]
pub(super) struct Kept {
    head: KeptHead,
    /// The body before the id and after it.
    body: [Bytes; 2],
    since: Instant,
    weight: usize,
}

/// What stands around the body of an answer.
#[derive(Debug)]
pub(super) struct KeptHead {
    pub(super) headers: HeaderMap,
    /// Behind it, over gRPC.
    pub(super) trailers: Option<HeaderMap>,
    /// How long it may be given out; not at all to later questions if it may change.
    pub(super) fresh: Duration,
}

impl Kept {
    /// Whether it may still be given out.
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.since) < self.head.fresh
    }

    /// Its headers, with its age if it cannot change (RFC 9111, section 5.1).
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = self.head.headers.clone();
        if self.is_final() {
            headers.insert(AGE, self.since.elapsed().as_secs().into());
        }
        headers
    }

    /// Whether it cannot change.
    pub(super) const fn is_final(&self) -> bool {
        !self.head.fresh.is_zero()
    }

    pub(super) const fn trailers(&self) -> Option<&HeaderMap> {
        self.head.trailers.as_ref()
    }

    /// Its body for a request with this id.
    pub(super) fn body(&self, id: Option<&KeptId>) -> [Bytes; 3] {
        let id = id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes()));
        let [before, after] = self.body.clone();
        [before, id, after]
    }
}

/// What there is for a question.
pub(super) enum Found {
    /// Its answer.
    Answer(Arc<Kept>),
    /// Nothing: it is to be asked, and others may wait for it.
    Ask(Asking),
    /// Nothing: it is to be asked. The answer to another client's question was none for it.
    AskAlone,
}

/// A question under way for all that wait for its answer. They go on when this is dropped.
pub(super) struct Asking {
    cache: Cache,
    key: Box<[u8]>,
    tell: watch::Sender<Option<End>>,
    end: Option<End>,
    _key_room: Reservation,
}

impl Cache {
    /// An empty one, within the proxy's account.
    pub(super) fn new(ledger: &Ledger, metrics: &Arc<Metrics>) -> Self {
        let bytes = ledger.capacity() / CACHE_SHARE;
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity((bytes / USUAL_ANSWER).max(1))
            .weight_capacity(bytes as u64)
            .build()
            .expect("both capacities are given");
        let kept = KeyedCache::with_options(
            options,
            ByBytes,
            Default::default(),
            quick_cache::sync::DefaultLifecycle::default(),
        );
        Self(Arc::new(Inner {
            kept,
            asked: Mutex::default(),
            count: AtomicU64::new(0),
            alive: Ledger::new(2 * bytes),
            ledger: ledger.clone(),
            metrics: Arc::clone(metrics),
            most: bytes / ANSWER_SHARE,
        }))
    }

    /// Bytes of an answer that is kept, at most.
    pub(super) fn most(&self) -> usize {
        self.0.most
    }

    /// What there is for this question of a client with that account, once the same question of others was answered.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn find(&self, key: Box<[u8]>, client: &Ledger) -> Found {
        let metrics = &self.0.metrics;
        if let Some(kept) = self.kept(&key) {
            metrics.cacheable_read(CacheEnd::Hit);
            return Found::Answer(kept);
        }
        let found = match client.reserve(2 * key.len() + OVERHEAD) {
            Some(key_room) => {
                let joined = timeout(LONGEST_WAIT, self.join(key, key_room)).await;
                joined.unwrap_or(Found::AskAlone)
            }
            None => Found::AskAlone,
        };
        metrics.cacheable_read(match found {
            Found::Answer(_) => CacheEnd::Collapsed,
            Found::Ask(_) | Found::AskAlone => CacheEnd::Miss,
        });
        found
    }

    fn kept(&self, key: &[u8]) -> Option<Arc<Kept>> {
        let kept = self.0.kept.get(key);
        kept.filter(|kept| kept.is_fresh(Instant::now()))
    }

    /// Waits until no request with this key is under way, or one has been answered that was sent after this call came.
    async fn join(&self, key: Box<[u8]>, key_room: Reservation) -> Found {
        let mut came_at = None;
        loop {
            let mut under_way = {
                let mut asked = self.0.asked.lock();
                let Some(under_way) = asked.get(&key) else {
                    return self.kept(&key).map_or_else(
                        || Found::Ask(self.begin(&mut asked, key, key_room)),
                        Found::Answer,
                    );
                };
                under_way.clone()
            };
            let is_later = under_way.number > *came_at.get_or_insert(under_way.number);
            if let Ok(end) = under_way.end.wait_for(Option::is_some).await
                && is_later
                && let Some(end) = &*end
            {
                return end.clone().map_or(Found::AskAlone, Found::Answer);
            }
        }
    }

    fn begin(
        &self,
        asked: &mut HashMap<Box<[u8]>, UnderWay>,
        key: Box<[u8]>,
        key_room: Reservation,
    ) -> Asking {
        let (tell, end) = watch::channel(None);
        let number = self.0.count.fetch_add(1, Ordering::Relaxed);
        asked.insert(key.clone(), UnderWay { number, end });
        Asking {
            cache: self.clone(),
            key,
            tell,
            end: None,
            _key_room: key_room,
        }
    }
}

impl Asking {
    /// The node has answered: whether others wait. Unless the answer is [kept](Self::keep), each of them asks alone.
    pub(super) fn answered(&mut self) -> bool {
        let is_awaited = self.tell.receiver_count() > 1;
        if is_awaited {
            self.end = Some(None);
        }
        is_awaited
    }

    /// Gives an answer in whose body the id is at that place to all that wait, and keeps it if it cannot change; the
    /// body again if there is no room.
    pub(super) fn keep(
        mut self,
        mut head: KeptHead,
        (body, mut charge): (Vec<u8>, Reservation),
        id: std::ops::Range<usize>,
    ) -> Result<Arc<Kept>, (Vec<u8>, Reservation)> {
        let inner = &self.cache.0;
        // What they were read into is not kept with them.
        for text in head.headers.values_mut() {
            *text = HeaderValue::from_bytes(text.as_bytes()).expect("it was one");
        }
        let fields = head.headers.iter().chain(head.trailers.iter().flatten());
        let sizes = fields.map(|(name, text)| FIELD_BYTES + name.as_str().len() + text.len());
        let weight = body.capacity() + self.key.len() + sizes.sum::<usize>() + OVERHEAD;
        let missing = weight.saturating_sub(charge.bytes());
        let room = inner.alive.reserve(weight);
        let Some(room) = room.filter(|_| charge.grow(missing) && charge.move_to(&inner.ledger))
        else {
            return Err((body, charge));
        };
        let body = charged(charged(body, charge), room);
        let kept = Arc::new(Kept {
            head,
            body: [body.slice(..id.start), body.slice(id.end..)],
            since: Instant::now(),
            weight,
        });
        if kept.is_final() {
            inner.kept.insert(self.key.clone(), Arc::clone(&kept));
        }
        self.end = Some(Some(Arc::clone(&kept)));
        Ok(kept)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.cache.0.asked.lock().remove(&self.key);
        // Removed first, so that a task that this wakes finds no request under way.
        if let Some(end) = self.end.take() {
            self.tell.send_replace(Some(end));
        }
    }
}

/// What a kept answer takes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<Box<[u8]>, Arc<Kept>> for ByBytes {
    fn weight(&self, _: &Box<[u8]>, kept: &Arc<Kept>) -> u64 {
        kept.weight as u64
    }
}

/// The part of the account that kept answers may take, one in so many. While slow clients still take answers that are
/// kept no longer, all of them may take twice that.
const CACHE_SHARE: usize = 8;
/// The part of the cache that one answer may take. What is larger is asked of the node by each client: with a quarter 256
/// clients that asked for one block of 11 MB at the same time kept a node from making blocks for 15 s.
const ANSWER_SHARE: usize = 2;
/// A usual answer: a small block.
const USUAL_ANSWER: usize = 4 << 10;
/// How long a client waits for answers to others before it asks alone, so that no client keeps others from asking. In
/// that time a node sends the longest answer that is kept by default, at 30 Mbit/s.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A header's place in a map, beside its text.
const FIELD_BYTES: usize = 128;
/// What an answer takes beside its text.
const OVERHEAD: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_100_an_answer_is_given_out_no_longer_than_its_node_allows() {
        let since = Instant::now();
        let kept = Kept {
            head: KeptHead {
                headers: HeaderMap::new(),
                trailers: None,
                fresh: Duration::from_secs(60),
            },
            body: [Bytes::new(), Bytes::new()],
            since,
            weight: 0,
        };
        assert!(kept.is_fresh(since));
        assert!(kept.is_fresh(since + Duration::from_millis(59_999)));
        assert!(!kept.is_fresh(since + Duration::from_secs(60)));
    }
}
