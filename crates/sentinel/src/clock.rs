//! The one place that reads the clock.

use std::time::{Duration, Instant};

use pacing::Nanos;

/// Monotonic time since the program's start. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// A clock that started before.
    #[cfg(test)]
    pub(crate) fn started(ago: Duration) -> Self {
        Self(Instant::now() - ago)
    }

    /// The time since the start.
    pub fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }

    /// The runtime's instant of a time, for its timers.
    pub fn instant(&self, at: Nanos) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.0 + Duration::from(at))
    }
}
