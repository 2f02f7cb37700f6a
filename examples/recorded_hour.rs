//! Writes the run folder of a simulated hour with a million transactions, or as many as are named, to
//! measure what the report of such a run takes:
//!
//! ```console
//! $ cargo run --release --example recorded_hour -- /tmp/hour
//! $ /usr/bin/time -v target/release/txgen report /tmp/hour    # wall clock, maximum resident set
//! $ wc -c /tmp/hour/report.html
//! $ cargo run --release --example recorded_hour -- /tmp/long 100000000    # 17 GB
//! $ rm /tmp/long/summary.json /tmp/long/answers.csv    # as of a run that was killed: each row is read
//! $ cargo run --release --example recorded_hour -- /tmp/week 604800000 168    # a week at 1,000/s, 0.3 GB
//! ```
//!
//! Of more than an hour no transaction has a row, and the log has an interval for each minute.
//!
//! No clock and no socket is involved: a plan, made-up answers and blocks go through the same
//! recorder as those of a real run. The node of this hour has a block every second, a tail of slow
//! answers, and a bad quarter in the middle.

use std::fs::{self, File};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use measure::{
    Answered, BlockSeen, BlockTx, Cause, Codespace, EndpointInfo, FORMAT, Host, KeptRows, Manifest,
    NodeLimits, PlanDocument, Recorder, RecorderConfig, Reply, RunEnd, RunFolderWriters,
    SchedulePlan, Sent, SourceId, TxHash, hash_prefix,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

const HOUR: Nanos = Nanos::from_secs(3_600);
const ORIGIN_UNIX_NS: u64 = 1_795_132_800_000_000_000;
const SENDER: SourceId = SourceId(0);
const FOLLOWER: SourceId = SourceId(1);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let folder: PathBuf = folder
        .context("give the folder to write: recorded_hour DIR [TRANSACTIONS [HOURS]]")?
        .into();
    let transactions: u64 = arguments
        .next()
        .map_or(Ok(1_000_000), |number| number.parse())?;
    let hours: u64 = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let length = HOUR.saturating_mul(hours);
    fs::create_dir_all(&folder)?;
    let open = |name: &str| {
        let path = folder.join(name);
        File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))
    };
    manifest(transactions).write_to(&mut open("manifest.json")?)?;
    let writers = RunFolderWriters {
        txs: open("txs.csv")?,
        answers: open("answers.csv")?,
        series: open("series.csv")?,
        steps: open("steps.csv")?,
        blocks: open("blocks.csv")?,
        hlog: open("latency.hlog")?,
    };
    let rate = format!("{}/h", transactions / hours).parse()?;
    let profile = Profile::constant(rate, Some(length))?;
    let schedule = Schedule::new(profile, Arrivals::Even);
    let plan = SchedulePlan::new(schedule.clone());
    let mut config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    if hours > 1 {
        config.rows = KeptRows::None;
        config.hlog_interval_s = NonZeroU32::new(60).context("a minute has seconds")?;
    }
    let mut hour = Hour {
        recorder: Recorder::new(config, plan, writers),
        random: 1,
        answers: Vec::new(),
        mempool: Vec::new(),
    };
    let mut next = 0;
    let ended = length.saturating_add(Nanos::from_secs(2));
    for tenth in 1..=ended.as_millis() / 100 {
        let end = Nanos::from_millis(tenth * 100);
        while next < transactions {
            let due = schedule.due(next).context("the schedule ends early")?;
            if due >= end {
                break;
            }
            hour.send(next, due);
            next += 1;
        }
        hour.settle(end);
    }
    let finished = hour.recorder.finish(RunEnd {
        planned: Some(transactions),
        offered_until: length,
        ended,
        interrupted: false,
    });
    if let Some(error) = finished.error {
        return Err(error.into());
    }
    finished.summary.write_to(&mut open("summary.json")?)?;
    show(&folder);
    Ok(())
}

struct Hour {
    recorder: Recorder<'static>,
    random: u64,
    /// When the answer comes, and to which transaction.
    answers: Vec<(Nanos, u64)>,
    /// Accepted, and in no block yet.
    mempool: Vec<u64>,
}

impl Hour {
    fn send(&mut self, index: u64, due: Nanos) {
        let sent = due.saturating_add(Nanos::from_micros(15 + self.below(60)));
        self.recorder.sent(&Sent {
            index,
            hash: hash(index),
            size: 250,
            due,
            sent,
            endpoint: 0,
            step: 0,
            cause: Cause::OnTime,
            own_late: false,
        });
        let quarter = due.as_secs() / 900 % 4;
        let typical = if quarter == 2 { 9_000 } else { 900 };
        let tail = if self.below(100) == 0 { 40 } else { 1 };
        let micros = (typical + self.below(typical * 2)) * tail;
        self.answers
            .push((sent.saturating_add(Nanos::from_micros(micros)), index));
    }

    /// Answers up to `end`, a block at every full second, and the promise that nothing earlier comes.
    fn settle(&mut self, end: Nanos) {
        self.answers.sort_unstable();
        let due = self.answers.partition_point(|(at, _)| *at < end);
        for (at, index) in self.answers.drain(..due) {
            self.mempool.push(index);
            self.recorder.answered(&Answered {
                index,
                hash_prefix: hash_prefix(&hash(index)),
                at,
                reply: Reply::Accepted,
            });
        }
        if end.as_millis().is_multiple_of(1_000) {
            let txs = self.mempool.drain(..).map(|index| BlockTx {
                hash: hash(index),
                code: 0,
                space: Codespace::NONE,
            });
            let txs: Vec<BlockTx> = txs.collect();
            self.recorder.block(BlockSeen {
                height: end.as_secs(),
                header_time_unix_ns: (ORIGIN_UNIX_NS + end.as_nanos()).cast_signed(),
                observed: end,
                bytes: 1_000 + 250 * txs.len() as u64,
                txs,
                ..BlockSeen::default()
            });
        }
        self.recorder.watermark(SENDER, end);
        self.recorder.watermark(FOLLOWER, end);
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn hash(index: u64) -> TxHash {
    let mut hash = [0; 32];
    for (part, bytes) in hash.chunks_exact_mut(8).enumerate() {
        let mixed = (index + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(part as u32 * 17);
        bytes.copy_from_slice(&mixed.to_be_bytes());
    }
    hash
}

fn manifest(transactions: u64) -> Manifest {
    Manifest {
        format: FORMAT.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: vec!["recorded_hour".into()],
        origin_unix_ns: ORIGIN_UNIX_NS,
        origin_error_ns: 0,
        started: "2026-11-20T00:00:00Z".into(),
        plan: PlanDocument {
            arrivals: Some("even".into()),
            ..PlanDocument::default()
        },
        profile: format!("a simulated hour with {transactions} transactions"),
        planned: Some(transactions),
        seed: 1,
        endpoints: vec![EndpointInfo {
            url: "http://127.0.0.1:26657/".into(),
            chain_id: None,
            node_version: None,
            built_in: false,
        }],
        limits: NodeLimits::default(),
        host: Host {
            os: std::env::consts::OS.into(),
            cpu: None,
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            memory_bytes: None,
            clock: None,
        },
    }
}

fn show(folder: &Path) {
    use std::io::Write as _;
    // Stdout is closed: there is no reader.
    let _ = writeln!(std::io::stdout(), "{}", folder.display());
}
