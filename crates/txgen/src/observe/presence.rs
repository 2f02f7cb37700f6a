//! Whether a node answers, and when it did not.

use pacing::Nanos;

/// A stretch without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: Nanos,
    /// When it answered again, if it has.
    pub(super) until: Option<Nanos>,
}

/// What one node's answers say of it.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// Since its last answer, or since it was first asked.
    silent_since: Option<Nanos>,
    gaps: Vec<Gap>,
    /// Gaps that found no room.
    more: u64,
}

impl Presence {
    pub(super) fn failed(&mut self, at: Nanos) {
        self.silent_since.get_or_insert(at);
    }

    pub(super) fn answered(&mut self, at: Nanos) {
        self.close(at, Some(at));
    }

    /// All gaps by the end of the run, and how many more there were.
    pub(super) fn finish(&mut self, now: Nanos) -> (&[Gap], u64) {
        self.close(now, None);
        (&self.gaps, self.more)
    }

    fn close(&mut self, now: Nanos, until: Option<Nanos>) {
        let Some(from) = self.silent_since.take() else {
            return;
        };
        match now.saturating_sub(from) >= AWAY {
            true if self.gaps.len() < MOST_GAPS => self.gaps.push(Gap { from, until }),
            true => self.more += 1,
            false => {}
        }
    }
}

/// A node that is busy with a block may leave a question or two open; seconds without any answer leave holes
/// in its rows.
const AWAY: Nanos = Nanos::from_secs(2);
const MOST_GAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_vanishes_and_returns_leaves_a_gap_and_one_that_stays_away_an_open_one() {
        let mut presence = Presence::default();
        presence.answered(Nanos::from_secs(1));
        presence.failed(Nanos::from_secs(2));
        presence.failed(Nanos::from_secs(3));
        presence.answered(Nanos::from_secs(5));
        presence.failed(Nanos::from_secs(8));
        let (gaps, more) = presence.finish(Nanos::from_secs(20));
        let gap = |from, until: Option<u64>| Gap {
            from: Nanos::from_secs(from),
            until: until.map(Nanos::from_secs),
        };
        assert_eq!((gaps, more), (&[gap(2, Some(5)), gap(8, None)][..], 0));
    }

    #[test]
    fn a_late_answer_is_no_gap_and_many_gaps_are_counted() {
        let mut presence = Presence::default();
        presence.failed(Nanos::from_secs(1));
        presence.answered(Nanos::from_millis(2_999));
        assert_eq!(presence.finish(Nanos::from_secs(3)), (&[][..], 0));
        for second in 0..20 {
            presence.failed(Nanos::from_secs(second * 10));
            presence.answered(Nanos::from_secs(second * 10 + 5));
        }
        let (gaps, more) = presence.finish(Nanos::from_secs(300));
        assert_eq!((gaps.len(), more), (16, 4));
    }
}
