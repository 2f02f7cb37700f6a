//! Walks along a profile by area: exact like random access, but remembering where it is.

use crate::profile::{Piece, Profile};

/// A place on a profile: a target area and the last instant by which no more was planned.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    profile: Profile,
    /// The area since the origin.
    target: u128,
    /// Where the current piece begins, and the area up to which its rate leads.
    start: u64,
    area_end: u128,
    track: Track,
}

impl Cursor {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            target: 0,
            start: 0,
            area_end: 0,
            track: Track::default(),
        }
    }

    /// Goes `by` units of area further and returns when that is; nothing past the profile's end.
    #[inline]
    pub(crate) fn advance(&mut self, by: u128) -> Option<u64> {
        self.target = self.target.saturating_add(by);
        if self.target < self.area_end
            && let Ok(by) = u64::try_from(by)
        {
            return Some(self.start + self.track.advance(by));
        }
        self.seek(by)
    }

    /// Finds the piece of the target, beginning where the current rate would lead.
    fn seek(&mut self, by: u128) -> Option<u64> {
        let by = u64::try_from(by).unwrap_or(u64::MAX);
        let near = by.checked_div(self.track.rate);
        let near = near.map(|way| (self.start + self.track.at).saturating_add(way));
        let Some(piece) = self.profile.piece(self.target, near) else {
            self.area_end = 0;
            return None;
        };
        let at = piece.last_at(self.target);
        self.start = piece.start;
        self.area_end = piece.area_of_rate();
        self.track = Track::new(&piece, at, self.target);
        Some(at)
    }
}

/// A place on a piece: quotient and remainder, as in Bresenham's line.
///
/// Keeps `area = rate · at + rest` with `rest < rate`, in time and area since the piece's start.
#[derive(Debug, Clone, Default)]
struct Track {
    rate: u64,
    at: u64,
    rest: u64,
    /// The last stride and its quotient and remainder by the rate: even arrivals repeat it.
    stride: u64,
    stride_at: u64,
    stride_rest: u64,
}

impl Track {
    fn new(piece: &Piece, at: u64, target: u128) -> Self {
        let (rate, at) = (piece.rate, at - piece.start);
        let rest = target - piece.area_start - u128::from(rate) * u128::from(at);
        Self {
            rate,
            at,
            // Below the rate, as long as the target is within what the rate leads to.
            rest: rest as u64,
            stride: 0,
            stride_at: 0,
            stride_rest: 0,
        }
    }

    /// Goes `by` units of area on, which must not lead past what the piece's rate amounts to.
    #[inline]
    fn advance(&mut self, by: u64) -> u64 {
        if by != self.stride {
            self.stride = by;
            self.stride_at = by / self.rate;
            self.stride_rest = by % self.rate;
        }
        self.at += self.stride_at;
        self.rest += self.stride_rest;
        if self.rest >= self.rate {
            self.rest -= self.rate;
            self.at += 1;
        }
        self.at
    }
}
