//! Keeps a relay's connection up: connects, writes, reads, notices deadlines, connects again.

use std::task::{Context, Poll};
use std::time::Duration;

use pacing::Nanos;
use tokio::time::Instant;
use tracing::debug;

use super::Relay;
use super::link::{Link, LinkEvent, Outage, OwnQuery};
use super::message::{Pending, Purpose, Queued};
use super::open::open;
use super::socket::NodeSocket;
use crate::jsonrpc::KeptId;
use crate::refusal::Forwarded;
use crate::upstream::UpstreamError;

impl Relay {
    /// Connects, or writes and reads; the next event.
    pub(super) fn poll_link(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        match &mut self.link {
            Link::Idle | Link::Waiting(_) => Poll::Pending,
            Link::Connecting(attempt) => attempt.as_mut().poll(context).map(LinkEvent::Opened),
            Link::Open(_) => self.poll_open(context),
        }
    }

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        self.write_queued();
        if let Some(broke) = self.poll_flush(context) {
            return Poll::Ready(broke);
        }
        match &mut self.work {
            Some(OwnQuery::Height(asked)) => {
                return asked.as_mut().poll(context).map(LinkEvent::Height);
            }
            Some(OwnQuery::Event(key, asked)) => {
                let key = *key;
                return asked
                    .as_mut()
                    .poll(context)
                    .map(|event| LinkEvent::PastEvent(key, event));
            }
            None => {}
        }
        let Link::Open(socket) = &mut self.link else {
            return Poll::Pending;
        };
        match socket.poll_message(context) {
            Poll::Ready(Ok(text)) => Poll::Ready(LinkEvent::Message(text)),
            Poll::Ready(Err(error)) => Poll::Ready(LinkEvent::Broken(error.to_string())),
            // Pings may have been answered.
            Poll::Pending => match self.poll_flush(context) {
                Some(broke) => Poll::Ready(broke),
                None => Poll::Pending,
            },
        }
    }

    /// Writes; the event of a failure.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Option<LinkEvent> {
        let Link::Open(socket) = &mut self.link else {
            return None;
        };
        match socket.poll_flush(context) {
            Poll::Ready(Err(error)) => Some(LinkEvent::Broken(error.to_string())),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        }
    }

    fn write_queued(&mut self) {
        let Link::Open(socket) = &mut self.link else {
            return;
        };
        while socket.has_room()
            && let Some(queued) = self.queue.pop_front()
        {
            socket.write_text(&queued.text);
            self.pending.push_back(queued.pending);
        }
    }

    /// The next deadline.
    pub(super) fn due(&self) -> Option<Instant> {
        let limit = self.relays.0.read_timeout;
        let queued = self
            .queue
            .front()
            .map(|queued| queued.pending.since + limit);
        let outage = self.lost.map(|lost| lost.since + OUTAGE_LIMIT);
        let link = match &self.link {
            Link::Waiting(until) => Some(*until),
            Link::Open(_) if self.work.is_some() => None,
            Link::Open(socket) => {
                let pending = self.pending.front().map(|pending| pending.since + limit);
                let silence = socket.last_read() + SILENCE_LIMIT;
                let unused = self.is_unused().then_some(self.used + UNUSED_LIMIT);
                [pending, Some(silence), unused].into_iter().flatten().min()
            }
            Link::Idle | Link::Connecting(_) => None,
        };
        [queued, outage, link].into_iter().flatten().min()
    }

    /// A deadline has passed.
    pub(super) fn on_due(&mut self, now: Instant) {
        self.give_up_queued(now);
        if self
            .lost
            .is_some_and(|lost| now >= lost.since + OUTAGE_LIMIT)
        {
            self.give_up_subscriptions();
        }
        match &self.link {
            Link::Waiting(until) if now >= *until => self.connect(),
            Link::Open(socket) if self.work.is_none() => {
                let limit = self.relays.0.read_timeout;
                let late = self.pending.front();
                if late.is_some_and(|pending| now >= pending.since + limit) {
                    self.on_break("no answer in time");
                } else if now >= socket.last_read() + SILENCE_LIMIT {
                    self.on_break("the node fell silent");
                } else if self.is_unused() && now >= self.used + UNUSED_LIMIT {
                    self.disconnect();
                }
            }
            _ => {}
        }
    }

    fn connect(&mut self) {
        if !self.is_needed() {
            return self.disconnect();
        }
        let nodes = &self.relays.0.nodes;
        self.node = nodes.nearest_up(self.home);
        let dialer = nodes.node(self.node).dialer.clone();
        self.link = Link::Connecting(Box::pin(open(dialer, self.ledger())));
    }

    /// The connection is open: the subscriptions of the previous one are sent first.
    pub(super) fn on_open(&mut self, mut socket: Box<NodeSocket>) {
        let since = Instant::now();
        let ledger = self.ledger();
        for known in self.subscriptions.iter() {
            let Some(charge) = ledger.reserve(known.request.len()) else {
                self.link = Link::Waiting(since + self.backoff.pause());
                self.pending.clear();
                return;
            };
            socket.write_text(&known.request);
            self.pending.push_back(Pending {
                id: Some(KeptId::new(&known.id)),
                tag: None,
                purpose: Purpose::Resubscribe { key: known.key },
                forwarded: Forwarded::No,
                since,
                charge: Some(charge),
            });
        }
        self.link = Link::Open(socket);
        if self.subscriptions.len() == 0 {
            self.lost = None;
        }
    }

    pub(super) fn on_no_connection(&mut self, error: &UpstreamError) {
        debug!(node = self.node, %error, "no connection for a relay");
        self.link = Link::Waiting(Instant::now() + self.backoff.pause());
    }

    /// The connection broke: pending requests fail or are sent again, subscriptions are kept.
    pub(super) fn on_break(&mut self, reason: &str) {
        debug!(node = self.node, reason, "the connection of a relay broke");
        let now = Instant::now();
        (self.work, self.replay) = (None, None);
        self.subscriptions.lose();
        if self.subscriptions.len() > 0 && self.lost.is_none() {
            self.lost = Some(Outage {
                since: now,
                height: self.complete_height(),
            });
        }
        for pending in std::mem::take(&mut self.pending).into_iter().rev() {
            self.fail_or_repeat(pending);
        }
        self.link = Link::Waiting(now + self.backoff.pause());
        if !self.is_needed() {
            self.disconnect();
        }
    }

    /// The height up to which every event must have arrived. Events of a block that is younger than
    /// [`UNDER_WAY`] may have been lost.
    fn complete_height(&self) -> u64 {
        let nodes = &self.relays.0.nodes;
        let height = nodes.height(self.node);
        let age = nodes
            .surroundings()
            .clock
            .now()
            .saturating_sub(nodes.risen_at(self.node));
        match age < UNDER_WAY {
            true => height.saturating_sub(1),
            false => height,
        }
    }

    /// Answers a request whose connection broke, or puts it back into the queue. Requests come from
    /// the last to the first.
    fn fail_or_repeat(&mut self, pending: Pending) {
        match &pending.purpose {
            Purpose::Resubscribe { .. } | Purpose::Leave { .. } => return,
            // The connection that knew of the subscription is gone, so sending it again is safe.
            Purpose::Subscribe { request, .. } => {
                let text = request.clone();
                return self.queue.push_front(Queued { text, pending });
            }
            Purpose::Other | Purpose::Unsubscribe { .. } => {}
        }
        let failed = pending.failed("the connection to the node broke off");
        self.ready.push_front(failed);
    }

    /// Refuses requests that have waited too long to be written.
    fn give_up_queued(&mut self, now: Instant) {
        let limit = self.relays.0.read_timeout;
        let is_late = |queued: &mut Queued| now >= queued.pending.since + limit;
        while let Some(queued) = self.queue.pop_front_if(is_late) {
            let unsent = Pending {
                forwarded: Forwarded::No,
                ..queued.pending
            };
            self.ready
                .push_back(unsent.failed("no node can be reached"));
        }
    }

    /// Whether a connection is needed.
    fn is_needed(&self) -> bool {
        self.subscriptions.len() > 0 || !self.queue.is_empty()
    }

    fn is_unused(&self) -> bool {
        !self.is_needed() && self.pending.is_empty()
    }

    /// Closes the connection and gives its place up until the client sends something again.
    fn disconnect(&mut self) {
        self.link = Link::Idle;
        self.lost = None;
        self.places = None;
    }

    /// A message came: the connection works.
    pub(super) fn note_activity(&mut self) {
        self.backoff.reset();
        self.used = Instant::now();
    }
}

/// The node pings every 27 s: after a longer silence the connection is taken for broken.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// A connection without subscriptions that was unused for so long is closed.
const UNUSED_LIMIT: Duration = Duration::from_secs(60);
/// Subscriptions survive outages up to this.
const OUTAGE_LIMIT: Duration = Duration::from_secs(60);
/// Events of a block younger than this may not have arrived yet.
const UNDER_WAY: Nanos = Nanos::from_secs(1);
