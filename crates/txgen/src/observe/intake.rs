//! What a node takes into its mempool, from the depths that it reports and the blocks that it shows.

use pacing::Nanos;

/// Between two reported depths: what the mempool grew by, and what the blocks shown in between took.
///
/// Depths and blocks come at different instants, so a whole block may be missing from the one or the other for
/// a moment: counted by seconds, a block just before a second's end would make up a second without transactions.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// The depth reported last, and when.
    told: Option<(Nanos, u64)>,
    /// Transactions that blocks took since.
    taken: u64,
    /// Transactions that left the mempool and that no block has shown yet.
    left: u64,
    /// Of the second under way: transactions taken in, and the time between the reported depths.
    admitted: u64,
    over: Nanos,
}

impl Intake {
    /// The node reported how many transactions are in its mempool.
    pub(super) fn depth(&mut self, at: Nanos, txs: u64) {
        if let Some((then, before)) = self.told.replace((at, txs)) {
            let (now, before) = (txs + self.taken, before + self.left);
            self.admitted += now.saturating_sub(before);
            self.over = self.over.saturating_add(at.saturating_sub(then));
            // What the next block does not account for was dropped.
            self.left = match self.taken {
                0 => before.saturating_sub(now),
                _ => 0,
            };
        }
        self.taken = 0;
    }

    /// The node did not answer: what it took in until it does is not known.
    pub(super) fn gap(&mut self) {
        self.told = None;
        self.left = 0;
    }

    /// The node showed a block with so many transactions from its mempool.
    pub(super) fn block(&mut self, txs: u64) {
        self.taken += txs;
    }

    /// Ends a second: transactions a second in it, unless nothing is known.
    pub(super) fn close(&mut self) -> Option<f64> {
        let (admitted, over) = (
            std::mem::take(&mut self.admitted),
            std::mem::take(&mut self.over),
        );
        (over > Nanos::ZERO).then(|| admitted as f64 / over.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// 300/s into a node whose blocks fall just before the seconds' ends and then just after them: by the blocks of
    /// each second one of them had no transactions.
    #[test]
    fn a_steady_intake_is_steady_whenever_blocks_come() {
        for shown_after in [0, 30, 250] {
            let mut intake = Intake::default();
            let mut rates = Vec::new();
            let mut shown = Vec::new();
            let (mut depth, mut next_block) = (0_u64, 1_000);
            // Blocks 1,003 ms apart take all there is, and are shown later.
            for at in 1..=12_000_u64 {
                depth += u64::from(at % 10 < 3);
                if at == next_block {
                    shown.push((at + shown_after, std::mem::take(&mut depth)));
                    next_block += 1_003;
                }
                for (_, txs) in shown.extract_if(.., |(when, _)| *when <= at) {
                    intake.block(txs);
                }
                if at % 170 == 0 {
                    intake.depth(ms(at), depth);
                }
                if at % 1_000 == 0 {
                    rates.extend(intake.close());
                }
            }
            // A second begins and ends up to an answer's distance early.
            for rate in &rates {
                let late = 1.0 + f64::from(shown_after as u32) / 400.0;
                assert!(
                    *rate > 300.0 / late - 20.0 && *rate < 300.0 * late + 20.0,
                    "{shown_after}: {rates:?}"
                );
            }
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!((mean - 300.0).abs() < 15.0, "{shown_after}: {mean}");
        }
    }

    #[test]
    fn what_a_mempool_drops_does_not_hide_what_it_takes_in_after_the_next_block() {
        let mut intake = Intake::default();
        intake.depth(ms(0), 1_000);
        // Dropped: 600. A block takes 100 of the rest.
        intake.depth(ms(200), 400);
        intake.block(100);
        intake.depth(ms(400), 300);
        assert_eq!(intake.close(), Some(0.0));
        intake.depth(ms(600), 350);
        assert_eq!(intake.close(), Some(250.0));
    }

    #[test]
    fn nothing_is_known_over_a_gap() {
        let mut intake = Intake::default();
        intake.depth(ms(0), 10);
        assert_eq!(intake.close(), None);
        intake.gap();
        intake.block(500);
        intake.depth(ms(5_000), 900);
        assert_eq!(intake.close(), None);
        intake.depth(ms(5_500), 950);
        assert_eq!(intake.close(), Some(100.0));
    }
}
