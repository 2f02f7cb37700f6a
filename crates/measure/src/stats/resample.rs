//! Fits to points that are drawn again, for the interval of what was fitted (bootstrap: Efron, Annals of Statistics 7, 1979).

use base::Random;

/// Of the middle 95 %.
pub(crate) const USUAL_TAIL: f64 = 0.025;

/// Draws as many groups as there are, each as likely.
pub(crate) fn by_group(groups: &[usize]) -> impl Fn(&mut Random, &mut [u32]) {
    let count = groups.iter().max().map_or(0, |last| last + 1);
    move |random, weights| {
        let mut drawn = vec![0; count];
        for _ in 0..count {
            drawn[below(random, count)] += 1;
        }
        for (weight, group) in weights.iter_mut().zip(groups) {
            *weight = drawn[*group];
        }
    }
}

fn below(random: &mut Random, count: usize) -> usize {
    ((random.unit() * count as f64) as usize).min(count - 1)
}

/// Draws stretches of `length` neighbours until there are as many points as before (moving blocks: Künsch, Annals of
/// Statistics 17, 1989).
pub(crate) fn by_stretch(length: usize) -> impl Fn(&mut Random, &mut [u32]) {
    move |random, weights| {
        weights.fill(0);
        let points = weights.len();
        let mut left = points;
        while left > 0 {
            let from = below(random, points - length + 1);
            let taken = length.min(left);
            for weight in &mut weights[from..from + taken] {
                *weight += 1;
            }
            left -= taken;
        }
    }
}

/// Fits again to points that were drawn again: `draw` sets how often each point was. Gives the fits that there are.
pub(crate) fn refit<T>(
    points: usize,
    resamples: usize,
    seed: u64,
    draw: impl Fn(&mut Random, &mut [u32]),
    mut fit: impl FnMut(&[u32]) -> Option<T>,
) -> impl Iterator<Item = T> {
    let mut random = Random::new(seed);
    let mut weights = vec![0; points];
    (0..resamples).filter_map(move |_| {
        draw(&mut random, &mut weights);
        fit(&weights)
    })
}

/// The values that leave a share of `tail` on either side; `None` of no value.
pub(crate) fn middle(mut values: Vec<f64>, tail: f64) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let quantile = |share: f64| values[last.min((share * values.len() as f64) as usize)];
    Some((quantile(tail), quantile(1.0 - tail)))
}
