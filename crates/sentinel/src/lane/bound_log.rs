//! Which bound holds, in the log: once it has held for a while, so that a load in which two of them take
//! turns does not fill the log.

use control::Bound;
use pacing::Nanos;
use tracing::info;

/// The last bound that was logged, and the one that may be next.
#[derive(Debug, Default)]
pub(super) struct BoundLog {
    logged: usize,
    /// Which, and since when it holds.
    next: Option<(usize, Nanos)>,
}

impl BoundLog {
    /// Looks at the bound that holds now, and logs it when it has held for long enough and another was
    /// logged last: whether it did.
    pub(super) fn look(&mut self, bound: &Bound, now: Nanos) -> bool {
        let place = bound.place();
        if self.logged == place {
            self.next = None;
            return false;
        }
        let since = match self.next {
            Some((known, since)) if known == place => since,
            _ => now,
        };
        self.next = Some((place, since));
        let is_due = now.saturating_sub(since) >= HELD_FOR;
        if is_due {
            match bound {
                Bound::Nothing => info!("nothing holds writes back"),
                bound => info!(bound = bound.name(), "writes wait for {}", bound.told(now)),
            }
            self.logged = place;
        }
        is_due
    }
}

/// A bound that holds for less is not logged.
const HELD_FOR: Nanos = Nanos::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_76_a_bound_is_logged_once_it_has_held_for_a_while() {
        let mut log = BoundLog::default();
        let ceiling = Bound::Ceiling {
            per_second: 2_000.0,
        };
        let window = |own| Bound::Window {
            own,
            limit: 100,
            unit: control::Unit::Transactions,
        };
        // Two that take turns are not logged.
        for second in 0..20 {
            let bound = if second % 2 == 0 {
                ceiling
            } else {
                window(100)
            };
            assert!(!log.look(&bound, Nanos::from_secs(second)));
        }
        // One that stays is, once, whatever its numbers are.
        let logged: Vec<u64> = (20..40)
            .filter(|second| log.look(&window(*second as usize), Nanos::from_secs(*second)))
            .collect();
        assert_eq!(logged, [24]);
    }
}
