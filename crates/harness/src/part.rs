//! Which part of the global schedule this generator sends: `--shard I/N`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

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
}
