//! Which endpoints gave no answer while requests to them waited, and since when.
//!
//! The row of each second names them. The conclusions are drawn from the rows, so that they are the same for a
//! run that ends and for one that was killed, of which nothing else says what was unanswered.

use std::fmt;

use pacing::Nanos;

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

/// The counts of every endpoint, by its position.
#[derive(Debug, Default)]
pub(crate) struct EndpointParts(Vec<EndpointCounts>);

impl EndpointParts {
    pub(crate) fn sent(&mut self, endpoint: u16) {
        self.of(endpoint).sent += 1;
    }

    pub(crate) fn answered(&mut self, endpoint: u16, at: Nanos) {
        let counts = self.of(endpoint);
        counts.ended += 1;
        counts.answers.mark(at);
    }

    /// A request was given up as an error.
    pub(crate) fn gave_up(&mut self, endpoint: u16) {
        let counts = self.of(endpoint);
        counts.ended += 1;
        counts.given_up += 1;
    }

    /// A request is not looked at any more.
    pub(crate) fn settled(&mut self, endpoint: u16) {
        self.of(endpoint).ended += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn of(&mut self, endpoint: u16) -> &mut EndpointCounts {
        let place = usize::from(endpoint);
        if place >= self.0.len() {
            self.0.resize(place + 1, EndpointCounts::default());
        }
        &mut self.0[place]
    }
}

/// One endpoint, watched.
#[derive(Debug, Default)]
struct Watched {
    in_flight: u64,
    silence: Silence,
    /// The last answer before requests were given up. A connection that opens again leaves a gap in which
    /// no request waits; the silence goes on behind it.
    given_up_since: Option<Nanos>,
    has_given_up: bool,
    /// The longest silence of the second under way.
    longest: Stretch,
}

/// Watches every endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointWatch(Vec<Watched>);

impl EndpointWatch {
    /// Takes the next span, which lies inside one second.
    pub(crate) fn pass(&mut self, start: Nanos, end: Nanos, parts: &EndpointParts) {
        if self.0.len() < parts.0.len() {
            self.0.resize_with(parts.0.len(), Watched::default);
        }
        for (place, watched) in self.0.iter_mut().enumerate() {
            let counts = parts.0.get(place).copied().unwrap_or_default();
            watched.pass(start, end, counts);
        }
    }

    /// The silences that lie in the second that ends at `end` or reach into it,
    /// as the column `silent` has them.
    pub(crate) fn take(&mut self, end: Nanos, names: &[String]) -> String {
        let silent = self.0.iter_mut().enumerate().filter_map(|(place, it)| {
            let seen = std::mem::take(&mut it.longest);
            (seen.length_s() >= SILENCE_S).then(|| SilentEndpoint {
                endpoint: names
                    .get(place)
                    .map_or_else(|| place.to_string(), Clone::clone),
                seen,
                answered: seen.until_s < end.as_secs_f64(),
            })
        });
        let silent: Vec<String> = silent.map(|silent| silent.to_string()).collect();
        silent.join("; ")
    }
}

impl Watched {
    fn pass(&mut self, start: Nanos, end: Nanos, counts: EndpointCounts) {
        self.in_flight = (self.in_flight + counts.sent).saturating_sub(counts.ended);
        let since = self.silence.since();
        let awaited = self.in_flight + counts.given_up;
        self.silence.longest = Stretch::default();
        self.silence.pass(start, end, counts.answers, awaited);
        let mut seen = self.silence.longest;
        if counts.answers != Tenths::default() {
            (self.given_up_since, self.has_given_up) = (None, false);
        } else if let Some(since) = self.given_up_since.filter(|_| seen.until_s > 0.0) {
            seen.from_s = since.as_secs_f64();
        }
        self.has_given_up |= counts.given_up > 0;
        if awaited == 0 && self.has_given_up {
            self.given_up_since.get_or_insert(since);
        }
        if seen.length_s() > self.longest.length_s() {
            self.longest = seen;
        }
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
