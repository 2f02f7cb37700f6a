//! Numbers and words for people.

use std::borrow::Cow;

/// A number with its thousands apart: 1,234,567.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with as many decimals as it deserves: 0.0123, 1.23, 12.3, 1,234.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    match size {
        _ if !size.is_finite() => "-".to_owned(),
        _ if size >= 99.95 || size.fract() == 0.0 => {
            format!("{sign}{}", grouped(size.round() as u64))
        }
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.995 => format!("{value:.2}"),
        _ if size >= 0.000_5 => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').to_owned()
        }
        _ => format!("{value:.1e}"),
    }
}

/// Milliseconds in the unit that fits: 12 µs, 1.5 ms, 2.34 s, 3 min.
#[must_use]
pub fn millis(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.999_5 => format!("{} µs", number((value * 1e3 * 10.0).round() / 10.0)),
        size if size < 999.5 => format!("{} ms", number(value)),
        size if size < 599_500.0 => format!("{} s", number(value / 1e3)),
        _ => format!("{} min", number(value / 6e4)),
    }
}

/// Seconds in the unit that fits.
#[must_use]
pub fn seconds(value: f64) -> String {
    millis(value * 1e3)
}

/// A rate: 1,234/s.
#[must_use]
pub fn rate(value: f64) -> String {
    format!("{}/s", number(value))
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// What is there, or a dash.
#[must_use]
pub fn or_dash(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), write)
}

/// Text inside HTML, in an attribute too.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn numbers_have_the_decimals_they_deserve() {
        for (value, text) in [
            (0.0, "0"),
            (-3.0, "-3"),
            (0.012_34, "0.0123"),
            (0.5, "0.5"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234.5, "1,235"),
            (0.000_01, "1.0e-5"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(millis(0.0123), "12.3 µs");
        assert_eq!(millis(1.5), "1.50 ms");
        assert_eq!(millis(2_345.0), "2.35 s");
        assert_eq!(millis(1_200_000.0), "20 min");
        assert_eq!(percent(0.051), "5.10 %");
    }

    #[test]
    fn nothing_leaves_its_place_in_html() {
        assert_eq!(escape("plain"), "plain");
        assert_eq!(
            escape("<a b=\"c\">&'"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;"
        );
    }
}
