//! Which endpoints gave no answer while requests to them waited, and since when.
//!
//! The row of each second has what each endpoint did, in a form that adds up over generators, and names those that were
//! silent. The conclusions are drawn from the rows, so that they are the same for a run that ends, for one that was
//! killed, of which nothing else shows what was unanswered, and for one of several generators.

use std::fmt;

use pacing::Nanos;

use crate::format::counts::{self, AddUp};
use crate::limits::{SILENCE_BLOCKS, SILENCE_S};
use crate::stats::silence::{Silence, Stretch, Tenths};

/// What one endpoint was sent and gave back in a span inside one second.
#[derive(Debug, Clone, Copy, Default)]
struct EndpointCounts {
    sent: u64,
    /// Answered, given up, or settled without an answer.
    ended: u64,
    given_up: u64,
    answers: Tenths,
}

impl AddUp for EndpointCounts {
    fn add_up(&mut self, part: &Self) {
        self.sent += part.sent;
        self.ended += part.ended;
        self.given_up += part.given_up;
        self.answers.add_up(&part.answers);
    }
}

/// The counts of every endpoint, by its position.
#[derive(Debug, Default)]
pub(crate) struct EndpointParts(Vec<EndpointCounts>);

impl EndpointParts {
    pub(crate) fn sent(&mut self, endpoint: u16) {
        at(&mut self.0, endpoint).sent += 1;
    }

    pub(crate) fn answered(&mut self, endpoint: u16, answered: Nanos) {
        let counts = at(&mut self.0, endpoint);
        counts.ended += 1;
        counts.answers.mark(answered);
    }

    /// A request was given up as an error.
    pub(crate) fn gave_up(&mut self, endpoint: u16) {
        let counts = at(&mut self.0, endpoint);
        counts.ended += 1;
        counts.given_up += 1;
    }

    /// A request is not looked at any more.
    pub(crate) fn settled(&mut self, endpoint: u16) {
        at(&mut self.0, endpoint).ended += 1;
    }

    /// Adds those of a later span of the same second.
    pub(crate) fn add(&mut self, later: &Self) {
        for (place, counts) in (0..).zip(&later.0) {
            at(&mut self.0, place).add_up(counts);
        }
    }

    /// When any of them answered.
    pub(crate) fn answers(&self) -> Tenths {
        counts::sum(self.0.iter().map(|counts| &counts.answers))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The entry of an endpoint, made if there is none.
fn at<T: Default + Clone>(all: &mut Vec<T>, endpoint: u16) -> &mut T {
    let place = usize::from(endpoint);
    if place >= all.len() {
        all.resize(place + 1, T::default());
    }
    &mut all[place]
}

/// What one endpoint did in a second: what its silence is judged by. Several generators' add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sign {
    answers: Tenths,
    /// Requests without an answer at the second's end.
    waiting: u64,
    given_up: u64,
}

/// Those of every endpoint, by its position, as the column `signs` has them: `3ff/12/0 3/0/4`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EndpointSigns(Vec<Sign>);

impl EndpointSigns {
    /// Of so many endpoints, before anything was sent.
    pub(crate) fn of(endpoints: usize) -> Self {
        Self(vec![Sign::default(); endpoints])
    }

    /// Goes on to the next second.
    pub(crate) fn next(&mut self, second: &EndpointParts) {
        if self.0.len() < second.0.len() {
            self.0.resize(second.0.len(), Sign::default());
        }
        for (place, sign) in self.0.iter_mut().enumerate() {
            let counts = second.0.get(place).copied().unwrap_or_default();
            sign.waiting = (sign.waiting + counts.sent).saturating_sub(counts.ended);
            (sign.given_up, sign.answers) = (counts.given_up, counts.answers);
        }
    }

    /// Adds another generator's, of the same second, whose endpoints have these positions here.
    pub(crate) fn add(&mut self, part: &Self, positions: &[u16]) {
        for (sign, place) in part.0.iter().zip(positions) {
            let sum = at(&mut self.0, *place);
            sum.answers.add_up(&sign.answers);
            sum.waiting += sign.waiting;
            sum.given_up += sign.given_up;
        }
    }

    /// When any of them answered.
    pub(crate) fn answers(&self) -> Tenths {
        counts::sum(self.0.iter().map(|sign| &sign.answers))
    }

    /// Reads the column; `None` where it is empty, as in the folders of earlier versions.
    pub(crate) fn read(column: &str) -> Option<Self> {
        let signs = column.split_whitespace().map(Sign::read);
        let signs: Option<Vec<Sign>> = signs.collect();
        signs.filter(|signs| !signs.is_empty()).map(Self)
    }
}

impl fmt::Display for EndpointSigns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, sign) in self.0.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            let Sign {
                answers,
                waiting,
                given_up,
            } = sign;
            write!(f, "{space}{answers:x}/{waiting}/{given_up}")?;
        }
        Ok(())
    }
}

impl Sign {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split('/');
        let sign = Self {
            answers: Tenths::read(words.next()?)?,
            waiting: words.next()?.parse().ok()?,
            given_up: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(sign)
    }
}

/// One endpoint, watched.
#[derive(Debug, Clone, Default)]
struct Watched {
    silence: Silence,
    /// The last answer before requests were given up. A connection that opens again leaves a gap in which
    /// no request waits; the silence goes on behind it.
    given_up_since: Option<Nanos>,
    has_given_up: bool,
}

/// Watches every endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointWatch(Vec<Watched>);

impl EndpointWatch {
    /// Takes the next second, of a row that begins and ends at these instants. The silences that lie in it or reach
    /// into it, as the column `silent` has them.
    pub(crate) fn second<'a>(
        &mut self,
        (start, end): (Nanos, Nanos),
        signs: &EndpointSigns,
        mut names: impl Iterator<Item = &'a str>,
    ) -> String {
        if self.0.len() < signs.0.len() {
            self.0.resize(signs.0.len(), Watched::default());
        }
        let mut silent = Vec::new();
        for (place, watched) in self.0.iter_mut().enumerate() {
            let sign = signs.0.get(place).copied().unwrap_or_default();
            let seen = watched.pass(start, end, sign);
            let name = names.next();
            if seen.length_s() >= SILENCE_S {
                let silence = SilentEndpoint {
                    endpoint: name.map_or_else(|| place.to_string(), str::to_owned),
                    seen,
                    answered: seen.until_s < end.as_secs_f64(),
                };
                silent.push(silence.to_string());
            }
        }
        silent.join("; ")
    }
}

impl Watched {
    /// The longest silence of the second.
    fn pass(&mut self, start: Nanos, end: Nanos, sign: Sign) -> Stretch {
        let since = self.silence.since();
        let awaited = sign.waiting + sign.given_up;
        self.silence.longest = Stretch::default();
        self.silence.pass(start, end, sign.answers, awaited);
        let mut seen = self.silence.longest;
        if sign.answers != Tenths::default() {
            (self.given_up_since, self.has_given_up) = (None, false);
        } else if let Some(since) = self.given_up_since.filter(|_| seen.until_s > 0.0) {
            seen.from_s = since.as_secs_f64();
        }
        self.has_given_up |= sign.given_up > 0;
        if awaited == 0 && self.has_given_up {
            self.given_up_since.get_or_insert(since);
        }
        seen
    }
}

/// An endpoint's silence as the row of a second has it: `http://10.0.0.2:26657 8.2-13.0 16 waiting`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SilentEndpoint {
    endpoint: String,
    seen: Stretch,
    /// Whether an answer ended it.
    answered: bool,
}

impl fmt::Display for SilentEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stretch {
            from_s,
            until_s,
            txs,
        } = self.seen;
        let ended = if self.answered { "answered" } else { "waiting" };
        write!(
            f,
            "{} {from_s:.1}-{until_s:.1} {txs} {ended}",
            self.endpoint
        )
    }
}

impl SilentEndpoint {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.rsplitn(4, ' ');
        let ended = words.next()?;
        let txs = words.next()?.parse().ok()?;
        let (from_s, until_s) = words.next()?.split_once('-')?;
        Some(Self {
            endpoint: words.next()?.to_owned(),
            seen: Stretch {
                from_s: from_s.parse().ok()?,
                until_s: until_s.parse().ok()?,
                txs,
            },
            answered: ended == "answered",
        })
    }
}

/// The silences of one endpoint over the course of a load, each with whether an answer ended it.
#[derive(Debug, Clone)]
pub(crate) struct EndpointSilence {
    pub(crate) endpoint: String,
    longest: (Stretch, bool),
    underway: (Stretch, bool),
    /// How long the longest of the others was that an answer ended: what is ordinary for this endpoint.
    ordinary_s: f64,
}

impl EndpointSilence {
    /// Takes the column `silent` of the next second.
    pub(crate) fn second(known: &mut Vec<Self>, column: &str) {
        for silent in column.split("; ").filter_map(SilentEndpoint::read) {
            match known.iter_mut().find(|it| it.endpoint == silent.endpoint) {
                Some(it) => it.add(&silent),
                None => known.push(Self {
                    endpoint: silent.endpoint,
                    longest: (Stretch::default(), false),
                    underway: (silent.seen, silent.answered),
                    ordinary_s: 0.0,
                }),
            }
        }
    }

    fn add(&mut self, silent: &SilentEndpoint) {
        let Stretch {
            from_s,
            until_s,
            txs,
        } = silent.seen;
        let underway = &mut self.underway.0;
        if from_s <= underway.until_s {
            underway.from_s = underway.from_s.min(from_s);
            underway.extend(until_s.max(underway.until_s), txs);
        } else {
            (self.longest, self.ordinary_s) = self.ended();
            self.underway.0 = silent.seen;
        }
        self.underway.1 = silent.answered;
    }

    /// The longest silence, and how long the longest of the others was that an answer ended.
    fn ended(&self) -> ((Stretch, bool), f64) {
        let (longest, other) = if self.underway.0.length_s() > self.longest.0.length_s() {
            (self.underway, self.longest)
        } else {
            (self.longest, self.underway)
        };
        let ordinary_s = match other {
            (stretch, true) => self.ordinary_s.max(stretch.length_s()),
            (_, false) => self.ordinary_s,
        };
        (longest, ordinary_s)
    }

    /// The longest silence, if the endpoint's others do not show that it is as slow as that.
    pub(crate) fn out_of_the_ordinary(&self) -> Option<Stretch> {
        let ((longest, _), ordinary_s) = self.ended();
        (longest.length_s() > SILENCE_BLOCKS * ordinary_s).then_some(longest)
    }
}
