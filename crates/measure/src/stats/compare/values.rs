//! The same comparison for figures of any kind: each side's runs as plain numbers.

use super::metric::{DIGITS, Scale};
use super::welch::Sample;
use super::{Change, ComparisonVerdict, Pair, Side, judged};

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
    pub meaning: ComparisonVerdict,
}

/// Compares several figures of two sides by Welch's t on logarithms, all together by Holm's levels.
/// Changes up to `margin` have no relevance.
pub fn compare_values(all: &[Values], margin: f64) -> Vec<ValueDifference> {
    let pair = |values: &Values| {
        let scale = Scale {
            is_gain: values.is_gain,
            is_share: false,
        };
        Pair {
            scale,
            margin,
            base: Side::of_values(scale, &values.base),
            other: Side::of_values(scale, &values.other),
        }
    };
    let pairs: Vec<Pair> = all.iter().map(pair).collect();
    let found = judged(&pairs, None);
    pairs
        .iter()
        .zip(found)
        .map(|(pair, (change, meaning))| ValueDifference {
            base: pair.base.map(|side| side.figure(pair.scale).value),
            other: pair.other.map(|side| side.figure(pair.scale).value),
            change,
            meaning,
        })
        .collect()
}

impl Side {
    fn of_values(scale: Scale, values: &[f64]) -> Option<Self> {
        let values: Vec<f64> = values.iter().map(|value| scale.scaled(*value)).collect();
        Some(Self {
            sample: Sample::of(&values, DIGITS)?,
            resolution: DIGITS,
            is_lower_bound: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uncertainty;

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
        assert_eq!(difference.meaning, ComparisonVerdict::Better);
        let change = difference.change.unwrap();
        assert!((change.by - 1.0).abs() < 0.01, "{change:?}");
        let (from, to) = change.interval.unwrap();
        assert!(from < 1.0 && to > 1.0 && from > 0.9, "{change:?}");
        assert_eq!(one(&low, &high, false).meaning, ComparisonVerdict::Worse);
        assert_eq!(one(&high, &low, false).meaning, ComparisonVerdict::Better);
    }

    #[test]
    fn with_two_runs_a_side_nothing_is_judged_however_far_apart_they_are() {
        let difference = one(&[100.0, 101.0], &[900.0, 901.0], true);
        let needed = Uncertainty::Runs { needed: 3 };
        assert_eq!(difference.meaning, ComparisonVerdict::CannotTell(needed));
        assert_eq!(difference.change.unwrap().interval, None);
        assert_eq!(
            one(&[], &[1.0], true).meaning,
            ComparisonVerdict::CannotTell(Uncertainty::NoFigure)
        );
    }

    #[test]
    fn equal_figures_are_the_same_and_noisy_ones_are_unknown() {
        let same = one(&[10.0, 10.01, 9.99], &[10.0, 10.02, 9.98], true);
        assert_eq!(same.meaning, ComparisonVerdict::Same);
        let noisy = one(&[10.0, 14.0, 7.0], &[11.0, 15.0, 8.0], true);
        assert!(matches!(
            noisy.meaning,
            ComparisonVerdict::CannotTell(Uncertainty::Runs { needed }) if needed > 3
        ));
    }
}
