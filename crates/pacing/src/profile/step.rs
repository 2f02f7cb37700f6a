//! The steps of a profile: what a report has one row for.

use super::Profile;
use crate::{nanos::Nanos, rate::Rate};

/// A stretch of a profile that is reported on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which one, counted from 0 over the whole profile.
    pub index: u32,
    /// When it begins.
    pub start: Nanos,
    /// When it ends (the first instant that is no longer in it); nothing when it runs until stopped.
    pub end: Option<Nanos>,
    /// Its mean rate.
    pub rate: Rate,
    /// Whether it is a rest: a rate of zero, or the low half of a square wave.
    pub pause: bool,
}

/// The steps of a profile in order. Made by [`Profile::iter_steps`] and [`Profile::steps_until`].
#[derive(Debug, Clone)]
pub struct Steps {
    profile: Profile,
    next: u32,
    until: Nanos,
}

impl Steps {
    pub(super) fn new(profile: Profile, until: Nanos) -> Self {
        Self {
            profile,
            next: 0,
            until,
        }
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let step = self.profile.step(self.next)?;
        if step.start >= self.until {
            return None;
        }
        self.next += 1;
        Some(step)
    }
}
