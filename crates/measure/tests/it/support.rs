//! A run folder in memory and short ways to speak of events.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use measure::{
    Answered, BlockSeen, BlockTx, Cause, Codespace, Finished, Plan, Recorder, RecorderConfig,
    Reply, RunEnd, RunFolderWriters, Sent, SourceId, TxHash, hash_prefix,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

/// A file in memory that its test keeps a handle of; it is full after `room` bytes.
#[derive(Debug, Clone)]
pub(crate) struct File {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl File {
    pub(crate) fn with_room(room: usize) -> Self {
        Self {
            bytes: Arc::default(),
            room,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Keeps the first lines only, the header being one.
    pub(crate) fn cut(&self, lines: usize) {
        let text = self.text();
        let kept: String = text.split_inclusive('\n').take(lines).collect();
        self.set(&kept);
    }

    pub(crate) fn set(&self, text: &str) {
        *self.bytes.lock().unwrap() = text.as_bytes().to_vec();
    }

    /// The rows after the header, split into fields.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let text = self.text();
        assert!(text.ends_with('\n'), "the last row is complete");
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        text.lines()
            .skip(1)
            .map(|line| {
                let fields: Vec<String> = line.split(',').map(str::to_owned).collect();
                assert_eq!(fields.len(), header.len(), "{line}");
                fields
            })
            .collect()
    }

    /// One column by the name in the header.
    pub(crate) fn column(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let header = text.lines().next().unwrap();
        let position = header.split(',').position(|field| field == name);
        let position = position.unwrap_or_else(|| panic!("no column {name} in {header}"));
        self.rows()
            .into_iter()
            .map(|mut row| row.swap_remove(position))
            .collect()
    }

    pub(crate) fn sum(&self, name: &str) -> u64 {
        let column = self.column(name);
        column
            .iter()
            .map(|value| value.parse::<u64>().unwrap())
            .sum()
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let room = self.room - bytes.len().min(self.room);
        if room == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let taken = buffer.len().min(room);
        bytes.extend_from_slice(&buffer[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The five files.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) txs: File,
    pub(crate) series: File,
    pub(crate) steps: File,
    pub(crate) blocks: File,
    pub(crate) hlog: File,
    pub(crate) answers: File,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let file = || File::with_room(usize::MAX);
        Self {
            txs: file(),
            series: file(),
            steps: file(),
            blocks: file(),
            hlog: file(),
            answers: file(),
        }
    }

    pub(crate) fn writers(&self) -> RunFolderWriters<File> {
        RunFolderWriters {
            txs: self.txs.clone(),
            series: self.series.clone(),
            steps: self.steps.clone(),
            blocks: self.blocks.clone(),
            hlog: self.hlog.clone(),
            answers: self.answers.clone(),
        }
    }

    pub(crate) fn recorder<'a>(
        &self,
        config: RecorderConfig,
        plan: impl Plan + 'a,
    ) -> Recorder<'a> {
        Recorder::new(config, plan, self.writers())
    }
}

/// 2026-11-20 00:00:00.123456789 UTC.
pub(crate) const ORIGIN_UNIX_NS: u64 = 1_795_132_800_123_456_789;
pub(crate) const SENDER: SourceId = SourceId(0);
pub(crate) const FOLLOWER: SourceId = SourceId(1);

pub(crate) fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

pub(crate) fn constant(rate: &str, duration: &str) -> Schedule {
    let profile = Profile::constant(rate.parse().unwrap(), Some(duration.parse().unwrap()));
    Schedule::new(profile.unwrap(), Arrivals::Even)
}

/// A hash that is different for each number.
pub(crate) fn hash(number: u64) -> TxHash {
    let mut hash = [0; 32];
    // A full-period step, so that the bytes are as mixed as those of a real hash.
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash[..8].copy_from_slice(&mixed.to_be_bytes());
    hash[8..16].copy_from_slice(&mixed.rotate_left(23).to_be_bytes());
    hash[24..].copy_from_slice(&number.to_be_bytes());
    hash
}

pub(crate) fn sent(index: u64, due: Nanos, at: Nanos) -> Sent {
    Sent {
        index,
        hash: hash(index),
        size: 250,
        due,
        sent: at,
        endpoint: 0,
        step: 0,
        cause: Cause::OnTime,
        own_late: false,
    }
}

pub(crate) fn answered(index: u64, at: Nanos, reply: Reply) -> Answered {
    Answered {
        index,
        hash_prefix: hash_prefix(&hash(index)),
        at,
        reply,
    }
}

pub(crate) fn block(height: u64, observed: Nanos, txs: &[u64]) -> BlockSeen {
    let txs = txs.iter().map(|&number| BlockTx {
        hash: hash(number),
        code: 0,
        space: Codespace::NONE,
    });
    BlockSeen {
        height,
        header_time_unix_ns: (ORIGIN_UNIX_NS + observed.as_nanos()).cast_signed(),
        observed,
        resolution: None,
        gas_wanted: None,
        gas_used: None,
        bytes: 1_000,
        txs: txs.collect(),
    }
}

pub(crate) fn end(planned: u64, offered_until: Nanos, ended: Nanos) -> RunEnd {
    RunEnd {
        planned: Some(planned),
        offered_until,
        ended,
        interrupted: false,
    }
}

/// One sender at 1,000/s for three seconds: answers after 2 ms, blocks every half second, a drain
/// of one second. Everything is committed.
pub(crate) fn steady_run(folder: &Folder) -> Finished {
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let plan = measure::SchedulePlan::new(constant("1000/s", "3s"));
    let mut recorder = folder.recorder(config, plan);
    for tick in 0..4_000 {
        let now = ms(tick);
        if tick < 3_000 {
            recorder.sent(&sent(tick, now, now.saturating_add(Nanos::from_micros(20))));
        }
        if (2..3_002).contains(&tick) {
            recorder.answered(&answered(tick - 2, now, Reply::Accepted));
        }
        if tick % 500 == 499 {
            let last = tick.min(3_000);
            let first = (tick + 1 - 500).min(3_000);
            let txs: Vec<u64> = (first..last + u64::from(tick < 3_000)).collect();
            recorder.block(block(
                tick / 500 + 1,
                now.saturating_add(Nanos::from_micros(300)),
                &txs,
            ));
        }
        if tick % 10 == 9 {
            recorder.watermark(SENDER, now);
            recorder.watermark(FOLLOWER, now);
        }
    }
    recorder.finish(end(3_000, ms(3_000), ms(4_000)))
}
