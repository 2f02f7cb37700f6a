//! One member: what it hears of the others, and what it may send.

use std::collections::{BTreeMap, VecDeque};

use pacing::Nanos;

use crate::division::{Part, divide};
use crate::report::{Demand, INTERVAL, Report};

/// What reports that are due may cost the bus, bytes an interval to all members together. With those between them, as many
/// at most, that is 100 MB/s: what a link of 1 Gbit/s carries.
const ROUND_BYTES: usize = 10_000_000;
/// Reports of changes that a member may send between those that are due; each of those gives one back.
const MOST_CHANGES: u32 = 4;
/// A change is reported at once where it changes the member's rate by so much.
const CHANGED: f64 = 0.02;
/// A member that was not heard for so many of its periods is silent: cut off, or dead.
const SILENT: u64 = 5;
/// A silent member that was not heard for so many periods, while this one heard the bus, is forgotten: 30 s of the
/// shortest. Until then the others leave it what it has by itself.
const FORGOTTEN: u64 = 150;
/// The least of so many rates in a row counts. So a member takes what another has to give up not before that one has
/// heard of it, and the members together stay below the limit.
const RAISED_AFTER: usize = 3;
/// Members that are remembered at most.
const MOST_MEMBERS: usize = 1_024;
/// What a client asks for is its mean over so many intervals, a second, of which two bursts a second are all equal parts.
const MEAN_OF: usize = 5;
/// A client that was held back within that second asks for so many times its mean.
const CATCHING_UP: f32 = 1.5;
/// Intervals in a row after which one that is held back takes what it can get.
const HELD_BACK: u8 = 0b111;

/// What one client did since the last call of [`Member::tick`].
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// Its hash.
    pub client: u64,
    /// Writes that it came with and that were taken.
    pub taken: u32,
    /// Whether one was refused.
    pub is_refused: bool,
    /// Writes of it that wait now.
    pub waiting: usize,
    /// Its shares, 1 to 1,000.
    pub weight: u16,
}

impl Activity {
    /// The intervals in which it was held back: the last one where more waits than came in a quarter of it, and more than the
    /// one write that may always have come just now. Where some was refused, as one that is held back for long.
    const fn held_back(&self) -> u8 {
        let is_held_back = self.waiting > 1 && 4 * self.waiting >= self.taken as usize;
        (HELD_BACK * self.is_refused as u8) | is_held_back as u8
    }
}

/// What a member may send.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// Writes a second, of all clients together.
    pub per_second: f64,
    /// Of clients whose share is divided among members: what this one has of it, by their hashes.
    pub parts: Vec<Part>,
    /// Members that were heard, this one included.
    pub heard: usize,
    /// Members that were heard before and are silent, or have another version. An equal part is left to each.
    pub silent: usize,
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
    /// Since when it hears itself; none while the bus is away.
    joined: Option<Nanos>,
    last_tick: Nanos,
    /// The place of the last interval in what was [taken](Asked::taken).
    turn: usize,
    /// When its next report is due, whatever changes, and how many it may send before.
    due: Nanos,
    changes: u32,
    /// All members, itself included, as they were heard.
    known: BTreeMap<u64, Known>,
    /// The last rates, the newest first.
    rates: VecDeque<f64>,
    /// What it may send since the last tick.
    had: f64,
}

/// A client and its last intervals, each of which has a bit; the last one has the lowest.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    client: u64,
    weight: u16,
    /// It came, or something of it waited.
    was_here: u16,
    was_held_back: u8,
    /// Writes a second that were taken, of the last ones in turn.
    taken: [f32; MEAN_OF],
}

impl Asked {
    /// An interval more; whether it was here in any that are remembered.
    fn age(&mut self, turn: usize) -> bool {
        self.was_here <<= 1;
        self.was_held_back <<= 1;
        self.taken[turn] = 0.0;
        self.was_here != 0
    }

    fn demand(&self) -> Demand {
        let mean = self.taken.iter().sum::<f32>() / MEAN_OF as f32;
        let is_new = self.was_here >> MEAN_OF == 0;
        let per_second = match self.was_held_back {
            _ if self.has_left() => 0.0,
            held if held & HELD_BACK == HELD_BACK || is_new && held != 0 => f32::INFINITY,
            held if held << (8 - MEAN_OF) != 0 => CATCHING_UP * mean,
            _ => mean,
        };
        Demand {
            client: self.client,
            weight: self.weight,
            per_second,
        }
    }

    /// Whether it has been silent for longer than ever before in the last three seconds: one that sends in bursts is expected
    /// again, and one that sent in each interval is not.
    fn has_left(&self) -> bool {
        let silence = self.was_here.trailing_zeros().min(15);
        let mut silences = !self.was_here >> silence;
        (1..silence).for_each(|_| silences &= silences >> 1);
        silence > 0 && silences == 0
    }
}

#[derive(Debug)]
struct Known {
    /// None of a member of another version.
    report: Option<Report>,
    heard: Nanos,
}

impl Known {
    /// For how many of its periods it was not heard, since this instant at the earliest.
    fn periods(&self, since: Nanos, now: Nanos) -> u64 {
        let period = self.report.as_ref().map_or(INTERVAL, Report::period);
        now.saturating_sub(self.heard.max(since)).as_nanos() / period.as_nanos()
    }

    fn stays(&self) -> bool {
        self.report.as_ref().is_none_or(|report| !report.is_last)
    }
}

impl Member {
    /// A member that knows of no other, and may send nothing before its first [tick](Self::tick). `id` is to be drawn at
    /// random, `limit` is what all members together may send, writes a second.
    pub fn new(now: Nanos, id: u64, limit: f64) -> Self {
        Self {
            id,
            limit,
            number: 0,
            asked: Vec::new(),
            began: now,
            joined: None,
            last_tick: now,
            turn: 0,
            due: now,
            changes: MOST_CHANGES,
            known: BTreeMap::new(),
            rates: VecDeque::new(),
            had: 0.0,
        }
    }

    /// A report has come in. Its own ones count from when they come back, so that all compute from what all have heard.
    pub fn hear(&mut self, now: Nanos, report: Report) {
        self.note_report(now, report.member, Some(report));
    }

    /// A report of another version has come in. What its sender asks for is unknown, so it is left an equal part, as one
    /// that is silent.
    pub fn hear_of(&mut self, now: Nanos, member: u64) {
        self.note_report(now, member, None);
    }

    /// What is older than what is known changes nothing.
    fn note_report(&mut self, heard: Nanos, member: u64, report: Option<Report>) {
        let has_room = self.known.len() < MOST_MEMBERS || member == self.id;
        let number = |report: &Option<Report>| report.as_ref().map(|it| it.number);
        match self.known.get_mut(&member) {
            Some(known) if report.is_some() && number(&report) <= number(&known.report) => {}
            Some(known) => *known = Known { report, heard },
            None if has_room => drop(self.known.insert(member, Known { report, heard })),
            None => {}
        }
    }

    /// To be called every [`INTERVAL`] with what all its clients did, in the order of their hashes: the report to publish, if
    /// one is due or something has changed, and what may be sent from now on.
    pub fn tick(
        &mut self,
        now: Nanos,
        activity: impl IntoIterator<Item = Activity>,
    ) -> (Option<Report>, Division) {
        self.note(now, activity);
        let mut division = self.divide(now, None);
        self.joined = division.is_connected.then(|| self.joined.unwrap_or(now));
        if let Some(joined) = self.joined {
            self.known
                .retain(|_, known| known.periods(joined, now) < FORGOTTEN);
        }
        let report = self.next_report(now, division.per_second);
        self.rates.push_front(division.per_second);
        self.rates.truncate(RAISED_AFTER);
        let most = if self.may_have_more(now) {
            f64::INFINITY
        } else {
            self.had
        };
        self.had = self.rates.iter().copied().fold(most, f64::min);
        division.per_second = self.had;
        (report, division)
    }

    /// The last report, for a member that stops.
    pub fn leave(&mut self) -> Report {
        self.number += 1;
        Report {
            is_last: true,
            demands: Vec::new(),
            others: (0.0, 0),
            ..self.report()
        }
    }

    /// The report that is due, or that holds what has changed since the last one came back.
    fn next_report(&mut self, now: Nanos, rate: f64) -> Option<Report> {
        let report = self.report();
        if now >= self.due {
            self.due = now.saturating_add(report.period());
            self.changes = MOST_CHANGES.min(self.changes + 1);
        } else {
            let changed = self.divide(now, Some(&report)).per_second;
            if self.changes == 0 || (changed - rate).abs() <= CHANGED * rate {
                return None;
            }
            self.changes -= 1;
        }
        self.number += 1;
        Some(Report {
            number: self.number,
            ..report
        })
    }

    fn reports(&self) -> impl Iterator<Item = &Report> {
        self.known.values().filter_map(|it| it.report.as_ref())
    }

    /// Intervals until what all members report may be sent again.
    fn period(&self) -> u16 {
        let bytes: usize = self.reports().map(Report::bytes).sum();
        let intervals = (self.known.len() * bytes).div_ceil(ROUND_BYTES).max(1);
        u16::try_from(intervals).unwrap_or(u16::MAX)
    }

    /// Whether it has heard all others, and they it. One that has just joined, or joined again, keeps what it had by
    /// itself: any number of others may be there, and may have begun with it.
    fn may_have_more(&self, now: Nanos) -> bool {
        let (since, intervals) = match self.joined {
            Some(joined) => {
                let periods = self.reports().map(|it| it.period);
                (joined, u64::from(periods.fold(self.period(), u16::max)) + 1)
            }
            None => (self.began, SILENT),
        };
        now.saturating_sub(since) >= INTERVAL.saturating_mul(intervals)
    }

    /// What follows from the reports of all, with this one in place of its own where that was heard.
    fn divide(&self, now: Nanos, own: Option<&Report>) -> Division {
        let stay = || self.known.values().filter(|it| it.stays());
        let all = stay().count() + usize::from(!self.known.contains_key(&self.id));
        // All take the members in the same order, so that they compute the same to the last bit.
        let heard = stay().filter(|it| it.periods(Nanos::ZERO, now) < SILENT);
        let heard = heard.filter_map(|it| it.report.as_ref());
        let heard: Vec<&Report> = heard
            .map(|it| own.filter(|own| own.member == it.member).unwrap_or(it))
            .collect();
        let place = heard.iter().position(|report| report.member == self.id);
        let silent = all - heard.len() - usize::from(place.is_none());
        // Where limits differ, the lowest is the common one.
        let limits = heard.iter().map(|report| report.limit);
        let limit = limits.fold(self.limit, f64::min);
        let equal = limit / all as f64;
        let (per_second, parts) = place.map_or((equal, Vec::new()), |place| {
            divide(limit - equal * silent as f64, &heard, place)
        });
        Division {
            per_second,
            parts,
            heard: all - silent,
            silent,
            is_connected: place.is_some(),
        }
    }

    fn note(&mut self, now: Nanos, activity: impl IntoIterator<Item = Activity>) {
        let span = now.saturating_sub(self.last_tick).max(INTERVAL);
        self.last_tick = now;
        self.turn = (self.turn + 1) % MEAN_OF;
        let turn = self.turn;
        self.asked.retain_mut(|asked| asked.age(turn));
        let mut before = std::mem::take(&mut self.asked).into_iter().peekable();
        self.asked.reserve(before.len());
        for did in activity {
            let earlier = std::iter::from_fn(|| before.next_if(|it| it.client < did.client));
            self.asked.extend(earlier);
            let known = before.next_if(|it| it.client == did.client);
            let mut asked = known.unwrap_or_default();
            (asked.client, asked.weight) = (did.client, did.weight);
            asked.taken[turn] = did.taken as f32 / span.as_secs_f64() as f32;
            asked.was_here |= u16::from(did.is_refused || did.taken > 0 || did.waiting > 0);
            asked.was_held_back |= did.held_back();
            self.asked.push(asked);
        }
        self.asked.extend(before);
    }

    fn report(&self) -> Report {
        let mut demands = Vec::with_capacity(self.asked.len());
        demands.extend(
            self.asked
                .iter()
                .map(Asked::demand)
                .filter(|it| it.per_second > 0.0),
        );
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
            period: self.period(),
            is_last: false,
            demands,
            others: (left_out.iter().map(|demand| demand.per_second).sum(), count),
        }
    }
}
