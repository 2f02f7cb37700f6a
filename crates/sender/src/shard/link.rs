//! One connection of a shard: opened, used, broken, opened again.

use measure::{Answered, Cause, Failure, LATE_LIMIT, ReconnectReason, Reconnected, Reply, Sent};
use pacing::Nanos;
use rpc::{ConnectionError, Interest, Transport};

use super::load::Address;
use super::reporter::Reporter;
use super::requests::Requests;
use super::system::{Platform, Socket};
use crate::protocol::{Protocol, ReplyTo};

/// A connection that is opened again whenever it ends.
pub(super) struct Link<S> {
    address: Address,
    state: LinkState<S>,
    /// Of the last time that it was not up.
    outage: Outage,
    requests: Requests,
    /// When it last brought something, or was opened.
    heard_at: Nanos,
    /// What the platform waits for.
    registered: Interest,
    /// Times in a row that the connection broke without having brought an answer.
    fruitless: u32,
    /// Whether the socket last took less than it was given.
    stuck: bool,
    /// Whether the link stands in the queue of links with room.
    pub(super) in_turn: bool,
}

/// The life of a connection.
enum LinkState<S> {
    /// Not there; tried again at `retry_at`.
    Down { retry_at: Nanos },
    /// Connecting, or shaking hands.
    Opening { socket: Box<S>, give_up_at: Nanos },
    /// Usable.
    Up(Box<S>),
}

/// Since when, why and how stubbornly a connection is down.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    since: Nanos,
    failed_attempts: u32,
    /// `None` for an opening that is no reconnect: the first, and one after an expected end.
    reason: Option<ReconnectReason>,
}

/// What a link that is not up needs.
pub(super) enum Need {
    /// To be opened.
    Open,
    /// To be given up: it has been opening for too long.
    GiveUp,
}

impl<S: Socket> Link<S> {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            state: LinkState::Down {
                retry_at: Nanos::ZERO,
            },
            outage: Outage::default(),
            requests: Requests::default(),
            heard_at: Nanos::ZERO,
            registered: NOTHING,
            fruitless: 0,
            stuck: false,
            in_turn: false,
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, LinkState::Opening { .. })
    }

    /// Whether its node is the one at this place of the plan's list.
    pub(super) fn goes_to(&self, endpoint: u16) -> bool {
        self.address.number == endpoint
    }

    /// Whether nothing speaks against a request for it: it is up or on its way there, or may be tried again.
    pub(super) fn may_be_reached(&self, now: Nanos) -> bool {
        match &self.state {
            LinkState::Up(_) | LinkState::Opening { .. } => true,
            LinkState::Down { retry_at } => *retry_at <= now,
        }
    }

    /// Transactions that are queued or unanswered.
    pub(super) fn under_way(&self) -> usize {
        self.requests.len()
    }

    /// Whether another request may be queued: over HTTP when the last one is answered, otherwise
    /// until [`UNWRITTEN_LIMIT_BYTES`] wait for the socket (the node reads too slowly).
    pub(super) fn has_room(&self) -> bool {
        match &self.state {
            LinkState::Up(_) if self.is_http() => self.requests.len() == 0,
            LinkState::Up(socket) => socket.unwritten() < UNWRITTEN_LIMIT_BYTES,
            LinkState::Down { .. } | LinkState::Opening { .. } => false,
        }
    }

    /// Whether an answer has taken this long at `now`.
    pub(super) fn waits_for(&self, span: Nanos, now: Nanos) -> bool {
        let oldest = self.requests.oldest_sent();
        oldest.is_some_and(|sent| now.saturating_sub(sent) >= span)
    }

    /// Whether it has been up for a while and nothing is asked for: HTTP servers end such connections (CometBFT
    /// after 10 s, gunicorn after 2 s).
    pub(super) fn is_idle(&self, now: Nanos) -> bool {
        let unused = self.is_up() && self.is_http() && self.requests.len() == 0;
        unused && now.saturating_sub(self.heard_at) >= IDLE
    }

    /// Its node's place in the plan's list.
    pub(super) fn endpoint(&self) -> usize {
        usize::from(self.address.number)
    }

    /// From when on an answer of its node is slow, by the last one that can show it since this was asked.
    pub(super) fn take_slow(&mut self) -> Option<Nanos> {
        self.requests.take_slow()
    }

    /// How long its last answer took.
    pub(super) fn last_took(&self) -> Nanos {
        self.requests.last_took()
    }

    /// Whether the node blocks it: by an answer that takes long, by reading nothing, or by having
    /// ended it. `slow` is from when on an answer of its node is slow.
    pub(super) fn is_held_up(&self, now: Nanos, slow: Option<Nanos>) -> bool {
        match &self.state {
            LinkState::Up(_) => self.stuck || self.requests.are_queued(now, slow),
            LinkState::Down { .. } | LinkState::Opening { .. } => {
                self.outage.reason == Some(ReconnectReason::Broken)
            }
        }
    }

    /// Gives up the requests whose answers have taken longer than `timeout`; whether the connection
    /// brought nothing at all for as long.
    pub(super) fn give_up(&mut self, timeout: Nanos, now: Nanos, reporter: &mut Reporter) -> bool {
        let before = now.saturating_sub(timeout);
        self.requests
            .give_up(before, now, |event| reporter.answered(event));
        self.heard_at <= before
    }

    /// What it needs now, when it is not up.
    pub(super) fn need(&self, now: Nanos) -> Option<Need> {
        match &self.state {
            LinkState::Down { retry_at } if *retry_at <= now => Some(Need::Open),
            LinkState::Opening { give_up_at, .. } if *give_up_at <= now => Some(Need::GiveUp),
            LinkState::Down { .. } | LinkState::Opening { .. } | LinkState::Up(_) => None,
        }
    }

    /// Down => Opening
    pub(super) fn opening(&mut self, socket: S, now: Nanos) {
        self.registered = socket.interest();
        self.state = LinkState::Opening {
            socket: Box::new(socket),
            give_up_at: now.saturating_add(OPENING_TIMEOUT),
        };
    }

    /// Goes on with the handshakes; whether they are done.
    pub(super) fn drive(&mut self) -> Result<bool, ConnectionError> {
        match &mut self.state {
            LinkState::Opening { socket, .. } => socket.drive(),
            LinkState::Down { .. } | LinkState::Up(_) => Ok(false),
        }
    }

    /// Opening => Up; after an outage, what there is to report.
    pub(super) fn opened(&mut self, now: Nanos) -> Option<Reconnected> {
        self.state = match std::mem::replace(&mut self.state, LinkState::Down { retry_at: now }) {
            LinkState::Opening { socket, .. } => LinkState::Up(socket),
            other => other,
        };
        self.heard_at = now;
        Some(Reconnected {
            at: now,
            endpoint: self.address.number,
            down: now.saturating_sub(self.outage.since),
            failed_attempts: self.outage.failed_attempts,
            reason: self.outage.reason?,
        })
    }

    /// At the end: an outage that is not over, if it was tried to end it.
    pub(super) fn not_back(&self, now: Nanos) -> Option<Reconnected> {
        let was_tried = match &self.state {
            LinkState::Up(_) => false,
            LinkState::Opening { .. } => true,
            LinkState::Down { .. } => self.outage.failed_attempts > 0,
        };
        let is_outage = was_tried && self.outage.reason == Some(ReconnectReason::Broken);
        is_outage.then(|| Reconnected {
            at: now,
            endpoint: self.address.number,
            down: now.saturating_sub(self.outage.since),
            failed_attempts: self.outage.failed_attempts,
            reason: ReconnectReason::NotBack,
        })
    }

    /// Down, Opening => Down
    pub(super) fn failed_to_open(&mut self, now: Nanos) {
        self.outage.failed_attempts += 1;
        // Also when the end before it was expected: now it is down.
        self.outage.reason.get_or_insert(ReconnectReason::Broken);
        self.state = LinkState::Down {
            retry_at: now.saturating_add(self.outage.backoff()),
        };
    }

    /// Up => Down: what was sent fails, the oldest request with `failure`; what was not written was
    /// never sent. Without a reason the end was expected.
    pub(super) fn close(
        &mut self,
        now: Nanos,
        reason: Option<ReconnectReason>,
        failure: Failure,
        reporter: &mut Reporter,
    ) {
        self.requests
            .fail_sent(now, failure, |event| reporter.answered(event));
        self.drop_unwritten(now, reporter);
        self.outage = Outage {
            since: now,
            failed_attempts: 0,
            reason,
        };
        // A connection that broke before it brought an answer is opened again after a pause: whatever
        // takes connections only to drop them would otherwise get thousands a second.
        let retry_at = match self.fruitless {
            0 => now,
            _ => now.saturating_add(FRUITLESS_PAUSE),
        };
        self.fruitless += u32::from(reason == Some(ReconnectReason::Broken));
        self.state = LinkState::Down { retry_at };
    }

    /// The origin has come: an outage that began before it begins there. A connection that is opened on
    /// demand was not wanted before.
    pub(super) fn restart(&mut self, on_demand: bool) {
        self.heard_at = Nanos::ZERO;
        self.outage = Outage {
            since: Nanos::ZERO,
            reason: (!on_demand).then_some(ReconnectReason::Broken),
            ..self.outage
        };
        match &mut self.state {
            LinkState::Up(_) => {}
            LinkState::Down { retry_at } => *retry_at = Nanos::ZERO,
            LinkState::Opening { give_up_at, .. } => *give_up_at = OPENING_TIMEOUT,
        }
    }

    /// Puts a request with these transactions into the buffer; whether it is the only one there.
    pub(super) fn queue(&mut self, body: &[u8], txs: &[Sent], unqueued: Option<u64>) -> bool {
        let LinkState::Up(socket) = &mut self.state else {
            return false;
        };
        let first = !self.requests.is_writing();
        let end = socket.queue(body);
        for sent in txs {
            self.requests.queue(
                end,
                Sent {
                    endpoint: self.address.number,
                    ..*sent
                },
                unqueued,
            );
        }
        first
    }

    /// Writes what is queued, and stamps and reports what was handed over.
    pub(super) fn flush(
        &mut self,
        clock: impl FnOnce() -> Nanos,
        reporter: &mut Reporter,
    ) -> Result<(), ConnectionError> {
        let LinkState::Up(socket) = &mut self.state else {
            return Ok(());
        };
        let flushed = socket.flush()?;
        let now = clock();
        while let Some(mut sent) = self.requests.next_written(flushed.written_to, now) {
            if !self.stuck {
                reporter.stalled(now.saturating_sub(sent.sent));
            }
            self.judge_write(&mut sent, now);
            sent.sent = now;
            reporter.sent(sent);
        }
        self.stuck = flushed.blocked;
        Ok(())
    }

    /// What was queued and only now written: either the socket took nothing for a while, or the shard
    /// was slow. `sent` is the time when it was queued until here.
    fn judge_write(&self, sent: &mut Sent, now: Nanos) {
        let waited = now.saturating_sub(sent.sent) > LATE_LIMIT;
        let first = sent.cause == Cause::OnTime && now.saturating_sub(sent.due) > LATE_LIMIT;
        if self.stuck && (first || waited && sent.cause == Cause::Schedule) {
            sent.cause = Cause::Node;
        } else if !self.stuck && first {
            sent.cause = Cause::Schedule;
        }
        sent.own_late |= waited && !self.stuck;
    }

    /// Reads what the socket holds and gives every reply to its transactions. `arrived` gives the instant
    /// of a message's stamp.
    pub(super) fn read<T: Protocol>(
        &mut self,
        arrived: impl Fn(Option<u64>) -> Nanos,
        target: &T,
        reporter: &mut Reporter,
    ) -> Result<(), ConnectionError> {
        let is_http = self.is_http();
        let LinkState::Up(socket) = &mut self.state else {
            return Ok(());
        };
        let requests = &mut self.requests;
        let before = requests.len();
        let heard_at = &mut self.heard_at;
        let mut stamp = (None, Nanos::ZERO);
        let read = socket.read(&mut |message| {
            // Messages that were read together have one stamp.
            if stamp.0 != Some(message.arrived_unix_ns) {
                stamp = (
                    Some(message.arrived_unix_ns),
                    arrived(message.arrived_unix_ns),
                );
            }
            let now = stamp.1;
            *heard_at = now;
            let mut is_usable = true;
            target.read(&message, &mut |to, reply| {
                is_usable &= !is_no_answer(reply);
                settle(requests, now, is_http, to, reply, reporter);
            });
            if let Some(texts) = target.texts().filter(|_| !is_usable) {
                let came = if is_http {
                    format!("HTTP {}", message.status)
                } else {
                    "WebSocket".to_owned()
                };
                texts.lock().count_unusable(&came, message.body);
            }
            if is_http {
                // The answer to a request of several does not name these.
                let reply = Reply::Failed(Failure::Malformed);
                requests.answer_oldest(now, reply, |event| reporter.answered(event));
            }
        });
        if requests.len() < before {
            self.fruitless = 0;
        }
        read
    }

    /// Gives up what was not written.
    pub(super) fn drop_unwritten(&mut self, now: Nanos, reporter: &mut Reporter) {
        self.requests
            .drop_unwritten(now, |event| reporter.unsent(event));
    }

    /// Whether the socket is waited for until it takes more.
    pub(super) fn waits_to_write(&self) -> bool {
        self.registered.write
    }

    /// Registers with the platform what the socket waits for, when that has changed.
    pub(super) fn watch(&mut self, platform: &mut impl Platform<Socket = S>, token: u32) {
        let (LinkState::Up(socket) | LinkState::Opening { socket, .. }) = &self.state else {
            return;
        };
        let interest = socket.interest();
        if interest != self.registered && platform.watch(socket, token, interest).is_ok() {
            self.registered = interest;
        }
    }

    pub(super) fn is_http(&self) -> bool {
        self.address.endpoint.transport() == Transport::Http
    }
}

/// Whether a message was not one of this kind of node.
const fn is_no_answer(reply: Reply) -> bool {
    matches!(
        reply,
        Reply::Failed(Failure::Malformed | Failure::HttpStatus)
    )
}

/// Gives a reply to the transactions that it is about. With `in_order` it belongs to the oldest
/// request, whatever it contains.
fn settle(
    requests: &mut Requests,
    now: Nanos,
    in_order: bool,
    to: ReplyTo,
    reply: Reply,
    reporter: &mut Reporter,
) {
    let reply = match to {
        ReplyTo::Index(index) => match requests.answer(index, now, reply) {
            Some(answered) => return reporter.answered(answered),
            None if requests.is_late(index) => return reporter.late_answer(),
            None if in_order => Reply::Failed(Failure::WrongId),
            None => return reporter.stray_answer(),
        },
        ReplyTo::Unknown if !in_order => return reporter.stray_answer(),
        ReplyTo::Unknown | ReplyTo::OldestRequest => reply,
    };
    let report = |event: Answered| reporter.answered(event);
    if requests.answer_oldest(now, reply, report) == 0 {
        reporter.stray_answer();
    }
}

impl Outage {
    /// The pause before the next attempt: 100 ms after the first that failed, doubling to 1 s.
    fn backoff(&self) -> Nanos {
        let doublings = self.failed_attempts.min(5);
        let pause = FIRST_BACKOFF.as_nanos() << doublings;
        Nanos::from_nanos(pause.min(LONGEST_BACKOFF.as_nanos()))
    }
}

/// How long a connection may take to open.
pub(super) const OPENING_TIMEOUT: Nanos = Nanos::from_secs(10);
/// No server ends a connection that is idle for less.
const IDLE: Nanos = Nanos::from_secs(1);
const NOTHING: Interest = Interest {
    read: false,
    write: false,
};
/// A connection with this much unwritten is blocked by its node; more would only hide the wait inside
/// the generator's buffers.
const UNWRITTEN_LIMIT_BYTES: usize = 64 * 1024;
const FIRST_BACKOFF: Nanos = Nanos::from_millis(50);
const LONGEST_BACKOFF: Nanos = Nanos::from_secs(1);
/// Between a connection that broke without an answer and the next one.
const FRUITLESS_PAUSE: Nanos = Nanos::from_millis(50);
