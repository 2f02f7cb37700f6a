//! A forest plot: changes with their intervals, one below the other on one axis.

use super::Tone;
use crate::page::{note, tag};
use crate::text::escape;

/// A change and the interval around it, as shares: 0.05 is 5 % more.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestRow {
    /// What changed.
    pub name: String,
    /// By how much.
    pub by: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// What the change means.
    pub tone: Tone,
    /// The same in words.
    pub text: String,
}

/// Draws the rows around a line at no change. Every row has the same scale, which ends at `widest` on
/// either side at the most; an interval that goes on beyond has no end cap there.
pub fn forest(title: &str, about: &str, rows: &[ForestRow], widest: f64) -> String {
    let ends = rows
        .iter()
        .flat_map(|row| [row.low.abs(), row.high.abs(), row.by.abs()]);
    let reach = ends.filter(|end| end.is_finite()).fold(SMALLEST, f64::max);
    let reach = super::round_up(reach.min(widest), &[1.0, 2.0, 5.0]);
    let row = |row: &ForestRow| {
        let plot = tag("span class=\"fp\"", &interval(row, reach));
        let name = tag("span class=\"fn\"", &escape(&row.name));
        name + &plot + &tag("span class=\"ft\"", &escape(&row.text))
    };
    let ticks = [-reach, -reach / 2.0, 0.0, reach / 2.0, reach].map(|at| {
        let percent = format!("{:+}", (at * 1e4).round() / 100.0);
        let text = if at == 0.0 {
            "no change".to_owned()
        } else {
            format!("{percent} %")
        };
        // Where room is scarce, those between are left out.
        let class = if at.abs() == reach / 2.0 {
            " class=\"n\""
        } else {
            ""
        };
        let place = format!("span{class} style=\"left:{:.2}%\"", place(at, reach));
        tag(&place, &text)
    });
    let axis = tag("span class=\"fn\"", "") + &tag("span class=\"fp xs\"", &ticks.concat());
    let body: String = rows.iter().map(row).collect();
    let plot = tag("div class=\"forest\"", &(body + &axis));
    let caption = tag("figcaption", &escape(title)) + &note(about);
    tag("figure class=\"chart\"", &(caption + &plot))
}

/// The stroke of an interval and the dot on it.
fn interval(row: &ForestRow, reach: f64) -> String {
    let class = row.tone.class();
    let (low, high) = (place(row.low, reach), place(row.high, reach));
    let caps = [(row.low >= -reach, "cl"), (row.high <= reach, "ch")];
    let caps = caps
        .map(|(inside, cap)| if inside { cap } else { "" })
        .join(" ");
    let stroke = format!(
        "i class=\"fi {caps} {class}\" style=\"left:{low:.2}%;width:{:.2}%\"",
        high - low
    );
    let dot = format!(
        "i class=\"fd {class}\" style=\"left:{:.2}%\"",
        place(row.by, reach)
    );
    tag(&stroke, "") + &tag(&dot, "")
}

/// Per cent of the width.
fn place(value: f64, reach: f64) -> f64 {
    let share = if value.is_nan() {
        0.0
    } else {
        (value / reach).clamp(-1.0, 1.0)
    };
    50.0 + share * 50.0
}

/// A narrower axis would make much of nothing.
const SMALLEST: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_lie_around_the_line_of_no_change_on_one_scale() {
        let row = |name: &str, by, low, high| ForestRow {
            name: name.into(),
            by,
            low,
            high,
            tone: Tone::Bad,
            text: "<figures>".into(),
        };
        let rows = [
            row("slower", 0.1, 0.05, 0.2),
            row("unknown", 5.0, f64::NEG_INFINITY, f64::INFINITY),
        ];
        let html = forest("A & B", "", &rows, 0.5);
        assert!(
            html.contains("fi cl ch t-bad\" style=\"left:55.00%;width:15.00%"),
            "{html}"
        );
        assert!(html.contains("left:0.00%;width:100.00%"), "{html}");
        assert_eq!(
            html.matches("fi cl").count(),
            1,
            "no cap where an interval goes on: {html}"
        );
        assert!(
            html.contains("&lt;figures&gt;") && html.contains("+50 %"),
            "{html}"
        );
        assert_eq!(html.matches("<span class=\"n\"").count(), 2, "{html}");
    }
}
