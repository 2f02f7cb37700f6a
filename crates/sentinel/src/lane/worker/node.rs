//! What happens at the nodes and what time decides: blocks, depths, deadlines, breaks, and which
//! node takes the writes.

use control::{BlockSeen, Bound, BreakFacts, Hold, Refused};
use pacing::Nanos;
use rpc::FollowedBlock;
use tracing::info;

use super::Worker;
use crate::lane::scarcity::Content;
use crate::lane::status::Status;
use crate::metrics::{ReconnectCause, UpstreamError};
use crate::upstream::{NodeEvent, SILENT};

impl Worker {
    /// Something happened at a node.
    pub(super) fn on_node(&mut self, event: NodeEvent) {
        let now = self.now();
        match event {
            NodeEvent::Block { node, block, .. } if Some(node) == self.active => {
                self.on_block(&block, node, now);
            }
            NodeEvent::Mempool { node, txs, at } if Some(node) == self.active => {
                self.shared.lock().note_mempool(txs);
                self.pacer.mempool(at, txs);
            }
            NodeEvent::Up { .. } | NodeEvent::Down { .. } | NodeEvent::CatchingUp { .. } => {
                self.choose(now);
            }
            NodeEvent::ChainReplaced { node, .. } if Some(node) == self.active => {
                self.pacer.chain_replaced(now);
                self.breaks.chain_replaced(now);
            }
            NodeEvent::Block { node, block } => self.passive.note(node, block),
            NodeEvent::Mempool { .. } | NodeEvent::ChainReplaced { .. } => {}
        }
    }

    /// Whether there is an active node and it takes writes.
    pub(super) fn active_takes_writes(&self) -> bool {
        self.active
            .is_some_and(|node| self.nodes.takes_writes(node))
    }

    /// Writes stay with a node as long as it is healthy; then the next healthy one in the list
    /// takes them.
    fn choose(&mut self, now: Nanos) {
        if self.active_takes_writes() {
            return;
        }
        let Some(next) = (0..self.nodes.count()).find(|node| self.nodes.takes_writes(*node)) else {
            return;
        };
        if self.active.is_some() {
            self.disconnect("another node takes over", ReconnectCause::Broken);
        }
        self.active = Some(next);
        self.shared.set_node(next);
        self.pacer.node_changed(now);
        let url = self.nodes.endpoint(next).to_string();
        info!(node = next, url, "writes go to this node");
    }

    fn on_block(&mut self, block: &FollowedBlock, node: usize, now: Nanos) {
        let shown = self.reoffers.take_shown(&block.hashes);
        self.answer_shown(shown, now);
        let (ours, content) = self.release(block);
        self.recover(now, Some(block.observed));
        let seen = BlockSeen {
            height: block.height,
            txs: block.hashes.len(),
            // Transactions that were not kept look like those of others.
            ours: self.retained.is_complete(now).then_some(ours),
            observed: block.observed,
        };
        let limits = self.nodes.block_limits(node);
        self.shared.lock().note_block(&content, limits);
        self.pacer.block(now, &seen);
        self.breaks.block(&seen);
        let last = self.last_block.replace(block.observed);
        let since_last = last.map(|last| block.observed.saturating_sub(last));
        self.metrics.block(seen.txs as u64, since_last);
        self.commits.note(block, node, self.connections.oldest());
        if self.commits.len() > 0 {
            self.commits.answer(block, &self.nodes, node);
        }
        self.reoffers.room_made(now);
    }

    /// A block shows transactions that were kept: how many, and what is known of its content.
    fn release(&mut self, block: &FollowedBlock) -> (usize, Content) {
        let mut content = Content {
            txs: block.hashes.len(),
            bytes: block.bytes,
            ..Content::default()
        };
        let mut ours = 0;
        for job in block
            .hashes
            .iter()
            .filter_map(|hash| self.retained.take(hash))
        {
            ours += 1;
            if let Some(gas) = job.gas() {
                content.gas_txs += 1;
                content.gas = content.gas.saturating_add(gas);
            }
        }
        (ours, content)
    }

    /// Once it is known what the node has after a broken connection, the rest is offered again:
    /// first what it had accepted, then what was under way.
    fn recover(&mut self, now: Nanos, block: Option<Nanos>) {
        let interval = self.pacer.block_interval();
        if !self.reoffers.can_end_recovery(now, block, interval) {
            return;
        }
        self.count_passive_blocks(now);
        let accepted = self.retained.take_all();
        info!(
            accepted = accepted.len(),
            under_way = self.reoffers.len(),
            "writes that the node may have lost are offered again"
        );
        self.pacer.mempool_lost(now);
        self.reoffers.end_recovery(accepted);
    }

    /// What nodes made known while another took the writes is committed as well.
    fn count_passive_blocks(&mut self, now: Nanos) {
        for (node, block) in self.passive.take() {
            let shown = self.reoffers.take_shown(&block.hashes);
            self.answer_shown(shown, now);
            for hash in &block.hashes {
                self.retained.take(hash);
            }
            self.commits.answer(&block, &self.nodes, node);
        }
    }

    /// Does everything that time decides.
    pub(super) fn tick(&mut self, now: Nanos) {
        let queued = {
            let mut queue = self.shared.lock();
            queue.expire(now);
            queue.accounts().forwarded = self.forwarded;
            queue.accounts().unkept = self.acknowledged.all_unkept();
            queue.len()
        };
        for job in self.reoffers.take_expired(now) {
            self.expire(&job);
        }
        self.commits.expire(now);
        self.acknowledged.uncommitted(self.retained.forget_old(now));
        self.recover(now, None);
        self.give_up_silent(now);
        self.choose(now);
        self.down_since = match self.active_takes_writes() {
            true => None,
            false => self.down_since.or(Some(now)),
        };
        if let Some(active) = self.active {
            let endpoint = self.nodes.endpoint(active);
            (self.connections).widen(self.pacer.connections(), endpoint, now);
        }
        self.update_breaks(now, queued > 0);
        self.publish(now);
    }

    /// Closes the connections when the oldest write has had no answer for too long.
    fn give_up_silent(&mut self, now: Nanos) {
        let limit: Nanos = self.config.upstream.write_timeout.into();
        let silent = |sent| now.saturating_sub(sent) > limit;
        if self.connections.oldest().is_some_and(silent) {
            self.metrics.upstream_error(UpstreamError::Timeout);
            self.pacer.refused(Refused::TimedOut);
            self.disconnect("the node sends no answers", ReconnectCause::Timeout);
        }
    }

    fn update_breaks(&mut self, now: Nanos, queued: bool) {
        let facts = BreakFacts {
            backlogged: queued || self.reoffers.has_waiting(),
            in_flight: self.connections.in_flight() + self.shared.lock().permits(),
            catching_up: !self.active_takes_writes(),
            connected: self.connections.is_up(),
        };
        if self.breaks.tick(now, &facts)
            && let Some(active) = self.active
        {
            self.connections.open(self.nodes.endpoint(active));
        }
        self.pacer.throttle(now, self.breaks.factor());
    }

    /// What holds the next write back, the node's own reasons first.
    fn bound(&self, now: Nanos) -> Bound {
        if let Some(since) = self.down_since {
            return Bound::NodeDown { since };
        }
        if self.breaks.factor() == 0.0 {
            let state = self.breaks.state();
            return Bound::Break { state };
        }
        if let Some(cause) = self.hold() {
            return Bound::Held { cause };
        }
        let unanswered = self.connections.oldest();
        match unanswered.map(|sent| sent.max(self.last_answer)) {
            Some(since) if now.saturating_sub(since) >= SILENT => Bound::NodeSilent {
                since,
                under_way: self.connections.in_flight(),
            },
            _ => self.pacer.bound(),
        }
    }

    /// Why nothing is sent although the node takes writes.
    pub(super) fn hold(&self) -> Option<Hold> {
        if !self.connections.is_up() {
            Some(Hold::Connecting)
        } else if self.connections.is_widening() {
            Some(Hold::Widening)
        } else {
            self.reoffers.hold()
        }
    }

    fn publish(&mut self, now: Nanos) {
        let bound = self.bound(now);
        self.bound_log.look(&bound, now);
        let is_held = matches!(bound, Bound::NodeDown { .. } | Bound::NodeSilent { .. });
        let is_silent = |node| self.nodes.is_silent_for(node, SILENT);
        let is_answering =
            !is_held && self.connections.is_up() && !self.active.is_none_or(is_silent);
        self.shared.set_answering(is_answering);
        let status = Status {
            node: self.active,
            connected: self.connections.is_up(),
            connections: self.connections.in_use(),
            in_flight: self.connections.in_flight(),
            retained_bytes: self.retained.bytes(),
            commits: self.commits.len(),
            rate: self.pacer.rate(),
            state: self.breaks.state(),
            committed_rate: self.pacer.committed_rate(now),
            served: self.pacer.served(),
            bound,
            blind: self.pacer.is_blind(now),
            ..Status::default()
        };
        self.shared.publish(status, self.breaks.closed_until(now));
    }
}
