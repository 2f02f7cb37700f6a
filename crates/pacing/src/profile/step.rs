//! The steps of a profile: what a report has one row for.

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
    /// The step that it offers a second time, if it does (see [`crate::Profile::with_again`]).
    pub again_of: Option<u32>,
}
