//! Whether a node can be used, from what was seen of it. Pure.

/// What was seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It answered.
    Answer {
        /// Whether it is still fetching old blocks.
        catching_up: bool,
    },
    /// It did not answer in time, or not as a node does.
    Silent(String),
    /// It cannot be reached, or it is not the node that it should be.
    Gone(String),
    /// A connection that it does not close while it runs ended.
    Broke(String),
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
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    state: State,
    /// Answers missed in a row.
    missed: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing was seen yet.
    #[default]
    Unknown,
    Up {
        catching_up: bool,
    },
    Down,
}

impl Health {
    /// Takes in what was seen; at most two changes follow, in this order.
    pub(super) fn see(&mut self, seen: Seen) -> [Option<Change>; 2] {
        match seen {
            Seen::Answer { catching_up } => self.answered(catching_up),
            Seen::Silent(reason) => {
                self.missed += 1;
                // A node commits blocks of many transactions for seconds and answers nothing
                // meanwhile: once is not enough.
                match self.missed < MISSED_LIMIT {
                    true => [None, None],
                    false => self.down(reason),
                }
            }
            Seen::Gone(reason) | Seen::Broke(reason) => self.down(reason),
        }
    }

    fn answered(&mut self, catching_up: bool) -> [Option<Change>; 2] {
        self.missed = 0;
        let before = std::mem::replace(&mut self.state, State::Up { catching_up });
        let catching = catching_up.then_some(Change::CatchingUp(true));
        match before {
            // Unknown, Down => Up
            State::Unknown | State::Down => [Some(Change::Up), catching],
            // Up => Up
            State::Up { catching_up: known } if known == catching_up => [None, None],
            State::Up { .. } => [Some(Change::CatchingUp(catching_up)), None],
        }
    }

    fn down(&mut self, reason: String) -> [Option<Change>; 2] {
        self.missed = 0;
        match std::mem::replace(&mut self.state, State::Down) {
            // Unknown, Up => Down
            State::Unknown | State::Up { .. } => [Some(Change::Down(reason)), None],
            State::Down => [None, None],
        }
    }
}

/// So many answers in a row must be missed before a silent node counts as gone.
const MISSED_LIMIT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Seen = Seen::Answer { catching_up: false };

    fn changes(seen: impl IntoIterator<Item = Seen>) -> Vec<Change> {
        let mut health = Health::default();
        seen.into_iter()
            .flat_map(|seen| health.see(seen))
            .flatten()
            .collect()
    }

    fn down(reason: &str) -> Change {
        Change::Down(reason.to_owned())
    }

    #[test]
    fn changes_are_told_once() {
        let gone = || Seen::Gone("refused".to_owned());
        assert_eq!(
            changes([ANSWER, ANSWER, gone(), gone(), ANSWER]),
            [Change::Up, down("refused"), Change::Up]
        );
        assert_eq!(changes([gone(), gone()]), [down("refused")]);
    }

    #[test]
    fn a_break_is_told_even_if_the_node_is_back_at_once() {
        let broke = Seen::Broke("closed".to_owned());
        assert_eq!(
            changes([ANSWER, broke, ANSWER]),
            [Change::Up, down("closed"), Change::Up]
        );
    }

    #[test]
    fn one_missed_answer_is_no_outage() {
        let silent = || Seen::Silent("late".to_owned());
        assert_eq!(
            changes([ANSWER, silent(), silent(), ANSWER, silent(), silent()]),
            [Change::Up]
        );
        assert_eq!(
            changes([ANSWER, silent(), silent(), silent()]),
            [Change::Up, down("late")]
        );
    }

    #[test]
    fn case_23_a_node_that_catches_up_is_named() {
        let behind = || Seen::Answer { catching_up: true };
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
