//! Values as they stand at an axis.

use crate::text;

/// Seconds as on a clock, as finely as the longest of the axis needs.
pub(super) fn clock(seconds: f64, longest: f64) -> String {
    if longest < 120.0 {
        return format!("{} s", text::number((seconds * 10.0).round() / 10.0));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    if longest < 3_600.0 {
        format!("{}:{rest:02}", hours * 60 + minutes)
    } else {
        format!("{hours}:{minutes:02}:{rest:02}")
    }
}

/// A share in per cent, with as many digits as it has nines.
pub(super) fn percentile(share: f64) -> String {
    let nines = -(1.0 - share).max(1e-12).log10();
    let decimals = (nines.floor() as usize).saturating_sub(1).min(9);
    let text = format!("{:.*}", decimals + 1, share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// Thousands and millions by their letters, where the digits would take too much room.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e7 => format!("{}M", trim(value / 1e6)),
        _ if size >= 1e5 => format!("{}k", trim(value / 1e3)),
        _ if size >= 1e3 => text::number(value),
        _ => trim(value),
    }
}

/// Milliseconds at a tick, in the unit that fits.
pub(super) fn round_millis(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.999 => format!("{} µs", trim(value * 1e3)),
        size if size < 999.0 => format!("{} ms", trim(value)),
        size if size < 599_000.0 => format!("{} s", trim(value / 1e3)),
        _ => format!("{} min", trim(value / 6e4)),
    }
}

/// Without zeros at the end.
fn trim(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
