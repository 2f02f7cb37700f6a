//! A thousand workers and a thousand sentinels on one bus, as discrete events: what the bus carries, how soon all have
//! begun and have agreed, and how fair that is. The formulas are those of `docs/fleet.md`.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use base::Random;
use cluster::{Activity, Report};
use fleet::message::{End, Folder, Order, Outgoing, ROLL, Request, Standing, of_worker};
use fleet::{Coordinator, Ending, Engagement, Event, FleetError, Now, Task, sign_of_life};
use pacing::Nanos;
use serde_json::Value;

const WORKERS: usize = 1_000;
const SENTINELS: usize = 1_000;
/// One message in so many is lost.
const LOST: u64 = 5_000;
/// From the start of a program to its first figures, and for how long it prints some, twice a second.
const LEAD: Nanos = Nanos::from_secs(10);
const LOAD: Nanos = Nanos::from_secs(30);
const PRINT_EVERY: Nanos = Nanos::from_millis(500);
const TICK: Nanos = nanos(Engagement::TICK);
const COORDINATOR_TICK: Nanos = nanos(Coordinator::TICK);
const SIGN_OF_LIFE: Nanos = nanos(Coordinator::SIGN_OF_LIFE);
/// What all sentinels may send, writes a second.
const LIMIT: f64 = 1_000.0;
/// When a client leaves half of its sentinels.
const CHANGE: Nanos = Nanos::from_secs(80);
const RUN: &str = "20261130T004200Z-89abcdef";

/// What is due at an instant.
enum Due {
    /// A message comes to the coordinator, to one worker, to all workers, or to all sentinels.
    Coordinator(Outgoing),
    Worker(usize, Outgoing),
    Roll(Outgoing),
    Report(Report),
    /// Time passes for the coordinator, a worker, a sentinel.
    Tick,
    SignOfLife,
    Told(usize),
    Publish(usize),
    /// A worker's program prints or ends, or its folder is brought.
    Program(usize, Standing),
}

/// Messages and bytes, by what they are.
type Traffic = BTreeMap<&'static str, (u64, u64)>;

/// Where the coordinator's run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Call,
    Compare,
    Play,
    Watch,
    Over,
}

struct Worker {
    engagement: Engagement,
    /// How far its clock is ahead.
    ahead_ns: i64,
    /// When it was told last: it need not be said again for a second.
    told: Nanos,
    started: u32,
}

struct World {
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
    over: Vec<(Step, Nanos)>,
    lines: Vec<u32>,
    endings: Vec<Ending>,
    /// The largest that is given with a clock.
    clock_error_ns: i64,
    workers: Vec<Worker>,
    by_subject: HashMap<String, usize>,
    sentinels: Vec<cluster::Member>,
    rates: Vec<f64>,
    /// When the rates were last more than 5 % beside what they are to be.
    apart: Nanos,
    /// The most that all together had after the first second.
    most: f64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let workers: Vec<Worker> = (0..WORKERS)
            .map(|place| Worker {
                engagement: Engagement::new(format!("w{place}"), format!("m{place}"), "1.0".into()),
                ahead_ns: (random.word() % 2_000_000_000) as i64 - 1_000_000_000,
                told: Nanos::ZERO,
                started: 0,
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
        let sentinels = 0..SENTINELS as u64;
        let mut world = Self {
            began,
            now: Nanos::ZERO,
            random,
            due: BTreeMap::new(),
            scheduled: 0,
            traffic: Traffic::new(),
            coordinator: Coordinator::new(now, RUN.into()),
            step: Step::Call,
            over: Vec::new(),
            lines: vec![0; WORKERS],
            endings: Vec::new(),
            clock_error_ns: 0,
            workers,
            by_subject,
            sentinels: sentinels
                .map(|id| cluster::Member::new(Nanos::ZERO, id, LIMIT))
                .collect(),
            rates: vec![0.0; SENTINELS],
            apart: Nanos::ZERO,
            most: 0.0,
        };
        world
            .coordinator
            .call(now, WORKERS, "1.0", Duration::from_secs(30));
        world.follow();
        world.at(Nanos::ZERO, Due::Tick);
        world.at(Nanos::ZERO, Due::SignOfLife);
        for place in 0..WORKERS {
            let phase = world.within(TICK);
            world.at(phase, Due::Told(place));
        }
        for place in 0..SENTINELS {
            let phase = world.within(cluster::INTERVAL);
            world.at(phase, Due::Publish(place));
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
        (!self.random.word().is_multiple_of(LOST)).then_some(way)
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
        if let Some(way) = self.way(kind, bytes) {
            self.after(
                way,
                match (to, kind) {
                    (Some(worker), _) => Due::Worker(worker, message),
                    (None, "rolls") => Due::Roll(message),
                    _ => Due::Coordinator(message),
                },
            );
        }
    }

    fn clock(&self, ahead_ns: i64) -> Now {
        Now {
            at: self.began + self.now.as_duration(),
            unix_ns: self.now.as_nanos() as i64 + ahead_ns,
        }
    }

    /// Until this instant; what the bus carried since the last.
    fn run_until(&mut self, end: Nanos) -> Traffic {
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
            Due::Roll(message) => (0..WORKERS).for_each(|place| self.present(place, &message)),
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
            Due::Program(place, standing) => {
                self.workers[place].engagement.note(now.at, standing);
                self.tell(place);
            }
            Due::Publish(place) => self.divide(place),
            Due::Report(report) => {
                let sentinels = self.sentinels.iter_mut();
                sentinels.for_each(|it| it.hear(self.now, report.clone()));
            }
        }
    }

    /// Takes the coordinator from step to step, and publishes what it says.
    fn follow(&mut self) {
        let now = self.clock(0);
        loop {
            let coordinator = &mut self.coordinator;
            for event in coordinator.take_events() {
                if let Event::Line(place, _) = event {
                    self.lines[place] += 1;
                }
            }
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
            result.unwrap();
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
        let task = self.workers[place].engagement.request(now, request);
        if let Some(Task::Start(order)) = task {
            self.start(place, &order);
        }
        let worker = &mut self.workers[place];
        worker.told = self.now;
        let told = worker.engagement.answer(now, number);
        self.publish(answer(&message.reply.unwrap(), &told));
    }

    /// A program prints figures as long as the load lasts, ends, and its folder is brought.
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
            self.at(at, Due::Program(place, standing.clone()));
            at = at.saturating_add(PRINT_EVERY);
        }
        for (after_ms, folder) in [(0, Folder::OnItsWay), (700, Folder::Kept)] {
            standing.end = Some(End {
                code: Some(0),
                words: Vec::new(),
                folder,
            });
            let at = end.saturating_add(Nanos::from_millis(after_ms));
            self.at(at, Due::Program(place, standing.clone()));
        }
    }

    fn tell(&mut self, place: usize) {
        let worker = &mut self.workers[place];
        worker.told = self.now;
        if let Some(told) = worker.engagement.told() {
            self.publish(told);
        }
    }

    /// A sentinel reports.
    fn divide(&mut self, place: usize) {
        let clients = self.clients(place).map(|client| Activity {
            client,
            arrived: 1_000,
            waiting: 500,
            weight: 1,
        });
        let sentinel = &mut self.sentinels[place];
        let (report, division) = sentinel.tick(self.now, clients);
        let interval = sentinel.interval();
        self.rates[place] = division.per_second;
        self.after(interval, Due::Publish(place));
        let bytes = report.encode();
        if let Some(way) = self.way("reports", bytes.len() + SUBJECT.len()) {
            let report = Report::decode(&bytes).unwrap();
            self.after(way, Due::Report(report));
        }
        if self.unfairness() > 0.05 {
            self.apart = self.now;
        }
        let sum: f64 = self.rates.iter().sum();
        if self.now > Nanos::from_secs(1) {
            self.most = self.most.max(sum);
        }
    }

    /// Client 1 uses every tenth sentinel, and each of those has one more of its own. Half of them later have none.
    fn clients(&self, place: usize) -> impl Iterator<Item = u64> + use<> {
        let is_used = place.is_multiple_of(self.distance());
        let clients = [1, 10 + place as u64];
        clients.into_iter().filter(move |_| is_used)
    }

    /// Of a sentinel that is used and the next one.
    fn distance(&self) -> usize {
        if self.now < CHANGE { 10 } else { 20 }
    }

    /// How far the sum of all rates, or the rate of any sentinel, is from what one queue would give.
    fn unfairness(&self) -> f64 {
        let sentinels = SENTINELS as f64;
        let used = sentinels / self.distance() as f64;
        let share = LIMIT * 0.99 / (1.0 + used);
        let due = |place: usize| {
            let of_client = |client| if client == 1 { share / used } else { share };
            LIMIT * 0.01 / sentinels + self.clients(place).map(of_client).sum::<f64>()
        };
        let errors = self.rates.iter().enumerate();
        let errors = errors.map(|(place, rate)| (rate / due(place) - 1.0).abs());
        let sum = self.rates.iter().sum::<f64>() / LIMIT - 1.0;
        errors.fold(sum.abs(), f64::max)
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

const SUBJECT: &str = "sentinel.0123456789abcdef";
/// Bytes of a line of figures, of a request, and of an answer with such a line.
const FIGURES: usize = 600;
const REQUEST: u64 = 137;
const ANSWER: u64 = 775;

#[test]
fn a_thousand_workers_and_a_thousand_sentinels_cost_the_bus_what_the_formulas_say() {
    let mut world = World::new(7);
    let at_start = world.run_until(Nanos::from_secs(24));
    let at_work = world.run_until(Nanos::from_secs(44));
    world.run_until(CHANGE);
    let (agreed, error) = (world.apart, world.unfairness());
    let interval = world.sentinels[0].interval();
    world.run_until(CHANGE.saturating_add(interval.saturating_mul(4)));
    let changed = (world.apart.saturating_sub(CHANGE), world.unfairness());
    println!("{:?}\n{at_start:?}\nin 20 s: {at_work:?}", world.over);
    println!(
        "agreed at {agreed:?}, error {error}; changed {changed:?}; most {}",
        world.most
    );
    world.assert_run();
    // A request a second, its answer, and two lines.
    for (kind, each, bytes) in [("requests", 1, REQUEST), ("answers", 3, ANSWER)] {
        let (messages, sum) = at_work[kind];
        assert_near(messages, each * WORKERS as u64 * 20);
        assert_near(sum, messages * bytes);
    }
    assert_eq!(at_work["rolls"].0, 20 / SIGN_OF_LIFE.as_secs());
    // 16 sentinels' worth of reports, whatever their number; a tenth of them has two clients.
    let (reports, bytes) = at_work["reports"];
    assert_near(reports, 64 * 20);
    assert_near(bytes, reports * (SUBJECT.len() as u64 + 41 + 14 * 2 / 10));
    assert!(agreed <= interval.saturating_mul(5), "{agreed:?}");
    assert!(changed.0 <= interval.saturating_mul(4), "{changed:?}");
    assert!(error.max(changed.1) < 1e-5, "{error}, {changed:?}");
    assert!(world.most <= LIMIT * 1.000_01, "{}", world.most);
}

fn assert_near(got: u64, expected: u64) {
    let error = got as f64 / expected as f64 - 1.0;
    assert!(error.abs() < 0.03, "{got} instead of {expected}");
}

impl World {
    /// All have begun once and in time, were heard to the end, and are free.
    fn assert_run(&self) {
        for worker in &self.workers {
            assert_eq!((worker.started, worker.engagement.run()), (1, None));
        }
        let over: Vec<Nanos> = self.over.iter().map(|(_, at)| *at).collect();
        let [called, compared, played, watched] = over[..] else {
            panic!("{over:?}")
        };
        // Each asks again for what is lost, after 2 s.
        let again = Nanos::from_secs(4);
        assert!(called < again, "{called:?}");
        assert!(compared.saturating_sub(called) < again, "{compared:?}");
        assert!(played.saturating_sub(compared) < again, "{played:?}");
        let end = played.saturating_add(LEAD).saturating_add(LOAD);
        assert!(watched < end.saturating_add(again), "{watched:?}");
        assert!(self.endings.iter().all(|it| it.kept && !it.lost));
        // The last of two lines at the edge of a second may be all that is heard of them.
        let printed = LOAD.as_millis() / PRINT_EVERY.as_millis();
        let least = self.lines.iter().min().unwrap();
        assert!(u64::from(*least) >= printed - 3, "{least}");
        // As far as the bus may take longer one way than the other, over 16 questions.
        assert!(
            self.clock_error_ns < 2_000_000,
            "{} ns",
            self.clock_error_ns
        );
    }

    /// Clocks are where they are said to be.
    fn note_clocks(&mut self) {
        let ahead = self.workers.iter().enumerate();
        let ahead: HashMap<String, i64> = ahead
            .map(|(place, it)| (format!("m{place}"), it.ahead_ns))
            .collect();
        for member in self.coordinator.members() {
            let offset = member.clock.first().unwrap();
            let error = offset.offset_ns() - ahead[&member.host];
            assert!(error.abs() <= offset.error_ns(), "{offset:?}");
            self.clock_error_ns = self.clock_error_ns.max(offset.error_ns());
        }
    }
}
