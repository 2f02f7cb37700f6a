//! What is concluded from runs whose story is known: rates, steps, what limited them, and each statement
//! beside a run of which the opposite is true.

use measure::{
    BlockSeen, BlockTx, Cause, ClosedLoop, LimitedBy, LoadModel, MempoolSample, Plan,
    RecorderConfig, Reply, RunEnd, SchedulePlan, ScheduleVerdict, Sent, Summary, Unsent,
    UnsentReason,
};
use measure::{Evidence, EvidenceKind, Strength};
use pacing::{Arrivals, Nanos, Profile, Schedule, Step};

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, hash, ms, sent,
};

/// What becomes of one transaction; all instants in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Course {
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
fn accepted_at(at: u64) -> Course {
    Course::Sent {
        at,
        cause: Cause::OnTime,
        answer: Some((at + 2, Reply::Accepted)),
    }
}

/// A run, told by what happened.
struct Story {
    schedule: Schedule,
    model: LoadModel,
    courses: Vec<Course>,
    /// When each block was seen, and what it contained.
    blocks: Vec<(u64, Vec<u64>)>,
    mempool: Vec<(u64, u64)>,
    /// The code of every transaction in a block.
    code: u32,
    warmup: u64,
    offered_until: u64,
    ended: u64,
    interrupted: bool,
    /// The longest gap in the generator's own loop.
    stall: u64,
    /// Whether answers come after the check, and whether blocks are watched.
    checked: bool,
    followed: bool,
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
    fn of(schedule: Schedule, course: impl Fn(u64, u64) -> Course) -> Self {
        let courses = schedule
            .iter()
            .map(|due| course(due.index, due.at.as_millis()));
        let offered_until = schedule.profile().duration().unwrap().as_millis();
        Self {
            courses: courses.collect(),
            model: LoadModel::Open,
            blocks: Vec::new(),
            mempool: Vec::new(),
            code: 0,
            warmup: 0,
            offered_until,
            ended: offered_until + 2_000,
            interrupted: false,
            stall: 0,
            checked: true,
            followed: true,
            schedule,
        }
    }

    /// Blocks at these instants, each with what was accepted before it and is in none, `most` at most.
    fn with_blocks(mut self, instants: impl IntoIterator<Item = u64>, most: usize) -> Self {
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
            let ready = accepted
                .partition_point(|(answer, _)| *answer < at)
                .min(most);
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
        for (height, (at, txs)) in (1..).zip(&self.blocks) {
            let mut seen = block(height, ms(*at), &[]);
            seen.txs = txs
                .iter()
                .map(|index| BlockTx {
                    hash: hash(*index),
                    code: self.code,
                })
                .collect();
            events.push((seen.observed, Event::Block(seen)));
        }
        for (at, txs) in &self.mempool {
            let (at, txs) = (ms(*at), *txs);
            let sample = MempoolSample {
                at,
                endpoint: 0,
                txs,
                bytes: 0,
            };
            events.push((at, Event::Mempool(sample)));
        }
        events.sort_by_key(|(at, _)| *at);
        events
    }

    fn summary(&self) -> Summary {
        let config = RecorderConfig {
            model: self.model,
            warmup: ms(self.warmup),
            checked: self.checked,
            ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, u16::from(self.followed))
        };
        match self.model {
            LoadModel::Open => self.play(config, SchedulePlan::new(self.schedule.clone())),
            LoadModel::Closed => {
                let end = Some(ms(self.offered_until));
                let rate = "0/s".parse().unwrap();
                let (index, start, pause) = (0, Nanos::ZERO, false);
                self.play(
                    config,
                    ClosedLoop::new(Step {
                        index,
                        start,
                        end,
                        rate,
                        pause,
                        again_of: None,
                    }),
                )
            }
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
            if self.followed {
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
fn every_second(until_s: u64) -> impl Iterator<Item = u64> {
    (0..until_s).map(|second| second * 1_000 + 500)
}

/// A healthy run at 200/s for ten seconds.
fn healthy() -> Story {
    let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
    story.with_blocks(every_second(12), usize::MAX)
}

fn ramp(steps: u64) -> Schedule {
    let to = format!("{}/s", steps * 100);
    let profile = Profile::steps(
        "100/s".parse().unwrap(),
        "100/s".parse().unwrap(),
        ms(5_000),
        Some(to.parse().unwrap()),
    );
    Schedule::new(profile.unwrap(), Arrivals::Even)
}

fn found(summary: &Summary, kind: EvidenceKind) -> Option<&Evidence> {
    summary
        .evidence
        .iter()
        .find(|evidence| evidence.kind == kind)
}

fn strong(summary: &Summary) -> Vec<EvidenceKind> {
    let strong = summary
        .evidence
        .iter()
        .filter(|evidence| evidence.strength >= Strength::Strong);
    strong.map(|evidence| evidence.kind).collect()
}

// Rates.

#[test]
fn what_left_after_the_end_is_not_in_the_rate_that_was_sent() {
    // 1,200/s for 5 s, of which a node that is slow lets 720/s out; the rest follows in the drain.
    let story = Story::of(constant("1200/s", "5s"), |index, due| {
        let at = index * 1_000 / 720;
        Course::Sent {
            at: at.max(due),
            cause: Cause::Node,
            answer: Some((at.max(due) + 2, Reply::Accepted)),
        }
    });
    let story = Story {
        ended: 9_000,
        ..story
    };
    let summary = story.with_blocks(every_second(9), usize::MAX).summary();
    assert_eq!(summary.offered.sent, 6_000);
    assert_eq!(summary.rate.planned_tps, Some(1_200.0));
    let sent = summary.rate.sent_tps.unwrap();
    assert!((sent - 720.0).abs() < 1.0, "{sent}");
    assert_eq!(healthy().summary().rate.sent_tps, Some(200.0));
}

#[test]
fn a_steady_200_a_second_in_blocks_is_committed_at_200_a_second() {
    let summary = healthy().summary();
    let committed = summary.rate.committed_tps.unwrap();
    assert_eq!(committed.mean, 200.0);
    assert_eq!(committed.max, 200.0);
    // The warm-up is left out, wherever it cuts between two blocks.
    let warm = Story {
        warmup: 3_700,
        ..healthy()
    };
    assert_eq!(warm.summary().rate.committed_tps.unwrap().mean, 200.0);
}

#[test]
fn a_load_too_short_for_two_blocks_has_no_committed_rate() {
    let story = Story::of(constant("200/s", "1s"), |_, due| accepted_at(due));
    let short = story.with_blocks([1_200, 2_200], usize::MAX).summary();
    assert_eq!(short.fate.committed, 200);
    assert_eq!(short.rate.committed_tps, None, "it cannot be told");
    // A chain that is fast enough can be measured in the same time.
    let story = Story::of(constant("200/s", "1s"), |_, due| accepted_at(due));
    let fast = story.with_blocks((1..20).map(|tenth| tenth * 100), usize::MAX);
    assert_eq!(fast.summary().rate.committed_tps.unwrap().mean, 200.0);
}

// Steps.

#[test]
fn answers_that_come_after_the_edge_of_a_step_are_counted_in_it() {
    let profile = Profile::steps(
        "100/s".parse().unwrap(),
        "100/s".parse().unwrap(),
        ms(2_000),
        Some("300/s".parse().unwrap()),
    );
    let schedule = Schedule::new(profile.unwrap(), Arrivals::Even);
    let story = Story::of(schedule, |_, due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 120, Reply::Accepted)),
    });
    let summary = story.with_blocks(every_second(8), usize::MAX).summary();
    assert_eq!(
        summary.steps[0].counts.accepted, 188,
        "94 % within the step"
    );
    assert_eq!(summary.steps[0].cohort.due_accepted, 200);
    assert!(
        summary.knee_reason.starts_with("every step was sustained:"),
        "{}",
        summary.knee_reason
    );
}

/// The node gives no sign from `from` to `until`, then answers everything at once.
fn stalling(steps: u64, from: u64, until: u64) -> Summary {
    let story = Story::of(ramp(steps), |_, due| {
        let answer = match (from..until).contains(&(due + 2)) {
            true => until,
            false => due + 2,
        };
        Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: Some((answer, Reply::Accepted)),
        }
    });
    let blocks = every_second(steps * 5 + 2).filter(|at| !(from..until).contains(at));
    story
        .with_blocks(blocks.collect::<Vec<_>>(), usize::MAX)
        .summary()
}

#[test]
fn a_stall_in_one_step_does_not_hide_that_the_later_ones_were_sustained() {
    let summary = stalling(8, 17_000, 22_600);
    assert_eq!(summary.knee, None);
    assert_eq!(
        summary.knee_reason,
        "every step was sustained, except step 3 (stall of 3.4 s): the knee lies above the highest rate offered"
    );
}

#[test]
fn a_stall_that_the_node_makes_up_for_within_its_step_costs_nothing() {
    let summary = stalling(4, 11_000, 13_000);
    assert!(
        summary.knee_reason.starts_with("every step was sustained:"),
        "{}",
        summary.knee_reason
    );
}

#[test]
fn steps_beyond_a_chains_capacity_are_not_sustained_although_all_is_committed_in_the_end() {
    // 300 a block and a second.
    let story = Story::of(ramp(6), |_, due| accepted_at(due));
    let story = Story {
        ended: 60_000,
        ..story
    };
    let summary = story.with_blocks(every_second(60), 300).summary();
    assert_eq!(summary.fate.pending, 0);
    assert_eq!(
        summary.knee.as_ref().unwrap().rate_tps,
        300.0,
        "{}",
        summary.knee_reason
    );
    assert_eq!(summary.limited_by, LimitedBy::Node);
    assert!(strong(&summary).contains(&EvidenceKind::StepsFailed));
    let full = found(&summary, EvidenceKind::BlocksFull).unwrap();
    assert!(
        full.text.contains("full at 300 transactions"),
        "{}",
        full.text
    );
}

#[test]
fn a_node_that_fails_every_transaction_in_its_block_did_not_keep_up() {
    let failing = Story {
        code: 7,
        ..healthy()
    }
    .summary();
    assert_eq!(failing.fate.commit_failed, 2_000);
    assert_eq!(failing.limited_by, LimitedBy::Node);
    assert_eq!(
        failing.knee_reason,
        "already the first step (200/s) was not sustained: 100.0 % of offered was committed with an error code"
    );
    let found = found(&failing, EvidenceKind::FailedInBlocks).unwrap();
    assert_eq!((found.txs, found.strength), (2_000, Strength::Strong));
    let healthy = healthy().summary();
    assert_eq!(healthy.limited_by, LimitedBy::Nothing);
    assert!(healthy.knee_reason.contains("every step was sustained"));
}

// What the figures do not cover.

#[test]
fn accepted_of_async_without_blocks_says_that_nothing_was_checked() {
    let reasons = |checked, followed| {
        let mut story = healthy();
        (story.checked, story.followed) = (checked, followed);
        if !followed {
            story.blocks.clear();
        }
        story.summary().verdict.reasons
    };
    let blind = reasons(false, false);
    assert_eq!(blind.len(), 1);
    assert!(
        blind[0].starts_with("accepted means received:"),
        "{blind:?}"
    );
    assert_eq!(
        reasons(true, false),
        [""; 0],
        "sync answers after the check"
    );
    assert_eq!(reasons(false, true), [""; 0], "blocks say what was valid");
}

#[test]
fn a_run_that_ends_within_its_warm_up_measured_nothing() {
    let ends = |warmup| {
        Story {
            warmup,
            ..healthy()
        }
        .summary()
        .verdict
    };
    assert_eq!(ends(10_000).schedule, ScheduleVerdict::Invalid);
    assert!(ends(10_000).reasons[0].contains("before the warm-up of 10.0 s was over"));
    assert_eq!(ends(9_000).schedule, ScheduleVerdict::Valid);
}

// What limited a run.

#[test]
fn a_healthy_run_is_limited_by_nothing_and_no_evidence_speaks_against_anybody() {
    assert_eq!(healthy().summary().evidence, []);
}

#[test]
fn a_node_that_freezes_in_a_ramp_is_what_limited_it() {
    // From 12 s on no answer; after 13 s the sockets take nothing, and at 20 s the ramp ends.
    let story = Story::of(ramp(4), |_, due| match due {
        0..12_000 => accepted_at(due),
        12_000..13_000 => Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: None,
        },
        _ => Course::Unsent {
            at: 20_000,
            reason: UnsentReason::Stopped,
        },
    });
    let story = Story {
        ended: 50_000,
        ..story
    };
    let summary = story.with_blocks(every_second(12), usize::MAX).summary();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let silence = found(&summary, EvidenceKind::NoAnswers).unwrap();
    assert_eq!((silence.from_s, silence.until_s), (Some(12.0), Some(50.0)));
    assert!(
        silence
            .text
            .starts_with("no answer from 12.0 s to 50.0 s while up to"),
        "{}",
        silence.text
    );
    assert_eq!(
        summary.knee.unwrap().rate_tps,
        200.0,
        "{}",
        summary.knee_reason
    );
}

#[test]
fn a_pause_of_the_generator_is_no_silence_of_the_node() {
    // The generator stands still from 4 s to 8 s, and catches up.
    let story = Story::of(constant("200/s", "12s"), |_, due| {
        let stalled = (4_000..8_000).contains(&due);
        let at = if stalled { 8_000 } else { due };
        Course::Sent {
            at,
            cause: if stalled {
                Cause::Schedule
            } else {
                Cause::OnTime
            },
            answer: Some((at + 2, Reply::Accepted)),
        }
    });
    let blocks: Vec<u64> = every_second(14)
        .filter(|at| !(4_000..8_000).contains(at))
        .collect();
    let story = Story {
        stall: 4_000,
        ..story.with_blocks(blocks, usize::MAX)
    };
    let summary = story.summary();
    assert_eq!(summary.limited_by, LimitedBy::Schedule);
    assert_eq!(found(&summary, EvidenceKind::NoAnswers), None);
    assert_eq!(found(&summary, EvidenceKind::NoBlocks), None);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
}

/// 200/s; at 5 s the node crashes, its connections are down for 2 s, and it forgets what it had
/// accepted in the last 300 ms.
fn crashing(forgets: bool) -> Summary {
    let story = Story::of(constant("200/s", "15s"), |_, due| match due {
        5_000..7_000 => Course::Sent {
            at: 7_000,
            cause: Cause::Connection,
            answer: Some((7_002, Reply::Accepted)),
        },
        _ => accepted_at(due),
    });
    let lost: Vec<u64> = (941..1_000).collect();
    let up = every_second(45).filter(|at| !(4_900..7_000).contains(at));
    let mut story = story.with_blocks(up.collect::<Vec<_>>(), usize::MAX);
    if forgets {
        for (_, txs) in &mut story.blocks {
            txs.retain(|index| !lost.contains(index));
        }
    }
    Story {
        ended: 45_000,
        ..story
    }
    .summary()
}

#[test]
fn accepted_transactions_that_a_node_lost_are_the_first_finding() {
    let summary = crashing(true);
    assert_eq!(summary.fate.pending, 59);
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let first = &summary.evidence[0];
    assert_eq!(
        (first.kind, first.strength, first.txs),
        (EvidenceKind::LostAfterAccept, Strength::Decisive, 59)
    );
    let connections = found(&summary, EvidenceKind::ShortOfConnections).unwrap();
    assert_eq!(
        connections.strength,
        Strength::Remark,
        "they were down with the node"
    );
    let kept = crashing(false);
    assert_eq!(found(&kept, EvidenceKind::LostAfterAccept), None);
}

#[test]
fn what_still_waits_in_the_mempool_is_not_lost() {
    // Others fill the blocks: ours stay in the mempool.
    let story = Story::of(constant("200/s", "10s"), |_, due| accepted_at(due));
    let mut story = story.with_blocks(every_second(5), usize::MAX);
    story
        .blocks
        .extend((5..40).map(|second| (second * 1_000 + 500, Vec::new())));
    story.mempool = (0..40)
        .map(|second| (second * 1_000 + 600, 1_200))
        .collect();
    let summary = Story {
        ended: 40_000,
        ..story
    }
    .summary();
    assert_eq!(found(&summary, EvidenceKind::LostAfterAccept), None);
    let pending = found(&summary, EvidenceKind::Pending).unwrap();
    assert_eq!(
        (pending.strength, summary.limited_by),
        (Strength::Strong, LimitedBy::Node)
    );
}

#[test]
fn a_run_that_its_user_aborted_blames_nobody() {
    let story = healthy();
    let aborted = Story {
        offered_until: 6_000,
        ended: 6_010,
        interrupted: true,
        courses: story.courses.iter().copied().take(1_200).collect(),
        blocks: story.blocks.iter().take(6).cloned().collect(),
        ..story
    };
    let summary = aborted.summary();
    assert_eq!(summary.limited_by, LimitedBy::Unknown);
    assert_eq!(strong(&summary), []);
    let ended = found(&summary, EvidenceKind::EndedEarly).unwrap();
    assert!(
        ended
            .text
            .starts_with("interrupted: the offering ended at 6.0 s"),
        "{}",
        ended.text
    );
    assert!(
        summary.fate.pending > 0,
        "the block in progress was not awaited"
    );
}

#[test]
fn a_flood_that_was_committed_whole_was_limited_by_its_concurrency() {
    let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
        at: due,
        cause: Cause::Node,
        answer: Some((due + 5, Reply::Accepted)),
    });
    let flood = Story {
        model: LoadModel::Closed,
        ..story
    };
    let summary = flood.with_blocks(every_second(12), usize::MAX).summary();
    assert_eq!(summary.fate.committed, 2_000);
    assert_eq!(summary.limited_by, LimitedBy::Concurrency);
    // One that the node refuses was limited by the node.
    let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 5, Reply::RpcError { code: -32_603 })),
    });
    let refused = Story {
        model: LoadModel::Closed,
        ..story
    };
    assert_eq!(refused.summary().limited_by, LimitedBy::Node);
}

#[test]
fn full_blocks_a_full_mempool_and_refusals_are_a_chain_of_causes_in_time() {
    // 600/s offered, 300 a block; the mempool is full with 2,000 and refuses then.
    let mut waiting = 0_i64;
    let mut taken = 0;
    let schedule = constant("600/s", "20s");
    let courses: Vec<Course> = schedule
        .iter()
        .map(|due| {
            let due = due.at.as_millis();
            while taken * 1_000 + 500 <= due {
                waiting = (waiting - 300).max(0);
                taken += 1;
            }
            if waiting < 2_000 {
                waiting += 1;
                return accepted_at(due);
            }
            Course::Sent {
                at: due,
                cause: Cause::OnTime,
                answer: Some((due + 2, Reply::RpcError { code: -32_603 })),
            }
        })
        .collect();
    let story = Story::of(schedule, |index, _| courses[index as usize]);
    let mut story = story.with_blocks(every_second(40), 300);
    let depth = |second: u64| (300 + second * 300).min(2_000);
    story.mempool = (0..20)
        .map(|second| (second * 1_000 + 450, depth(second)))
        .collect();
    let summary = Story {
        ended: 40_000,
        ..story
    }
    .summary();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let since = |kind| found(&summary, kind).unwrap().from_s.unwrap();
    let full = since(EvidenceKind::BlocksFull);
    let mempool = since(EvidenceKind::MempoolFull);
    let refused = since(EvidenceKind::Refused);
    assert!(
        full < mempool && mempool <= refused + 1.0,
        "{full} {mempool} {refused}"
    );
    assert!(
        found(&summary, EvidenceKind::MempoolFull)
            .unwrap()
            .text
            .contains("beyond 2000 transactions"),
        "{:?}",
        summary.evidence
    );
    let healthy = healthy().summary();
    for kind in [
        EvidenceKind::BlocksFull,
        EvidenceKind::MempoolFull,
        EvidenceKind::Refused,
    ] {
        assert_eq!(found(&healthy, kind), None);
    }
}

#[test]
fn the_generators_own_limits_are_named() {
    let late = |cause: Cause| {
        let story = Story::of(constant("200/s", "10s"), |_, due| Course::Sent {
            at: due + 20,
            cause,
            answer: Some((due + 22, Reply::Accepted)),
        });
        story.with_blocks(every_second(12), usize::MAX).summary()
    };
    for (cause, limit) in [
        (Cause::Schedule, LimitedBy::Schedule),
        (Cause::Source, LimitedBy::Source),
        (Cause::Connection, LimitedBy::Connection),
    ] {
        let summary = late(cause);
        assert_eq!(summary.limited_by, limit);
        assert!(
            summary
                .knee_reason
                .contains("the generator could not offer it"),
            "{}",
            summary.knee_reason
        );
        assert_eq!(summary.knee, None);
    }
    assert_eq!(late(Cause::Node).limited_by, LimitedBy::Node);
}
