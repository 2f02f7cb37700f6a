//! The write connections to the node that takes the writes: opened, lost, replaced.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::{ConnectionError, ConnectionOptions, Endpoint, Transport};

use super::answer::{self, Verdict};
use super::job::Job;
use super::link::Link;

/// The write connections to one node.
pub(super) struct Links {
    up: Vec<Link>,
    /// Connections being opened: the first ones, or those that shall replace the ones that are up.
    opening: Option<Opening>,
    retry_at: Nanos,
    failures: u32,
    count: usize,
    connect_timeout: Duration,
}

type Opening = Pin<Box<dyn Future<Output = Result<Vec<Link>, OpenError>> + Send>>;

/// Why connections could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the address of {0} cannot be found: {1}")]
    Resolve(String, std::io::Error),
    #[error("no connection within {0:?}")]
    Timeout(Duration),
}

/// An answer that was read, and the job it ends.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) job: Job,
    /// When the job was sent.
    pub(super) sent: Nanos,
    pub(super) member: Bytes,
    pub(super) verdict: Verdict,
}

/// What happened to the connections.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// Answers were read.
    Answers,
    /// The first connections are up.
    Opened,
    /// New connections are up beside the old ones.
    Replaceable(Vec<Link>),
    /// They could not be opened.
    NotOpened(OpenError),
    /// A connection broke; all are given up, because order must hold between them.
    Broken(ConnectionError),
}

impl Links {
    pub(super) fn new(count: usize, connect_timeout: Duration) -> Self {
        Self {
            up: Vec::new(),
            opening: None,
            retry_at: Nanos::ZERO,
            failures: 0,
            count,
            connect_timeout,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.up.is_empty()
    }

    /// Writes under way on all connections.
    pub(super) fn in_flight(&self) -> usize {
        self.up.iter().map(|link| link.flight.len()).sum()
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

    /// Replaces the connections; nothing may be under way on the old ones.
    pub(super) fn replace(&mut self, fresh: Vec<Link>) {
        debug_assert_eq!(self.in_flight(), 0, "order would be lost");
        self.up = fresh;
    }

    /// Gives everything up. What was under way, in the order in which it was sent.
    pub(super) fn give_up(&mut self) -> Vec<Job> {
        self.opening = None;
        let mut links = std::mem::take(&mut self.up);
        links
            .iter_mut()
            .flat_map(|link| link.flight.drain().collect::<Vec<_>>())
            .collect()
    }

    /// The connection that carries a client's writes: always the same, so that order holds.
    pub(super) fn of(&mut self, client: ClientKey) -> Option<&mut Link> {
        let count = self.up.len();
        match count {
            0 => None,
            1 => self.up.first_mut(),
            _ => self.up.get_mut((spread(client) % count as u64) as usize),
        }
    }

    /// Writes what was queued.
    pub(super) fn flush(&mut self) -> Result<(), ConnectionError> {
        for link in &mut self.up {
            if link.unwritten() > 0 {
                link.flush()?;
            }
        }
        Ok(())
    }

    /// When the oldest write under way was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.up.iter().filter_map(|link| link.flight.oldest()).min()
    }

    /// What happens next; answers are put into `answered`.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: answers that were read are in `answered`.
    pub(super) async fn next(&mut self, answered: &mut Vec<Answered>, now: Nanos) -> LinkEvent {
        std::future::poll_fn(|context| self.poll(context, answered, now)).await
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        answered: &mut Vec<Answered>,
        now: Nanos,
    ) -> Poll<LinkEvent> {
        for link in &mut self.up {
            let polled = link.poll(context, &mut |flight, message| {
                if let Some((id, member, verdict)) = answer::read(message)
                    && let Some((job, sent)) = flight.take(id)
                {
                    answered.push(Answered {
                        job,
                        sent,
                        member: Bytes::copy_from_slice(member),
                        verdict,
                    });
                }
            });
            if let Poll::Ready(error) = polled {
                self.failed(now);
                return Poll::Ready(LinkEvent::Broken(error));
            }
        }
        if !answered.is_empty() {
            return Poll::Ready(LinkEvent::Answers);
        }
        let Some(opening) = &mut self.opening else {
            return Poll::Pending;
        };
        let Poll::Ready(opened) = opening.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.opening = None;
        Poll::Ready(match opened {
            Ok(links) => {
                self.failures = 0;
                if self.is_up() {
                    LinkEvent::Replaceable(links)
                } else {
                    self.up = links;
                    LinkEvent::Opened
                }
            }
            Err(error) => {
                self.failed(now);
                LinkEvent::NotOpened(error)
            }
        })
    }

    /// The next attempt comes at once, then after pauses that double.
    fn failed(&mut self, now: Nanos) {
        let pause = FIRST_PAUSE * (1 << self.failures.min(5)) * u32::from(self.failures > 0);
        self.failures += 1;
        self.retry_at = now.saturating_add(pause.into());
    }
}

/// Which connection, as a number that is the same whenever it is asked for.
fn spread(client: ClientKey) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    hasher.finish()
}

async fn open_all(
    endpoint: Endpoint,
    count: usize,
    timeout: Duration,
) -> Result<Vec<Link>, OpenError> {
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
        let mut links = Vec::with_capacity(count);
        for _ in 0..count {
            links.push(open_one(&endpoint, &addresses, &options).await?);
        }
        Ok(links)
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
) -> Result<Link, OpenError> {
    let none = std::io::Error::other("the name has no address");
    let mut failure = OpenError::Resolve(endpoint.to_string(), none);
    for address in addresses {
        match Link::open(endpoint, *address, options).await {
            Ok(link) => return Ok(link),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

/// The pause before the second attempt to open connections.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Some 400 answers of 150 bytes.
const READ_BUFFER: usize = 64 << 10;
