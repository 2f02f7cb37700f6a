//! What became of the transactions that were due in a step.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::format::counts::{AddUp, Displaced, counters};
use crate::format::event::UNKNOWN_CODE;
use crate::limits::{ANSWERS_AWAITED_S, BACKLOG_BLOCKS, MOST_AWAITED_S, SLOWEST_BLOCKS_S};

counters! {
    #[serde(default)]
    /// Of the transactions *due* in a step: what had become of them when the step was judged.
    pub struct Cohort {
        /// Handed to a socket.
        due_sent,
        /// Given up.
        due_unsent,
        /// Answered with code 0.
        due_accepted,
        /// Answered otherwise, or without a usable answer.
        due_refused,
        /// Accepted, and in a block with code 0.
        due_committed,
        /// Accepted, and in a block with another code.
        due_commit_failed,
        /// Accepted, and in a block whose codes cannot be had.
        due_unverified,
        /// Out of their step by the generator's doing: left too late for it (see [`Displaced`]), or given up.
        due_behind,
        /// The same, at a limit on connections or on what may be in flight.
        due_crowded,
        /// The same, because the node held the connections up.
        due_held_up,
    }
}

impl Cohort {
    /// Counts an accepted transaction that a block executed with this code.
    pub(crate) const fn commit(&mut self, code: Option<u32>) {
        match code {
            None => {}
            Some(0) => self.due_committed += 1,
            Some(UNKNOWN_CODE) => self.due_unverified += 1,
            Some(_) => self.due_commit_failed += 1,
        }
    }

    /// Counts what was not offered in the step.
    pub(crate) const fn displace(&mut self, part: Displaced) {
        self.due_behind += part.behind;
        self.due_crowded += part.crowded;
        self.due_held_up += part.held_up;
    }

    /// Whether nothing more will come of them.
    pub(crate) const fn is_settled(&self, offered: u64, followed: bool) -> bool {
        let ended = self.due_unsent + self.due_accepted + self.due_refused;
        let in_blocks = self.due_committed + self.due_commit_failed + self.due_unverified;
        ended >= offered && (!followed || in_blocks >= self.due_accepted)
    }
}

/// What became of transactions in one stretch of time, by the steps in which they were due.
#[derive(Debug, Clone, Default)]
pub(crate) struct CohortParts(Vec<(u32, Cohort)>);

impl CohortParts {
    /// The part of a step. Most of what happens in a moment was due in the same few steps.
    pub(crate) fn of(&mut self, step: u32) -> &mut Cohort {
        let known = self.0.iter().rposition(|(other, _)| *other == step);
        let place = known.unwrap_or_else(|| {
            self.0.push((step, Cohort::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The cohorts of the steps that have no row yet.
#[derive(Debug, Default)]
pub(crate) struct Cohorts {
    open: VecDeque<Cohort>,
    first: u32,
}

impl Cohorts {
    /// Adds what happened in the next stretch of time; what belongs to a step whose row is written is
    /// left out.
    pub(crate) fn add(&mut self, parts: &CohortParts) {
        for (step, part) in &parts.0 {
            let Some(place) = step.checked_sub(self.first) else {
                continue;
            };
            let place = place as usize;
            if place >= self.open.len() && place < MAX_OPEN {
                self.open.resize(place + 1, Cohort::default());
            }
            if let Some(cohort) = self.open.get_mut(place) {
                cohort.add_up(part);
            }
        }
    }

    /// The cohort of a step.
    pub(crate) fn of(&self, step: u32) -> Cohort {
        let place = step.checked_sub(self.first).map(|place| place as usize);
        let cohort = place.and_then(|place| self.open.get(place));
        cohort.copied().unwrap_or_default()
    }

    /// Takes out the cohort of a step, and those before it.
    pub(crate) fn take(&mut self, step: u32) -> Cohort {
        let cohort = self.of(step);
        let passed = (step + 1).saturating_sub(self.first) as usize;
        self.open.drain(..passed.min(self.open.len()));
        self.first = self.first.max(step + 1);
        cohort
    }
}

/// How long after its end the transactions of a step are awaited, when `blocks` were seen in `elapsed`.
pub(crate) fn awaited(elapsed: Nanos, blocks: u64, followed: bool) -> Nanos {
    let blocks_s = match blocks {
        _ if !followed => 0.0,
        0 => SLOWEST_BLOCKS_S,
        _ => BACKLOG_BLOCKS * elapsed.as_secs_f64() / blocks as f64,
    };
    let seconds = blocks_s.clamp(ANSWERS_AWAITED_S, MOST_AWAITED_S);
    Nanos::from_nanos((seconds * 1e9) as u64)
}

/// Steps without a row at once; of more, the later ones are not judged.
pub(crate) const MAX_OPEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// With 10 s at most, each second step of a ramp on blocks of 20 s was without the block that had its transactions.
    #[test]
    fn a_step_waits_for_the_blocks_of_a_slow_chain_and_not_without_end() {
        let after = |seconds, blocks| awaited(Nanos::from_secs(seconds), blocks, true);
        assert_eq!(after(120, 6), Nanos::from_secs(30));
        assert_eq!(after(5_400, 9), Nanos::from_secs(900));
        assert_eq!(after(60, 120), Nanos::from_secs(1));
        assert_eq!(after(30, 0), Nanos::from_secs(10));
        assert_eq!(after(100_000, 1), Nanos::from_secs(1_800));
        assert_eq!(
            awaited(Nanos::from_secs(120), 6, false),
            Nanos::from_secs(1)
        );
    }
}
