//! Whether a node can be used, from what was seen of it. Pure.

use pacing::Nanos;

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
    /// It answers, and not with what it has: nothing that it says is believed for a while.
    Unusable(String),
    /// It cannot be reached.
    Unreachable(String),
    /// It is not the node that it should be, or ended a connection that it does not close while it runs.
    Gone(String),
}

/// What follows from it, for whoever uses the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It can be used, and is not catching up.
    Up,
    /// It cannot.
    Down(String),
    /// It is catching up, or no longer.
    CatchingUp(bool),
}

/// Whether a node can be used.
#[derive(Clone, Debug)]
pub(super) struct Health {
    state: Condition,
    /// How long a node that was up may be silent.
    patience: Nanos,
    answered_at: Nanos,
    /// Until when its answers do not count.
    unusable_until: Nanos,
    /// When it was first asked what it has not answered.
    unanswered_since: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// Nothing was seen yet.
    Unknown,
    Up {
        catching_up: bool,
    },
    Down,
}

impl Health {
    /// Nothing was seen yet. A node that was up counts as gone when it has not answered for
    /// `patience`. A node under load answers nothing while it commits a block, up to 12 s were
    /// seen: choose it longer.
    pub(super) const fn new(patience: Nanos) -> Self {
        Self {
            state: Condition::Unknown,
            patience,
            answered_at: Nanos::ZERO,
            unusable_until: Nanos::ZERO,
            unanswered_since: None,
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

    /// Takes in what was seen; at most two changes follow, in this order.
    pub(super) fn see(&mut self, seen: Observation, now: Nanos) -> [Option<Change>; 2] {
        match seen {
            Observation::Answer { catching_up } => {
                (self.answered_at, self.unanswered_since) = (now, None);
                match now < self.unusable_until {
                    true => [None, None],
                    false => self.answered(catching_up),
                }
            }
            Observation::Silent(reason) => {
                let silent = now.saturating_sub(self.answered_at);
                match self.state != Condition::Unknown && silent < self.patience {
                    true => [None, None],
                    false => self.down(reason),
                }
            }
            Observation::Unusable(reason) => {
                self.unusable_until = now.saturating_add(UNUSABLE_FOR);
                self.down(reason)
            }
            Observation::Unreachable(reason) => self.down(reason),
            Observation::Gone(reason) => {
                self.unanswered_since = None;
                self.down(reason)
            }
        }
    }

    fn answered(&mut self, catching_up: bool) -> [Option<Change>; 2] {
        let before = std::mem::replace(&mut self.state, Condition::Up { catching_up });
        let catching = catching_up.then_some(Change::CatchingUp(true));
        match before {
            // Unknown, Down => Up
            Condition::Unknown | Condition::Down => [Some(Change::Up), catching],
            // Up => Up
            Condition::Up { catching_up: known } if known == catching_up => [None, None],
            Condition::Up { .. } => [Some(Change::CatchingUp(catching_up)), None],
        }
    }

    fn down(&mut self, reason: String) -> [Option<Change>; 2] {
        match std::mem::replace(&mut self.state, Condition::Down) {
            // Unknown, Up => Down
            Condition::Unknown | Condition::Up { .. } => [Some(Change::Down(reason)), None],
            Condition::Down => [None, None],
        }
    }
}

/// A node that answers nothing for less may be executing a block.
pub(crate) const SILENT: Nanos = Nanos::from_secs(2);
/// How long a node is left alone whose blocks cannot be read, while there is another one.
const UNUSABLE_FOR: Nanos = Nanos::from_secs(60);
/// A node that has owed an answer for so long is asked for nothing but its health: reads are refused at once, and
/// a proxy all of whose nodes are so is not ready. Blocks were seen that took 12 s; whoever reads then is told to
/// come again.
pub(crate) const ABSENT: Nanos = Nanos::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Observation = Observation::Answer { catching_up: false };

    /// What follows from what is seen, one a second.
    fn changes(seen: impl IntoIterator<Item = Observation>) -> Vec<Change> {
        let mut health = Health::new(Nanos::from_secs(3));
        (0..)
            .map(Nanos::from_secs)
            .zip(seen)
            .flat_map(|(now, seen)| health.see(seen, now))
            .flatten()
            .collect()
    }

    fn down(reason: &str) -> Change {
        Change::Down(reason.to_owned())
    }

    #[test]
    fn changes_are_told_once() {
        let gone = || Observation::Gone("refused".to_owned());
        assert_eq!(
            changes([ANSWER, ANSWER, gone(), gone(), ANSWER]),
            [Change::Up, down("refused"), Change::Up]
        );
        assert_eq!(changes([gone(), gone()]), [down("refused")]);
    }

    #[test]
    fn case_92_a_node_whose_blocks_cannot_be_read_is_left_alone_for_a_while() {
        let mut health = Health::new(Nanos::from_secs(3));
        let at = Nanos::from_secs;
        assert_eq!(health.see(ANSWER, at(1)), [Some(Change::Up), None]);
        let lying = Observation::Unusable("too long".to_owned());
        assert_eq!(health.see(lying, at(2)), [Some(down("too long")), None]);
        for second in 3..62 {
            health.ask(at(second));
            assert_eq!(health.see(ANSWER, at(second)), [None, None]);
            assert_eq!(health.unanswered_since(), None);
        }
        assert_eq!(health.see(ANSWER, at(62)), [Some(Change::Up), None]);
    }

    #[test]
    fn a_break_is_told_even_if_the_node_is_back_at_once() {
        let broke = Observation::Gone("closed".to_owned());
        assert_eq!(
            changes([ANSWER, broke, ANSWER]),
            [Change::Up, down("closed"), Change::Up]
        );
    }

    #[test]
    fn a_short_silence_is_no_outage() {
        let silent = || Observation::Silent("late".to_owned());
        assert_eq!(
            changes([ANSWER, silent(), silent(), ANSWER, silent(), silent()]),
            [Change::Up]
        );
        assert_eq!(
            changes([ANSWER, silent(), silent(), silent(), silent()]),
            [Change::Up, down("late")]
        );
        // A node that has never answered has no grace period.
        assert_eq!(changes([silent(), silent()]), [down("late")]);
    }

    #[test]
    fn a_node_owes_an_answer_from_its_first_question_until_one_comes() {
        let mut health = Health::new(Nanos::from_secs(30));
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
            [
                Change::Up,
                Change::CatchingUp(true),
                Change::CatchingUp(false),
                Change::CatchingUp(true)
            ]
        );
    }
}
