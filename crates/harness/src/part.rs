//! Which part of the global schedule this generator sends (`--shard I/N`), and a common start for several generators
//! (`--start-at TIME`).

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// One of N generators that make one load together.
///
/// Generator I sends the transactions whose number leaves the remainder I − 1 when divided by N, so
/// the parts are disjoint, cover the schedule, and are as even as it is, whatever the number of
/// threads in each generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    position: u32,
    of: NonZeroU32,
}

impl Part {
    /// The whole schedule.
    pub const WHOLE: Self = Self {
        position: 0,
        of: NonZeroU32::MIN,
    };

    /// The first of N parts, N from 2 on.
    #[must_use]
    pub fn first_of(count: u32) -> Option<Self> {
        let of = NonZeroU32::new(count).filter(|of| (2..=MAX_GENERATORS).contains(&of.get()))?;
        Some(Self { position: 0, of })
    }

    /// I, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.position + 1
    }

    /// N.
    #[must_use]
    pub fn of(self) -> NonZeroU32 {
        self.of
    }

    /// Whether there is only one generator.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.of == NonZeroU32::MIN
    }

    /// How many of the first `count` transactions of the global schedule are in this part.
    #[must_use]
    pub fn count(self, count: u64) -> u64 {
        let of = u64::from(self.of.get());
        count.saturating_sub(u64::from(self.position)).div_ceil(of)
    }

    /// The first transaction of one of this generator's sender threads, and how far apart its
    /// transactions are, both in numbers of the global schedule.
    #[must_use]
    pub fn of_thread(self, thread: u32, threads: NonZeroU32) -> (u32, NonZeroU32) {
        let first = self.position + thread * self.of.get();
        (first, self.of.saturating_mul(threads))
    }
}

impl Default for Part {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let of: NonZeroU32 = of.trim().parse().ok()?;
            Some((number.trim().parse::<u32>().ok()?, of))
        });
        let Some((number, of)) = numbers else {
            return Err(format!(
                "cannot read the shard {text:?}; write I/N, for instance 1/4 for the first of four"
            ));
        };
        if of.get() > MAX_GENERATORS {
            return Err(format!(
                "{of} generators are more than the {MAX_GENERATORS} that are possible"
            ));
        }
        match number.checked_sub(1) {
            Some(position) if position < of.get() => Ok(Self { position, of }),
            _ => Err(format!(
                "there is no shard {number} of {of}; they count from 1 to {of}"
            )),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number(), self.of)
    }
}

/// With the most threads a generator may have, a transaction's step still fits 32 bits.
const MAX_GENERATORS: u32 = 10_000;

/// An instant on the wall clock that all generators go by, and how far the clock here is ahead of that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAt {
    unix_ns: u64,
    ahead_ns: i64,
}

/// Now, in nanoseconds since the Unix epoch.
#[must_use]
pub fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Why an instant cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartAtError(String);

impl StartAt {
    /// An instant by the common clock, where the one here is `ahead_ns` ahead of it.
    #[must_use]
    pub fn new(unix_ns: u64, ahead_ns: i64) -> Self {
        Self { unix_ns, ahead_ns }
    }

    /// Nanoseconds since the Unix epoch, by the common clock.
    #[must_use]
    pub fn unix_ns(self) -> u64 {
        self.unix_ns
    }

    /// By how much the clock here is ahead of the common one; 0 where it is the common one.
    #[must_use]
    pub fn ahead_ns(self) -> i64 {
        self.ahead_ns
    }

    /// The same instant by the clock here.
    #[must_use]
    pub fn local_unix_ns(self) -> u64 {
        self.unix_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Refuses an instant that has passed at `now_unix_ns`, or is more than a day ahead of it.
    ///
    /// # Errors
    /// Then.
    pub fn check(self, now_unix_ns: u64) -> Result<(), StartAtError> {
        let start_ns = self.local_unix_ns();
        let Some(ahead) = start_ns.checked_sub(now_unix_ns) else {
            let late_s = (now_unix_ns - start_ns).div_ceil(SECOND_NS);
            return Err(StartAtError(format!(
                "the start {self} has passed {late_s} s ago; choose a later one for all generators"
            )));
        };
        let hours = ahead / SECOND_NS / 3600;
        if hours >= MAX_AHEAD_HOURS {
            return Err(StartAtError(format!(
                "the start {self} is {hours} hours ahead, and at most {MAX_AHEAD_HOURS} are possible; a \
                 number is taken as seconds since 1970"
            )));
        }
        Ok(())
    }
}

impl FromStr for StartAt {
    type Err = StartAtError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (time, ahead) = text.trim().split_once('@').unwrap_or((text.trim(), "0"));
        let nanos = match time.parse::<Timestamp>() {
            Ok(stamp) => u64::try_from(stamp.as_nanosecond()).ok(),
            Err(_) => unix_seconds(time),
        };
        let ahead_ns = match ahead.strip_prefix('-') {
            Some(behind) => unix_seconds(behind).and_then(|ns| 0_i64.checked_sub_unsigned(ns)),
            None => unix_seconds(ahead).and_then(|ns| i64::try_from(ns).ok()),
        };
        let start = nanos.zip(ahead_ns);
        let start = start.map(|(unix_ns, ahead_ns)| Self { unix_ns, ahead_ns });
        start.ok_or_else(|| {
            StartAtError(format!(
                "cannot read the time {text:?}; write RFC 3339 (2026-11-21T20:30:00Z) or seconds since \
                 1970 (1795293000), and behind an @ by how many seconds the clock here is ahead, if it is known"
            ))
        })
    }
}

/// Seconds with up to nine decimals, exactly.
fn unix_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    // Beyond the range is as far ahead as can be: milliseconds, taken for seconds.
    let whole: u64 = whole.parse().ok()?;
    Some(whole.saturating_mul(SECOND_NS).saturating_add(nanos))
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_nanosecond(i128::from(self.unix_ns)) {
            Ok(stamp) => stamp.fmt(f)?,
            Err(_) => write!(f, "{} ns since 1970", self.unix_ns)?,
        }
        match self.ahead_ns {
            0 => Ok(()),
            ahead => {
                let sign = if ahead < 0 { "-" } else { "" };
                let ahead = ahead.unsigned_abs();
                write!(f, "@{sign}{}.{:09}", ahead / SECOND_NS, ahead % SECOND_NS)
            }
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
const MAX_AHEAD_HOURS: u64 = 24;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(number: u32, of: u32) -> Part {
        format!("{number}/{of}").parse().unwrap()
    }

    #[test]
    fn parts_count_from_one() {
        assert_eq!(part(1, 1), Part::WHOLE);
        assert_eq!(part(2, 4).to_string(), "2/4");
        let problem = |text: &str| text.parse::<Part>().unwrap_err();
        assert!(problem("0/4").contains("count from 1 to 4"));
        assert!(problem("5/4").contains("no shard 5 of 4"));
        assert!(problem("1/0").contains("write I/N"));
        assert!(problem("half").contains("write I/N"));
        assert!(problem("1/10001").contains("10000"));
    }

    proptest! {
        #[test]
        fn parts_make_the_whole(of in 1_u32..9, count in 0_u64..1000) {
            let sum: u64 = (1..=of).map(|number| part(number, of).count(count)).sum();
            prop_assert_eq!(sum, count);
        }

        #[test]
        fn threads_divide_a_part(of in 1_u32..5, threads in 1_u32..5, count in 0_u32..200) {
            let threads = NonZeroU32::new(threads).unwrap();
            let mut all = Vec::new();
            for number in 1..=of {
                let part = part(number, of);
                let before = all.len();
                for thread in 0..threads.get() {
                    let (first, stride) = part.of_thread(thread, threads);
                    all.extend((first..count).step_by(stride.get() as usize));
                }
                prop_assert_eq!((all.len() - before) as u64, part.count(u64::from(count)));
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn both_spellings_mean_one_instant() {
        let written: StartAt = "2026-11-21T20:30:00.25Z".parse().unwrap();
        let seconds: StartAt = "1795293000.25".parse().unwrap();
        assert_eq!(written, seconds);
        assert_eq!(written.to_string(), "2026-11-21T20:30:00.25Z");
        let elsewhere: StartAt = "2026-11-21T21:30:00.25+01:00".parse().unwrap();
        assert_eq!(elsewhere, written);
    }

    #[test]
    fn a_clock_that_is_ahead_or_behind_starts_at_the_same_instant() {
        for (text, local_ns) in [
            ("1000@0.25", 1_000_250_000_000_u64),
            ("1000@-0.000000001", 999_999_999_999),
            ("1000", 1_000_000_000_000),
        ] {
            let start: StartAt = text.parse().unwrap();
            assert_eq!(
                (start.unix_ns(), start.local_unix_ns()),
                (1_000_000_000_000, local_ns)
            );
            assert_eq!(start.to_string().parse(), Ok(start));
            assert_eq!(start.check(local_ns), Ok(()));
            assert!(start.check(local_ns + 1).is_err());
        }
    }

    #[test]
    fn nonsense_the_past_and_the_far_future_are_refused() {
        for text in [
            "",
            "soon",
            "-5",
            "1.2.3",
            "1e9",
            "99999999999999999999",
            "1@",
            "1@x",
            "1@--1",
        ] {
            assert!(text.parse::<StartAt>().is_err(), "{text}");
        }
        let at: StartAt = "1000".parse().unwrap();
        assert_eq!(at.check(999 * SECOND_NS), Ok(()));
        let passed = at.check(1001 * SECOND_NS).unwrap_err().to_string();
        assert!(passed.contains("has passed 1 s ago"), "{passed}");
        let millis: StartAt = "1795293000000".parse().unwrap();
        let far = millis.check(1_795_293_000 * SECOND_NS).unwrap_err();
        assert!(far.to_string().contains("hours ahead"), "{far}");
    }
}
