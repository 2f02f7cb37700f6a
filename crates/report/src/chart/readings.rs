//! What can be read of a plot: under the pointer, without a script, as the browser shows titles by itself; and above it.

use super::draw::Picture;
use super::{Layer, Shape};
use crate::page::tag;
use crate::text::escape;

/// Upright strips over the whole height, each with the values of all lines at its place.
pub(super) fn strips(picture: &Picture<'_>) -> String {
    let named = picture.chart.layers.iter().filter(|it| !it.name.is_empty());
    let lines: Vec<(&Layer, Vec<(f64, f64)>)> = named
        .filter_map(|layer| match &layer.shape {
            Shape::Line(pieces) => Some((layer, pieces.concat())),
            Shape::Steps(pieces) => {
                let middles = pieces.iter().flatten();
                let middles = middles.map(|(from, to, y)| (f64::midpoint(*from, *to), *y));
                Some((layer, middles.collect()))
            }
            _ => None,
        })
        .collect();
    let longest = lines.iter().max_by_key(|(_, points)| points.len());
    let longest = longest.map_or(&[][..], |(_, points)| points);
    if longest.len() < MIN_READINGS {
        return String::new();
    }
    let step = longest.len().div_ceil(MAX_READINGS);
    let places: Vec<f64> = longest.iter().step_by(step).map(|(x, _)| *x).collect();
    let edge = |place: usize| {
        let before = places[place.saturating_sub(1)];
        let after = places.get(place).copied().unwrap_or(before);
        i32::midpoint(picture.x(before), picture.x(after))
    };
    let edges: Vec<i32> = (0..=places.len()).map(edge).collect();
    // Nearly all are equally wide.
    let mut widths: Vec<i32> = edges.windows(2).map(|it| (it[1] - it[0]).max(1)).collect();
    let strips = places.iter().enumerate().map(|(place, x)| {
        let before = places[place.saturating_sub(1)];
        let after = places.get(place + 1).copied().unwrap_or(*x);
        let mut title = picture.x.write(*x);
        for (layer, points) in &lines {
            if let Some(y) = nearest(points, *x, (after - before).abs()) {
                title += &format!("\n{} {}", escape(&layer.name), picture.y.write(y));
            }
        }
        (edges[place], widths[place], tag("title", &title))
    });
    let strips: Vec<(i32, i32, String)> = strips.collect();
    widths.sort_unstable();
    let usual = widths[widths.len() / 2];
    let strip = |(left, width, title): &(i32, i32, String)| {
        let own = match (width - usual).abs() {
            0 | 1 => String::new(),
            _ => format!(" style=\"width:{width}px\""),
        };
        tag(&format!("rect x=\"{left}\"{own}"), title)
    };
    let end = edges[places.len()];
    tag(
        &format!("g class=\"h\" style=\"--w:{usual}px\" data-end=\"{end}\""),
        &strips.iter().map(strip).collect::<String>(),
    )
}

/// The y of the point nearest to `x`, if there is one within `reach`.
fn nearest(points: &[(f64, f64)], x: f64, reach: f64) -> Option<f64> {
    let after = points.partition_point(|point| point.0 < x);
    let candidates = [after.checked_sub(1), Some(after)];
    let (distance, y) = candidates
        .into_iter()
        .flatten()
        .filter_map(|position| points.get(position))
        .map(|point| ((point.0 - x).abs(), point.1))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    (distance <= reach).then_some(y)
}

/// Places at which a chart can be read under the pointer: with more of them the page of an hour has half a megabyte.
const MAX_READINGS: usize = 80;
/// A line of fewer points needs no strip over it.
const MIN_READINGS: usize = 3;

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
