//! What a coordinator knows of the workers that are at work: how they end, and which are lost.

use std::time::Duration;

use serde_json::Value;

use crate::message::{Folder, What};

/// What happens to the worker with this place, from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Its program printed a line.
    Line(usize, Value),
    /// Nothing was heard of it for 5 s.
    Silent(usize),
    /// It is heard again.
    Back(usize),
    /// Its program has ended, with this code; `None` when it was killed.
    Ended(usize, Option<i32>),
    /// The server is away; workers go on.
    BusAway,
    /// It is back.
    BusBack,
}

/// How a worker's part ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The program's exit code; `None` when it was killed, or the worker was lost.
    pub code: Option<i32>,
    /// The program's last words; why its part is missing.
    pub words: Vec<String>,
    /// Whether its folder is in the store.
    pub kept: bool,
    /// Whether the worker was heard to the end.
    pub lost: bool,
}

/// What is known of a worker at work.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// For how long nothing was heard while the bus was there.
    silent: Duration,
    /// The program's end.
    program: Option<(Option<i32>, Vec<String>)>,
    pub(crate) ending: Option<Ending>,
}

impl Watched {
    /// A message came from the worker.
    pub(crate) fn note(&mut self, place: usize, what: What, event: &mut dyn FnMut(Event)) {
        // An ending is said again and again.
        if self.ending.is_some() {
            return;
        }
        if self.silent >= SILENCE {
            event(Event::Back(place));
        }
        self.reset_silence();
        match what {
            What::Alive => {}
            What::Line(line) => event(Event::Line(place, line)),
            What::Ended {
                code,
                words,
                folder,
            } => {
                if self.program.is_none() {
                    event(Event::Ended(place, code));
                }
                self.program = Some((code, words));
                match folder {
                    Folder::OnItsWay => {}
                    Folder::Kept => self.end(true, None),
                    Folder::NotKept(why) => self.end(false, Some(why)),
                }
            }
        }
    }

    /// The silence so far is not the worker's: the server was away.
    pub(crate) fn reset_silence(&mut self) {
        self.silent = Duration::ZERO;
    }

    fn end(&mut self, kept: bool, why: Option<String>) {
        let lost = self.program.is_none();
        let (code, mut words) = self.program.take().unwrap_or_default();
        words.extend(why);
        self.ending = Some(Ending {
            code,
            words,
            kept,
            lost,
        });
    }
}

/// One more [`TICK`] without a message from the workers that have not ended.
pub(crate) fn add_silence(watched: &mut [Watched], event: &mut dyn FnMut(Event)) {
    for (place, one) in watched.iter_mut().enumerate() {
        if one.ending.is_none() {
            let before = one.silent;
            one.silent += TICK;
            if before < SILENCE && one.silent >= SILENCE {
                event(Event::Silent(place));
            }
        }
    }
    let mut left = watched.iter().filter(|one| one.ending.is_none());
    if left.all(|one| one.silent >= GIVE_UP) {
        for one in watched.iter_mut().filter(|one| one.ending.is_none()) {
            one.end(
                false,
                Some(format!(
                    "nothing was heard of it for {} s",
                    GIVE_UP.as_secs()
                )),
            );
        }
    }
}

/// How often silence is added up.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// A worker says once a second that it is there.
const SILENCE: Duration = Duration::from_secs(5);
/// Enough for a connection to come back.
const GIVE_UP: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, folder: Folder) -> What {
        What::Ended {
            code: Some(code),
            words: vec!["the program's".to_owned()],
            folder,
        }
    }

    /// Ticks until something happens; how long that took.
    fn silence(watched: &mut [Watched], events: &mut Vec<Event>) -> Duration {
        let (before, mut ticks) = (events.len(), 0);
        while events.len() == before && watched.iter().any(|one| one.ending.is_none()) {
            add_silence(watched, &mut |event| events.push(event));
            ticks += 1;
        }
        TICK * ticks
    }

    #[test]
    fn a_silent_worker_is_reported_once_and_heard_again() {
        let (mut watched, mut events) = ([Watched::default()], Vec::new());
        assert_eq!(silence(&mut watched, &mut events), SILENCE);
        for what in [What::Alive, What::Alive] {
            watched[0].note(0, what, &mut |event| events.push(event));
        }
        assert_eq!(events, [Event::Silent(0), Event::Back(0)]);
        assert_eq!(silence(&mut watched, &mut events), SILENCE);
    }

    #[test]
    fn a_worker_is_lost_only_when_all_the_others_have_ended_or_are_lost() {
        let mut watched = [Watched::default(), Watched::default(), Watched::default()];
        let mut events = Vec::new();
        watched[0].note(0, ended(0, Folder::Kept), &mut |event| events.push(event));
        for _ in 0..1_000 {
            watched[1].note(1, What::Alive, &mut |_| ());
            add_silence(&mut watched, &mut |_| ());
        }
        assert_eq!(watched[2].ending, None, "the load is still under way");
        while watched[1].ending.is_none() {
            add_silence(&mut watched, &mut |_| ());
        }
        let endings = watched.map(|one| one.ending.unwrap());
        let short = |ending: &Ending| (ending.code, ending.kept, ending.lost);
        assert_eq!(short(&endings[0]), (Some(0), true, false));
        assert_eq!(short(&endings[1]), (None, false, true));
        assert_eq!(endings[1], endings[2]);
    }

    #[test]
    fn a_program_that_ended_without_a_folder_is_not_lost_but_its_folder_is() {
        let mut one = Watched::default();
        let full = Folder::NotKept("the store is full".to_owned());
        one.note(0, ended(1, full), &mut |_| ());
        let ending = one.ending.unwrap();
        assert_eq!(
            (ending.code, ending.kept, ending.lost),
            (Some(1), false, false)
        );
        assert_eq!(ending.words, ["the program's", "the store is full"]);
    }

    #[test]
    fn an_ending_counts_once_and_whichever_of_its_messages_are_lost() {
        let messages = [
            Folder::OnItsWay,
            Folder::OnItsWay,
            Folder::Kept,
            Folder::Kept,
        ];
        for lost in 0..8 {
            let (mut one, mut events) = (Watched::default(), Vec::new());
            // The last one is said until it is heard.
            for (place, folder) in messages.iter().enumerate() {
                if lost & (1 << place) == 0 {
                    one.note(0, ended(0, folder.clone()), &mut |it| events.push(it));
                }
            }
            assert_eq!(events, [Event::Ended(0, Some(0))], "{lost:b}");
            let ending = one.ending.unwrap();
            assert!(ending.kept && !ending.lost, "{ending:?}");
        }
    }
}
