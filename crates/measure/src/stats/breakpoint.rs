//! Where what a stage achieves stops following what is offered: segmented regression.
//!
//! Two straight lines that meet, the second one flatter (Muggeo, Statistics in Medicine 22, 2003, has the
//! model; here the break is searched on a grid, so no start value is needed). Its interval comes from
//! resampling stretches of the points (`line.rs`), as long as the residual of one depends on the next.

use crate::stats::resample::{USUAL_TAIL, by_stretch, middle, refit};

/// A break in a stage's line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breakpoint {
    /// Where the lines meet.
    pub at: f64,
    /// The 95 % interval of that: its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// What is achieved more for each unit offered more, below the break.
    pub before: f64,
    /// The same above it.
    pub after: f64,
}

/// What a regression found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BreakpointFound {
    /// A break.
    Breakpoint(Breakpoint),
    /// One line fits as well, up to the largest value that was offered.
    NoneSeen {
        /// That value.
        up_to: f64,
    },
    /// Too few points, or all at one value.
    TooFew,
}

/// Fits two lines to points of offered and achieved, in the order of time; `seed` is the resampling's.
pub fn breakpoint(in_time: &[(f64, f64)], seed: u64) -> BreakpointFound {
    let mut order: Vec<usize> = (0..in_time.len()).collect();
    order.sort_by(|one, other| in_time[*one].0.total_cmp(&in_time[*other].0));
    let points: Vec<(f64, f64)> = order.iter().map(|place| in_time[*place]).collect();
    let mut offered: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    offered.dedup();
    let (Some(first), Some(up_to)) = (offered.first().copied(), offered.last().copied()) else {
        return BreakpointFound::TooFew;
    };
    if points.len() < FEWEST_POINTS || offered.len() < FEWEST_VALUES {
        return BreakpointFound::TooFew;
    }
    let grid: Vec<f64> = (1..GRID)
        .map(|step| first + (up_to - first) * f64::from(step) / f64::from(GRID))
        .collect();
    let best = best_fit(&points, &vec![1; points.len()], &grid);
    let Some(best) = best else {
        return BreakpointFound::NoneSeen { up_to };
    };
    let memory = best.memory(in_time);
    // What repeats its neighbour adds less (Bayley and Hammersley, Journal of the Royal Statistical Society 8, 1946).
    let telling = points.len() as f64 * (1.0 - memory) / (1.0 + memory);
    if !is_break(one_line(&points), &best, telling) {
        return BreakpointFound::NoneSeen { up_to };
    }
    let draw = by_stretch(stretch(points.len(), memory));
    let again = refit(points.len(), RESAMPLES, seed, draw, |weights| {
        let weights: Vec<u32> = order.iter().map(|place| weights[*place]).collect();
        best_fit(&points, &weights, &grid).map(|fit| fit.at)
    });
    let (low, high) = middle(again.collect(), USUAL_TAIL).unwrap_or((best.at, best.at));
    // A break between two values of the grid may lie anywhere between them.
    let half = (up_to - first) / f64::from(GRID) / 2.0;
    BreakpointFound::Breakpoint(Breakpoint {
        at: best.at,
        low: low - half,
        high: high + half,
        before: best.before,
        after: best.before + best.change,
    })
}

/// Two lines that meet at a given value.
#[derive(Debug, Clone, Copy)]
struct Fit {
    at: f64,
    before: f64,
    change: f64,
    squares: f64,
    /// The lines' value where they meet.
    level: f64,
}

impl Fit {
    fn left_of(&self, (x, y): (f64, f64)) -> f64 {
        let off = x - self.at;
        y - self.level - self.before * off - self.change * off.max(0.0)
    }

    /// The correlation of what is left of a point with what is left of the next one; 0 where chance gives as much.
    fn memory(&self, in_time: &[(f64, f64)]) -> f64 {
        let left: Vec<f64> = in_time.iter().map(|point| self.left_of(*point)).collect();
        let squares: f64 = left.iter().map(|left| left * left).sum();
        let pairs: f64 = left.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let memory = pairs / squares.max(f64::MIN_POSITIVE);
        let chance = 2.0 / (in_time.len() as f64).sqrt();
        if memory > chance {
            memory.min(MOST_MEMORY)
        } else {
            0.0
        }
    }
}

/// How many neighbours are drawn together (Carlstein, Annals of Statistics 14, 1986, for a first-order process).
fn stretch(points: usize, memory: f64) -> usize {
    let apart = 6_f64.sqrt() * memory / (1.0 - memory * memory);
    let length = (points as f64).cbrt() * apart.powf(2.0 / 3.0);
    (length.ceil() as usize).clamp(1, points / 4)
}

/// Whether two lines fit so much better than one that it is no accident, and the second one is flatter: by
/// Schwarz's criterion (Annals of Statistics 6, 1978), with the break as a parameter.
fn is_break(one_line: f64, best: &Fit, n: f64) -> bool {
    // What fits to the last bit has no logarithm.
    let least = 1e-9 * one_line.max(f64::MIN_POSITIVE);
    let gain = n * (one_line.max(least) / best.squares.max(least)).ln();
    gain > MORE_PARAMETERS * n.ln() + MARGIN && best.before + best.change < FLATTER * best.before
}

/// The best of the breaks in `grid`, for points in the order of their values, each weighted by `weights`.
fn best_fit(points: &[(f64, f64)], weights: &[u32], grid: &[f64]) -> Option<Fit> {
    let mut whole = Sums::default();
    let mut above: Vec<Sums> = Vec::with_capacity(points.len() + 1);
    above.push(whole);
    for (point, weight) in points.iter().zip(weights).rev() {
        whole.add(*point, f64::from(*weight));
        above.push(whole);
    }
    let fits = grid.iter().filter_map(|at| {
        let below = points.partition_point(|(x, _)| x <= at);
        two_lines(&whole, &above[points.len() - below], *at)
    });
    fits.min_by(|one, other| one.squares.total_cmp(&other.squares))
}

/// Sums over points.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    fn add(&mut self, (x, y): (f64, f64), weight: f64) {
        self.n += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
        self.yy += weight * y * y;
    }
}

/// The squares that one line leaves.
fn one_line(points: &[(f64, f64)]) -> f64 {
    let mut sums = Sums::default();
    for point in points {
        sums.add(*point, 1.0);
    }
    let Sums { n, x, y, .. } = sums;
    let (xx, xy, yy) = (
        sums.xx - x * x / n,
        sums.xy - x * y / n,
        sums.yy - y * y / n,
    );
    if xx > 0.0 { yy - xy * xy / xx } else { yy }
}

/// Least squares over 1, x and h, which is what x is above `at`; `None` where they are not independent.
fn two_lines(whole: &Sums, above: &Sums, at: f64) -> Option<Fit> {
    let Sums { n, x, y, .. } = *whole;
    let h = above.x - at * above.n;
    // About the means.
    let xx = whole.xx - x * x / n;
    let xy = whole.xy - x * y / n;
    let yy = whole.yy - y * y / n;
    let hh = above.xx - 2.0 * at * above.x + at * at * above.n - h * h / n;
    let xh = above.xx - at * above.x - x * h / n;
    let hy = above.xy - at * above.y - h * y / n;
    let determinant = xx * hh - xh * xh;
    if determinant <= 1e-9 * xx * hh {
        return None;
    }
    let before = (xy * hh - hy * xh) / determinant;
    let change = (hy * xx - xy * xh) / determinant;
    Some(Fit {
        at,
        level: y / n + before * (at - x / n) - change * h / n,
        before,
        change,
        squares: (yy - before * xy - change * hy).max(0.0),
    })
}

/// Below this a break is an accident of a few points.
const FEWEST_POINTS: usize = 12;
const FEWEST_VALUES: usize = 4;
/// Places at which a break is looked for: one percent of the range apart.
const GRID: u32 = 100;
const RESAMPLES: usize = 200;
/// The second slope and the break.
const MORE_PARAMETERS: f64 = 2.0;
/// "Very strong" evidence by Kass and Raftery (Journal of the American Statistical Association 90, 1995).
const MARGIN: f64 = 10.0;
/// A stage that follows at four fifths of the pace still follows.
const FLATTER: f64 = 0.8;
/// Of a series that does not return to its line a quarter of the points is a stretch anyway.
const MOST_MEMORY: f64 = 0.9;

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    /// A stage that takes everything up to `knee`, and `after` of what is more; each point has noise of
    /// this standard deviation (the sum of twelve uniform draws).
    fn stage(knee: f64, after: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        (1..=60)
            .map(|second| {
                let offered = f64::from(second) * 50.0;
                let achieved = offered.min(knee) + after * (offered - knee).max(0.0);
                let error: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                (offered, achieved + noise * error)
            })
            .collect()
    }

    #[test]
    fn a_known_knee_is_inside_its_interval_as_often_as_that_promises() {
        let (mut inside, mut width) = (0, 0.0);
        for seed in 0..400 {
            let knee = 1_000.0 + seed as f64 * 2.5;
            match breakpoint(&stage(knee, 0.05, 60.0, seed), seed) {
                BreakpointFound::Breakpoint(found) => {
                    inside += u32::from(found.low <= knee && knee <= found.high);
                    width += (found.high - found.low) / 400.0;
                    assert!((found.before - 1.0).abs() < 0.15, "{found:?}");
                }
                other => panic!("{other:?} with a knee at {knee}"),
            }
        }
        // Of 400 draws of 95 %, fewer than 366 or more than 393 come three times in a thousand: an interval that holds
        // the knee more often than it promises is wider than it has to be.
        assert!((366..=393).contains(&inside), "{inside} of 400");
        assert!(width < 250.0, "intervals of {width} are of no use");
    }

    /// Noise of which each second repeats this share of the one before, as blocks of seconds make it.
    fn persistent(knee: f64, memory: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let mut left = 0.0;
        let mut points = Vec::new();
        for second in 1..=200 {
            let offered = f64::from(second) * 15.0;
            let error: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            left = memory * left + 60.0 * error;
            points.push((offered, offered.min(knee) + left));
        }
        points
    }

    #[test]
    fn seconds_that_repeat_one_another_are_fewer_than_they_look() {
        let (mut inside, mut alone, mut seen) = (0, 0, 0);
        for seed in 0..200 {
            let knee = 1_000.0 + seed as f64 * 5.0;
            let points = persistent(knee, 0.6, seed);
            let BreakpointFound::Breakpoint(found) = breakpoint(&points, seed) else {
                panic!("no knee of {knee}");
            };
            inside += u32::from(found.low <= knee && knee <= found.high);
            // In another order nothing is known of neighbours.
            let half = points.len() / 2;
            let apart: Vec<_> = (0..half)
                .flat_map(|at| [points[at], points[at + half]])
                .collect();
            if let BreakpointFound::Breakpoint(found) = breakpoint(&apart, seed) {
                alone += u32::from(found.low <= knee && knee <= found.high);
            }
            let none = breakpoint(&persistent(1e9, 0.6, seed), seed);
            seen += u32::from(matches!(none, BreakpointFound::Breakpoint(_)));
        }
        assert!(inside >= 176, "{inside} of 200");
        assert!(alone < inside, "{alone}");
        assert!(seen <= 2, "{seen} knees that are not there");
    }

    #[test]
    fn a_stage_that_follows_all_along_has_no_knee() {
        let mut seen = 0;
        for seed in 0..100 {
            match breakpoint(&stage(1e9, 0.0, 60.0, seed), seed) {
                BreakpointFound::NoneSeen { up_to } => assert_eq!(up_to, 3_000.0),
                BreakpointFound::Breakpoint(_) => seen += 1,
                BreakpointFound::TooFew => panic!("60 points are enough"),
            }
        }
        assert!(seen <= 1, "{seen} of 100 knees that are not there");
    }

    #[test]
    fn a_line_that_only_grows_steeper_or_a_little_flatter_has_none() {
        for after in [0.9, 2.0] {
            let found = breakpoint(&stage(1_500.0, after, 10.0, 7), 7);
            assert!(
                matches!(found, BreakpointFound::NoneSeen { .. }),
                "{after}: {found:?}"
            );
        }
    }

    #[test]
    fn a_collapse_after_the_knee_is_a_knee() {
        match breakpoint(&stage(1_500.0, -0.5, 60.0, 3), 3) {
            BreakpointFound::Breakpoint(found) => {
                assert!(
                    (found.at - 1_500.0).abs() < 100.0 && found.after < -0.3,
                    "{found:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(breakpoint(&[], 0), BreakpointFound::TooFew);
        assert_eq!(breakpoint(&[(5.0, 5.0); 100], 0), BreakpointFound::TooFew);
        assert_eq!(
            breakpoint(&stage(100.0, 0.0, 0.0, 0)[..11], 0),
            BreakpointFound::TooFew
        );
        // Without any noise the break is exact to the grid.
        match breakpoint(&stage(1_500.0, 0.0, 0.0, 0), 0) {
            BreakpointFound::Breakpoint(found) => {
                assert!((found.at - 1_500.0).abs() <= 30.0, "{found:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
