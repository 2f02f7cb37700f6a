//! What happens at the nodes and what time decides: blocks, depths, deadlines, breaks, and which
//! node takes the writes.

use control::{BlockSeen, Bound, BreakCause, BreakEvent, BreakFacts, Hold, Load, Refused};
use pacing::Nanos;
use rpc::FollowedBlock;
use tracing::info;

use super::Worker;
use crate::lane::scarcity::Content;
use crate::lane::status::Status;
use crate::lane::writes::{ShownBlock, WriteState};
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
                self.pacer.mempool(now, at, txs);
            }
            NodeEvent::Up { .. } => self.choose(now),
            NodeEvent::Down { node, .. } => {
                if Some(node) == self.active {
                    self.pool.reopen_idle(None, now);
                }
                self.choose(now);
            }
            NodeEvent::ChainReplaced { node, .. } if Some(node) == self.active => {
                self.last_block = None;
                self.pacer.chain_replaced(now);
                self.breaks.chain_replaced();
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
            let under_way = self.pool.give_up(now);
            let reason = "another node takes over";
            self.broke(reason, &under_way, ReconnectCause::Broken, now);
        }
        self.active = Some(next);
        self.shared.status.lock().node = Some(next);
        self.pacer.node_changed(now);
        let url = self.nodes.endpoint(next).to_string();
        info!(node = next, url, "writes go to this node");
    }

    fn on_block(&mut self, block: &FollowedBlock, node: usize, now: Nanos) {
        let (committed, shown) = self.writes.block(&block.hashes, now);
        self.answer_shown(shown, now);
        self.acknowledged.uncommitted(committed.overtaken.len());
        let shown = ShownBlock {
            height: block.height,
            observed: block.observed,
        };
        let last = self.last_block.replace(shown);
        self.recover(now);
        let all = Load {
            txs: block.hashes.len() as u64,
            bytes: block.bytes,
            gas: committed.ours.gas,
        };
        let content = Content {
            load: all,
            gas_txs: committed.gas_txs,
        };
        let limits = self.nodes.state(node).block_limits;
        let unit = self.shared.lock().note_block(&content, limits);
        let seen = BlockSeen {
            height: block.height,
            observed: block.observed,
            all,
            ours: committed.ours,
        };
        self.pacer.block(now, &seen, unit, self.writes.own());
        self.pool.resize(self.pacer.connections(), now);
        if let Some(event) = self.breaks.block(&seen) {
            self.on_break(event, now);
        }
        let since_last = last.map(|last| block.observed.saturating_sub(last.observed));
        self.metrics.block(all.txs, since_last);
        self.commits.block(block, node, self.pool.oldest());
    }

    /// Offers again what the node may not have after a broken connection, once that is known. If it may have been
    /// started again, that is first of all what it had accepted.
    fn recover(&mut self, now: Nanos) {
        let known = self.known();
        let Some(same_since) = known.same_since else {
            return;
        };
        let mut accepted = 0;
        if self.is_in_doubt() {
            if !known.covers(same_since, now) {
                return;
            }
            self.count_passive_blocks(now);
            accepted = self.writes.offer_accepted(same_since, now);
        }
        self.trusted_since = same_since;
        let under_way = self.writes.offer_unknown(now, &known);
        if accepted + under_way > 0 {
            info!(
                accepted,
                under_way, "writes that the node may have lost are offered again"
            );
        }
    }

    /// Whether the node may have been started again since it accepted what is in no block.
    fn is_in_doubt(&self) -> bool {
        let kept = self.writes.count(WriteState::Accepted);
        let unknown = self.writes.count(WriteState::FateUnknown);
        let same_since = self.pool.same_since();
        same_since.is_some_and(|since| since > self.trusted_since) && kept + unknown > 0
    }

    /// What nodes made known while another took the writes is committed as well.
    fn count_passive_blocks(&mut self, now: Nanos) {
        for (node, block) in self.passive.take() {
            let shown = self.writes.passive_block(&block.hashes, now);
            self.answer_shown(shown, now);
            self.commits.block(&block, node, self.pool.oldest());
        }
    }

    /// Does everything that time decides.
    pub(super) fn tick(&mut self, now: Nanos) {
        self.follow(now);
        let (queued, ceiling) = {
            let mut queue = self.shared.lock();
            queue.expire(now);
            queue.offer_rooms(now);
            queue.accounts().forwarded = self.forwarded;
            queue.accounts().unkept = self.acknowledged.all_unkept();
            (queue.len(), queue.ceiling())
        };
        self.pacer.set_ceiling(now, ceiling);
        for job in self.writes.take_expired(now) {
            self.expire(&job);
        }
        self.commits.expire(now);
        self.recover(now);
        self.give_up_silent(now);
        self.choose(now);
        self.down_since = if self.active_takes_writes() {
            None
        } else {
            self.down_since.or(Some(now))
        };
        self.pool.resize(self.pacer.connections(), now);
        self.update_breaks(now, queued > 0);
        self.publish(now);
    }

    /// Closes the connections whose oldest write has had no answer for too long.
    fn give_up_silent(&mut self, now: Nanos) {
        let limit = self.config.upstream.timeout.into();
        for under_way in self.pool.give_up_silent(limit, now) {
            self.metrics.upstream_error(UpstreamError::Timeout);
            self.pacer.refused(Refused::TimedOut);
            let reason = "the node does not answer";
            self.broke(reason, &under_way, ReconnectCause::Timeout, now);
        }
    }

    fn update_breaks(&mut self, now: Nanos, queued: bool) {
        let facts = BreakFacts {
            backlogged: queued || self.writes.count(WriteState::Ready) > 0,
            in_flight: self.writes.count(WriteState::UnderWay),
            takes_writes: self.active_takes_writes() && self.pool.is_up(),
        };
        let before = self.breaks.state();
        if let Some(event) = self.breaks.tick(now, &facts) {
            self.on_break(event, now);
        }
        let state = self.breaks.state();
        if state != before {
            info!(state = state.name(), "break controller");
        }
    }

    fn on_break(&mut self, event: BreakEvent, now: Nanos) {
        match event {
            BreakEvent::Began(cause) => {
                let rate = self.pacer.committed_rate(now).round();
                let usual = self.breaks.usual().round();
                let cause_name = cause.name();
                info!(
                    cause = cause_name,
                    rate, usual, "a break begins: no writes are sent"
                );
                self.metrics.paused(cause);
                self.break_cause = match cause {
                    BreakCause::Interval => ReconnectCause::Interval,
                    BreakCause::Threshold => ReconnectCause::Threshold,
                };
            }
            BreakEvent::Reconnect => self.pool.renew(now),
            BreakEvent::Reopened(closed) => {
                self.metrics.paused_seconds.inc_by(closed.as_secs_f64());
            }
            BreakEvent::Measured(gain) => {
                let interval = self.breaks.interval();
                info!(gain = %format_args!("{gain:.3}"), %interval, "the effect of the break was measured");
                self.metrics.pause_gain.set(gain - 1.0);
            }
        }
    }

    /// What holds the next write back, the node's own reasons first.
    fn bound(&self, now: Nanos) -> Bound {
        if let Some(since) = self.down_since {
            return Bound::NodeDown(since);
        }
        if self.breaks.is_closed() {
            return Bound::Break(self.breaks.state());
        }
        if let Some(cause) = self.hold() {
            return Bound::Held(cause);
        }
        let unanswered = self.pool.oldest();
        match unanswered.map(|sent| sent.max(self.last_answer)) {
            Some(since) if now.saturating_sub(since) >= SILENT => Bound::NodeSilent {
                since,
                under_way: self.writes.count(WriteState::UnderWay),
            },
            _ => self.pacer.bound(),
        }
    }

    /// Why nothing is sent although the node takes writes.
    pub(super) fn hold(&self) -> Option<Hold> {
        if !self.pool.is_up() {
            Some(Hold::Connecting)
        } else if self.is_in_doubt() {
            Some(Hold::Recovery)
        } else {
            self.writes.ask_again_at().map(|_| Hold::Refused)
        }
    }

    fn publish(&mut self, now: Nanos) {
        let bound = self.bound(now);
        self.bound_log.look(&bound, now);
        let is_held = matches!(bound, Bound::NodeDown(_) | Bound::NodeSilent { .. });
        let is_silent = |node| self.nodes.state(node).is_silent_for(SILENT, now);
        let status = Status {
            node: self.active,
            answering: !is_held && self.pool.is_up() && !self.active.is_none_or(is_silent),
            connected: self.pool.is_up(),
            connections: self.pool.in_use(),
            connecting: self.pool.opening(),
            in_flight: self.writes.count(WriteState::UnderWay),
            retained_bytes: self.writes.kept_bytes(),
            forgotten: self.writes.forgotten(),
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
