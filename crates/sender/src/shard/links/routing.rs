//! Which link a transaction takes, and why none has room for it.

use measure::Cause;
use pacing::Nanos;

use super::{Links, RETEST_ANSWERS, RETEST_INTERVAL, RETEST_LASTS, unqueued};
use crate::protocol::Protocol;
use crate::shard::link::Link;
use crate::shard::system::{Platform, Socket};

/// Which links a transaction may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// All.
    Any,
    /// The one of its account.
    Account(usize),
    /// Those to the node of its family, by its place in the plan's list.
    Node(u16),
}

impl Route {
    /// Whether a link goes to the right node.
    pub(super) fn allows<S: Socket>(self, link: &Link<S>) -> bool {
        match self {
            Self::Any | Self::Account(_) => true,
            Self::Node(endpoint) => link.goes_to(endpoint),
        }
    }
}

/// Requests that go to one link in a row.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    link: Option<usize>,
    length: usize,
}

impl<T: Protocol, P: Platform> Links<T, P> {
    /// Where a transaction has to go that no account signs.
    pub(crate) fn route(&self, index: u64, now: Nanos) -> Route {
        let Some(homes) = &self.homes else {
            return Route::Any;
        };
        let mut turn = homes.turn(index).peekable();
        let home = turn.peek().copied();
        let is_reachable = |endpoint: &u16| {
            let links = self.links.iter().filter(|link| link.goes_to(*endpoint));
            links.clone().any(|link| link.may_be_reached(now))
        };
        let reachable = turn.find(is_reachable);
        reachable.or(home).map_or(Route::Any, Route::Node)
    }

    /// A link with room on the way. The link that took the last request, while it has room and took few: what goes
    /// out at once is written with few calls, and the links still take turns. Otherwise the next one in turn.
    pub(crate) fn next_with_room(&mut self, route: Route, burst: &mut Burst) -> Option<usize> {
        if self.is_held_back() {
            return None;
        }
        if let Route::Account(account) = route {
            let number = self.link_of(account);
            return self.links[number].has_room().then_some(number);
        }
        let same = burst.link.filter(|_| burst.length < LONGEST_BURST);
        let may_take = |number: &usize| {
            let link = &self.links[*number];
            link.has_room() && route.allows(link)
        };
        if let Some(number) = same.filter(may_take) {
            burst.length += 1;
            return Some(number);
        }
        let mut position = 0;
        while let Some(number) = self.with_room.get(position) {
            let number = *number as usize;
            let link = &mut self.links[number];
            let has_room = link.has_room();
            if has_room && !route.allows(link) {
                position += 1;
                continue;
            }
            link.in_turn = false;
            self.with_room.remove(position);
            if has_room {
                *burst = Burst {
                    link: Some(number),
                    length: 1,
                };
                return Some(number);
            }
        }
        None
    }

    /// The link of an account: always the same one while that is up, so that the account's transactions arrive in
    /// their order.
    fn link_of(&self, account: usize) -> usize {
        let count = self.links.len();
        let turn = (0..count).map(|step| (account + step) % count);
        let up = turn.clone().find(|number| self.links[*number].is_up());
        up.unwrap_or(account % count)
    }

    /// Whether a link on the way may have room.
    pub(crate) fn may_have_room(&self, route: Route) -> bool {
        match route {
            _ if self.is_held_back() => false,
            Route::Any => !self.with_room.is_empty(),
            Route::Account(account) => self.links[self.link_of(account)].has_room(),
            Route::Node(_) => {
                let mut waiting = self.with_room.iter();
                waiting.any(|number| route.allows(&self.links[*number as usize]))
            }
        }
    }

    /// Whether what waits is kept, so that the next request finds few under way.
    fn is_held_back(&self) -> bool {
        let under_way = self.under_way as u64;
        let tells = || unqueued(under_way, under_way + 1, self.links.len() as u64).is_some();
        let until = self.retest_until.filter(|_| self.retest_left > 0);
        until.is_some_and(|until| !tells() && self.platform.now() < until)
    }

    /// No link has room for what is due since `oldest`. Where that lasts, what an answer took when few were under way says
    /// nothing of a node that takes longer by now, and sixteen answers of 20 ms each look alike whether or not they wait
    /// for each other.
    pub(crate) fn retest(&mut self, now: Nanos, oldest: Nanos) {
        let took = self.links.iter().filter(|link| link.is_http());
        let took = took.map(Link::last_took).filter(|took| *took < Nanos::MAX);
        let answers = |count| took.clone().max().unwrap_or_default().saturating_mul(count);
        if now < self.retest_at || now.saturating_sub(oldest) <= answers(RETEST_LASTS) {
            return;
        }
        self.retest_left = RETEST_LASTS;
        self.retest_until = Some(now.saturating_add(answers(RETEST_LASTS)));
        self.retest_at = now.saturating_add(RETEST_INTERVAL.max(answers(RETEST_ANSWERS)));
    }

    /// Why no link on the way has room although everything queued was written: the node, when it holds up at least
    /// half of them; otherwise there are too few for the rate.
    pub(crate) fn why_no_room(&self, now: Nanos, route: Route) -> Cause {
        if self.limits.on_demand && self.links.iter().any(Link::is_opening) {
            // To connect is a part of every request there.
            return Cause::Node;
        }
        let links = match route {
            Route::Account(account) => {
                let number = self.link_of(account);
                &self.links[number..=number]
            }
            Route::Any | Route::Node(_) => &self.links[..],
        };
        let asked: Vec<&Link<P::Socket>> = links.iter().filter(|it| route.allows(it)).collect();
        let held_up = asked.iter().filter(|link| {
            let slow = self.slow.get(link.endpoint()).copied().flatten();
            link.is_held_up(now, slow)
        });
        if held_up.count() * 2 >= asked.len() {
            Cause::Node
        } else {
            Cause::Connection
        }
    }
}

/// Enough to make a system call cheap, few enough that all links get their turn within a millisecond
/// at any rate where that matters.
const LONGEST_BURST: usize = 32;
