//! What can be read under the pointer, without a script: the browser shows titles by itself.

use super::draw::Picture;
use super::{Layer, Shape};
use crate::html::tag;
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
/// A line of fewer points says nothing that a strip over it would.
const MIN_READINGS: usize = 3;
