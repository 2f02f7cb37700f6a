//! Whether a target takes less from some moment of a trial on: what it took before that, it took from rest.

use pacing::Nanos;

use super::growth::{rate, residuals, span_s, squares};
use crate::limits::UNSEEN_GROWTH_LIMIT;
use crate::stats::student;

/// What a target committed in the course of a trial, where that fell once and stayed lower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fall {
    /// Transactions per second, up to then.
    pub before_tps: f64,
    /// The same from then on.
    pub after_tps: f64,
    /// The standard error of that.
    pub after_error_tps: f64,
    /// When it fell, since the origin.
    pub at: Nanos,
    /// What is missing since then, as a share of what the rate before would have committed in the trial.
    pub missing_share: f64,
}

impl Fall {
    /// The place at which two rates, the later one lower, explain the blocks best; `None` where one explains them as well.
    ///
    /// Each place is tested by Student's t, and all together are wrong of one trial in a thousand whose rate stays (Bonferroni).
    /// Neighbouring blocks depend on each other as they do for the error of one rate.
    pub(super) fn of(blocks: &[(Nanos, u64)]) -> Option<Self> {
        let places = FEWEST..blocks.len().saturating_sub(FEWEST);
        let freedom = blocks.len() as f64 - 3.0;
        let sure = student::quantile(1.0 - CHANCE / places.len().max(1) as f64, freedom);
        let falls = places.filter_map(|place| Self::at(blocks, place, freedom));
        let (deviations, fall) = falls.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let is_told = fall.after_tps < (1.0 - UNSEEN_GROWTH_LIMIT) * fall.before_tps;
        (is_told && deviations > sure).then_some(fall)
    }

    /// By how many standard errors the rate falls at a block; `None` where no time passed.
    fn at(blocks: &[(Nanos, u64)], place: usize, freedom: f64) -> Option<(f64, Self)> {
        let parts = [&blocks[..=place], &blocks[place..]];
        let [before_s, after_s] = parts.map(span_s);
        let (before_tps, after_tps) = (rate(parts[0])?, rate(parts[1])?);
        let [earlier, later] = [(parts[0], before_tps), (parts[1], after_tps)]
            .map(|(part, rate)| squares(&residuals(part, rate)));
        let products = earlier.1 + later.1;
        let variance = (earlier.0 + later.0 + 2.0 * products.max(0.0)) / freedom;
        let error = |part: &[_], span_s| (variance * (part.len() - 1) as f64).sqrt() / span_s;
        let after_error_tps = error(parts[1], after_s);
        let of_difference = error(parts[0], before_s).hypot(after_error_tps);
        let fell = before_tps - after_tps;
        let fall = Self {
            before_tps,
            after_tps,
            after_error_tps,
            at: blocks[place].0,
            missing_share: fell / before_tps * after_s / (before_s + after_s),
        };
        Some((fell / of_difference.max(f64::MIN_POSITIVE), fall))
    }
}

/// Fewer blocks show no rate.
const FEWEST: usize = 3;
/// How often a rate that stays is taken for one that fell.
const CHANCE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;
    use base::Random;

    /// Blocks of a second of what is taken at each, with noise of one block as a share.
    fn blocks(
        seconds: u32,
        noise: f64,
        random: &mut Random,
        tps: impl Fn(u32) -> f64,
    ) -> Vec<(Nanos, u64)> {
        let block = |second: u32| {
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            let count = tps(second) * (1.0 + noise * normal);
            (Nanos::from_secs(second.into()), count.max(0.0) as u64)
        };
        (0..seconds).map(block).collect()
    }

    #[test]
    fn what_is_taken_from_rest_and_not_for_longer_falls() {
        for (factor, until, noise) in [
            (1.2, 7, 0.0),
            (1.2, 12, 0.02),
            (1.5, 4, 0.05),
            (2.0, 20, 0.02),
        ] {
            let tps = |second| {
                if second <= until {
                    1000.0 * factor
                } else {
                    1000.0
                }
            };
            let fall = Fall::of(&blocks(30, noise, &mut Random::new(1), tps));
            let said = format!("{factor}, {until} s, {noise}: {fall:?}");
            let fall = fall.unwrap_or_else(|| panic!("{said}"));
            let at_s = fall.at.as_secs_f64();
            assert!((at_s - f64::from(until)).abs() <= 1.0, "{said}");
            assert!((fall.after_tps / 1000.0 - 1.0).abs() < 0.05, "{said}");
            let missing = (1.0 - 1.0 / factor) * f64::from(29 - until) / 29.0;
            assert!((fall.missing_share - missing).abs() < 0.05, "{said}");
        }
    }

    /// Rates that stay, rise, or fall by less than a search can show; one pause; too few blocks.
    #[test]
    fn other_courses_do_not() {
        let of = |tps: &dyn Fn(u32) -> f64| Fall::of(&blocks(30, 0.02, &mut Random::new(2), tps));
        assert_eq!(of(&|_| 1000.0), None);
        assert_eq!(
            of(&|second| if second < 15 { 1000.0 } else { 1300.0 }),
            None
        );
        assert_eq!(of(&|second| if second < 15 { 1000.0 } else { 970.0 }), None);
        for pause in 1..29 {
            assert_eq!(
                of(&|second| if second == pause { 0.0 } else { 1000.0 }),
                None,
                "{pause}"
            );
        }
        let few = blocks(6, 0.0, &mut Random::new(1), |second| {
            if second < 3 { 1000.0 } else { 500.0 }
        });
        assert_eq!(Fall::of(&few), None);
    }

    /// Of 4,000 trials of a rate that stays 4 are expected, and more than 10 come three times in a thousand.
    #[test]
    fn noise_is_seldom_taken_for_one() {
        let mut random = Random::new(3);
        let found = (0..4_000).filter(|trial| {
            let seconds = [8, 15, 30, 60][trial % 4];
            Fall::of(&blocks(seconds, 0.2, &mut random, |_| 1000.0)).is_some()
        });
        let found = found.count();
        assert!(found <= 10, "{found}");
    }
}
