//! When each transaction of a run is due: profiles of the rate over time, arrivals inside a
//! profile, and the schedule they make, exact in integers from the run's origin.
//!
//! What it is not: it reads no clock, sleeps on nothing and sends nothing. Time comes in as
//! [`Nanos`] since the origin and goes out the same way, so every run of it is the same run.
//!
//! Read first: [`Profile`] (how many transactions per second, when), [`Schedule`] (the instant each
//! one is due) and [`Shard`] (every N-th of them, in order, for one sender).
//!
//! ```
//! use std::num::NonZeroU32;
//! use pacing::{Arrivals, Profile, Schedule};
//!
//! let profile = Profile::constant("1000/s".parse()?, Some("60s".parse()?))?;
//! let schedule = Schedule::new(profile, Arrivals::Even);
//! assert_eq!(schedule.planned(), Some(60_000));
//! assert_eq!(schedule.due(1_500), Some("1.5s".parse()?));
//!
//! let two = NonZeroU32::new(2).expect("two is not zero");
//! let second = schedule.shard(1, two).next().expect("the shard is not empty");
//! assert_eq!((second.index, second.at), (1, "1ms".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod catch_up;
mod decimal;
mod nanos;
mod profile;
mod rate;
mod schedule;
mod size;

pub use self::arrivals::Arrivals;
pub use self::catch_up::CatchUp;
pub use self::decimal::ValueError;
pub use self::nanos::Nanos;
pub use self::profile::{Profile, ProfileError, Step};
pub use self::rate::{Rate, SignedRate};
pub use self::schedule::{Due, Schedule, Shard};
pub use self::size::{Count, Size};
