//! The write connections to the node that takes the writes: opened, lost, replaced.

use std::collections::VecDeque;
use std::future::Future;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::{ConnectionError, ConnectionOptions, Endpoint, Transport};

use super::answer::{self, AnswerKind};
use super::connection::WriteConnection;
use super::job::{AccountKey, Job};
use super::reoffers::Reoffers;
use crate::config::WriteOrder;

/// The write connections to one node. The writes that must stay in order take the same one as long as any of
/// them is under way, and connections are replaced only while nothing is under way on them, so the order holds.
pub(super) struct Connections {
    /// Those in use, and one that passes them: it carries what comes from short queues. A node reads each
    /// connection by itself, so that such a write does not wait behind all that long queues have under way.
    up: Vec<WriteConnection>,
    /// Connections being opened: the first ones, or those that shall replace the ones that are up.
    opening: Option<Opening>,
    /// They are open, and wait until nothing is under way on the old ones.
    replacement: Option<Vec<WriteConnection>>,
    answers: Vec<NodeAnswer>,
    /// Writes from short queues that wait for others of their own.
    held: VecDeque<Job>,
    retry_at: Nanos,
    failures: u32,
    count: usize,
    connect_timeout: Duration,
    order: WriteOrder,
}

type Opening = Pin<Box<dyn Future<Output = Result<Vec<WriteConnection>, OpenError>> + Send>>;

/// Why connections could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the address of {0} cannot be found: {1}")]
    Resolve(String, std::io::Error),
    #[error("no connection within {} s (upstream.connect_timeout)", .0.as_secs_f64())]
    Timeout(Duration),
}

/// An answer that was read, and the job it ends.
#[derive(Debug)]
pub(super) struct NodeAnswer {
    pub(super) job: Job,
    /// When the job was sent.
    pub(super) sent: Nanos,
    pub(super) member: Bytes,
    pub(super) kind: AnswerKind,
}

/// What happened to the connections.
#[derive(Debug)]
pub(super) enum ConnectionsEvent {
    /// Answers were read.
    Answers,
    /// The first connections are up.
    Opened,
    /// New connections are up beside the old ones.
    Replaceable,
    /// They could not be opened.
    NotOpened(OpenError),
    /// A connection broke; all are to be given up, because order must hold between them.
    Broken(ConnectionError),
}

/// What became of the connections that were up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replaced {
    /// As many new ones took their place.
    Same,
    /// More did.
    Widened(usize),
}

impl Connections {
    pub(super) fn new(count: usize, connect_timeout: Duration, order: WriteOrder) -> Self {
        Self {
            up: Vec::new(),
            opening: None,
            replacement: None,
            answers: Vec::new(),
            held: VecDeque::new(),
            retry_at: Nanos::ZERO,
            failures: 0,
            count,
            connect_timeout,
            order,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.up.is_empty()
    }

    /// Writes under way on all connections, and those that wait for them.
    pub(super) fn in_flight(&self) -> usize {
        self.under_way() + self.held.len()
    }

    fn under_way(&self) -> usize {
        self.up.iter().map(WriteConnection::in_flight).sum()
    }

    /// Whether a write that fits is under way.
    pub(super) fn any(&self, fits: impl Fn(&Job) -> bool) -> bool {
        self.up.iter().any(|connection| connection.any(&fits)) || self.held.iter().any(&fits)
    }

    /// Starts to open connections if none are up or being opened and the pause between attempts is
    /// over. When to come again, if later.
    pub(super) fn tend(&mut self, endpoint: &Endpoint, now: Nanos) -> Option<Nanos> {
        if self.is_up() || self.opening.is_some() {
            return None;
        }
        if self.retry_at > now {
            return Some(self.retry_at);
        }
        self.open(endpoint);
        None
    }

    /// Starts to open connections beside those that are up.
    pub(super) fn open(&mut self, endpoint: &Endpoint) {
        let endpoint = endpoint.with_transport(Transport::Ws);
        let opening = open_all(endpoint, self.count, self.connect_timeout);
        self.opening = Some(Box::pin(opening));
    }

    /// Opens so many connections beside those that are up, if they are fewer.
    pub(super) fn widen(&mut self, count: usize, endpoint: &Endpoint, now: Nanos) {
        let is_busy = self.opening.is_some() || self.replacement.is_some();
        if self.is_up() && self.in_use() < count && !is_busy && self.retry_at <= now {
            self.count = count;
            self.open(endpoint);
        }
    }

    /// Whether more connections are up beside the old ones, on which nothing more may be sent.
    pub(super) fn is_widening(&self) -> bool {
        (self.replacement.as_ref()).is_some_and(|fresh| fresh.len() > self.up.len())
    }

    /// Connections that are up, without the one that passes them.
    pub(super) const fn in_use(&self) -> usize {
        self.up.len().saturating_sub(1)
    }

    /// Old connections => new ones, if there are new ones and nothing is under way on the old ones.
    pub(super) fn replace_if_idle(&mut self) -> Option<Replaced> {
        if self.in_flight() > 0 {
            return None;
        }
        let fresh = self.replacement.take()?;
        let replaced = if fresh.len() > self.up.len() {
            Replaced::Widened(fresh.len() - 1)
        } else {
            Replaced::Same
        };
        self.up = fresh;
        Some(replaced)
    }

    /// Closes everything. What was under way, in the order in which it was sent.
    pub(super) fn give_up(&mut self) -> Vec<Job> {
        self.opening = None;
        self.replacement = None;
        let under_way = self.up.drain(..).flat_map(WriteConnection::into_jobs);
        under_way.chain(self.held.drain(..)).collect()
    }

    /// Queues a write, or keeps it while others that it follows are under way on another connection than it will
    /// take. `Err` when no connection is up.
    pub(super) fn send(&mut self, job: Job, now: Nanos) -> Result<(), Job> {
        let is_behind = self.held.iter().any(|other| self.follow(other, &job));
        match self.dispatch(&job) {
            None => Err(job),
            Some(Dispatch::Over(place)) if !is_behind => {
                self.up[place].queue(job, now);
                Ok(())
            }
            Some(_) => {
                self.held.push_back(job);
                Ok(())
            }
        }
    }

    /// Queues a write that is offered again. Nothing that follows it is kept.
    pub(super) fn send_again(&mut self, job: Job, now: Nanos) -> Result<(), Job> {
        match self.dispatch(&job) {
            None => return Err(job),
            Some(Dispatch::Over(place) | Dispatch::Held { usual: place }) => {
                self.up[place].queue(job, now);
            }
        }
        Ok(())
    }

    /// Queues what was kept and need not wait longer. After a refusal nothing is sent before all answers are read:
    /// then it waits behind what was refused.
    pub(super) fn release(&mut self, reoffers: &mut Reoffers, now: Nanos) {
        let refused_until = reoffers.refused_until();
        if self.held.is_empty() || refused_until.is_some() && self.under_way() > 0 {
            return;
        }
        for job in std::mem::take(&mut self.held) {
            if let Some(until) = refused_until {
                reoffers.refused(job, until);
            } else if let Err(job) = self.send(job, now) {
                self.held.push_back(job);
            }
        }
    }

    /// Whether two writes stay in order.
    fn follow(&self, one: &Job, other: &Job) -> bool {
        order_key(self.order, one) == order_key(self.order, other)
    }

    /// What a write takes: the same connection as those with which it must stay in order, as long as one of them is
    /// under way. A write from a short queue waits once for its own on the usual connection, which are behind the
    /// long queues' there, and passes those from then on: at ten a second, one of its own is always under way.
    fn dispatch(&self, job: &Job) -> Option<Dispatch> {
        let (past, in_use) = self.up.split_last()?;
        let line = order_key(self.order, job);
        let is_in_line = |other: &Job| order_key(self.order, other) == line;
        let usual = place(&line, in_use.len());
        let may_pass =
            job.notes.is_from_short_queue && past.in_flight() + self.held.len() < MOST_PASSING;
        Some(if past.any(is_in_line) {
            Dispatch::Over(in_use.len())
        } else if !may_pass {
            Dispatch::Over(usual)
        } else if in_use[usual].any(is_in_line) {
            Dispatch::Held { usual }
        } else {
            Dispatch::Over(in_use.len())
        })
    }

    /// Bytes that may be queued now. What a socket does not take waits in the queue, where it is fair.
    pub(super) fn room(&self) -> usize {
        let unwritten = self.up.iter().map(WriteConnection::unwritten).sum();
        MOST_UNWRITTEN.saturating_sub(unwritten)
    }

    /// Writes what was queued.
    pub(super) fn flush(&mut self) -> Result<(), ConnectionError> {
        self.up.iter_mut().try_for_each(WriteConnection::flush)
    }

    /// When the oldest write under way was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.up.iter().filter_map(WriteConnection::oldest).min()
    }

    /// Exchanges the answers read so far for an empty list.
    pub(super) fn take_answers(&mut self, empty: &mut Vec<NodeAnswer>) {
        std::mem::swap(&mut self.answers, empty);
    }

    /// What happens next.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: answers that were read are kept until they are
    /// taken.
    pub(super) async fn next(&mut self, now: Nanos) -> ConnectionsEvent {
        std::future::poll_fn(|context| self.poll(context, now)).await
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Nanos) -> Poll<ConnectionsEvent> {
        for connection in &mut self.up {
            let answers = &mut self.answers;
            let polled = connection.poll(context, &mut |under_way, message| {
                if let Some((id, member, kind)) = answer::read(message)
                    && let Some(sent) = under_way.take(id)
                {
                    answers.push(NodeAnswer {
                        job: sent.job,
                        sent: sent.at,
                        member: Bytes::from(member.into_owned()),
                        kind,
                    });
                }
            });
            if let Poll::Ready(error) = polled {
                self.failed(now);
                return Poll::Ready(ConnectionsEvent::Broken(error));
            }
        }
        if !self.answers.is_empty() {
            return Poll::Ready(ConnectionsEvent::Answers);
        }
        let Some(opening) = &mut self.opening else {
            return Poll::Pending;
        };
        opening.as_mut().poll(context).map(|opened| {
            self.opening = None;
            self.opened(opened, now)
        })
    }

    fn opened(
        &mut self,
        opened: Result<Vec<WriteConnection>, OpenError>,
        now: Nanos,
    ) -> ConnectionsEvent {
        match opened {
            Ok(fresh) => {
                self.failures = 0;
                if self.is_up() {
                    self.replacement = Some(fresh);
                    ConnectionsEvent::Replaceable
                } else {
                    self.up = fresh;
                    ConnectionsEvent::Opened
                }
            }
            Err(error) => {
                self.failed(now);
                ConnectionsEvent::NotOpened(error)
            }
        }
    }

    /// The next attempt comes at once, then after pauses that double.
    fn failed(&mut self, now: Nanos) {
        let pause = FIRST_PAUSE * (1 << self.failures.min(5)) * u32::from(self.failures > 0);
        self.failures += 1;
        self.retry_at = now.saturating_add(pause.into());
    }
}

/// What a write takes.
enum Dispatch {
    /// This connection.
    Over(usize),
    /// The one that passes, once nothing of its own is under way on this one.
    Held { usual: usize },
}

/// What stays in order.
#[derive(Hash, PartialEq, Eq)]
enum OrderKey {
    Client(ClientKey),
    Connection(ClientKey, u64),
    Account(AccountKey),
}

/// With which others a write stays in order.
fn order_key(order: WriteOrder, job: &Job) -> OrderKey {
    let account = (order == WriteOrder::Account)
        .then(|| job.account())
        .flatten();
    match (order, account) {
        (WriteOrder::Client, _) => OrderKey::Client(job.client),
        (_, Some(account)) => OrderKey::Account(account),
        (_, None) => OrderKey::Connection(job.client, job.connection),
    }
}

/// Which of `count` connections usually carries what stays in order.
fn place(line: &OrderKey, count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    (hasher.hash_one(line) % count as u64) as usize
}

async fn open_all(
    endpoint: Endpoint,
    count: usize,
    timeout: Duration,
) -> Result<Vec<WriteConnection>, OpenError> {
    let opening = async {
        let named = endpoint.clone();
        let resolving = tokio::task::spawn_blocking(move || named.resolve());
        let addresses = resolving
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|error| OpenError::Resolve(endpoint.to_string(), error))?;
        let options = ConnectionOptions {
            read_buffer_bytes: READ_BUFFER,
            ..ConnectionOptions::default()
        };
        let mut opened = Vec::with_capacity(count);
        for _ in 0..=count {
            opened.push(open_one(&endpoint, &addresses, &options).await?);
        }
        Ok(opened)
    };
    tokio::time::timeout(timeout, opening)
        .await
        .unwrap_or(Err(OpenError::Timeout(timeout)))
}

/// Tries the addresses of a name in turn; the last error counts.
async fn open_one(
    endpoint: &Endpoint,
    addresses: &[std::net::SocketAddr],
    options: &ConnectionOptions,
) -> Result<WriteConnection, OpenError> {
    let none = std::io::Error::other("the name has no address");
    let mut failure = OpenError::Resolve(endpoint.to_string(), none);
    for address in addresses {
        match WriteConnection::open(endpoint, *address, options).await {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

/// The pause before the second attempt to open connections.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Bytes that may wait for the sockets of all connections, and those of one turn: 700 common writes, or a
/// quarter of a millisecond of encoding. A write begun below this is queued whole.
const MOST_UNWRITTEN: usize = 256 << 10;
/// Writes that pass others at most: so many are looked through for each write.
const MOST_PASSING: usize = 64;
/// Some 400 answers of 150 bytes.
const READ_BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests;
