//! What is under way on one connection, matched by id.

use std::collections::VecDeque;

use pacing::Nanos;

use super::job::Job;

/// The writes under way on one connection. Ids count up without gaps, so a job is found by its
/// distance from the oldest.
#[derive(Debug)]
pub(super) struct Flight {
    /// The id of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    under_way: usize,
}

/// A job and when it was sent; no job once it is answered.
#[derive(Debug)]
struct Slot {
    sent: Nanos,
    job: Option<Job>,
}

impl Flight {
    pub(super) fn new() -> Self {
        Self {
            base: 1,
            slots: VecDeque::new(),
            under_way: 0,
        }
    }

    /// The id that the next job gets.
    pub(super) fn next_id(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    pub(super) fn add(&mut self, job: Job, sent: Nanos) {
        self.slots.push_back(Slot {
            sent,
            job: Some(job),
        });
        self.under_way += 1;
    }

    /// The job of an id and when it was sent; none for an id that is not under way (a repeated or
    /// an invented answer).
    pub(super) fn take(&mut self, id: u64) -> Option<(Job, Nanos)> {
        let at = usize::try_from(id.checked_sub(self.base)?).ok()?;
        let slot = self.slots.get_mut(at)?;
        let (job, sent) = (slot.job.take()?, slot.sent);
        self.under_way -= 1;
        while self.slots.front().is_some_and(|slot| slot.job.is_none()) {
            self.slots.pop_front();
            self.base += 1;
        }
        Some((job, sent))
    }

    pub(super) const fn len(&self) -> usize {
        self.under_way
    }

    /// When the oldest job that is under way was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.slots.front().map(|slot| slot.sent)
    }

    /// Everything that is under way, in the order in which it was sent.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.base += self.slots.len() as u64;
        self.under_way = 0;
        self.slots.drain(..).filter_map(|slot| slot.job)
    }
}
