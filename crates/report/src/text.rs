//! Numbers and words for people.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// A number with its thousands apart: 1,234,567.
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

/// A count with its thousands apart, of a number: 1,234,567.
pub fn count(number: f64) -> String {
    grouped(number.round() as u64)
}

/// A number with the decimals of the first bound above its size, or with none: with
/// `[(10.0, 2), (100.0, 1)]` 1.23, 12.3, 123.
pub fn by_size(value: f64, decimals: &[(f64, usize)]) -> String {
    let found = decimals.iter().find(|(bound, _)| value.abs() < *bound);
    let decimals = found.map_or(0, |(_, decimals)| *decimals);
    format!("{value:.decimals$}")
}

/// Milliseconds without their unit in at most six characters, up to a quarter of an hour.
pub fn narrow_millis(value: f64) -> String {
    by_size(value, &[(100.0, 2)])
}

/// A number without decimals, its digits not apart.
pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// A number with one decimal.
pub fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// A time in UTC (RFC 3339) to the second, as people write it: 2026-11-22 10:13:31 UTC.
pub fn utc(time: &str) -> String {
    let seconds = time.split('.').next().unwrap_or_default();
    format!(
        "{} UTC",
        seconds.trim_end_matches('Z').replacen('T', " ", 1)
    )
}

/// Seconds as on a clock: 1:05 or 2:03:04. The hours are shown where `longest`, the longest time that
/// stands beside it, has some.
pub fn clock(seconds: f64, longest: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    if longest < 3_600.0 {
        format!("{}:{rest:02}", hours * 60 + minutes)
    } else {
        format!("{hours}:{minutes:02}:{rest:02}")
    }
}

/// Thousands and millions by their letters, where the digits would take too much room.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1e6 => format!("{}M", without_zeros((value / 1e4).round() / 1e2)),
        _ if size >= 1e5 => format!("{}k", number(value / 1e3)),
        _ if size >= 1e3 => number(value),
        _ => without_zeros(value),
    }
}

/// Milliseconds at the tick of an axis, in the unit that fits.
pub fn tick_millis(value: f64) -> String {
    in_unit(value, without_zeros)
}

/// Up to four decimals.
pub(crate) fn without_zeros(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The names and counts that are not 0: `timeout: 12, closed: 1`.
pub fn by_name(counts: &BTreeMap<String, u64>) -> String {
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    let entry = |(name, count): (&String, &u64)| format!("{name}: {}", grouped(*count));
    counted.map(entry).collect::<Vec<_>>().join(", ")
}

/// A number with as many decimals as it deserves: 0.0123, 1.23, 12.3, 1,234.
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
pub fn millis(value: f64) -> String {
    in_unit(value, number)
}

/// Microseconds have no more than one decimal.
fn in_unit(millis: f64, write: fn(f64) -> String) -> String {
    let (value, unit) = match millis.abs() {
        0.0 => return "0".to_owned(),
        size if size < 0.999_5 => ((millis * 1e4).round() / 10.0, "µs"),
        size if size < 999.5 => (millis, "ms"),
        size if size < 599_500.0 => (millis / 1e3, "s"),
        _ => (millis / 6e4, "min"),
    };
    format!("{} {unit}", write(value))
}

/// Seconds in the unit that fits.
pub fn seconds(value: f64) -> String {
    millis(value * 1e3)
}

/// A rate: 1,234/s.
pub fn rate(value: f64) -> String {
    format!("{}/s", number(value))
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// A share as a percentage with one decimal.
pub fn percent_tenths(share: f64) -> String {
    // No minus before a zero.
    format!("{:.1} %", (share * 1_000.0).round() / 10.0 + 0.0)
}

/// A number of a table, or none.
pub trait Figure {
    /// The value; `None` is shown as a dash.
    fn figure(self) -> Option<f64>;

    /// Whether the truth may be higher, which is shown before the value.
    fn is_lower_bound(&self) -> bool {
        false
    }

    /// How low the truth may be, which is shown before the value.
    fn lowest(&self) -> Option<f64> {
        None
    }
}

impl Figure for f64 {
    fn figure(self) -> Option<f64> {
        Some(self)
    }
}

impl Figure for u64 {
    fn figure(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl Figure for usize {
    fn figure(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl<F: Figure> Figure for Option<F> {
    fn figure(self) -> Option<f64> {
        self.and_then(F::figure)
    }

    fn is_lower_bound(&self) -> bool {
        self.as_ref().is_some_and(F::is_lower_bound)
    }

    fn lowest(&self) -> Option<f64> {
        self.as_ref()?.lowest()
    }
}

/// A figure in the given format, as `>= 1.50 s` where it is a lower bound, as `1 ms to 4 ms` where it is a range;
/// `None` without a value, and for a lower bound that the format writes like 0: everything is at least that.
pub fn figure<F: Figure>(figure: F, write: impl Fn(f64) -> String) -> Option<String> {
    let (lowest, is_open) = (figure.lowest(), figure.is_lower_bound());
    let value = figure.figure()?;
    match lowest {
        lowest if is_open => {
            let least = write(lowest.unwrap_or(value));
            (least != write(0.0)).then(|| format!(">= {least}"))
        }
        Some(lowest) => Some(format!("{} to {}", write(lowest), write(value))),
        None => Some(write(value)),
    }
}

/// What is there, or a dash.
pub fn or_dash(value: impl Figure, write: impl Fn(f64) -> String) -> String {
    figure(value, write).unwrap_or_else(|| "–".to_owned())
}

/// The default width of a terminal.
pub const TERMINAL_WIDTH: usize = 80;

/// Lines of at most 80 characters: longer ones go on below at the column of their text, which begins behind two
/// blanks or more (`limited by   node: …`), or two characters further in. No word is broken. What a terminal would
/// take for an order is no text.
pub fn fit(text: &str) -> String {
    let is_order = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let text = text.replace(is_order, "\u{fffd}");
    let mut fitted = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let begin = text_column(line);
        let head = line.char_indices().nth(begin).map_or(line.len(), |at| at.0);
        let parts = folded(&line[head..], TERMINAL_WIDTH.saturating_sub(begin));
        fitted.push_str(&line[..head]);
        fitted.push_str(&parts.join(&format!("\n{:begin$}", "")));
        fitted.push_str(end);
    }
    fitted
}

/// The column that a line's text begins at, behind its name if it has one, and behind the mark of a list.
fn text_column(line: &str) -> usize {
    let indent = line
        .chars()
        .take_while(|character| *character == ' ')
        .count();
    let named = line[indent..].find("  ").map(|end| {
        let name = &line[indent..indent + end];
        let blanks = line[indent + end..]
            .chars()
            .take_while(|character| *character == ' ');
        indent + name.chars().count() + blanks.count()
    });
    let column = named
        .filter(|column| *column <= WIDEST_NAME)
        .unwrap_or(indent);
    let mut rest = line.chars().skip(column);
    match (rest.next(), rest.next()) {
        (Some('-' | '!'), Some(' ')) => column + 2,
        _ => column,
    }
}

/// A text in parts of at most `width` characters, divided at blanks; what is longer is a part of its own. A number
/// stays with its unit.
pub(crate) fn folded(text: &str, width: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((end, last)) = rest.char_indices().nth(width) {
        let until = end + last.len_utf8();
        let within = division_of(&rest[..until]).or_else(|| rest[..until].rfind(' '));
        let within = within.filter(|at| !rest[..*at].trim_end_matches(' ').is_empty());
        let Some(at) = within.or_else(|| Some(end + rest[end..].find(' ')?)) else {
            break;
        };
        parts.push(rest[..at].trim_end_matches(' '));
        rest = rest[at..].trim_start_matches(' ');
    }
    parts.push(rest);
    parts
}

/// The last blank that does not part a number from its unit.
fn division_of(text: &str) -> Option<usize> {
    let blanks = text.rmatch_indices(' ').map(|(at, _)| at);
    let mut divisions =
        blanks.filter(|at| !text[..*at].ends_with(|before: char| before.is_ascii_digit()));
    divisions.next()
}

/// The length of the longest word, a number and its unit being one.
pub(crate) fn longest_word(text: &str) -> usize {
    let (mut longest, mut rest) = (0, text);
    while let Some(at) = division_of(rest) {
        longest = longest.max(rest[at + 1..].chars().count());
        rest = &rest[..at];
    }
    longest.max(rest.chars().count())
}

/// Names of lines are no longer, with the blanks behind them.
const WIDEST_NAME: usize = 24;

/// Text inside HTML, in an attribute too.
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
    fn an_axis_has_the_same_letter_at_all_its_millions() {
        let ticks = [0.0, 5e6, 1e7, 1.5e7].map(short);
        assert_eq!(ticks, ["0", "5M", "10M", "15M"]);
        assert_eq!(
            [2.5e5, 1.25e6, 2.0347e6].map(short),
            ["250k", "1.25M", "2.03M"]
        );
    }

    /// Of a p95 whose unfinished were just sent a table had ">= 0.000".
    #[test]
    fn a_lower_bound_that_says_nothing_is_none() {
        struct Bound(f64, Option<f64>);
        impl Figure for Bound {
            fn figure(self) -> Option<f64> {
                Some(self.0)
            }
            fn is_lower_bound(&self) -> bool {
                true
            }
            fn lowest(&self) -> Option<f64> {
                self.1
            }
        }
        let three = |value: f64| format!("{value:.3}");
        assert_eq!(figure(Bound(0.000_4, None), three), None);
        assert_eq!(figure(Bound(2.0, Some(0.0)), three), None);
        assert_eq!(or_dash(Bound(0.0, None), millis), "–");
        let said = |bound| figure(bound, three).unwrap();
        assert_eq!(said(Bound(0.000_6, None)), ">= 0.001");
        assert_eq!(said(Bound(2.0, Some(1.5))), ">= 1.500");
        assert_eq!(figure(0.0, three).unwrap(), "0.000");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn times_are_written_to_the_second_and_nothing_has_no_sign() {
        assert_eq!(
            utc("2026-11-22T10:13:31.381788648Z"),
            "2026-11-22 10:13:31 UTC"
        );
        assert_eq!(utc("2026-11-22T10:13:31Z"), "2026-11-22 10:13:31 UTC");
        assert_eq!([-0.000_4, 0.012].map(percent_tenths), ["0.0 %", "1.2 %"]);
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
    fn long_lines_go_on_below_their_text_and_no_word_is_broken() {
        let why = "the generator's threads did not run in time and the rest of this is too long";
        assert_eq!(
            fit(&format!("limited by   {why}\nshort  one\n")),
            "limited by   the generator's threads did not run in time and the rest of this is\n             \
             too long\nshort  one\n"
        );
        let path = "/a".repeat(50);
        assert_eq!(
            fit(&format!("written to  {path}")),
            format!("written to  {path}")
        );
        assert_eq!(
            fit(&format!("in {path} and on")),
            format!("in\n{path}\nand on")
        );
        assert_eq!(
            fit(&"ä ".repeat(60)),
            format!("{}\n{}", "ä ".repeat(40).trim_end(), "ä ".repeat(20))
        );
        assert_eq!(fit(""), "");
        assert_eq!(fit("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\n");
    }

    #[test]
    fn a_number_stays_with_its_unit_and_a_list_hangs_behind_its_mark() {
        let line = format!(
            "             - {} 88.0 % of it",
            "word ".repeat(12).trim_end()
        );
        assert_eq!(
            fit(&line),
            format!(
                "             - {}\n               88.0 % of it",
                "word ".repeat(12).trim_end()
            )
        );
        assert_eq!(longest_word("0.7315 % of"), 8);
        // What is nothing but numbers is divided all the same.
        assert!(fit(&"1 ".repeat(60)).lines().all(|line| line.len() <= 80));
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
