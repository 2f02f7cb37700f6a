//! What a coordinator knows of the workers that are at work: how they end, and which are lost.

use std::time::Duration;

use serde_json::Value;

use crate::message::{End, Folder, Standing};

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
    line: Option<Value>,
    end: Option<End>,
    pub(crate) ending: Option<Ending>,
}

impl Watched {
    /// A message came from the worker. Each says all, so that whichever are lost, what changed is an event once.
    pub(crate) fn note(&mut self, place: usize, told: Standing, event: &mut dyn FnMut(Event)) {
        if self.ending.is_some() {
            return;
        }
        if self.silent >= SILENCE {
            event(Event::Back(place));
        }
        self.reset_silence();
        if let Some(line) = told.line
            && self.line.as_ref() != Some(&line)
        {
            self.line = Some(line.clone());
            event(Event::Line(place, line));
        }
        let Some(end) = told.end else { return };
        if self.end.is_none() {
            event(Event::Ended(place, end.code));
        }
        let folder = self.end.insert(end).folder.clone();
        match folder {
            Folder::OnItsWay => {}
            Folder::Kept => self.settle(true, None),
            Folder::NotKept(why) => self.settle(false, Some(why)),
        }
    }

    /// The silence so far is not the worker's: the server was away.
    pub(crate) fn reset_silence(&mut self) {
        self.silent = Duration::ZERO;
    }

    fn settle(&mut self, kept: bool, why: Option<String>) {
        let lost = self.end.is_none();
        let (code, mut words) = self
            .end
            .take()
            .map_or_else(Default::default, |end| (end.code, end.words));
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
            one.settle(
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
pub(crate) const GIVE_UP: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, folder: Folder) -> Standing {
        Standing {
            line: None,
            end: Some(End {
                code: Some(code),
                words: vec!["the program's".to_owned()],
                folder,
            }),
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
        for _ in 0..2 {
            watched[0].note(0, Standing::default(), &mut |event| events.push(event));
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
            watched[1].note(1, Standing::default(), &mut |_| ());
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
    fn what_changes_is_an_event_once_whichever_messages_are_lost() {
        let line = |text: &str| Some(Value::from(text));
        let at_work = |text| Standing {
            line: line(text),
            end: None,
        };
        let gone = |folder| Standing {
            line: line("stopped"),
            ..ended(0, folder)
        };
        let messages = [
            at_work("first"),
            at_work("first"),
            at_work("stopped"),
            gone(Folder::OnItsWay),
            gone(Folder::Kept),
            gone(Folder::Kept),
        ];
        for lost in 0..32 {
            let (mut one, mut events) = (Watched::default(), Vec::new());
            // The last one is sent until it is heard.
            for (place, told) in messages.iter().enumerate() {
                if lost & (1 << place) == 0 {
                    one.note(0, told.clone(), &mut |it| events.push(it));
                }
            }
            events.retain(|event| *event != Event::Line(0, "first".into()));
            let (stopped, end) = (Event::Line(0, "stopped".into()), Event::Ended(0, Some(0)));
            assert_eq!(events, [stopped, end], "{lost:b}");
            let ending = one.ending.unwrap();
            assert!(ending.kept && !ending.lost, "{ending:?}");
        }
    }
}
