//! The knee of a target: the highest rate it sustains, found one trial at a time.
//!
//! A trial offers one rate for a while and shows whether it held. Where the next trial belongs, when
//! enough is known, and how sure that is, is decided here; offering and judging are the caller's.

mod fall;
mod growth;
mod posterior;
mod timed;
mod trial;

pub use fall::Fall;
pub use growth::{BacklogGrowth, BlockMark, backlog_growth};
pub use timed::{SearchTime, TimedSearch};
pub use trial::{Drift, Ending, Finding, KneeEstimate, KneeSettings, Next, Rationale, Took, Trial};

use posterior::{Change, Posterior};

use crate::limits::GROWTH_LIMIT;

/// Looks for the highest rate that a target sustains.
///
/// It doubles the rate until a trial breaks (or quarters it until one holds), then always tries the
/// median of the distribution: with a quiet target that is bisection, with a noisy one the same
/// region is tried again until the noise is outvoted. The belief is a distribution over the knee and
/// the noise of the trials, as in adaptive psychometrics (Kontsevich, Tyler: "Bayesian adaptive
/// estimation of psychometric slope and threshold", Vision Research 39, 1999): a trial below the knee
/// holds, above it breaks, near it either, and now and then one ends by chance. Where it is known what a target
/// committed ([`Trial::took`]), each trial counts by that instead, whatever its finding: it is the smaller of the rate
/// and of what the target took, and may be less far above the knee, where throughput may fall.
///
/// A target that becomes slower or faster is found by trials that fit two knees, one after the other, better than one:
/// what held before, or broke, is then offered again, and if it does not any more, what was known before is forgotten
/// ([`KneeSearch::drift`]).
///
/// ```
/// use measure::{Finding, KneeSearch, KneeSettings, Next, Trial};
///
/// let mut search = KneeSearch::new(KneeSettings::default());
/// while let Next::Try { rate, .. } = search.next() {
///     let finding = if rate <= 2137.0 { Finding::Held } else { Finding::Broken };
///     search.add(Trial { rate, finding, took: None });
/// }
/// let knee = search.estimate().expect("it lies in the allowed range");
/// assert!((knee.rate / 2137.0 - 1.0).abs() < 0.03);
/// ```
#[derive(Debug, Clone)]
pub struct KneeSearch {
    settings: KneeSettings,
    trials: Vec<Trial>,
    /// Undecided trials double the next one's length, decided ones halve it again.
    stretch: f64,
    posterior: Posterior,
    /// Trials before this one are of another knee.
    since: usize,
    drift: Option<Drift>,
    /// What speaks for a change since then.
    change: Option<Change>,
}

impl KneeSearch {
    /// Rates are made to fit: `min` above zero, `from` between `min` and `max`, at least one trial.
    pub fn new(settings: KneeSettings) -> Self {
        let min = settings.min.max(MIN_RATE);
        let max = settings.max.max(min);
        let settings = KneeSettings {
            min,
            max,
            from: settings.from.clamp(min, max),
            precision: settings.precision.max(MIN_PRECISION),
            confidence: settings.confidence.clamp(0.5, 0.999),
            max_trials: settings.max_trials.max(1),
        };
        Self {
            settings,
            trials: Vec::new(),
            stretch: 1.0,
            posterior: Posterior::new(min, max),
            since: 0,
            drift: None,
            change: None,
        }
    }

    /// What is known from trials whose rates were chosen by others.
    pub fn of_trials(trials: &[Trial], confidence: f64) -> Self {
        let rates = || trials.iter().map(|trial| trial.rate);
        let defaults = KneeSettings::default();
        let mut search = Self::new(KneeSettings {
            min: rates().reduce(f64::min).unwrap_or(defaults.min),
            max: rates().reduce(f64::max).unwrap_or(defaults.max),
            confidence,
            ..defaults
        });
        for trial in trials {
            search.add(*trial);
        }
        search
    }

    /// Takes the result of a trial.
    pub fn add(&mut self, trial: Trial) {
        self.posterior.add(&trial, is_told(&trial));
        self.stretch = match trial.finding {
            Finding::Undecided => (self.stretch * 2.0).min(LONGEST),
            _ => (self.stretch / 2.0).max(1.0),
        };
        self.trials.push(trial);
        self.change = self.posterior.change(self.since);
        if let Some(drift) = self.drifted() {
            (self.since, self.drift, self.change) = (drift.since, Some(drift), None);
        }
    }

    /// Whether a target about which nothing is known would rather show this than the one of the trials since its last change.
    fn is_unexpected(&self, trial: &Trial) -> bool {
        self.posterior
            .is_unexpected(self.since, trial, is_told(trial))
    }

    /// How the knee changed, if it did: the last time.
    pub fn drift(&self) -> Option<Drift> {
        self.drift
    }

    /// Whether a change explains the trials better than chance does, and the knee since then would be another one than
    /// what is estimated.
    pub fn is_in_doubt(&self) -> bool {
        let change = self.change.filter(|it| it.evidence > SUSPECTED);
        let knee = self.estimate();
        change
            .zip(knee)
            .is_some_and(|(change, knee)| !(knee.low..=knee.high).contains(&change.now))
    }

    /// A change that explains the trials much better than chance does, and that two of them show: what the target took
    /// before broke since, or the opposite.
    fn drifted(&self) -> Option<Drift> {
        let change = self
            .change
            .filter(|it| it.evidence > DRIFTED && self.is_in_doubt())?;
        let before = self.shown_before(change)?;
        let since = &self.trials[change.since..];
        let (after, is_shown) = if change.is_slower {
            broken(since).map(|it| (it, it <= before))?
        } else {
            taken(since).map(|it| (it, it >= before))?
        };
        is_shown.then_some(Drift {
            since: change.since,
            before,
            after,
            is_slower: change.is_slower,
        })
    }

    /// The most that was taken before a change to a slower target; the lowest rate that broke before one to a faster.
    fn shown_before(&self, change: Change) -> Option<f64> {
        let before = &self.trials[self.since..change.since];
        if change.is_slower {
            taken(before)
        } else {
            broken(before)
        }
    }

    /// The rate that shows whether the knee changed, where it may have: it is to be offered again, once.
    fn contradicted(&self) -> Option<f64> {
        let change = self.change.filter(|it| it.evidence > SUSPECTED)?;
        let KneeSettings { min, max, .. } = self.settings;
        let rate = rounded(self.shown_before(change)?).clamp(min, max);
        let mut since = self.trials[change.since..].iter();
        since.all(|trial| trial.rate != rate).then_some(rate)
    }

    /// All trials, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The highest rate that held.
    pub fn highest_held(&self) -> Option<f64> {
        self.rates(Finding::Held).reduce(f64::max)
    }

    /// The lowest rate that broke.
    pub fn lowest_broken(&self) -> Option<f64> {
        broken(&self.trials[self.since..])
    }

    /// The estimate of the knee; `None` until one trial held and one broke that is not far below it: such a one broke by
    /// chance, and does not show where the knee ends. Its interval is bounded by trials: it reaches down
    /// to the most that was taken, and up to the least that was too much. What a target takes from rest, and not to the end
    /// of a trial, is no more than an upper bound of what it sustains: the interval reaches down to what it fell to.
    pub fn estimate(&self) -> Option<KneeEstimate> {
        let held = self.highest_held()?;
        self.rates(Finding::Broken)
            .find(|broken| broken * NEAR >= held)?;
        let tail = (1.0 - self.settings.confidence) / 2.0;
        let [low, rate, high] = self
            .posterior
            .quantiles(self.since, [tail, 0.5, 1.0 - tail]);
        let known = &self.trials[self.since..];
        let fallen = known.iter().filter_map(|trial| trial.took?.fell_to);
        Some(KneeEstimate {
            rate,
            low: fallen.chain(taken(known)).fold(low, f64::min),
            high: too_much(known).map_or(high, |least| high.max(least)),
            confidence: self.settings.confidence,
        })
    }

    /// The rate that a longer trial takes with so much confidence that fewer than the tail of the interval take less: what a
    /// load may rely on. It is below the interval by what varies from trial to trial, and from short to longer ones.
    pub fn lasting(&self) -> Option<f64> {
        let knee = self.estimate()?;
        let tail = (1.0 - knee.confidence) / 2.0;
        let least = self.posterior.least(self.since, 1.0 - tail);
        Some(least.min(knee.low))
    }

    /// Whether the interval is as narrow as it was asked to be.
    pub fn is_narrow(&self) -> bool {
        let wide = 1.0 + self.settings.precision;
        self.estimate()
            .is_some_and(|knee| (knee.high / knee.low).sqrt() <= wide)
    }

    /// Which rate to try next, or why the search is over.
    pub fn next(&self) -> Next {
        let KneeSettings { from, max, .. } = self.settings;
        let Some(last) = self.trials.last() else {
            return self.offer(rounded(from), Rationale::First);
        };
        if self.trials.len() >= self.settings.max_trials {
            return Next::Done(Ending::TrialsUsed);
        }
        match last.finding {
            Finding::Unusable => return self.after_unusable(last.rate),
            Finding::Undecided => return self.after_undecided(last.rate),
            Finding::Held | Finding::Broken | Finding::Starved => {}
        }
        if let Some(rate) = self.contradicted() {
            return self.offer(rate, Rationale::Contradicted);
        }
        if let Some(estimate) = self.estimate() {
            return self.middle(&estimate);
        }
        // Where the target lacked the processor, a rate further away may show more.
        let starved = self.rates(Finding::Starved);
        match self.highest_held() {
            Some(held) => self.higher(starved.fold(held, f64::max), held),
            None => self.lower(starved.chain(self.lowest_broken()).fold(max, f64::min)),
        }
    }

    fn higher(&self, tried: f64, held: f64) -> Next {
        let max = self.settings.max;
        if held >= max {
            return self.at_edge(max, Ending::NotReached { rate: max });
        }
        if tried >= max {
            return Next::Done(Ending::Undecided { rate: max });
        }
        self.offer(rounded(tried * GROWTH).min(max), Rationale::Higher)
    }

    /// A rate far from the knee shows in half the time.
    fn offer(&self, rate: f64, because: Rationale) -> Next {
        let far = matches!(
            because,
            Rationale::First | Rationale::Higher | Rationale::Lower
        );
        Next::Try {
            rate,
            because,
            length: self.stretch * if far { 0.5 } else { 1.0 },
        }
    }

    /// Since the knee changed, if it did.
    fn rates(&self, finding: Finding) -> impl Iterator<Item = f64> + '_ {
        rates(&self.trials[self.since..], finding)
    }

    fn lower(&self, tried: f64) -> Next {
        let min = self.settings.min;
        if self.lowest_broken().is_some_and(|broken| broken <= min) {
            return self.at_edge(min, Ending::BelowMin { rate: min });
        }
        if tried <= min {
            return Next::Done(Ending::Undecided { rate: min });
        }
        self.offer(rounded(tried / RETREAT).max(min), Rationale::Lower)
    }

    /// One trial at the edge of what is allowed may be chance; two end the search.
    fn at_edge(&self, edge: f64, ending: Ending) -> Next {
        let there = self.trials.iter().filter(|trial| trial.rate == edge);
        if there.count() >= TRIALS_TO_END_ON {
            return Next::Done(ending);
        }
        self.offer(edge, Rationale::Again)
    }

    /// One unusable trial may be a disturbance; two in a row, or many in all, mean that the generator
    /// is the limit.
    fn after_unusable(&self, rate: f64) -> Next {
        let in_a_row = self.in_a_row(Finding::Unusable);
        let in_all = self.rates(Finding::Unusable).count();
        if in_a_row < TRIALS_TO_END_ON && in_all < MAX_UNUSABLE {
            return self.offer(rate, Rationale::Again);
        }
        Next::Done(Ending::GeneratorLimit {
            held: self.highest_held(),
            rate,
        })
    }

    /// Undecided trials are repeated, each twice as long as the one before, up to [`LONGEST`].
    fn after_undecided(&self, rate: f64) -> Next {
        if self.in_a_row(Finding::Undecided) < MAX_UNDECIDED {
            return self.offer(rate, Rationale::Longer);
        }
        Next::Done(Ending::Undecided { rate })
    }

    /// How many of the last trials showed the same.
    fn in_a_row(&self, finding: Finding) -> usize {
        let trials = self.trials.iter().rev();
        trials.take_while(|trial| trial.finding == finding).count()
    }

    fn middle(&self, estimate: &KneeEstimate) -> Next {
        let narrow = self.is_narrow();
        let near = |finding| {
            let shows = |it: &&Trial| is_told(it) && (it.finding == finding || it.took.is_some());
            let is_near = |it: &&Trial| (it.rate / estimate.rate).ln().abs() <= NEAR.ln();
            let recent = self.trials[self.since..].iter();
            recent.filter(shows).filter(is_near).count()
        };
        let lacks = |finding| near(finding) < NEAR_TRIALS;
        let rate = match (lacks(Finding::Held), lacks(Finding::Broken)) {
            (false, false) if narrow => return Next::Done(Ending::Found),
            (true, false) if narrow => estimate.low,
            (false, true) if narrow => estimate.high,
            _ => estimate.rate,
        };
        let KneeSettings { min, max, .. } = self.settings;
        // Never far beyond what held: if everything below a broken rate holds, that one is tried again.
        let held = self.highest_held().unwrap_or(max);
        let next_broken = self.rates(Finding::Broken).filter(|broken| *broken > held);
        let ceiling = next_broken.reduce(f64::min).unwrap_or(held * GROWTH);
        // So much growth counts as none.
        let even = rate / (1.0 - GROWTH_LIMIT);
        let rate = rounded(even).min(ceiling).clamp(min, max);
        let held = self.rates(Finding::Held).filter(|held| *held < rate);
        let broken = self.rates(Finding::Broken).filter(|broken| *broken > rate);
        let because = Rationale::Middle {
            held: held.reduce(f64::max),
            broken: broken.reduce(f64::min),
        };
        self.offer(rate, because)
    }
}

/// The rates of the trials that showed this.
fn rates(trials: &[Trial], finding: Finding) -> impl Iterator<Item = f64> + '_ {
    let shown = trials.iter().filter(move |trial| trial.finding == finding);
    shown.map(|trial| trial.rate)
}

/// The lowest rate that broke.
fn broken(trials: &[Trial]) -> Option<f64> {
    rates(trials, Finding::Broken).reduce(f64::min)
}

/// The most that the target took: at a rate that held, or of one that did not.
fn taken(trials: &[Trial]) -> Option<f64> {
    let took = trials.iter().filter(|trial| is_told(trial));
    let took = took.filter_map(|trial| trial.took).map(|took| took.tps);
    rates(trials, Finding::Held).chain(took).reduce(f64::max)
}

/// The least that was too much for the target: what it took of a rate that broke, or the rate where that is not known.
fn too_much(trials: &[Trial]) -> Option<f64> {
    let broke = trials.iter().filter(|it| it.finding == Finding::Broken);
    let least = broke.map(|trial| trial.took.map_or(trial.rate, |took| took.tps));
    least.reduce(f64::min)
}

/// An undecided trial counts as well where it is known what was committed: to leave it out would be to choose by the
/// result.
fn is_told(trial: &Trial) -> bool {
    match trial.finding {
        Finding::Held | Finding::Broken => true,
        Finding::Undecided | Finding::Starved => trial.took.is_some(),
        Finding::Unusable => false,
    }
}

/// Three significant digits up to 10,000, whole transactions above: finer than any knee is known.
fn rounded(rate: f64) -> f64 {
    let digit = 10_f64.powf(rate.log10().floor() - 2.0).min(1.0);
    (rate / digit).round() * digit
}

const GROWTH: f64 = 2.0;
const RETREAT: f64 = 4.0;
/// A trial at the edge of what is allowed, or one that the generator could not offer, may be chance; as many
/// end the search.
const TRIALS_TO_END_ON: usize = 2;
/// As many must have held, and broken, near the knee before the search ends: with fewer a noisy target looks
/// quiet too often. A trial of which it is known what was committed is as good as both.
const NEAR_TRIALS: usize = 3;
/// Two knees in place of one explain the trials so much better that it is to be looked at, as a natural logarithm.
const SUSPECTED: f64 = 0.0;
/// The same, that it is so: more than one trial by chance is worth.
const DRIFTED: f64 = 4.5;
/// More unusable trials than this are no chance.
const MAX_UNUSABLE: usize = 6;
/// Parts of a trial's usual length that it takes at most.
const LONGEST: f64 = 4.0;
/// A trial and three longer ones: twice, four times as long, and once more.
const MAX_UNDECIDED: usize = 4;
/// What counts as near: within this factor.
const NEAR: f64 = 1.25;
const MIN_RATE: f64 = 1e-3;
/// Below it the grid of the belief would be too coarse.
const MIN_PRECISION: f64 = 0.01;

#[cfg(test)]
mod tests;
