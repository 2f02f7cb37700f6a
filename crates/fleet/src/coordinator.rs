//! What a coordinator says to its workers and hears of them, without a bus and without a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::bus::FleetError;
use crate::clock::{Clock, Exchange, Now};
use crate::message::{
    Order, Outgoing, PROTOCOL, Present, Request, Told, Want, build, of_run, of_worker, sign_of_life,
};
use crate::watched::{Ending, Event, GIVE_UP, Stop, TICK, Watch};

/// One worker of a crew.
#[derive(Debug)]
pub struct Member {
    id: String,
    /// Its machine.
    pub host: String,
    /// Its clock against that of this machine.
    pub clock: Clock,
    /// What was heard in the measurement of it that is under way.
    exchanges: Vec<Exchange>,
    /// The last request, and when it left.
    number: u64,
    asked: Now,
    /// It has not come to the goal yet: when it is not waited for any longer.
    open: Option<Instant>,
}

/// What all members are to come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// They are kept for the run.
    Kept,
    /// Their clocks are known.
    Measured,
    /// They have started the load.
    Started,
    /// They know that they are to stop.
    Stopped,
    /// They are free.
    Free,
    /// They have ended the load.
    Ended,
}

/// A coordinator: what it has said, and what it knows.
///
/// A step is begun by a method, and is over when the method beside it gives its result: [`call`](Self::call) and
/// [`called`](Self::called), and so on. Messages come in through [`hear`](Self::hear), time passes with
/// [`tick`](Self::tick), and after each call of a method all of [`take_outgoing`](Self::take_outgoing) is to be published.
#[derive(Debug)]
pub struct Coordinator {
    run: String,
    /// Which load is, or was, under way; 0 before the first.
    pub(crate) load: u32,
    orders: Vec<Order>,
    members: Vec<Member>,
    call: Option<Call>,
    /// Workers that were asked to be kept for the run, whether or not their answer was heard.
    asked: BTreeSet<String>,
    goal: Goal,
    patience: Duration,
    /// The member that is asked next, and how many were asked and have not come to the goal.
    next: usize,
    open: usize,
    /// The last request's number.
    number: u64,
    /// Why the load under way does not begin.
    refused: Option<FleetError>,
    watch: Watch,
    outgoing: Vec<Outgoing>,
}

/// A call for workers.
#[derive(Debug)]
struct Call {
    wanted: usize,
    version: String,
    until: Instant,
    roll_again: Instant,
    seen: BTreeMap<String, Present>,
}

impl Coordinator {
    /// How often [`tick`](Self::tick) is to be called.
    pub const TICK: Duration = TICK;
    /// How often [`sign_of_life`] is to be published, also between loads: a third of how long a claim holds without it.
    pub const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

    /// A coordinator without workers, which hears what is published for its run ([`of_run`]).
    pub fn new(now: Now, run: String) -> Self {
        Self {
            run,
            load: 0,
            orders: Vec::new(),
            members: Vec::new(),
            call: None,
            asked: BTreeSet::new(),
            goal: Goal::Free,
            patience: Duration::ZERO,
            next: 0,
            open: 0,
            number: 0,
            refused: None,
            watch: Watch::new(0, now.at, Duration::ZERO),
            outgoing: Vec::new(),
        }
    }

    /// The workers, in the order of their numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What is to be published now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// A message has come in. What another program publishes here is none of ours.
    pub fn hear(&mut self, now: Now, payload: &[u8]) {
        if let Ok(told) = serde_json::from_slice::<Told>(payload) {
            if let Some(place) = self.place(&told.worker) {
                self.note(now, place, told);
            }
        } else if let Ok(present) = serde_json::from_slice(payload) {
            self.note_present(now, present);
        }
    }

    /// Time has passed; `is_up` says whether the bus is there.
    pub fn tick(&mut self, now: Now, is_up: bool) {
        if let Some(call) = &mut self.call
            && now.at >= call.roll_again
            && now.at < call.until
        {
            call.roll_again = now.at + ROLL_CALL;
            self.roll();
        }
        // The last first: one that is no member any more moves those after it.
        for place in (0..self.members.len()).rev() {
            let member = &self.members[place];
            let is_silent = now.at >= member.asked.at + ANSWERED;
            match member.open {
                Some(until) if now.at >= until => self.give_up(now, place),
                Some(_) if is_silent => self.ask(now, place),
                _ => {}
            }
        }
        if self.goal == Goal::Ended {
            self.watch.tick(is_up);
            if is_up && self.watch.is_due(now.at) {
                let at_work: Vec<usize> = self.watch.at_work().collect();
                at_work.into_iter().for_each(|place| self.ask(now, place));
            }
        }
    }

    /// Has all members come to a goal; each is waited for so long.
    fn aim(&mut self, now: Now, goal: Goal, patience: Duration) {
        (self.goal, self.patience) = (goal, patience);
        (self.next, self.open) = (0, 0);
        for member in &mut self.members {
            member.open = None;
            member.exchanges.clear();
        }
        self.advance(now);
    }

    /// Asks those whose turn it is.
    fn advance(&mut self, now: Now) {
        while self.next < self.members.len() && (self.open < AT_ONCE || self.goal == Goal::Stopped)
        {
            self.members[self.next].open = Some(now.at + self.patience);
            self.open += 1;
            self.next += 1;
            self.ask(now, self.next - 1);
        }
    }

    /// Whether all have come to the goal, or are not waited for any longer.
    fn is_reached(&self) -> bool {
        self.open == 0 && self.next == self.members.len()
    }

    fn ask(&mut self, now: Now, place: usize) {
        let want = match (self.goal, self.watch.wanted) {
            (Goal::Started, _) => Want::Play(self.orders[place].clone()),
            (Goal::Stopped, _) | (Goal::Ended, Stop::Orderly) => Want::Stop,
            (Goal::Free, _) => Want::Leave,
            (Goal::Ended, Stop::Over) => Want::Over,
            (Goal::Kept | Goal::Measured | Goal::Ended, _) => Want::Stay,
        };
        self.number += 1;
        let member = &mut self.members[place];
        (member.number, member.asked) = (self.number, now);
        let request = Request {
            run: self.run.clone(),
            number: self.number,
            want,
        };
        let reply = Some(of_run(&self.run, "told"));
        let request = Outgoing::new(of_worker(&member.id), reply, &request);
        self.outgoing.push(request);
    }

    /// Where the worker with this id is among the members.
    fn place(&self, id: &str) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// A member has said how it stands.
    fn note(&mut self, now: Now, place: usize, told: Told) {
        let member = &mut self.members[place];
        // Of a request that was repeated nobody knows which one is answered.
        let answer = told.answer.filter(|it| it.number == member.number);
        member.exchanges.extend(answer.map(|answer| Exchange {
            asked_ns: member.asked.unix_ns,
            answered_ns: answer.at_ns,
            heard_ns: now.unix_ns,
        }));
        if self.goal == Goal::Ended {
            member.clock.add(&std::mem::take(&mut member.exchanges));
            if told.load == self.load {
                self.watch.note(place, told.standing);
            }
            return;
        }
        if member.open.is_none() || answer.is_none() {
            return;
        }
        let is_kept = told.run.as_ref() == Some(&self.run);
        match self.goal {
            Goal::Kept if !is_kept => self.remove(now, place),
            Goal::Measured if member.exchanges.len() < FIRST_EXCHANGES => {
                member.open = Some(now.at + self.patience);
                self.ask(now, place);
            }
            Goal::Started if !is_kept => self.refuse(now, place, "it was not kept for this run"),
            Goal::Started if told.load != self.load => {
                self.refuse(now, place, "it has not ended the load before this one");
            }
            Goal::Started if told.refused.is_some() => {
                self.refuse(now, place, &told.refused.unwrap_or_default());
            }
            _ => self.settle(now, place),
        }
    }

    /// A member is not waited for any longer.
    fn give_up(&mut self, now: Now, place: usize) {
        match self.goal {
            Goal::Kept => self.remove(now, place),
            Goal::Started => self.refuse(now, place, SILENT),
            _ => self.settle(now, place),
        }
    }

    fn settle(&mut self, now: Now, place: usize) {
        let member = &mut self.members[place];
        member.clock.add(&std::mem::take(&mut member.exchanges));
        member.open = None;
        self.open -= 1;
        self.advance(now);
    }
}

// Workers are called.
impl Coordinator {
    /// Claims workers of this version until there are `wanted`, waiting for them at most `patience`. Those that do not
    /// answer any more are replaced.
    pub fn call(&mut self, now: Now, wanted: usize, version: &str, patience: Duration) {
        self.call = Some(Call {
            wanted,
            version: version.to_owned(),
            until: now.at + patience,
            roll_again: now.at + ROLL_CALL,
            seen: BTreeMap::new(),
        });
        self.aim(now, Goal::Kept, ANSWERED);
        self.roll();
    }

    /// Whether all are there.
    ///
    /// # Errors
    /// When there are too few: which are there, and why the others are not.
    pub fn called(&mut self, now: Now) -> Option<Result<(), FleetError>> {
        let call = self.call.as_ref().filter(|_| self.is_reached())?;
        let called = if self.members.len() == call.wanted {
            Ok(())
        } else if now.at >= call.until && now.at >= call.roll_again {
            Err(self.too_few(call))
        } else {
            return None;
        };
        self.call = None;
        Some(called)
    }

    /// Asks which workers are there.
    fn roll(&mut self) {
        self.outgoing.push(Outgoing {
            reply: Some(of_run(&self.run, "present")),
            ..sign_of_life(&self.run)
        });
    }

    /// A worker has answered the roll: it is asked to be kept for the run.
    fn note_present(&mut self, now: Now, present: Present) {
        let is_member = self.place(&present.id).is_some();
        let Some(call) = &mut self.call else { return };
        // Kept for this run, but its answer came too late. Another coordinator's run may have the same name.
        let is_kept = present.run.as_ref() == Some(&self.run) && self.asked.contains(&present.id);
        let usable = present.version == call.version
            && present.protocol == PROTOCOL
            && (present.run.is_none() || is_kept)
            && !is_member;
        let is_wanted = usable && self.members.len() < call.wanted;
        call.seen.insert(present.id.clone(), present.clone());
        if is_wanted {
            self.asked.insert(present.id.clone());
            self.members.push(Member::of(present, now));
            self.advance(now);
        }
    }

    /// One of those that were asked is no member, or is none any more.
    fn remove(&mut self, now: Now, place: usize) {
        self.members.remove(place);
        self.next -= 1;
        self.open -= 1;
        self.advance(now);
    }

    fn too_few(&self, call: &Call) -> FleetError {
        let mut text = format!(
            "{} workers are wanted, and {} could be had",
            call.wanted,
            self.members.len()
        );
        let own = build(&call.version, PROTOCOL);
        for worker in call.seen.values() {
            let (host, its) = (&worker.host, build(&worker.version, worker.protocol));
            if its != own {
                text += &format!("; {host} has {its}, this is {own}");
            } else if let Some(run) = worker.run.as_ref().filter(|run| **run != self.run) {
                text += &format!("; {host} is at work for run {run}");
            }
        }
        text += "; start them with `txgen worker --nats URL`";
        FleetError::Workers(text)
    }

    /// Lets the workers go. Claims that do not hear it end by themselves.
    pub fn release(&mut self, now: Now) {
        self.goal = Goal::Free;
        (0..self.members.len()).for_each(|place| self.ask(now, place));
        self.members.clear();
    }
}

// A load is played.
impl Coordinator {
    /// Measures every clock, for the next load.
    pub fn compare_clocks(&mut self, now: Now) {
        for member in &mut self.members {
            member.clock = Clock::default();
        }
        self.aim(now, Goal::Measured, PATIENCE);
    }

    /// Whether all are measured.
    ///
    /// # Errors
    /// When one does not answer, was set meanwhile, or is known to no better than `limit`.
    pub fn compared(&self, limit: Duration) -> Option<Result<(), FleetError>> {
        let mut members = self.members.iter();
        self.is_reached()
            .then(|| members.try_for_each(|it| it.check_clock(limit)))
    }

    /// Gives every worker its order for the next load: the program's arguments, by the worker and its number, which is
    /// its place from 1, and the variables of its environment.
    pub fn play(
        &mut self,
        now: Now,
        environment: &[(String, String)],
        arguments: impl Fn(&Member, u32) -> Vec<String>,
    ) {
        self.load += 1;
        let orders = (1..).zip(&self.members).map(|(number, member)| Order {
            run: self.run.clone(),
            load: self.load,
            number,
            arguments: arguments(member, number),
            environment: environment.to_vec(),
        });
        self.orders = orders.collect();
        self.aim(now, Goal::Started, PATIENCE);
    }

    /// Whether all have begun.
    ///
    /// # Errors
    /// When one refuses, or does not answer three times; all are then asked to stop, each until it answers or 15 s have
    /// passed.
    pub fn played(&mut self) -> Option<Result<(), FleetError>> {
        self.is_reached()
            .then(|| self.refused.take().map_or(Ok(()), Err))
    }

    /// A worker does not begin, so nobody does.
    fn refuse(&mut self, now: Now, place: usize, problem: &str) {
        self.refused = Some(self.members[place].problem(problem));
        self.aim(now, Goal::Stopped, GIVE_UP);
    }

    /// Hears the workers to their end, and measures their clocks. A worker that stays silent when the others have ended
    /// is lost. `length` is how long their programs take at most.
    pub fn watch(&mut self, now: Now, length: Duration) {
        self.watch = Watch::new(self.members.len(), now.at, length);
        self.goal = Goal::Ended;
    }

    /// Gives what has happened to the workers since the last turn, and takes whether the programs are to end.
    pub fn turn(&mut self, turn: &mut dyn FnMut(Vec<Event>) -> Stop) {
        self.watch.wanted = turn(std::mem::take(&mut self.watch.events));
    }

    /// Whether all have ended or are lost.
    ///
    /// # Errors
    /// [`FleetError::Away`]: the server is away a minute after that. [`FleetError::Interrupted`]: [`Stop::AtOnce`].
    pub fn watched(&self, now: Now) -> Option<Result<Vec<Ending>, FleetError>> {
        if self.watch.wanted == Stop::AtOnce {
            return Some(Err(FleetError::Interrupted));
        }
        if self.watch.is_given_up(now.at) {
            return Some(Err(FleetError::Away(self.run.clone())));
        }
        self.watch.endings().map(Ok)
    }
}

impl Member {
    fn of(present: Present, now: Now) -> Self {
        Self {
            id: present.id,
            host: present.host,
            clock: Clock::default(),
            exchanges: Vec::new(),
            number: 0,
            asked: now,
            open: None,
        }
    }

    fn problem(&self, problem: &str) -> FleetError {
        FleetError::Workers(format!("worker {}: {problem}", self.host))
    }

    /// Refuses a clock that is not known well enough.
    fn check_clock(&self, limit: Duration) -> Result<(), FleetError> {
        let problem = match self.clock.first() {
            None => SILENT,
            Some(offset) if offset.is_empty() => "its clock was set just now; try again",
            Some(offset) if offset.error_ns().unsigned_abs() > limit.as_nanos() as u64 => &format!(
                "its clock is known to ± {:.1} ms only, and {} ms are the limit: the way to the NATS server is too \
                 long or too busy",
                offset.error_ns() as f64 / 1e6,
                limit.as_millis()
            ),
            Some(_) => return Ok(()),
        };
        Err(self.problem(problem))
    }
}

const SILENT: &str = "it does not answer any more";
/// How long workers may take to answer the roll.
const ROLL_CALL: Duration = Duration::from_secs(1);
/// How long an answer is waited for until the worker is asked again.
const ANSWERED: Duration = Duration::from_secs(2);
/// Three times at most: programs need some of the time before the start.
const PATIENCE: Duration = Duration::from_secs(5);
/// Enough for one of them to meet no other traffic.
const FIRST_EXCHANGES: usize = 16;
/// Workers on one machine start their programs one after another, and clocks are measured best on a quiet bus.
const AT_ONCE: usize = 64;
