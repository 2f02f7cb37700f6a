//! All connections of a shard: which has room, which is to be opened, what is under way on them.

mod routing;

use std::collections::VecDeque;
use std::io;

use measure::{Failure, ReconnectReason, Sent};
use pacing::Nanos;
use rpc::ConnectionError;

use crate::protocol::{Closing, Limits, Protocol};
use crate::shard::link::{Link, Need};
use crate::shard::load::{Address, Homes};
use crate::shard::pace::Pauses;
use crate::shard::reporter::Reporter;
use crate::shard::requests::QUEUED_FACTOR;
use crate::shard::system::{Platform, Ready};

pub(super) use self::routing::{Burst, Route};

/// The connections of a shard and the platform they are made of.
pub(crate) struct Links<T, P: Platform> {
    platform: P,
    target: T,
    limits: Limits,
    links: Vec<Link<P::Socket>>,
    /// Links with room, in turn.
    with_room: VecDeque<u32>,
    /// Links with something new to write.
    unflushed: Vec<u32>,
    /// Queued or unanswered on all links.
    under_way: usize,
    /// From when on an answer of each node is slow: a mean of the last ones that can show it.
    slow: Vec<Option<Nanos>>,
    /// When that is to be learnt anew, and until when only requests leave that can show it.
    retest_at: Nanos,
    retest_until: Option<Nanos>,
    /// Answers that are still to show it.
    retest_left: u64,
    answer_timeout: Nanos,
    pauses: Option<Pauses>,
    /// Which node the transactions of a family go to.
    homes: Option<Homes>,
    /// Whether the kernel stamps the answers of all links.
    stamped: bool,
    /// When the last look at the sockets began: whatever is read later came after it.
    looked_at: Nanos,
    /// The same of the look before.
    looked_before: Nanos,
    /// When the links are checked the next time.
    check_at: Nanos,
    /// Why the last attempt to open a connection failed.
    open_error: Option<String>,
}

impl<T: Protocol, P: Platform> Links<T, P> {
    pub(crate) fn new(
        platform: P,
        target: T,
        addresses: Vec<Address>,
        answer_timeout: Nanos,
        pauses: Option<Pauses>,
    ) -> Self {
        Self {
            platform,
            limits: target.limits(),
            target,
            stamped: addresses.iter().all(Address::is_stamped),
            looked_at: Nanos::ZERO,
            looked_before: Nanos::ZERO,
            links: addresses.into_iter().map(Link::new).collect(),
            with_room: VecDeque::new(),
            unflushed: Vec::new(),
            under_way: 0,
            slow: Vec::new(),
            retest_at: RETEST_INTERVAL,
            retest_until: None,
            retest_left: 0,
            answer_timeout,
            pauses,
            homes: None,
            check_at: Nanos::ZERO,
            open_error: None,
        }
    }

    /// The same, with nodes that the transactions of a family go to.
    pub(crate) fn with_homes(self, homes: Option<Homes>) -> Self {
        Self { homes, ..self }
    }

    pub(crate) fn platform(&mut self) -> &mut P {
        &mut self.platform
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.platform.now()
    }

    /// What a request may carry.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Transactions that are queued or unanswered.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// When [`Links::check`] has something to do at the latest.
    pub(crate) fn check_at(&self) -> Nanos {
        self.check_at
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Links that are not up although no request is waited for to open them.
    pub(crate) fn down(&self) -> usize {
        let missing = |link: &&Link<P::Socket>| !self.limits.on_demand && !link.is_up();
        self.links.iter().filter(missing).count()
    }

    /// Why the last attempt to open a connection failed, if one did.
    pub(crate) fn open_error(&self) -> Option<&str> {
        self.open_error.as_deref()
    }

    /// The origin has come: what happened before it had another clock.
    pub(crate) fn restart(&mut self) {
        let on_demand = self.limits.on_demand;
        self.links
            .iter_mut()
            .for_each(|link| link.restart(on_demand));
        self.check_at = Nanos::ZERO;
    }

    /// Checks the connections when that is due: breaks them in a pause, gives up answers, and opens what
    /// is down.
    pub(crate) fn check(&mut self, now: Nanos, reporter: &mut Reporter) {
        if now < self.check_at {
            return;
        }
        self.check_at = now.saturating_add(CHECK_INTERVAL);
        let under_way = self.under_way;
        let pause = self.pauses.as_mut();
        let break_all = pause.is_some_and(|pauses| pauses.is_time(now, under_way));
        for number in 0..self.links.len() {
            let link = &self.links[number];
            if break_all && link.is_up() {
                let planned = Some(ReconnectReason::Planned);
                self.close(number, planned, Failure::Closed, reporter);
            } else if link.waits_for(self.answer_timeout, now) {
                self.give_up(number, now, reporter);
            }
        }
        self.tend(now);
    }

    /// Gives up what has waited for its answer too long, and the connection that brought none at all.
    fn give_up(&mut self, number: usize, now: Nanos, reporter: &mut Reporter) {
        let link = &mut self.links[number];
        let before = link.under_way();
        let silent = link.give_up(self.answer_timeout, now, reporter);
        self.under_way -= before - link.under_way();
        if silent {
            let broken = Some(ReconnectReason::Broken);
            self.close(number, broken, Failure::Closed, reporter);
        }
    }

    /// Opens a connection for each request that waits, when they are opened on demand; the first of the requests goes
    /// there.
    pub(crate) fn open_for(&mut self, waiting: usize, first: Route, now: Nanos) {
        if !self.limits.on_demand || waiting == 0 {
            return;
        }
        let serves = |link: &&Link<P::Socket>| first.allows(link);
        let links = self.links.iter().filter(serves);
        let opening = links.filter(|link| link.is_opening()).count();
        let mut wanted = waiting.saturating_sub(opening);
        for number in 0..self.links.len() {
            let link = &self.links[number];
            let serves = first.allows(link) && matches!(link.need(now), Some(Need::Open));
            if wanted > 0 && serves {
                self.open(number, now);
                wanted -= 1;
            }
        }
    }

    /// Opens what is down, unless that waits for a request, and gives up what takes too long to open.
    pub(crate) fn tend(&mut self, now: Nanos) {
        for number in 0..self.links.len() {
            match self.links[number].need(now) {
                None => {}
                Some(Need::Open) if self.limits.on_demand => {}
                Some(Need::Open) => self.open(number, now),
                Some(Need::GiveUp) => self.links[number].failed_to_open(self.platform.now()),
            }
        }
    }

    /// Waits until a socket is ready or `until` has come.
    pub(crate) fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        self.looked_before = std::mem::replace(&mut self.looked_at, now);
        self.platform.wait(now, until)
    }

    /// Nothing that is read from now on came before this.
    pub(crate) fn looked_at(&self) -> Nanos {
        self.looked_at
    }

    /// Whether answers may stay unread until `until`: the system stamps them, and at least half of the
    /// links have room without them.
    pub(crate) fn may_stay_unread(&self, until: Nanos) -> bool {
        self.stamped
            && until.saturating_sub(self.looked_at) <= LONGEST_UNREAD
            && self.with_room.len() * 2 >= self.links.len()
    }

    /// Sleeps until `until` has come.
    pub(crate) fn sleep(&mut self, until: Nanos) {
        self.platform.sleep(until);
    }

    /// The `position`-th socket of the last wait.
    pub(crate) fn ready(&self, position: usize) -> Option<Ready> {
        self.platform.ready(position)
    }

    /// Gives a socket its turn. When it was read, since when its answers are known: its link may have
    /// room again.
    pub(crate) fn serve(&mut self, ready: Ready, reporter: &mut Reporter) -> Option<Nanos> {
        let number = ready.token as usize;
        let link = &self.links[number];
        if !link.is_up() {
            return self.open_further(number, reporter);
        }
        if ready.writable && link.waits_to_write() {
            self.flush(number, reporter);
        }
        if ready.readable {
            return self.read(number, reporter);
        }
        None
    }

    /// Whether a link that was idle has ended meanwhile, looked at before it is given a request: the last look at
    /// the sockets may have been before its end.
    pub(crate) fn has_ended(&mut self, number: usize, now: Nanos, reporter: &mut Reporter) -> bool {
        self.links[number].is_idle(now) && self.read(number, reporter).is_none()
    }

    /// Puts the link into the queue of links with room, if it has some and is not there yet.
    pub(crate) fn offer_room(&mut self, number: usize) {
        let link = &mut self.links[number];
        if !link.in_turn && link.has_room() {
            link.in_turn = true;
            self.with_room.push_back(number as u32);
        }
    }

    /// Puts a request with these transactions into the buffer of a link that has room. It is written
    /// with [`Links::flush_queued`].
    pub(crate) fn queue(&mut self, number: usize, body: &[u8], txs: &[Sent]) {
        let before = self.under_way as u64;
        self.under_way += txs.len();
        let unqueued = unqueued(before, self.under_way as u64, self.links.len() as u64);
        if self.links[number].queue(body, txs, unqueued) {
            self.unflushed.push(number as u32);
        }
        self.offer_room(number);
    }

    /// Writes what was queued: first queued, first written.
    pub(crate) fn flush_queued(&mut self, reporter: &mut Reporter) {
        for position in 0..self.unflushed.len() {
            self.flush(self.unflushed[position] as usize, reporter);
        }
        self.unflushed.clear();
    }

    /// Gives up what was not written, at the end.
    pub(crate) fn drop_unwritten(&mut self, now: Nanos, reporter: &mut Reporter) {
        for link in &mut self.links {
            link.drop_unwritten(now, reporter);
        }
    }

    /// At the end: the outages that are not over.
    pub(crate) fn tell_outages(&self, now: Nanos, reporter: &mut Reporter) {
        let outages = self.links.iter().filter_map(|link| link.not_back(now));
        outages.for_each(|outage| reporter.reconnected(outage));
    }

    /// Down => Opening
    fn open(&mut self, number: usize, now: Nanos) {
        let link = &mut self.links[number];
        match self.platform.open(link.address(), number as u32) {
            Ok(socket) => link.opening(socket, now),
            Err(error) => {
                link.failed_to_open(now);
                self.open_error = Some(error);
            }
        }
    }

    /// Opening => Up, or a step on the way.
    fn open_further(&mut self, number: usize, reporter: &mut Reporter) -> Option<Nanos> {
        let link = &mut self.links[number];
        match link.drive() {
            Err(error) => {
                link.failed_to_open(self.platform.now());
                self.tell_broken(&error);
                self.open_error = Some(error.to_string());
                None
            }
            Ok(false) => {
                link.watch(&mut self.platform, number as u32);
                None
            }
            Ok(true) => {
                if let Some(reconnected) = link.opened(self.platform.now()) {
                    reporter.reconnected(reconnected);
                }
                link.watch(&mut self.platform, number as u32);
                self.offer_room(number);
                // Bytes that came together with the handshake are in the connection, not in the socket.
                self.read(number, reporter)
            }
        }
    }

    fn flush(&mut self, number: usize, reporter: &mut Reporter) {
        let link = &mut self.links[number];
        let platform = &self.platform;
        let flushed = link.flush(|| platform.now(), reporter);
        self.after(number, flushed, reporter);
    }

    /// Reads from a link that is up; when, if it went well.
    fn read(&mut self, number: usize, reporter: &mut Reporter) -> Option<Nanos> {
        let link = &mut self.links[number];
        if !link.is_up() {
            return None;
        }
        let now = self.platform.now();
        let before = link.under_way();
        let (platform, earliest) = (&self.platform, self.looked_before.min(now));
        // A step of the system's clock cannot move an answer out of the time between two looks.
        let arrived = |unix_ns: Option<u64>| {
            let ago = unix_ns.map_or(Nanos::ZERO, |unix_ns| platform.since_unix(unix_ns));
            now.saturating_sub(ago).max(earliest)
        };
        let read = link.read(arrived, &self.target, reporter);
        if let Some(slow) = link.take_slow() {
            let endpoint = link.endpoint();
            self.slow.resize(self.slow.len().max(endpoint + 1), None);
            let known = self.slow[endpoint].unwrap_or(slow);
            let sum = known.saturating_mul(MEMORY - 1).saturating_add(slow);
            self.slow[endpoint] = Some(Nanos::from_nanos(sum.as_nanos() / MEMORY));
            self.retest_left = self.retest_left.saturating_sub(1);
            self.retest_at = self.retest_at.max(now.saturating_add(RETEST_INTERVAL));
        }
        self.under_way -= before - link.under_way();
        self.after(number, read, reporter).then_some(now)
    }

    /// Watches for what the socket waits for now, or closes it; whether it still is up.
    fn after(
        &mut self,
        number: usize,
        done: Result<(), ConnectionError>,
        reporter: &mut Reporter,
    ) -> bool {
        let Err(error) = done else {
            self.links[number].watch(&mut self.platform, number as u32);
            self.offer_room(number);
            return true;
        };
        let broken = Some(ReconnectReason::Broken);
        let link = &self.links[number];
        let (reason, failure) = match self.target.closing(&error) {
            Closing::Expected if link.under_way() == 0 => (None, Failure::Closed),
            Closing::Outage(Failure::Closed) if link.is_idle(self.now()) => (None, Failure::Closed),
            Closing::Expected => (broken, Failure::Closed),
            Closing::Outage(failure) => (broken, failure),
        };
        self.tell_broken(&error);
        self.close(number, reason, failure, reporter);
        false
    }

    /// Counts what came instead of the connection's protocol.
    fn tell_broken(&self, error: &ConnectionError) {
        let is_foreign = matches!(
            error,
            ConnectionError::Malformed { .. }
                | ConnectionError::TooLarge { .. }
                | ConnectionError::Unsolicited
                | ConnectionError::Upgrade { .. }
                | ConnectionError::Tls(_)
        );
        if let Some(texts) = self.target.texts().filter(|_| is_foreign) {
            texts.lock().count_broken(&error.to_string());
        }
    }

    /// Up => Down: fails everything on the link; the next check opens it again.
    fn close(
        &mut self,
        number: usize,
        reason: Option<ReconnectReason>,
        failure: Failure,
        reporter: &mut Reporter,
    ) {
        let now = self.platform.now();
        let link = &mut self.links[number];
        self.under_way -= link.under_way();
        link.close(now, reason, failure, reporter);
        self.check_at = now;
    }
}

/// How much longer than a request with which so many are under way one takes that waits in a node's queue, when all links
/// are busy: half-way, as a factor, to what as many requests take one after the other. `None` where that would be no
/// more than chance.
fn unqueued(before: u64, under_way: u64, links: u64) -> Option<u64> {
    match links / under_way.max(1) {
        _ if before == 0 => Some(QUEUED_FACTOR),
        0..=4 => None,
        times => Some(times.isqrt().min(QUEUED_FACTOR)),
    }
}

/// Where all links stay busy, no request shows what one takes that waits for no other. After this time, or that of so many
/// answers where that is longer, few are under way for the time of at most so many.
const RETEST_INTERVAL: Nanos = Nanos::from_secs(1);
const RETEST_ANSWERS: u64 = 80;
const RETEST_LASTS: u64 = 8;
/// Answers over which the mean is taken of how long one takes that waits for no other.
const MEMORY: u64 = 4;
/// A read buffer holds what a connection gets in this time, and an error is noticed soon enough.
const LONGEST_UNREAD: Nanos = Nanos::from_millis(1);
/// Timeouts, reconnects and pauses are checked this often.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(10);
