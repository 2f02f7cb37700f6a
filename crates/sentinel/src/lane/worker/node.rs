//! What is not hot: the nodes' events, the passing of time, breaks, and who takes the writes.

use pacing::Nanos;
use rpc::FollowedBlock;

use super::link::Link;
use super::recovery::OFFERED_AGAIN;
use super::worker::Worker;
use crate::metrics::{ControllerState, PauseCause, ReconnectCause, UpstreamError};
use crate::upstream::NodeEvent;
use control::{
    BlockSeen, BreakAction, BreakCause, BreakEvent, BreakFacts, BreakState, Gate, Refused, Signals,
};

impl Worker {
    /// Something happened at a node.
    pub(super) fn on_node(&mut self, event: NodeEvent, now: Nanos) {
        match event {
            NodeEvent::Block { node, block, .. } if Some(node) == self.active => {
                self.on_block(&block, now);
            }
            NodeEvent::Mempool { node, txs, at, .. } if Some(node) == self.active => {
                self.pacer.mempool(at, txs);
            }
            NodeEvent::Block { .. } | NodeEvent::Mempool { .. } => {}
            NodeEvent::Up { .. } | NodeEvent::Down { .. } | NodeEvent::CatchingUp { .. } => {
                self.choose(now);
            }
            NodeEvent::ChainReplaced { node, .. } if Some(node) == self.active => {
                self.pacer.chain_replaced(now);
                self.breaks.chain_replaced(now);
            }
            NodeEvent::Missing { .. } | NodeEvent::ChainReplaced { .. } => {}
        }
    }

    /// Writes stay with a node as long as it is healthy; then the next healthy one in the list
    /// takes them.
    pub(super) fn choose(&mut self, now: Nanos) {
        if self
            .active
            .is_some_and(|node| self.nodes.takes_writes(node))
        {
            return;
        }
        let Some(next) = (0..self.nodes.count()).find(|node| self.nodes.takes_writes(*node)) else {
            return;
        };
        if self.active == Some(next) {
            return;
        }
        if self.active.is_some() {
            self.broken("another node takes over", ReconnectCause::Broken);
        }
        self.active = Some(next);
        self.shared.set_node(next);
        self.pacer.node_changed(now);
        self.log
            .active(Some(next), &self.nodes.endpoint(next).to_string());
    }

    fn on_block(&mut self, block: &FollowedBlock, now: Nanos) {
        self.recover_from(block, now);
        let ours = block
            .hashes
            .iter()
            .filter(|hash| self.retained.release(hash))
            .count();
        let seen = BlockSeen {
            height: block.height,
            txs: block.hashes.len(),
            // What was not kept cannot be told from what others sent.
            ours: self.retained.is_complete().then_some(ours),
            observed: block.observed,
        };
        self.pacer.block(now, &seen);
        self.breaks.block(&seen);
        let last = self.last_block.replace(block.observed);
        let since_last = last.map(|last| block.observed.saturating_sub(last));
        self.metrics.block(seen.txs as u64, since_last);
        self.answer_commits(block);
        self.shorten_back_off(now);
    }

    /// One fetch of the block's results answers everybody who waits for one of its transactions.
    fn answer_commits(&mut self, block: &FollowedBlock) {
        if self.commits.len() == 0 {
            return;
        }
        let waiters: Vec<_> = block
            .hashes
            .iter()
            .enumerate()
            .map(|(at, hash)| (at, *hash, self.commits.take(hash)))
            .filter(|(_, _, waiters)| !waiters.is_empty())
            .collect();
        if waiters.is_empty() {
            return;
        }
        let (nodes, node, height) = (self.nodes.clone(), self.active.unwrap_or(0), block.height);
        self.results.spawn(async move {
            let results = nodes.results(node, height).await;
            for (at, hash, waiters) in waiters {
                let text = results
                    .as_ref()
                    .ok()
                    .and_then(|results| results.tx_result(at));
                for waiter in waiters {
                    match text {
                        Some(text) => waiter.committed(&hash, text.as_bytes(), height),
                        None => waiter.no_result(&hash, height),
                    }
                }
            }
        });
    }

    /// Looks after everything that time decides.
    pub(super) fn tick(&mut self, now: Nanos) {
        let backlogged = {
            let mut state = self.shared.lock();
            state.expire(now);
            state.accounts.forwarded = self.forwarded;
            !state.queue.is_empty()
        };
        self.expire_again(now);
        self.commits.expire(now);
        self.retained
            .forget_before(now.saturating_sub(OFFERED_AGAIN));
        self.recover_in_time(now);
        self.give_up_silent(now);
        self.choose(now);
        self.break_or_go_on(now, backlogged || !self.resend.is_empty());
        self.count_pause();
        self.publish(now);
    }

    /// What is offered again expires as well.
    fn expire_again(&mut self, now: Nanos) {
        let mut expired = Vec::new();
        for list in [&mut self.resend, &mut self.confirming] {
            if list.iter().any(|job| job.deadline <= now) {
                let (over, kept) = std::mem::take(list)
                    .into_iter()
                    .partition(|job| job.deadline <= now);
                *list = kept;
                let over: std::collections::VecDeque<_> = over;
                expired.extend(over);
            }
        }
        for job in &expired {
            self.give_up(job);
        }
    }

    /// A connection whose oldest write has no answer for too long is given up.
    fn give_up_silent(&mut self, now: Nanos) {
        let limit: Nanos = self.config.upstream.write_timeout.into();
        if self
            .links
            .oldest()
            .is_some_and(|sent| now.saturating_sub(sent) > limit)
        {
            self.metrics.upstream_error(UpstreamError::Timeout);
            self.pacer.refused(now, Refused::TimedOut);
            self.broken("the node answers nothing", ReconnectCause::Timeout);
        }
    }

    fn break_or_go_on(&mut self, now: Nanos, backlogged: bool) {
        let facts = BreakFacts {
            backlogged,
            in_flight: self.links.in_flight() + self.shared.lock().permits,
            catching_up: !self
                .active
                .is_some_and(|node| self.nodes.takes_writes(node)),
            connected: self.links.is_up(),
        };
        let turn = self.breaks.tick(now, &facts);
        if turn.action == Some(BreakAction::Reconnect)
            && let Some(active) = self.active
        {
            self.links.open(self.nodes.endpoint(active));
        }
        for event in turn.events {
            self.tell(&event);
        }
        self.gate = turn.gate;
        let factor = match self.gate {
            Gate::Open { factor } => factor,
            Gate::Draining | Gate::Paused => 0.0,
        };
        self.pacer.throttle(now, factor);
    }

    fn tell(&mut self, event: &BreakEvent) {
        self.log.about_break(event);
        match event {
            BreakEvent::Entered(state) => self.metrics.controller(named(*state)),
            BreakEvent::Began { cause, .. } => {
                let (pause, reconnect) = match cause {
                    BreakCause::Interval => (PauseCause::Interval, ReconnectCause::Interval),
                    BreakCause::Threshold => (PauseCause::Threshold, ReconnectCause::Threshold),
                };
                self.metrics.paused(pause);
                self.break_cause = reconnect;
            }
            BreakEvent::Judged { gain } => self.metrics.pause_gain(*gain - 1.0),
            BreakEvent::Skipped | BreakEvent::Spread { .. } => {}
        }
    }

    /// New connections are up: the old ones go as soon as nothing is under way on them.
    pub(super) fn replaceable(&mut self, fresh: Vec<Link>) {
        self.fresh = Some(fresh);
    }

    /// Old connections => new ones, once order allows it.
    pub(super) fn replace_links(&mut self, now: Nanos) {
        if self.fresh.is_none() || self.links.in_flight() > 0 {
            return;
        }
        if let Some(fresh) = self.fresh.take() {
            self.links.replace(fresh);
            self.breaks.reconnected(now);
            self.metrics.reconnected(self.break_cause);
        }
    }

    /// Counts the time in which a break kept the gate shut.
    fn count_pause(&mut self) {
        let closed = self.breaks.counters().closed;
        self.metrics
            .paused_for(closed.saturating_sub(self.counted_pause));
        self.counted_pause = closed;
    }

    fn publish(&mut self, now: Nanos) {
        let status = super::status::Status {
            node: self.active,
            connected: self.links.is_up(),
            in_flight: self.links.in_flight(),
            waiting_again: self.waiting_again(),
            recovering: self.is_recovering(),
            retained: self.retained.len(),
            retained_bytes: self.retained.bytes(),
            commits: self.commits.len(),
            broken_promises: self.broken_promises,
            rate: self.pacer.rate(),
            state: named(self.breaks.state()),
            committed_rate: self.pacer.adaptive().throughput().rate_at(now),
            blind: self.pacer.signals() == Signals::Blind,
            ..super::status::Status::default()
        };
        self.shared.publish(status, self.breaks.closed_until(now));
    }
}

/// The label of a state.
pub(super) fn named(state: BreakState) -> ControllerState {
    match state {
        BreakState::Running => ControllerState::Running,
        BreakState::Draining => ControllerState::Draining,
        BreakState::Paused => ControllerState::Paused,
        BreakState::Reconnecting => ControllerState::Reconnecting,
        BreakState::Ramping => ControllerState::Ramping,
    }
}
