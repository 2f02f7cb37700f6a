//! Values as they stand at an axis.

use crate::text;

/// Seconds as on a clock, as finely as the longest of the axis needs.
pub(super) fn clock(seconds: f64, longest: f64) -> String {
    if longest < 120.0 {
        return format!("{} s", text::number((seconds * 10.0).round() / 10.0));
    }
    text::clock(seconds.round(), longest)
}

/// A share in per cent, with as many digits as it has nines.
pub(super) fn percentile(share: f64) -> String {
    let nines = -(1.0 - share).max(1e-12).log10();
    let decimals = (nines.floor() as usize).saturating_sub(1).min(9);
    let text = format!("{:.*}", decimals + 1, share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}
