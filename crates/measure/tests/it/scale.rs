//! The memory in which a load of eight generators is joined.
//!
//! The rows are those of recorders in simulated time; they go through pipes, not over a disk.

use std::io::{self, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use measure::read::{HlogReader, RowReader, TxReader};
use measure::{
    Manifest, MergePart, Recorder, RecorderConfig, Reply, RunFolderWriters, SchedulePlan,
    ShardName, Summary, merge, merged_manifest,
};
use pacing::Nanos;

use crate::agreement::PartPlan;
use crate::reading::manifest;
use crate::support::{FOLLOWER, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent};

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
