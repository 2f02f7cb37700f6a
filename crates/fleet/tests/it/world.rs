//! A coordinator and workers on one bus, as discrete events: no server, no clock, no program.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use base::Random;
use fleet::message::{
    End, Folder, Order, Outgoing, ROLL, Request, Standing, Want, of_worker, sign_of_life,
};
use fleet::{Coordinator, Ending, Engagement, Event, FleetError, Now, Stop};
use pacing::Nanos;
use serde_json::Value;

/// From the start of a program to its first figures, and for how long it prints some, twice a second.
pub(crate) const LEAD: Nanos = Nanos::from_secs(10);
pub(crate) const LOAD: Nanos = Nanos::from_secs(30);
pub(crate) const PRINT_EVERY: Nanos = Nanos::from_millis(500);
const TICK: Nanos = nanos(Engagement::TICK);
const COORDINATOR_TICK: Nanos = nanos(Coordinator::TICK);
pub(crate) const SIGN_OF_LIFE: Nanos = nanos(Coordinator::SIGN_OF_LIFE);
const RUN: &str = "20261130T004200Z-89abcdef";

/// What is due at an instant.
enum Due {
    /// A message comes to the coordinator, to one worker, or to all workers.
    Coordinator(Outgoing),
    Worker(usize, Outgoing),
    Roll(Outgoing),
    /// Time passes for the coordinator, a worker.
    Tick,
    SignOfLife,
    Told(usize),
    /// A worker's program prints or ends, or its folder is brought; of a program that was stopped, no more.
    Program(usize, bool, Standing),
}

/// Messages and bytes, by what they are.
pub(crate) type Traffic = BTreeMap<&'static str, (u64, u64)>;

/// Where the coordinator's run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Call,
    Compare,
    Play,
    Watch,
    Over,
}

pub(crate) struct Worker {
    pub(crate) engagement: Engagement,
    /// How far its clock is ahead.
    ahead_ns: i64,
    /// When it was told last: it need not be said again at once.
    told: Nanos,
    pub(crate) started: u32,
    /// Lines that its program printed.
    pub(crate) printed: u32,
    is_stopped: bool,
}

/// How large a world is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) workers: usize,
    /// One message in so many is lost.
    pub(crate) lost: u64,
}

pub(crate) struct World {
    size: Size,
    began: Instant,
    now: Nanos,
    random: Random,
    /// By instant and, of one instant, by order.
    due: BTreeMap<(Nanos, u64), Due>,
    scheduled: u64,
    traffic: Traffic,
    coordinator: Coordinator,
    step: Step,
    /// When each step was over.
    pub(crate) over: Vec<(Step, Nanos)>,
    pub(crate) lines: Vec<u32>,
    pub(crate) endings: Vec<Ending>,
    /// Why the load did not begin.
    pub(crate) refused: Option<FleetError>,
    /// The largest that is given with a clock.
    pub(crate) clock_error_ns: i64,
    pub(crate) workers: Vec<Worker>,
    by_subject: HashMap<String, usize>,
}

impl World {
    pub(crate) fn new(seed: u64, size: Size) -> Self {
        let mut random = Random::new(seed);
        let workers: Vec<Worker> = (0..size.workers)
            .map(|place| Worker {
                engagement: Engagement::new(format!("w{place}"), format!("m{place}"), "1.0".into()),
                ahead_ns: (random.word() % 2_000_000_000) as i64 - 1_000_000_000,
                told: Nanos::ZERO,
                started: 0,
                printed: 0,
                is_stopped: false,
            })
            .collect();
        let subjects = workers.iter().enumerate();
        let by_subject = subjects
            .map(|(place, it)| (of_worker(it.engagement.id()), place))
            .collect();
        let began = Instant::now();
        let now = Now {
            at: began,
            unix_ns: 0,
        };
        let mut world = Self {
            size,
            began,
            now: Nanos::ZERO,
            random,
            due: BTreeMap::new(),
            scheduled: 0,
            traffic: Traffic::new(),
            coordinator: Coordinator::new(now, RUN.into()),
            step: Step::Call,
            over: Vec::new(),
            lines: vec![0; size.workers],
            endings: Vec::new(),
            refused: None,
            clock_error_ns: 0,
            workers,
            by_subject,
        };
        let patience = Duration::from_secs(30);
        world.coordinator.call(now, size.workers, "1.0", patience);
        world.follow();
        world.at(Nanos::ZERO, Due::Tick);
        world.at(Nanos::ZERO, Due::SignOfLife);
        for place in 0..size.workers {
            let phase = world.within(TICK);
            world.at(phase, Due::Told(place));
        }
        world
    }

    fn at(&mut self, instant: Nanos, due: Due) {
        self.scheduled += 1;
        self.due.insert((instant, self.scheduled), due);
    }

    fn after(&mut self, span: Nanos, due: Due) {
        self.at(self.now.saturating_add(span), due);
    }

    fn within(&mut self, span: Nanos) -> Nanos {
        Nanos::from_nanos(self.random.word() % span.as_nanos())
    }

    /// A message is on the bus: how long it takes, or that it is lost.
    fn way(&mut self, kind: &'static str, bytes: usize) -> Option<Nanos> {
        let (messages, sum) = self.traffic.entry(kind).or_default();
        *messages += 1;
        *sum += bytes as u64;
        let way = Nanos::from_micros(100).saturating_add(self.within(Nanos::from_millis(4)));
        (!self.random.word().is_multiple_of(self.size.lost)).then_some(way)
    }

    fn publish(&mut self, message: Outgoing) {
        let to = self.by_subject.get(&message.subject).copied();
        let kind = match (to, message.subject == ROLL) {
            (Some(_), _) => "requests",
            (None, true) => "rolls",
            (None, false) => "answers",
        };
        let reply = message.reply.as_ref().map_or(0, String::len);
        let bytes = message.subject.len() + reply + message.payload.len();
        let Some(way) = self.way(kind, bytes) else {
            return;
        };
        let due = match (to, kind) {
            (Some(worker), _) => Due::Worker(worker, message),
            (None, "rolls") => Due::Roll(message),
            _ => Due::Coordinator(message),
        };
        self.after(way, due);
    }

    fn clock(&self, ahead_ns: i64) -> Now {
        Now {
            at: self.began + self.now.as_duration(),
            unix_ns: self.now.as_nanos() as i64 + ahead_ns,
        }
    }

    /// Until this instant; what the bus carried since the last.
    pub(crate) fn run_until(&mut self, end: Nanos) -> Traffic {
        let before = self.traffic.clone();
        while let Some(first) = self.due.first_entry()
            && first.key().0 < end
        {
            let ((instant, _), due) = first.remove_entry();
            self.now = instant;
            self.happen(due);
        }
        let mut since = self.traffic.clone();
        for (kind, (messages, bytes)) in before {
            since
                .entry(kind)
                .and_modify(|it| *it = (it.0 - messages, it.1 - bytes));
        }
        since
    }

    fn happen(&mut self, due: Due) {
        let now = self.clock(0);
        match due {
            Due::Coordinator(message) => {
                self.coordinator.hear(now, &message.payload);
                self.follow();
            }
            Due::Tick => {
                self.coordinator.tick(now, true);
                self.follow();
                self.after(COORDINATOR_TICK, Due::Tick);
            }
            Due::SignOfLife if self.step == Step::Over => {}
            Due::SignOfLife => {
                self.publish(sign_of_life(RUN));
                self.after(SIGN_OF_LIFE, Due::SignOfLife);
            }
            Due::Roll(message) => {
                (0..self.size.workers).for_each(|place| self.present(place, &message));
            }
            Due::Worker(place, message) => self.ask(place, message),
            Due::Told(place) => {
                let next = self.workers[place].told.saturating_add(TICK);
                if next <= self.now {
                    self.tell(place);
                    self.after(TICK, Due::Told(place));
                } else {
                    self.at(next, Due::Told(place));
                }
                self.workers[place].engagement.free(now.at);
            }
            Due::Program(place, is_stopped, standing) => {
                let worker = &mut self.workers[place];
                if worker.is_stopped == is_stopped {
                    worker.printed += u32::from(standing.end.is_none());
                    worker.engagement.note(now.at, standing);
                    self.tell(place);
                }
            }
        }
    }

    /// Clocks are where they are said to be.
    fn note_clocks(&mut self) {
        for member in self.coordinator.members() {
            let place: usize = member.host[1..].parse().unwrap();
            let offset = member.clock.first().unwrap();
            let error = offset.offset_ns() - self.workers[place].ahead_ns;
            assert!(error.abs() <= offset.error_ns(), "{offset:?}");
            self.clock_error_ns = self.clock_error_ns.max(offset.error_ns());
        }
    }

    /// Takes the coordinator from step to step, and publishes what it says.
    fn follow(&mut self) {
        let now = self.clock(0);
        loop {
            let coordinator = &mut self.coordinator;
            coordinator.turn(&mut |events| {
                for event in events {
                    if let Event::Line(place, _) = event {
                        self.lines[place] += 1;
                    }
                }
                Stop::No
            });
            let over: Option<Result<(), FleetError>> = match self.step {
                Step::Call => coordinator.called(now),
                Step::Compare => coordinator.compared(Duration::from_millis(10)),
                Step::Play => coordinator.played(),
                Step::Watch => coordinator.watched(now).map(|endings| {
                    self.endings = endings?;
                    Ok(())
                }),
                Step::Over => None,
            };
            let Some(result) = over else { break };
            if let Err(error) = result {
                self.refused = Some(error);
                self.step = Step::Over;
                coordinator.release(now);
                break;
            }
            self.over.push((self.step, self.now));
            if self.step == Step::Compare {
                self.note_clocks();
            }
            let coordinator = &mut self.coordinator;
            self.step = match self.step {
                Step::Call => {
                    coordinator.compare_clocks(now);
                    Step::Compare
                }
                Step::Compare => {
                    coordinator.play(now, &[], |_, number| vec![format!("--shard={number}/1000")]);
                    Step::Play
                }
                Step::Play => {
                    coordinator.watch(now, Duration::from_secs(60));
                    Step::Watch
                }
                Step::Watch | Step::Over => {
                    coordinator.release(now);
                    Step::Over
                }
            };
        }
        for message in self.coordinator.take_outgoing() {
            self.publish(message);
        }
    }

    fn present(&mut self, place: usize, message: &Outgoing) {
        let now = self.clock(0).at;
        let worker = &mut self.workers[place];
        let present = worker.engagement.present(now, &message.payload);
        if let Some(reply) = &message.reply {
            self.publish(answer(reply, &present));
        }
    }

    fn ask(&mut self, place: usize, message: Outgoing) {
        let worker = &self.workers[place];
        let now = self.clock(worker.ahead_ns);
        let request: Request = serde_json::from_slice(&message.payload).unwrap();
        let number = request.number;
        match self.workers[place].engagement.request(now, request) {
            Some(Want::Play(order)) => self.start(place, &order),
            Some(Want::Stop) if !self.workers[place].is_stopped => {
                self.workers[place].is_stopped = true;
                self.end(place, self.now, 130);
            }
            _ => {}
        }
        let worker = &mut self.workers[place];
        worker.told = self.now;
        let told = worker.engagement.answer(now, number);
        self.publish(answer(&message.reply.unwrap(), &told));
    }

    /// A program prints figures as long as the load lasts, and ends.
    fn start(&mut self, place: usize, order: &Order) {
        let worker = &mut self.workers[place];
        worker.started += 1;
        worker.engagement.start(order.load, Ok(()));
        let mut at = self.now.saturating_add(LEAD);
        let end = at.saturating_add(LOAD);
        let mut standing = Standing::default();
        while at < end {
            // As long as a line of `txgen constant`.
            let line = format!(
                "{:>6} {}",
                at.as_millis() - self.now.as_millis(),
                "-".repeat(FIGURES)
            );
            standing.line = Some(Value::from(line));
            self.at(at, Due::Program(place, false, standing.clone()));
            at = at.saturating_add(PRINT_EVERY);
        }
        self.end(place, end, 0);
    }

    /// A program ends then, and its folder is brought.
    fn end(&mut self, place: usize, end: Nanos, code: i32) {
        let is_stopped = self.workers[place].is_stopped;
        for (after_ms, folder) in [(0, Folder::OnItsWay), (700, Folder::Kept)] {
            let ended = End {
                code: Some(code),
                words: Vec::new(),
                folder,
            };
            let standing = Standing {
                line: None,
                end: Some(ended),
            };
            let at = end.saturating_add(Nanos::from_millis(after_ms));
            self.at(at, Due::Program(place, is_stopped, standing));
        }
    }

    fn tell(&mut self, place: usize) {
        let worker = &mut self.workers[place];
        worker.told = self.now;
        if let Some(told) = worker.engagement.told() {
            self.publish(told);
        }
    }
}

const fn nanos(span: Duration) -> Nanos {
    Nanos::from_millis(span.as_millis() as u64)
}

fn answer(subject: &str, message: &impl serde::Serialize) -> Outgoing {
    Outgoing {
        subject: subject.to_owned(),
        reply: None,
        payload: serde_json::to_vec(message).unwrap(),
    }
}

/// Bytes of a line of figures.
const FIGURES: usize = 600;
