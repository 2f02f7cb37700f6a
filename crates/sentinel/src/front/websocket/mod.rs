//! WebSocket sessions.
//!
//! One task serves one session. Writes go into the lane, many at a time, and their answers are
//! written in the order in which they come, everything that is there at a wake in one go. All
//! other messages go to the node over the session's own relay. While the client's queue is full
//! nothing is read from it, so TCP holds the client back as the node itself would.

mod clocks;
mod message;
mod pending;
mod relay;
mod stall;
mod step;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairq::ClientKey;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;
use wire::ws::frame::{CLOSE, write_head};

use self::clocks::Clocks;
use self::pending::Pending;
use self::relay::Way;
use self::stall::Stalled;
use super::Shared;
use super::backend::Backend;
use super::outcome;
use super::queue::Queue;
use super::slots::Slot;
use super::socket::{Ended, Socket, Stream};
use crate::lane::{Delivery, WriteAnswer};
use crate::metrics::{LaneLabel, Metrics, OutcomeLabel, Transport};
use crate::refusal::Refusal;
use crate::respond::{write_ws_answer, write_ws_refused};
use wire::ws::{FrameReader, WsLimits, close_code, write_close, write_ping};

/// One client's WebSocket.
pub(crate) struct Session<B: Backend, IO> {
    front: Arc<Shared<B>>,
    socket: Socket<IO>,
    queue: Queue<B>,
    client: ClientKey,
    reader: FrameReader,
    pending: Pending,
    /// The way to the node for everything that is no write.
    way: Way<B::Relay>,
    /// What has to happen before the next message is read.
    stalled: Option<Stalled>,
    clocks: Clocks,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    is_leaving: bool,
    /// Whether nothing was read from the client when the clock was last looked at.
    was_held: bool,
    _open: Open,
    _slots: (Slot, Option<Slot>),
}

/// How a session ends.
#[derive(Debug)]
enum End {
    /// With a close frame.
    Say(u16, String),
    /// With a close frame as empty as the client's.
    Echo,
    /// The client is gone, or is not worth a word.
    Gone,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Full => Self::Say(close_code::TRY_AGAIN, "the buffers are full".to_owned()),
            Ended::Closed | Ended::Late => Self::Gone,
        }
    }
}

/// Counts a session as long as it lives.
struct Open(Arc<Metrics>);

impl Open {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.ws_opened();
        Self(Arc::clone(metrics))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.ws_closed();
    }
}

/// Fragments of a message. Honest clients send few.
const FRAGMENTS: usize = 1_024;
/// How often it is looked whether a client that is not read from is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last frame may take.
const LAST_WORD: Duration = Duration::from_secs(1);

impl<B: Backend, IO: Stream> Session<B, IO> {
    /// A session that was just opened.
    pub(super) fn new(
        front: Arc<Shared<B>>,
        socket: Socket<IO>,
        queue: Queue<B>,
        client: ClientKey,
        slots: (Slot, Option<Slot>),
    ) -> Self {
        let config = &front.config;
        Self {
            socket,
            queue,
            client,
            reader: FrameReader::new(WsLimits {
                message: config.limits.body_bytes,
                fragments: FRAGMENTS,
            }),
            pending: Pending::default(),
            way: Way::default(),
            stalled: None,
            clocks: Clocks::new(&config.ws, config.limits.write_timeout),
            stop: Box::pin(front.stop.clone().cancelled_owned()),
            is_leaving: false,
            was_held: false,
            _open: Open::new(&front.metrics),
            _slots: slots,
            front,
        }
    }

    /// Serves it to its end.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection and takes its writes out of the queue.
    pub(super) async fn run(mut self) {
        let end = poll_fn(|context| self.poll(context)).await;
        let out = self.socket.output.tail();
        match end {
            End::Say(code, reason) => write_close(out, code, &reason),
            End::Echo => write_head(out, CLOSE, 0, None),
            End::Gone => return,
        }
        if self.socket.flush(LAST_WORD).await.is_ok() {
            self.socket.close().await;
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            match self.advance(context) {
                Ok(true) => {}
                Ok(false) => match self.watch(context) {
                    Ok(true) => {}
                    Ok(false) => return Poll::Pending,
                    Err(end) => return Poll::Ready(end),
                },
                Err(end) => return Poll::Ready(end),
            }
        }
    }

    /// Takes what is there, on all sides, and writes what came of it: whether there was anything.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let answered = self.take_answers(context);
        let relayed = self.take_relayed(context)?;
        let heard = self.take_messages(context)?;
        self.write(context)?;
        Ok(answered || relayed || heard)
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> bool {
        let Poll::Ready(answers) = self.queue.poll_answers(context) else {
            return false;
        };
        for delivery in answers {
            self.take_answer(delivery);
        }
        true
    }

    fn take_answer(&mut self, delivery: Delivery) {
        let Some(asked) = self.pending.remove(delivery.tag) else {
            return;
        };
        let out = self.socket.output.tail();
        let outcome = match delivery.answer {
            WriteAnswer::Member(member) => {
                write_ws_answer(out, Some(asked.id.as_str()), &member);
                OutcomeLabel::Forwarded
            }
            WriteAnswer::Refused(refusal) => {
                write_ws_refused(out, Some(asked.id.as_str()), &refusal);
                self.front
                    .refused(self.client, &refusal, Instant::now().into_std());
                self.turn_is_over();
                outcome::of_write(refusal.reason)
            }
            WriteAnswer::Permit(permit) => return self.turn_has_come(permit, asked),
        };
        let metrics = &self.front.metrics;
        metrics.request(Transport::Ws, LaneLabel::Write, asked.class, outcome);
    }

    /// Refuses a call.
    fn refuse(&mut self, id: Option<&str>, refusal: &Refusal) {
        self.front
            .refused(self.client, refusal, Instant::now().into_std());
        write_ws_refused(self.socket.output.tail(), id, refusal);
    }

    /// Writes as much as the client takes.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        let before = self.socket.output.len();
        loop {
            match self.socket.poll_write(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => {
                    self.clocks.unstuck();
                    return Ok(());
                }
                Poll::Ready(Err(_)) => return Err(End::Gone),
                Poll::Pending => {
                    let waiting = self.socket.output.len();
                    self.clocks.stuck(before.saturating_sub(waiting), waiting);
                    return Ok(());
                }
            }
        }
    }

    /// Looks at the clock and at the order to stop: whether that changed anything.
    fn watch(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if !self.is_leaving && self.stop.as_mut().poll(context).is_ready() {
            self.leave();
            return Ok(true);
        }
        if self.is_leaving && self.queue.under_way() == 0 && self.stalled.is_none() {
            return Err(End::Say(close_code::GOING_AWAY, String::new()));
        }
        let now = Instant::now();
        let is_held = self.is_held();
        if std::mem::replace(&mut self.was_held, is_held) && !is_held {
            self.clocks.heard();
        }
        if self.clocks.behind_at().is_some_and(|at| at <= now) {
            return Err(End::Gone);
        }
        if is_held && self.socket.is_hung_up() {
            return Err(End::Gone);
        }
        if !is_held && self.clocks.silent_at() <= now {
            return Err(End::Gone);
        }
        if self.turn_is_late(now) {
            return Ok(true);
        }
        if self.clocks.ping_at() <= now {
            self.clocks.pinged(now);
            // A client that has more to read than this does not need a ping to answer.
            if self.socket.output.is_empty() {
                write_ping(self.socket.output.tail());
                return Ok(true);
            }
        }
        let next = if is_held {
            now + LOOK
        } else {
            self.clocks.silent_at()
        };
        let next = next.min(self.clocks.ping_at());
        let next = self.clocks.behind_at().map_or(next, |at| at.min(next));
        // Should it be late already, everything is looked at once more.
        Ok(self.socket.poll_late(next, context).is_ready())
    }

    /// Whether nothing is read from the client.
    fn is_held(&self) -> bool {
        self.stalled.is_some() || self.is_leaving || self.is_backed_up()
    }

    /// Whether the client has so much to take, or so many questions open, that it is not asked for
    /// more.
    fn is_backed_up(&self) -> bool {
        self.socket.output.len() > self.front.config.ws.out_bytes / 4
            || self.way.open() >= self.front.config.reads.concurrency_per_client
    }

    /// Takes nothing more from the client; what is under way is still answered.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.drop_stalled();
    }
}
