//! WebSocket sessions.
//!
//! One task serves one session. Writes go into the lane, many at a time, and their answers are
//! written in the order in which they come, everything that is there at a wake in one go. All
//! other messages go to the node by the client's link, in the read lane. While the client's queue is full
//! nothing is read from it, so TCP holds the client back as the node itself would.

mod client;
mod message;
#[cfg(test)]
pub(super) mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairq::ClientKey;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;
use wire::ws::frame::{CLOSE, write_head};
use wire::ws::{close_code, write_close, write_ping, write_pong, write_text};

use self::client::{Client, HeldWrite, PendingCall, Wait, advance, cancel};
use self::message::{Act, End, Input, MessageReader, Question};
use super::Shared;
use super::backend::{Backend, Queue};
use super::socket::{Backlog, Ended, Socket, Stream};
use crate::budget::{Held, Piece, work_of};
use crate::metrics::MethodClass;
use crate::upstream::{RelayEvent, price};

/// One client's WebSocket.
pub(crate) struct Session<B: Backend, IO> {
    client: Client<B, IO>,
    messages: MessageReader,
    /// What has to happen before the next message is read.
    waiting: Option<Wait>,
    /// What the client has still to take.
    backlog: Backlog,
    ping_at: Instant,
    /// When the client has sent something, or was not read from.
    received_at: Instant,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    is_leaving: bool,
    /// When the client changes to the process that serves instead of this one, unless an event comes before.
    leave_at: Option<Instant>,
    _slots: [Option<Held>; 2],
}

impl<B: Backend, IO> Drop for Session<B, IO> {
    fn drop(&mut self) {
        self.client.front.metrics.ws_clients.dec();
        let waiting = self.waiting.as_ref().and_then(Wait::call);
        self.client.leave(waiting.map(|(call, _)| call));
    }
}

/// How often a client that is not read from is checked for having hung up.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// A part of a message that brings as much is paid for by its bytes, which the account bounds: some libraries cut
/// messages into parts of 4 KiB.
const PAID_PART: usize = 1 << 10;
/// A client whose events have paused for so long has those of a block, and time to subscribe elsewhere before the next one.
/// Blocks are a second apart by default (`timeout_commit`); the node publishes the events of one at once.
const EVENT_PAUSE: Duration = Duration::from_millis(200);
/// How long the last frame may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

impl<B: Backend, IO: Stream> Session<B, IO> {
    /// A session that was just opened.
    pub(super) fn new(
        front: Arc<Shared<B>>,
        socket: Socket<IO>,
        queue: Queue<B>,
        client: ClientKey,
        slots: [Option<Held>; 2],
    ) -> Self {
        let (config, now) = (front.config.current(), Instant::now());
        front.metrics.ws_clients.inc();
        Self {
            messages: MessageReader::new(
                config.limits.body_bytes,
                front.json_limits(),
                front.shadow.clone(),
            ),
            waiting: None,
            backlog: Backlog::default(),
            ping_at: now + config.fixed.ping_interval,
            received_at: now,
            stop: Box::pin(front.stop.clone().cancelled_owned()),
            is_leaving: false,
            leave_at: None,
            _slots: slots,
            client: Client::new(front, socket, queue, client),
        }
    }

    /// Serves it to its end.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection and takes its writes out of the queue.
    pub(super) async fn run(mut self) {
        let end = poll_fn(|context| self.poll(context)).await;
        let out = self.client.out();
        match end {
            End::Say(code, reason) => write_close(out, code, &reason),
            End::Echo => write_head(out, CLOSE, 0, None),
            End::Gone => return,
        }
        let socket = &mut self.client.socket;
        if socket.flush(CLOSE_PATIENCE).await.is_ok() {
            socket.close().await;
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let progress = match self.advance(context) {
                Ok(false) => self.watch(context),
                other => other,
            };
            match progress {
                Ok(true) => {}
                Ok(false) => break,
                Err(end) => return Poll::Ready(end),
            }
        }
        let socket = &mut self.client.socket;
        socket.turn().finish();
        // What was read stays while the session waits for something else.
        if socket.charge() {
            Poll::Pending
        } else {
            Poll::Ready(Ended::OverBudget.into())
        }
    }

    /// Takes what is there, on all sides, and writes what came of it: whether there was anything.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let answered = self.take_answers(context);
        let relayed = self.take_from_node(context)?;
        let received = self.take_messages(context)?;
        let is_full = |client: &Client<B, IO>| client.is_behind() || client.is_backed_up();
        let was_full = is_full(&self.client);
        self.write(context)?;
        // While the client was behind, nothing was looked at that would wake the session.
        let has_caught_up = was_full && !is_full(&self.client);
        Ok(answered || relayed || received || has_caught_up)
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> bool {
        let Poll::Ready(answers) = self.client.poll_answers(context) else {
            return false;
        };
        for delivery in answers {
            self.client.deliver(delivery);
        }
        true
    }

    /// Takes what came from the node, as long as the client keeps up: whether anything did. Questions are
    /// passed on, answers and events taken, in turns.
    fn take_from_node(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let has_link = self.client.has_link();
        let turn = self.client.socket.turn();
        if has_link && !turn.is_held() && turn.poll_begin(Piece::LONG, context).is_pending() {
            return Ok(false);
        }
        let (mut progress, mut has_event) = (false, false);
        while !self.client.is_behind() {
            let Poll::Ready(event) = self.client.poll_link(context) else {
                break;
            };
            progress = true;
            self.client.socket.turn().used();
            match event {
                RelayEvent::Text(text) => write_text(self.client.out(), &text),
                RelayEvent::Event { head, rest } => {
                    self.client.event(&head, rest);
                    has_event = true;
                }
                RelayEvent::Answer { tag, text } => {
                    write_text(self.client.out(), &text);
                    self.client.answered(tag, None);
                }
                RelayEvent::Failed { tag, id, refusal } => {
                    self.client.answered(tag, Some((id, refusal)));
                }
                RelayEvent::Closed => {
                    return Err(End::Say(close_code::GOING_AWAY, String::new()));
                }
            }
        }
        // Another process serves now: its client changes to that between two blocks.
        if has_event && self.client.front.leave.is_cancelled() {
            self.leave_at = Some(Instant::now() + EVENT_PAUSE);
        }
        Ok(progress)
    }

    /// Takes the messages that were read, then reads once: whether there was anything.
    fn take_messages(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut progress = false;
        loop {
            let was_waiting = self.waiting.is_some();
            let goes_on = advance(&mut self.waiting, &mut self.client, context);
            // What was waited for may be something to write.
            progress |= was_waiting && goes_on;
            if !goes_on || self.client.is_backed_up() || self.is_leaving {
                return Ok(progress);
            }
            let socket = &mut self.client.socket;
            let piece = self.messages.next_piece(socket);
            if !socket.input.is_empty() && socket.turn().poll_begin(piece, context).is_pending() {
                return Ok(progress);
            }
            match self.messages.next(socket, context)? {
                Input::Nothing => return Ok(progress),
                Input::Bytes => return Ok(true),
                Input::Frame(act, bytes) => {
                    self.received_at = Instant::now();
                    let is_paid = matches!(act, Act::Part) && bytes >= PAID_PART;
                    if !self.act(act)? && !is_paid {
                        self.pay(bytes);
                    }
                    if piece == Piece::LONG {
                        self.client.socket.turn().used();
                    }
                    progress = true;
                }
            }
        }
    }

    /// Reads nothing more until the client's rate of work has room for a message that no lane bounds.
    fn pay(&mut self, bytes: usize) {
        let budget = &self.client.front.budget;
        if let Some(until) = budget.work(self.client.key, work_of(bytes)) {
            self.waiting = Some(Wait::Pause(until));
        }
    }

    /// Does what a message asks for: whether a lane has admitted it, and bounds it.
    fn act(&mut self, act: Act) -> Result<bool, End> {
        match act {
            Act::Nothing | Act::Part => {}
            Act::Write {
                id,
                method,
                tx,
                judged,
            } => {
                let (front, key) = (&self.client.front, self.client.key);
                let checked = front.backend.check_method(key, method.name());
                let seen = self.client.seen();
                if let Some(question) = judged {
                    match checked {
                        Ok(()) => front.backend.judge(key, tx),
                        Err(refusal) => front.shadow.note(key, &refusal),
                    }
                    return Ok(self.pass_on(Question { seen, ..question }));
                }
                let call = PendingCall { id, method, seen };
                if let Err(refusal) = checked {
                    self.client.reject(call.counted(), Some(&call.id), &refusal);
                    return Ok(false);
                }
                let held = self.client.hold(call, tx);
                return Ok(held.is_some_and(|write| self.write_to_lane(write)));
            }
            Act::Ask(question) => return Ok(self.ask(question)),
            Act::Refuse(refusal) => {
                let seen = self.client.seen();
                let call = (MethodClass::Other, seen.as_deref());
                self.client.reject(call, None, &refusal);
            }
            Act::Pong(payload) => write_pong(self.client.out(), &payload),
            Act::Close(Some(code)) => return Err(End::Say(code, String::new())),
            Act::Close(None) => return Err(End::Echo),
        }
        Ok(false)
    }

    /// Puts a write into the lane, or lets it wait for room there.
    fn write_to_lane(&mut self, write: HeldWrite) -> bool {
        let (backend, key) = (&self.client.front.backend, self.client.key);
        if backend.has_room(key) {
            return self.client.submit(write);
        }
        let backend = backend.clone();
        let room = Box::pin(async move { backend.room(key).await });
        self.waiting = Some(Wait::QueueRoom { write, room });
        true
    }

    /// Checks a message that is no write and lets it wait for the link; false if it was refused.
    fn ask(&mut self, mut question: Question) -> bool {
        question.seen = self.client.seen();
        let (backend, key) = (&self.client.front.backend, self.client.key);
        let method = question.message.method.as_deref();
        let checked = method.map_or(Ok(()), |method| backend.check_method(key, method));
        let price = method.map_or(1, |method| price(method, b"/", &question.message.text));
        let id = question.message.id.as_ref();
        if let Err(refusal) = checked.and_then(|()| backend.admit(key, price)) {
            self.client.reject(question.counted(), id, &refusal);
            return false;
        }
        self.pass_on(question)
    }

    /// Lets a message wait for the link; false if it was refused.
    fn pass_on(&mut self, question: Question) -> bool {
        let Some(question) = self.client.keep(question) else {
            return false;
        };
        self.waiting = Some(Wait::LinkRoom(question));
        true
    }

    /// Writes as much as the client takes, of large events as much as it is this session's turn to.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        let socket = &mut self.client.socket;
        match socket.poll_drain(&mut self.backlog, context) {
            Poll::Ready(Err(_)) => Err(End::Gone),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Looks at the clock and at the order to stop: whether that changed anything.
    fn watch(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let now = Instant::now();
        let is_between_blocks = self.leave_at.is_some_and(|at| at <= now)
            && self.client.socket.unsent() == 0
            && self.waiting.is_none();
        if !self.is_leaving && (is_between_blocks || self.stop.as_mut().poll(context).is_ready()) {
            // Nothing more is taken from the client; what is under way is still answered.
            self.is_leaving = true;
            cancel(&mut self.waiting, &mut self.client);
            return Ok(true);
        }
        if self.is_leaving && self.client.writes_under_way() == 0 && self.waiting.is_none() {
            return Err(End::Say(close_code::GOING_AWAY, String::new()));
        }
        if self.client.is_banned() {
            let text = "this network may not use the proxy".to_owned();
            return Err(End::Say(close_code::POLICY, text));
        }
        // Whether nothing is read from the client.
        let is_held = self.waiting.is_some() || self.is_leaving || self.client.is_backed_up();
        if is_held {
            self.received_at = now;
        }
        let fixed = self.client.front.config.fixed();
        let overdue_at = self.backlog.overdue_at(fixed.write_timeout);
        let silent_at = self.received_at + fixed.silence_limit;
        let is_silent = if is_held {
            self.client.socket.is_hung_up()
        } else {
            silent_at <= now
        };
        if is_silent || overdue_at.is_some_and(|at| at <= now) {
            return Err(End::Gone);
        }
        if self.ping_at <= now {
            self.ping_at = now + fixed.ping_interval;
            // A client that has more to read than this does not need a ping to answer.
            if self.client.socket.unsent() == 0 {
                write_ping(self.client.out());
                return Ok(true);
            }
        }
        let next = if is_held {
            now + PROBE_INTERVAL
        } else {
            silent_at
        };
        let leave_at = self.leave_at.filter(|at| *at > now);
        let others = [
            self.waiting.as_ref().and_then(Wait::until),
            overdue_at,
            Some(self.ping_at),
            leave_at,
        ];
        let next = others.into_iter().flatten().fold(next, Instant::min);
        // Should it be late already, everything is looked at once more.
        Ok(self.client.socket.poll_late(next, context).is_ready())
    }
}
