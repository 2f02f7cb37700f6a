//! From three members to a thousand on one bus, as discrete events: how soon their rates are right, how far together they
//! exceed the limit, and what the bus carries. `docs/fleet.md` has the figures.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests, and the table in the manual is what they print"
)]

use std::collections::BTreeMap;

use base::Random;
use cluster::{Activity, Division, INTERVAL, Member, Report};
use pacing::Nanos;

const LIMIT: f64 = 1_000.0;
/// How long a report takes to the members of each quarter.
const WAYS_MS: [u64; 4] = [1, 10, 30, 60];
/// One report in so many is lost on its way to a quarter of them.
const LOST: u64 = 5_000;

enum Due {
    Start,
    Tick(usize),
    Report(usize, Report),
}

/// Who uses the members.
#[derive(Clone, Copy)]
enum Load {
    /// Client 1 is at every member so far from the next, each of which has one more of its own; all take what they get.
    Every(usize),
    /// Each has clients of its own, of which some come and some leave at each tick.
    Restless,
}

struct World {
    now: Nanos,
    random: Random,
    /// By instant and, of one instant, by order.
    due: BTreeMap<(Nanos, u64), Due>,
    scheduled: u64,
    load: Load,
    members: Vec<Member>,
    divisions: Vec<Division>,
    /// What of a write each member has sent for client 1, and for its own.
    sent: Vec<[f64; 2]>,
    reports: u64,
    /// When the rates were last more than 5 % beside what they are to be.
    apart: Nanos,
    /// The most that all together had.
    most: f64,
    /// When they first had nearly all of it.
    serving: Option<Nanos>,
    /// How much longer than usual a report takes; for ever where the bus is silent.
    slower: Option<Nanos>,
}

impl World {
    /// Members that start within `spread`.
    fn new(members: usize, load: Load, spread: Nanos) -> Self {
        let mut world = Self {
            now: Nanos::ZERO,
            random: Random::new(members as u64),
            due: BTreeMap::new(),
            scheduled: 0,
            load,
            members: Vec::new(),
            divisions: Vec::new(),
            sent: Vec::new(),
            reports: 0,
            apart: Nanos::ZERO,
            most: 0.0,
            serving: None,
            slower: Some(Nanos::ZERO),
        };
        for _ in 0..members {
            let phase = world.random.word() % spread.as_nanos();
            world.after(Nanos::from_nanos(phase), Due::Start);
        }
        world
    }

    fn start(&mut self) {
        let place = self.members.len();
        self.members
            .push(Member::new(self.now, place as u64, LIMIT));
        self.divisions.push(Division::default());
        self.sent.push([0.0; 2]);
        self.tick(place);
    }

    fn after(&mut self, span: Nanos, due: Due) {
        self.scheduled += 1;
        let at = self.now.saturating_add(span);
        self.due.insert((at, self.scheduled), due);
    }

    /// Lets so many milliseconds pass with this load; how many reports that took, and after how many milliseconds all
    /// rates were right.
    fn run(&mut self, load: Load, span_ms: u64) -> (u64, u64) {
        self.load = load;
        let (began, before) = (self.now, self.reports);
        let end = began.saturating_add(Nanos::from_millis(span_ms));
        while let Some(first) = self.due.first_entry()
            && first.key().0 < end
        {
            let ((instant, _), due) = first.remove_entry();
            self.now = instant;
            match due {
                Due::Start => self.start(),
                Due::Tick(place) => self.tick(place),
                Due::Report(quarter, report) => {
                    let members = self.members.iter_mut().skip(quarter).step_by(WAYS_MS.len());
                    members.for_each(|it| it.hear(instant, report.clone()));
                }
            }
        }
        self.now = end;
        let right = self.apart.saturating_sub(began).as_millis();
        (self.reports - before, right)
    }

    fn tick(&mut self, place: usize) {
        let activity = self.activity(place);
        let (report, division) = self.members[place].tick(self.now, activity);
        self.divisions[place] = division;
        self.after(INTERVAL, Due::Tick(place));
        if let (Some(report), Some(slower)) = (report, self.slower) {
            self.reports += 1;
            let bytes = report.encode();
            for (quarter, way) in WAYS_MS.into_iter().enumerate() {
                if !self.random.word().is_multiple_of(LOST) {
                    let report = Report::decode(&bytes).unwrap();
                    let way = slower.saturating_add(Nanos::from_millis(way));
                    self.after(way, Due::Report(quarter, report));
                }
            }
        }
        if self.unfairness() > 0.05 {
            self.apart = self.now;
        }
        let sum = self.divisions.iter().map(|it| it.per_second).sum();
        self.most = self.most.max(sum);
        if sum >= 0.9 * LIMIT {
            self.serving.get_or_insert(self.now);
        }
    }

    /// What the clients of a member did. It sent what it may since the last tick, its own client's and client 1's.
    fn activity(&mut self, place: usize) -> Vec<Activity> {
        let mut clients = vec![1, 10 + place as u64];
        match self.load {
            Load::Every(distance) if place.is_multiple_of(distance) => {}
            Load::Every(_) => return Vec::new(),
            Load::Restless => clients.retain(|_| self.random.word().is_multiple_of(2)),
        }
        let division = &self.divisions[place];
        let of_one = division.parts.first().map_or(1.0, |part| part.of_share);
        let sent = division.per_second * INTERVAL.as_secs_f64() / (1.0 + of_one);
        let owed = &mut self.sent[place];
        for (owed, sent) in owed.iter_mut().zip([sent * of_one, sent]) {
            *owed = owed.fract() + sent;
        }
        let taken = |client| if client == 1 { owed[0] } else { owed[1] };
        let clients = clients.into_iter().map(|client| Activity {
            client,
            taken: taken(client) as u32,
            is_refused: false,
            waiting: 500,
            weight: 1,
        });
        clients.collect()
    }

    /// How far the sum of all rates is from the limit, or the rate of any member from what one queue would give it, as a
    /// part of what it gives one that is used.
    fn unfairness(&self) -> f64 {
        let Load::Every(distance) = self.load else {
            return 0.0;
        };
        let members = self.members.len();
        let used = members.div_ceil(distance) as f64;
        let share = LIMIT * 0.99 / (1.0 + used);
        let due = share + share / used;
        let floor = LIMIT * 0.01 / members as f64;
        let rates = self.divisions.iter().map(|it| it.per_second);
        let sum = rates.clone().sum::<f64>() / LIMIT - 1.0;
        let errors = rates.enumerate().map(|(place, rate)| {
            let own = if place.is_multiple_of(distance) {
                due
            } else {
                0.0
            };
            (rate - floor - own).abs() / due
        });
        errors.fold(sum.abs(), f64::max)
    }
}

/// How soon rates are right with so many members, and how often each reports what has not changed.
struct Expected {
    members: usize,
    distance: usize,
    started_ms: u64,
    period_ms: u64,
}

fn assert_agreed(expected: &Expected) {
    let few = Load::Every(2 * expected.distance);
    let mut world = World::new(expected.members, few, INTERVAL);
    let (_, started) = world.run(few, 5_000);
    let started = (started, world.unfairness());
    let (at_rest, _) = world.run(few, 3_600);
    let (_, come) = world.run(Load::Every(expected.distance), 4_000);
    let come = (come, world.unfairness());
    let (_, left) = world.run(few, 5_000);
    let left = (left, world.unfairness());
    let (restless, _) = world.run(Load::Restless, 2_000);
    println!(
        "{} members: all right after {started:?}, come {come:?}, left {left:?} (ms, error); reports a second at rest {}, \
         restless {}; at most {:.6} of the limit",
        expected.members,
        at_rest * 10 / 36,
        restless / 2,
        world.most / LIMIT
    );
    assert!(started.0 <= expected.started_ms && come.0.max(left.0) <= 1_000);
    assert!(started.1.max(come.1).max(left.1) < 1e-9);
    let members = expected.members as u64;
    assert_eq!(at_rest, members * 3_600 / expected.period_ms);
    // As many again as are due, and those that were not needed before; one at each tick at most.
    let most = 2 * members * 2_000 / expected.period_ms + 4 * members;
    assert!(restless <= most.min(10 * members));
    assert!(world.most <= 1.05 * LIMIT);
}

#[test]
fn up_to_a_hundred_members_have_what_one_queue_would_give_within_a_second_of_a_change() {
    for (members, distance) in [(3, 1), (16, 1), (100, 5)] {
        assert_agreed(&Expected {
            members,
            distance,
            started_ms: 800,
            period_ms: 200,
        });
    }
}

#[test]
fn a_thousand_members_have_it_as_soon_and_report_less_often_what_does_not_change() {
    assert_agreed(&Expected {
        members: 1_000,
        distance: 10,
        started_ms: 2_600,
        period_ms: 1_800,
    });
}

/// All start within `spread`, and use clients of their own and one of all.
fn started(members: usize, spread_ms: u64, slower: Option<Nanos>) -> World {
    let (load, spread) = (
        Load::Every(members.div_ceil(100)),
        Nanos::from_millis(spread_ms),
    );
    let mut world = World::new(members, load, spread.max(Nanos::from_nanos(1)));
    world.slower = slower;
    world.run(load, 3_000 + spread_ms);
    let serving = world.serving.map(Nanos::as_millis);
    println!(
        "{members} members start within {spread_ms} ms, reports {slower:?} slower: at most {:.6} of the limit, nearly all of \
         it after {serving:?} ms",
        world.most / LIMIT
    );
    world
}

#[test]
fn members_that_start_together_never_exceed_the_limit() {
    let few = [1, 3, 100].map(|members| [0, 60, 200, 2_000].map(|spread| (members, spread, 800)));
    let all = few.into_iter().flatten();
    for (members, spread_ms, serving_ms) in all.chain([(1_000, 0, 2_400)]) {
        let world = started(members, spread_ms, Some(Nanos::ZERO));
        assert!(world.most <= 1.05 * LIMIT);
        let by = Nanos::from_millis(serving_ms + spread_ms);
        assert!(world.serving.is_some_and(|at| at <= by));
    }
}

#[test]
fn on_a_slow_bus_they_do_not_either_and_one_that_is_silent_for_a_second_is_away() {
    for slower_ms in [300, 700] {
        let world = started(100, 0, Some(Nanos::from_millis(slower_ms)));
        assert!(world.most <= 1.05 * LIMIT);
        assert!(world.serving.is_some_and(|at| at <= Nanos::from_secs(2)));
    }
    // None hears another: each has the whole limit.
    let world = started(3, 0, None);
    assert!((world.most - 3.0 * LIMIT).abs() < 1e-9);
    assert_eq!(world.serving, Some(Nanos::from_secs(1)));
}

#[test]
fn one_that_joins_a_thousand_has_its_part_and_they_stay_below_the_limit() {
    let load = Load::Every(10);
    let mut world = World::new(1_000, load, INTERVAL);
    world.run(load, 3_000);
    world.after(Nanos::from_millis(1), Due::Start);
    world.run(load, 1_900);
    assert!(world.divisions[1_000].per_second < 1e-9);
    let (_, right) = world.run(load, 1_000);
    println!(
        "one joins 1,000: all right {right} ms later, at most {:.6} of the limit",
        world.most / LIMIT
    );
    assert!(world.unfairness() < 0.02);
    assert!(world.most <= 1.05 * LIMIT);
}
