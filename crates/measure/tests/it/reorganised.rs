//! Blocks that a reorganisation takes back.

use measure::{BlockSeen, RecorderConfig, Reply, SchedulePlan, ScheduleVerdict};

use crate::support::{
    FOLLOWER, Folder, ORIGIN_UNIX_NS, SENDER, answered, block, constant, end, ms, sent,
};

/// What a follower of a chain with reorganisations does: a block is reported once it is `DEPTH` deep,
/// as observed then.
#[derive(Default)]
struct BestChain(Vec<BlockSeen>);

impl BestChain {
    fn extend(&mut self, block: BlockSeen) -> Option<BlockSeen> {
        let now = block.observed;
        self.0.retain(|kept| kept.height < block.height);
        self.0.push(block);
        let buried = self.0.len().checked_sub(DEPTH + 1)?;
        Some(BlockSeen {
            observed: now,
            ..self.0[buried].clone()
        })
    }
}

const DEPTH: usize = 2;

#[test]
fn a_block_that_a_reorganisation_takes_back_commits_nothing() {
    let folder = Folder::new();
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let plan = SchedulePlan::new(constant("100/s", "1s"));
    let mut recorder = folder.recorder(config, plan);
    for index in 0..10 {
        recorder.sent(&sent(index, ms(index * 10), ms(index * 10)));
        recorder.answered(&answered(index, ms(150), Reply::Accepted));
    }
    let mut chain = BestChain::default();
    let seen = [
        block(1, ms(200), &[0, 1]),
        block(2, ms(300), &[2, 3, 4]),
        // In place of the one before it, without 4 and with 3 in the next.
        block(2, ms(400), &[2]),
        block(3, ms(20_000), &[3]),
        block(4, ms(30_000), &[]),
        block(5, ms(40_000), &[]),
    ];
    for block in seen {
        let now = block.observed;
        chain
            .extend(block)
            .into_iter()
            .for_each(|block| recorder.block(block));
        // The watermark does not wait for the blocks that are held back.
        recorder.watermark(SENDER, now);
        recorder.watermark(FOLLOWER, now);
    }
    let finished = recorder.finish(end(10, ms(100), ms(40_000)));
    let summary = finished.summary;
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!(summary.recorder.late_events, 0);
    assert_ne!(summary.verdict.schedule, ScheduleVerdict::Degraded);
    assert_eq!((summary.fate.committed, summary.fate.pending), (4, 6));
    assert_eq!(folder.blocks.column("height"), ["1", "2", "3"]);
    assert_eq!(folder.blocks.column("own_txs"), ["2", "1", "1"]);
}
