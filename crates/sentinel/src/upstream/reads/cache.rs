//! Answers that cannot change: kept within a bound of bytes, and asked for once by those who ask at the same time.
//!
//! A question that comes while the same one is under way gets that one's answer only if it cannot change. Any other
//! answer may be older than the question, so that a client would not see what it has just written.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use hyper::HeaderMap;
use parking_lot::Mutex;
use quick_cache::sync::Cache as KeyedCache;
use quick_cache::{OptionsBuilder, Weighter};
use tokio::sync::watch;

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
    /// What is kept, or was and is still being sent.
    alive: Ledger,
    /// The proxy's account.
    ledger: Ledger,
    metrics: Arc<Metrics>,
    /// Bytes of one answer, at most.
    most: usize,
}

/// What comes of a question under way; its end without an answer if that may change.
type UnderWay = watch::Receiver<Option<Arc<Kept>>>;

pub(super) type Headers = Vec<(Cow<'static, str>, Bytes)>;

/// An answer that cannot change.
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
    pub(super) headers: Headers,
    /// Behind it, over gRPC.
    pub(super) trailers: Option<HeaderMap>,
    /// How long it may be given out.
    pub(super) fresh: Duration,
}

impl Kept {
    /// Whether it may still be given out.
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.since) < self.head.fresh
    }

    /// Its headers, with its age (RFC 9111, section 5.1).
    pub(super) fn headers(&self) -> Headers {
        let age = self.since.elapsed().as_secs().to_string();
        let mut headers = self.head.headers.clone();
        headers.push(("Age".into(), age.into()));
        headers
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
    /// Nothing: it is to be asked, and others wait for it.
    Ask(Asking),
    /// Nothing: it is to be asked. Somebody else's answer was none for it.
    AskAlone,
}

/// A question under way for all that ask it. Those that wait for it go on when this is dropped.
pub(super) struct Asking {
    cache: Cache,
    key: Box<[u8]>,
    tell: watch::Sender<Option<Arc<Kept>>>,
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
        let mut under_way = match self.begin(key, client) {
            Ok(found) => return found,
            Err(under_way) => under_way,
        };
        let answer = under_way.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        let end = (answer.as_ref()).map_or(CacheEnd::Miss, |_| CacheEnd::Collapsed);
        self.0.metrics.cacheable_read(end);
        answer.map_or(Found::AskAlone, Found::Answer)
    }

    /// What there is at once, or the question of somebody else to wait for.
    fn begin(&self, key: Box<[u8]>, client: &Ledger) -> Result<Found, UnderWay> {
        let metrics = &self.0.metrics;
        let kept = self.0.kept.get(&key);
        if let Some(kept) = kept.filter(|kept| kept.is_fresh(Instant::now())) {
            metrics.cacheable_read(CacheEnd::Hit);
            return Ok(Found::Answer(kept));
        }
        let mut asked = self.0.asked.lock();
        if let Some(under_way) = asked.get(&key) {
            return Err(under_way.clone());
        }
        metrics.cacheable_read(CacheEnd::Miss);
        let Some(key_room) = client.reserve(2 * key.len() + OVERHEAD) else {
            return Ok(Found::AskAlone);
        };
        let (tell, under_way) = watch::channel(None);
        asked.insert(key.clone(), under_way);
        Ok(Found::Ask(Asking {
            cache: self.clone(),
            key,
            tell,
            _key_room: key_room,
        }))
    }
}

impl Asking {
    /// Keeps an answer in whose body the id is at that place, and gives it to all that wait; the body again if there is
    /// no room.
    pub(super) fn keep(
        self,
        head: KeptHead,
        (body, mut charge): (Vec<u8>, Reservation),
        id: std::ops::Range<usize>,
    ) -> Result<Arc<Kept>, (Vec<u8>, Reservation)> {
        let inner = &self.cache.0;
        let sizes = head
            .headers
            .iter()
            .map(|(name, text)| name.len() + text.len());
        let trailers = head.trailers.iter().flat_map(HeaderMap::iter);
        let sizes = sizes.chain(trailers.map(|(name, text)| name.as_str().len() + text.len()));
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
        inner.kept.insert(self.key.clone(), Arc::clone(&kept));
        self.tell.send_replace(Some(Arc::clone(&kept)));
        Ok(kept)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.cache.0.asked.lock().remove(&self.key);
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
                headers: Vec::new(),
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
