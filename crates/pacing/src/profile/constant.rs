//! One rate, for a while or until stopped.

use std::{fmt, num::NonZeroU64};

use super::stairs::Stairs;
use crate::{nanos::Nanos, rate::Rate};

#[derive(Debug)]
pub(super) struct Constant {
    pub(super) rate: Rate,
    /// Nothing: until stopped.
    pub(super) duration: Option<NonZeroU64>,
}

/// How long an endless shape can be computed: 2^63 ns, 292 years. Together with
/// [`crate::Profile::MAX_DURATION`] for what comes before it, every instant fits in 64 bits.
pub(super) const ENDLESS: u64 = 1 << 63;

impl Stairs for Constant {
    fn name(&self) -> &'static str {
        if self.rate.is_zero() {
            "pause"
        } else {
            "constant"
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rate.is_zero() {
            f.write_str("pause")?;
        } else {
            write!(f, "constant {}", self.rate)?;
        }
        match self.duration {
            Some(duration) => write!(f, " for {}", Nanos::new(duration.get())),
            None => f.write_str(" until stopped"),
        }
    }

    fn endless(&self) -> bool {
        self.duration.is_none()
    }

    fn count(&self) -> u32 {
        1
    }

    fn start(&self, k: u32) -> u64 {
        if k == 0 {
            0
        } else {
            self.duration.map_or(ENDLESS, NonZeroU64::get)
        }
    }

    fn rate(&self, _k: u32) -> u64 {
        self.rate.as_micros()
    }

    fn area_before(&self, k: u32) -> u128 {
        u128::from(self.rate.as_micros()) * u128::from(self.start(k))
    }

    fn peak(&self) -> u64 {
        self.rate.as_micros()
    }
}
