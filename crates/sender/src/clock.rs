//! The run's one clock: nanoseconds since the origin, monotonic.

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pacing::Nanos;

/// A clock that stands at zero until [`RunClock::start`] sets the origin.
///
/// Everything that is opened before the run (connections, followers) shares it already; clones see
/// the same origin.
#[derive(Debug, Clone, Default)]
pub struct RunClock {
    origin: Arc<OnceLock<Origin>>,
}

/// The instant zero of a run, on the monotonic clock and on the wall.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    instant: Instant,
    unix_ns: u64,
    /// By how much the wall clock here is ahead of the one that the number above is of.
    ahead_ns: i64,
}

impl RunClock {
    /// Sets the origin to `notice` from now, once; later calls return the first origin.
    ///
    /// The notice lets every thread be awake before the first due time, which may be zero.
    pub fn start(&self, notice: Nanos) -> Origin {
        *self.origin.get_or_init(|| Origin::capture().later(notice))
    }

    /// Sets the origin to an instant on the wall clock here, once. An origin that has passed already makes
    /// the first transactions late. Its number is that of the common clock of several generators, which this
    /// one is ahead of by `ahead_ns`.
    pub fn start_at(&self, unix_ns: u64, ahead_ns: i64) -> Origin {
        let now = Origin::capture();
        let until = Nanos::from_nanos(unix_ns.saturating_sub(now.unix_ns));
        let origin = now.later(until);
        *self.origin.get_or_init(|| Origin {
            unix_ns: origin
                .unix_ns
                .saturating_add_signed(ahead_ns.saturating_neg()),
            ahead_ns,
            ..origin
        })
    }

    /// Nanoseconds since the origin; zero before it.
    pub fn now(&self) -> Nanos {
        self.origin.get().map_or(Nanos::ZERO, Origin::now)
    }

    /// An instant of the run in nanoseconds since the Unix epoch; zero before the origin is set.
    pub fn unix_ns(&self, at: Nanos) -> u64 {
        self.origin
            .get()
            .map_or(0, |origin| origin.unix_ns().saturating_add(at.as_nanos()))
    }
}

impl Origin {
    /// Takes the present as the origin. The wall clock is read here and nowhere else.
    pub fn capture() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            instant: Instant::now(),
            unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            ahead_ns: 0,
        }
    }

    fn later(self, span: Nanos) -> Self {
        Self {
            instant: self.instant + span.as_duration(),
            unix_ns: self.unix_ns.saturating_add(span.as_nanos()),
            ..self
        }
    }

    /// Sleeps until the origin; returns at once when it has passed.
    pub fn wait(&self) {
        std::thread::sleep(self.instant.saturating_duration_since(Instant::now()));
    }

    /// Nanoseconds since this origin; zero before it.
    pub fn now(&self) -> Nanos {
        Nanos::from(self.instant.elapsed())
    }

    /// By how much the wall clock has moved against the monotonic one since this origin was taken, in
    /// nanoseconds: what the origin's number is wrong by, beyond the error of the wall clock itself.
    pub fn error_ns(&self) -> i64 {
        let present = Self::capture();
        let passed = match present.instant.checked_duration_since(self.instant) {
            Some(passed) => passed.as_nanos().cast_signed(),
            None => -((self.instant - present.instant).as_nanos().cast_signed()),
        };
        let on_the_wall =
            i128::from(present.unix_ns) - i128::from(self.ahead_ns) - i128::from(self.unix_ns);
        i64::try_from(on_the_wall - passed).unwrap_or(i64::MAX)
    }

    /// The origin in nanoseconds since the Unix epoch.
    pub fn unix_ns(&self) -> u64 {
        self.unix_ns
    }
}
