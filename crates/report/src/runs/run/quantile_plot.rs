//! A distribution by percentile, as HdrHistogram's plots show it.

use measure::Latency;

/// Share and milliseconds, evenly spread by the number of nines, as far as the count carries.
pub fn quantile_curve(latency: &Latency) -> Vec<(f64, f64)> {
    if latency.is_empty() {
        return Vec::new();
    }
    let last = (latency.count() as f64).log10().clamp(0.1, MAX_NINES);
    let mut points: Vec<(f64, f64)> = (0..POINTS)
        .filter_map(|point| {
            let nines =
                FIRST_NINES + (last - FIRST_NINES) * f64::from(point) / f64::from(POINTS - 1);
            let share = 1.0 - 10_f64.powf(-nines);
            let value = latency.quantile(share)?;
            Some((share, value.as_millis_f64()))
        })
        .collect();
    if let (Some(last), Some(max)) = (points.last_mut(), latency.max()) {
        last.1 = max.as_millis_f64();
    }
    for point in &mut points {
        point.1 = point.1.max(LOWEST_MS);
    }
    points
}

const POINTS: u32 = 160;
const MAX_NINES: f64 = 7.0;
/// 10 %: below it a single fast one would add decades to the axis.
const FIRST_NINES: f64 = 0.0458;
/// A logarithmic axis has no zero, and the stamps of a sender are no finer.
const LOWEST_MS: f64 = 0.01;

#[cfg(test)]
mod tests {
    use pacing::Nanos;

    use super::*;

    #[test]
    fn it_rises_to_the_exact_maximum_at_the_last_nine_that_the_count_carries() {
        let mut latency = Latency::new();
        (1..=1_000).for_each(|n| latency.record(Nanos::from_millis(n)));
        let points = quantile_curve(&latency);
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let last = points.last().unwrap();
        assert!((last.0 - 0.999).abs() < 1e-9);
        assert_eq!(last.1, 1_000.0);
        assert!(quantile_curve(&Latency::new()).is_empty());
    }
}
