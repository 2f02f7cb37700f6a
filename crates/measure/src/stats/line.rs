//! A straight line through points, by least squares and by the median of slopes, each with its interval.
//!
//! Two fits because one is not enough where sizes span orders of magnitude: least squares is decided by the few
//! largest points, the median of slopes (Theil 1950; Sen, Journal of the American Statistical Association 63,
//! 1968) by most of them, and where they differ the line is not what the points have in common.

use crate::stats::resample::{USUAL_TAIL, by_group, middle, refit};
use crate::stats::student;

/// A figure and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Estimate {
    fn within(value: f64, half: f64) -> Self {
        Self {
            value,
            low: value - half,
            high: value + half,
        }
    }

    fn resampled(value: f64, values: Vec<f64>, groups: usize) -> Self {
        let (low, high) = middle(values, tail(groups)).unwrap_or((value, value));
        Self { value, low, high }
    }

    /// Whether the interval holds this value.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A line y = intercept + slope · x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Its value at 0.
    pub intercept: Estimate,
    /// What it rises by for each unit of x.
    pub slope: Estimate,
}

/// Both fits to the same points.
#[derive(Debug, Clone, PartialEq)]
pub struct LineFit {
    /// The smallest and the largest x.
    pub range: (f64, f64),
    /// By least squares. Its intervals hold where the scatter grows with x as well, and where the points of a group
    /// have their scatter in common: the covariance is that of fits without each group in turn, of single points HC3
    /// (MacKinnon and White, Journal of Econometrics 29, 1985), of groups CR3 (Bell and McCaffrey, Survey Methodology
    /// 28, 2002); the quantile is Student's.
    pub least_squares: Line,
    /// By the median of the slopes of all pairs whose x are at least a hundredth of the range apart (between closer
    /// ones scatter is all there is), and of what is left at x = 0; intervals by resampling groups.
    pub median_slope: Line,
    /// What least squares leaves of each point, in the order given.
    pub residuals: Vec<f64>,
    /// How much each point decides its own fitted value, 0 to 1 (the diagonal of the hat matrix); their sum is 2.
    pub leverages: Vec<f64>,
    /// Of least squares about the mean of x: the mean, and the variances of level and slope with their covariance.
    centre: f64,
    level_variance: f64,
    slope_variance: f64,
    covariance: f64,
    /// Student's 97.5 % quantile.
    quantile: f64,
}

impl LineFit {
    /// Fits lines to points (x, y) that have nothing in common; as [`of_groups`](Self::of_groups).
    pub fn of(points: &[(f64, f64)], seed: u64) -> Option<Self> {
        let alone: Vec<usize> = (0..points.len()).collect();
        Self::of_groups(points, &alone, seed)
    }

    /// Fits lines to points (x, y), each with the number of its group, from 0 on: points of one group share what
    /// scatters them, as the delays of one block do. `seed` is the resampling's. `None` with fewer than eight groups,
    /// or all points at one x.
    pub fn of_groups(points: &[(f64, f64)], groups: &[usize], seed: u64) -> Option<Self> {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (centre, level) = (mean(|point| point.0), mean(|point| point.1));
        let off = |x: f64| x - centre;
        let squares: f64 = points.iter().map(|(x, _)| off(*x).powi(2)).sum();
        if count < FEWEST_GROUPS || squares <= f64::EPSILON * n * centre * centre {
            return None;
        }
        let slope = points.iter().map(|(x, y)| off(*x) * y).sum::<f64>() / squares;
        let residual = |(x, y): &(f64, f64)| y - level - slope * off(*x);
        let leverage = |(x, _): &(f64, f64)| 1.0 / n + off(*x).powi(2) / squares;
        let residuals: Vec<f64> = points.iter().map(residual).collect();
        let leverages: Vec<f64> = points.iter().map(leverage).collect();
        let mut sums = vec![Sums::default(); count];
        for (((x, _), residual), group) in points.iter().zip(&residuals).zip(groups) {
            sums[*group].add(off(*x), *residual);
        }
        let (mut level_variance, mut covariance, mut slope_variance) = (0.0, 0.0, 0.0);
        for without in sums.iter().map(|group| group.without(n, squares)) {
            let (level, slope) = without;
            level_variance += level * level;
            covariance += level * slope;
            slope_variance += slope * slope;
        }
        let quantile = student::quantile(0.975, count as f64 - 2.0);
        let mut fit = Self {
            range: extent(points.iter().map(|point| point.0)),
            least_squares: Line {
                intercept: Estimate::within(level, 0.0),
                slope: Estimate::within(slope, quantile * slope_variance.sqrt()),
            },
            median_slope: median_line(points, groups, seed, CLOSEST),
            residuals,
            leverages,
            centre,
            level_variance,
            slope_variance,
            covariance,
            quantile,
        };
        fit.least_squares.intercept.value = level - slope * centre;
        fit.least_squares.intercept = fit.at(0.0);
        Some(fit)
    }

    /// The line of least squares at this x, with the interval of the line there (single points scatter more).
    pub fn at(&self, x: f64) -> Estimate {
        let Line { intercept, slope } = self.least_squares;
        let off = x - self.centre;
        let variance =
            self.level_variance + 2.0 * off * self.covariance + off * off * self.slope_variance;
        let half = self.quantile * variance.max(0.0).sqrt();
        Estimate::within(intercept.value + slope.value * x, half)
    }

    /// How far beyond the points an x lies, as a multiple of the largest; at most 1 inside.
    pub fn reach(&self, x: f64) -> f64 {
        x / self.range.1.max(f64::MIN_POSITIVE)
    }

    /// Whether the points show anything at this x: up to ten times the largest, where the line rises, and its
    /// interval there is no wider than the value itself.
    pub fn supports(&self, x: f64) -> bool {
        let at = self.at(x);
        let is_sure = self.least_squares.slope.low > 0.0 && at.high - at.low <= at.value;
        is_sure && self.reach(x) <= FARTHEST
    }
}

/// Sums over a group: of its points, their distances from the mean x, and what the line leaves of them.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    xx: f64,
    left: f64,
    x_left: f64,
}

impl Sums {
    fn add(&mut self, x: f64, left: f64) {
        self.n += 1.0;
        self.x += x;
        self.xx += x * x;
        self.left += left;
        self.x_left += x * left;
    }

    /// By what the level at the mean x, and the slope, change without this group, of `n` points whose squared
    /// distances are `squares` in sum.
    fn without(&self, n: f64, squares: f64) -> (f64, f64) {
        let rest = n - self.n;
        let (x, left) = (-self.x / rest, -self.left / rest);
        let spread = squares - self.xx - rest * x * x;
        let slope = (-self.x_left - rest * x * left) / spread.max(LEAST_FREEDOM * squares);
        (left - slope * x, slope)
    }
}

/// The median of slopes, and of what is left. Pairs count from a share `closest` of the range on.
fn median_line(points: &[(f64, f64)], groups: &[usize], seed: u64, closest: f64) -> Line {
    let stride = points.len().div_ceil(MOST_POINTS);
    let mut points: Vec<((f64, f64), usize)> =
        points.iter().copied().zip(groups.iter().copied()).collect();
    points.sort_by(|(one, _), (other, _)| one.0.total_cmp(&other.0));
    let (points, groups): (Vec<(f64, f64)>, Vec<usize>) =
        points.into_iter().step_by(stride).unzip();
    let (low, high) = extent(points.iter().map(|point| point.0));
    let apart = closest * (high - low);
    let mut slopes: Vec<(f64, usize, usize)> = Vec::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let later = points[i + 1..].iter().enumerate();
        let rising = later.filter(|(_, (next, _))| next - x > apart);
        slopes.extend(rising.map(|(j, (next, up))| ((up - y) / (next - x), i, i + 1 + j)));
    }
    slopes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let fit = |weights: &[u32]| {
        let weighed = slopes
            .iter()
            .map(|(slope, i, j)| (*slope, u64::from(weights[*i] * weights[*j])));
        let slope = weighted_median(weighed)?;
        let mut left: Vec<(f64, u64)> = points
            .iter()
            .zip(weights)
            .map(|((x, y), weight)| (y - slope * x, u64::from(*weight)))
            .collect();
        left.sort_by(|one, other| one.0.total_cmp(&other.0));
        Some((weighted_median(left.into_iter())?, slope))
    };
    let (intercept, slope) = fit(&vec![1; points.len()]).unwrap_or_default();
    let again = refit(points.len(), RESAMPLES, seed, by_group(&groups), fit);
    let (intercepts, drawn): (Vec<f64>, Vec<f64>) = again.unzip();
    let count = groups.iter().max().map_or(0, |last| last + 1);
    Line {
        intercept: Estimate::resampled(intercept, intercepts, count),
        slope: Estimate::resampled(slope, drawn, count),
    }
}

/// The value with half of the weight on each side; `values` in their order.
fn weighted_median(values: impl Iterator<Item = (f64, u64)> + Clone) -> Option<f64> {
    let half = values
        .clone()
        .map(|(_, weight)| weight)
        .sum::<u64>()
        .div_ceil(2);
    let mut below = 0;
    let mut values = values.skip_while(move |(_, weight)| {
        below += weight;
        below < half
    });
    values.next().map(|(value, _)| value).filter(|_| half > 0)
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// Below this an interval of two parameters shows nothing.
const FEWEST_GROUPS: usize = 8;
/// The share of the spread that a group leaves to the others at least: one that decides the slope alone would be
/// divided by 0.
const LEAST_FREEDOM: f64 = 1e-6;
/// The slopes of all pairs of so many points: 80,000. Of more points every n-th in the order of x is taken.
const MOST_POINTS: usize = 400;
const RESAMPLES: usize = 300;
/// Full blocks differ in size by a few transactions: the slope between two of them is their scatter divided by nearly
/// nothing, and where most blocks are full such pairs are most pairs.
const CLOSEST: f64 = 0.01;
/// Beyond ten times what was measured something else gives first.
const FARTHEST: f64 = 10.0;

/// The share on either side of an interval of 95 % by resampling so many groups. Resampled figures scatter less than
/// those of new groups, by √((n − 1)/n), and their quantiles are the normal distribution's and not Student's: the share
/// is the one that makes up for both (the expanded percentile interval of Hesterberg, The American Statistician 69, 2015).
fn tail(groups: usize) -> f64 {
    let n = groups.max(2) as f64;
    let reach = student::quantile(1.0 - USUAL_TAIL, n - 1.0) * (n / (n - 1.0)).sqrt();
    student::below(-reach, NORMAL)
}

/// With so many degrees of freedom Student's distribution is the normal one, to five digits.
const NORMAL: f64 = 50_000.0;

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    const TAU0: f64 = 1.5;
    const Z: f64 = 0.6;

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// Sizes over two orders of magnitude, and times on the line with this scatter at each size.
    fn blocks(seed: u64, scatter: impl Fn(f64, &mut Random) -> f64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        (0..80)
            .map(|_| {
                let size = 10_f64.powf(2.0 * random.unit());
                (size, TAU0 + Z * size + scatter(size, &mut random))
            })
            .collect()
    }

    /// How often of 400 the intervals of (τ0, z) hold what is true, and the fits' own values on average.
    fn coverage(line: fn(&LineFit) -> Line, scatter: fn(f64, &mut Random) -> f64) -> [u32; 2] {
        let mut held = [0, 0];
        for seed in 0..400 {
            let fit = LineFit::of(&blocks(seed, scatter), seed).unwrap();
            let line = line(&fit);
            held[0] += u32::from(line.intercept.holds(TAU0));
            held[1] += u32::from(line.slope.holds(Z));
        }
        held
    }

    /// Of 400 draws of 95 %, fewer than 366 or more than 393 come three times in a thousand.
    fn assert_promise(held: [u32; 2]) {
        for held in held {
            assert!((366..=393).contains(&held), "{held} of 400");
        }
    }

    #[test]
    fn known_lines_are_inside_both_intervals_as_often_as_those_promise() {
        let even = |_: f64, random: &mut Random| 2.0 * normal(random);
        assert_promise(coverage(|fit| fit.least_squares, even));
        assert_promise(coverage(|fit| fit.median_slope, even));
    }

    #[test]
    fn scatter_that_grows_with_the_size_breaks_no_promise() {
        let growing = |size: f64, random: &mut Random| 0.2 * size * normal(random);
        assert_promise(coverage(|fit| fit.least_squares, growing));
        assert_promise(coverage(|fit| fit.median_slope, growing));
    }

    /// 40 blocks at 5 nodes each: what makes a block late makes it late at all of them.
    #[test]
    fn delays_of_one_block_are_no_5_blocks() {
        let mut held = [[0; 2]; 3];
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let (mut points, mut groups) = (Vec::new(), Vec::new());
            for block in 0..40 {
                let size = 10_f64.powf(2.0 * random.unit());
                let late = TAU0 + Z * size + 2.0 * normal(&mut random);
                for _ in 0..5 {
                    points.push((size, late + 0.2 * normal(&mut random)));
                    groups.push(block);
                }
            }
            let fit = LineFit::of_groups(&points, &groups, seed).unwrap();
            let alone = LineFit::of(&points, seed).unwrap().least_squares;
            for (held, line) in held
                .iter_mut()
                .zip([fit.least_squares, fit.median_slope, alone])
            {
                held[0] += u32::from(line.intercept.holds(TAU0));
                held[1] += u32::from(line.slope.holds(Z));
            }
        }
        // Of 100 draws of 95 %, fewer than 88 come three times in a thousand.
        let [squares, median, alone] = held.map(|[intercept, slope]| intercept.min(slope));
        assert!(squares >= 88 && median >= 88, "{held:?}");
        assert!(alone < 75, "as single points: {held:?}");
    }

    /// Seven blocks of eight are full to within a transaction or two, as when transactions wait for room.
    fn full_blocks(seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let block = |number: u32| {
            let size = if number.is_multiple_of(8) {
                100.0 * random.unit()
            } else {
                100.0 - 0.1 * random.unit()
            };
            (size, TAU0 + Z * size + 2.0 * normal(&mut random))
        };
        (0..80).map(block).collect()
    }

    /// Three of four pairs are of two full blocks, and their slopes are noise: the interval is that of the others, and
    /// less than half as wide as with all pairs, in the mean of 20 draws.
    #[test]
    fn blocks_of_nearly_one_size_make_no_interval_useless() {
        let alone: Vec<usize> = (0..80).collect();
        let width = |seed, closest| {
            let slope = median_line(&full_blocks(seed), &alone, seed, closest).slope;
            slope.high - slope.low
        };
        let mean = |closest| (0..20).map(|seed| width(seed, closest)).sum::<f64>() / 20.0;
        let (all, apart) = (mean(0.0), mean(CLOSEST));
        assert!(all > 2.0 * apart, "{all} with all pairs, {apart} without");
        assert!(apart < 0.25 * Z, "{apart}");
        let mut held = [0, 0];
        for seed in 0..400 {
            let Line { intercept, slope } = median_line(&full_blocks(seed), &alone, seed, CLOSEST);
            held[0] += u32::from(intercept.holds(TAU0));
            held[1] += u32::from(slope.holds(Z));
        }
        assert_promise(held);
    }

    #[test]
    fn a_few_blocks_that_were_sent_whole_pull_least_squares_and_not_the_median() {
        let mut points = blocks(5, |_, random| 0.2 * normal(random));
        for (size, time) in points.iter_mut().filter(|(size, _)| *size > 80.0) {
            *time += 10.0 * *size;
        }
        let fit = LineFit::of(&points, 5).unwrap();
        assert!(fit.least_squares.slope.value > 2.0 * Z, "{fit:?}");
        assert!((fit.median_slope.slope.value - Z).abs() < 0.05, "{fit:?}");
    }

    #[test]
    fn leverages_add_up_to_two_and_residuals_to_nothing() {
        let mut points = blocks(9, |_, random| normal(random));
        points.push((1_000.0, TAU0 + Z * 1_000.0));
        let fit = LineFit::of(&points, 9).unwrap();
        assert!((fit.leverages.iter().sum::<f64>() - 2.0).abs() < 1e-9);
        assert!(fit.residuals.iter().sum::<f64>().abs() < 1e-6);
        // One block ten times as large as all others decides the line.
        assert!(fit.leverages[80] > 0.8, "{}", fit.leverages[80]);
    }

    #[test]
    fn what_lies_far_beyond_the_points_is_not_supported() {
        // Cores for each transaction a second, measured from 5 to 500 a second.
        let points: Vec<_> = blocks(3, |_, _| 0.0)
            .iter()
            .map(|(size, _)| (size * 5.0, 0.3 + size * 0.05))
            .collect();
        let fit = LineFit::of(&points, 3).unwrap();
        let at = fit.at(1_000.0);
        assert!(
            (at.value - 10.3).abs() < 1e-6 && fit.supports(1_000.0),
            "{at:?}"
        );
        assert!(fit.reach(1_000.0) > 2.0 && fit.supports(3_000.0));
        assert!(!fit.supports(50_000.0), "a hundred times what was measured");
    }

    #[test]
    fn points_without_a_slope_support_nothing_beyond_them() {
        let points = blocks(4, |size, random| normal(random) - Z * size);
        let fit = LineFit::of(&points, 4).unwrap();
        assert!(
            fit.least_squares.slope.holds(0.0) && !fit.supports(300.0),
            "{fit:?}"
        );
    }

    #[test]
    fn too_little_gives_no_line() {
        assert_eq!(LineFit::of(&[], 0), None);
        assert_eq!(LineFit::of(&[(5.0, 5.0); 100], 0), None);
        assert_eq!(LineFit::of(&blocks(0, |_, _| 0.0)[..7], 0), None);
    }

    /// The talk of the gigablock testnet gives 1 core and 3 Mbit/s for each 100 transactions a second, and with
    /// that 10 cores for 1,000/s, 30 cores and 90 Mbit/s for 3,000/s, and 500 cores for 50,000/s. Measured was up to 500/s
    /// sustained, so the last figure lies a hundred times beyond.
    #[test]
    fn the_talks_resources_as_a_worked_example() {
        let measured = |each: f64| {
            let points: Vec<(f64, f64)> = (1..=10)
                .map(|step| (f64::from(step) * 50.0, f64::from(step) * 50.0 * each))
                .collect();
            LineFit::of(&points, 0).unwrap()
        };
        let (cores, megabits) = (measured(1.0 / 100.0), measured(3.0 / 100.0));
        for (rate, core, megabit) in [
            (1_000.0, 10.0, 30.0),
            (3_000.0, 30.0, 90.0),
            (50_000.0, 500.0, 1_500.0),
        ] {
            assert!((cores.at(rate).value - core).abs() < 1e-6);
            assert!((megabits.at(rate).value - megabit).abs() < 1e-6);
            assert_eq!(cores.supports(rate), rate < 5_000.0);
        }
    }

    /// Its block times: 1 GB in 600 s and 100 MB in 60 s, which is how z = 0.6 s/MB was reconstructed; the printed
    /// coefficients are not known.
    #[test]
    fn the_talks_block_times_as_a_worked_example() {
        let points: Vec<(f64, f64)> = (1..=10)
            .map(|size| (f64::from(size) * 10.0, f64::from(size) * 6.0))
            .collect();
        let fit = LineFit::of(&points, 0).unwrap();
        let gigabyte = fit.at(1_000.0);
        assert!((gigabyte.value - 600.0).abs() < 1e-6, "{gigabyte:?}");
        assert!((fit.median_slope.slope.value - 0.6).abs() < 1e-9);
    }
}
