//! Breaks: when they come, what they do, and how their gain is measured.

use std::time::Duration;

use control::{
    BlockSeen, BreakCause, BreakController, BreakEvent, BreakFacts, BreakState, MinTxRate,
    PauseAction, PauseSettings,
};
use pacing::{Nanos, Rate};

use crate::pace::of_txs;

const TICK: Nanos = Nanos::from_millis(50);

/// A chain with one block a second whose transactions are a function of time, and a controller that
/// is told what a lane would tell it.
struct Chain {
    breaks: BreakController,
    now: Nanos,
    height: u64,
    facts: BreakFacts,
    interval: Nanos,
    next_block: Nanos,
    /// What the next block holds.
    gathered: f64,
    /// How long nothing was sent in all.
    closed: Nanos,
    events: Vec<(Nanos, BreakEvent)>,
    /// Every state that was entered.
    states: Vec<BreakState>,
}

impl Chain {
    fn new(pause: &PauseSettings) -> Self {
        Self {
            breaks: BreakController::new(Nanos::ZERO, pause, 3),
            now: Nanos::ZERO,
            height: 0,
            facts: BreakFacts {
                backlogged: true,
                in_flight: 10,
                takes_writes: true,
            },
            interval: Nanos::from_secs(1),
            next_block: Nanos::from_secs(1),
            gathered: 0.0,
            closed: Nanos::ZERO,
            events: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Until this second; `txs` is how many a second are committed, given the second, outside of breaks.
    fn run(&mut self, until: u64, txs: impl Fn(f64) -> f64) -> &mut Self {
        while self.now < Nanos::from_secs(until) {
            self.step(&txs);
        }
        self
    }

    fn step(&mut self, txs: impl Fn(f64) -> f64) {
        let event = self.tick(self.facts.in_flight);
        self.events.extend(event.map(|event| (self.now, event)));
        let share = f64::from(u8::from(!self.breaks.is_closed()));
        // What is under way is answered at once when nothing new comes.
        let drained = self.breaks.state() == BreakState::Draining;
        self.facts.in_flight = if drained { 0 } else { self.facts.in_flight };
        if share == 0.0 {
            self.closed = self.closed.saturating_add(TICK);
        }
        self.gathered += txs(self.now.as_secs_f64()) * share * TICK.as_secs_f64();
        if self.now >= self.next_block {
            let block = std::mem::take(&mut self.gathered);
            self.block(block as usize);
        }
    }

    fn block(&mut self, txs: usize) {
        self.height += 1;
        let event = self.breaks.block(&BlockSeen {
            height: self.height,
            all: of_txs(txs as u64),
            ours: of_txs(txs as u64),
            observed: self.now,
        });
        self.events.extend(event.map(|event| (self.now, event)));
        self.next_block = self.now.saturating_add(self.interval);
    }

    fn began(&self) -> Vec<(Nanos, BreakCause)> {
        self.events
            .iter()
            .filter_map(|(at, event)| match event {
                BreakEvent::Began(cause) => Some((*at, *cause)),
                _ => None,
            })
            .collect()
    }

    /// The gain measured last.
    fn gain(&self) -> Option<f64> {
        self.events.iter().rev().find_map(|(_, event)| match event {
            BreakEvent::Measured(gain) => Some(*gain),
            _ => None,
        })
    }

    /// Until the first break begins; it drains then.
    fn run_to_a_break(&mut self) -> Nanos {
        while self.breaks.state() == BreakState::Running && self.now < Nanos::from_secs(120) {
            self.step(steady);
        }
        assert_eq!(self.breaks.state(), BreakState::Draining);
        self.now
    }

    /// A tick with so many writes under way.
    fn tick(&mut self, in_flight: usize) -> Option<BreakEvent> {
        self.now = self.now.saturating_add(TICK);
        self.facts.in_flight = in_flight;
        let before = self.breaks.state();
        let event = self.breaks.tick(self.now, &self.facts);
        let after = self.breaks.state();
        self.states.extend((after != before).then_some(after));
        event
    }
}

const OFF: PauseSettings = PauseSettings {
    interval: None,
    min_tx_rate: MinTxRate::Off,
    length: Duration::from_secs(1),
    action: PauseAction::Pause,
};
const BY_CLOCK: PauseSettings = PauseSettings {
    interval: Some(Duration::from_secs(100)),
    ..OFF
};
const BY_THROUGHPUT: PauseSettings = PauseSettings {
    min_tx_rate: MinTxRate::Percent(55),
    ..OFF
};
const BY_BOTH: PauseSettings = PauseSettings {
    min_tx_rate: MinTxRate::Percent(55),
    ..BY_CLOCK
};

fn steady(_: f64) -> f64 {
    1_000.0
}

#[test]
fn off_means_off() {
    let mut chain = Chain::new(&OFF);
    chain.run(100, steady).run(1_000, |_| 10.0);
    assert!(chain.events.is_empty());
}

#[test]
fn a_break_goes_through_its_states_and_lasts_as_long_as_configured() {
    let mut chain = Chain::new(&BY_CLOCK);
    chain.run(120, steady);
    let states = [
        BreakState::Draining,
        BreakState::Paused,
        BreakState::Running,
    ];
    assert_eq!(chain.states, states);
    let [(first, BreakCause::Interval)] = chain.began()[..] else {
        panic!("{:?}", chain.began());
    };
    assert!((90..=110).contains(&first.as_secs()), "{first}");
    let closed = Nanos::from_millis(1_050);
    assert_eq!(chain.closed, closed);
    let reopened = first.saturating_add(closed);
    assert!(
        chain
            .events
            .contains(&(reopened, BreakEvent::Reopened(closed)))
    );
    assert_eq!(chain.breaks.closed_until(chain.now), Nanos::ZERO);
    // The next one comes an interval after the end of this one.
    chain.run(230, steady);
    let second = chain.began()[1].0;
    let after = second.saturating_sub(reopened).as_secs();
    assert!((90..=110).contains(&after), "{after}");
}

#[test]
fn draining_awaits_answers_but_not_for_ever() {
    let mut chain = Chain::new(&BY_CLOCK);
    let began = chain.run_to_a_break();
    while chain.breaks.state() == BreakState::Draining {
        let until = chain.breaks.closed_until(chain.now);
        assert!(until > chain.now && until <= began.saturating_add(Nanos::from_secs(30)));
        chain.tick(5);
    }
    assert_eq!(chain.breaks.state(), BreakState::Paused);
    assert_eq!(chain.now.saturating_sub(began), Nanos::from_secs(2));
}

/// New connections are asked for once, when nothing is under way. The pause does not wait for them: without one that is
/// up nothing is sent anyway.
#[test]
fn a_reconnect_asks_for_new_connections_once() {
    let settings = PauseSettings {
        action: PauseAction::Reconnect,
        ..BY_CLOCK
    };
    let mut chain = Chain::new(&settings);
    let began = chain.run_to_a_break();
    assert_eq!(chain.tick(5), None);
    assert_eq!(chain.tick(0), Some(BreakEvent::Reconnect));
    while chain.breaks.is_closed() {
        assert_ne!(chain.tick(0), Some(BreakEvent::Reconnect));
    }
    assert_eq!(chain.now.saturating_sub(began), Nanos::from_millis(1_100));
}

#[test]
fn a_long_pause_is_not_cut_short() {
    for action in [PauseAction::Pause, PauseAction::Reconnect] {
        let settings = PauseSettings {
            action,
            length: Duration::from_secs(60),
            ..BY_CLOCK
        };
        let mut chain = Chain::new(&settings);
        chain.run_to_a_break();
        chain.run(200, steady);
        assert!((60..=62).contains(&chain.closed.as_secs()), "{action:?}");
    }
}

#[test]
fn jitter_keeps_proxies_apart_and_inside_its_bounds() {
    let mut dues = Vec::new();
    for seed in 0..20 {
        let settings = BY_CLOCK;
        let mut breaks = BreakController::new(Nanos::ZERO, &settings, seed);
        let facts = BreakFacts {
            backlogged: true,
            takes_writes: true,
            ..BreakFacts::default()
        };
        let mut now = Nanos::ZERO;
        while breaks.state() == BreakState::Running {
            now = now.saturating_add(TICK);
            breaks.tick(now, &facts);
        }
        dues.push(now);
    }
    assert!(dues.iter().all(|due| (90..=110).contains(&due.as_secs())));
    dues.sort();
    dues.dedup();
    assert!(dues.len() > 10);
}

/// Case 16: a node that stalls now and then, or whose blocks come in clumps, is no slow node.
#[test]
fn controller_16_block_periodic_stalls_do_not_trigger() {
    let mut chain = Chain::new(&BY_THROUGHPUT);
    for second in 1..=600 {
        // Every tenth block takes six seconds.
        chain.interval = Nanos::from_secs(if second % 10 == 0 { 6 } else { 1 });
        chain.run(second, steady);
    }
    // Blocks once in ten seconds, of very different sizes.
    chain.interval = Nanos::from_secs(10);
    chain.run(1_500, |t| {
        if ((t / 10.0) as u64).is_multiple_of(2) {
            1_500.0
        } else {
            500.0
        }
    });
    assert_eq!(chain.began(), []);
}

/// Case 17.
#[test]
fn controller_17_a_halted_chain_gets_no_breaks() {
    let mut chain = Chain::new(&BY_BOTH);
    chain.run(85, steady);
    chain.interval = Nanos::from_secs(100_000);
    chain.next_block = Nanos::from_secs(500);
    chain.run(499, steady);
    assert_eq!(chain.began(), []);
    // It goes on, and after a while breaks come again.
    chain.interval = Nanos::from_secs(1);
    chain.run(720, steady);
    assert!(
        chain
            .began()
            .iter()
            .all(|(_, cause)| *cause == BreakCause::Interval)
    );
    assert_eq!(chain.began().len(), 2);
}

/// Case 18.
#[test]
fn controller_18_no_demand_no_breaks() {
    let mut chain = Chain::new(&BY_BOTH);
    chain.run(90, steady);
    chain.facts = BreakFacts {
        takes_writes: true,
        ..BreakFacts::default()
    };
    chain.run(1_000, |_| 0.0);
    assert_eq!(chain.began(), []);
    // Little demand that is served at once is no sign of a slow node, but the clock counts it.
    chain.facts.in_flight = 1;
    let mut now = chain.now;
    while now < Nanos::from_secs(1_150) && chain.breaks.state() == BreakState::Running {
        now = now.saturating_add(TICK);
        chain.breaks.tick(now, &chain.facts);
        if now.as_nanos().is_multiple_of(1_000_000_000) {
            chain.now = now;
            chain.block(50);
        }
    }
    assert_eq!(chain.breaks.state(), BreakState::Draining);
    let mut chain = Chain::new(&BY_THROUGHPUT);
    chain.run(200, steady);
    chain.facts.backlogged = false;
    chain.run(1_000, |_| 50.0);
    assert_eq!(chain.began(), []);
}

#[test]
fn a_node_that_catches_up_gets_no_breaks() {
    let mut chain = Chain::new(&BY_BOTH);
    chain.run(95, steady);
    chain.facts.takes_writes = false;
    chain.run(1_000, |_| 10.0);
    assert_eq!(chain.began(), []);
}

/// Case 19: throughput halves permanently. One break, and no flapping: the next one needs a recovery,
/// or evidence that breaks help.
#[test]
fn controller_19_a_real_decline_triggers_once() {
    let mut chain = Chain::new(&BY_THROUGHPUT);
    chain.run(200, steady);
    assert!((chain.breaks.usual() - 1_000.0).abs() < 1e-6);
    chain.run(1_500, |_| 450.0);
    let began = chain.began();
    assert_eq!(began.len(), 1, "{began:?}");
    // Three windows of ten seconds, and the one in which it began.
    assert!((220..250).contains(&began[0].0.as_secs()), "{began:?}");
    assert_eq!(began[0].1, BreakCause::Threshold);
    // What is usual now has been learnt; a recovery arms it again.
    assert!((chain.breaks.usual() - 450.0).abs() < 5.0);
    chain.run(1_700, steady).run(1_900, |_| 450.0);
    assert_eq!(chain.began().len(), 2);
}

#[test]
fn a_slow_decline_becomes_usual() {
    // The measured one: 41 % in 300 s.
    let mut chain = Chain::new(&BY_THROUGHPUT);
    chain.run(600, |t| {
        4_167.0 - (4_167.0 - 2_438.0) * (t / 300.0).min(1.0)
    });
    assert_eq!(chain.began(), []);
}

#[test]
fn an_absolute_threshold_needs_no_learning() {
    let settings = PauseSettings {
        min_tx_rate: MinTxRate::Rate(Rate::per_second(500).unwrap()),
        ..BY_THROUGHPUT
    };
    let mut chain = Chain::new(&settings);
    chain.run(300, |_| 400.0);
    assert_eq!(chain.began().len(), 1);
    assert!(chain.began()[0].0 < Nanos::from_secs(45));
}

#[test]
fn a_single_slow_window_does_not_trigger() {
    let mut chain = Chain::new(&BY_THROUGHPUT);
    chain.run(200, steady);
    for start in [200, 300, 400] {
        chain.run(start + 18, |_| 300.0).run(start + 100, steady);
    }
    assert_eq!(chain.began(), []);
}

/// Case 20: breaks that do not help come half as often, again and again, up to once an hour.
#[test]
fn controller_20_breaks_that_do_not_help_back_off() {
    let settings = PauseSettings {
        length: Duration::from_secs(5),
        ..BY_CLOCK
    };
    let mut chain = Chain::new(&settings);
    chain.run(40_000, steady);
    let began = chain.began();
    let gaps: Vec<u64> = began
        .windows(2)
        .map(|pair| pair[1].0.saturating_sub(pair[0].0).as_secs())
        .collect();
    // Doubled after the second verdict, and after each second one from then on; a fifth is jitter.
    let rarer = |pair: &[u64]| pair[1] * 5 >= pair[0] * 4;
    assert!(gaps.windows(2).all(rarer), "{gaps:?}");
    assert!(gaps[0] < 120 && *gaps.last().unwrap() > 3_240, "{gaps:?}");
    assert_eq!(chain.breaks.interval(), Nanos::from_secs(3_600));
    let gain = chain.gain().unwrap();
    assert!((0.8..0.95).contains(&gain), "{gain}");
}

/// A node that commits more for half a minute after a break: the interval stays.
#[test]
fn controller_20_breaks_that_help_go_on() {
    let settings = PauseSettings {
        length: Duration::from_secs(2),
        ..BY_CLOCK
    };
    let mut chain = Chain::new(&settings);
    for second in 1..=1_000 {
        let last = chain.began().last().map_or(0, |(at, _)| at.as_secs());
        let rested = last > 0 && second < last + 40;
        chain.run(second, |_| if rested { 1_600.0 } else { 1_000.0 });
    }
    assert_eq!(chain.breaks.interval(), Nanos::from_secs(100));
    assert!(chain.gain().unwrap() > 1.05, "{:?}", chain.gain());
    assert!((8..=10).contains(&chain.began().len()));
}

/// Breaks that did not help for an hour help again: they come as often as is set again, and no
/// restart is needed for it.
#[test]
fn controller_20_breaks_that_help_again_come_often_again() {
    let mut chain = Chain::new(&BY_CLOCK);
    chain.run(3_000, steady);
    assert!(chain.breaks.interval() > Nanos::from_secs(300));
    for second in 3_001..=9_000 {
        let last = chain.began().last().map_or(0, |(at, _)| at.as_secs());
        let rested = second < last + 60;
        chain.run(second, |_| if rested { 1_600.0 } else { 1_000.0 });
    }
    assert_eq!(chain.breaks.interval(), Nanos::from_secs(100));
}
