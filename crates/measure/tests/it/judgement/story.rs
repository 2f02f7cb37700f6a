//! A run told by what happened, and the conclusions that were drawn from it.

use measure::{
    BlockSeen, BlockTx, Cause, ClosedLoop, Codespace, Evidence, LoadModel, MempoolSample, Plan,
    RecorderConfig, Reply, RunEnd, SchedulePlan, Sent, Strength, Summary, Unsent, UnsentReason,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, hash, ms, sent,
};

pub(super) const ENDPOINTS: [&str; 2] = ["http://10.0.0.1:26657", "http://10.0.0.2:26657"];

/// What becomes of one transaction; all instants in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Course {
    Sent {
        at: u64,
        cause: Cause,
        answer: Option<(u64, Reply)>,
    },
    Unsent {
        at: u64,
        reason: UnsentReason,
    },
}

/// Sent when due, and accepted two milliseconds later.
pub(super) fn accepted_at(at: u64) -> Course {
    Course::Sent {
        at,
        cause: Cause::OnTime,
        answer: Some((at + 2, Reply::Accepted)),
    }
}

/// A run, told by what happened.
pub(super) struct Story {
    pub(super) schedule: Schedule,
    pub(super) model: LoadModel,
    pub(super) courses: Vec<Course>,
    /// When each block was seen, and what it contained.
    pub(super) blocks: Vec<(u64, Vec<u64>)>,
    /// When the mempool of the first endpoint was sampled and what was in it, and the same of the second.
    pub(super) mempool: Vec<(u64, u64)>,
    pub(super) second_mempool: Vec<(u64, u64)>,
    /// The code of every transaction in a block.
    pub(super) code: u32,
    pub(super) space: Codespace,
    /// Which transactions have that code in their blocks.
    pub(super) fails: fn(u64) -> bool,
    pub(super) warmup: u64,
    pub(super) offered_until: u64,
    pub(super) ended: u64,
    pub(super) interrupted: bool,
    /// The longest gap in the generator's own loop.
    pub(super) stall: u64,
    /// When the one that watches the blocks could not go on; or, where it `is_behind`, had not read the next one.
    pub(super) unwatched_from: u64,
    pub(super) is_behind: bool,
    /// Whether answers come after the check, and whether blocks are watched.
    pub(super) checked: bool,
    /// How many may be in flight, where the rest waits.
    pub(super) waits_at: Option<u64>,
    pub(super) followed: bool,
    /// Which of the two endpoints a transaction goes to.
    pub(super) endpoint: fn(u64) -> u16,
    /// What a transaction may use, and what a block may have.
    pub(super) gas: Option<(u64, u64)>,
    /// How many accepted transactions each block left behind.
    pub(super) left: Vec<u64>,
    /// What a block costs between the votes for it and its announcement, in milliseconds, by its transactions and
    /// those that it left.
    pub(super) cost: fn(u64, u64) -> u64,
    /// What the clock of the headers is ahead by at a height, in milliseconds.
    pub(super) ahead: fn(u64) -> i64,
}

enum Event {
    Sent(Sent),
    Answered(u64, Reply),
    Unsent(Unsent),
    Block(BlockSeen),
    Mempool(MempoolSample),
}

impl Story {
    /// Every transaction of a schedule as `course` has it, from its index and the millisecond it is due.
    pub(super) fn of(schedule: Schedule, course: impl Fn(u64, u64) -> Course) -> Self {
        let courses = schedule
            .iter()
            .map(|due| course(due.index, due.at.as_millis()));
        let offered_until = schedule.profile().duration().unwrap().as_millis();
        Self {
            courses: courses.collect(),
            model: LoadModel::Open,
            blocks: Vec::new(),
            mempool: Vec::new(),
            second_mempool: Vec::new(),
            code: 0,
            space: Codespace::NONE,
            fails: |_| true,
            warmup: 0,
            offered_until,
            ended: offered_until + 2_000,
            interrupted: false,
            stall: 0,
            unwatched_from: u64::MAX,
            is_behind: false,
            checked: true,
            waits_at: None,
            followed: true,
            endpoint: |_| 0,
            gas: None,
            left: Vec::new(),
            cost: |_, _| 0,
            ahead: |_| 0,
            schedule,
        }
    }

    /// Blocks at these instants, each with what was accepted before it and is in none, `most` at most.
    pub(super) fn with_blocks(
        mut self,
        instants: impl IntoIterator<Item = u64>,
        most: usize,
    ) -> Self {
        let mut accepted: Vec<(u64, u64)> = (0..)
            .zip(&self.courses)
            .filter_map(|(index, course)| match course {
                Course::Sent {
                    answer: Some((at, Reply::Accepted)),
                    ..
                } => Some((*at, index)),
                _ => None,
            })
            .collect();
        accepted.sort_unstable();
        for at in instants {
            let waiting = accepted.partition_point(|(answer, _)| *answer < at);
            let ready = waiting.min(most);
            self.left.push((waiting - ready) as u64);
            let txs = accepted.drain(..ready).map(|(_, index)| index).collect();
            self.blocks.push((at, txs));
        }
        self
    }

    fn events(&self) -> Vec<(Nanos, Event)> {
        let mut events = Vec::new();
        let dues = self.schedule.iter().zip(&self.courses);
        for (index, (due, course)) in (0..).zip(dues) {
            let step = self.schedule.profile().step_at(due.at).index;
            match *course {
                Course::Sent { at, cause, answer } => {
                    let sent = Sent {
                        cause,
                        step,
                        endpoint: (self.endpoint)(index),
                        ..sent(index, due.at, ms(at).max(due.at))
                    };
                    events.push((sent.sent, Event::Sent(sent)));
                    let answer = answer.map(|(at, reply)| (ms(at), Event::Answered(index, reply)));
                    events.extend(answer);
                }
                Course::Unsent { at, reason } => {
                    let at = ms(at).max(due.at);
                    let due = due.at;
                    let unsent = Unsent {
                        index,
                        due,
                        at,
                        step,
                        reason,
                    };
                    events.push((at, Event::Unsent(unsent)));
                }
            }
        }
        let mut voted = ms(0);
        let watched = |block: &&(u64, Vec<u64>)| block.0 < self.unwatched_from;
        for (height, (at, txs)) in (1..).zip(self.blocks.iter().filter(watched)) {
            let mut seen = block(height, ms(*at), &[]);
            seen.header_time_unix_ns = (ORIGIN_UNIX_NS + voted.as_nanos()).cast_signed();
            seen.header_time_unix_ns += (self.ahead)(height) * 1_000_000;
            let left = self.left.get(height as usize - 1).copied().unwrap_or(0);
            voted = ms(at - (self.cost)(txs.len() as u64, left));
            seen.txs = txs
                .iter()
                .map(|index| BlockTx {
                    hash: hash(*index),
                    code: self.code * u32::from((self.fails)(*index)),
                    space: self.space,
                })
                .collect();
            seen.gas_wanted = self.gas.map(|(each, _)| each * txs.len() as u64);
            events.push((seen.observed, Event::Block(seen)));
        }
        let first = self.mempool.iter().map(|sample| (0, sample));
        let second = self.second_mempool.iter().map(|sample| (1, sample));
        for (endpoint, (at, txs)) in first.chain(second) {
            let (at, txs) = (ms(*at), *txs);
            let sample = MempoolSample {
                at,
                endpoint,
                txs,
                bytes: 0,
            };
            events.push((at, Event::Mempool(sample)));
        }
        events.sort_by_key(|(at, _)| *at);
        events
    }

    pub(super) fn summary(&self) -> Summary {
        let config = RecorderConfig {
            model: self.model,
            warmup: ms(self.warmup),
            checked: self.checked,
            waits_at: self.waits_at,
            endpoints: ENDPOINTS.map(str::to_owned).to_vec(),
            block_gas: self.gas.map(|(_, limit)| limit),
            ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, u16::from(self.followed))
        };
        match self.model {
            LoadModel::Open => self.play(config, SchedulePlan::new(self.schedule.clone())),
            LoadModel::Closed => self.play(config, ClosedLoop),
        }
    }

    fn play(&self, config: RecorderConfig, plan: impl Plan) -> Summary {
        let folder = Folder::new();
        let mut recorder = folder.recorder(config, plan);
        if self.interrupted {
            recorder.offering_ended(ms(self.offered_until));
        }
        for (at, event) in self.events() {
            recorder.watermark(SENDER, at);
            if self.followed && at < Nanos::from_millis(self.unwatched_from) {
                recorder.watermark(FOLLOWER, at);
            }
            match event {
                Event::Sent(sent) => recorder.sent(&sent),
                Event::Answered(index, reply) => recorder.answered(&answered(index, at, reply)),
                Event::Unsent(unsent) => recorder.unsent(&unsent),
                Event::Block(block) => recorder.block(block),
                Event::Mempool(sample) => recorder.mempool(&sample),
            }
        }
        if self.unwatched_from < self.ended && !self.is_behind {
            recorder.follower_failed(FOLLOWER);
        }
        recorder.stalled(ms(self.stall));
        let planned = self.schedule.due_before(ms(self.offered_until));
        let end = RunEnd {
            planned: (self.model == LoadModel::Open).then_some(planned),
            offered_until: ms(self.offered_until),
            ended: ms(self.ended),
            interrupted: self.interrupted,
        };
        let summary = recorder.finish(end).summary;
        assert!(summary.conservation.holds, "{:?}", summary.conservation);
        summary
    }
}

/// Blocks every second, half a second after the full one.
pub(super) fn every_second(until_s: u64) -> impl Iterator<Item = u64> {
    (0..until_s).map(|second| second * 1_000 + 500)
}

/// A healthy run at 200/s for ten seconds.
pub(super) fn healthy() -> Story {
    let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
    story.with_blocks(every_second(12), usize::MAX)
}

pub(super) fn ramp(steps: u64) -> Schedule {
    let to = format!("{}/s", steps * 100);
    let profile = Profile::steps(
        "100/s".parse().unwrap(),
        "100/s".parse().unwrap(),
        ms(5_000),
        Some(to.parse().unwrap()),
    );
    Schedule::new(profile.unwrap(), Arrivals::Even)
}

/// The kind of a piece of evidence, as `summary.json` has it.
pub(super) fn kind(evidence: &Evidence) -> String {
    let document = serde_json::to_value(evidence).unwrap();
    document["kind"].as_str().unwrap().to_owned()
}

pub(super) fn found<'a>(summary: &'a Summary, wanted: &str) -> Option<&'a Evidence> {
    summary.evidence.iter().find(|it| kind(it) == wanted)
}

/// The kind of the first finding.
pub(super) fn first(summary: &Summary) -> String {
    summary.evidence.first().map(kind).unwrap_or_default()
}

pub(super) fn strong(summary: &Summary) -> Vec<String> {
    let strong = summary
        .evidence
        .iter()
        .filter(|evidence| evidence.strength >= Strength::Strong);
    strong.map(kind).collect()
}
