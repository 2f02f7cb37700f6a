//! Whether a node can be used, from what was seen of it ([`Health`]), and from the reads that it answers ([`Breaker`]):
//! while its application is stuck it may go on answering questions about its health. Pure.
//!
//! One client's slow reads can look the same. So a node that rests is asked after others, and is never refused.

use pacing::Nanos;

use super::node_state::{NodeEvent, NodeIndex};

/// What was seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// It answered.
    Answer {
        /// Whether it is still fetching old blocks.
        catching_up: bool,
    },
    /// It did not answer in time, or not as a node does.
    Silent(String),
    /// It answers, but not with its own blocks: its answers are not used for a while.
    Unusable(String),
    /// It cannot be reached.
    Unreachable(String),
    /// It is not the node that it should be, or ended a connection that it does not close while it runs.
    Gone(String),
}

/// Whether a node can be used.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    node: NodeIndex,
    condition: Condition,
    /// How long a node that was up may be silent.
    patience: Nanos,
    answered_at: Nanos,
    /// Until when its answers do not count.
    unusable_until: Nanos,
    /// When it was first asked what it has not answered.
    unanswered_since: Option<Nanos>,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing was seen yet.
    #[default]
    Unknown,
    /// It can be used.
    Up {
        /// Though it is fetching old blocks.
        catching_up: bool,
    },
    /// It cannot be used.
    Down,
}

impl Health {
    /// Nothing was seen yet. A node that was up counts as gone when it has not answered for
    /// `patience`. A node under load answers nothing while it commits a block, up to 12 s were
    /// seen: choose it longer.
    pub(super) fn new(node: NodeIndex, patience: Nanos) -> Self {
        Self {
            node,
            patience,
            ..Self::default()
        }
    }

    /// It is asked now.
    pub(super) fn ask(&mut self, now: Nanos) {
        self.unanswered_since.get_or_insert(now);
    }

    /// Since when it owes an answer; nothing while it owes none.
    pub(super) const fn unanswered_since(&self) -> Option<Nanos> {
        self.unanswered_since
    }

    /// Where the node is.
    pub(super) const fn condition(&self) -> Condition {
        self.condition
    }

    /// Takes in what was seen: what follows from it.
    pub(super) fn see(&mut self, seen: Observation, now: Nanos) -> Option<NodeEvent> {
        let node = self.node;
        let reason = match seen {
            Observation::Answer { catching_up } => {
                (self.answered_at, self.unanswered_since) = (now, None);
                // Unknown, Down, Up => Up
                let is_new =
                    now >= self.unusable_until && self.enter(Condition::Up { catching_up });
                return is_new.then_some(NodeEvent::Up { node, catching_up });
            }
            Observation::Silent(reason) => {
                let silent = now.saturating_sub(self.answered_at);
                if self.condition != Condition::Unknown && silent < self.patience {
                    return None;
                }
                reason
            }
            Observation::Unusable(reason) => {
                self.unusable_until = now.saturating_add(UNUSABLE_FOR);
                reason
            }
            Observation::Unreachable(reason) => reason,
            Observation::Gone(reason) => {
                self.unanswered_since = None;
                reason
            }
        };
        // Unknown, Up => Down
        let is_new = self.enter(Condition::Down);
        is_new.then_some(NodeEvent::Down { node, reason })
    }

    /// Whether the condition is another one now.
    fn enter(&mut self, condition: Condition) -> bool {
        std::mem::replace(&mut self.condition, condition) != condition
    }
}

/// How long a node is not used whose blocks cannot be read, while there is another one.
const UNUSABLE_FOR: Nanos = Nanos::from_secs(60);
/// A node that has owed an answer for so long is asked for nothing but its health: reads are refused at once, and
/// a proxy all of whose nodes are so is not ready. Blocks were seen that took 12 s; clients that read meanwhile are
/// asked to come again.
pub(crate) const ABSENT: Nanos = Nanos::from_secs(10);

/// What the reads of one node show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    /// Reads sent since the last answer, and when the first of them was.
    unanswered: u32,
    since: Nanos,
    /// Others are asked first until then.
    rests_until: Nanos,
    rest: Nanos,
    /// The last answer.
    answered_at: Nanos,
    /// Nanoseconds that an answer to a light read takes, in the mean, and how far from that they are.
    mean: u64,
    deviation: u64,
}

impl Breaker {
    /// A read is sent. It is a trial if the node has rested, and then the only one until the next rest is over; whether
    /// the node begins to rest.
    pub(super) fn sent(&mut self, now: Nanos) -> bool {
        let is_silent = now.saturating_sub(self.since) >= SILENT;
        let begins = self.unanswered >= MOST_UNANSWERED && is_silent && !self.is_resting(now);
        if begins {
            let is_again = now.saturating_sub(self.rests_until) < CALM && self.rest > Nanos::ZERO;
            self.rest = if is_again {
                self.rest.saturating_mul(2).min(LONGEST_REST)
            } else {
                FIRST_REST
            };
            self.rests_until = now.saturating_add(self.rest);
        }
        if self.unanswered == 0 {
            self.since = now;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        begins
    }

    /// A read was answered that had taken so long. A slow answer ends no rest.
    pub(super) fn answered(&mut self, took: Nanos, now: Nanos, is_light: bool) {
        self.answered_at = now;
        if is_light {
            // As a retransmission timer's (RFC 6298, section 2).
            let took = took.as_nanos();
            self.deviation = self.deviation - self.deviation / 4 + took.abs_diff(self.mean) / 4;
            self.mean = self.mean - self.mean / 8 + took / 8;
        }
        if took < SILENT || !self.is_resting(now) {
            self.unanswered = 0;
            self.rests_until = self.rests_until.min(now);
        }
    }

    /// How long from `now` a light read that was sent at that instant is late: when the node has answered no read at all
    /// for longer than usual.
    pub(super) fn late_in(&self, sent: Nanos, now: Nanos) -> Nanos {
        let usual = Nanos::new(self.mean.saturating_add(self.deviation.saturating_mul(4)));
        let since = sent.max(self.answered_at);
        let due = since.saturating_add(usual.clamp(LEAST_LATE, SILENT));
        due.saturating_sub(now)
    }

    /// Whether other nodes are asked first.
    pub(super) fn is_resting(&self, now: Nanos) -> bool {
        now < self.rests_until
    }
}

/// No light read is late before: a pause of the node's for its memory or its disk.
const LEAST_LATE: Nanos = Nanos::from_millis(100);
/// So many reads without an answer are more than one that is slow.
const MOST_UNANSWERED: u32 = 4;
/// A node that answers nothing for less may be executing a block.
pub(crate) const SILENT: Nanos = Nanos::from_secs(2);
/// How long others are asked first: as long as a read waits before it is asked of another node. Twice as long each time
/// that it was in vain, up to a common deadline of clients.
const FIRST_REST: Nanos = SILENT;
const LONGEST_REST: Nanos = Nanos::from_secs(30);
/// A node that has answered for so long begins with a short rest again.
const CALM: Nanos = Nanos::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Observation = Observation::Answer { catching_up: false };

    const UP: NodeEvent = up(false);

    /// What follows from what is seen, one a second.
    fn changes(seen: impl IntoIterator<Item = Observation>) -> Vec<NodeEvent> {
        let mut health = Health::new(1, Nanos::from_secs(3));
        (0..)
            .map(Nanos::from_secs)
            .zip(seen)
            .filter_map(|(now, seen)| health.see(seen, now))
            .collect()
    }

    fn down(reason: &str) -> NodeEvent {
        let reason = reason.to_owned();
        NodeEvent::Down { node: 1, reason }
    }

    const fn up(catching_up: bool) -> NodeEvent {
        NodeEvent::Up {
            node: 1,
            catching_up,
        }
    }

    #[test]
    fn changes_are_told_once() {
        let gone = || Observation::Gone("refused".to_owned());
        assert_eq!(
            changes([ANSWER, ANSWER, gone(), gone(), ANSWER]),
            [UP, down("refused"), UP]
        );
        assert_eq!(changes([gone(), gone()]), [down("refused")]);
    }

    #[test]
    fn case_92_a_node_whose_blocks_cannot_be_read_is_left_alone_for_a_while() {
        let mut health = Health::new(1, Nanos::from_secs(3));
        let at = Nanos::from_secs;
        assert_eq!(health.see(ANSWER, at(1)), Some(UP));
        let lying = Observation::Unusable("too long".to_owned());
        assert_eq!(health.see(lying, at(2)), Some(down("too long")));
        for second in 3..62 {
            health.ask(at(second));
            assert_eq!(health.see(ANSWER, at(second)), None);
            assert_eq!(health.unanswered_since(), None);
        }
        assert_eq!(health.see(ANSWER, at(62)), Some(UP));
    }

    #[test]
    fn a_break_is_told_even_if_the_node_is_back_at_once() {
        let broke = Observation::Gone("closed".to_owned());
        assert_eq!(changes([ANSWER, broke, ANSWER]), [UP, down("closed"), UP]);
    }

    #[test]
    fn a_short_silence_is_no_outage() {
        let silent = || Observation::Silent("late".to_owned());
        assert_eq!(
            changes([ANSWER, silent(), silent(), ANSWER, silent(), silent()]),
            [UP]
        );
        assert_eq!(
            changes([ANSWER, silent(), silent(), silent(), silent()]),
            [UP, down("late")]
        );
        // A node that has never answered has no grace period.
        assert_eq!(changes([silent(), silent()]), [down("late")]);
    }

    #[test]
    fn a_node_owes_an_answer_from_its_first_question_until_one_comes() {
        let mut health = Health::new(1, Nanos::from_secs(30));
        let at = Nanos::from_secs;
        health.ask(at(1));
        assert_eq!(health.unanswered_since(), Some(at(1)));
        health.see(ANSWER, at(2));
        assert_eq!(health.unanswered_since(), None);
        // A stopped node: it was up, and none of three questions is answered.
        for second in [5, 15, 25] {
            health.ask(at(second));
            health.see(Observation::Silent("late".to_owned()), at(second + 10));
            assert_eq!(health.unanswered_since(), Some(at(5)));
        }
        health.see(Observation::Unreachable("refused".to_owned()), at(36));
        assert_eq!(health.unanswered_since(), Some(at(5)));
        health.see(Observation::Gone("another chain".to_owned()), at(37));
        assert_eq!(health.unanswered_since(), None);
    }

    #[test]
    fn case_23_a_node_that_catches_up_is_named() {
        let behind = || Observation::Answer { catching_up: true };
        assert_eq!(
            changes([behind(), behind(), ANSWER, behind()]),
            [up(true), UP, up(true)]
        );
    }

    const QUICK: Nanos = Nanos::from_millis(5);

    /// After so many seconds.
    const fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(1_000 + seconds)
    }

    /// One to which so many reads were sent at the first second, none of which was answered.
    fn asked(reads: u32) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..reads {
            assert!(!breaker.sent(at(0)));
        }
        breaker
    }

    #[test]
    fn a_node_that_answers_never_rests_however_many_reads_are_under_way() {
        let mut breaker = Breaker::default();
        for second in 0..1_000 {
            for _ in 0..100 {
                assert!(!breaker.sent(at(second)));
            }
            // One in a hundred, and that one slowly.
            breaker.answered(at(second), at(second), false);
            assert!(!breaker.is_resting(at(second)));
        }
    }

    #[test]
    fn a_few_slow_reads_or_a_short_silence_are_no_reason_to_rest() {
        let mut breaker = asked(MOST_UNANSWERED - 1);
        assert!(!breaker.sent(at(10)), "the fourth");
        let mut breaker = asked(100);
        let early = at(0)
            .saturating_add(SILENT)
            .saturating_sub(Nanos::from_nanos(1));
        assert!(!breaker.sent(early) && !breaker.is_resting(early));
        assert!(breaker.sent(at(2)) && breaker.is_resting(at(2)));
        // No client reads: nothing is known.
        assert!(!asked(100).is_resting(at(60)));
    }

    #[test]
    fn a_node_that_rests_gets_one_read_a_rest_and_the_rests_grow() {
        let mut breaker = asked(MOST_UNANSWERED);
        let mut trials = Vec::new();
        for second in 1..=130 {
            // Others would go to it only when it does not rest.
            if !breaker.is_resting(at(second)) && breaker.sent(at(second)) {
                trials.push(second);
                assert!(!breaker.sent(at(second)), "it rests from then on");
            }
        }
        assert_eq!(trials, [2, 4, 8, 16, 32, 62, 92, 122]);
    }

    #[test]
    fn a_light_read_is_late_once_the_node_has_answered_nothing_for_longer_than_usual() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.late_in(at(0), at(0)), LEAST_LATE);
        assert_eq!(breaker.late_in(at(0), at(1)), Nanos::ZERO);
        // A search is slow by itself.
        breaker.answered(SILENT, at(1), false);
        assert_eq!(breaker.late_in(at(1), at(1)), LEAST_LATE);
        // Any other answer of the node shows that it is not stuck.
        assert_eq!(breaker.late_in(at(0), at(1)), LEAST_LATE);
        for _ in 0..100 {
            breaker.answered(Nanos::from_millis(500), at(2), true);
        }
        let late = breaker.late_in(at(2), at(2)).as_millis();
        assert!((500..510).contains(&late), "{late}");
        breaker.answered(Nanos::from_secs(100), at(3), true);
        assert_eq!(breaker.late_in(at(3), at(3)), SILENT);
    }

    #[test]
    fn a_quick_answer_ends_the_rest_and_a_slow_one_does_not() {
        let mut breaker = asked(MOST_UNANSWERED);
        assert!(breaker.sent(at(2)));
        breaker.answered(SILENT, at(3), true);
        assert!(breaker.is_resting(at(3)));
        breaker.answered(QUICK, at(3), true);
        assert!(!breaker.is_resting(at(3)));
        // It starts from nothing.
        for _ in 0..MOST_UNANSWERED {
            assert!(!breaker.sent(at(3)));
        }
        assert!(!breaker.sent(at(4)));
    }

    #[test]
    fn a_node_that_comes_and_goes_rests_longer_each_time_until_it_was_well_for_a_while() {
        let mut breaker = asked(MOST_UNANSWERED);
        let mut rest_from = |second: u64| {
            assert!(breaker.sent(at(second)));
            let rest = (0..).find(|rest| !breaker.is_resting(at(second + rest)));
            breaker.answered(QUICK, at(second + rest.unwrap()), true);
            for _ in 0..MOST_UNANSWERED {
                breaker.sent(at(second + rest.unwrap()));
            }
            rest.unwrap()
        };
        assert_eq!([10, 20, 30, 45].map(&mut rest_from), [2, 4, 8, 16]);
        // 60 seconds after the end of the last one.
        assert_eq!(rest_from(45 + 16 + 60), 2);
    }
}
