//! What the front and the write lane exchange; and the acknowledged writes, which were answered before the
//! node or a block had them: how each of them ends, counted and logged.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use rpc::BroadcastMethod;
use tracing::{debug, warn};

use super::answer::is_accepted;
use crate::budget::Reservation;
use crate::clock::Clock;
use crate::metrics::{AckEnd, Metrics};
use crate::refusal::{Reason, Refusal};
use crate::sampled::Sampled;

/// One broadcast of a client, ready to wait its turn.
#[derive(Debug)]
pub struct Write {
    /// The clients between which capacity is shared.
    pub client: ClientKey,
    /// The client's connection, unique in this process.
    pub connection: u64,
    /// Comes back with the answer.
    pub tag: u64,
    /// How it was broadcast.
    pub method: BroadcastMethod,
    /// The transaction.
    pub tx: Bytes,
    /// The bytes this write occupies; returned to the ledger when it is dropped.
    pub reservation: Reservation,
    /// Where the answer goes.
    pub outbox: Arc<Outbox>,
}

/// The answer to a [`Write`].
#[derive(Debug)]
pub struct Delivery {
    /// The tag of the write.
    pub tag: u64,
    /// What became of it.
    pub answer: WriteAnswer,
}

/// What became of a write.
#[derive(Debug)]
pub enum WriteAnswer {
    /// The member that comes after `"id":…,`: `"result":{…}` or `"error":{…}`, compact JSON.
    Member(Bytes),
    /// It was not forwarded, or its end is not known.
    Refused(Refusal),
}

/// Where the answers to one connection's writes come out. Bounded by the writes under way, which
/// the queue bounds.
#[derive(Debug, Default)]
pub struct Outbox {
    ready: Mutex<VecDeque<Delivery>>,
    waker: AtomicWaker,
    closed: AtomicBool,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Hands an answer over; dropped silently when the connection is gone.
    pub fn deliver(&self, delivery: Delivery) {
        if self.is_closed() {
            return;
        }
        self.ready.lock().push_back(delivery);
        self.waker.wake();
    }

    /// Everything that is there, once something is.
    ///
    /// # Cancel safety
    /// Nothing is taken by a call that returned `Pending`.
    pub fn poll_take(&self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        self.waker.register(context.waker());
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(std::mem::take(&mut *ready))
        }
    }

    /// The connection is gone.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// An outbox for one write whose answer is awaited. When it is dropped, the client has gone away.
pub(crate) struct Awaited(pub(crate) Arc<Outbox>);

impl Awaited {
    /// The answer; none if the write went without one.
    pub(crate) async fn answer(self) -> Option<WriteAnswer> {
        let answers = poll_fn(|context| self.0.poll_take(context)).await;
        answers.into_iter().next().map(|delivery| delivery.answer)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Counts the ends of acknowledged writes. Those that are not the client's own fault are logged, one a second of
/// each kind.
#[derive(Debug)]
pub(super) struct Acknowledged {
    metrics: Arc<Metrics>,
    clock: Clock,
    logs: [Sampled; AckEnd::ALL.len()],
    /// Acknowledged, and not accepted or not committed after all.
    unkept: AtomicU64,
}

impl Acknowledged {
    pub(super) fn new(metrics: Arc<Metrics>, clock: Clock) -> Self {
        Self {
            metrics,
            clock,
            logs: std::array::from_fn(|_| Sampled::default()),
            unkept: AtomicU64::new(0),
        }
    }

    /// What would have been answered to an acknowledged write.
    pub(super) fn answered(&self, answer: &WriteAnswer) {
        match answer {
            WriteAnswer::Member(member) if is_accepted(member) => {
                self.metrics.acknowledged(AckEnd::Accepted);
            }
            WriteAnswer::Member(member) => self.unkept(AckEnd::Refused, &start(member)),
            WriteAnswer::Refused(refusal) => {
                let end = match refusal.reason {
                    Reason::Bytes => AckEnd::Displaced,
                    _ => AckEnd::Lost,
                };
                self.unkept(end, &refusal.detail);
            }
        }
    }

    /// The node refuses what it had accepted before.
    pub(super) fn refused_later(&self, member: &[u8]) {
        self.unkept(AckEnd::RefusedLater, &start(member));
    }

    /// No block has shown so many that the node had accepted.
    pub(super) fn uncommitted(&self, count: usize) {
        for _ in 0..count {
            self.unkept(
                AckEnd::Uncommitted,
                "16 blocks have shown later ones and not it",
            );
        }
    }

    /// Acknowledged writes that the node did not accept, or did not commit.
    pub(super) fn all_unkept(&self) -> u64 {
        self.unkept.load(Ordering::Relaxed)
    }

    fn unkept(&self, end: AckEnd, detail: &str) {
        self.metrics.acknowledged(end);
        self.unkept.fetch_add(1, Ordering::Relaxed);
        if !end.is_broken_promise() {
            return debug!(
                end = end.name(),
                detail, "an acknowledged write was refused"
            );
        }
        if let Some(untold) = self.logs[end.index()].turn(self.clock.now()) {
            warn!(
                end = end.name(),
                detail, untold, "a write that was acknowledged has not been carried out"
            );
        }
    }
}

/// The start of a node's answer, for the log.
fn start(member: &[u8]) -> String {
    String::from_utf8_lossy(&member[..member.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use rpc::BroadcastMethod;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::config::Config;
    use crate::lane::{Lane, Outbox, Write, lane};
    use crate::metrics::Gauges;
    use crate::refusal::Refusal;
    use crate::shared_context::SharedContext;
    use crate::upstream::Nodes;

    /// Whether an async is answered when it comes.
    fn is_answered(lane: &Lane) -> bool {
        let outbox = Outbox::new();
        let write = Write {
            client: fairq::KeyScheme::default().key([127, 0, 0, 1].into()),
            connection: 1,
            tag: 1,
            method: BroadcastMethod::Async,
            tx: b"a=1".as_slice().into(),
            reservation: crate::budget::Ledger::new(1_000).reserve(3).unwrap(),
            outbox: Arc::clone(&outbox),
        };
        lane.submit(write).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        matches!(outbox.poll_take(&mut context), Poll::Ready(_))
    }

    /// At 2b52556 90 writes were acknowledged while the node was stopped for 45 s, of which 31 expired.
    #[test]
    fn acknowledged_91_nothing_is_acknowledged_while_the_node_answers_nothing() {
        let shared_context = SharedContext::new(Config::default(), CancellationToken::new());
        let (nodes, events, _watching) = Nodes::start(shared_context.clone()).unwrap();
        let (lane, _worker) = lane(&shared_context, nodes, events).unwrap();
        // Until the node has answered there is no promise to make either.
        assert!(!is_answered(&lane));
        lane.shared.status.lock().answering = true;
        assert!(is_answered(&lane));
        lane.shared.status.lock().answering = false;
        assert!(!is_answered(&lane));
    }

    #[test]
    fn acknowledged_66_every_end_has_a_metric_and_a_place_in_the_account() {
        let metrics = Arc::new(Metrics::default());
        let acknowledged = Acknowledged::new(Arc::clone(&metrics), Clock::start());
        let refused = |reason| WriteAnswer::Refused(Refusal::new(reason, "no"));
        let member = |text: &'static str| WriteAnswer::Member(text.into());
        for answer in [
            member(r#""result":{"code":0,"data":""}"#),
            member(r#""result":{"code":5,"data":""}"#),
            refused(Reason::Bytes),
            refused(Reason::Bytes),
            refused(Reason::Shutdown),
        ] {
            acknowledged.answered(&answer);
        }
        acknowledged.refused_later(br#""error":{"code":-1}"#);
        acknowledged.uncommitted(3);
        assert_eq!(acknowledged.all_unkept(), 8);
        let text = metrics.render(&Gauges::default());
        let ends = [1, 1, 2, 1, 1, 3];
        for (end, count) in AckEnd::ALL.into_iter().zip(ends) {
            let line = format!(
                "sentinel_acknowledged_total{{end=\"{}\"}} {count}\n",
                end.name()
            );
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
