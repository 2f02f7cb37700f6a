//! The clock, which is read here alone, and the deadlines of one connection on a single timer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pacing::Nanos;
use tokio::time::{self, Sleep, sleep_until};

/// Monotonic time since the program's start. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }

    /// The runtime's instant of a time, for its timers.
    pub fn instant(&self, at: Nanos) -> time::Instant {
        time::Instant::from_std(self.0 + Duration::from(at))
    }
}

/// A timer that is only moved when it would ring too late. A deadline that is met in time, as most
/// are, costs a look at the clock and no visit to the runtime's wheel.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Ready at `at` or later. The waker is woken then, or earlier in vain.
    pub(crate) fn poll_until(&mut self, at: time::Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        while sleep.as_mut().poll(context).is_ready() {
            if time::Instant::now() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    impl Clock {
        /// A clock that started before.
        pub(crate) fn started(ago: Duration) -> Self {
            Self(Instant::now() - ago)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_deadline_of_the_moment() {
        let mut timer = Timer::default();
        let start = time::Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        poll_fn(|context| {
            // A later deadline leaves the timer where it is, an earlier one moves it.
            assert!(timer.poll_until(after(60), context).is_pending());
            assert!(timer.poll_until(after(90), context).is_pending());
            assert!(timer.poll_until(after(10), context).is_pending());
            Poll::Ready(())
        })
        .await;
        poll_fn(|context| timer.poll_until(after(30), context)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        poll_fn(|context| timer.poll_until(after(20), context)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    }
}
