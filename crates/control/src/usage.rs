//! How much of the allowed rate was used between two blocks.

use pacing::Nanos;

/// Adds up, since the last block: how long writes waited, how long sending was possible, and how
/// many were sent.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    since: Nanos,
    last: Nanos,
    state: UsageState,
    backlogged: Nanos,
    unblocked: Nanos,
    sent: u64,
    disturbed: bool,
}

/// What holds from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageState {
    /// Writes wait.
    pub(super) waiting: bool,
    /// None may leave, whatever the rate is: the window is full, or the mempool.
    pub(super) blocked: bool,
}

/// The sums of one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Share of the interval in which writes waited, 0 to 1.
    pub(super) backlogged: f64,
    /// Share of the interval in which sending was possible, 0 to 1.
    pub(super) unblocked: f64,
    /// Writes sent for each second in which sending was possible.
    pub(super) rate: f64,
    /// Something else than the rate held writes back: a break, a new connection.
    pub(super) disturbed: bool,
}

impl Usage {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            since: now,
            last: now,
            state: UsageState::default(),
            backlogged: Nanos::ZERO,
            unblocked: Nanos::ZERO,
            sent: 0,
            disturbed: false,
        }
    }

    /// From now on this holds.
    pub(super) fn set(&mut self, now: Nanos, state: UsageState) {
        let passed = now.saturating_sub(self.last);
        if self.state.waiting {
            self.backlogged = self.backlogged.saturating_add(passed);
        }
        if !self.state.blocked {
            self.unblocked = self.unblocked.saturating_add(passed);
        }
        self.last = self.last.max(now);
        self.state = state;
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }

    pub(super) fn unsent(&mut self, count: usize) {
        self.sent = self.sent.saturating_sub(count as u64);
    }

    /// Writes sent in this interval so far.
    pub(super) const fn sent_so_far(&self) -> u64 {
        self.sent
    }

    /// This interval does not count for steering the rate.
    pub(super) const fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// Ends the interval and begins the next.
    pub(super) fn take(&mut self, now: Nanos) -> Used {
        self.set(now, self.state);
        let whole = self.last.saturating_sub(self.since).as_secs_f64();
        let share = |part: Nanos| {
            if whole > 0.0 {
                part.as_secs_f64() / whole
            } else {
                0.0
            }
        };
        let open = self.unblocked.as_secs_f64();
        let used = Used {
            backlogged: share(self.backlogged),
            unblocked: share(self.unblocked),
            rate: if open > 0.0 {
                self.sent as f64 / open
            } else {
                0.0
            },
            disturbed: self.disturbed,
        };
        let state = self.state;
        *self = Self::new(self.last);
        self.state = state;
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_add_up() {
        let at = Nanos::from_millis;
        let mut usage = Usage::new(at(0));
        let waiting = UsageState {
            waiting: true,
            blocked: false,
        };
        usage.set(at(200), waiting);
        usage.sent(400);
        let blocked = UsageState {
            waiting: true,
            blocked: true,
        };
        usage.set(at(700), blocked);
        usage.unsent(50);
        let used = usage.take(at(1_000));
        assert!((used.backlogged - 0.8).abs() < 1e-9);
        assert!((used.unblocked - 0.7).abs() < 1e-9);
        assert!((used.rate - 500.0).abs() < 1e-9);
        // The state goes on, the sums begin again; a clock that goes back adds nothing.
        usage.set(at(900), blocked);
        let next = usage.take(at(2_000));
        assert_eq!(
            (next.backlogged, next.unblocked, next.rate),
            (1.0, 0.0, 0.0)
        );
    }
}
