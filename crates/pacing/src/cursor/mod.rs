//! Walks along a profile by area: exact like random access, but remembering where it is.

mod curve;
mod flat;
mod linear;

use self::{curve::CurveTrack, flat::FlatTrack, linear::LinearTrack};
use crate::profile::{Form, Profile};

/// A place on a profile: a target area and the last instant by which no more was planned.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    profile: Profile,
    /// The area since the origin.
    target: u128,
    /// Where the current piece begins and what its end amounts to.
    start: u64,
    area_end: u128,
    track: Track,
}

/// How to go on within the current piece. Times and areas are since the piece's start.
#[derive(Debug, Clone)]
enum Track {
    Flat(FlatTrack),
    Linear(LinearTrack),
    Curve(CurveTrack),
    /// Before the first piece or after the last.
    Nowhere,
}

impl Cursor {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            target: 0,
            start: 0,
            area_end: 0,
            track: Track::Nowhere,
        }
    }

    /// Goes `by` units of area further and returns when that is; nothing past the profile's end.
    #[inline]
    pub(crate) fn advance(&mut self, by: u128) -> Option<u64> {
        self.target = self.target.saturating_add(by);
        if self.target < self.area_end
            && let Ok(by) = u64::try_from(by)
        {
            let at = match &mut self.track {
                Track::Flat(track) => Some(track.advance(by)),
                Track::Linear(track) => track.advance(by),
                Track::Curve(track) => track.advance(by),
                Track::Nowhere => None,
            };
            if let Some(at) = at {
                return Some(self.start + at);
            }
        }
        self.seek()
    }

    /// Finds the target from scratch.
    #[cold]
    fn seek(&mut self) -> Option<u64> {
        let Some(piece) = self.profile.piece(self.target) else {
            (self.area_end, self.track) = (0, Track::Nowhere);
            return None;
        };
        let area = self.target - piece.area_start;
        let at = piece.form.invert(area);
        (self.start, self.area_end) = (piece.start, piece.area_end);
        self.track = match piece.form {
            Form::Flat(rate) => Track::Flat(FlatTrack::new(rate, at, area)),
            Form::Linear(slope) => {
                LinearTrack::new(slope, at, area).map_or(Track::Nowhere, Track::Linear)
            }
            Form::Curve(curve) => Track::Curve(CurveTrack::new(curve, at, area)),
        };
        Some(self.start + at)
    }
}
