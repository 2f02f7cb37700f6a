//! What a node's rate owes to a resource, shown by changing that resource alone.

use super::student;

/// By how many per cent the rate changes for each per cent of a resource: 1 where the resource is what limits, 0
/// where there is more of it than is used, -1 for a time that each block takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elasticity {
    /// The mean over the rounds.
    pub value: f64,
    /// Where it lies with a confidence of 95 %; none after a single round.
    pub interval: Option<(f64, f64)>,
    /// Rounds that it was measured in.
    pub rounds: usize,
}

/// The conclusion from an elasticity about its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The rate follows it.
    Limits,
    /// The rate does not depend on it, or so little that something else limits.
    None,
    /// The interval is too wide to decide.
    CannotTell,
}

impl Elasticity {
    /// Of rounds in each of which the resource was multiplied by the first number and the rate, beside an unchanged
    /// run of the same round, by the second. None when there is no round of positive numbers with a change.
    ///
    /// The runs of a round follow one another, so what the machine does meanwhile is mostly in both and cancels; the
    /// rounds differ by what does not. The interval is Student's for the mean of their logarithms' ratios.
    pub fn of(rounds: &[(f64, f64)]) -> Option<Self> {
        let elasticities = rounds.iter().filter_map(|&(resource, rate)| {
            let is_change = resource > 0.0 && rate > 0.0 && resource != 1.0;
            is_change.then(|| rate.ln() / resource.ln())
        });
        let each: Vec<f64> = elasticities.filter(|it| it.is_finite()).collect();
        let count = each.len() as f64;
        if each.is_empty() {
            return None;
        }
        let value = each.iter().sum::<f64>() / count;
        let squares: f64 = each.iter().map(|it| (it - value).powi(2)).sum();
        let interval = (each.len() > 1).then(|| {
            let error = (squares / (count - 1.0) / count).sqrt();
            let reach = student::quantile(f64::midpoint(LEVEL, 1.0), count - 1.0) * error;
            (value - reach, value + reach)
        });
        Some(Self {
            value,
            interval,
            rounds: each.len(),
        })
    }

    /// Its conclusion; a half is where as much of the change arrives as does not.
    pub fn effect(&self) -> Effect {
        match self.interval {
            Some((low, high)) if low > HALF || high < -HALF => Effect::Limits,
            Some((low, high)) if low > -HALF && high < HALF => Effect::None,
            _ => Effect::CannotTell,
        }
    }
}

/// Confidence of the intervals.
const LEVEL: f64 = 0.95;
const HALF: f64 = 0.5;

#[cfg(test)]
mod tests {
    use base::mix;

    use super::*;

    #[test]
    fn a_resource_that_limits_has_one_and_one_that_does_not_has_zero() {
        let of = |rounds: &[(f64, f64)]| Elasticity::of(rounds).unwrap();
        let limits = of(&[(0.85, 0.85), (0.85, 0.86), (0.85, 0.84)]);
        assert!((limits.value - 1.0).abs() < 0.01, "{limits:?}");
        assert_eq!(limits.effect(), Effect::Limits);
        let idle = of(&[(1.15, 1.0), (1.15, 1.01), (1.15, 0.99)]);
        assert_eq!((idle.effect(), idle.rounds), (Effect::None, 3));
        let interval = of(&[(1.15, 1.0 / 1.15), (1.15, 1.0 / 1.15)]);
        assert_eq!(interval.effect(), Effect::Limits, "a block's time");
        let once = of(&[(0.85, 0.85)]);
        assert_eq!((once.interval, once.effect()), (None, Effect::CannotTell));
        assert_eq!(Elasticity::of(&[(1.0, 0.9), (0.0, 1.0), (0.8, 0.0)]), None);
    }

    /// A node with three stages, the slowest of which gives the rate.
    struct World {
        /// What each carries.
        stages: [f64; 3],
        /// How much a run varies by itself, and a round.
        noise: f64,
        drift: f64,
        seed: u64,
    }

    impl World {
        fn random(seed: u64) -> Self {
            let mut draw = Draw(mix(seed));
            // One stage limits in both directions: the others have half as much again as it, or more.
            let first = 1_000.0 + 9_000.0 * draw.uniform();
            let [second, third] = [(); 2].map(|()| first * (1.5 + draw.uniform()));
            let mut stages = [first, second, third];
            stages.rotate_left((3.0 * draw.uniform()) as usize);
            Self {
                stages,
                noise: 0.002 + 0.05 * draw.uniform(),
                drift: 0.2 * draw.uniform(),
                seed,
            }
        }

        /// The elasticity of a stage's resource as it is measured.
        fn measured(&self, stage: usize, factor: f64, rounds: u64) -> Elasticity {
            let rate = |factor: f64| {
                let mut stages = self.stages;
                stages[stage] *= factor;
                stages.into_iter().fold(f64::MAX, f64::min)
            };
            let place = stage as u64 * 100 + u64::from(factor > 1.0);
            let mut draw = Draw(mix(self.seed.wrapping_mul(7_919).wrapping_add(place)));
            let ratios: Vec<(f64, f64)> = (0..rounds)
                .map(|_| {
                    let round = (self.drift * draw.normal()).exp();
                    let mut run =
                        |factor| rate(factor) * round * (self.noise * draw.normal()).exp();
                    let (base, changed) = (run(1.0), run(factor));
                    (factor, changed / base)
                })
                .collect();
            Elasticity::of(&ratios).unwrap()
        }

        fn truth(&self, stage: usize) -> f64 {
            let least = self.stages.into_iter().fold(f64::MAX, f64::min);
            f64::from(u8::from(self.stages[stage] <= least))
        }
    }

    struct Draw(u64);

    impl Draw {
        fn uniform(&mut self) -> f64 {
            self.0 = mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// By Box and Muller.
        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    #[test]
    fn intervals_hold_their_level_and_few_statements_are_wrong_in_worlds_whose_truth_is_known() {
        let (mut intervals, mut covered, mut told, mut wrong) = (0, 0, 0, 0);
        for seed in 0..1_000 {
            let world = World::random(seed);
            for (stage, factor) in [0, 1, 2]
                .into_iter()
                .flat_map(|it| [(it, 0.85), (it, 1.15)])
            {
                let found = world.measured(stage, factor, 4);
                let truth = world.truth(stage);
                let (low, high) = found.interval.unwrap();
                intervals += 1;
                covered += u32::from(low <= truth && truth <= high);
                let effect = match truth {
                    1.0 => Effect::Limits,
                    _ => Effect::None,
                };
                told += u32::from(found.effect() != Effect::CannotTell);
                wrong +=
                    u32::from(found.effect() != Effect::CannotTell && found.effect() != effect);
            }
        }
        // Four standard deviations of 6,000 draws of 95 %: 0.011.
        let share = f64::from(covered) / f64::from(intervals);
        assert!((share - 0.95).abs() < 0.011, "{share}");
        // A wrong statement has its whole interval beyond a half, 0.5 from the truth, so it is rarer than an interval
        // beside the truth: 2.5 % on that side.
        assert!(f64::from(wrong) < 0.025 * f64::from(intervals), "{wrong}");
        assert!(told > intervals / 3, "{told} of {intervals}");
    }
}
