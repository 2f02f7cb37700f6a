//! One member: what it hears of the others, and what it may send.

use std::collections::{BTreeMap, VecDeque};

use pacing::Nanos;

use crate::division::{FLOOR, Part, divide};
use crate::report::{Demand, Report};

/// How often a member reports, and computes what it may send, while there are at most 16 of them. All hear each
/// report, so more members report less often: the bus delivers at most 64 reports a second to each member.
pub const INTERVAL: Nanos = Nanos::from_millis(250);
/// Members whose limit follows what is asked for within a second.
const QUICK: usize = 16;
/// A member that was not heard for so many intervals is silent: cut off, or dead.
const SILENT: u64 = 4;
/// A silent member that was not heard for so many intervals is forgotten, 30 s of the shortest. Until then the others
/// leave it what it has by itself.
const FORGOTTEN: u64 = 120;
/// The least of so many rates in a row counts. So a member takes what another has to give up not before that one has
/// heard of it, and the members together stay below the limit.
const RAISED_AFTER: usize = 3;
/// Members that are remembered at most.
const MOST_MEMBERS: usize = 1_024;
/// What a client asks for is its mean over about so long.
const MEMORY_S: f64 = 1.0;
/// A client that asks for less than this, writes a second, is as one that asks for nothing.
const NOTHING: f64 = 0.05;

/// What one client did since the last call of [`Member::tick`].
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// Its hash.
    pub client: u64,
    /// Writes that came from it, taken or refused.
    pub arrived: u32,
    /// Writes of it that wait now.
    pub waiting: usize,
    /// Its shares, 1 to 1,000.
    pub weight: u16,
}

impl Activity {
    /// Whether it takes what it can get: more waits than came in the last quarter of an interval, and more than the one
    /// write that may always have come just now.
    const fn is_held_back(&self) -> bool {
        self.waiting > 1 && 4 * self.waiting >= self.arrived as usize
    }
}

/// What a member may send.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Writes a second, of all clients together.
    pub per_second: f64,
    /// Of clients whose share is divided among members: what this one has of it, by their hashes.
    pub parts: Vec<Part>,
    /// Members that were heard, this one included.
    pub heard: usize,
    /// Members that were heard before, and are silent.
    pub silent: usize,
    /// Members of another version. They have an equal part each, as the silent ones.
    pub other_version: usize,
    /// Whether this member hears itself. If not, it has an equal part of the limit.
    pub is_connected: bool,
}

/// A member of the cluster.
#[derive(Debug)]
pub struct Member {
    id: u64,
    limit: f64,
    number: u64,
    /// What its own clients ask for, by their hashes.
    asked: Vec<Asked>,
    began: Nanos,
    last_tick: Nanos,
    /// When a report of its own came back.
    heard_itself: Option<Nanos>,
    others: BTreeMap<u64, Other>,
    /// The last rates, the newest first.
    rates: VecDeque<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    client: u64,
    per_second: f64,
    weight: u16,
    is_waiting: bool,
}

#[derive(Debug)]
struct Other {
    /// None of a member of another version.
    report: Option<Report>,
    heard: Nanos,
}

impl Member {
    /// A member that knows of no other. `id` is to be drawn at random, `limit` is what all members together may send,
    /// writes a second.
    pub fn new(now: Nanos, id: u64, limit: f64) -> Self {
        Self {
            id,
            limit,
            number: 0,
            asked: Vec::new(),
            began: now,
            last_tick: now,
            heard_itself: None,
            others: BTreeMap::new(),
            rates: VecDeque::new(),
        }
    }

    /// A report has come in; its own are how it knows that it is connected.
    pub fn hear(&mut self, now: Nanos, report: Report) {
        if report.member == self.id {
            self.heard_itself = Some(now);
            return;
        }
        self.note_other(now, report.member, Some(report));
    }

    /// A report of another version has come in. What its sender asks for is unknown, so it is left an equal part, as one
    /// that is silent.
    pub fn hear_of(&mut self, now: Nanos, member: u64) {
        self.note_other(now, member, None);
    }

    /// What is older than what is known changes nothing.
    fn note_other(&mut self, heard: Nanos, member: u64, report: Option<Report>) {
        let has_room = self.others.len() < MOST_MEMBERS;
        let number = |report: &Option<Report>| report.as_ref().map(|it| it.number);
        match self.others.get_mut(&member) {
            Some(known) if report.is_some() && number(&report) <= number(&known.report) => {}
            Some(known) => *known = Other { report, heard },
            None if has_room => drop(self.others.insert(member, Other { report, heard })),
            None => {}
        }
    }

    /// When to call [`tick`](Self::tick) again: after [`INTERVAL`], or a multiple of it where there are many members.
    pub fn interval(&self) -> Nanos {
        let members = 1 + self.others.len();
        INTERVAL.saturating_mul(members.div_ceil(QUICK) as u64)
    }

    /// How long a member that is there may not be heard.
    fn silence(&self) -> Nanos {
        self.interval().saturating_mul(SILENT)
    }

    /// To be called every [`interval`](Self::interval) with what all its clients did: the report to publish, and what may be sent from now
    /// on.
    pub fn tick(
        &mut self,
        now: Nanos,
        activity: impl IntoIterator<Item = Activity>,
    ) -> (Report, Division) {
        self.note(now, activity);
        let report = self.report();
        let is_connected = self
            .heard_itself
            .is_some_and(|heard| now.saturating_sub(heard) < self.silence());
        if is_connected {
            let forgotten = self.interval().saturating_mul(FORGOTTEN);
            self.others
                .retain(|_, other| now.saturating_sub(other.heard) < forgotten);
        }
        let division = self.divide(now, &report, is_connected);
        (report, division)
    }

    /// The last report, for a member that stops.
    pub fn leave(&mut self) -> Report {
        Report {
            is_last: true,
            demands: Vec::new(),
            others: (0.0, 0),
            ..self.report()
        }
    }

    fn divide(&mut self, now: Nanos, own: &Report, is_connected: bool) -> Division {
        let stays = |it: &&Other| it.report.as_ref().is_none_or(|report| !report.is_last);
        let others: Vec<&Other> = self.others.values().filter(stays).collect();
        let all = 1 + others.len();
        let is_heard = |other: &&&Other| now.saturating_sub(other.heard) < self.silence();
        let heard: Vec<&Report> = others
            .iter()
            .filter(is_heard)
            .filter_map(|it| it.report.as_ref())
            .collect();
        let other_version = others.iter().filter(|it| it.report.is_none()).count();
        // Where limits differ, the lowest is the common one.
        let limits = heard.iter().map(|report| report.limit);
        let limit = limits.fold(self.limit, f64::min);
        let silent = all - 1 - heard.len();
        let equal = limit / all as f64;
        let is_new = now.saturating_sub(self.began) < self.silence();
        let (per_second, parts) = if is_connected {
            // All take the members in the same order, so that they compute the same to the last bit.
            let mut reports: Vec<&Report> = heard.iter().copied().chain([own]).collect();
            reports.sort_unstable_by_key(|report| report.member);
            let place = reports.iter().position(|report| report.member == self.id);
            let rest = limit - equal * silent as f64;
            divide(rest, &reports, place.unwrap_or_default())
        } else {
            (equal, Vec::new())
        };
        self.rates.push_front(per_second);
        self.rates.truncate(RAISED_AFTER);
        let least = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        // A new one has not heard all others, nor they it.
        let (per_second, parts) = if is_new {
            (equal * FLOOR, Vec::new())
        } else {
            (least, parts)
        };
        Division {
            per_second,
            parts,
            heard: 1 + heard.len(),
            silent: silent - other_version,
            other_version,
            is_connected,
        }
    }

    fn note(&mut self, now: Nanos, activity: impl IntoIterator<Item = Activity>) {
        let seconds = now.saturating_sub(self.last_tick).as_secs_f64().max(1e-3);
        self.last_tick = now;
        let kept = (-seconds / MEMORY_S).exp();
        for asked in &mut self.asked {
            asked.per_second *= kept;
            asked.is_waiting = false;
        }
        self.asked.extend(activity.into_iter().map(|did| Asked {
            client: did.client,
            per_second: (1.0 - kept) * f64::from(did.arrived) / seconds,
            weight: did.weight,
            is_waiting: did.is_held_back(),
        }));
        // Where the activity is in order, that joins two runs.
        self.asked.sort_by_key(|asked| asked.client);
        self.asked.dedup_by(|newer, older| {
            let is_same = newer.client == older.client;
            if is_same {
                older.per_second += newer.per_second;
                older.weight = newer.weight;
                older.is_waiting |= newer.is_waiting;
            }
            is_same
        });
        self.asked
            .retain(|asked| asked.is_waiting || asked.per_second >= NOTHING);
    }

    fn report(&mut self) -> Report {
        self.number += 1;
        let mut demands: Vec<Demand> = self
            .asked
            .iter()
            .map(|asked| Demand {
                client: asked.client,
                weight: asked.weight,
                per_second: if asked.is_waiting {
                    f32::INFINITY
                } else {
                    asked.per_second as f32
                },
            })
            .collect();
        let mut left_out = Vec::new();
        if demands.len() > Report::MOST {
            demands.sort_unstable_by(|a, b| b.per_second.total_cmp(&a.per_second));
            left_out = demands.split_off(Report::MOST);
            demands.sort_unstable_by_key(|demand| demand.client);
        }
        let count = u32::try_from(left_out.len()).unwrap_or(u32::MAX);
        Report {
            member: self.id,
            number: self.number,
            limit: self.limit,
            is_last: false,
            demands,
            others: (left_out.iter().map(|demand| demand.per_second).sum(), count),
        }
    }
}
