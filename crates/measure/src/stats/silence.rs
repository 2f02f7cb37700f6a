//! How long a target gave no sign (an answer, a block) while one was awaited: the one detector of silences,
//! for the steps of a load and for its whole course.

use std::fmt;

use pacing::Nanos;

use crate::format::counts::AddUp;
use crate::limits::{SILENCE_BLOCKS, SILENCE_S, SLOWEST_BLOCKS_S};

/// A stretch of time, in seconds since the origin, and how many transactions waited in it at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) from_s: f64,
    pub(crate) until_s: f64,
    pub(crate) txs: u64,
}

impl Stretch {
    pub(crate) const fn length_s(&self) -> f64 {
        self.until_s - self.from_s
    }

    pub(crate) fn extend(&mut self, until_s: f64, txs: u64) {
        self.until_s = until_s;
        self.txs = self.txs.max(txs);
    }
}

/// Tenths of a second in which there was a sign, of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tenths(u16);

impl Tenths {
    /// When in the second is unknown.
    pub(crate) const ALL: Self = Self(0x3ff);

    pub(crate) fn at(instants: impl IntoIterator<Item = Nanos>) -> Self {
        let mut seen = Self::default();
        instants.into_iter().for_each(|at| seen.mark(at));
        seen
    }

    pub(crate) const fn mark(&mut self, at: Nanos) {
        self.0 |= 1 << (at.as_nanos() / TENTH.as_nanos() % 10);
    }

    /// Reads its hexadecimal form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        u16::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::LowerHex for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AddUp for Tenths {
    fn add_up(&mut self, part: &Self) {
        self.0 |= part.0;
    }
}

/// Watches for one kind of sign, to a tenth of a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    /// The end of the last tenth with a sign, or the last instant at which none was awaited.
    since: Nanos,
    /// Transactions that waited since then, at most.
    txs: u64,
    pub(crate) longest: Stretch,
}

impl Silence {
    /// Passes a stretch inside one second, at whose end `awaited` transactions wait for a sign; the longest
    /// silence that lies in it or reaches into it.
    pub(crate) fn pass(&mut self, start: Nanos, end: Nanos, seen: Tenths, awaited: u64) -> Nanos {
        let mut longest = Nanos::ZERO;
        let mut tenth = Nanos::from_nanos(start.as_nanos() / TENTH.as_nanos() * TENTH.as_nanos());
        let mut place = tenth.as_nanos() / TENTH.as_nanos() % 10;
        while tenth < end {
            let next = tenth.saturating_add(TENTH);
            if seen.0 & 1 << place != 0 {
                longest = longest.max(self.lasted(tenth));
                (self.since, self.txs) = (next, 0);
            }
            (tenth, place) = (next, place + 1);
        }
        if awaited > 0 {
            self.txs = self.txs.max(awaited);
            longest.max(self.lasted(end))
        } else {
            (self.since, self.txs) = (self.since.max(end), 0);
            longest
        }
    }

    /// The end of the last tenth with a sign, or the last instant at which none was awaited.
    pub(crate) const fn since(&self) -> Nanos {
        self.since
    }

    /// How long it has lasted by `now`.
    fn lasted(&mut self, now: Nanos) -> Nanos {
        let (from_s, until_s) = (self.since.as_secs_f64(), now.as_secs_f64());
        if until_s - from_s > self.longest.length_s() {
            self.longest = Stretch {
                from_s,
                until_s,
                txs: self.txs,
            };
        }
        now.saturating_sub(self.since)
    }
}

/// The longest time without a sign that a healthy chain has, of which `blocks` were seen in the `span_s`
/// seconds outside the silence.
pub(crate) fn ordinary_s(blocks: u64, span_s: f64, followed: bool) -> f64 {
    let intervals_s = match blocks {
        0 if followed => SLOWEST_BLOCKS_S,
        0 => 0.0,
        _ => SILENCE_BLOCKS * span_s.max(0.0) / blocks as f64,
    };
    intervals_s.max(SILENCE_S)
}

const TENTH: Nanos = Nanos::from_nanos(100_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn at(instants: &[u64]) -> Tenths {
        Tenths::at(instants.iter().map(|at| ms(*at)))
    }

    #[test]
    fn a_silence_lasts_from_a_sign_to_the_next_and_is_told_of_each_second_it_reaches_into() {
        let mut silence = Silence::default();
        assert_eq!(silence.pass(ms(0), ms(1_000), at(&[0, 350]), 7), ms(600));
        assert_eq!(silence.pass(ms(1_000), ms(2_000), at(&[]), 9), ms(1_600));
        assert_eq!(
            silence.pass(ms(2_000), ms(3_000), at(&[2_250]), 4),
            ms(1_800)
        );
        let found = silence.longest;
        assert_eq!((found.from_s, found.until_s, found.txs), (0.4, 2.2, 9));
    }

    #[test]
    fn where_nothing_is_awaited_nothing_is_silent() {
        let mut silence = Silence::default();
        assert_eq!(silence.pass(ms(0), ms(1_000), at(&[]), 0), ms(0));
        assert_eq!(silence.pass(ms(1_000), ms(1_500), at(&[]), 0), ms(0));
        assert_eq!(silence.pass(ms(1_500), ms(2_000), at(&[]), 1), ms(500));
        assert_eq!(silence.pass(ms(2_000), ms(3_000), Tenths::ALL, 0), ms(500));
        assert_eq!(silence.longest.txs, 1);
    }

    #[test]
    fn what_is_ordinary_follows_from_the_blocks() {
        assert_eq!(ordinary_s(10, 10.0, true), 3.0);
        assert_eq!(ordinary_s(100, 10.0, true), SILENCE_S);
        assert_eq!(ordinary_s(0, 10.0, true), SLOWEST_BLOCKS_S);
        assert_eq!(ordinary_s(0, 10.0, false), SILENCE_S);
    }
}
