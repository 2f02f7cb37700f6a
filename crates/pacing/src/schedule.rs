//! The instant each transaction is due.

use std::num::NonZeroU32;

use base::Random;

use crate::arrivals::exponential;
use crate::profile::{Piece, Profile};
use crate::shard::Pace;
use crate::size::ONE;
use crate::{Arrivals, Nanos, Shard};

/// When each transaction of a profile is due.
///
/// Transactions are numbered from 0. Under even arrivals, the i-th is due at the last nanosecond by
/// which no more than i transactions are planned: `max { t : integral(t) <= i }`. So the first is
/// due at once, a pause offers nothing at either of its ends, and for every `t` the due times
/// before `t` are exactly `integral(t)` rounded up.
///
/// Under bursts, transaction i is due when the first of its burst is; the last burst is as large as
/// what remains. Under Poisson, see [`Arrivals::Poisson`].
#[derive(Debug, Clone)]
pub struct Schedule {
    profile: Profile,
    arrivals: Arrivals,
}

impl Schedule {
    /// The schedule of a profile under these arrivals.
    pub fn new(profile: Profile, arrivals: Arrivals) -> Self {
        Self { profile, arrivals }
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The arrivals.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// When transaction `i` (from 0) is due; nothing past the end.
    ///
    /// Takes about a microsecond at any `i`, except for Poisson arrivals: those are computed from
    /// the first one on, at some nanoseconds each.
    pub fn due(&self, i: u64) -> Option<Nanos> {
        let area = match self.arrivals {
            Arrivals::Even => u128::from(i) * ONE,
            Arrivals::Burst { size } => {
                if i >= self.profile_limit() {
                    return None;
                }
                let size = u64::from(size.get());
                u128::from(i / size * size) * ONE
            }
            Arrivals::Poisson { seed } => self.poisson_area(seed, i)?,
        };
        let piece = self.profile.piece(area, None)?;
        Some(Nanos::new(piece.last_at(area)))
    }

    /// How many transactions are due before `t`.
    ///
    /// Exact for all arrivals; for Poisson counted from the first one on.
    pub fn due_before(&self, t: Nanos) -> u64 {
        let even = self.profile.integral(t).rounded_up();
        match self.arrivals {
            Arrivals::Even => even,
            Arrivals::Burst { size } => {
                let size = u64::from(size.get());
                even.div_ceil(size)
                    .saturating_mul(size)
                    .min(self.profile_limit())
            }
            Arrivals::Poisson { seed } => {
                // Due before t is what lies below the area at t.
                count_poisson(seed, self.profile.integral(t).as_femto())
            }
        }
    }

    /// How many transactions are due in all; nothing for a profile that runs until stopped.
    ///
    /// For Poisson arrivals they are counted one by one, at some nanoseconds each.
    pub fn planned(&self) -> Option<u64> {
        let total = self.profile.total()?;
        Some(match self.arrivals {
            Arrivals::Even | Arrivals::Burst { .. } => total.rounded_up(),
            Arrivals::Poisson { seed } => count_poisson(seed, total.as_femto()),
        })
    }

    /// Transactions `shard`, `shard + of`, `shard + 2·of`, … in order: together, the shards
    /// `0..of` are the whole schedule.
    ///
    /// # Panics
    /// If `shard` is not below `of`.
    pub fn shard(&self, shard: u32, of: NonZeroU32) -> Shard {
        assert!(
            shard < of.get(),
            "there is no shard {shard} of {of}: they count from 0"
        );
        let pace = Pace::new(self.arrivals, of, self.profile_limit());
        Shard::new(self.profile.clone(), pace, shard, of)
    }

    /// The whole schedule in order: the only shard of one.
    pub fn iter(&self) -> Shard {
        self.shard(0, NonZeroU32::MIN)
    }

    /// How many transactions the profile has under even arrivals, up to the limit of an endless one.
    fn profile_limit(&self) -> u64 {
        crate::Count::from_area(self.profile.area()).rounded_up()
    }

    fn poisson_area(&self, seed: u64, i: u64) -> Option<u128> {
        let mut random = Random::new(seed);
        let mut area = 0_u128;
        for _ in 0..=i {
            area += u128::from(exponential(&mut random));
            if area >= self.profile.area() {
                return None;
            }
        }
        Some(area)
    }
}

/// How many arrivals lie below `end`.
fn count_poisson(seed: u64, end: u128) -> u64 {
    let mut random = Random::new(seed);
    let mut area = 0_u128;
    let mut count = 0;
    loop {
        area += u128::from(exponential(&mut random));
        if area >= end {
            return count;
        }
        count += 1;
    }
}

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
