//! A search within a time, and the two tests of what it found.

use pacing::Nanos;

use super::{Ending, Finding, GROWTH, KneeSearch, KneeSettings, Next, Rationale, Trial, rounded};

/// What a search may take.
#[derive(Debug, Clone, Copy)]
pub struct SearchTime {
    /// All of it.
    pub limit: Nanos,
    /// A trial of usual length.
    pub trial: Nanos,
    /// A longer trial at the end, for which so much is kept.
    pub confirm: Nanos,
}

/// Looks for a knee within a time, and tests both ends of the interval at the end.
///
/// A target may change at any time, and each test shows one direction. The lower end of the interval, offered for longer,
/// breaks if the target became slower. A rate above the interval holds, or more of it is committed than the interval
/// allows, if it became faster. That one is the last: an overloaded target shows what it takes, so it shows as well what
/// became slower since. What contradicts the interval is learnt, and the search goes on while there is time.
///
/// ```
/// use measure::{Finding, KneeSettings, Next, Rationale, SearchTime, TimedSearch, Trial};
/// use pacing::Nanos;
///
/// let trial = Nanos::from_secs(10);
/// let time = SearchTime { limit: Nanos::from_secs(300), trial, confirm: Nanos::from_secs(100) };
/// let lasts = |length: f64| Nanos::from_nanos((trial.as_nanos() as f64 * length) as u64);
/// let mut search = TimedSearch::new(KneeSettings::default(), time);
/// let (mut elapsed, mut last) = (Nanos::ZERO, None);
/// while let Next::Try { rate, because, length } = search.next(elapsed, lasts) {
///     let finding = if rate <= 2137.0 { Finding::Held } else { Finding::Broken };
///     search.add(Trial { rate, finding, took: None });
///     (elapsed, last) = (elapsed.saturating_add(lasts(length)), Some(because));
/// }
/// assert_eq!(last, Some(Rationale::Above));
/// assert!(elapsed <= time.limit && !search.is_refuted());
/// ```
#[derive(Debug, Clone)]
pub struct TimedSearch {
    search: KneeSearch,
    time: SearchTime,
    /// When the last trial began, and why it was made.
    last: Option<(Nanos, Rationale)>,
    /// The most that a trial of the search took, with all that belongs to it.
    longest: Nanos,
    /// Why the search was over before its tests.
    ending: Ending,
    is_refuted: bool,
}

impl TimedSearch {
    /// Before the first trial.
    pub fn new(settings: KneeSettings, time: SearchTime) -> Self {
        Self {
            search: KneeSearch::new(settings),
            time,
            last: None,
            longest: Nanos::ZERO,
            ending: Ending::TimeUsed,
            is_refuted: false,
        }
    }

    /// What the trials show.
    pub const fn known(&self) -> &KneeSearch {
        &self.search
    }

    /// Whether the last trial was a test, and contradicts the interval that it tested.
    pub const fn is_refuted(&self) -> bool {
        self.is_refuted
    }

    /// Which rate to try next, or why the search is over, so long after it began; `lasts` says how long a trial of a length
    /// in parts of the usual one is.
    pub fn next(&mut self, elapsed: Nanos, lasts: impl Fn(f64) -> Nanos) -> Next {
        let left = self.time.limit.saturating_sub(elapsed);
        if let Some((begun, because)) = self.last
            && !because.is_test()
        {
            self.longest = self.longest.max(elapsed.saturating_sub(begun));
        }
        if self.is_refuted {
            // What is left serves the search as much as its tests.
            let half = Nanos::from_nanos(left.as_nanos() / 2);
            self.time.confirm = self.time.confirm.min(half);
        }
        let next = match self.last.filter(|_| !self.is_refuted) {
            Some((_, Rationale::Above)) => None,
            Some((_, Rationale::Lasting)) => self.above(left, lasts(1.0)),
            _ => self.search_on(left, lasts),
        };
        let next = next.unwrap_or(Next::Done(self.ending));
        if let Next::Try { because, .. } = next {
            self.last = Some((elapsed, because));
        }
        next
    }

    /// Takes the result of the trial that was wanted last.
    pub fn add(&mut self, trial: Trial) {
        self.is_refuted = match self.last {
            Some((_, Rationale::Lasting)) => trial.finding != Finding::Held,
            Some((_, Rationale::Above)) => {
                trial.finding == Finding::Held || self.search.is_unexpected(&trial)
            }
            _ => false,
        };
        self.search.add(trial);
    }

    fn search_on(&mut self, left: Nanos, lasts: impl Fn(f64) -> Nanos) -> Option<Next> {
        let next = self.search.next();
        let usual = lasts(1.0);
        // The tests keep their part of the time as soon as there is something to test.
        let for_trials = match self.search.estimate() {
            Some(_) => left.saturating_sub(self.time.confirm).saturating_sub(usual),
            None => left,
        };
        let is_first = self.search.trials().is_empty();
        self.ending = match next {
            Next::Try { length, .. }
                if is_first || self.longest.max(lasts(length)) <= for_trials =>
            {
                return Some(next);
            }
            Next::Try { .. } => Ending::TimeUsed,
            Next::Done(ending) => ending,
        };
        let is_tested = matches!(
            self.ending,
            Ending::TimeUsed | Ending::Found | Ending::TrialsUsed
        );
        let tests = is_tested.then(|| self.lasting(left.saturating_sub(usual), usual));
        tests
            .flatten()
            .or_else(|| self.above(left, usual).filter(|_| is_tested))
    }

    /// The lower end of the interval for longer, where there is time.
    fn lasting(&self, left: Nanos, usual: Nanos) -> Option<Next> {
        let length = self.time.confirm.min(left);
        let knee = self.search.estimate().filter(|_| length > usual)?;
        Some(Next::Try {
            rate: knee.low.floor().max(1.0),
            because: Rationale::Lasting,
            length: length.as_secs_f64() / self.time.trial.as_secs_f64(),
        })
    }

    /// A rate above the interval, where there is time and such a rate is allowed.
    fn above(&self, left: Nanos, usual: Nanos) -> Option<Next> {
        let knee = self.search.estimate().filter(|_| usual <= left)?;
        let most = self
            .search
            .settings
            .max
            .min(self.search.highest_held()? * GROWTH);
        let rate = rounded(knee.high * SURELY_ABOVE).min(most);
        (rate > knee.high).then_some(Next::Try {
            rate,
            because: Rationale::Above,
            length: 1.0,
        })
    }
}

/// So far above the interval an overload shows what the target takes, and is none that stops it.
const SURELY_ABOVE: f64 = 1.1;
