//! The evidence that lies in the chain itself: full blocks, a full mempool, and the stage that has all it can do.

use super::Case;
use crate::evidence::{Evidence, EvidenceKind, LimitedBy, Strength};
use crate::limits::{BACKLOG_BLOCKS, SUSTAINED_SHARE};
use crate::plan::LoadModel;
use crate::silence::Stretch;

impl Case<'_> {
    /// What the chain could not take up.
    pub(super) fn blocks(&mut self) {
        let (summary, signs) = (self.summary, self.signs);
        if !summary.followed {
            return;
        }
        let out_of_gas = signs.out_of_gas;
        if out_of_gas.limits() {
            let stretch = out_of_gas.stretch;
            let text = format!(
                "blocks had no gas for another transaction (block.max_gas {}) at {} transactions from {:.1} s on, \
                 while up to {} waited",
                out_of_gas.limit, out_of_gas.txs, stretch.from_s, stretch.txs
            );
            let found = (EvidenceKind::BlocksOutOfGas, LimitedBy::Node);
            let text = (Some(out_of_gas.limit), text);
            self.add_limit(
                found,
                self.weight(stretch.txs),
                stretch.txs,
                Some(stretch),
                text,
            );
        }
        let full = signs.full_blocks;
        // As large as its gas allows says nothing more.
        if !out_of_gas.limits() && full.are_a_rule() && full.stretch.txs > full.largest {
            let text = format!(
                "blocks were full at {} transactions from {:.1} s on, while up to {} waited",
                full.largest, full.stretch.from_s, full.stretch.txs
            );
            let found = (EvidenceKind::BlocksFull, LimitedBy::Node);
            let weight = self.weight(full.stretch.txs);
            let text = (Some(full.largest), text);
            self.add_limit(found, weight, full.stretch.txs, Some(full.stretch), text);
        }
        let (Some(accepted), Some(committed)) =
            (summary.rate.accepted_tps, summary.rate.committed_tps)
        else {
            return;
        };
        let block = summary.blocks.own_txs as f64 / summary.blocks.count.max(1) as f64;
        let backlog = signs.backlog_offered;
        let slower = committed.mean < accepted.mean * SUSTAINED_SHARE;
        if slower && backlog as f64 > BACKLOG_BLOCKS * block {
            let grown = Stretch {
                from_s: signs.backlog.since_s,
                until_s: summary.time.offered_s,
                txs: backlog,
            };
            let text = format!(
                "accepted {:.0}/s and committed {:.0}/s: {backlog} were in no block when the offering ended",
                accepted.mean, committed.mean
            );
            let strength = match summary.model {
                LoadModel::Open => self.weight(backlog),
                // The load went on as fast as answers came: blocks did not hold it back.
                LoadModel::Closed => Strength::Remark,
            };
            let found = (EvidenceKind::Backlog, LimitedBy::Node);
            self.add(found, strength, backlog, Some(grown), text);
        }
    }

    /// Which stage of the node was at work all the time, where the node held the load back.
    pub(super) fn stages(&mut self) {
        let is_strong = |it: &&Evidence| it.strength >= Strength::Strong;
        let strong: Vec<&Evidence> = self.found.iter().filter(is_strong).collect();
        let by_node = |it: &&Evidence| it.points_to == LimitedBy::Node;
        let txs = strong
            .iter()
            .copied()
            .filter(by_node)
            .map(|it| it.txs)
            .max();
        let Some(txs) = txs else { return };
        let of_blocks = [
            EvidenceKind::Backlog,
            EvidenceKind::BlocksFull,
            EvidenceKind::BlocksOutOfGas,
        ];
        let behind = strong.iter().any(|it| of_blocks.contains(&it.kind));
        // What blocks cost is reckoned from their headers' times.
        let by_blocks = self.summary.followed && !self.signs.header_clock.was_set();
        let finding = self.signs.stages.finding(by_blocks, behind);
        let Some((since_s, text)) = finding else {
            return;
        };
        let until_s = self.summary.time.offered_s;
        let stretch = since_s.map(|from_s| Stretch {
            from_s,
            until_s,
            txs,
        });
        let kind = (EvidenceKind::SerialStage, LimitedBy::Node);
        self.add(kind, Strength::Strong, txs, stretch, text);
        // Before what it explains.
        self.found.rotate_right(1);
    }
}
