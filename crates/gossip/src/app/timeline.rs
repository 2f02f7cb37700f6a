//! What a generator offers, and when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pacing::{Due, Nanos, Shard};

use super::{Mix, Periodic};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The transaction with this number in the schedule.
    Transaction(u64),
    /// The mix's periodic traffic at this place, so many times since the origin.
    Periodic(usize, u64),
}

/// Something and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// When, since the origin.
    pub at: Nanos,
    /// What.
    pub what: Source,
}

/// All that a generator offers, in order: the schedule's transactions and the mix's periodic traffic.
#[derive(Debug)]
pub struct Timeline {
    schedule: Shard,
    transaction: Option<Due>,
    periodic: BinaryHeap<Reverse<Offer>>,
    periods: Vec<Periodic>,
    end: Nanos,
}

impl Timeline {
    /// The transactions of a schedule, and the mix's periodic traffic from the origin until `end`.
    pub fn new(mut schedule: Shard, mix: &Mix, end: Nanos) -> Self {
        let mut timeline = Self {
            transaction: schedule.next(),
            schedule,
            periodic: BinaryHeap::new(),
            periods: mix.periodic().to_vec(),
            end,
        };
        for place in 0..timeline.periods.len() {
            timeline.plan(place, 1);
        }
        timeline
    }

    /// When the next is due.
    pub fn next_due(&self) -> Option<Nanos> {
        let periodic = self.periodic.peek().map(|Reverse(offer)| offer.at);
        match (self.transaction, periodic) {
            (Some(due), Some(periodic)) => Some(due.at.min(periodic)),
            (due, periodic) => due.map(|due| due.at).or(periodic),
        }
    }

    /// The next, if it is due by `now`.
    pub fn take(&mut self, now: Nanos) -> Option<Offer> {
        if self.next_due()? > now {
            return None;
        }
        let periodic = self.periodic.peek().map(|Reverse(offer)| offer.at);
        match self.transaction {
            Some(due) if periodic.is_none_or(|at| due.at <= at) => {
                self.transaction = self.schedule.next();
                Some(Offer {
                    at: due.at,
                    what: Source::Transaction(due.index),
                })
            }
            _ => {
                let Reverse(offer) = self.periodic.pop()?;
                if let Source::Periodic(place, count) = offer.what {
                    self.plan(place, count + 1);
                }
                Some(offer)
            }
        }
    }

    /// Plans the `count`-th (from 1) of a periodic traffic.
    fn plan(&mut self, place: usize, count: u64) {
        let at = self.periods[place].due(count);
        if at < self.end {
            let what = Source::Periodic(place, count);
            self.periodic.push(Reverse(Offer { at, what }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use pacing::{Arrivals, Profile, Schedule};

    use super::*;
    use crate::app::{Fan, Kind, KindId, Mix, Transaction};

    fn mix(periodic: Vec<Periodic>) -> Mix {
        let kind = Kind {
            name: "note".into(),
            tag: 1,
            size: 64,
            fan: Fan::One,
            relay: true,
            answer: None,
            transactions: 1,
            entries: 1,
        };
        let transaction = Transaction {
            name: "note".into(),
            weight: 1.0,
            messages: vec![Mix::id(0)],
        };
        Mix::new("test", vec![kind], vec![transaction], periodic, Vec::new()).unwrap()
    }

    fn timeline(senders: u32) -> Timeline {
        let periodic = Periodic {
            messages: vec![Mix::id(0)],
            every: Nanos::from_secs(1),
            senders,
            at_once: false,
            instead: None,
            probability: 1.0,
        };
        let end = Nanos::from_secs(2);
        let profile = Profile::constant("2/s".parse().unwrap(), Some(end)).unwrap();
        let schedule = Schedule::new(profile, Arrivals::Even);
        Timeline::new(
            schedule.shard(0, NonZeroU32::MIN),
            &mix(vec![periodic]),
            end,
        )
    }

    #[test]
    fn everything_that_is_due_comes_once_in_the_order_of_time() {
        let mut timeline = timeline(3);
        let mut taken = Vec::new();
        while let Some(due) = timeline.next_due() {
            if !due.is_zero() {
                let early = timeline.take(due.saturating_sub(Nanos::new(1)));
                assert_eq!(early, None, "not before");
            }
            taken.extend(timeline.take(due));
        }
        assert!(taken.windows(2).all(|two| two[0].at <= two[1].at));
        let of = |offer: &&Offer| matches!(offer.what, Source::Transaction(_));
        assert_eq!(taken.iter().filter(of).count(), 4);
        // Three a second, spread over each; the one at the very end is not part of the load.
        assert_eq!(taken.iter().filter(|offer| !of(offer)).count(), 5);
    }

    /// Each federated server's end of a minute, and in every tenth minute its signature of the block instead.
    #[test]
    fn nine_of_ten_periods_have_one_message_and_the_tenth_another_all_at_its_end() {
        let periodic = Periodic {
            messages: vec![Mix::id(0)],
            every: Nanos::from_secs(60),
            senders: 27,
            at_once: true,
            instead: Some((NonZeroU32::new(10).unwrap(), vec![Mix::id(1)])),
            probability: 1.0,
        };
        let sent: Vec<(Nanos, KindId)> = (1..=27 * 20)
            .map(|count| (periodic.due(count), periodic.messages(count)[0]))
            .collect();
        for (place, minute) in (1..).zip(sent.chunks_exact(27)) {
            let expected = Mix::id(usize::from(place % 10 == 0));
            let whole = Nanos::from_secs(60 * place);
            assert!(
                minute.iter().all(|one| *one == (whole, expected)),
                "{place}: {minute:?}"
            );
        }
    }

    #[test]
    fn who_looks_late_gets_everything_that_was_due() {
        let mut timeline = timeline(1);
        let late = Nanos::from_secs(9);
        let count = std::iter::from_fn(|| timeline.take(late)).count();
        assert_eq!(count, 4 + 1);
        assert_eq!(timeline.next_due(), None);
    }
}
