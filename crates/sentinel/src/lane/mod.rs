//! The write lane: from a client's broadcast to the node, fairly, in order and at the right pace.
//!
//! [`Lane`] is the handle that the front has, [`Worker`] the one task that sends. A write waits in
//! its client's queue (`queue`) until the worker takes it. From then on it is in one state (`writes`): to be sent,
//! under way on a connection (`pool`), held, or accepted and kept until a block shows it. Its answer goes straight to
//! the client's connection (`api`). Beside that the worker has the account of what is in no block yet, by hash
//! (`uncommitted`), the pacer (`pace`), calls that wait for a block (`commits`), and breaks (`breaks`). None of these
//! parts depends on the worker.

mod answer;
mod api;
mod commits;
mod job;
mod pool;
mod queue;
mod scarcity;
mod status;
#[cfg(test)]
mod testing;
mod worker;
mod writes;

use std::sync::Arc;

use bytes::Bytes;
use control::Bound;
use fairq::{Backlog, ClientKey};
use hashbrown::HashMap;
use pacing::{Nanos, Rate};
use parking_lot::{Mutex, MutexGuard};
use rpc::BroadcastMethod;
use tokio::sync::{Notify, mpsc};

use self::api::Acknowledged;
pub(crate) use self::api::Awaited;
pub use self::api::{Delivery, Outbox, Write, WriteAnswer};
use self::job::{Job, Notes, Recipient, Record};
pub use self::queue::ClientDemand;
use self::queue::WriteQueue;
pub use self::scarcity::Shortage;
pub use self::status::{Accounts, Explained, Status, Tally};
pub use self::worker::{OWN_CONNECTIONS, Worker};
use crate::budget::Reservation;
use crate::clock::Clock;
use crate::config::{AsyncAck, Live, WriteOrder};
use crate::refusal::Refusal;
use crate::shadow::Shadow;
use crate::shared_context::SharedContext;
use crate::upstream::{NodeEvent, Nodes};

/// The front's side of the write lane. Clones share it.
#[derive(Clone)]
pub struct Lane {
    shared: Arc<Shared>,
    acknowledged: Arc<Acknowledged>,
    config: Live,
    order: WriteOrder,
    shadow: Shadow,
}

/// A write lane and the task that serves it. Nothing is sent before the worker runs.
///
/// # Errors
/// The limits of the queue contradict each other.
pub fn lane(
    shared_context: &SharedContext,
    nodes: Nodes,
    events: mpsc::Receiver<NodeEvent>,
) -> Result<(Lane, Worker), fairq::Error> {
    let config = shared_context.config.current();
    let queue = WriteQueue::new(&config, shared_context.seed)?;
    let shared = Arc::new(Shared::new(queue, shared_context.clock));
    let metrics = Arc::clone(&shared_context.metrics);
    let acknowledged = Arc::new(Acknowledged::new(metrics, shared_context.clock));
    let lane = Lane {
        shared: Arc::clone(&shared),
        acknowledged: Arc::clone(&acknowledged),
        config: shared_context.config.clone(),
        order: config.fair.order,
        shadow: shared_context.shadow.clone(),
    };
    let worker = Worker::new((shared, acknowledged), shared_context, nodes, events);
    Ok((lane, worker))
}

impl Lane {
    /// Puts a write into its client's queue.
    ///
    /// # Errors
    /// Why it was not taken, and when to try again. Nothing was forwarded.
    pub fn submit(&self, write: Write) -> Result<(), Refusal> {
        let now = self.shared.clock.now();
        let (timeout, async_ack) = {
            let fair = &self.config.load().fair;
            (fair.queue_timeout, fair.async_ack)
        };
        let mut job = Job::from(Record {
            client: write.client,
            line: write.connection,
            method: write.method,
            tx: write.tx,
            notes: Notes::default(),
            arrived: now,
            deadline: now.saturating_add(timeout.into()),
            recipient: Recipient::Client {
                outbox: write.outbox,
                tag: write.tag,
            },
            reservation: write.reservation,
        });
        job.prepare(self.order);
        // While the node answers nothing the write waits for its answer, as it would at the node.
        let is_answered_now = async_ack == AsyncAck::Buffered
            && job.method == BroadcastMethod::Async
            && self.shared.status.lock().answering;
        let acknowledged = is_answered_now.then(|| {
            let acknowledged = Recipient::Acknowledged(Arc::clone(&self.acknowledged));
            let waiting = std::mem::replace(&mut job.recipient, acknowledged);
            (waiting, answer::accepted(&job.hash()))
        });
        self.admit(job, now)?;
        if let Some((waiting, member)) = acknowledged {
            waiting.deliver(WriteAnswer::Member(member));
        }
        Ok(())
    }

    /// Wakes the worker for the first that waits, and for a client that may have a place that is kept.
    fn admit(&self, job: Job, now: Nanos) -> Result<(), Refusal> {
        let client = job.client;
        let is_for_worker = {
            let mut queue = self.shared.lock();
            let was_empty = queue.len() == 0;
            queue.admit(job, now)?;
            was_empty || queue.is_short(client)
        };
        if is_for_worker {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// Waits for the turn of a call that is no broadcast and costs the node as much: from then on it is the caller's.
    ///
    /// # Errors
    /// Why it has none, and when to try again.
    ///
    /// # Cancel safety
    /// Dropping the future gives the turn up.
    pub async fn turn(
        &self,
        client: ClientKey,
        call: Bytes,
        reservation: Reservation,
    ) -> Result<(), Refusal> {
        let awaited = Awaited(Outbox::new());
        let recipient = Recipient::Client {
            outbox: Arc::clone(&awaited.0),
            tag: 0,
        };
        self.wait_for_turn(client, (call, reservation), recipient)?;
        match awaited.answer().await {
            Some(WriteAnswer::Refused(refusal)) => Err(refusal),
            Some(WriteAnswer::Member(_)) | None => Ok(()),
        }
    }

    /// Decides about a call that goes to the node at once: a turn waits here in its place, without a client. If it would
    /// have been refused, now or later, that is counted.
    pub(crate) fn judge(&self, client: ClientKey, call: Bytes, reservation: Reservation) {
        let recipient = Recipient::Shadow(self.shadow.clone(), client);
        if let Err(refusal) = self.wait_for_turn(client, (call, reservation), recipient) {
            self.shadow.note(client, &refusal);
        }
    }

    /// Puts the turn of a call into its client's queue.
    fn wait_for_turn(
        &self,
        client: ClientKey,
        (call, reservation): (Bytes, Reservation),
        recipient: Recipient,
    ) -> Result<(), Refusal> {
        let now = self.shared.clock.now();
        let mut job = Job::from(Record {
            client,
            line: TURNS,
            method: BroadcastMethod::Sync,
            tx: call,
            notes: Notes::default(),
            arrived: now,
            deadline: now.saturating_add(self.config.load().fair.queue_timeout.into()),
            recipient,
            reservation,
        });
        job.notes.is_turn = true;
        self.admit(job, now)
    }

    /// Whether this client's queue has room for another write that would be served in time.
    pub fn has_room(&self, client: ClientKey) -> bool {
        self.shared.lock().has_room(client, self.shared.clock.now())
    }

    /// Waits until the client's queue has room.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn room(&self, client: ClientKey) {
        loop {
            let room = {
                let mut queue = self.shared.lock();
                if queue.has_room(client, self.shared.clock.now()) {
                    return;
                }
                queue.room(client)
            };
            room.notified().await;
        }
    }

    /// The connection is gone: its queued writes are dropped, but for those that were acknowledged.
    pub fn disconnect(&self, client: ClientKey, connection: u64) {
        self.shared.lock().disconnect(client, connection);
    }

    /// The node that takes the writes now, by its place in the list.
    pub fn node(&self) -> Option<usize> {
        self.shared.status.lock().node
    }

    /// The state of the lane.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The clients with the longest backlogs, longest first, and what each waits.
    pub fn top(&self, count: usize) -> Vec<(ClientKey, Backlog)> {
        self.shared.lock().top(count)
    }

    /// What each client that came since the last call, or waits, asks for. The first call begins to count.
    pub fn demands(&self) -> Vec<ClientDemand> {
        self.shared.lock().demands()
    }

    /// Most writes a second from now on (zero: they wait), and what this sentinel has of the shares of clients that others have as well.
    pub fn set_ceiling(&self, ceiling: Rate, parts: HashMap<ClientKey, f64>) {
        self.shared.lock().set_ceiling(ceiling, parts);
    }

    /// A client's backlog, its share of the rate and the wait of its next write.
    pub fn explain(&self, client: ClientKey) -> Explained {
        let now = self.shared.clock.now();
        self.shared.lock().explain(client, now)
    }
}

/// The line of a client's turns: no connection has this number.
const TURNS: u64 = u64::MAX;

/// The queue behind its lock, and what wakes the worker.
struct Shared {
    queue: Mutex<WriteQueue>,
    status: Mutex<Status>,
    /// Wakes the worker.
    wake: Notify,
    clock: Clock,
}

impl Shared {
    fn new(queue: WriteQueue, clock: Clock) -> Self {
        // Until the worker has published the first one.
        let status = Status {
            bound: Bound::NodeDown(clock.now()),
            ..Status::default()
        };
        Self {
            queue: Mutex::new(queue),
            status: Mutex::new(status),
            wake: Notify::new(),
            clock,
        }
    }

    /// The queue. A panic while the lock was held leaves one that is still whole: every section is a
    /// sequence of complete operations.
    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock()
    }

    /// Tells the front how fast its writes go out, and until when nothing does.
    fn publish(&self, status: Status, closed_until: Nanos) {
        self.lock().set_pace(status.served, closed_until);
        *self.status.lock() = status;
    }

    fn status(&self) -> Status {
        let mut status = self.status.lock().clone();
        self.lock().fill(&mut status);
        status
    }
}
