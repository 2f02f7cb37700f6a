//! Question: what does it cost to keep the account of one transaction through its whole life (sent,
//! answered, committed, its row in txs.csv, its share of every other file)?
//!
//! Unit: time for 50,000 transactions; elements a second are transactions a second. The recorder has a
//! thread of its own, so this is the rate at which it becomes the bottleneck.
//! Compared with: `hash_map`, the least that anybody does: three stamps in a std HashMap by hash, no
//! histogram, no row, no proof of anything.

use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use measure::{
    Answered, BlockSeen, BlockTx, Cause, Codespace, Recorder, RecorderConfig, Reply, RunEnd,
    RunFolderWriters, SchedulePlan, Sent, SourceId, TxHash, hash_prefix,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};
use sha2::{Digest, Sha256};

const TXS: u64 = 50_000;
const BLOCK_TXS: u64 = 5_000;
/// 50,000/s.
const GAP_NS: u64 = 20_000;

fn whole_life(c: &mut Criterion) {
    let hashes: Vec<TxHash> = (0..TXS)
        .map(|index| Sha256::digest(index.to_le_bytes()).into())
        .collect();
    let mut group = c.benchmark_group("whole_life");
    group.throughput(Throughput::Elements(TXS));
    group.bench_function("recorder", |b| {
        b.iter_batched(
            || (recorder(), blocks(&hashes)),
            |(recorder, blocks)| record(recorder, &hashes, blocks),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("hash_map", |b| b.iter(|| remember(&hashes)));
    group.finish();
}

fn record(mut recorder: Recorder<'static>, hashes: &[TxHash], blocks: Vec<BlockSeen>) {
    let mut blocks = blocks.into_iter();
    for (index, hash) in (0..TXS).zip(hashes) {
        let sent = sent(index, hash);
        recorder.sent(&sent);
        recorder.answered(&Answered {
            index,
            hash_prefix: hash_prefix(hash),
            at: sent
                .sent
                .saturating_add(Nanos::from_micros(300 + index % 777)),
            reply: Reply::Accepted,
        });
        // A sender's batch, and what follows from it.
        if index % 500 == 499 {
            recorder.watermark(SENDER, sent.due);
            recorder.watermark(FOLLOWER, sent.due);
        }
        if (index + 1) % BLOCK_TXS == 0 {
            recorder.block(blocks.next().expect("a block for each BLOCK_TXS"));
        }
    }
    let end = Nanos::from_nanos(TXS * GAP_NS);
    let finished = recorder.finish(RunEnd {
        planned: Some(TXS),
        offered_until: end,
        ended: end.saturating_add(Nanos::from_secs(1)),
        ..RunEnd::default()
    });
    assert_eq!(finished.summary.fate.committed, TXS);
}

fn remember(hashes: &[TxHash]) -> Nanos {
    let mut pending: HashMap<TxHash, [Nanos; 3]> = HashMap::new();
    let mut longest = Nanos::ZERO;
    for (block, hashes) in hashes.chunks(BLOCK_TXS as usize).enumerate() {
        for (index, hash) in hashes.iter().enumerate() {
            let sent = sent(block as u64 * BLOCK_TXS + index as u64, hash);
            pending.insert(sent.hash, [sent.due, sent.sent, Nanos::ZERO]);
            if let Some(stamps) = pending.get_mut(hash) {
                stamps[2] = sent.sent.saturating_add(Nanos::from_micros(300));
            }
        }
        for hash in hashes {
            if let Some([due, ..]) = pending.remove(hash) {
                longest = longest.max(black_box(due));
            }
        }
    }
    longest
}

fn sent(index: u64, hash: &TxHash) -> Sent {
    let due = Nanos::from_nanos(index * GAP_NS);
    Sent {
        index,
        hash: *hash,
        size: 250,
        due,
        sent: due.saturating_add(Nanos::from_nanos(20_000 + index % 1_000 * 31)),
        endpoint: 0,
        step: 0,
        cause: Cause::OnTime,
        own_late: false,
    }
}

fn blocks(hashes: &[TxHash]) -> Vec<BlockSeen> {
    hashes
        .chunks(BLOCK_TXS as usize)
        .zip(1..)
        .map(|(hashes, height)| BlockSeen {
            height,
            header_time_unix_ns: 0,
            observed: Nanos::from_nanos(height * BLOCK_TXS * GAP_NS + 5_000_000),
            bytes: 250 * BLOCK_TXS,
            txs: hashes
                .iter()
                .map(|&hash| BlockTx {
                    hash,
                    code: 0,
                    space: Codespace::NONE,
                })
                .collect(),
            ..BlockSeen::default()
        })
        .collect()
}

fn recorder() -> Recorder<'static> {
    let rate = "50000/s".parse().expect("a legal rate");
    let profile = Profile::constant(rate, Some(Nanos::from_nanos(TXS * GAP_NS)));
    let schedule = Schedule::new(profile.expect("a legal profile"), Arrivals::Even);
    let files = RunFolderWriters {
        txs: io::sink(),
        answers: io::sink(),
        series: io::sink(),
        steps: io::sink(),
        blocks: io::sink(),
        hlog: io::sink(),
    };
    Recorder::new(
        RecorderConfig::new(0, 1, 1),
        SchedulePlan::new(schedule),
        files,
    )
}

const SENDER: SourceId = SourceId(0);
const FOLLOWER: SourceId = SourceId(1);

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = settings(); targets = whole_life }
criterion_main!(benches);
