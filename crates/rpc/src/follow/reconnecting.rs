//! A connection for announcements that is made again by itself.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::{Backoff, Loss, SourceEvent};
use crate::connection::{ConnectionError, Message, ReadProgress, TaskConnection};

/// A connection that a [`BlockSource`](super::BlockSource) listens to. Every loss and every failed attempt is
/// followed by a pause.
pub struct Reconnecting {
    connect: Box<dyn Fn() -> Connecting + Send>,
    state: State,
    backoff: Backoff,
}

/// A connection under way, or why there is none.
type Connecting = Pin<Box<dyn Future<Output = Result<TaskConnection, String>> + Send>>;

enum State {
    Waiting(Instant),
    Connecting(Connecting),
    Open(Box<TaskConnection>),
}

impl Reconnecting {
    /// Connects with `connect`, which has 10 s; `max_backoff` is the longest pause between two attempts.
    pub fn new<F>(max_backoff: Duration, connect: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<TaskConnection, String>> + Send + 'static,
    {
        let connect = move || -> Connecting {
            let attempt = connect();
            Box::pin(async move {
                let answered = timeout(CONNECT_LIMIT, attempt).await;
                answered.unwrap_or_else(|_| Err("no answer in time".to_owned()))
            })
        };
        Self {
            connect: Box::new(connect),
            state: State::Waiting(Instant::now()),
            backoff: Backoff::new(max_backoff),
        }
    }

    /// Reads from the connection; before there is one, the error is what the source has to tell:
    /// [`SourceEvent::Open`] or [`SourceEvent::Refused`].
    ///
    /// # Cancel safety
    /// As [`TaskConnection::read`]: all progress is in `self`.
    pub async fn read(
        &mut self,
        on_message: impl FnMut(Message<'_>),
    ) -> Result<Result<ReadProgress, ConnectionError>, SourceEvent> {
        loop {
            match &mut self.state {
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Connecting((self.connect)());
                }
                State::Connecting(attempt) => match attempt.await {
                    Ok(connection) => {
                        self.state = State::Open(Box::new(connection));
                        return Err(SourceEvent::Open);
                    }
                    Err(reason) => {
                        self.wait();
                        return Err(SourceEvent::Refused(reason));
                    }
                },
                State::Open(connection) => return Ok(connection.read(on_message).await),
            }
        }
    }

    /// The connection was of use: the next pause is a short one.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
    }

    /// Gives the connection up.
    pub fn lose(&mut self, loss: Loss) -> SourceEvent {
        self.wait();
        SourceEvent::Lost(loss)
    }

    fn wait(&mut self) {
        self.state = State::Waiting(Instant::now() + self.backoff.pause());
    }
}

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
