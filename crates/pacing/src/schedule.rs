//! The instant each transaction is due.

use std::num::NonZeroU32;

use base::Random;

use crate::{Arrivals, Nanos, Profile, Shard, arrivals::exponential, shard::Pace, size::ONE};

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
