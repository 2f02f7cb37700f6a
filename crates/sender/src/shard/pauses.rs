//! Connections that are broken on purpose, once in every pause of the profile.

use pacing::{Nanos, Profile};

/// The pauses of a profile whose connections are broken in each.
pub(super) struct Pauses {
    profile: Profile,
    /// The end of the last pause that was dealt with.
    done_until: Nanos,
}

impl Pauses {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            done_until: Nanos::ZERO,
        }
    }

    /// Whether to break the connections now. Says so once in a pause: as soon as nothing is under
    /// way, at the latest in the pause's middle.
    pub(super) fn is_time(&mut self, now: Nanos, under_way: usize) -> bool {
        if now < self.done_until {
            return false;
        }
        let step = self.profile.step_at(now);
        let end = step.end.unwrap_or(Nanos::MAX);
        // The last step is that of every later instant.
        if end == self.done_until {
            return false;
        }
        let half = Nanos::from_nanos(end.saturating_sub(step.start).as_nanos() / 2);
        if !step.pause || under_way > 0 && now < step.start.saturating_add(half) {
            return false;
        }
        self.done_until = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use pacing::Rate;

    use super::*;

    /// On a busy machine answers to the last transactions came after the end, and connections were broken at every look.
    #[test]
    fn the_last_pause_is_dealt_with_once_however_long_the_run_goes_on() {
        let second = Nanos::from_secs(1);
        let (rate, cycles) = (Rate::per_second(100).unwrap(), NonZeroU32::new(2).unwrap());
        let profile = Profile::square(rate, Rate::ZERO, second, second, cycles).unwrap();
        let breaks = |millis: [u64; 8]| {
            let mut pauses = Pauses::new(profile.clone());
            millis.map(|millis| pauses.is_time(Nanos::from_millis(millis), 0))
        };
        assert_eq!(
            breaks([500, 1_000, 1_500, 2_500, 3_000, 3_999, 4_000, 9_000]),
            [false, true, false, false, true, false, false, false]
        );
        assert_eq!(
            breaks([500, 1_000, 1_500, 2_500, 4_000, 4_001, 5_000, 9_000]),
            [false, true, false, false, true, false, false, false],
            "late for the whole of it"
        );
    }
}
