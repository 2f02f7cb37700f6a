//! Parts of several generators joined: what one generator would have said, whatever a part's clock, flaw or end was; and
//! the memory in which a load of eight is joined.

use std::io::{self, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use measure::read::{HlogReader, RowReader, TxReader};
use measure::{
    Bar, Cause, Codespace, KeptRows, LostPart, Manifest, MergeError, MergePart, Quantiles,
    Recorder, RecorderConfig, Reply, RunFolderWriters, SchedulePlan, ScheduleVerdict, ShardName,
    StepRow, Summary, UnsentReason, merge, merged_manifest,
};
use pacing::Nanos;
use proptest::prelude::*;

use crate::agreement::{
    Course, PartPlan, TXS, Transaction, joined, merged, merged_late, planned, recorded,
    transaction, two_endpoints, with_a_silence,
};
use crate::reading::manifest;
use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Four generators with the plan of one together say what it says: histograms, counts, steps, evidence, verdict.
    #[test]
    fn four_generators_say_what_one_says(load in with_a_silence()) {
        let (_, one) = recorded(&load, 0, 1);
        let (four, _) = merged(&load, 4, KeptRows::All);
        for kind in measure::LatencyKind::ALL {
            let (one, four) = (one.latency_ms.of(kind), four.latency_ms.of(kind));
            for name in Quantiles::NAMES.into_iter().filter(|name| *name != "mean") {
                prop_assert_eq!(one.figure(name), four.figure(name), "{:?} {}", kind, name);
            }
            // A sum in another order is rounded otherwise.
            let means = [one, four].map(|it| it.figure("mean").map_or(0.0, |mean| mean.millis));
            prop_assert!((means[0] - means[1]).abs() <= 1e-9 * means[0], "{:?}", means);
            prop_assert_eq!((one.count, one.censored), (four.count, four.censored));
            prop_assert_eq!(&one.at_least, &four.at_least);
        }
        prop_assert_eq!((&one.offered, &one.fate, one.rate), (&four.offered, &four.fate, four.rate));
        prop_assert_eq!(steps(&one), steps(&four));
        prop_assert_eq!((one.limited_by, &one.evidence), (four.limited_by, &four.evidence));
        prop_assert_eq!(&one.verdict, &four.verdict);
        prop_assert_eq!((&one.knee, &one.knee_reason), (&four.knee, &four.knee_reason));
    }

    /// A latency is measured by one clock. What a fleet's clocks are apart moves starts, and so no latency of a node's
    /// blocks by more than the offset; answers it does not move.
    #[test]
    fn four_generators_whose_clocks_are_apart_say_what_one_says_within_the_offset(
        load in prop::collection::vec(transaction(), TXS as usize),
        offsets in prop::collection::vec(0..6_u64, 4),
    ) {
        let (_, one) = recorded(&load, 0, 1);
        let late: Vec<Nanos> = offsets.iter().copied().map(ms).collect();
        let (four, _) = merged_late(&load, &late, KeptRows::All);
        let most_ms = *offsets.iter().max().unwrap() as f64;
        for kind in measure::LatencyKind::ALL {
            let is_of_blocks = format!("{kind:?}").starts_with("Commit");
            let (one, four) = (one.latency_ms.of(kind), four.latency_ms.of(kind));
            prop_assert_eq!((one.count, one.censored), (four.count, four.censored));
            for name in Quantiles::NAMES {
                let (Some(one), Some(four)) = (one.figure(name), four.figure(name)) else {
                    prop_assert_eq!(one.figure(name), four.figure(name));
                    continue;
                };
                // Histograms have three digits.
                let rounding = 1e-3 * one.millis + 1e-6;
                let earlier = one.millis - four.millis;
                let most = if is_of_blocks { most_ms } else { 0.0 };
                prop_assert!(
                    -rounding <= earlier && earlier <= most + rounding,
                    "{:?} {}: {:?} {:?}, {} ms apart", kind, name, one, four, most_ms
                );
            }
        }
    }
}

/// A transaction that the first block has.
const ACCEPTED: Transaction = Transaction {
    course: Course::Answered(Reply::Accepted),
    cause: Cause::OnTime,
    service_ms: 1,
    blocks: Some(1),
    code: 0,
    space: Codespace::NONE,
};

/// A generator that is lost sent nothing that can be proven: its whole part is unsent, with that reason, and the plan
/// is still the plan of all.
#[test]
fn the_part_of_a_lost_generator_is_unsent_and_the_whole_is_invalid() {
    let load = [ACCEPTED; TXS as usize];
    let parts: Vec<(Folder, Summary)> = (0..2).map(|part| recorded(&load, part, 3)).collect();
    let shard = |number| ShardName { number, of: 3 };
    let manifests: Vec<(String, Manifest)> = (0..2)
        .map(|part| {
            let mut manifest = two_endpoints();
            manifest.plan.shard = shard(part as u32 + 1);
            manifest.planned = Some(planned(part, 3));
            (part.to_string(), manifest)
        })
        .collect();
    let lost = LostPart {
        shard: shard(3),
        planned: planned(2, 3),
        reason: "its machine is gone".to_owned(),
    };
    let missing = merged_manifest(&manifests, &[]).unwrap_err();
    assert!(matches!(missing, MergeError::Parts(_)), "{missing}");
    let manifest = merged_manifest(&manifests, std::slice::from_ref(&lost)).unwrap();
    assert_eq!(manifest.planned, Some(TXS));
    let (summary, _) = joined(&parts, &manifest);
    let offered = &summary.offered;
    let missing = offered.unsent_for(UnsentReason::GeneratorLost);
    assert_eq!((offered.planned, missing), (TXS, lost.planned));
    assert_eq!(offered.sent + offered.unsent, TXS);
    assert_eq!(summary.fate.accepted, TXS - lost.planned);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
    let mut reasons = summary.verdict.reasons.iter();
    assert!(reasons.any(|reason| reason.contains(&lost.reason)));
}

/// Without which quantiles may be larger: they are those that may be in any part.
fn steps(summary: &Summary) -> Vec<StepRow> {
    let mut steps = summary.steps.clone();
    steps
        .iter_mut()
        .for_each(|step| step.latency.at_least.clear());
    steps
}

/// Two of a part's hundred are more than a run may leave unsent, and of the whole they are less.
#[test]
fn a_flaw_of_one_generator_weighs_what_it_weighs_in_the_whole() {
    let load: Vec<Transaction> = (0..TXS)
        .map(|index| Transaction {
            course: match index {
                1 | 5 => Course::Unsent(UnsentReason::MaxInFlight),
                _ => Course::Answered(Reply::Accepted),
            },
            cause: Cause::OnTime,
            service_ms: 1,
            blocks: (index != 1 && index != 5).then_some(0),
            code: 0,
            space: Codespace::NONE,
        })
        .collect();
    let (_, part) = recorded(&load, 1, 4);
    assert_eq!(part.verdict.schedule, ScheduleVerdict::Invalid);
    let (_, one) = recorded(&load, 0, 1);
    assert_eq!(one.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!(merged(&load, 4, KeptRows::All).0.verdict, one.verdict);
}

/// What a generator whose account is broken did is not known; how much of the whole was another load is.
#[test]
fn an_invalid_part_leaves_unknown_what_the_sums_would_hide() {
    let load = [ACCEPTED; TXS as usize];
    let (valid, invalid) = (ScheduleVerdict::Valid, ScheduleVerdict::Invalid);
    for (said, judged, left) in [
        (vec![Bar::Load], valid, vec![]),
        (vec![Bar::Commits], valid, vec![]),
        (vec![Bar::Load, Bar::Account], invalid, vec![Bar::Account]),
        // A folder of an earlier version does not say.
        (vec![], invalid, vec![Bar::Account]),
    ] {
        let mut parts: Vec<(Folder, Summary)> = (0..2).map(|it| recorded(&load, it, 2)).collect();
        for (_, summary) in &mut parts[..] {
            (summary.verdict.schedule, summary.verdict.bars) =
                (ScheduleVerdict::Invalid, said.clone());
        }
        let verdict = joined(&parts, &two_endpoints()).0.verdict;
        assert_eq!((verdict.schedule, verdict.bars), (judged, left));
    }
}

const PARTS: u64 = 8;
const PER_SECOND: u64 = 100_000;

/// Where a recorder writes a file to.
enum Out {
    Nowhere,
    Memory(Arc<Mutex<Vec<u8>>>),
    Pipe(SyncSender<Vec<u8>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nowhere => {}
            Self::Memory(file) => file.lock().unwrap().extend_from_slice(bytes),
            Self::Pipe(pipe) => pipe.send(bytes.to_vec()).map_err(io::Error::other)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes out of a pipe, or lies in memory.
struct In {
    pipe: Option<Receiver<Vec<u8>>>,
    bytes: Vec<u8>,
    at: usize,
}

impl In {
    fn memory(bytes: Vec<u8>) -> BufReader<Self> {
        let (pipe, at) = (None, 0);
        BufReader::new(Self { pipe, bytes, at })
    }

    fn pipe(pipe: Receiver<Vec<u8>>) -> BufReader<Self> {
        BufReader::new(Self {
            pipe: Some(pipe),
            bytes: Vec::new(),
            at: 0,
        })
    }
}

impl Read for In {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            let next = self.pipe.as_ref().and_then(|pipe| pipe.recv().ok());
            (self.bytes, self.at) = (next.unwrap_or_default(), 0);
        }
        let taken = buffer.len().min(self.bytes.len() - self.at);
        buffer[..taken].copy_from_slice(&self.bytes[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

/// One generator's part of a load of so many seconds: answers after a millisecond, a block each second.
fn record(part: u64, seconds: u64, writers: RunFolderWriters<Out>) -> Summary {
    let schedule = SchedulePlan::new(constant(&format!("{PER_SECOND}/s"), &format!("{seconds}s")));
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let mut recorder = Recorder::new(config, PartPlan(schedule, part, PARTS), writers);
    let interval_ns = 1_000_000_000 / PER_SECOND;
    let per_tick = PER_SECOND / 1_000;
    let mut unseen = Vec::new();
    for tick in 0..seconds * 1_000 {
        let own = (tick * per_tick..(tick + 1) * per_tick).filter(|it| it % PARTS == part);
        for index in own {
            let due = Nanos::from_nanos(index * interval_ns);
            recorder.sent(&sent(
                index,
                due,
                due.saturating_add(Nanos::from_micros(20)),
            ));
            let at = due.saturating_add(ms(1));
            recorder.answered(&answered(index, at, Reply::Accepted));
            unseen.push(index);
        }
        let now = ms(tick + 1);
        if (tick + 1) % 1_000 == 0 {
            let height = (tick + 1) / 1_000;
            recorder.block(block(height, now.saturating_add(ms(5)), &unseen));
            unseen.clear();
        }
        recorder.watermark(SENDER, now);
        recorder.watermark(FOLLOWER, now);
    }
    let ended = Nanos::from_secs(seconds + 1);
    recorder.watermark(SENDER, ended);
    recorder.watermark(FOLLOWER, ended);
    let planned = seconds * PER_SECOND / PARTS;
    recorder
        .finish(end(planned, Nanos::from_secs(seconds), ended))
        .summary
}

/// Joins such a load; gives the summary, and the seconds that it took.
fn join(seconds: u64) -> (Summary, f64) {
    let mut parts = Vec::new();
    for part in 0..PARTS {
        let files: [Arc<Mutex<Vec<u8>>>; 4] = Default::default();
        let [series, steps, blocks, hlog] = files.each_ref().map(|it| Out::Memory(it.clone()));
        let summary = record(
            part,
            seconds,
            RunFolderWriters {
                txs: Out::Nowhere,
                answers: Out::Nowhere,
                series,
                steps,
                blocks,
                hlog,
            },
        );
        let (into, pipe) = sync_channel(2);
        thread::spawn(move || {
            let nowhere = || Out::Nowhere;
            record(
                part,
                seconds,
                RunFolderWriters {
                    txs: Out::Pipe(into),
                    answers: nowhere(),
                    series: nowhere(),
                    steps: nowhere(),
                    blocks: nowhere(),
                    hlog: nowhere(),
                },
            )
        });
        let [series, steps, blocks, hlog] =
            files.map(|it| In::memory(std::mem::take(&mut *it.lock().unwrap())));
        let mut manifest = manifest();
        manifest.planned = Some(summary.offered.planned);
        manifest.plan.shard = ShardName {
            number: part as u32 + 1,
            of: PARTS as u32,
        };
        parts.push(MergePart {
            manifest,
            summary: Some(summary),
            series: RowReader::new(series).unwrap(),
            steps: RowReader::new(steps).unwrap(),
            blocks: RowReader::new(blocks).unwrap(),
            hlog: HlogReader::new(hlog),
            txs: Some(TxReader::new(In::pipe(pipe)).unwrap()),
            answers: Vec::new(),
        });
    }
    let names: Vec<String> = (1..=PARTS).map(|part| part.to_string()).collect();
    let manifests: Vec<(String, Manifest)> = names
        .iter()
        .cloned()
        .zip(parts.iter().map(|part| part.manifest.clone()))
        .collect();
    let whole = merged_manifest(&manifests, &[]).unwrap();
    let nowhere = || Out::Nowhere;
    let writers = RunFolderWriters {
        txs: nowhere(),
        answers: nowhere(),
        series: nowhere(),
        steps: nowhere(),
        blocks: nowhere(),
        hlog: nowhere(),
    };
    let began = Instant::now();
    let summary = merge(parts, &names, &whole, writers).unwrap();
    (summary, began.elapsed().as_secs_f64())
}

/// The most memory that this process had since it was last asked, in kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kb = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    kb
}

/// Alone in its process, as ignored tests are run: the memory is that of the process. With 100 s and 1,000 s it is the
/// load of a hundred million.
#[test]
#[ignore = "needs a process of its own"]
fn four_times_the_transactions_are_joined_in_the_same_memory() {
    let mut peaks = Vec::new();
    for seconds in [2, 8] {
        peak_kb();
        let (summary, took_s) = join(seconds);
        assert_eq!(summary.offered.sent, seconds * PER_SECOND);
        assert_eq!(summary.fate.committed, seconds * PER_SECOND);
        assert!(summary.conservation.holds);
        let peak = peak_kb();
        println!("{seconds} s of load: {took_s:.1} s, {peak} kB at most");
        peaks.push(peak);
    }
    // The rows that come more take 96 MB.
    assert!(peaks[1] < peaks[0] + 30_000, "{peaks:?} kB");
}
