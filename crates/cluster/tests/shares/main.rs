//! Whole proxies, each with its queue and its emitter, on a bus that delays: who gets what, and how much leaves.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod demand;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;

use base::Random;
use cluster::{Activity, INTERVAL, Member, Report};
use fairq::{ClientKey, FairQueue, Gcra, Item, KeyScheme, QueueLimits, Weight};
use pacing::{Nanos, Rate};

const LIMIT: f64 = 1_000.0;
const STEP: Nanos = Nanos::from_millis(1);

struct Proxy {
    member: Member,
    queue: FairQueue<()>,
    emitter: Gcra,
    /// Writes that were taken, and whether one was refused.
    arrived: HashMap<u64, (u32, bool)>,
    parts: HashMap<u64, f64>,
    /// It neither hears nor is heard.
    is_cut_off: bool,
    is_dead: bool,
    per_second: f64,
}

struct World {
    now: Nanos,
    random: Random,
    proxies: Vec<Proxy>,
    /// What each client offers each proxy, writes a second.
    offers: BTreeMap<(u64, usize), f64>,
    owed: BTreeMap<(u64, usize), f64>,
    bus: Vec<(Nanos, Report)>,
    is_bus_down: bool,
    /// When each write left, and whose it was.
    left: Vec<(Nanos, u64, usize)>,
}

fn key(client: u64) -> ClientKey {
    let address = Ipv4Addr::from(0x0a00_0000 + client as u32);
    KeyScheme::default().key(address.into())
}

impl World {
    fn new(proxies: usize, seed: u64) -> Self {
        let mut world = Self {
            now: Nanos::ZERO,
            random: Random::new(seed),
            proxies: Vec::new(),
            offers: BTreeMap::new(),
            owed: BTreeMap::new(),
            bus: Vec::new(),
            is_bus_down: false,
            left: Vec::new(),
        };
        (0..proxies).for_each(|_| world.join());
        // They have found each other when the first client comes.
        world.run(2.0);
        world
    }

    fn join(&mut self) {
        let place = self.proxies.len() as u64;
        let limits = QueueLimits {
            quantum: 16,
            per_client: 200,
            ..QueueLimits::default()
        };
        self.proxies.push(Proxy {
            member: Member::new(self.now, 77 + place, LIMIT),
            queue: FairQueue::new(limits, [1, place]).unwrap(),
            emitter: Gcra::new(Rate::ZERO, Nanos::from_millis(5)),
            arrived: HashMap::new(),
            parts: HashMap::new(),
            is_cut_off: false,
            is_dead: false,
            per_second: 0.0,
        });
    }

    fn offer(&mut self, client: u64, proxy: usize, per_second: f64) {
        self.offers.insert((client, proxy), per_second);
    }

    /// It sends no more, and what it had in that queue is gone.
    fn leave(&mut self, client: u64, proxy: usize) {
        self.offers.remove(&(client, proxy));
        let queue = &mut self.proxies[proxy].queue;
        queue.remove_connection(&key(client), 0, |()| false, |_| {});
    }

    fn run(&mut self, seconds: f64) {
        let end = self
            .now
            .saturating_add(Nanos::from_nanos((seconds * 1e9) as u64));
        while self.now < end {
            self.now = self.now.saturating_add(STEP);
            self.arrive();
            self.hear();
            for place in 0..self.proxies.len() {
                self.tick(place);
                self.send(place);
            }
        }
    }

    fn arrive(&mut self) {
        for (&(client, place), per_second) in &self.offers {
            let proxy = &mut self.proxies[place];
            let owed = self.owed.entry((client, place)).or_default();
            *owed += per_second * STEP.as_secs_f64();
            while *owed >= 1.0 && !proxy.is_dead {
                *owed -= 1.0;
                let part = proxy.parts.get(&client).copied().unwrap_or(1.0);
                let (weight, item) = (Weight::ONE.part(part), Item::new((), 100));
                let pushed = proxy.queue.push(key(client), 0, weight, item);
                let (taken, is_refused) = proxy.arrived.entry(client).or_default();
                *taken += u32::from(pushed.is_ok());
                *is_refused |= pushed.is_err();
            }
        }
    }

    fn hear(&mut self) {
        let now = self.now;
        let (come, later) = std::mem::take(&mut self.bus)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.bus = later;
        let come: Vec<(Nanos, Report)> = come;
        for (_, report) in come {
            for proxy in self
                .proxies
                .iter_mut()
                .filter(|it| !it.is_cut_off && !it.is_dead)
            {
                proxy.member.hear(now, report.clone());
            }
        }
    }

    /// Each at an instant of its own within the interval.
    fn tick(&mut self, place: usize) {
        let phase = Nanos::from_millis(37 * place as u64 % 200);
        let since = self.now.saturating_add(phase).as_nanos() % INTERVAL.as_nanos();
        let proxy = &mut self.proxies[place];
        if since >= STEP.as_nanos() || proxy.is_dead {
            return;
        }
        let arrived = std::mem::take(&mut proxy.arrived);
        let clients = self.offers.keys().map(|(client, _)| *client);
        let mut clients: Vec<u64> = clients.collect();
        clients.dedup();
        let activity: Vec<Activity> = clients
            .into_iter()
            .map(|client| {
                let (taken, is_refused) = arrived.get(&client).copied().unwrap_or_default();
                Activity {
                    client,
                    taken,
                    is_refused,
                    waiting: proxy.queue.backlog(&key(client)).entries,
                    weight: 1,
                }
            })
            .collect();
        let (report, division) = proxy.member.tick(self.now, activity);
        proxy.emitter.set_rate(self.now, rate(division.per_second));
        proxy.per_second = division.per_second;
        let parts = division.parts.iter();
        proxy.parts = parts.map(|part| (part.client, part.of_share)).collect();
        if let Some(report) = report
            && !self.is_bus_down
            && !proxy.is_cut_off
        {
            let report = Report::decode(&report.encode()).unwrap();
            let delay = Nanos::from_millis(1 + (self.random.unit() * 60.0) as u64);
            self.bus.push((self.now.saturating_add(delay), report));
        }
    }

    fn send(&mut self, place: usize) {
        let proxy = &mut self.proxies[place];
        while !proxy.is_dead && !proxy.queue.is_empty() && proxy.emitter.try_take(self.now).is_ok()
        {
            let popped = proxy.queue.pop_at(|_| 16).unwrap();
            let client = (1..200).find(|client| key(*client) == popped.client);
            self.left.push((self.now, client.unwrap(), place));
        }
    }

    /// Writes a second of each client since then.
    fn rates(&self, since: f64) -> BTreeMap<u64, f64> {
        let since = Nanos::from_nanos((since * 1e9) as u64);
        let span = self.now.saturating_sub(since).as_secs_f64();
        let mut rates = BTreeMap::new();
        for (_, client, _) in self.left.iter().filter(|(at, ..)| *at > since) {
            *rates.entry(*client).or_default() += 1.0 / span;
        }
        rates
    }

    /// The most writes that left within a second.
    fn most_in_a_second(&self) -> usize {
        let (mut window, mut most) = (VecDeque::new(), 0);
        for (at, ..) in &self.left {
            window.push_back(*at);
            while window
                .front()
                .is_some_and(|first| first.saturating_add(Nanos::from_secs(1)) <= *at)
            {
                window.pop_front();
            }
            most = most.max(window.len());
        }
        most
    }
}

fn rate(per_second: f64) -> Rate {
    Rate::from_f64(per_second).unwrap()
}

fn assert_near(rates: &BTreeMap<u64, f64>, expected: &[(u64, f64)]) {
    for (client, expected) in expected {
        let got = rates.get(client).copied().unwrap_or_default();
        assert!(
            (got / expected - 1.0).abs() < 0.05,
            "client {client}: {got} instead of {expected}; {rates:?}"
        );
    }
}

#[test]
fn one_client_on_three_proxies_has_the_share_of_each_of_two_elsewhere_after_a_second() {
    for seed in 0..5 {
        let mut world = World::new(3, seed);
        for place in 0..3 {
            world.offer(1, place, 2_000.0);
        }
        world.offer(2, 0, 2_000.0);
        world.offer(3, 1, 2_000.0);
        world.offer(4, 2, 20.0);
        world.run(4.0);
        let big = (LIMIT - 20.0) / 3.0;
        assert_near(
            &world.rates(3.0),
            &[(1, big), (2, big), (3, big), (4, 20.0)],
        );
        assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    }
}

#[test]
fn loads_that_move_from_proxy_to_proxy_never_leave_more_than_the_limit_together() {
    for seed in 0..5 {
        let mut world = World::new(4, seed);
        let mut random = Random::new(900 + seed);
        for _ in 0..12 {
            world.offers.clear();
            for client in 1..=6 {
                let place = (random.unit() * 4.0) as usize;
                world.offer(
                    client,
                    place,
                    if random.unit() < 0.5 { 1_500.0 } else { 40.0 },
                );
            }
            world.run(0.4 + random.unit());
        }
        let most = world.most_in_a_second() as f64;
        assert!(most <= 1.05 * LIMIT, "{most}");
    }
}

#[test]
fn a_proxy_that_joins_takes_its_part_without_a_burst() {
    let mut world = World::new(2, 3);
    (1..=2).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    world.join();
    world.offer(3, 2, 2_000.0);
    world.run(4.0);
    assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    let third = LIMIT / 3.0;
    assert_near(&world.rates(7.0), &[(1, third), (2, third), (3, third)]);
}

#[test]
fn without_the_bus_each_proxy_keeps_an_equal_part_and_nobody_starves() {
    let mut world = World::new(3, 4);
    world.offer(1, 0, 2_000.0);
    world.offer(2, 0, 2_000.0);
    world.offer(3, 2, 50.0);
    world.run(3.0);
    world.is_bus_down = true;
    world.run(6.0);
    let third = LIMIT / 3.0;
    assert_near(
        &world.rates(7.0),
        &[(1, third / 2.0), (2, third / 2.0), (3, 50.0)],
    );
    assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    // It is back: all of the limit is used again.
    world.is_bus_down = false;
    world.run(4.0);
    let all: f64 = world.rates(13.0).values().sum();
    assert!((all / LIMIT - 1.0).abs() < 0.05, "{all}");
}

/// Those that are back first do not know what has become of the others, however long the bus was away.
#[test]
fn a_bus_that_was_away_for_long_comes_back_to_one_after_the_other() {
    let mut world = World::new(3, 10);
    (1..=3).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    world.is_bus_down = true;
    world.run(40.0);
    world.is_bus_down = false;
    world.proxies[1].is_cut_off = true;
    world.proxies[2].is_cut_off = true;
    world.run(4.0);
    world.proxies[1].is_cut_off = false;
    world.run(4.0);
    world.proxies[2].is_cut_off = false;
    world.run(4.0);
    assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    let third = LIMIT / 3.0;
    assert_near(&world.rates(56.0), &[(1, third), (2, third), (3, third)]);
}

#[test]
fn a_proxy_that_is_cut_off_and_the_others_stay_below_the_limit_together() {
    let mut world = World::new(3, 5);
    (1..=3).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    world.proxies[0].is_cut_off = true;
    world.run(20.0);
    assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    let third = LIMIT / 3.0;
    assert_near(&world.rates(8.0), &[(1, third), (2, third), (3, third)]);
    // It goes on, and the others cannot know that it is not dead.
    world.run(20.0);
    let half = LIMIT / 2.0;
    assert_near(&world.rates(40.0), &[(1, third), (2, half), (3, half)]);
}

#[test]
fn what_a_dead_proxy_had_is_the_others_after_half_a_minute() {
    let mut world = World::new(3, 6);
    (1..=3).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    world.proxies[0].is_dead = true;
    world.run(28.0);
    assert_near(&world.rates(8.0), &[(2, LIMIT / 3.0), (3, LIMIT / 3.0)]);
    world.run(6.0);
    assert_near(&world.rates(37.0), &[(2, LIMIT / 2.0), (3, LIMIT / 2.0)]);
}

/// A balancer sends all to the standby once the active one has not answered two checks, each of which waits as long as
/// until the next.
#[test]
fn a_standby_sends_half_of_the_limit_two_seconds_after_the_active_one_s_death() {
    const CHECK_S: f64 = 0.2;
    for seed in 0..10 {
        let mut world = World::new(2, seed);
        (1..=6).for_each(|client| world.offer(client, 0, 500.0));
        world.run(3.0 + CHECK_S * seed as f64 / 10.0);
        world.proxies[0].is_dead = true;
        let died = world.now;
        world.run(3.0 * CHECK_S);
        world.offers.clear();
        (1..=6).for_each(|client| world.offer(client, 1, 500.0));
        world.run(2.0 - 3.0 * CHECK_S);
        let mut of_standby = world.left.iter().filter(|(_, _, place)| *place == 1);
        let first = of_standby.next().unwrap().0.saturating_sub(died);
        assert!(first < Nanos::from_millis(700), "{first:?}");
        world.run(1.0);
        let all: f64 = world.rates(world.now.as_secs_f64() - 1.0).values().sum();
        assert!((all / LIMIT - 0.5).abs() < 0.025, "{all}");
        assert!(world.most_in_a_second() as f64 <= 1.05 * LIMIT);
    }
}

#[test]
fn a_proxy_that_says_that_it_stops_leaves_its_part_at_once() {
    let mut world = World::new(2, 7);
    (1..=2).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    let last = world.proxies[0].member.leave();
    world.proxies[0].is_dead = true;
    world.bus.push((world.now, last));
    world.run(3.0);
    assert_near(&world.rates(5.7), &[(2, LIMIT)]);
}

#[test]
fn a_proxy_of_another_version_is_left_an_equal_part_however_much_the_others_want() {
    let mut world = World::new(2, 8);
    (1..=2).for_each(|client| world.offer(client, client as usize - 1, 2_000.0));
    world.run(3.0);
    // It is heard several times a second, and what it asks for is not understood.
    for _ in 0..20 {
        let now = world.now;
        world
            .proxies
            .iter_mut()
            .for_each(|it| it.member.hear_of(now, 7));
        world.run(0.25);
    }
    let third = LIMIT / 3.0;
    assert_near(&world.rates(6.0), &[(1, third), (2, third)]);
}

/// What it offered beyond its share was refused, and is not asked for any longer.
#[test]
fn the_share_of_a_client_that_offered_far_more_and_left_is_the_others() {
    let mut world = World::new(2, 9);
    world.offer(1, 0, 50_000.0);
    world.offer(2, 1, 2_000.0);
    world.run(3.0);
    world.offers.remove(&(1, 0));
    world.run(5.0);
    assert_near(&world.rates(9.0), &[(2, LIMIT)]);
}

/// Its share is so small that a write would wait for too long, and none is taken.
#[test]
fn a_client_whose_writes_are_all_refused_asks_for_its_share() {
    let mut member = Member::new(Nanos::ZERO, 1, LIMIT);
    let refused = Activity {
        client: 5,
        taken: 0,
        is_refused: true,
        waiting: 0,
        weight: 1,
    };
    let (report, _) = member.tick(INTERVAL, [refused]);
    let asked = report.unwrap().demands;
    assert_eq!((asked.len(), asked[0].per_second), (1, f32::INFINITY));
}

#[test]
fn a_member_is_silent_after_five_of_its_own_periods() {
    let now = |intervals: u64| INTERVAL.saturating_mul(intervals);
    let mut member = Member::new(Nanos::ZERO, 1, LIMIT);
    let mut often = Member::new(Nanos::ZERO, 2, LIMIT).leave();
    often.is_last = false;
    let seldom = Report {
        member: 3,
        period: 10,
        ..often.clone()
    };
    member.hear(now(1), often);
    member.hear(now(1), seldom);
    for (at, heard, silent) in [(5, 3, 0), (6, 2, 1), (50, 2, 1), (51, 1, 2)] {
        let (_, division) = member.tick(now(at), []);
        assert_eq!((division.heard, division.silent), (heard, silent), "{at}");
    }
}
