//! Bars: below each other, one for each named value, on a page; columns on a terminal.

use super::Tone;
use crate::page::{note, tag};
use crate::text::escape;

/// A value with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedBar {
    /// What it is of.
    pub name: String,
    /// How long it is; nothing is drawn of less than 0, nor of what is no number.
    pub value: f64,
    /// Its colour.
    pub tone: Tone,
    /// The value in words.
    pub text: String,
}

/// Draws the bars on one scale from 0 to the largest of them.
pub fn bars(title: &str, about: &str, bars: &[NamedBar]) -> String {
    let values = bars.iter().map(|bar| bar.value);
    let most = values
        .filter(|value| value.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    let bar = |bar: &NamedBar| {
        let share = (bar.value / most).clamp(0.0, 1.0) * 100.0;
        let class = bar.tone.class();
        let drawn = if share.is_nan() {
            String::new()
        } else {
            tag(
                &format!("i class=\"{class}\" style=\"width:{share:.2}%\""),
                "",
            )
        };
        let name = tag("span class=\"fn\"", &escape(&bar.name));
        name + &tag("span", &drawn) + &tag("span class=\"ft\"", &escape(&bar.text))
    };
    let drawn: String = bars.iter().map(bar).collect();
    let caption = tag("figcaption", &escape(title)) + &note(about);
    tag(
        "figure class=\"chart\"",
        &(caption + &tag("div class=\"bars\"", &drawn)),
    )
}

/// Draws one column for each of `values`, none of which is below 0, six lines high: the values of the
/// axis to the left as `label` writes them, what the first and the last column stand for below.
pub fn columns(values: &[f64], label: impl Fn(f64) -> String, from: &str, to: &str) -> String {
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut text = String::new();
    for line in (0..LINES).rev() {
        let label = label(top * (line + 1) as f64 / LINES as f64);
        text += &format!("{label:>MARGIN$} ┤");
        text.extend(values.iter().map(|value| {
            let eighths = (value / top * (LINES * 8) as f64).round() as usize;
            EIGHTHS[eighths.saturating_sub(line * 8).min(8)]
        }));
        text.push('\n');
    }
    let axis = "─".repeat(values.len());
    let width = values.len().saturating_sub(from.chars().count());
    text + &format!(
        "{:MARGIN$} └{axis}\n{:MARGIN$}  {from}{to:>width$}\n",
        "", ""
    )
}

const LINES: usize = 6;
/// Room for the labels of the axis.
const MARGIN: usize = 10;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_the_whole_width_and_nothing_that_is_no_number_is_drawn() {
        let bar = |name: &str, value| NamedBar {
            name: name.into(),
            value,
            tone: Tone::Committed,
            text: "<text>".into(),
        };
        let drawn = [bar("a & b", 50.0), bar("c", 200.0), bar("d", f64::NAN)];
        let html = bars("Rates", "", &drawn);
        for part in ["width:25.00%", "width:100.00%", "a &amp; b", "&lt;text&gt;"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert_eq!(html.matches("<i ").count(), 2, "{html}");
    }

    #[test]
    fn columns_have_the_shape_of_the_values() {
        let values: Vec<f64> = (1..=60).map(f64::from).collect();
        let text = columns(&values, |value| format!("{value:.0}/s"), "0s", "60s …");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        let filled = |line: &str| line.chars().filter(|c| EIGHTHS[1..].contains(c)).count();
        let counts: Vec<usize> = lines[..LINES].iter().map(|line| filled(line)).collect();
        assert!(counts.is_sorted(), "{text}");
        assert!((8..=12).contains(&counts[0]), "{text}");
        assert!((57..=60).contains(&counts[LINES - 1]), "{text}");
        assert!(lines[0].starts_with("      60/s ┤"), "{text}");
        let ends = lines[LINES + 1];
        assert!(
            ends.starts_with("            0s ") && ends.ends_with(" 60s …"),
            "{text}"
        );
        assert_eq!(ends.chars().count(), MARGIN + 2 + 60);
    }
}
