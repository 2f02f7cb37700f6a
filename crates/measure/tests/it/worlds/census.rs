//! How many statements were made in many worlds, and how many of them are wrong.

use std::collections::BTreeMap;
use std::fmt;

use base::Random;
use measure::limits::UNSEEN_GROWTH_LIMIT;
use measure::{
    Evidence, EvidenceKind, Finding, KneeEstimate, KneeSearch, KneeSettings, LimitedBy, Next,
    ScheduleVerdict, SearchTime, Strength, Summary, TimedSearch,
};
use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};

use super::play::{constant, nanos};
use super::{Credits, Part, Ranges, Shift, World};

/// What is said, as far as it has a truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Conclusion {
    /// The interval of a search holds the capacity.
    Knee,
    /// The bracket of a ramp holds the capacity.
    Bracket,
    /// A point held or broke.
    Point,
    /// The target or the machine became slower during a search.
    Drift,
    /// A run at four fifths of the capacity was limited by nothing.
    Nothing,
    /// One beyond the capacity was limited by the node.
    Node,
    /// The first thing said of the node names the part that was full.
    Part,
    /// What a generator that stood still is blamed for is not the node's.
    Generator,
    /// What the application refuses is not the node's limit.
    Workload,
    /// A node that stood still is named, however long the run.
    Outage,
    /// A follower that reads blocks more slowly than they come is not the node's limit.
    Follower,
    /// A node that lacks the processor for its load is not the limit, nor an end of a bracket.
    Starved,
    /// One beyond its capacity that lacks it for a short part of the time is the limit.
    Beside,
}

impl Conclusion {
    /// The share of the statements that may be wrong.
    pub(crate) const fn budget(self) -> f64 {
        match self {
            Self::Knee | Self::Bracket => 0.1,
            Self::Nothing | Self::Drift => 0.05,
            _ => 0.01,
        }
    }
}

/// Statements of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) made: u32,
    pub(crate) wrong: u32,
    /// Worlds of which nothing was said.
    pub(crate) open: u32,
}

/// Statements by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Census {
    pub(crate) counts: BTreeMap<Conclusion, Count>,
    /// What was said wrong, and of which seed.
    pub(crate) wrong: Vec<String>,
}

impl Census {
    /// Everything that is said of so many worlds.
    pub(crate) fn of(seeds: std::ops::Range<u64>, ranges: Ranges) -> Self {
        let mut census = Self::default();
        for seed in seeds {
            let world = World::drawn(seed, ranges);
            census.search(&world);
            census.ramp(&world);
            if seed.is_multiple_of(2) {
                census.runs(&world);
            }
        }
        census
    }

    /// One statement: whether it is right, or `None` where nothing was said.
    pub(crate) fn add(
        &mut self,
        kind: Conclusion,
        seed: u64,
        right: Option<bool>,
        said: impl fmt::Debug,
    ) {
        let count = self.counts.entry(kind).or_default();
        match right {
            None => count.open += 1,
            Some(right) => {
                count.made += 1;
                if !right {
                    count.wrong += 1;
                    self.wrong.push(format!("{kind:?}, seed {seed}: {said:?}"));
                }
            }
        }
    }

    /// A search as `txgen search` makes one.
    pub(crate) fn search(&mut self, world: &World) {
        let played = world.searched(TIME_LIMIT_S);
        let truth = played.capacity;
        let knee = played.knee();
        let right = knee.map(|knee| knee.low <= truth && truth <= knee.high);
        self.add(
            Conclusion::Knee,
            world.seed,
            right,
            (truth, knee, world.capacity().1),
        );
        let drift = played.known().drift();
        self.add(
            Conclusion::Drift,
            world.seed,
            Some(drift.is_none() || world.wear > 0.0),
            drift,
        );
        for (rate, finding, capacity) in &played.points {
            let right = match finding {
                // A growth beyond this is what "held" excludes.
                Finding::Held => Some(*rate <= capacity * (1.0 + UNSEEN_GROWTH_LIMIT)),
                Finding::Broken => Some(*rate >= capacity * 0.98),
                _ => None,
            };
            self.add(
                Conclusion::Point,
                world.seed,
                right,
                (rate, finding, capacity),
            );
        }
    }

    /// A ramp over the capacity.
    fn ramp(&mut self, world: &World) {
        let (bracket, capacity, reason) = ramped(world);
        let right = bracket.map(|(low, high)| low <= capacity && capacity <= high);
        let said = (capacity, bracket, reason);
        self.add(Conclusion::Bracket, world.seed, right, said);
    }

    /// Beside programs that have the processor while the node wants it, and beside some of which it does not wait so long
    /// that they explain what it lacks.
    fn neighbours(&mut self, world: &World) {
        let (seed, truth) = (world.seed, world.capacity().0);
        let mut random = Random::new(seed ^ 0xB51);
        let slowed = 0.15 + 0.6 * random.unit();
        let starved = World {
            neighbours: (slowed + (0.95 - slowed) * random.unit(), slowed),
            ..*world
        };
        let beside = World {
            neighbours: (0.2 * random.unit(), 0.0),
            ..*world
        };
        let run = |world: &World, share: f64| {
            let schedule = constant(truth * share, f64::max(30.0, 6.0 * world.interval_s));
            let mut random = Random::new(seed ^ 0x51);
            world.play(&schedule, Nanos::ZERO, 0, &mut random).summary
        };
        let short = run(&starved, 0.9);
        let (bracket, ..) = ramped(&starved);
        let holds = bracket.is_none_or(|(low, high)| low <= truth && truth <= high);
        let right = holds && said(&short) != Some(LimitedBy::Node);
        let words_of = (bracket, words(&short));
        self.add(Conclusion::Starved, seed, Some(right), words_of);
        let full = run(&beside, 1.4);
        let right = Some(said(&full) == Some(LimitedBy::Node));
        self.add(Conclusion::Beside, seed, right, words(&full));
    }

    /// Runs below and beyond the capacity, and with a fault each.
    fn runs(&mut self, world: &World) {
        self.neighbours(world);
        let seed = world.seed;
        let (truth, part) = world.capacity();
        let run = |world: &World, share: f64, seconds: f64| {
            let mut random = Random::new(world.seed ^ 0x51);
            let schedule = constant(truth * share, seconds.max(6.0 * world.interval_s));
            world.play(&schedule, Nanos::ZERO, 0, &mut random).summary
        };
        let healthy = run(world, 0.8, 20.0);
        let is = |summary: &Summary, by| said(summary).map(|it| it == by);
        self.add(
            Conclusion::Nothing,
            seed,
            is(&healthy, LimitedBy::Nothing),
            words(&healthy),
        );
        if matches!(part, Part::Check | Part::Front) {
            let finding = |share: f64| world.unfollowed(truth * share, 20.0).finding;
            let (below, beyond) = (finding(0.85), finding(1.2));
            let right = below != Finding::Broken && beyond != Finding::Held;
            let said = ("without blocks", below, beyond);
            self.add(Conclusion::Point, seed, Some(right), said);
        }
        let full = run(world, 1.4, 40.0);
        self.add(
            Conclusion::Node,
            seed,
            is(&full, LimitedBy::Node),
            words(&full),
        );
        self.add(
            Conclusion::Part,
            seed,
            names(&full, part),
            (part, words(&full)),
        );
        let busy = World {
            busy: Some((0.4, 10.0)),
            ..*world
        };
        let busy = run(&busy, 0.6, 30.0);
        self.add(
            Conclusion::Generator,
            seed,
            said(&busy).map(|by| by != LimitedBy::Node),
            words(&busy),
        );
        let refusing = World {
            refused: 0.05,
            ..*world
        };
        let refusing = run(&refusing, 0.6, 20.0);
        self.add(
            Conclusion::Workload,
            seed,
            said(&refusing).map(|by| by == LimitedBy::Workload),
            words(&refusing),
        );
        let length_s = f64::max(8.0, 5.0 * world.interval_s);
        let stalled = World {
            stall: Some((length_s, 600.0)),
            ..*world
        };
        let stalled = run(&stalled, 0.3, 600.0);
        let silence =
            |it: &Evidence| matches!(it.kind, EvidenceKind::NoAnswers | EvidenceKind::NoBlocks);
        let is_first = stalled.evidence.first().is_some_and(silence);
        let right = said(&stalled).map(|by| by == LimitedBy::Node && is_first);
        self.add(Conclusion::Outage, seed, right, words(&stalled));
        let behind = World {
            read_s: (1.2 + (seed % 10) as f64 / 5.0) * world.interval_s,
            ..*world
        };
        let behind = run(&behind, 0.8, 40.0);
        let right = Some(said(&behind) != Some(LimitedBy::Node));
        self.add(Conclusion::Follower, seed, right, words(&behind));
    }
}

/// Searches of worlds whose capacity changes meanwhile, or does not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drifts {
    pub(crate) searches: u32,
    /// It is said that the target changed.
    pub(crate) said: u32,
    /// The interval that is given holds the capacity at the end of the last load, or misses it by 5 % at most; misses it by more, although a
    /// change is said; and does without a word of one.
    pub(crate) right: u32,
    pub(crate) wrong_said: u32,
    pub(crate) wrong: u32,
    /// No interval: nothing is known of the knee by now, or what was offered for longer did not hold.
    pub(crate) open: u32,
    pub(crate) seeds: Vec<u64>,
}

impl Drifts {
    /// Of so many worlds whose capacity becomes this multiple over so long, at any time of what is left of the search.
    pub(crate) fn of(seeds: std::ops::Range<u64>, ranges: Ranges, to: f64, over_s: f64) -> Self {
        let mut drifts = Self::default();
        for seed in seeds {
            let world = World::drawn(seed, ranges);
            if world.is_limited_by_rule() {
                continue;
            }
            let from_s = (DRIFT_LIMIT_S - over_s) * Random::new(seed ^ 0xD21F).unit();
            let shift = Shift { from_s, over_s, to };
            let world = World { shift, ..world };
            drifts.add(seed, &world.searched(DRIFT_LIMIT_S));
        }
        drifts
    }

    /// Of so many worlds whose node has credits for so many seconds: its capacity is what it has without any.
    pub(crate) fn of_credits(
        seeds: std::ops::Range<u64>,
        ranges: Ranges,
        seconds: [f64; 2],
    ) -> Self {
        let mut drifts = Self::default();
        for seed in seeds {
            let world = World::drawn(seed, ranges).with_credits(seconds);
            drifts.add(seed, &world.searched(DRIFT_LIMIT_S));
        }
        drifts
    }

    fn add(&mut self, seed: u64, searched: &Searched) {
        let is_said = searched.known().drift().is_some();
        self.searches += 1;
        self.said += u32::from(is_said);
        let truth = searched.capacity;
        let knee = searched.knee();
        let holds = knee.map(|knee| knee.low * 0.95 <= truth && truth <= knee.high * 1.05);
        match (holds, is_said) {
            (None, _) => self.open += 1,
            (Some(true), _) => self.right += 1,
            (Some(false), true) => self.wrong_said += 1,
            (Some(false), false) => {
                self.wrong += 1;
                self.seeds.push(seed);
            }
        }
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, Count { made, wrong, open }) in &self.counts {
            let share = 100.0 * f64::from(*wrong) / f64::from((*made).max(1));
            let budget = 100.0 * kind.budget();
            writeln!(
                f,
                "| {kind:?} | {made} | {wrong} | {share:.1} % | {budget:.0} % | {open} |"
            )?;
        }
        Ok(())
    }
}

/// The bracket of a ramp over the capacity, the capacity in it, and why it is so.
fn ramped(world: &World) -> (Option<(f64, f64)>, f64, String) {
    let mut random = Random::new(world.seed ^ 0x7A3);
    let (truth, _) = world.capacity();
    let first = truth * (0.3 + 0.3 * random.unit());
    let each_s = f64::max(5.0, 4.0 * world.interval_s);
    let steps = Profile::steps(
        rate(first),
        format!("{:.3}/s", first * 0.5)
            .parse()
            .expect("so are rises"),
        nanos(each_s),
        Some(rate(truth * 1.7)),
    );
    let schedule = Schedule::new(steps.expect("steps of worlds are ordinary"), Arrivals::Even);
    let played = world.play(&schedule, Nanos::ZERO, 0, &mut random);
    let summary = &played.summary;
    let bracket = summary
        .knee
        .as_ref()
        .map(|knee| (knee.rate_tps, knee.below_tps.unwrap_or(f64::INFINITY)));
    (bracket, played.capacity, summary.knee_reason.clone())
}

/// What limited a run that ends with exit 0.
fn said(summary: &Summary) -> Option<LimitedBy> {
    let is_open = summary.verdict.schedule == ScheduleVerdict::Invalid;
    let by = summary.limited_by;
    (!is_open && by != LimitedBy::Unknown).then_some(by)
}

/// Whether the first part that is said to limit a run is this one; `None` where none is.
fn names(summary: &Summary, part: Part) -> Option<bool> {
    said(summary)?;
    let is_strong = |it: &&Evidence| it.strength >= Strength::Strong;
    let mut strong = summary.evidence.iter().filter(is_strong);
    strong.find_map(|it| match &it.kind {
        EvidenceKind::BlocksFull { .. } => Some(part == Part::BlockSize),
        EvidenceKind::BlocksOutOfGas { .. } => Some(part == Part::Gas),
        EvidenceKind::SerialStage(stage) => Some(match part {
            Part::Execution => matches!(stage, measure::StageEvidence::Blocks { .. }),
            Part::Check | Part::Front => matches!(stage, measure::StageEvidence::Answers { .. }),
            _ => false,
        }),
        _ => None,
    })
}

fn words(summary: &Summary) -> String {
    let evidence = summary.evidence.iter().take(3);
    let kinds: Vec<String> = evidence
        .map(|it| format!("{:?} {:?}", it.strength, it.kind))
        .collect();
    format!(
        "{:?} {:?} {kinds:?}",
        summary.limited_by, summary.verdict.schedule
    )
}

fn rate(tps: f64) -> Rate {
    Rate::from_f64(tps).expect("rates of worlds are ordinary")
}

/// A search that ended.
pub(crate) struct Searched {
    search: TimedSearch,
    /// When the last load ended, without what varies from run to run: what changes later nobody can have seen.
    pub(crate) capacity: f64,
    /// Rate, finding and the capacity that the run had.
    pub(crate) points: Vec<(f64, Finding, f64)>,
}

impl Searched {
    pub(crate) const fn known(&self) -> &KneeSearch {
        self.search.known()
    }

    /// The interval that `txgen search` names.
    fn knee(&self) -> Option<KneeEstimate> {
        let knee = self.known().estimate();
        knee.filter(|_| !self.search.is_refuted() && !self.known().is_in_doubt())
    }
}

impl World {
    /// Looks for the capacity for so long.
    pub(crate) fn searched(&self, limit_s: f64) -> Searched {
        let mut random = Random::new(self.seed ^ 0x5EA);
        let settings = KneeSettings {
            from: 10.0,
            min: 1.0,
            max: 1_000.0,
            ..KneeSettings::default()
        };
        let time = SearchTime {
            limit: nanos(limit_s),
            trial: nanos(POINT_S),
            confirm: nanos(CONFIRM_S),
        };
        let mut search = TimedSearch::new(settings, time);
        let (mut passed_s, mut loaded_s, mut before, mut points) = (0.0, 0.0, 0, Vec::new());
        let mut credits = self.credits;
        let lasts = |length: f64| nanos(POINT_S * length);
        while let Next::Try { rate, length, .. } = search.next(nanos(passed_s), lasts) {
            let now = Self {
                begins_s: passed_s,
                credits,
                ..*self
            };
            let (trial, played) = now.point(rate, POINT_S * length, before, &mut random);
            credits = credits.map(|it| Credits {
                left: played.credits,
                ..it
            });
            loaded_s = passed_s + POINT_S * length;
            passed_s += played.summary.time.ended_s;
            before += played.committed;
            points.push((rate, trial.finding, played.capacity));
            search.add(trial);
        }
        let now = Self {
            begins_s: loaded_s,
            ..*self
        };
        Searched {
            search,
            capacity: self.capacity().0 * self.worn(before) * now.shifted(0.0),
            points,
        }
    }
}

/// A point's usual length.
const POINT_S: f64 = 20.0;
/// What `txgen search` has by default, and the part of it that is the confirmation's.
const TIME_LIMIT_S: f64 = 300.0;
const CONFIRM_S: f64 = 120.0;
/// Of a search of a world that changes.
const DRIFT_LIMIT_S: f64 = 480.0;
