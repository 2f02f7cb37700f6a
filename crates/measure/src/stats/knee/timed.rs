//! A search within a time, and the two tests of what it found.

use pacing::Nanos;

use super::{
    Ending, Finding, GROWTH, KneeSearch, KneeSettings, Next, Rationale, Trial, is_told, rounded,
};

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
/// A target may change at any time, and each test shows one direction. What a load may rely on ([`KneeSearch::lasting`]),
/// offered for longer, breaks if the target became slower, with less committed than the interval allows. A rate above the interval holds, or more of it is committed than the interval
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
    /// What was taken for longer, where a rate that a load was to rely on broke.
    lasts: f64,
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
            lasts: f64::INFINITY,
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
    pub fn add(&mut self, mut trial: Trial) {
        let is_known = is_told(&trial) && trial.took.is_some();
        let is_unexpected = || self.search.is_unexpected(&trial);
        self.is_refuted = match self.last {
            Some((_, Rationale::Lasting)) => {
                trial.finding != Finding::Held && (!is_known || is_unexpected())
            }
            Some((_, Rationale::Above)) => trial.finding == Finding::Held || is_unexpected(),
            _ => false,
        };
        // What it took for longer is what it sustains, whatever shorter trials show.
        if let Some((_, Rationale::Lasting)) = self.last
            && trial.finding == Finding::Broken
            && let Some(took) = &mut trial.took
        {
            self.lasts = took.tps;
            took.fell_to = Some(took.fell_to.unwrap_or(took.tps).min(took.tps));
        }
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

    /// What a load may rely on, for longer, where there is time.
    fn lasting(&self, left: Nanos, usual: Nanos) -> Option<Next> {
        let length = self.time.confirm.min(left);
        let rate = self.search.lasting().filter(|_| length > usual)?;
        Some(Next::Try {
            rate: rate.min(self.lasts).floor().max(1.0),
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

#[cfg(test)]
mod tests {
    use super::super::Took;
    use super::super::tests::{Dice, exactly, held_if, narrow};
    use super::*;
    use crate::limits::GROWTH_LIMIT;

    fn seconds(limit: u64, confirm: u64) -> SearchTime {
        SearchTime {
            limit: Nanos::from_secs(limit),
            trial: Nanos::from_secs(10),
            confirm: Nanos::from_secs(confirm),
        }
    }

    /// What a target commits of a rate when it is offered until so many seconds, and whether that holds.
    type Shows = (Finding, Option<Took>);

    /// A target that commits what it can take after so many seconds, whatever is offered beyond that.
    fn takes(can_take: impl Fn(f64) -> f64) -> impl Fn(f64, f64) -> Shows {
        move |rate, at_s| {
            let tps = can_take(at_s);
            (held_if(rate <= tps), exactly(rate.min(tps)))
        }
    }

    /// The same, of blocks that are not followed.
    fn unwatched(target: impl Fn(f64, f64) -> Shows) -> impl Fn(f64, f64) -> Shows {
        move |rate, at_s| (target(rate, at_s).0, None)
    }

    /// A search after its end.
    struct Played {
        search: TimedSearch,
        ending: Ending,
        reasons: Vec<Rationale>,
        took: Nanos,
    }

    impl Played {
        /// Plays a search.
        fn of(time: SearchTime, mut target: impl FnMut(f64, f64) -> Shows) -> Self {
            let lasts = |length: f64| Nanos::from_millis((10_000.0 * length) as u64);
            let mut search = TimedSearch::new(narrow(), time);
            let (mut took, mut reasons) = (Nanos::ZERO, Vec::new());
            loop {
                let (rate, because, length) = match search.next(took, lasts) {
                    Next::Try {
                        rate,
                        because,
                        length,
                    } => (rate, because, length),
                    Next::Done(ending) => {
                        assert!(took <= time.limit, "{took}");
                        return Self {
                            search,
                            ending,
                            reasons,
                            took,
                        };
                    }
                };
                took = took.saturating_add(lasts(length));
                let (finding, took) = target(rate, took.as_secs_f64());
                search.add(Trial {
                    rate,
                    finding,
                    took,
                });
                reasons.push(because);
            }
        }

        /// The interval, if one is given.
        fn knee(&self) -> Option<(f64, f64)> {
            let is_open = self.search.is_refuted() || self.search.known().is_in_doubt();
            let knee = self.search.known().estimate().filter(|_| !is_open)?;
            Some((knee.low, knee.high))
        }

        fn is_tested_at_both_ends(&self) -> bool {
            self.reasons.iter().filter(|it| it.is_test()).count() == 2
                && self
                    .reasons
                    .ends_with(&[Rationale::Lasting, Rationale::Above])
        }
    }

    #[test]
    fn both_ends_of_an_interval_are_tested_last() {
        let steady = || takes(|_| 1000.0);
        let of = Played::of(seconds(300, 100), steady());
        let unwatched = Played::of(seconds(300, 100), unwatched(steady()));
        for played in [of, unwatched] {
            assert!(played.is_tested_at_both_ends(), "{:?}", played.reasons);
            let (low, high) = played.knee().unwrap();
            assert!(low <= 1000.0 && 1000.0 <= high, "{low} {high}");
        }
    }

    /// A real node took 1.5 % less in two minutes than in 20 s: an interval that is known to 5 % is none of the past for that.
    #[test]
    fn a_target_that_takes_a_little_less_for_longer_keeps_its_knee() {
        let tires = |at_s: f64| if at_s > 150.0 { 985.0 } else { 1000.0 };
        let played = Played::of(seconds(300, 100), takes(tires));
        assert!(played.is_tested_at_both_ends(), "{:?}", played.reasons);
        let (low, high) = played.knee().unwrap();
        assert!(low * 0.98 <= 985.0 && 1000.0 <= high, "{low} {high}");
    }

    /// A node that takes less for longer: what breaks in the longer trial by more than is expected is offered again for longer
    /// at no more than was taken, and no interval is given that is not near it.
    #[test]
    fn what_a_target_takes_for_longer_is_what_a_load_may_rely_on() {
        for less in [0.97, 0.95, 0.92, 0.85, 0.7] {
            let (knee, mut begun_s) = (1000.0, 0.0);
            let played = Played::of(seconds(300, 100), |rate, at_s| {
                let lasts_s = at_s - std::mem::replace(&mut begun_s, at_s);
                let tps = if lasts_s > 25.0 { less * knee } else { knee };
                (held_if(rate <= tps), exactly(rate.min(tps)))
            });
            let trials = played.search.known().trials();
            let tests = played.reasons.iter().zip(trials);
            let tests = tests.filter(|(because, _)| **because == Rationale::Lasting);
            let tests: Vec<_> = tests.map(|(_, it)| (it.rate, it.finding)).collect();
            let said = format!("{less}: {tests:?}, {:?}", played.knee());
            let again = tests.iter().skip(1);
            assert!(again.clone().all(|it| it.0 <= less * knee), "{said}");
            let held = tests.last().is_some_and(|it| it.1 == Finding::Held);
            let is_near = |(low, _): (f64, f64)| low <= less * knee;
            assert!(
                (held && tests.len() == 1) || played.knee().is_none_or(is_near),
                "{said}"
            );
        }
    }

    /// Wherever a change falls, the interval holds what the target takes at the end, or none is given.
    #[test]
    fn no_change_leaves_an_interval_of_the_past() {
        let (mut given, mut open) = (0, 0);
        for (to, is_watched) in [(600.0, true), (1600.0, true), (1600.0, false)] {
            for from_s in (0..300).step_by(17).map(f64::from) {
                let can_take = |at_s: f64| if at_s <= from_s { 1000.0 } else { to };
                let target = takes(can_take);
                let played = if is_watched {
                    Played::of(seconds(300, 100), target)
                } else {
                    Played::of(seconds(300, 100), unwatched(target))
                };
                let truth = can_take(played.took.as_secs_f64());
                let Some((low, high)) = played.knee() else {
                    open += 1;
                    continue;
                };
                given += 1;
                assert!(
                    (low * 0.95..=high * 1.05).contains(&truth),
                    "to {to} from {from_s} s: {low} {high} {:?}",
                    played.reasons
                );
            }
        }
        assert!(given > open && open > 0, "{given} given, {open} not");
    }

    /// What an overload costs a target is no change of it, be it a little or nearly all that it takes: the rate above the
    /// interval commits less than the interval. Losses between those of the model move an interval by up to 1 %.
    #[test]
    fn a_target_that_loses_by_an_overload_is_not_taken_for_a_slower_one() {
        for knee in [937.0, 1011.0, 1122.0, 1196.0] {
            for loss in [0.25, 0.55, 0.75, 0.95] {
                let loses = |rate: f64, _| {
                    let tps = rate.min(knee) - loss * (rate - knee).max(0.0);
                    let tps = tps.max(1.0);
                    (held_if(rate * (1.0 - GROWTH_LIMIT) <= tps), exactly(tps))
                };
                let played = Played::of(seconds(300, 100), loses);
                let said = format!("{knee}, {loss}: {:?}", played.reasons);
                assert!(played.is_tested_at_both_ends(), "{said}");
                let (low, high) = played.knee().unwrap();
                assert!(
                    low * 0.99 <= knee && knee <= high * 1.01,
                    "{low} {high} of {said}"
                );
                assert!(high / low < 1.1, "{low} {high} of {said}");
            }
        }
    }

    /// Between what it took and what it could have taken with the processor, nothing tells: the interval holds the knee all
    /// the same, and is as wide as that.
    #[test]
    fn a_target_that_lacks_the_processor_has_a_knee_as_exact_as_that_lets_it_be() {
        for (lack, cost) in [(0.03, 0.2), (0.06, 0.5), (0.1, 0.8), (0.2, 0.5)] {
            for knee in [260.0, 937.0, 1011.0, 1122.0] {
                let played = Played::of(seconds(300, 100), |rate, _| {
                    let tps = f64::min(knee * (1.0 - cost * lack), rate);
                    if rate * (1.0 - GROWTH_LIMIT) <= tps {
                        return (Finding::Held, exactly(tps));
                    }
                    let took = Took {
                        tps,
                        error_tps: 0.0,
                        lack,
                        fell_to: None,
                    };
                    let is_explained = tps / (1.0 - lack) >= rate * 0.95;
                    let finding = if is_explained {
                        Finding::Starved
                    } else {
                        Finding::Broken
                    };
                    (finding, Some(took))
                });
                let (low, high) = played.knee().unwrap();
                let said = format!("{knee}, {lack}: {low} to {high}, {:?}", played.reasons);
                assert!(low * 0.99 <= knee && knee <= high * 1.01, "{said}");
                assert!(high / low < 1.1 / (1.0 - lack), "{said}");
            }
        }
    }

    /// What a target takes that varies from trial to trial is no change either, in 55 of 60 searches at least.
    #[test]
    fn a_noisy_target_is_seldom_taken_for_another_one() {
        let mut given = 0;
        for (seed, noise) in (0..20).flat_map(|seed| [0.02, 0.05, 0.1].map(|it| (seed, it))) {
            let mut dice = Dice(seed * 7919 + 13);
            let played = Played::of(seconds(300, 100), |rate, _| {
                let tps = 1000.0 * (noise * dice.normal()).exp();
                (held_if(rate <= tps), exactly(rate.min(tps)))
            });
            given += u32::from(played.knee().is_some());
        }
        assert!(given >= 55, "{given} of 60");
    }

    #[test]
    fn a_search_without_time_for_its_tests_says_what_it_knows() {
        let played = Played::of(seconds(45, 100), unwatched(takes(|_| 300.0)));
        assert_eq!(played.ending, Ending::TimeUsed);
        let known = played.search.known();
        assert_eq!(known.highest_held(), Some(250.0));
        assert_eq!(known.lowest_broken(), Some(500.0));
    }
}
