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
        let half = Nanos::from_nanos(end.saturating_sub(step.start).as_nanos() / 2);
        if !step.pause || under_way > 0 && now < step.start.saturating_add(half) {
            return false;
        }
        self.done_until = end;
        true
    }
}
