//! From the queues to the connections.

use bytes::Bytes;
use control::{Demand, Grant, Load, Unit};
use fairq::Popped;
use pacing::Nanos;

use super::{SHORT, Worker};
use crate::lane::job::Job;
use crate::lane::pool::{MOST_ALONE, MOST_UNWRITTEN};
use crate::lane::writes::{Carrier, Event, Position, WriteId, WriteState};
use crate::upstream::BlockLimits;

/// What may still be sent in a turn. One begun below the bytes is taken whole.
#[derive(Clone, Copy)]
struct Budget {
    whose: Whose,
    grant: Grant,
    count: usize,
    /// Bytes of one turn.
    bytes: usize,
    /// In the unit that is scarce.
    amount: u64,
    /// What clients that ask for little had of it.
    of_little: Load,
}

/// Whose writes are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The client whose turn it is.
    Anyones,
    /// Those of clients that ask for little.
    OfLittle,
}

impl Worker {
    /// Sends what may be sent; when more may be sent, if time alone decides.
    pub(super) fn send_due(&mut self, now: Nanos) -> Option<Nanos> {
        let (queued, lines, mean_bytes) = {
            let mut queue = self.shared.lock();
            self.writes.take_turned().for_each(|hold| queue.hold(hold));
            (queue.len(), queue.lines(), queue.mean_bytes())
        };
        if let Some(mean_bytes) = mean_bytes {
            self.teach(mean_bytes);
        }
        let demand = Demand {
            waiting: self.writes.to_be_sent() + queued,
            first: self.first(),
            under_way: self.writes.count(WriteState::UnderWay),
            own: self.writes.own(),
            most: if self.may_send() {
                self.most_under_way()
            } else {
                0
            },
            connections: self.pool.in_use(),
            lines: self.writes.lines().max(lines),
        };
        let before = self.pacer.connections();
        let grant = self.pacer.grant(now, demand);
        if self.pacer.connections() != before {
            self.pool.resize(self.pacer.connections(), now);
        }
        if grant.now + grant.light > 0 && !self.send(&grant, now) {
            return Some(now.saturating_add(SHORT));
        }
        grant.next
    }

    /// The first window goes by what the chain's last blocks held, and by what its limits allow of transactions of this
    /// size, and of the gas that those name which were sent.
    fn teach(&mut self, mean_bytes: u64) {
        if let Some(node) = self.active {
            let limits = self.nodes.state(node).block_limits;
            let history = self.nodes.state(node).largest_block;
            let own = self.writes.own();
            let mean = Load {
                txs: 1,
                bytes: mean_bytes,
                gas: own.gas.checked_div(own.txs).unwrap_or(0),
            };
            self.pacer.learn(history, limits.map(of_block), mean);
        }
    }

    /// The write that goes before anything from the queues.
    fn first(&self) -> Load {
        let mut ready = self.writes.ready_after(None);
        let first = ready.find(|id| self.carrier(*id).is_ok());
        let job = first.and_then(|first| self.writes.job(first));
        job.map_or(Load::default(), |job| load_of(job, self.pacer.unit()))
    }

    /// Writes that may be under way at once, whatever the pace allows.
    fn most_under_way(&self) -> usize {
        let config = &self.config;
        let of_all = config.fixed.inflight_per_connection * self.pool.in_use().max(1);
        config.most_under_way().min(of_all)
    }

    /// Whether the node may get writes at all.
    fn may_send(&self) -> bool {
        self.active_takes_writes() && !self.breaks.is_closed() && self.hold().is_none()
    }

    /// Sends what is granted: to anyone, and then to clients that ask for little. False when there were too many bytes for
    /// one turn.
    fn send(&mut self, grant: &Grant, now: Nanos) -> bool {
        let mut budget = Budget {
            whose: Whose::Anyones,
            grant: *grant,
            count: grant.now,
            bytes: MOST_UNWRITTEN,
            amount: grant.amount,
            of_little: Load::default(),
        };
        self.send_all(&mut budget, now);
        self.pacer.unused(budget.count);
        budget = Budget {
            whose: Whose::OfLittle,
            count: grant.light,
            amount: grant.light_amount - (grant.amount - budget.amount),
            ..budget
        };
        self.send_all(&mut budget, now);
        let beyond = grant.light - budget.count;
        self.pacer.sent_for_light(now, beyond, budget.of_little);
        let makes_room = self.pool.flush();
        budget.bytes > 0 && !makes_room
    }

    /// Sends what a budget allows: first those that are here, then the queue's.
    fn send_all(&mut self, budget: &mut Budget, now: Nanos) {
        let mut last = None;
        while budget.is_left()
            && let Some(number) = self.ready_after(last, budget.whose)
        {
            if !self.forward(number, budget, now) {
                return;
            }
            last = Some(number);
        }
        for _ in 0..budget.count {
            if !self.may_pop(budget) {
                return;
            }
            let Some(next) = self.pop(budget.whose, now) else {
                return;
            };
            let mut job = next.item.value;
            self.metrics.queue_wait(now.saturating_sub(job.arrived));
            if job.notes.is_turn {
                budget.spend(&job, self.pacer.unit());
                // It takes of the pace, and no place at the node.
                self.pacer.unused(1);
                self.forwarded += u64::from(job.answer(Bytes::new()));
                continue;
            }
            let number = self.writes.insert(job, now);
            if !self.forward(number, budget, now) {
                return;
            }
        }
    }

    /// The next that is here, after `last`.
    fn ready_after(&self, last: Option<WriteId>, whose: Whose) -> Option<WriteId> {
        let is_of_little = |id: WriteId| {
            let job = self.writes.job(id);
            job.is_some_and(|job| job.notes.is_of_little)
        };
        let mut ready = self.writes.ready_after(last);
        ready.find(|id| whose == Whose::Anyones || is_of_little(*id))
    }

    /// Whether another one may leave the queues: it can be sent, or wait here.
    fn may_pop(&self, budget: &Budget) -> bool {
        let takes = match budget.whose {
            Whose::Anyones => self.pool.takes_any(),
            Whose::OfLittle => self.pool.takes_any() || self.pool.has_express(),
        };
        takes && budget.is_left() && self.writes.has_room_aside()
    }

    /// The next whose turn it is in the queues. What cannot be sent now keeps others of its line, and of its client, there.
    fn pop(&mut self, whose: Whose, now: Nanos) -> Option<Popped<Job>> {
        let mut queue = self.shared.lock();
        self.writes.take_turned().for_each(|hold| queue.hold(hold));
        match whose {
            Whose::Anyones => queue.next(now),
            Whose::OfLittle => queue.next_of_little(now),
        }
    }

    /// Hands a write to what carries it, unless its time is over or its client gone. Whether there is room for more at the
    /// node.
    fn forward(&mut self, number: WriteId, budget: &mut Budget, now: Nanos) -> bool {
        let Some(job) = self.writes.job(number) else {
            return true;
        };
        let is_commit = job.is_open() && job.is_commit();
        if job.is_cancelled() {
            self.shared.lock().accounts().cancelled += 1;
            self.writes.apply(number, Event::Over, now);
            return true;
        } else if job.is_over(now) {
            if let Some(job) = self.writes.apply(number, Event::Over, now) {
                self.expire(&job);
            }
            return true;
        }
        if let Some(refusal) = is_commit.then(|| self.commits.admit(job).err()).flatten() {
            if let Some(job) = self.writes.apply(number, Event::Over, now) {
                self.refuse(&job, refusal, |accounts| accounts.displaced += 1);
            }
            return true;
        }
        if !budget.takes(job, self.pacer.unit()) {
            self.writes.apply(number, Event::NoRoom, now);
            return false;
        }
        match self.carrier(number) {
            Ok(carrier) => {
                budget.spend(job, self.pacer.unit());
                let endpoint = self.active.map(|node| self.nodes.endpoint(node));
                if let Some(endpoint) = endpoint {
                    self.pool.send(carrier, (number, job), endpoint, now);
                }
                self.writes.sent(number, carrier, now);
            }
            Err(event) => drop(self.writes.apply(number, event, now)),
        }
        true
    }

    /// What carries a write: the same connection as those with which it stays in order, as long as one of them is under
    /// way, unless another one is idle. A write from a short queue waits once for its own on the usual connection, which are behind the long
    /// queues' there, and takes the express one from then on: at ten a second, one of its own is always under way. One whose
    /// client has its share of that goes back in the same way.
    fn carrier(&self, number: WriteId) -> Result<Carrier, Event> {
        let Some(job) = self.writes.job(number) else {
            return Err(Event::LineBusy);
        };
        let is_alone = self.writes.is_alone(number);
        let is_express = job.notes.is_from_short_queue && !job.may_be_there();
        match self.writes.position(number) {
            Position::Blocked => Err(Event::LineBusy),
            Position::Free if is_alone => {
                let takes = self.pool.takes_alone(job.client);
                takes.then_some(Carrier::Alone).ok_or(Event::NoRoom)
            }
            Position::Free => {
                let express = is_express.then_some(job.client);
                self.pool.choose(express).ok_or(Event::NoRoom)
            }
            Position::Behind(carrier, own) => {
                let leaves = self.pool.changes(carrier, job.client, is_express);
                if is_alone || leaves || !self.pool.goes_on(carrier, own) {
                    Err(Event::LineBusy)
                } else {
                    let takes = self.pool.takes(carrier);
                    takes.then_some(carrier).ok_or(Event::NoRoom)
                }
            }
        }
    }
}

impl Budget {
    const fn is_left(&self) -> bool {
        self.count > 0 && self.bytes > 0 && self.amount > 0
    }

    fn takes(&self, job: &Job, unit: Unit) -> bool {
        let size = load_of(job, unit).of(unit);
        self.whose == Whose::OfLittle || self.grant.takes(self.amount, size)
    }

    fn spend(&mut self, job: &Job, unit: Unit) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(job.tx.len());
        let load = load_of(job, unit);
        if job.notes.is_of_little {
            self.of_little = self.of_little + load;
        }
        // The count bounds transactions.
        if unit != Unit::Transactions {
            self.amount = self.amount.saturating_sub(load.of(unit));
        }
    }
}

/// What a block may have.
fn of_block(limits: BlockLimits) -> Load {
    Load {
        txs: u64::MAX,
        bytes: limits.bytes,
        gas: limits.gas.unwrap_or(u64::MAX),
    }
}

/// What a write takes of what the chain may be short of; its gas only where that is the unit.
fn load_of(job: &Job, unit: Unit) -> Load {
    Load {
        txs: 1,
        bytes: job.tx.len() as u64,
        gas: match unit {
            Unit::Gas => job.gas().unwrap_or(0),
            Unit::Transactions | Unit::Bytes => 0,
        },
    }
}

/// Connections to the node beside those that the pace asks for: the express one, and one for each write that goes alone.
pub const OWN_CONNECTIONS: usize = 1 + MOST_ALONE;
