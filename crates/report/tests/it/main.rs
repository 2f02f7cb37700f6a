//! Reports of whole runs, recorded in memory.

#![expect(
    clippy::unwrap_used,
    reason = "all of this binary is tests, its helpers too"
)]

mod bep23;
mod evidence;
mod nodes;
mod page;

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use measure::{
    Answered, BlockSeen, BlockTx, Cause, Codespace, Recorder, RecorderConfig, Reply, RunEnd,
    RunFolderWriters, SchedulePlan, Sent, SourceId, Summary, TxHash, hash_prefix,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

/// A file in memory that its test keeps a handle of.
#[derive(Debug, Clone, Default)]
pub(crate) struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The files a report is made of.
pub(crate) struct Run {
    pub(crate) txs: File,
    pub(crate) series: File,
    pub(crate) blocks: File,
    pub(crate) hlog: File,
    pub(crate) summary: Summary,
}

/// 2026-11-20 00:00:00.123456789 UTC.
pub(crate) const ORIGIN_UNIX_NS: u64 = 1_795_132_800_123_456_789;
const SENDER: SourceId = SourceId(0);
const FOLLOWER: SourceId = SourceId(1);

/// One sender at 1,000/s for three seconds: answers after 2 ms, blocks every half second, a drain
/// of one second. Everything is committed.
pub(crate) fn steady_run() -> Run {
    let [txs, series, steps, blocks, hlog] = std::array::from_fn(|_| File::default());
    let writers = RunFolderWriters {
        txs: txs.clone(),
        answers: File::default(),
        series: series.clone(),
        steps,
        blocks: blocks.clone(),
        hlog: hlog.clone(),
    };
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let profile = Profile::constant("1000/s".parse().unwrap(), Some("3s".parse().unwrap()));
    let plan = SchedulePlan::new(Schedule::new(profile.unwrap(), Arrivals::Even));
    let mut recorder = Recorder::new(config, plan, writers);
    for tick in 0..4_000 {
        let now = Nanos::from_millis(tick);
        if tick < 3_000 {
            recorder.sent(&sent(tick, now));
        }
        if (2..3_002).contains(&tick) {
            recorder.answered(&Answered {
                index: tick - 2,
                hash_prefix: hash_prefix(&hash(tick - 2)),
                at: now,
                reply: Reply::Accepted,
            });
        }
        if tick % 500 == 499 {
            let last = (tick + 1).min(3_000);
            recorder.block(block(tick / 500 + 1, now, (tick - 499).min(3_000)..last));
        }
        if tick % 10 == 9 {
            recorder.watermark(SENDER, now);
            recorder.watermark(FOLLOWER, now);
        }
    }
    let end = RunEnd {
        planned: Some(3_000),
        offered_until: Nanos::from_secs(3),
        ended: Nanos::from_secs(4),
        interrupted: false,
    };
    Run {
        summary: recorder.finish(end).summary,
        txs,
        series,
        blocks,
        hlog,
    }
}

fn sent(index: u64, due: Nanos) -> Sent {
    Sent {
        index,
        hash: hash(index),
        size: 250,
        due,
        sent: due.saturating_add(Nanos::from_micros(20)),
        endpoint: 0,
        step: 0,
        cause: Cause::OnTime,
        own_late: false,
    }
}

fn block(height: u64, observed: Nanos, txs: std::ops::Range<u64>) -> BlockSeen {
    let observed = observed.saturating_add(Nanos::from_micros(300));
    BlockSeen {
        height,
        header_time_unix_ns: (ORIGIN_UNIX_NS + observed.as_nanos()).cast_signed(),
        observed,
        resolution: None,
        gas_wanted: None,
        gas_used: None,
        bytes: 1_000,
        txs: txs
            .map(|number| BlockTx {
                hash: hash(number),
                code: 0,
                space: Codespace::NONE,
            })
            .collect(),
    }
}

/// A hash that is different for each number.
fn hash(number: u64) -> TxHash {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    hash[24..].copy_from_slice(&number.to_be_bytes());
    hash
}
