//! Follows one chain: asks its source, stamps what it announces, and delivers its blocks.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::heights::{Announced, Forecast};
use super::source::{
    BlockAnswer, BlockSource, ChainStatus, Loss, Question, SourceBlock, SourceEvent,
};
use super::{Backoff, FollowError, FollowEvent, FollowOptions, FollowedBlock, Follower, Height};

/// The side of a follower that works, for any chain.
///
/// One task does everything: it stamps announcements as they arrive, asks for one block after the
/// other, and hands events over as the reader takes them. Every height is delivered once and in order, however
/// the node and its announcements come and go; what cannot be delivered is named.
#[derive(Debug)]
pub struct FollowerWorker<S, C> {
    source: S,
    options: FollowOptions,
    clock: C,
    sender: mpsc::Sender<FollowEvent>,
    shutdown: CancellationToken,
    subscribed: bool,
    reachable: bool,
    /// Whether the reader was told of the present outage.
    told_lost: bool,
    /// Whether the reader was told that nothing is announced.
    told_unsubscribed: bool,
    /// The height to deliver next; known once the node was reached.
    next: Option<u64>,
    announced: Announced,
    last: Option<Last>,
    last_observed: Nanos,
    watermark: Nanos,
    /// Whether the reader should hear when everything is delivered.
    behind: bool,
    /// How often in a row the node had fewer blocks than before.
    shrunk: u32,
    /// How many it had the first time.
    shrunk_to: u64,
    /// How often in a row it did not give a block that it has.
    withheld: u32,
    outbox: VecDeque<FollowEvent>,
    failed: bool,
    /// The status is being asked for: since when, and the highest block that was known then.
    status: Option<(Nanos, u64)>,
    status_at: Instant,
    status_backoff: Backoff,
    /// When the last status that was answered was asked for.
    asked: Option<Nanos>,
    forecast: Forecast,
    /// The block that is being asked for.
    fetch: Option<u64>,
    fetch_at: Instant,
    fetch_backoff: Backoff,
}

/// What the next block must follow.
#[derive(Debug)]
struct Last {
    height: u64,
    hash: Option<[u8; 32]>,
    chain_id: String,
}

enum Step {
    Source(SourceEvent),
    Sent,
    Tick,
    Due,
    End,
}

impl<S: BlockSource, C: Fn() -> Nanos + Send> FollowerWorker<S, C> {
    /// Prepares to follow the chain of a source. Nothing happens until the caller runs the worker
    /// ([`run`](Self::run)), which ends with `shutdown` or with the [`Follower`].
    ///
    /// `clock` must never go backwards.
    pub fn new(
        source: S,
        options: FollowOptions,
        clock: C,
        shutdown: CancellationToken,
    ) -> (Follower, Self) {
        let (sender, events) = mpsc::channel(options.events.max(1));
        let now = Instant::now();
        let worker = Self {
            status_backoff: Backoff::new(options.max_backoff),
            fetch_backoff: Backoff::new(options.max_backoff),
            source,
            options,
            clock,
            sender,
            shutdown,
            subscribed: false,
            reachable: false,
            told_lost: false,
            told_unsubscribed: false,
            next: None,
            announced: Announced::default(),
            last: None,
            last_observed: Nanos::ZERO,
            watermark: Nanos::ZERO,
            behind: true,
            shrunk: 0,
            shrunk_to: 0,
            withheld: 0,
            outbox: VecDeque::new(),
            failed: false,
            status: None,
            status_at: now,
            asked: None,
            forecast: Forecast::default(),
            fetch: None,
            fetch_at: now,
        };
        (Follower::new(events), worker)
    }

    /// Works until shutdown, until the [`Follower`] is dropped, or until it cannot go on
    /// ([`FollowEvent::Failed`]).
    ///
    /// # Cancel safety
    /// Dropping the future ends the follower; events that were not handed over are lost.
    pub async fn run(mut self) {
        let mut ticks = interval(self.options.watermark_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.failed && self.outbox.is_empty() {
                return;
            }
            self.ask();
            let due = self.due();
            let step = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Step::End,
                () = self.sender.closed() => Step::End,
                event = self.source.next(), if self.outbox.len() < MAX_OUTBOX => Step::Source(event),
                permit = self.sender.reserve(), if !self.outbox.is_empty() => {
                    if let (Ok(permit), Some(event)) = (permit, self.outbox.pop_front()) {
                        permit.send(event);
                    }
                    Step::Sent
                }
                _ = ticks.tick() => Step::Tick,
                () = sleep_until(due) => Step::Due,
            };
            match step {
                Step::End => return,
                Step::Sent | Step::Due => {}
                Step::Tick => self.give_watermark(),
                Step::Source(event) => {
                    if !self.failed {
                        self.on_event(event);
                    }
                }
            }
        }
    }

    /// Whether nothing more is asked for at present.
    fn rests(&self) -> bool {
        self.failed || self.outbox.len() >= ENOUGH_OUTBOX
    }

    /// Asks what is due and not being asked.
    fn ask(&mut self) {
        if self.rests() {
            return;
        }
        let now = Instant::now();
        if self.status.is_none() && self.status_at <= now {
            let asked = (self.clock)();
            self.status = Some((asked, self.announced.latest()));
            self.source.ask(Question::Status(asked));
        }
        if let Some(height) = self.wanted()
            && self.fetch_at <= now
        {
            self.fetch = Some(height);
            self.source.ask(Question::Block(height));
        }
    }

    /// The next block, if the node has it and it is not being asked for.
    fn wanted(&self) -> Option<u64> {
        let next = self.next.filter(|_| self.fetch.is_none())?;
        (next <= self.announced.latest()).then_some(next)
    }

    /// When a question will be due that is not being asked.
    fn due(&self) -> Instant {
        let mut due = Instant::now() + Duration::from_secs(3600);
        if self.rests() {
            return due;
        }
        if self.status.is_none() {
            due = due.min(self.status_at);
        }
        if self.wanted().is_some() {
            due = due.min(self.fetch_at);
        }
        due
    }

    fn on_event(&mut self, event: SourceEvent) {
        let now = Instant::now();
        match event {
            SourceEvent::Open => {
                self.subscribed = true;
                self.told_unsubscribed = false;
                // What was missed while no connection was up.
                self.status_at = now;
                if let Some(next) = self.next.filter(|_| self.reachable) {
                    self.tell(FollowEvent::Connected {
                        next,
                        subscribed: true,
                    });
                }
            }
            SourceEvent::Height(height) => {
                let known = self.announced.latest();
                self.announced.announce(height, (self.clock)(), None);
                // A longer chain answers what the status would. A shorter one, which announces its blocks as well,
                // may be another.
                match height.cmp(&known) {
                    Ordering::Greater => self.status_at = now + self.options.quiet_interval,
                    Ordering::Equal => {}
                    Ordering::Less => self.status_at = self.status_at.min(now),
                }
            }
            SourceEvent::NewBlock => self.status_at = now,
            SourceEvent::Refused(reason) => {
                // A node that does not answer at all is reported as lost.
                if self.reachable && !std::mem::replace(&mut self.told_unsubscribed, true) {
                    self.tell(FollowEvent::Unsubscribed { reason });
                }
            }
            SourceEvent::Lost(loss) => {
                self.subscribed = false;
                self.lose(loss);
                self.status_at = now;
            }
            SourceEvent::Unanswered(loss) => self.lose(loss),
            SourceEvent::Told(event) => self.tell(*event),
            SourceEvent::Status(answer) => self.on_status(answer),
            SourceEvent::Block(answer) => self.on_block(answer),
        }
    }

    fn on_status(&mut self, answer: Result<ChainStatus, Loss>) {
        let Some((asked, known)) = self.status.take() else {
            return;
        };
        match answer {
            Ok(status) => {
                self.status_backoff.reset();
                self.learn(&status, known);
                self.asked = Some(asked);
                self.plan_status();
            }
            Err(loss) => {
                self.lose(loss);
                self.status_at = Instant::now() + self.status_backoff.pause();
            }
        }
    }

    fn plan_status(&mut self) {
        let now = Instant::now();
        self.status_at = if self.subscribed && self.shrunk == 0 {
            now + self.options.quiet_interval
        } else {
            self.forecast.next_poll(now, self.options.poll_interval)
        };
    }

    /// Takes in the node's status. `known` is the highest block that was known
    /// before it was asked.
    fn learn(&mut self, status: &ChainStatus, known: u64) {
        if let Some(last) = self
            .last
            .as_ref()
            .filter(|last| last.chain_id != status.chain_id)
        {
            return self.fail(FollowError::OtherChain {
                before: last.chain_id.clone(),
                now: status.chain_id.clone(),
                latest: status.latest,
            });
        }
        let latest = status.latest;
        if latest < known {
            // Behind one address there may be several nodes, one a little late: only a chain that
            // stays short was reset.
            if self.shrunk == 0 {
                self.shrunk_to = latest;
            }
            self.shrunk += 1;
            self.plan_status();
            if self.shrunk >= SHRUNK_LIMIT {
                let latest = self.shrunk_to;
                self.fail(FollowError::WentBack { known, latest });
            }
            return;
        }
        self.shrunk = 0;
        let at = status.seen.unwrap_or_else(&self.clock);
        let polled = self.asked.filter(|_| !status.announced);
        let resolution = polled.map(|asked| at.saturating_sub(asked));
        self.announced.announce(latest, at, resolution);
        self.forecast.found(latest, Instant::now());
        let next = match (self.next, self.options.from) {
            (Some(next), _) => next,
            (None, Height::At(height)) => height.max(1),
            (None, Height::Next) => {
                self.announced.forget_to(latest);
                latest + 1
            }
        };
        self.next = Some(next);
        if !self.reachable {
            self.reachable = true;
            self.told_lost = false;
            self.behind = true;
            self.tell(FollowEvent::Connected {
                next,
                subscribed: self.subscribed,
            });
        }
        let earliest = status.earliest;
        if earliest > next && self.fetch.is_none() {
            self.tell(FollowEvent::Missing {
                first: next,
                last: earliest - 1,
            });
            self.next = Some(earliest);
        }
        self.tell_if_caught_up();
    }

    /// Sends the instant up to which everything was handed over. Later stamps are not earlier than the clock now, except
    /// those of what the source holds.
    fn give_watermark(&mut self) {
        if self.failed || !self.outbox.is_empty() {
            return;
        }
        // Before the node was reached, any height that was announced may be the first.
        let next = self.next.unwrap_or(1);
        let level = if next <= self.announced.latest() {
            let heard = self.announced.first_of(next);
            heard.map_or(self.last_observed, |heard| heard.at)
        } else {
            (self.clock)()
        };
        let held = self.source.holds_since();
        let level = held.map_or(level, |since| since.min(level));
        if level > self.watermark {
            self.watermark = level;
            self.tell(FollowEvent::Watermark(level));
        }
    }

    fn on_block(&mut self, answer: BlockAnswer) {
        let Some(height) = self.fetch.take() else {
            return;
        };
        match answer {
            BlockAnswer::Found(block) => {
                self.withheld = 0;
                if let Err(error) = self.follows(&block) {
                    return self.fail(error);
                }
                self.fetch_backoff.reset();
                return self.deliver(*block);
            }
            BlockAnswer::Absent(status, _) if status.latest < height => {
                // It was announced and is not there: the announcement came from another node,
                // or from a chain that is gone. `learn` tells which.
                self.learn(&status, self.announced.latest());
            }
            BlockAnswer::Absent(status, said) => {
                self.learn(&status, 0);
                self.withhold(height, &said);
            }
            BlockAnswer::Unknown(loss) => self.lose(loss),
        }
        self.fetch_at = Instant::now() + self.fetch_backoff.pause();
    }

    /// A block that the node has by its own account was not given; the node's message instead.
    fn withhold(&mut self, height: u64, said: &str) {
        self.withheld += 1;
        // It may be gone by now: then the next one is asked for.
        if self.withheld >= WITHHELD_LIMIT && self.next == Some(height) {
            let reason = format!("it has block {height} and does not give it: {said}");
            self.lose(Loss::unread(reason));
        }
    }

    /// Checks a block against the one delivered before it.
    fn follows(&self, block: &SourceBlock) -> Result<(), FollowError> {
        let Some(last) = &self.last else {
            return Ok(());
        };
        let height = block.content.height;
        if last.chain_id != block.chain_id {
            return Err(FollowError::OtherChain {
                before: last.chain_id.clone(),
                now: block.chain_id.clone(),
                latest: height,
            });
        }
        let known = last.hash.is_some() && block.last_hash.is_some();
        if known && last.height + 1 == height && last.hash != block.last_hash {
            return Err(FollowError::Replaced { height });
        }
        Ok(())
    }

    fn deliver(&mut self, block: SourceBlock) {
        let height = block.content.height;
        if let Some(reason) = block.codes_unavailable {
            self.tell(FollowEvent::CodesUnavailable { height, reason });
        }
        let heard = self.announced.first_of(height);
        let observed = heard.map_or_else(|| (self.clock)(), |heard| heard.at);
        self.last_observed = observed.max(self.last_observed);
        self.announced.forget_to(height);
        self.next = Some(height + 1);
        self.last = Some(Last {
            height,
            hash: block.hash,
            chain_id: block.chain_id,
        });
        self.behind |= self.announced.latest() > height;
        self.tell(FollowEvent::Block(FollowedBlock {
            observed: self.last_observed,
            resolution: heard.and_then(|heard| heard.resolution),
            hash: block.content.hash.or(block.hash),
            ..block.content
        }));
        self.tell_if_caught_up();
    }

    fn tell_if_caught_up(&mut self) {
        let Some(next) = self.next else { return };
        if self.behind && next > self.announced.latest() {
            self.behind = false;
            self.tell(FollowEvent::CaughtUp {
                height: self.announced.latest(),
            });
        }
    }

    fn lose(&mut self, loss: Loss) {
        let Loss {
            reason,
            closed,
            unread,
        } = loss;
        self.reachable = false;
        if !std::mem::replace(&mut self.told_lost, true) {
            self.tell(FollowEvent::Disconnected {
                reason,
                closed,
                unread,
            });
        }
    }

    fn fail(&mut self, error: FollowError) {
        self.failed = true;
        self.tell(FollowEvent::Failed(error));
    }

    fn tell(&mut self, event: FollowEvent) {
        self.outbox.push_back(event);
    }
}

/// With this many events waiting nothing more is asked for.
const ENOUGH_OUTBOX: usize = 4;
/// With this many events waiting announcements are left in the socket.
const MAX_OUTBOX: usize = 64;
/// A block is announced a moment before it can be had.
const WITHHELD_LIMIT: u32 = 5;
/// So many answers in a row must show a shorter chain before it counts as reset.
const SHRUNK_LIMIT: u32 = 5;

#[cfg(test)]
mod tests;
