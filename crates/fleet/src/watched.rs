//! What a coordinator knows of the workers that are at work: how they end, and which are lost.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::message::{End, Folder, Standing};

/// Whether the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// No.
    No,
    /// The load is over: one of the programs has ended it.
    Over,
    /// Programs are to stop and to keep what they have.
    Orderly,
    /// No worker is waited for.
    AtOnce,
}

/// What happens to the worker with this place, from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Its program printed a line.
    Line(usize, Value),
    /// Whether it is heard: not when nothing was for 5 s.
    Heard(usize, bool),
    /// Its program has ended, with this code; `None` when it was killed.
    Ended(usize, Option<i32>),
    /// Whether the server is there; workers go on without it.
    Bus(bool),
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
struct Watched {
    /// For how long nothing was heard while the bus was there.
    silent: Duration,
    line: Option<Value>,
    end: Option<End>,
    ending: Option<Ending>,
}

impl Watched {
    /// A message came from the worker. Each says all, so that whichever are lost, what changed is an event once.
    fn note(&mut self, place: usize, told: Standing, events: &mut Vec<Event>) {
        if self.ending.is_some() {
            return;
        }
        if self.silent >= SILENCE {
            events.push(Event::Heard(place, true));
        }
        self.silent = Duration::ZERO;
        if let Some(line) = told.line
            && self.line.as_ref() != Some(&line)
        {
            self.line = Some(line.clone());
            events.push(Event::Line(place, line));
        }
        let Some(end) = told.end else { return };
        if self.end.is_none() {
            events.push(Event::Ended(place, end.code));
        }
        let folder = self.end.insert(end).folder.clone();
        match folder {
            Folder::OnItsWay => {}
            Folder::Kept => self.settle(true, None),
            Folder::NotKept(why) => self.settle(false, Some(why)),
        }
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

/// All workers at work, and what they are asked.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Vec<Watched>,
    pub(crate) events: Vec<Event>,
    /// What the user wants, and what was asked last.
    pub(crate) wanted: Stop,
    asked: Stop,
    ask_again: Instant,
    is_up: bool,
    /// When a server that is away is not waited for any longer.
    until: Instant,
}

impl Watch {
    /// So many workers, whose programs take so long at most.
    pub(crate) fn new(workers: usize, now: Instant, length: Duration) -> Self {
        Self {
            watched: (0..workers).map(|_| Watched::default()).collect(),
            events: Vec::new(),
            wanted: Stop::No,
            asked: Stop::No,
            ask_again: now + ASK_EVERY,
            is_up: true,
            until: now + length + AWAY,
        }
    }

    /// A message came from the worker with this place.
    pub(crate) fn note(&mut self, place: usize, told: Standing) {
        self.watched[place].note(place, told, &mut self.events);
    }

    /// Those whose programs have not ended, by their places.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = usize> {
        let all = self.watched.iter().enumerate();
        all.filter(|(_, one)| one.ending.is_none())
            .map(|(place, _)| place)
    }

    /// How all ended, once they have.
    pub(crate) fn endings(&self) -> Option<Vec<Ending>> {
        let ended = self.watched.iter().filter_map(|one| one.ending.as_ref());
        let is_over = self.at_work().next().is_none();
        is_over.then(|| ended.cloned().collect())
    }

    /// Whether the server is not waited for any longer.
    pub(crate) fn is_given_up(&self, now: Instant) -> bool {
        !self.is_up && now >= self.until
    }

    /// Whether the workers are to be asked now: as soon as something else is wanted, and then once a second.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_new = std::mem::replace(&mut self.asked, self.wanted) != self.wanted;
        let is_due = is_new || now >= self.ask_again;
        if is_due {
            self.ask_again = now + ASK_EVERY;
        }
        is_due
    }

    /// One more [`TICK`].
    pub(crate) fn tick(&mut self, is_up: bool) {
        if self.is_up != is_up {
            self.is_up = is_up;
            self.events.push(Event::Bus(is_up));
        }
        if is_up {
            self.add_silence();
        } else {
            // It is not the workers'.
            let all = self.watched.iter_mut();
            all.for_each(|one| one.silent = Duration::ZERO);
        }
    }

    /// A tick without a message from the workers that have not ended.
    fn add_silence(&mut self) {
        let all = self.watched.iter_mut().enumerate();
        for (place, one) in all.filter(|(_, one)| one.ending.is_none()) {
            let before = one.silent;
            one.silent += TICK;
            if before < SILENCE && one.silent >= SILENCE {
                self.events.push(Event::Heard(place, false));
            }
        }
        let mut left = self.watched.iter_mut();
        if left.all(|one| one.ending.is_some() || one.silent >= GIVE_UP) {
            let left = self.watched.iter_mut();
            for one in left.filter(|one| one.ending.is_none()) {
                let why = format!("nothing was heard of it for {} s", GIVE_UP.as_secs());
                one.settle(false, Some(why));
            }
        }
    }
}

/// A worker says once a second that it is there.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a coordinator looks at its workers.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Enough for a connection to come back.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(15);
/// How often workers are asked how they stand, or to stop until they have.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long a server that is away after the load is waited for.
const AWAY: Duration = Duration::from_secs(60);

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

    fn watch(workers: usize) -> Watch {
        Watch::new(workers, Instant::now(), Duration::ZERO)
    }

    /// Ticks until something happens; how long that took.
    fn silence(watch: &mut Watch) -> Duration {
        let (before, mut ticks) = (watch.events.len(), 0);
        while watch.events.len() == before && watch.endings().is_none() {
            watch.tick(true);
            ticks += 1;
        }
        TICK * ticks
    }

    #[test]
    fn a_silent_worker_is_reported_once_and_heard_again() {
        let mut watch = watch(1);
        assert_eq!(silence(&mut watch), SILENCE);
        for _ in 0..2 {
            watch.note(0, Standing::default());
        }
        assert_eq!(
            watch.events,
            [Event::Heard(0, false), Event::Heard(0, true)]
        );
        assert_eq!(silence(&mut watch), SILENCE);
    }

    #[test]
    fn a_worker_is_lost_only_when_all_the_others_have_ended_or_are_lost() {
        let mut watch = watch(3);
        watch.note(0, ended(0, Folder::Kept));
        for _ in 0..1_000 {
            watch.note(1, Standing::default());
            watch.tick(true);
        }
        assert_eq!(watch.at_work().count(), 2, "the load is still under way");
        while watch.endings().is_none() {
            watch.tick(true);
        }
        let endings = watch.endings().unwrap();
        let short = |ending: &Ending| (ending.code, ending.kept, ending.lost);
        assert_eq!(short(&endings[0]), (Some(0), true, false));
        assert_eq!(short(&endings[1]), (None, false, true));
        assert_eq!(endings[1], endings[2]);
    }

    #[test]
    fn workers_are_asked_once_a_second_and_at_once_when_something_else_is_wanted() {
        let began = Instant::now();
        let mut watch = Watch::new(1, began, Duration::ZERO);
        let mut is_asked = |ms, wanted| {
            watch.wanted = wanted;
            watch.is_due(began + Duration::from_millis(ms))
        };
        assert!(!is_asked(750, Stop::No) && is_asked(1_000, Stop::No));
        assert!(is_asked(1_250, Stop::Over) && !is_asked(2_000, Stop::Over));
        assert!(is_asked(2_250, Stop::Over) && is_asked(2_500, Stop::Orderly));
    }

    #[test]
    fn a_server_that_is_away_is_waited_for_until_a_minute_after_the_load() {
        let (began, length) = (Instant::now(), Duration::from_secs(10));
        let mut watch = Watch::new(1, began, length);
        let end = began + length + AWAY;
        assert!(!watch.is_given_up(end), "it is there");
        watch.tick(false);
        assert_eq!(watch.events, [Event::Bus(false)]);
        assert!(watch.is_given_up(end) && !watch.is_given_up(end - Duration::from_secs(1)));
        watch.tick(true);
        assert!(!watch.is_given_up(end));
    }

    #[test]
    fn a_program_that_ended_without_a_folder_is_not_lost_but_its_folder_is() {
        let mut one = Watched::default();
        let full = Folder::NotKept("the store is full".to_owned());
        one.note(0, ended(1, full), &mut Vec::new());
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
                    one.note(0, told.clone(), &mut events);
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
