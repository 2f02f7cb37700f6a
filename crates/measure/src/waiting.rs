//! How many sent transactions wait for their answer or their block, by the second in which they were
//! due: what a row says of the transactions that have no event in it yet.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::latency::{LatencyKind, LatencySet};

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Answer,
    Block,
}

/// See the module. Eight bytes for each second since the oldest that waits.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The second of the first entry.
    first: u64,
    /// Answers and blocks that are awaited.
    seconds: VecDeque<[u32; 2]>,
}

impl Waiting {
    /// A transaction that was due then was sent.
    pub(crate) fn begin(&mut self, due: Nanos) {
        if self.seconds.is_empty() {
            self.first = due.as_secs();
        }
        // Sent long after it was due: it counts as younger than it is.
        let place = self.place(due);
        if place >= self.seconds.len() {
            self.seconds.resize(place + 1, [0; 2]);
        }
        let [answers, blocks] = &mut self.seconds[place];
        *answers += 1;
        *blocks += 1;
    }

    /// One of those that were due then waits no longer.
    pub(crate) fn end(&mut self, due: Nanos, awaited: Awaited) {
        let place = self.place(due);
        if let Some(second) = self.seconds.get_mut(place) {
            let count = &mut second[awaited as usize];
            *count = count.saturating_sub(1);
        }
        while self.seconds.front() == Some(&[0; 2]) {
            self.seconds.pop_front();
            self.first += 1;
        }
    }

    fn place(&self, due: Nanos) -> usize {
        let since = due.as_secs().saturating_sub(self.first);
        since.min(MAX_SECONDS) as usize
    }

    /// How many have waited since their due time for `age` at least, at `now`.
    pub(crate) fn older(&self, awaited: Awaited, now: Nanos, age: Nanos) -> u64 {
        let ages = self.ages(awaited, now);
        let older = ages.take_while(|(youngest, _)| *youngest >= age);
        older.map(|(_, count)| count).sum()
    }

    /// How long those of each second have waited at least, the oldest first.
    fn ages(&self, awaited: Awaited, now: Nanos) -> impl Iterator<Item = (Nanos, u64)> {
        (self.first + 1..)
            .zip(&self.seconds)
            .map(move |(end, counts)| {
                let age = now.saturating_sub(Nanos::from_secs(end));
                (age, u64::from(counts[awaited as usize]))
            })
    }

    /// Adds the ages of all that wait at `now` to those of what had not ended.
    pub(crate) fn add_to(&self, censored: &mut LatencySet, now: Nanos, followed: bool) {
        let kinds = [
            (
                Awaited::Answer,
                LatencyKind::AcceptResponse,
                LatencyKind::AcceptService,
            ),
            (
                Awaited::Block,
                LatencyKind::CommitFromDue,
                LatencyKind::CommitFromSent,
            ),
        ];
        for (awaited, from_due, from_sent) in kinds {
            if awaited == Awaited::Block && !followed {
                return;
            }
            for (age, count) in self.ages(awaited, now) {
                censored.record_n(from_due, age, count);
                // When they were sent is not kept.
                censored.record_n(from_sent, Nanos::ZERO, count);
            }
        }
    }
}

/// Twelve days in 8 MiB; what is due later counts in the last of these seconds.
const MAX_SECONDS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn ages_are_known_to_the_second_and_never_too_high() {
        let mut waiting = Waiting::default();
        for ms in [3_100, 3_900, 5_000] {
            waiting.begin(Nanos::from_millis(ms));
        }
        let older = |waiting: &Waiting, age| waiting.older(Awaited::Answer, secs(9), secs(age));
        assert_eq!([6, 5, 4, 3].map(|age| older(&waiting, age)), [0, 2, 2, 3]);
        waiting.end(Nanos::from_millis(3_100), Awaited::Answer);
        assert_eq!(older(&waiting, 5), 1);
        assert_eq!(waiting.older(Awaited::Block, secs(9), secs(5)), 2);
    }

    #[test]
    fn seconds_that_nothing_waits_from_are_forgotten() {
        let mut waiting = Waiting::default();
        for second in 0..1_000 {
            waiting.begin(secs(second));
            // One that was due before all that wait.
            waiting.begin(secs(0));
            for due in [second, 0] {
                waiting.end(secs(due), Awaited::Answer);
                waiting.end(secs(due), Awaited::Block);
            }
            assert!(waiting.seconds.len() <= 1);
        }
        assert_eq!(waiting.older(Awaited::Block, secs(5_000), secs(0)), 0);
    }
}
