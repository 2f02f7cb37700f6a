//! One run in a world: the recorder's input, transaction by transaction.

mod saturated;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Sink};

use base::Random;
use measure::judge::{Point, PointJudgement, answer_mark};
use measure::{
    Answered, BlockMark, BlockSeen, BlockTx, Cause, Codespace, Counts, MempoolSample, Recorder,
    RecorderConfig, Reply, RunEnd, RunFolderWriters, SchedulePlan, Sent, SeriesRow, SourceId,
    Summary, Trial, TxHash, hash_prefix,
};
use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};

use super::{PLENTY, World};
use crate::models::normal;

/// A run that ended.
pub(crate) struct Played {
    pub(crate) summary: Summary,
    pub(crate) blocks: Vec<BlockMark>,
    /// Answers by the second in which they came.
    pub(crate) answers: BTreeMap<u64, u64>,
    /// What the capacity was in it, by the end.
    pub(crate) capacity: f64,
    pub(crate) committed: u64,
    /// The node's, by its last block.
    pub(crate) credits: f64,
}

enum Event {
    Sent(Sent),
    Answered(Answered),
    Block(BlockSeen),
    Mempool(MempoolSample),
}

/// The node in one run.
struct Node<'a> {
    world: &'a World,
    random: &'a mut Random,
    /// What its capacities are multiplied by.
    factor: f64,
    committed_before: u64,
    committed: u64,
    /// See [`Credits`](super::Credits).
    credits: f64,
    of_sizes: u64,
    /// Checked, in order, and from when.
    pool: VecDeque<(u64, f64)>,
    check_free: f64,
    front_free: f64,
    read_free: f64,
    height: u64,
    voted: f64,
    announced: f64,
    next_vote: f64,
    events: Vec<(f64, Event)>,
    blocks: Vec<BlockMark>,
}

impl World {
    /// Offers one rate for a while, as a point of a search, and judges it.
    pub(crate) fn point(
        &self,
        rate: f64,
        seconds: f64,
        before: u64,
        random: &mut Random,
    ) -> (Trial, Played) {
        let schedule = constant(rate, seconds);
        let warmup = nanos(seconds / 4.0);
        let played = self.play(&schedule, warmup, before, random);
        let point = Point {
            summary: &played.summary,
            blocks: &played.blocks,
            schedule: Some(&schedule),
            rate,
            warmup,
            followed: true,
            broken_limits: &[],
        };
        (point.judge().trial(rate), played)
    }

    /// The same, of a load that watches no blocks.
    pub(crate) fn unfollowed(&self, rate: f64, seconds: f64) -> PointJudgement {
        let schedule = constant(rate, seconds);
        let warmup = nanos(seconds / 4.0);
        let played = self.play(&schedule, warmup, 0, &mut Random::new(self.seed));
        let row = |(second, accepted): (u64, u64)| SeriesRow {
            second,
            counts: Counts {
                accepted,
                ..Counts::default()
            },
            ..SeriesRow::default()
        };
        let rows = played.answers.into_iter().map(row);
        let point = Point {
            summary: &played.summary,
            blocks: &rows.map(|row| answer_mark(&row)).collect::<Vec<_>>(),
            schedule: Some(&schedule),
            rate,
            warmup,
            followed: false,
            broken_limits: &[],
        };
        point.judge()
    }

    /// Plays a schedule to its end, and waits for what was accepted for half a minute or three blocks. The node has
    /// committed `before` in earlier runs.
    pub(crate) fn play(
        &self,
        schedule: &Schedule,
        warmup: Nanos,
        before: u64,
        random: &mut Random,
    ) -> Played {
        let factor = self.of_run(random);
        let offered_until = schedule
            .profile()
            .duration()
            .map_or(0.0, Nanos::as_secs_f64);
        let mut node = Node::new(self, factor, before, random);
        let mut planned = 0;
        let mut last_answer: f64 = 0.0;
        for due in schedule.iter() {
            planned += 1;
            last_answer = node.take(
                due.index,
                due.at.as_secs_f64(),
                schedule.profile().step_at(due.at).index,
            );
        }
        let until = offered_until.max(last_answer) + f64::max(30.0, 3.0 * self.interval_s);
        let mut ended = offered_until.max(last_answer);
        while !node.pool.is_empty() && ended < until {
            ended = node.next_vote + self.link_s;
            node.advance(node.next_vote);
        }
        let ended = ended.max(node.read_free.min(until)) + 0.3;
        let capacity = self.capacity().0
            * factor
            * self.worn(before + node.committed)
            * self.shifted(offered_until);
        let (committed, blocks, credits) = (node.committed, node.blocks, node.credits);
        let events = node.events;
        let mut answers = BTreeMap::new();
        for (at, _) in events
            .iter()
            .filter(|(_, event)| matches!(event, Event::Answered(_)))
        {
            *answers.entry(*at as u64).or_default() += 1;
        }
        Played {
            answers,
            summary: self.told(schedule, events, (warmup, planned, ended)),
            blocks,
            capacity,
            committed,
            credits,
        }
    }

    /// What a recorder makes of it.
    fn told(
        &self,
        schedule: &Schedule,
        mut events: Vec<(f64, Event)>,
        (warmup, planned, ended): (Nanos, u64, f64),
    ) -> Summary {
        events.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let config = RecorderConfig {
            warmup,
            max_pending: 1 << 17,
            block_gas: Some((self.gas_tps * self.interval_s * GAS as f64) as u64),
            endpoints: vec!["http://10.0.0.1:26657".to_owned()],
            ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
        };
        let mut recorder = Recorder::new(config, SchedulePlan::new(schedule.clone()), sinks());
        let blocks = events.iter().filter_map(|(read, event)| match event {
            Event::Block(block) => Some((*read, block.observed)),
            _ => None,
        });
        let mut unread = blocks.collect::<Vec<_>>().into_iter().peekable();
        let mut marked = 0.0;
        for (at, event) in events.into_iter().take_while(|(at, _)| *at <= ended) {
            while marked + TICK_S <= at {
                marked += TICK_S;
                recorder.node_lacked(nanos(marked), nanos(self.neighbours.0 * TICK_S));
                recorder.watermark(SENDER, nanos(marked));
                // A follower stops at a block that was announced and that it has not read.
                while unread.next_if(|(read, _)| *read <= marked).is_some() {}
                let announced = unread.peek().map_or(Nanos::MAX, |(_, observed)| *observed);
                recorder.watermark(FOLLOWER, announced.min(nanos(marked)));
            }
            match event {
                Event::Sent(sent) => recorder.sent(&sent),
                Event::Answered(answered) => recorder.answered(&answered),
                Event::Block(block) => recorder.block(block),
                Event::Mempool(sample) => recorder.mempool(&sample),
            }
        }
        if let Some((_, length_s)) = self.busy {
            recorder.stalled(nanos(length_s));
        }
        let offered_until = schedule.profile().duration().unwrap_or(Nanos::ZERO);
        let end = RunEnd {
            planned: Some(planned),
            offered_until,
            ended: nanos(ended),
            interrupted: false,
        };
        recorder.finish(end).summary
    }
}

impl<'a> Node<'a> {
    fn new(world: &'a World, factor: f64, committed_before: u64, random: &'a mut Random) -> Self {
        let first = world.interval_s * random.unit();
        let of_sizes = random.word();
        Self {
            world,
            random,
            factor,
            committed_before,
            committed: 0,
            credits: world.credits.map_or(0.0, |it| it.left),
            of_sizes,
            pool: VecDeque::new(),
            check_free: 0.0,
            front_free: 0.0,
            read_free: 0.0,
            height: 0,
            voted: first - world.interval_s,
            announced: first - world.interval_s,
            next_vote: first,
            events: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// What its capacities are multiplied by now.
    fn share(&self, at: f64) -> f64 {
        let worn = self.world.worn(self.committed_before + self.committed);
        let credit = self.world.credits.filter(|_| self.credits > 0.0);
        self.factor * worn * self.world.shifted(at) * credit.map_or(1.0, |it| it.factor)
    }

    /// What it has saved since the last block, of which it has committed so many; it may owe some.
    fn save(&mut self, since_s: f64, committed: usize) {
        let Some(credits) = self.world.credits else {
            return;
        };
        let could = self.world.capacity().0 * self.factor * since_s;
        self.credits = (self.credits + could - committed as f64).min(credits.most);
    }

    /// Of the transaction with this number: up to twice the mean. Each run has its own sizes: a sample that all runs of a search
    /// share would move all of them by its mean.
    fn size(&self, index: u64) -> u32 {
        let unit = Random::new(self.of_sizes ^ base::mix(index)).unit();
        let size = 1.0 + self.world.sizes * (2.0 * unit - 1.0);
        (USUAL_BYTES * size).round().max(1.0) as u32
    }

    /// How many of the first that wait fit into a block by their bytes.
    fn fit(&self) -> usize {
        if self.world.bytes_tps >= PLENTY {
            return usize::MAX;
        }
        let bytes = self.world.bytes_tps * self.world.interval_s * USUAL_BYTES;
        let sizes = self.pool.iter().map(|(index, _)| self.size(*index));
        let sums = sizes.scan(0.0, |sum, size| {
            *sum += f64::from(size);
            Some(*sum)
        });
        sums.take_while(|sum| *sum <= bytes).count()
    }

    /// Takes the next transaction, and says when it was answered.
    fn take(&mut self, index: u64, due: f64, step: u32) -> f64 {
        let world = self.world;
        let sent = world.busy.map_or(due, |pause| after(due, pause));
        let arrived = sent + world.link_s / 2.0;
        let passed = arrived.max(self.front_free);
        self.front_free = passed + 1.0 / (world.front_tps * self.factor * world.shifted(passed));
        let start = self.start_of_check(passed.max(self.check_free));
        let share = self.share(start);
        let checked = self.end_of_check(start, 1.0 / (world.check_tps * share));
        self.check_free = checked;
        let reply = if self.pool.len() >= world.mempool {
            Reply::RpcError { code: -32603 }
        } else if self.random.unit() < world.refused {
            Reply::Rejected {
                code: 5,
                space: Codespace::NONE,
            }
        } else {
            self.pool.push_back((index, checked));
            Reply::Accepted
        };
        let late = sent - due > 1e-3;
        let event = Sent {
            index,
            hash: hash(index),
            size: self.size(index),
            due: nanos(due),
            sent: nanos(sent),
            endpoint: 0,
            step,
            cause: if late { Cause::Schedule } else { Cause::OnTime },
            own_late: late,
        };
        self.events.push((sent, Event::Sent(event)));
        let at = checked + world.link_s / 2.0;
        let answered = Answered {
            index,
            hash_prefix: hash_prefix(&hash(index)),
            at: nanos(at),
            reply,
        };
        self.events.push((at, Event::Answered(answered)));
        at
    }

    /// Not in the pause after a block, nor while the node stands still; makes the blocks until then.
    fn start_of_check(&mut self, ready: f64) -> f64 {
        let mut start = ready;
        loop {
            self.advance(start);
            let paused_until = self.announced + self.world.pause_s;
            let next = if start >= self.announced && start < paused_until {
                paused_until
            } else {
                self.world.stall.map_or(start, |pause| after(start, pause))
            };
            if next <= start {
                return start;
            }
            start = next;
        }
    }

    /// One that is under way when a block ends goes on after the pause.
    fn end_of_check(&mut self, start: f64, takes: f64) -> f64 {
        let end = start + takes;
        self.advance(end);
        if (start..end).contains(&self.announced) {
            end + self.world.pause_s
        } else {
            end
        }
    }

    /// Makes the blocks that are voted for until then.
    fn advance(&mut self, until: f64) {
        while self.next_vote <= until {
            self.block();
        }
    }

    fn block(&mut self) {
        let world = self.world;
        let share = self.share(self.next_vote);
        let noise = (1.0 + world.block_noise * normal(self.random)).max(0.2);
        let size = world.block_tps * world.interval_s * share;
        let room = if size < PLENTY_A_BLOCK {
            size * noise
        } else {
            size
        };
        // Gas is a rule of the chain: it varies neither from block to block nor from run to run.
        let room = room.min(world.gas_tps * world.interval_s);
        let voted = self.next_vote;
        let ready = self
            .pool
            .iter()
            .take_while(|(_, ready)| *ready <= voted)
            .count();
        let count = ready.min(stochastic(room, self.random));
        let count = count.min(self.fit());
        self.save(voted - self.voted, count);
        let txs: Vec<u64> = self.pool.drain(..count).map(|(index, _)| index).collect();
        self.committed += count as u64;
        let execution = count as f64 / (world.execute_tps * share);
        let announced = voted + execution;
        let observed = announced + world.link_s / 2.0;
        let header = self.voted;
        self.height += 1;
        let jitter = 1.0 + world.jitter * normal(self.random);
        let next = voted + world.interval_s * jitter.max(0.2);
        let next = next.max(announced);
        (self.voted, self.announced) = (voted, announced);
        self.next_vote = world.stall.map_or(next, |pause| after(next, pause));
        let waiting = self.pool.len() as u64;
        for (at, txs) in [(voted, waiting + count as u64), (announced, waiting)] {
            let sample = MempoolSample {
                at: nanos(at),
                endpoint: 0,
                txs,
                bytes: 0,
            };
            self.events.push((at, Event::Mempool(sample)));
        }
        self.read_free = self.read_free.max(observed) + world.read_s;
        self.blocks.push(BlockMark {
            observed: nanos(observed),
            committed: count as u64,
        });
        let block = self.seen(&txs, header, observed);
        self.events.push((self.read_free, Event::Block(block)));
    }

    fn seen(&self, txs: &[u64], header: f64, observed: f64) -> BlockSeen {
        BlockSeen {
            height: self.height,
            header_time_unix_ns: ORIGIN_UNIX_NS.cast_signed() + (header * 1e9) as i64,
            observed: nanos(observed),
            resolution: None,
            gas_wanted: Some(GAS * txs.len() as u64),
            gas_used: None,
            bytes: txs.iter().map(|it| u64::from(self.size(*it))).sum(),
            txs: txs
                .iter()
                .map(|index| BlockTx {
                    hash: hash(*index),
                    code: 0,
                    space: Codespace::NONE,
                })
                .collect(),
        }
    }
}

/// The instant, or the end of the pause that it lies in: one of `length_s` once in `every_s`.
fn after(at: f64, (length_s, every_s): (f64, f64)) -> f64 {
    // The first one comes after half of the time.
    let place = (at + every_s / 2.0).rem_euclid(every_s);
    if place < length_s {
        at - place + length_s
    } else {
        at
    }
}

/// A whole number with this mean.
fn stochastic(mean: f64, random: &mut Random) -> usize {
    let whole = mean.max(0.0).floor();
    whole as usize + usize::from(random.unit() < mean - whole)
}

pub(super) fn constant(rate: f64, seconds: f64) -> Schedule {
    let rate = Rate::from_f64(rate).expect("rates of worlds are ordinary");
    let profile = Profile::constant(rate, Some(nanos(seconds))).expect("so are lengths");
    Schedule::new(profile, Arrivals::Even)
}

pub(super) fn nanos(seconds: f64) -> Nanos {
    Nanos::from_nanos((seconds.max(0.0) * 1e9) as u64)
}

/// A hash that is different for each number.
fn hash(number: u64) -> TxHash {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&base::mix(number).to_be_bytes());
    hash[24..].copy_from_slice(&number.to_be_bytes());
    hash
}

fn sinks() -> RunFolderWriters<Sink> {
    RunFolderWriters {
        txs: io::sink(),
        series: io::sink(),
        steps: io::sink(),
        blocks: io::sink(),
        hlog: io::sink(),
        answers: io::sink(),
    }
}

const ORIGIN_UNIX_NS: u64 = 1_795_132_800_123_456_789;
const SENDER: SourceId = SourceId(0);
const FOLLOWER: SourceId = SourceId(1);
const TICK_S: f64 = 0.1;
/// Of a transaction of mean size.
const USUAL_BYTES: f64 = 250.0;
/// Of one transaction.
const GAS: u64 = 1_000;
const PLENTY_A_BLOCK: f64 = 1e5;
