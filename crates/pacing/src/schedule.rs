//! The instant each transaction is due; and every N-th transaction of a schedule, in order, for one sender: a walk along
//! the profile by area, as exact as random access.

use std::iter::FusedIterator;
use std::num::NonZeroU32;

use base::Random;

use crate::arrivals::exponential;
use crate::profile::Piece;
use crate::size::ONE;
use crate::{Arrivals, Nanos, Profile};

/// A transaction and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its number in the whole schedule, from 0.
    pub index: u64,
    /// When it is due.
    pub at: Nanos,
}

impl Due {
    fn new(index: u64, at: u64) -> Self {
        let at = Nanos::new(at);
        Self { index, at }
    }
}

/// Every N-th transaction of a schedule, in order. Made by [`crate::Schedule::shard`].
///
/// Owned and cheap to send to another thread. Each item costs some nanoseconds; under Poisson
/// arrivals some more for each transaction of the other shards that it skips.
#[derive(Debug, Clone)]
pub struct Shard {
    cursor: Cursor,
    pace: Pace,
    stride: u64,
    next: Option<Due>,
}

/// How far apart transactions are in area.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    Even {
        stride: u128,
    },
    Burst {
        size: u64,
        stride: u64,
        /// Where in its burst the next transaction is.
        place: u64,
        /// The number of transactions in all.
        limit: u64,
    },
    Poisson {
        random: Random,
        stride: u32,
    },
}

impl Pace {
    /// Of every `of`-th transaction; `limit` is the number of transactions in all.
    pub(crate) fn new(arrivals: Arrivals, of: NonZeroU32, limit: u64) -> Self {
        match arrivals {
            Arrivals::Even => Self::Even {
                stride: u128::from(of.get()) * ONE,
            },
            Arrivals::Burst { size } => Self::Burst {
                size: u64::from(size.get()),
                stride: u64::from(of.get()),
                place: 0,
                limit,
            },
            Arrivals::Poisson { seed } => Self::Poisson {
                random: Random::new(seed),
                stride: of.get(),
            },
        }
    }

    /// The area before transaction `index`, the first of a shard.
    fn first(&mut self, index: u32) -> u128 {
        match self {
            Self::Even { .. } => u128::from(index) * ONE,
            Self::Burst { size, place, .. } => {
                *place = u64::from(index) % *size;
                u128::from(u64::from(index) - *place) * ONE
            }
            Self::Poisson { random, .. } => skipped(random, index + 1),
        }
    }

    /// The area from a transaction of the shard to the next.
    #[inline]
    fn next(&mut self) -> u128 {
        match self {
            Self::Even { stride } => *stride,
            Self::Burst {
                size,
                stride,
                place,
                ..
            } => {
                *place += *stride;
                if *place < *size {
                    return 0;
                }
                let bursts = *place / *size;
                *place %= *size;
                u128::from(bursts * *size) * ONE
            }
            Self::Poisson { random, stride } => skipped(random, *stride),
        }
    }

    /// The area from a transaction of the shard to the one `count` further on.
    fn jump(&mut self, count: u64) -> u128 {
        match self {
            Self::Even { stride } => u128::from(count).saturating_mul(*stride),
            Self::Burst {
                size,
                stride,
                place,
                ..
            } => {
                let way = u128::from(*place) + u128::from(count) * u128::from(*stride);
                let size = u128::from(*size);
                // Below the size, which is 32 bits.
                *place = (way % size) as u64;
                (way / size * size).saturating_mul(ONE)
            }
            Self::Poisson { .. } => (0..count).map(|_| self.next()).sum(),
        }
    }

    /// Whether there is a transaction `index`, as far as it does not follow from its area.
    #[inline]
    fn has(&self, index: u64) -> bool {
        match self {
            Self::Burst { limit, .. } => index < *limit,
            Self::Even { .. } | Self::Poisson { .. } => true,
        }
    }
}

/// The sum of `count` exponential gaps.
#[inline]
fn skipped(random: &mut Random, count: u32) -> u128 {
    (0..count).map(|_| u128::from(exponential(random))).sum()
}

impl Shard {
    pub(crate) fn new(profile: Profile, mut pace: Pace, shard: u32, of: NonZeroU32) -> Self {
        let mut cursor = Cursor::new(profile);
        let first = pace.first(shard);
        let index = u64::from(shard);
        let at = pace.has(index).then(|| cursor.advance(first)).flatten();
        Self {
            cursor,
            pace,
            stride: u64::from(of.get()),
            next: at.map(|at| Due::new(index, at)),
        }
    }

    /// The next transaction, without taking it.
    #[inline]
    pub fn peek(&self) -> Option<Due> {
        self.next
    }
}

impl Iterator for Shard {
    type Item = Due;

    #[inline]
    fn next(&mut self) -> Option<Due> {
        let due = self.next?;
        let index = due.index + self.stride;
        self.next = if self.pace.has(index) {
            let at = match self.pace.next() {
                // Within a burst.
                0 => Some(due.at),
                by => self.cursor.advance(by).map(Nanos::new),
            };
            at.map(|at| Due { index, at })
        } else {
            None
        };
        Some(due)
    }

    /// Jumps without visiting what lies between, except under Poisson arrivals.
    fn nth(&mut self, n: usize) -> Option<Due> {
        let due = self.next?;
        let count = n as u64;
        if count > 0 {
            let index = count.saturating_mul(self.stride).saturating_add(due.index);
            self.next = if self.pace.has(index) {
                let by = self.pace.jump(count);
                self.cursor.advance(by).map(|at| Due::new(index, at))
            } else {
                None
            };
        }
        self.next()
    }
}

impl FusedIterator for Shard {}

/// A place on a profile: a target area and the last instant by which no more was planned.
#[derive(Debug, Clone)]
struct Cursor {
    profile: Profile,
    /// The area since the origin.
    target: u128,
    /// Where the current piece begins, and the area up to which its rate leads.
    start: u64,
    area_end: u128,
    track: Track,
}

impl Cursor {
    fn new(profile: Profile) -> Self {
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
    fn advance(&mut self, by: u128) -> Option<u64> {
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
