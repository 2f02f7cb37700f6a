//! Intervals from drawing the points again, with replacement (Efron and Tibshirani, An Introduction to the
//! Bootstrap, 1993, chapter 13: percentiles).

use pacing::Random;

/// Fits again to points that were drawn again: `weights` of a fit say how often each point was drawn. Gives
/// the fits that there are.
pub(crate) fn refit<T>(
    points: usize,
    resamples: usize,
    seed: u64,
    mut fit: impl FnMut(&[u32]) -> Option<T>,
) -> impl Iterator<Item = T> {
    let mut random = Random::new(seed);
    let mut weights = vec![0; points];
    (0..resamples).filter_map(move |_| {
        weights.fill(0);
        for _ in 0..points {
            let drawn = (random.unit() * points as f64) as usize;
            weights[drawn.min(points - 1)] += 1;
        }
        fit(&weights)
    })
}

/// The ends of the middle 95 %; `None` of no value.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let quantile = |share: f64| values[last.min((share * values.len() as f64) as usize)];
    Some((quantile(0.025), quantile(0.975)))
}
