//! One load, summed up three times: as its recorder counted it, from the rows it left, and from the
//! parts of two generators that shared it. All three agree.

use std::num::NonZeroU64;

use measure::read::{HlogReader, RowReader, TxReader};
use measure::{
    AnswerRow, Answered, Answers, BlockSeen, Cause, Codespace, EndpointInfo, Evidence,
    EvidenceKind, Failure, KeptRows, Manifest, MergePart, Plan, Quantiles, RecorderConfig, Reply,
    SchedulePlan, Sent, Summary, Unsent, UnsentReason, merge,
};
use pacing::{Nanos, Step};
use proptest::prelude::*;

use crate::reading::manifest;
use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent,
};

/// Transactions of the whole load, one every 10 ms.
pub(crate) const TXS: u64 = 400;
const OFFERING: Nanos = Nanos::from_nanos(4_000_000_000);
const ENDPOINTS: [&str; 2] = ["http://a:1", "http://b:2"];
const ENDED: Nanos = Nanos::from_nanos(6_000_000_000);

/// What becomes of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Course {
    Unsent(UnsentReason),
    Answered(Reply),
    Unanswered,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Transaction {
    pub(crate) course: Course,
    pub(crate) cause: Cause,
    pub(crate) service_ms: u64,
    /// Blocks until it is in one; `None` for never.
    pub(crate) blocks: Option<u64>,
    pub(crate) code: u32,
    pub(crate) space: Codespace,
}

pub(crate) fn transaction() -> impl Strategy<Value = Transaction> {
    let course = prop_oneof![
        12 => Just(Course::Answered(Reply::Accepted)),
        1 => Just(Course::Answered(Reply::rejected(5))),
        1 => prop::sample::select(vec!["sdk", "wasm"]).prop_map(|space| {
            let space = Codespace::named(space);
            Course::Answered(Reply::Rejected { code: 5, space })
        }),
        1 => Just(Course::Answered(Reply::RpcError { code: -32_603 })),
        1 => Just(Course::Answered(Reply::Failed(Failure::Timeout))),
        1 => Just(Course::Unanswered),
        1 => Just(Course::Unsent(UnsentReason::MaxInFlight)),
    ];
    let cause = prop_oneof![
        8 => Just(Cause::OnTime),
        1 => Just(Cause::Schedule),
        1 => Just(Cause::Node)
    ];
    let blocks = prop::option::weighted(0.8, 0..3_u64);
    let space = prop::sample::select(vec!["", "sdk", "wasm"]).prop_map(Codespace::named);
    let rest = (1..50_u64, blocks, prop::bool::weighted(0.1), space);
    (course, cause, rest).prop_map(|(course, cause, (service_ms, blocks, fails, space))| {
        let accepted = matches!(course, Course::Answered(Reply::Accepted));
        let refused = matches!(
            course,
            Course::Unsent(_) | Course::Answered(Reply::Rejected { .. } | Reply::RpcError { .. })
        );
        Transaction {
            course,
            cause,
            service_ms,
            blocks: blocks.filter(|_| !refused),
            code: u32::from(accepted && fails),
            space,
        }
    })
}

/// A load of which one endpoint, or both, answer nothing for a while: afterwards what waited is answered, or never.
pub(crate) fn with_a_silence() -> impl Strategy<Value = Vec<Transaction>> {
    let load = prop::collection::vec(transaction(), TXS as usize);
    let silence = (0..3_u64, 0..300_u64, 100..250_u64, any::<bool>());
    (load, silence).prop_map(|(mut load, (endpoint, from, length, ends))| {
        let until = from + length;
        for (index, tx) in (0..until).zip(&mut load) {
            let is_answered = matches!(tx.course, Course::Answered(_));
            if index < from || (endpoint < 2 && index % 2 != endpoint) || !is_answered {
                continue;
            }
            if ends {
                tx.service_ms = (until - index) * 10;
            } else {
                (tx.course, tx.blocks, tx.code) = (Course::Unanswered, None, 0);
            }
        }
        load
    })
}

#[derive(Debug)]
enum Event {
    Sent(Sent),
    Answered(Answered),
    Unsent(Unsent),
    Block(BlockSeen),
}

/// The events of the generator that sends every `parts`-th transaction from `part` on, in order.
fn events(load: &[Transaction], part: u64, parts: u64) -> Vec<(Nanos, Event)> {
    let mut events = Vec::new();
    let mut blocks: Vec<BlockSeen> = (1..=11)
        .map(|height| block(height, ms(height * 500), &[]))
        .collect();
    for (index, tx) in (0..).zip(load) {
        let due = ms(index * 10);
        let late = if tx.cause == Cause::OnTime { 0 } else { 3 };
        let at = due.saturating_add(ms(late));
        let answer_at = at.saturating_add(ms(tx.service_ms));
        if let Some(later) = tx.blocks {
            let next = at.as_millis() / 500 + later;
            let mut seen = block(0, ms(0), &[index]).txs;
            (seen[0].code, seen[0].space) = (tx.code, tx.space);
            blocks[next as usize].txs.append(&mut seen);
        }
        if index % parts != part {
            continue;
        }
        if let Course::Unsent(reason) = tx.course {
            let step = 0;
            events.push((
                at,
                Event::Unsent(Unsent {
                    index,
                    due,
                    at,
                    step,
                    reason,
                }),
            ));
            continue;
        }
        let cause = tx.cause;
        events.push((
            at,
            Event::Sent(Sent {
                cause,
                endpoint: (index % 2) as u16,
                ..sent(index, due, at)
            }),
        ));
        if let Course::Answered(reply) = tx.course {
            events.push((
                answer_at,
                Event::Answered(answered(index, answer_at, reply)),
            ));
        }
    }
    events.extend(
        blocks
            .into_iter()
            .map(|block| (block.observed, Event::Block(block))),
    );
    events.sort_by_key(|(at, _)| *at);
    events
}

/// Every `parts`-th transaction of a schedule.
pub(crate) struct PartPlan(pub(crate) SchedulePlan, pub(crate) u64, pub(crate) u64);

impl Plan for PartPlan {
    fn due_before(&mut self, t: Nanos) -> Option<u64> {
        let due = self.0.due_before(t)?;
        Some((due + self.2 - 1 - self.1) / self.2)
    }

    fn step_at(&mut self, t: Nanos) -> Option<Step> {
        self.0.step_at(t)
    }
}

pub(crate) fn recorded(load: &[Transaction], part: u64, parts: u64) -> (Folder, Summary) {
    recorded_late(load, part, parts, ms(0))
}

/// The same by a generator whose clock was set so much too late for the common start: it sends everything later, and
/// the node's blocks come earlier by its clock.
fn recorded_late(load: &[Transaction], part: u64, parts: u64, offset: Nanos) -> (Folder, Summary) {
    let folder = Folder::new();
    let schedule = SchedulePlan::new(constant("100/s", "4s"));
    let config = RecorderConfig {
        endpoints: ENDPOINTS.map(str::to_owned).to_vec(),
        ..RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1)
    };
    let mut recorder = folder.recorder(config, PartPlan(schedule, part, parts));
    let mut events = events(load, part, parts);
    for (at, event) in &mut events {
        if let Event::Block(block) = event {
            *at = at.saturating_sub(offset);
            block.observed = *at;
        }
    }
    events.sort_by_key(|(at, _)| *at);
    for (at, event) in events {
        recorder.watermark(SENDER, at);
        recorder.watermark(FOLLOWER, at);
        match event {
            Event::Sent(sent) => recorder.sent(&sent),
            Event::Answered(answered) => recorder.answered(&answered),
            Event::Unsent(unsent) => recorder.unsent(&unsent),
            Event::Block(block) => recorder.block(block),
        }
    }
    recorder.watermark(SENDER, ENDED);
    recorder.watermark(FOLLOWER, ENDED);
    let finished = recorder.finish(end(planned(part, parts), OFFERING, ENDED));
    (folder, finished.summary)
}

/// Transactions of one part.
pub(crate) fn planned(part: u64, parts: u64) -> u64 {
    (TXS + parts - 1 - part) / parts
}

pub(crate) fn two_endpoints() -> Manifest {
    let mut manifest = manifest();
    let endpoint = |url: &str| EndpointInfo {
        url: url.to_owned(),
        ..manifest.endpoints[0].clone()
    };
    manifest.endpoints = ENDPOINTS.map(endpoint).to_vec();
    manifest
}

fn rebuilt(folder: &Folder) -> Summary {
    crate::reading::rebuilt(folder, two_endpoints(), usize::MAX)
}

pub(crate) fn merged(
    load: &[Transaction],
    parts: u64,
    rows: KeptRows,
) -> (Summary, Vec<AnswerRow>) {
    merged_late(load, &vec![ms(0); parts as usize], rows)
}

/// Of generators with these offsets.
pub(crate) fn merged_late(
    load: &[Transaction],
    offsets: &[Nanos],
    rows: KeptRows,
) -> (Summary, Vec<AnswerRow>) {
    let parts = offsets.len() as u64;
    let recorded = |part: u64| {
        let offset = offsets[part as usize];
        let (folder, summary) = recorded_late(load, part, parts, offset);
        if !rows.is_each() {
            folder.txs.cut(1);
        }
        (folder, summary)
    };
    let parts: Vec<(Folder, Summary)> = (0..parts).map(recorded).collect();
    let mut manifest = two_endpoints();
    manifest.plan.rows = rows;
    joined(&parts, &manifest)
}

pub(crate) fn joined(
    parts: &[(Folder, Summary)],
    manifest: &Manifest,
) -> (Summary, Vec<AnswerRow>) {
    let files: Vec<[Vec<u8>; 6]> = parts
        .iter()
        .map(|(folder, _)| {
            let Folder {
                txs,
                answers,
                series,
                steps,
                blocks,
                hlog,
                ..
            } = folder;
            [txs, answers, series, steps, blocks, hlog].map(|file| file.bytes())
        })
        .collect();
    let open = files.iter().zip(parts).map(|(files, (_, summary))| {
        let [txs, answers, series, steps, blocks, hlog] = files.each_ref().map(|bytes| &bytes[..]);
        let rows = manifest.plan.rows;
        let mut own = two_endpoints();
        own.plan.rows = rows;
        MergePart {
            manifest: own,
            summary: Some(summary.clone()),
            series: RowReader::new(series).unwrap(),
            steps: RowReader::new(steps).unwrap(),
            blocks: RowReader::new(blocks).unwrap(),
            hlog: HlogReader::new(hlog),
            txs: (rows != KeptRows::None).then(|| TxReader::new(txs).unwrap()),
            answers: crate::reading::rows(answers),
        }
    });
    let names = ["a".to_owned(), "b".to_owned()];
    let whole = Folder::new();
    let summary = merge(open.collect(), &names, manifest, whole.writers()).unwrap();
    (summary, crate::reading::rows(&whole.answers.bytes()))
}

/// What was answered, as the rows of transactions have it.
fn answers_of_rows(folder: &Folder) -> Vec<AnswerRow> {
    let mut answers = Answers::default();
    let txs = folder.txs.bytes();
    let mut reader = TxReader::new(&txs[..]).unwrap();
    while let Some(row) = reader.next_row().unwrap() {
        answers.row(&row, ORIGIN_UNIX_NS);
    }
    answers.rows().collect()
}

/// Counts without the means, which sums in another order round in another way.
fn counts(rows: &[AnswerRow]) -> Vec<(u64, u64, u16, &str, u64)> {
    rows.iter()
        .map(|row| {
            (
                row.second,
                row.span_s,
                row.endpoint,
                row.answer.as_str(),
                row.txs,
            )
        })
        .collect()
}

fn silent_endpoint(summary: &Summary) -> Option<&Evidence> {
    let mut evidence = summary.evidence.iter();
    evidence.find(|it| matches!(it.kind, EvidenceKind::EndpointSilent { .. }))
}

/// Without rows, or with some of them, parts come to the same, but for the windows, which are counted from rows.
fn fewer_rows_are_the_same(
    load: &[Transaction],
    all: &Summary,
    all_answers: &[AnswerRow],
) -> Result<(), TestCaseError> {
    let sample = KeptRows::Sample(NonZeroU64::new(10).unwrap());
    for rows in [KeptRows::None, sample] {
        let (mut fewer, answers) = merged(load, 2, rows);
        prop_assert!(fewer.windows != all.windows || all.offered.sent == 0);
        fewer.windows = all.windows;
        prop_assert_eq!(&fewer, all);
        prop_assert_eq!(counts(&answers), counts(all_answers));
    }
    Ok(())
}

fn agree(load: &[Transaction]) -> Result<(), TestCaseError> {
    let (folder, live) = recorded(load, 0, 1);
    prop_assert!(live.conservation.holds, "{:?}", live.conservation);
    let rebuilt = rebuilt(&folder);
    let (merged, merged_answers) = merged(load, 2, KeptRows::All);
    fewer_rows_are_the_same(load, &merged, &merged_answers)?;
    let answers: Vec<AnswerRow> = crate::reading::rows(&folder.answers.bytes());
    prop_assert_eq!(
        answers.iter().map(|row| row.txs).sum::<u64>(),
        live.offered.sent
    );
    let of_rows = answers_of_rows(&folder);
    prop_assert_eq!(counts(&answers), counts(&of_rows));
    prop_assert_eq!(counts(&answers), counts(&merged_answers));
    for other in [&rebuilt, &merged] {
        prop_assert_eq!(other.model, live.model);
        prop_assert_eq!(other.time, live.time);
        prop_assert_eq!(
            (
                other.offered.planned,
                other.offered.sent,
                other.offered.unsent
            ),
            (live.offered.planned, live.offered.sent, live.offered.unsent)
        );
        prop_assert_eq!(&other.conservation, &live.conservation);
        prop_assert_eq!(&other.fate.rejected_by_code, &live.fate.rejected_by_code);
        let (fate, of_live) = (&other.fate, &live.fate);
        prop_assert_eq!(&fate.commit_failed_by_code, &of_live.commit_failed_by_code);
        prop_assert_eq!(other.fate.committed_anyway, live.fate.committed_anyway);
        prop_assert_eq!(other.rate, live.rate);
        prop_assert_eq!(&other.blocks, &live.blocks);
        prop_assert_eq!(other.late.causes, live.late.causes);
        prop_assert_eq!(other.steps[0].counts, live.steps[0].counts);
        prop_assert_eq!(silent_endpoint(other), silent_endpoint(&live));
        for kind in measure::LatencyKind::ALL {
            let (one, other) = (live.latency_ms.of(kind), other.latency_ms.of(kind));
            prop_assert_eq!((one.count, one.censored), (other.count, other.censored));
            // The rows of a killed run say less of how long the unfinished had waited.
            for name in Quantiles::NAMES {
                let (Some(one), Some(other)) = (one.figure(name), other.figure(name)) else {
                    prop_assert!(one.count + one.censored == 0);
                    continue;
                };
                prop_assert!(
                    other.millis <= one.millis * 1.001 + 1e-6,
                    "{:?} {} {:?} {:?}",
                    kind,
                    name,
                    one,
                    other
                );
                prop_assert!(other.is_lower_bound() || !one.is_lower_bound(), "{}", name);
            }
        }
    }
    // What a killed run does not leave in its rows, merged parts still have.
    for kind in measure::LatencyKind::ALL {
        let (one, other) = (live.latency_ms.of(kind), merged.latency_ms.of(kind));
        prop_assert_eq!(
            (one.p50, one.p99, one.max),
            (other.p50, other.p99, other.max)
        );
        prop_assert_eq!(&one.at_least, &other.at_least);
    }
    prop_assert_eq!(&merged.fate, &live.fate);
    prop_assert_eq!(&merged.offered, &live.offered);
    prop_assert_eq!(&merged.late, &live.late);
    prop_assert_eq!(merged.limited_by, live.limited_by);
    prop_assert_eq!(merged.verdict.schedule, live.verdict.schedule);
    prop_assert_eq!(
        (&merged.knee, &merged.knee_reason),
        (&live.knee, &live.knee_reason)
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn live_rebuilt_and_merged_agree(load in prop::collection::vec(transaction(), TXS as usize)) {
        agree(&load)?;
    }
}

/// Many old ones wait for a block with an answer, and young ones are in a block without one.
#[test]
fn what_is_in_a_block_without_an_answer_has_not_waited_longer_than_it_did() {
    let load: Vec<Transaction> = (0..TXS)
        .map(|index| Transaction {
            course: match index {
                300..340 => Course::Unanswered,
                _ => Course::Answered(Reply::Accepted),
            },
            cause: Cause::OnTime,
            service_ms: 1,
            blocks: (index >= 300).then_some(0),
            code: 0,
            space: Codespace::NONE,
        })
        .collect();
    agree(&load).unwrap();
}

/// The rows of a killed run have none of a transaction that was never answered; those of the seconds name
/// the endpoint.
#[test]
fn an_endpoint_that_freezes_is_named_alike_live_rebuilt_and_merged() {
    let load: Vec<Transaction> = (0..TXS)
        .map(|index| Transaction {
            course: if index % 2 == 1 && index >= 150 {
                Course::Unanswered
            } else {
                Course::Answered(Reply::Accepted)
            },
            cause: Cause::OnTime,
            service_ms: 1,
            blocks: (index % 2 == 0 || index < 150).then_some(0),
            code: 0,
            space: Codespace::NONE,
        })
        .collect();
    let (folder, live) = recorded(&load, 0, 1);
    for other in [rebuilt(&folder), merged(&load, 2, KeptRows::All).0] {
        assert_eq!(silent_endpoint(&other), silent_endpoint(&live));
    }
    let silent = silent_endpoint(&live).unwrap();
    let endpoint = "http://b:2".to_owned();
    assert_eq!(silent.kind, EvidenceKind::EndpointSilent { endpoint });
    assert_eq!((silent.from_s, silent.until_s), (Some(1.5), Some(6.0)));
    let column = folder.series.column("silent");
    assert_eq!(column[0], "");
    assert_eq!(column[3], "http://b:2 1.5-4.0 125 waiting");
}
