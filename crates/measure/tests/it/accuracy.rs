//! How near a search comes to the capacity of a modelled chain, through the recorder, the judge and
//! the search itself: what a test in real time would measure of the machine, this measures of the
//! rules.

use measure::judge::{Point, PointJudgement};
use measure::{
    BlockMark, Cause, Ending, Finding, KneeSearch, KneeSettings, Next, RecorderConfig, Reply,
    SchedulePlan, Summary, Unsent, UnsentReason,
};
use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};

use crate::support::{FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, end, ms, sent};

/// A chain and a generator.
#[derive(Clone, Copy)]
struct Model {
    /// Transactions a second that its blocks take.
    capacity: f64,
    /// A block each so many seconds.
    every_s: u64,
    /// Standard deviation of that, as a share.
    noise: f64,
    /// Transactions per second that the generator gets out.
    generator: f64,
    /// Why it gets no more out.
    cause: Cause,
    /// How long an answer takes.
    service: Nanos,
    offering_s: u64,
    seed: u64,
}

/// From the end of the offering to the end of the run, at least.
const DRAIN_S: u64 = 6;
const WARMUP_S: u64 = 5;

impl Model {
    const fn ended_s(&self) -> u64 {
        let block = if self.every_s > DRAIN_S {
            self.every_s
        } else {
            DRAIN_S
        };
        self.offering_s + block
    }

    /// A number around 0 with a standard deviation of 1, near enough to a normal one.
    fn normal(&mut self) -> f64 {
        let mut uniform = || {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// Offers `rate` for a while and judges it.
    fn offer(&mut self, rate: f64) -> PointJudgement {
        let profile = Profile::constant(
            format!("{rate:.4}/s").parse::<Rate>().unwrap(),
            Some(Nanos::from_secs(self.offering_s)),
        );
        let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
        let (summary, blocks) = self.run(&schedule);
        let point = Point {
            summary: &summary,
            blocks: &blocks,
            schedule: Some(&schedule),
            rate,
            warmup: Nanos::from_secs(WARMUP_S),
            followed: true,
            broken_limits: &[],
        };
        point.judge()
    }

    fn run(&mut self, schedule: &Schedule) -> (Summary, Vec<BlockMark>) {
        let mut config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
        config.warmup = Nanos::from_secs(WARMUP_S);
        let folder = Folder::new();
        let mut recorder = folder.recorder(config, SchedulePlan::new(schedule.clone()));
        let planned = schedule.due_before(Nanos::from_secs(self.offering_s));
        let (mut index, mut committed) = (0, 0);
        let mut marks = Vec::new();
        for second in 1..=self.ended_s() {
            let observed = Nanos::from_millis(second * 1_000 - 300);
            while index < planned {
                let due = schedule.due(index).unwrap();
                let ready = Nanos::from_nanos((index as f64 / self.generator * 1e9) as u64);
                let at = due.max(ready);
                if at >= observed {
                    break;
                }
                let late = at.saturating_sub(due) > ms(1);
                let mut event = sent(index, due, at);
                event.cause = if late { self.cause } else { Cause::OnTime };
                recorder.sent(&event);
                let answer_at = at.saturating_add(self.service);
                recorder.answered(&answered(index, answer_at, Reply::Accepted));
                index += 1;
            }
            recorder.watermark(SENDER, observed);
            if !second.is_multiple_of(self.every_s) {
                recorder.watermark(FOLLOWER, observed);
                continue;
            }
            let room = self.capacity * self.every_s as f64 * (1.0 + self.noise * self.normal());
            let taken = (index - committed).min(room as u64);
            let txs: Vec<u64> = (committed..committed + taken).collect();
            committed += taken;
            recorder.block(block(second / self.every_s, observed, &txs));
            recorder.watermark(FOLLOWER, observed);
            marks.push(BlockMark {
                observed,
                committed: taken,
            });
        }
        for index in index..planned {
            recorder.unsent(&Unsent {
                index,
                due: schedule.due(index).unwrap(),
                at: Nanos::from_secs(self.ended_s()),
                step: 0,
                reason: match self.cause {
                    Cause::Node => UnsentReason::Node,
                    _ => UnsentReason::Deadline,
                },
            });
        }
        let (until, ended) = (
            Nanos::from_secs(self.offering_s),
            Nanos::from_secs(self.ended_s()),
        );
        let summary = recorder.finish(end(planned, until, ended)).summary;
        assert!(summary.conservation.holds, "{:?}", summary.conservation);
        (summary, marks)
    }
}

fn search(mut model: Model) -> (KneeSearch, Ending) {
    let mut search = KneeSearch::new(KneeSettings {
        from: 20.0,
        min: 5.0,
        max: 1_000.0,
        ..KneeSettings::default()
    });
    loop {
        match search.next() {
            Next::Try { rate, length, .. } => {
                model.offering_s = (length.max(1.0) * 20.0) as u64;
                search.add(model.offer(rate).trial(rate));
            }
            Next::Done(ending) => return (search, ending),
        }
    }
}

const CLEAN: Model = Model {
    capacity: 100.0,
    every_s: 1,
    noise: 0.0,
    generator: 1e9,
    cause: Cause::Schedule,
    service: Nanos::ZERO,
    offering_s: 20,
    seed: 1,
};

#[test]
fn the_knee_of_a_chain_without_noise_is_within_three_percent_of_its_capacity() {
    for capacity in [37.0, 100.0, 141.0] {
        let (search, ending) = search(Model { capacity, ..CLEAN });
        assert_eq!(ending, Ending::Found, "{:?}", search.trials());
        let knee = search.estimate().unwrap();
        assert!(
            (knee.rate / capacity - 1.0).abs() < 0.03,
            "{capacity}: {knee:?}"
        );
    }
}

#[test]
fn a_short_point_that_left_late_by_the_generators_fault_is_not_broken() {
    let short = Model {
        offering_s: WARMUP_S + 2,
        ..CLEAN
    };
    let late = |mut model: Model| model.offer(90.0);
    let judged = late(Model {
        generator: 89.6,
        ..short
    });
    assert_eq!(judged.finding, Finding::Undecided, "{judged:?}");
    // With as few blocks a chain that cannot keep up still shows.
    let judged = late(Model {
        capacity: 40.0,
        ..short
    });
    assert_eq!(judged.finding, Finding::Broken, "{judged:?}");
}

/// Of a chain that makes a block each 12 s and keeps up, a point of 10 s ends before its first block: it was broken, and
/// the search went down from there.
#[test]
fn a_point_that_is_shorter_than_two_blocks_is_undecided_and_a_longer_one_is_told() {
    let slow = Model {
        every_s: 12,
        ..CLEAN
    };
    let short = Model {
        offering_s: 10,
        ..slow
    };
    for rate in [50.0, 90.0] {
        let mut model = short;
        let judged = model.offer(rate);
        assert_eq!(judged.finding, Finding::Undecided, "{judged:?}");
        assert!(
            judged.reasons[0].contains("too rare for such short points"),
            "{judged:?}"
        );
    }
    let long = Model {
        offering_s: 100,
        ..slow
    };
    for (rate, finding) in [(50.0, Finding::Held), (200.0, Finding::Broken)] {
        let mut model = long;
        let judged = model.offer(rate);
        assert_eq!(judged.finding, finding, "{judged:?}");
    }
}

#[test]
fn the_interval_of_a_noisy_chain_holds_its_capacity() {
    for seed in 1..=4 {
        let model = Model {
            noise: 0.1,
            seed,
            ..CLEAN
        };
        let (search, _) = search(model);
        let knee = search.estimate().unwrap();
        // The interval is about what a point of this length can tell: a growth of 1 % is allowed.
        assert!(
            knee.low * 0.97 <= CLEAN.capacity && CLEAN.capacity <= knee.high * 1.03,
            "seed {seed}: {knee:?}"
        );
    }
}

#[test]
fn a_generator_with_too_few_connections_never_yields_a_knee_and_says_how_many_it_needs() {
    // Two connections through a proxy with a round trip of 20 ms carry 100/s; the chain takes 160/s.
    let mut model = Model {
        capacity: 160.0,
        generator: 100.0,
        cause: Cause::Connection,
        service: ms(20),
        ..CLEAN
    };
    let (found, ending) = search(model);
    assert_eq!(found.estimate(), None, "{:?}", found.trials());
    assert!(
        matches!(ending, Ending::GeneratorLimit { .. }),
        "{ending:?}"
    );
    let judgement = model.offer(150.0);
    assert_eq!(judgement.finding, Finding::Unusable);
    let reason = &judgement.reasons[0];
    assert!(
        reason.contains("150/s × 20.0 ms needs at least 3 of them (--connections)"),
        "{reason}"
    );
    // What the node holds up is the node's: the rate is broken.
    model.cause = Cause::Node;
    let judged = model.offer(150.0);
    assert_eq!(judged.finding, Finding::Broken, "{judged:?}");
}

#[test]
fn a_starved_generator_never_yields_a_knee() {
    for generator in [3.0, 30.0, 60.0, 90.0] {
        for noise in [0.0, 0.1] {
            let (search, ending) = search(Model {
                generator,
                noise,
                ..CLEAN
            });
            assert_eq!(
                search.estimate(),
                None,
                "{generator}/s: {:?}",
                search.trials()
            );
            assert!(
                matches!(ending, Ending::GeneratorLimit { .. }),
                "{generator}/s: {ending:?}"
            );
        }
    }
}
