//! How many sent transactions wait for their answer or their block, by the second in which they were
//! due: what a row has of the transactions without an event in it yet. And whether what was accepted and is in no block
//! can still come: the sign that ends a drain early.

use pacing::Nanos;

use crate::format::latency::{LatencyKind, LatencySet};
use crate::format::rows::{LATENCY_COLUMNS, LatencyColumns};
use crate::limits::{LOST_AFTER_BLOCKS, SAMPLED_WITHIN};

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Answer,
    Block,
}

/// See the module. In a span of time, what it changes: events come from several sources, and only when
/// all are past the end of a span is known what waited then.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Answers and blocks that are awaited, by the second of the due time, in its order.
    seconds: Vec<(u64, [i64; 2])>,
}

impl Waiting {
    /// A transaction that was due then was sent.
    pub(crate) fn begin(&mut self, due: Nanos) {
        let [answers, blocks] = self.second(due.as_secs());
        *answers += 1;
        *blocks += 1;
    }

    /// One of those that were due then waits no longer.
    pub(crate) fn end(&mut self, due: Nanos, awaited: Awaited) {
        self.second(due.as_secs())[awaited as usize] -= 1;
    }

    /// What a later span changed.
    pub(crate) fn add(&mut self, changes: &Self) {
        for (second, [answers, blocks]) in &changes.seconds {
            let counts = self.second(*second);
            counts[0] += answers;
            counts[1] += blocks;
        }
        self.seconds.retain(|(_, counts)| *counts != [0; 2]);
    }

    pub(crate) fn clear(&mut self) {
        self.seconds.clear();
    }

    fn second(&mut self, second: u64) -> &mut [i64; 2] {
        let place = match self.seconds.last() {
            Some((last, _)) if *last == second => self.seconds.len() - 1,
            _ => {
                let found = self
                    .seconds
                    .binary_search_by_key(&second, |(known, _)| *known);
                found.unwrap_or_else(|place| {
                    self.seconds.insert(place, (second, [0; 2]));
                    place
                })
            }
        };
        &mut self.seconds[place].1
    }

    /// How many have waited since their due time for `age` at least, at `now`.
    fn older(&self, awaited: Awaited, now: Nanos, age: Nanos) -> u64 {
        let ages = self.ages(awaited, now);
        let older = ages.take_while(|(youngest, _)| *youngest >= age);
        older.map(|(_, count)| count).sum()
    }

    /// How long those of each second have waited at least, the oldest first.
    fn ages(&self, awaited: Awaited, now: Nanos) -> impl Iterator<Item = (Nanos, u64)> {
        self.seconds.iter().map(move |(second, counts)| {
            let age = now.saturating_sub(Nanos::from_secs(second + 1));
            let count = u64::try_from(counts[awaited as usize]).unwrap_or(0);
            (age, count)
        })
    }

    /// The latencies of a row that ends at `end`, and the columns that waiting transactions would raise.
    pub(crate) fn columns(&self, latencies: &LatencySet, end: Nanos) -> LatencyColumns {
        let is_raised = |kind: LatencyKind, quantile: f64| {
            let awaited = match kind {
                LatencyKind::AcceptResponse => Awaited::Answer,
                LatencyKind::CommitFromDue => Awaited::Block,
                _ => return false,
            };
            let latency = latencies.of(kind);
            latency.quantile(quantile).is_some_and(|value| {
                let older = self.older(awaited, end, value);
                let rank = quantile * (latency.count() + older) as f64;
                rank.ceil() as u64 > latency.count()
            })
        };
        let raised = LATENCY_COLUMNS
            .iter()
            .filter(|(_, kind, quantile)| is_raised(*kind, *quantile));
        let names: Vec<&str> = raised.map(|(name, ..)| *name).collect();
        LatencyColumns {
            at_least: names.join(" "),
            ..LatencyColumns::of(latencies)
        }
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

/// Blocks that had room for everything, as all mempools were empty before them.
///
/// A node keeps what it accepts in its mempool until a block has it, and shows the block later: so only blocks that were
/// announced after the mempools were found empty count, and the mempools have to be found empty once more after them.
/// Without blocks, without samples or without empty mempools nothing is concluded.
#[derive(Debug, Default)]
pub(crate) struct RoomyBlocks {
    /// When a transaction was accepted last.
    accepted: Nanos,
    /// Since when all mempools were found empty.
    empty_since: Option<Nanos>,
    /// Blocks since then that had none of this run's transactions, and when the last one was seen.
    blocks: u64,
    seen: Nanos,
    /// When the mempools were found empty after enough of them.
    still_empty: Option<Nanos>,
}

impl RoomyBlocks {
    pub(crate) fn accepted(&mut self, at: Nanos) {
        *self = Self {
            accepted: at.max(self.accepted),
            ..Self::default()
        };
    }

    /// A mempool was sampled at `at`: when that was done at each endpoint last, and what it held.
    pub(crate) fn sampled(
        &mut self,
        at: Nanos,
        mut mempools: impl Iterator<Item = Option<(Nanos, u64)>>,
    ) {
        let oldest = at.saturating_sub(SAMPLED_WITHIN);
        let are_empty = mempools
            .all(|it| it.is_some_and(|(at, txs)| txs == 0 && at >= oldest && at > self.accepted));
        if !are_empty {
            return self.accepted(self.accepted);
        }
        self.empty_since.get_or_insert(at);
        if self.blocks >= LOST_AFTER_BLOCKS && at > self.seen {
            self.still_empty.get_or_insert(at);
        }
    }

    /// A block with so many of the run's transactions was read. It was announced within the `resolution` before it was
    /// seen.
    pub(crate) fn block(&mut self, observed: Nanos, resolution: Option<Nanos>, own_txs: u64) {
        let announced = observed.saturating_sub(resolution.unwrap_or_default());
        if own_txs > 0 {
            self.accepted(self.accepted);
        } else if self.empty_since.is_some_and(|since| announced > since) {
            self.blocks += 1;
            self.seen = observed;
        }
    }

    /// Whether nothing that was accepted can come any more, when all blocks announced by `read` were read.
    pub(crate) fn are_enough(&self, read: Nanos) -> bool {
        self.still_empty.is_some_and(|at| at <= read)
    }
}

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
            let mut span = Waiting::default();
            // One that was due before all that wait.
            for due in [second, 0] {
                span.begin(secs(due));
            }
            waiting.add(&span);
            assert_eq!(waiting.older(Awaited::Block, secs(5_000), secs(0)), 2);
            span.clear();
            for due in [0, second] {
                span.end(secs(due), Awaited::Block);
                span.end(secs(due), Awaited::Answer);
            }
            waiting.add(&span);
            assert_eq!(waiting.seconds, []);
        }
    }
}
