//! What can be read under the pointer, without a script: the browser shows titles by itself.

use std::fmt::Write as _;

use super::draw::{Picture, SIDE};
use super::{Layer, Shape};
use crate::text::escape;

/// Upright strips over the whole height, each with the values of all lines at its place.
pub(super) fn write(picture: &Picture<'_>, out: &mut String) {
    let lines: Vec<(&Layer, Vec<(f64, f64)>)> = picture
        .chart
        .layers
        .iter()
        .filter_map(|layer| match &layer.shape {
            Shape::Line(pieces) if !layer.name.is_empty() => {
                Some((layer, pieces.iter().flatten().copied().collect()))
            }
            _ => None,
        })
        .collect();
    let Some((_, longest)) = lines.iter().max_by_key(|(_, points)| points.len()) else {
        return;
    };
    if longest.len() < MIN_READINGS {
        return;
    }
    let step = longest.len().div_ceil(MAX_READINGS);
    let places: Vec<f64> = longest.iter().step_by(step).map(|(x, _)| *x).collect();
    for (position, x) in places.iter().enumerate() {
        let before = position.checked_sub(1).map_or(*x, |before| places[before]);
        let after = places.get(position + 1).copied().unwrap_or(*x);
        let left = i32::midpoint(picture.x(before), picture.x(*x));
        let right = i32::midpoint(picture.x(*x), picture.x(after));
        let _ = write!(
            out,
            "<rect class=\"h\" x=\"{left}\" width=\"{}\" height=\"{SIDE}\"><title>{}",
            (right - left).max(1),
            picture.x.write(*x)
        );
        for (layer, points) in &lines {
            if let Some(y) = nearest(points, *x, (after - before).abs()) {
                let _ = write!(out, "\n{} {}", escape(&layer.name), picture.y.write(y));
            }
        }
        out.push_str("</title></rect>");
    }
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

/// Places at which a chart can be read under the pointer.
pub(super) const MAX_READINGS: usize = 240;
/// A line of fewer points says nothing that a strip over it would.
const MIN_READINGS: usize = 3;
