//! The same comparison for figures of any kind: each side's runs as plain numbers.

use super::welch::{MIN_RUNS, Sample, Welch, holm, runs_needed};
use super::{Change, Ignorance, LEVEL, Meaning};

/// One figure of every run of two sides. Figures are positive: changes are factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// Of the first side.
    pub base: Vec<f64>,
    /// Of the second side.
    pub other: Vec<f64>,
    /// Whether more is better.
    pub is_gain: bool,
}

/// How one figure differs between two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueDifference {
    /// The geometric mean of the first side; `None` without runs.
    pub base: Option<f64>,
    /// Of the second side.
    pub other: Option<f64>,
    /// The change; `None` where a side has no runs.
    pub change: Option<Change>,
    /// What it means.
    pub meaning: Meaning,
}

/// Compares several figures of two sides by Welch's t on logarithms, all together by Holm's levels.
/// Changes up to `margin` have no relevance.
pub fn compare_values(all: &[Values], margin: f64) -> Vec<ValueDifference> {
    let pairs: Vec<Pair> = all.iter().map(Pair::of).collect();
    let tested: Vec<f64> = pairs
        .iter()
        .filter_map(Pair::welch)
        .map(|it| it.p_of_none())
        .collect();
    let mut levels = holm(&tested, LEVEL).into_iter();
    let strictest = LEVEL / pairs.len().max(1) as f64;
    let difference = |pair: &Pair| {
        let welch = pair
            .welch()
            .map(|welch| (welch, levels.next().unwrap_or(strictest)));
        pair.difference(welch, strictest, margin)
    };
    pairs.iter().map(difference).collect()
}

struct Pair {
    base: Option<Sample>,
    other: Option<Sample>,
    is_gain: bool,
}

impl Pair {
    fn of(values: &Values) -> Self {
        let sample = |values: &[f64]| {
            let logarithms: Vec<f64> = values.iter().map(|it| it.max(SMALLEST).ln()).collect();
            Sample::of(&logarithms, DIGITS)
        };
        Self {
            base: sample(&values.base),
            other: sample(&values.other),
            is_gain: values.is_gain,
        }
    }

    fn welch(&self) -> Option<Welch> {
        let (base, other) = self.base.zip(self.other)?;
        let is_enough = base.runs.min(other.runs) >= f64::from(MIN_RUNS);
        is_enough.then(|| Welch::between(&base, &other))
    }

    fn difference(
        &self,
        welch: Option<(Welch, f64)>,
        strictest: f64,
        margin: f64,
    ) -> ValueDifference {
        let mean = |sample: Option<Sample>| sample.map(|sample| sample.mean.exp());
        let interval = welch.map(|(welch, level)| welch.interval(level));
        let change = self.base.zip(self.other).map(|(base, other)| Change {
            by: (other.mean - base.mean).exp_m1(),
            interval: interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
        });
        ValueDifference {
            base: mean(self.base),
            other: mean(self.other),
            change,
            meaning: self.meaning(interval, strictest, margin),
        }
    }

    fn meaning(&self, interval: Option<(f64, f64)>, strictest: f64, margin: f64) -> Meaning {
        let Some((base, other)) = self.base.zip(self.other) else {
            return Meaning::CannotTell(Ignorance::NoFigure);
        };
        let fewest = base.runs.min(other.runs);
        let Some((low, high)) = interval else {
            return Meaning::CannotTell(Ignorance::Runs { needed: MIN_RUNS });
        };
        let is_resolved = (other.mean - base.mean).abs() > DIGITS;
        match (low > 0.0, high < 0.0) {
            (true, _) if is_resolved => self.better_if(self.is_gain),
            (_, true) if is_resolved => self.better_if(!self.is_gain),
            _ if low >= (-margin).ln_1p() && high <= margin.ln_1p() => Meaning::Same,
            _ => {
                let variance = f64::midpoint(base.variance, other.variance);
                let needed = runs_needed(variance, margin.ln_1p(), strictest);
                let needed = needed.max(fewest as u32 + 1);
                Meaning::CannotTell(Ignorance::Runs { needed })
            }
        }
    }

    const fn better_if(&self, better: bool) -> Meaning {
        match better {
            true => Meaning::Better,
            false => Meaning::Worse,
        }
    }
}

/// Stands for zero where a logarithm is taken.
const SMALLEST: f64 = 1e-6;
/// Three significant digits, as the histograms have.
const DIGITS: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    fn one(base: &[f64], other: &[f64], is_gain: bool) -> ValueDifference {
        let values = Values {
            base: base.to_vec(),
            other: other.to_vec(),
            is_gain,
        };
        compare_values(&[values], 0.05)[0]
    }

    #[test]
    fn twice_as_much_is_better_or_worse_by_what_it_is() {
        let (low, high) = ([100.0, 101.0, 99.0], [200.0, 202.0, 198.0]);
        let difference = one(&low, &high, true);
        assert_eq!(difference.meaning, Meaning::Better);
        let change = difference.change.unwrap();
        assert!((change.by - 1.0).abs() < 0.01, "{change:?}");
        let (from, to) = change.interval.unwrap();
        assert!(from < 1.0 && to > 1.0 && from > 0.9, "{change:?}");
        assert_eq!(one(&low, &high, false).meaning, Meaning::Worse);
        assert_eq!(one(&high, &low, false).meaning, Meaning::Better);
    }

    #[test]
    fn with_two_runs_a_side_nothing_is_judged_however_far_apart_they_are() {
        let difference = one(&[100.0, 101.0], &[900.0, 901.0], true);
        let needed = Ignorance::Runs { needed: 3 };
        assert_eq!(difference.meaning, Meaning::CannotTell(needed));
        assert_eq!(difference.change.unwrap().interval, None);
        assert_eq!(
            one(&[], &[1.0], true).meaning,
            Meaning::CannotTell(Ignorance::NoFigure)
        );
    }

    #[test]
    fn equal_figures_are_the_same_and_noisy_ones_are_unknown() {
        let same = one(&[10.0, 10.01, 9.99], &[10.0, 10.02, 9.98], true);
        assert_eq!(same.meaning, Meaning::Same);
        let noisy = one(&[10.0, 14.0, 7.0], &[11.0, 15.0, 8.0], true);
        assert!(matches!(
            noisy.meaning,
            Meaning::CannotTell(Ignorance::Runs { needed }) if needed > 3
        ));
    }
}
