//! The probability distribution of the knee and of the noise of the trials.

use std::ops::Range;

use super::{Finding, Trial};
use crate::limits::GROWTH_LIMIT;

/// A distribution over the logarithm of the knee, the width of the region in which trials go either way, and how
/// much a target loses when it is overloaded, on a grid.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Natural logarithm of the first knee of the grid.
    start: f64,
    knees: usize,
    /// What each trial shows.
    trials: Vec<Learnt>,
}

/// What one trial shows.
#[derive(Debug, Clone)]
struct Learnt {
    /// Natural logarithm of its rate.
    rate: f64,
    /// Its log-likelihood for each target and, within that, each knee; empty where it shows nothing.
    likely: Vec<f64>,
}

/// How likely it is that the knee is not what it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// The first trial of the other knee, if there is one.
    pub(super) since: usize,
    /// How much more likely the trials are with a change somewhere than without: a natural logarithm.
    pub(super) evidence: f64,
    /// Whether the knee would be lower since.
    pub(super) is_slower: bool,
    /// The middle of what is believed of it since.
    pub(super) now: f64,
}

impl Posterior {
    /// Every knee from somewhat below `min` to somewhat above `max` is as likely, per factor.
    pub(super) fn new(min: f64, max: f64) -> Self {
        let start = (min / MARGIN).ln();
        let steps = ((max * MARGIN).ln() - start) / STEP;
        Self {
            start,
            knees: steps.ceil() as usize + 1,
            trials: Vec::new(),
        }
    }

    /// Takes a trial. What a target takes varies from trial to trial around its knee.
    pub(super) fn add(&mut self, trial: &Trial, is_told: bool) {
        self.trials.push(self.learnt(trial, is_told));
    }

    fn learnt(&self, trial: &Trial, is_told: bool) -> Learnt {
        let shown = Shown::of(trial);
        let row = |(target, _)| {
            let knee = |place| self.start + f64::from(place) * STEP;
            (0..self.knees as u32).map(move |place| shown.likelihood(knee(place), target).ln())
        };
        let likely = if is_told {
            Target::all().flat_map(row).collect()
        } else {
            Vec::new()
        };
        let rate = trial.rate.ln();
        Learnt { rate, likely }
    }

    /// Whether a trial is less likely after those from `since` on than before the first.
    pub(super) fn is_unexpected(&self, since: usize, trial: &Trial, is_told: bool) -> bool {
        let near = self.near(since);
        let trial = self.learnt(trial, is_told);
        let more_likely = |belief: &mut Vec<f64>| {
            let before = log_sum(belief);
            self.learn(belief, &near, &trial);
            log_sum(belief) - before
        };
        let mut belief = self.prior(&near);
        let alone = more_likely(&mut belief.clone());
        let known = &self.trials[since..];
        known
            .iter()
            .for_each(|it| self.learn(&mut belief, &near, it));
        more_likely(&mut belief) < alone
    }

    /// The knees below which these shares of the belief lie, by the trials from this one on; the shares must ascend.
    pub(super) fn quantiles<const N: usize>(&self, since: usize, shares: [f64; N]) -> [f64; N] {
        let near = self.near(since);
        self.shares_of(&self.belief(since, &near), &near, shares)
    }

    fn belief(&self, since: usize, near: &Range<usize>) -> Vec<f64> {
        let mut belief = self.prior(near);
        let trials = self.trials[since..].iter();
        trials.for_each(|trial| self.learn(&mut belief, near, trial));
        belief
    }

    /// What a longer trial takes with this chance at least, by the trials from this one on: the knee, how much what is taken
    /// varies from trial to trial, and how far a longer one may be from short ones (the posterior predictive distribution: Gelman et al., *Bayesian Data Analysis*, 3rd
    /// edition, section 1.3).
    pub(super) fn least(&self, since: usize, chance: f64) -> f64 {
        let near = self.near(since);
        let belief = self.belief(since, &near);
        let top = belief.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut likely, mut all) = (Vec::new(), 0.0);
        for (row, (target, _)) in belief.chunks(near.len()).zip(Target::all()) {
            for (place, it) in near
                .clone()
                .zip(row)
                .filter(|(_, it)| **it > top + NEGLIGIBLE)
            {
                let mass = (it - top).exp();
                let spread = target.width.hypot(LONGER);
                likely.push((self.start + place as f64 * STEP, spread, mass));
                all += mass;
            }
        }
        let below = |it: f64| -> f64 {
            let below = likely
                .iter()
                .map(|(knee, spread, mass)| mass * below((it - knee) / spread));
            below.sum::<f64>() / all
        };
        let (mut low, mut high) = (self.start, self.start + self.knees as f64 * STEP);
        while high - low > STEP / 4.0 {
            let middle = f64::midpoint(low, high);
            if below(middle) < 1.0 - chance {
                low = middle;
            } else {
                high = middle;
            }
        }
        low.exp()
    }

    /// Whether the trials from this one on are of two knees, one after the other (a Bayes factor, in which each place of
    /// the change is as likely: Kass, Raftery, Journal of the American Statistical Association 90, 1995).
    pub(super) fn change(&self, first: usize) -> Option<Change> {
        let near = self.near(first);
        let prior = self.prior(&near);
        let trials = self.trials.iter().enumerate().skip(first);
        let told: Vec<(usize, &Learnt)> = trials.filter(|(_, it)| !it.likely.is_empty()).collect();
        let sums = |told: &mut dyn Iterator<Item = &(usize, &Learnt)>| -> Vec<f64> {
            let mut belief = prior.clone();
            told.map(|(_, trial)| {
                self.learn(&mut belief, &near, trial);
                log_sum(&belief)
            })
            .collect()
        };
        let (before, mut after) = (sums(&mut told.iter()), sums(&mut told.iter().rev()));
        after.reverse();
        let without = before.last()? + log_sum(&prior);
        let pairs = before.iter().zip(after.iter().skip(1));
        let evidences: Vec<f64> = pairs.map(|(one, other)| one + other - without).collect();
        let places = evidences.iter().zip(&told[1..]);
        let (_, (since, _)) = places.max_by(|one, other| one.0.total_cmp(other.0))?;
        let middle = |trials: &[Learnt]| {
            let mut belief = prior.clone();
            trials
                .iter()
                .for_each(|trial| self.learn(&mut belief, &near, trial));
            let [middle] = self.shares_of(&belief, &near, [0.5]);
            middle
        };
        let (was, now) = (
            middle(&self.trials[first..*since]),
            middle(&self.trials[*since..]),
        );
        Some(Change {
            since: *since,
            evidence: log_sum(&evidences) - (evidences.len() as f64).ln(),
            is_slower: now < was,
            now,
        })
    }

    /// The knees within a factor of what was tried: one trial that broke by chance would let the knee be anywhere
    /// above it.
    fn near(&self, since: usize) -> Range<usize> {
        let tried = self.trials[since..]
            .iter()
            .filter(|it| !it.likely.is_empty());
        let rates = || tried.clone().map(|trial| trial.rate);
        let place = |knee: f64| ((knee - self.start) / STEP).max(0.0).ceil() as usize;
        let low = rates().reduce(f64::min);
        let high = rates().reduce(f64::max);
        let low = low.map_or(0, |low| place(low - BEYOND.ln()));
        let high = high.map_or(self.knees, |high| place(high + BEYOND.ln()));
        low..high.min(self.knees)
    }

    /// The belief before the first trial, of these knees.
    fn prior(&self, near: &Range<usize>) -> Vec<f64> {
        let row = |(_, likely): (Target, f64)| std::iter::repeat_n(likely.ln(), near.len());
        Target::all().flat_map(row).collect()
    }

    fn learn(&self, belief: &mut [f64], near: &Range<usize>, trial: &Learnt) {
        let rows = trial.likely.chunks(self.knees);
        for (belief, row) in belief.chunks_mut(near.len()).zip(rows) {
            let likely = &row[near.clone()];
            belief
                .iter_mut()
                .zip(likely)
                .for_each(|(it, more)| *it += more);
        }
    }

    fn shares_of<const N: usize>(
        &self,
        belief: &[f64],
        near: &Range<usize>,
        shares: [f64; N],
    ) -> [f64; N] {
        let top = belief.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sums = vec![0.0; near.len()];
        for row in belief.chunks(near.len()) {
            let row = row.iter().map(|it| (it - top).exp());
            sums.iter_mut().zip(row).for_each(|(sum, it)| *sum += it);
        }
        let mut sum = 0.0;
        for it in &mut sums {
            sum += *it;
            *it = sum;
        }
        shares.map(|share| {
            let knee = near.start + sums.partition_point(|below| *below < share * sum);
            (self.start + knee as f64 * STEP).exp()
        })
    }
}

/// The logarithm of the sum of what these are the logarithms of.
fn log_sum(logarithms: &[f64]) -> f64 {
    let top = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + logarithms
        .iter()
        .map(|it| (it - top).exp())
        .sum::<f64>()
        .ln()
}

/// How a target behaves around its knee.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// By how much what it can take varies from trial to trial.
    width: f64,
    /// What it loses of that when it is overloaded, as a part of the overload.
    loss: f64,
}

impl Target {
    /// All, and how likely each is before the first trial.
    fn all() -> impl Iterator<Item = (Self, f64)> {
        let all = |width| LOSSES.map(|(loss, likely)| (Self { width, loss }, likely));
        WIDTHS.into_iter().flat_map(all)
    }
}

/// What a trial shows of what its target can take in it: natural logarithms.
#[derive(Debug, Clone, Copy)]
struct Shown {
    rate: f64,
    finding: Finding,
    took: Option<Committed>,
}

impl Shown {
    fn of(trial: &Trial) -> Self {
        let took = trial.took.filter(|took| took.tps > 0.0);
        Self {
            rate: trial.rate.ln(),
            finding: trial.finding,
            took: took.map(|it| Committed {
                tps: it.tps.ln(),
                error: (it.error_tps / it.tps).hypot(STEP),
                lacked: -(1.0 - it.lack).ln(),
            }),
        }
    }

    /// How likely this is for a knee. What is committed is far more exact than the finding; where no loss by overload
    /// explains it, as of a target that collapses, the finding is what is left.
    fn likelihood(self, knee: f64, target: Target) -> f64 {
        let even = self.rate + (1.0 - GROWTH_LIMIT).ln();
        let breaks = 1.0 / (1.0 + ((knee - even) / target.width).exp());
        // A target that could take more is found broken by mere chance.
        let (found, more) = match self.finding {
            Finding::Held => (1.0 - breaks, 1.0),
            Finding::Broken => (breaks, BROKEN_BY_CHANCE),
            Finding::Undecided | Finding::Starved | Finding::Unusable => (0.5, 1.0),
        };
        let found = CHANCE + (1.0 - 2.0 * CHANCE) * found;
        match self.took {
            Some(took) => {
                2.0 * CHANCE * found
                    + (1.0 - 2.0 * CHANCE) * took.likelihood(self.rate, knee, target, more)
            }
            None => found,
        }
    }
}

/// What was committed in a trial.
#[derive(Debug, Clone, Copy)]
struct Committed {
    tps: f64,
    /// Its standard error.
    error: f64,
    /// How much more it may have been but for the processor that the target lacked.
    lacked: f64,
}

impl Committed {
    /// The density of what is committed at a rate (a censored regression with an error of measurement: Tobin, "Estimation
    /// of relationships for limited dependent variables", Econometrica 26, 1958): the rate, where the target could take
    /// more in this trial; what it could take, where that is less, without what it loses by the overload, and by the lack
    /// of the processor. `more` is how likely what was found is of a target that could take more.
    fn likelihood(self, rate: f64, knee: f64, target: Target, more: f64) -> f64 {
        let Self { tps, error, lacked } = self;
        let Target { width, loss } = target;
        let could_take_more = more * below((knee - rate) / width) * density(tps - rate, error);
        let overload = (rate - knee).max(0.0);
        let takes = knee - loss * overload.min(FAR);
        let more_lost = if loss > 0.0 {
            (overload - FAR).max(0.0)
        } else {
            0.0
        };
        let spread = width.hypot(error);
        // What it took in this trial, as far as the knee and the observations show.
        let likely = (tps * width * width + takes * error * error) / (spread * spread);
        let could_take_less = below((rate - likely) * spread / (width * error));
        could_take_more + could_take_less * lossy(tps, takes, spread, more_lost + lacked)
    }
}

/// The density of a value that is below `takes` by an error, and by a loss of up to `most`, all as likely.
fn lossy(value: f64, takes: f64, spread: f64, most: f64) -> f64 {
    if most < spread / 4.0 {
        return density(value - takes, spread);
    }
    (below((takes - value) / spread) - below((takes - most - value) / spread)) / most
}

/// The normal distribution's share below so many standard deviations, to 1 %: a logistic one.
fn below(deviations: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * deviations).exp())
}

/// The normal distribution's density.
fn density(value: f64, deviation: f64) -> f64 {
    let squares = (value / deviation).powi(2);
    (-0.5 * squares).exp() / (deviation * std::f64::consts::TAU.sqrt())
}

/// Widths of the region in which trials go either way, as factors' logarithms: half a percent to sixteen.
const WIDTHS: [f64; 6] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16];
/// How often a trial ends one way or the other by mere chance.
const CHANCE: f64 = 0.01;
/// How often one is found broken that committed less than its rate by more than a standard error, and could take more: it
/// is among the sixth of all that commit so little.
const BROKEN_BY_CHANCE: f64 = CHANCE / 0.16;
/// Distance of the grid's knees: 0.4 %.
const STEP: f64 = 0.004;
/// Standard deviation of what two minutes show beside 20 s, as a factor's logarithm: a real CometBFT took 1 to 3 % less in
/// six searches.
const LONGER: f64 = 0.02;
/// A logarithm of a likelihood so far below the greatest that it adds nothing.
const NEGLIGIBLE: f64 = -20.0;
/// A knee further than this factor from every trial is not believed in.
const BEYOND: f64 = 2.0;
/// The grid reaches this factor beyond the allowed rates.
const MARGIN: f64 = 2.0;
/// How much of an overload a target may lose of its throughput, and how likely that is before the first trial.
const LOSSES: [(f64, f64); 3] = [(0.0, 0.5), (0.5, 0.25), (1.0, 0.25)];
/// An overload, as a factor's logarithm, beyond which a target that loses may lose any part of what is more.
const FAR: f64 = 0.1;
