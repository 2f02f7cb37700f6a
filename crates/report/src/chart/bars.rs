//! Bars that lie below each other, one for each named value.

use super::Tone;
use crate::html::{note, tag};
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
}
