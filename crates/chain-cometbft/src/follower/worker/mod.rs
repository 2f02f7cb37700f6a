//! What a follower does.

mod delivery;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::announced::Announced;
use super::fetch::{CodeSources, Fetched, fetch_block, fetch_codes};
use super::forecast::Forecast;
use super::wake::{Loss, Wake, WakeEvent};
use crate::client::{BlockContent, Client, Status};
use rpc::{
    Backoff, ClientError, FollowError, FollowEvent, FollowOptions, Height, Query, Transport,
    finished,
};

/// The side of a follower that works; see [`follow`](super::follow).
///
/// One task does everything: it stamps announcements as they arrive, asks for one block after the
/// other, and hands events over as the reader takes them.
pub struct FollowerWorker<C> {
    client: Client,
    options: FollowOptions,
    clock: C,
    sender: mpsc::Sender<FollowEvent>,
    shutdown: CancellationToken,
    wake: Wake,
    subscribed: bool,
    reachable: bool,
    /// Whether the reader was told of the present outage.
    told_lost: bool,
    /// Whether the reader was told that nothing is announced.
    told_unsubscribed: bool,
    /// Whether results are still asked for.
    results: bool,
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
    status: Option<Query<StatusAnswer>>,
    status_at: Instant,
    status_backoff: Backoff,
    /// When the last status that was answered was asked for.
    asked: Option<Nanos>,
    forecast: Forecast,
    fetch: Option<Query<(u64, Fetched)>>,
    fetch_at: Instant,
    fetch_backoff: Backoff,
    /// The next block, while its codes are not known.
    held: Option<BlockWithoutCodes>,
    /// How often its codes were refused.
    refusals: u32,
    buffer: Vec<u8>,
}

struct StatusAnswer {
    result: Result<Status, ClientError>,
    /// When the question was asked.
    asked: Nanos,
    /// The highest block known when the question was asked.
    known: u64,
}

/// A block whose codes are to be found.
struct BlockWithoutCodes {
    block: Box<BlockContent>,
    /// When they are asked for at the latest: the header of the next block answers before, for less.
    ask_at: Instant,
}

/// What the next block must follow.
struct Last {
    height: u64,
    hash: Option<[u8; 32]>,
    chain_id: String,
}

enum Step {
    Wake(WakeEvent),
    Status(StatusAnswer),
    Fetched(u64, Fetched),
    Sent,
    Tick,
    Due,
    End,
}

impl<C: Fn() -> Nanos + Send> FollowerWorker<C> {
    pub(super) fn new(
        client: Client,
        options: FollowOptions,
        clock: C,
        sender: mpsc::Sender<FollowEvent>,
        shutdown: CancellationToken,
    ) -> Self {
        let endpoint = client.endpoint().with_transport(Transport::Ws);
        let now = Instant::now();
        Self {
            wake: Wake::new(endpoint, options.trust.clone(), options.max_backoff),
            results: true,
            status_backoff: Backoff::new(options.max_backoff),
            fetch_backoff: Backoff::new(options.max_backoff),
            client,
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
            held: None,
            refusals: 0,
            buffer: Vec::new(),
        }
    }

    /// Works until shutdown, until the [`Follower`](rpc::Follower) is dropped, or until it
    /// cannot go on ([`FollowEvent::Failed`]).
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
            self.start_queries();
            let due = self.due();
            let step = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Step::End,
                () = self.sender.closed() => Step::End,
                event = self.wake.next(), if self.outbox.len() < MAX_OUTBOX => Step::Wake(event),
                answer = finished(&mut self.status) => Step::Status(answer),
                (height, fetched) = finished(&mut self.fetch) => Step::Fetched(height, fetched),
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
                _ if self.failed => {}
                Step::Wake(event) => self.on_wake(event),
                Step::Status(answer) => self.on_status(answer),
                Step::Fetched(height, fetched) => self.on_fetched(height, fetched),
            }
        }
    }

    /// Asks what is due and not being asked.
    fn start_queries(&mut self) {
        if self.failed || self.outbox.len() >= ENOUGH_OUTBOX {
            return;
        }
        let now = Instant::now();
        if self.status.is_none() && self.status_at <= now {
            let (client, known) = (self.client.clone(), self.announced.latest());
            let asked = (self.clock)();
            self.status = Some(Box::pin(async move {
                StatusAnswer {
                    result: client.status().await,
                    asked,
                    known,
                }
            }));
        }
        if self.fetch.is_none() && self.fetch_due().is_some_and(|due| due <= now) {
            self.start_fetch();
        }
    }

    fn start_fetch(&mut self) {
        let (client, buffer) = (self.client.clone(), std::mem::take(&mut self.buffer));
        if let Some(BlockWithoutCodes { block, .. }) = self.held.take() {
            let height = block.height;
            let sources = CodeSources {
                next_header: self.announced.latest() > height && !self.is_asked_at_once(&block),
                results: self.results,
            };
            let query = async move { (height, fetch_codes(client, block, sources, buffer).await) };
            self.fetch = Some(Box::pin(query));
        } else if let Some(height) = self.next {
            let query = async move { (height, fetch_block(client, height, buffer).await) };
            self.fetch = Some(Box::pin(query));
        }
    }

    /// When the next block, or the codes of the one that is held, may be asked for.
    fn fetch_due(&self) -> Option<Instant> {
        let next = self.next?;
        let latest = self.announced.latest();
        match &self.held {
            None => (next <= latest).then_some(self.fetch_at),
            Some(_) if self.refusals == 0 && next < latest => Some(self.fetch_at),
            Some(held) => Some(held.ask_at),
        }
    }

    /// When a query will be due that is not being asked.
    fn due(&self) -> Instant {
        let mut due = Instant::now() + Duration::from_secs(3600);
        if self.failed || self.outbox.len() >= ENOUGH_OUTBOX {
            return due;
        }
        if self.status.is_none() {
            due = due.min(self.status_at);
        }
        if self.fetch.is_none() {
            due = due.min(self.fetch_due().unwrap_or(due));
        }
        due
    }

    fn on_wake(&mut self, event: WakeEvent) {
        let now = Instant::now();
        match event {
            WakeEvent::Open => {
                self.subscribed = true;
                self.told_unsubscribed = false;
                // What was missed while nobody listened.
                self.status_at = now;
                if let Some(next) = self.next.filter(|_| self.reachable) {
                    self.tell(FollowEvent::Connected {
                        next,
                        subscribed: true,
                    });
                }
            }
            WakeEvent::Height(height) => {
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
            WakeEvent::Refused(reason) => {
                // A node that does not answer at all is told of as lost.
                if self.reachable && !std::mem::replace(&mut self.told_unsubscribed, true) {
                    self.tell(FollowEvent::Unsubscribed { reason });
                }
            }
            WakeEvent::Lost(loss) => {
                self.subscribed = false;
                self.lose(loss);
                self.status_at = now;
            }
        }
    }

    fn on_status(&mut self, answer: StatusAnswer) {
        match answer.result {
            Ok(status) => {
                self.status_backoff.reset();
                self.learn(&status, answer.known);
                self.asked = Some(answer.asked);
                self.plan_status();
            }
            Err(error) => {
                self.lose(Loss::of(&error));
                self.status_at = Instant::now() + self.status_backoff.pause();
            }
        }
    }

    fn plan_status(&mut self) {
        let now = Instant::now();
        self.status_at = match self.subscribed && self.shrunk == 0 {
            true => now + self.options.quiet_interval,
            false => self.forecast.next_poll(now, self.options.poll_interval),
        };
    }

    /// Takes in what the node says about itself. `known` is the highest block that was known
    /// before it was asked.
    fn learn(&mut self, status: &Status, known: u64) {
        if let Some(last) = self
            .last
            .as_ref()
            .filter(|last| last.chain_id != status.chain_id)
        {
            return self.fail(FollowError::OtherChain {
                before: last.chain_id.clone(),
                now: status.chain_id.clone(),
                latest: status.latest_block_height,
            });
        }
        let latest = status.latest_block_height;
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
        let now = (self.clock)();
        let resolution = self.asked.map(|asked| now.saturating_sub(asked));
        self.announced.announce(latest, now, resolution);
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
        let earliest = status.earliest_block_height;
        if earliest > next && self.fetch.is_none() && self.held.is_none() {
            self.tell(FollowEvent::Missing {
                first: next,
                last: earliest - 1,
            });
            self.next = Some(earliest);
        }
        self.tell_if_caught_up();
    }

    /// Says up to when everything was handed over. Every stamp is taken by this task, so whatever
    /// is stamped later is not earlier than the clock now.
    fn give_watermark(&mut self) {
        if self.failed || !self.outbox.is_empty() {
            return;
        }
        let waiting = self.next.filter(|next| *next <= self.announced.latest());
        let level = match waiting {
            Some(next) => {
                let heard = self.announced.first_of(next);
                heard.map_or(self.last_observed, |heard| heard.at)
            }
            None => (self.clock)(),
        };
        if level > self.watermark {
            self.watermark = level;
            self.tell(FollowEvent::Watermark(level));
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
pub(super) const WITHHELD_LIMIT: u32 = 5;
/// So many answers in a row must show a shorter chain before it counts as reset.
const SHRUNK_LIMIT: u32 = 5;
