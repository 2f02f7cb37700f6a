//! What stands above a plot.

use crate::html::tag;
use crate::text::escape;

/// The texts of marks and of the shaded stretch, above the plot, so that they cover nothing; those that would
/// overlap stand below each other. Each is given with its place in per cent of the width, a stretch with its end.
pub(super) fn lane<'a>(
    given: impl Iterator<Item = (f64, &'a str)>,
    shade: Option<(f64, &str)>,
) -> String {
    let mut marks: Vec<(f64, String)> = Vec::new();
    for (at, label) in given {
        match marks.last_mut() {
            Some((before, text)) if (at - *before).abs() < SAME_PERCENT => {
                *text += &format!(", {label}");
            }
            _ => marks.push((at, label.to_owned())),
        }
    }
    let mut rows: Vec<f64> = Vec::new();
    let mut row_of = |from: f64, to: f64| {
        let free = rows.iter().position(|end| *end < from);
        let row = free.unwrap_or(rows.len().min(LANE_ROWS - 1));
        match rows.get_mut(row) {
            Some(end) => *end = to.max(*end),
            None => rows.push(to),
        }
        row
    };
    let mut out = String::new();
    for (at, label) in marks {
        let width = label_percent(&label);
        let is_left = at + width > 100.0;
        let from = if is_left { at - width } else { at };
        let row = row_of(from, from + width);
        let side = if is_left { " l" } else { "" };
        let place = format!("b class=\"mark{side}\" style=\"left:{at:.2}%;--n:{row}\"");
        out += &tag(&place, &escape(&label));
    }
    if let Some((end, label)) = shade {
        let row = row_of(end - label_percent(label), end);
        let at = 100.0 - end;
        let place = format!("b class=\"zone\" style=\"right:{at:.2}%;--n:{row}\"");
        out += &tag(&place, &escape(label));
    }
    match rows.len() {
        0 => out,
        count => tag(&format!("div style=\"--rows:{count}\""), &out),
    }
}

/// The width that a label takes of a narrow chart.
fn label_percent(label: &str) -> f64 {
    (label.chars().count() as f64 * 1.8 + 2.0).min(40.0)
}

/// Marks nearer to each other than this share of the width are one.
const SAME_PERCENT: f64 = 0.3;
/// More than these stand over one another.
const LANE_ROWS: usize = 4;
