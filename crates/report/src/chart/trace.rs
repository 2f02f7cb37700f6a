//! SVG paths in few bytes: no more points than a reader can distinguish, each relative to the one before.

use super::draw::{HEIGHT, SIDE};

/// A point of the drawing, in the units of its coordinates.
type Point = (i32, i32);

/// A path under construction.
#[derive(Debug, Default)]
pub(super) struct PathBuilder {
    d: String,
    at: Point,
    command: Option<char>,
}

impl PathBuilder {
    /// Begins at `to` without drawing.
    pub(super) fn jump(&mut self, to: Point) {
        let first = self.command.is_none();
        self.write(if first { 'M' } else { 'm' }, to, true, true);
    }

    pub(super) fn line(&mut self, to: Point) {
        self.write('l', to, true, true);
    }

    pub(super) fn level(&mut self, x: i32) {
        self.write('h', (x, self.at.1), true, false);
    }

    pub(super) fn upright(&mut self, y: i32) {
        self.write('v', (self.at.0, y), false, true);
    }

    /// A line of no length, which round ends make a dot. It stays round when the picture is stretched.
    pub(super) fn dot(&mut self, at: Point) {
        self.jump(at);
        self.level(at.0);
    }

    pub(super) fn polyline(&mut self, points: impl IntoIterator<Item = Point>) {
        for (number, point) in points.into_iter().enumerate() {
            match number {
                0 => self.jump(point),
                _ => self.line(point),
            }
        }
    }

    /// Draws a level line over each span (from, to, y), and upright lines between them.
    pub(super) fn staircase(&mut self, spans: impl IntoIterator<Item = (i32, i32, i32)>) {
        for (number, (from, to, y)) in spans.into_iter().enumerate() {
            match number {
                0 => self.jump((from, y)),
                _ => self.upright(y),
            }
            self.level(to);
        }
    }

    pub(super) fn path(self, class: &str) -> String {
        format!("<path class=\"{class}\" d=\"{}\"/>", self.d)
    }

    fn write(&mut self, command: char, to: Point, writes_x: bool, writes_y: bool) {
        if self.command != Some(command) {
            self.d.push(command);
        }
        let (dx, dy) = (to.0 - self.at.0, to.1 - self.at.1);
        for (delta, wanted) in [(dx, writes_x), (dy, writes_y)] {
            let after_digit = self.d.ends_with(|last: char| last.is_ascii_digit());
            if wanted {
                let blank = if after_digit && delta >= 0 { " " } else { "" };
                self.d += &format!("{blank}{delta}");
            }
        }
        self.at = to;
        self.command = Some(command);
    }
}

/// Keeps of a line's points in each column the first, the lowest, the highest and the last, in their order.
pub(super) fn thin_line(points: &[Point]) -> Vec<Point> {
    let columns = points.chunk_by(|one, next| column(one.0) == column(next.0));
    let kept = columns.flat_map(|points| {
        let places = 0..points.len();
        let low = places.clone().min_by_key(|place| points[*place].1);
        let high = places.max_by_key(|place| points[*place].1);
        let mut kept = [Some(0), low, high, Some(points.len() - 1)];
        kept.sort_unstable();
        let mut kept: Vec<usize> = kept.into_iter().flatten().collect();
        kept.dedup();
        kept.into_iter().map(|place| points[place])
    });
    kept.collect()
}

/// Joins consecutive spans (from, to, y) that begin in the same column to one, at their mean.
pub(super) fn thin_spans(
    spans: &[(f64, f64, f64)],
    x: impl Fn(f64) -> i32,
) -> Vec<(f64, f64, f64)> {
    let columns = spans.chunk_by(|one, next| column(x(one.0)) == column(x(next.0)));
    let merged = columns.map(|spans| {
        let (from, to) = (spans[0].0, spans[spans.len() - 1].1);
        let area: f64 = spans.iter().map(|(from, to, y)| (to - from) * y).sum();
        match spans {
            [only] => *only,
            _ => (from, to, area / (to - from)),
        }
    });
    merged.collect()
}

/// Joins the upright lines (x, y, y) of each column to one that covers all of them.
pub(super) fn thin_ranges(ranges: &[(i32, i32, i32)]) -> Vec<(i32, i32, i32)> {
    let columns = ranges.chunk_by(|one, next| column(one.0) == column(next.0));
    let merged = columns.map(|ranges| {
        let ends = ranges.iter().flat_map(|range| [range.1, range.2]);
        let (low, high) = ends.fold((i32::MAX, i32::MIN), |(low, high), end| {
            (low.min(end), high.max(end))
        });
        match ranges {
            [only] => *only,
            _ => (ranges[ranges.len() / 2].0, low, high),
        }
    });
    merged.collect()
}

/// Keeps one of the dots that would cover each other.
pub(super) fn thin_dots(dots: impl Iterator<Item = Point>) -> Vec<Point> {
    let cell = |(x, y): Point| (x / CELL.0 * CELL.0, y / CELL.1 * CELL.1);
    let mut cells: Vec<Point> = dots.map(cell).collect();
    cells.sort_unstable();
    cells.dedup();
    cells
}

const fn column(x: i32) -> i32 {
    x / COLUMN
}

/// The width of a column, in which lines cannot be distinguished: a chart has more pixels than 240.
const COLUMN: i32 = SIDE as i32 / 240;
/// The sides of a cell that a dot of three pixels fills in a chart of 750.
const CELL: Point = (SIDE as i32 / 250, HEIGHT as i32 / 250);

#[cfg(test)]
mod tests {
    use super::super::{Axis, Chart, Tone, Unit};
    use super::*;

    #[test]
    fn a_path_counts_from_place_to_place() {
        let mut trace = PathBuilder::default();
        trace.polyline([(10, 20), (15, 10), (15, 30)]);
        trace.dot((0, 30));
        trace.staircase([(0, 4, 7), (4, 8, 9)]);
        assert_eq!(
            trace.path("s"),
            "<path class=\"s\" d=\"M10 20l5-10 0 20m-15 0h0m0-23h4v2h4\"/>"
        );
    }

    #[test]
    fn what_is_thinned_keeps_its_ends_and_its_heights() {
        let points: Vec<Point> = (0..40_i32).map(|x| (x, (x - 20).abs())).collect();
        assert_eq!(thin_line(&points), [(0, 20), (20, 0), (39, 19)]);
        assert_eq!(thin_line(&[(0, 1), (1, 1)]), [(0, 1), (1, 1)]);
        let spans = [(0.0, 1.0, 4.0), (1.0, 4.0, 8.0), (50.0, 51.0, 1.0)];
        let merged = thin_spans(&spans, |x| x as i32);
        assert_eq!(merged, [(0.0, 4.0, 7.0), (50.0, 51.0, 1.0)]);
        assert_eq!(
            thin_ranges(&[(0, 9, 4), (1, 5, 2), (90, 3, 1)]),
            [(1, 2, 9), (90, 3, 1)]
        );
        assert_eq!(
            thin_dots([(81, 1), (2, 3), (3, 2)].into_iter()),
            [(0, 0), (80, 0)]
        );
    }

    /// Of every kind of layer, as each may be of all seconds of a day.
    #[test]
    fn a_chart_of_a_day_takes_no_more_than_one_of_some_minutes() {
        let height = |second: u32| f64::from(second * 7_919 % 1_009);
        let seconds = || (0..86_400).map(|second| (f64::from(second), height(second)));
        let chart = || Chart::new("", Axis::time(), Axis::linear("", Unit::Number));
        let charts = [
            chart().line("a", Tone::Sent, seconds()),
            chart().steps("a", Tone::Sent, seconds().map(|(x, y)| (x, x + 1.0, y))),
            chart().ranges("a", Tone::Sent, seconds().map(|(x, y)| (x, y, y + 9.0))),
            chart().dots(
                "a",
                Tone::Sent,
                seconds().map(|(x, y)| (x, (y / 100.0).round())),
            ),
        ];
        for chart in charts {
            let bytes = chart.html().len();
            assert!(bytes < 35_000, "{bytes}");
        }
    }
}
