//! From layers to HTML and SVG.

use std::fmt::Write as _;

use super::heat::Rectangle;
use super::scale::{Ruler, Tick};
use super::{Bar, Chart, Layer, Shape};
use crate::report::text::escape;

/// The SVG's own units: whole numbers are fine enough and short.
const SIDE: f64 = 10_000.0;

pub(super) fn html(chart: &Chart) -> String {
    let picture = Picture::of(chart);
    let mut out = String::with_capacity(16 * 1024);
    out.push_str("<figure class=\"chart\">");
    let _ = write!(out, "<figcaption>{}</figcaption>", escape(&chart.title));
    if let Some(note) = &chart.note {
        let _ = write!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    legend(&mut out, chart);
    if picture.is_empty() {
        out.push_str(
            "<p class=\"none\">nothing to draw: no such values were recorded</p></figure>",
        );
        return out;
    }
    let y_ticks = picture.y.ticks(6);
    let width = y_ticks.iter().map(|tick| tick.text.chars().count()).max();
    let class = if chart.tall { "plot tall" } else { "plot" };
    let _ = write!(
        out,
        "<div class=\"{class}\" style=\"--y:{}ch\">",
        width.unwrap_or(1)
    );
    let _ = write!(out, "<div class=\"yl\">{}</div>", escape(&chart.y.label));
    out.push_str("<div class=\"ys\">");
    for tick in &y_ticks {
        let _ = write!(
            out,
            "<span style=\"bottom:{:.2}%\">{}</span>",
            tick.at * 100.0,
            escape(&tick.text)
        );
    }
    out.push_str("</div><div class=\"area\">");
    let x_ticks = picture.x.ticks(10);
    picture.svg(&mut out, &x_ticks, &y_ticks);
    words(&mut out, &picture);
    out.push_str("</div><div class=\"xs\">");
    for tick in &x_ticks {
        let class = if tick.minor { " class=\"n\"" } else { "" };
        let _ = write!(
            out,
            "<span{class} style=\"left:{:.2}%\">{}</span>",
            tick.at * 100.0,
            escape(&tick.text)
        );
    }
    let _ = write!(
        out,
        "</div><div class=\"xl\">{}</div></div></figure>",
        escape(&chart.x.label)
    );
    out
}

fn legend(out: &mut String, chart: &Chart) {
    let named: Vec<&Layer> = chart
        .layers
        .iter()
        .filter(|layer| !layer.name.is_empty())
        .collect();
    if named.is_empty() {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for layer in named {
        let shape = match layer.shape {
            Shape::Line(_) => "line",
            Shape::Dots(_) | Shape::Ranges(_) => "dot",
            Shape::Band(_) | Shape::Bars(_) => "box",
            Shape::Heat(_) => "ramp",
        };
        let _ = write!(
            out,
            "<li><i class=\"{shape} {}\"></i>{}</li>",
            layer.tone.class(),
            escape(&layer.name)
        );
    }
    out.push_str("</ul>");
}

/// The words of marks and levels, beside their lines.
fn words(out: &mut String, picture: &Picture<'_>) {
    for (x, label) in &picture.chart.marks {
        let at = picture.x.place(*x) * 100.0;
        let side = if at > 70.0 { " l" } else { "" };
        let _ = write!(
            out,
            "<b class=\"mark{side}\" style=\"left:{at:.2}%\">{}</b>",
            escape(label)
        );
    }
    for (y, label) in &picture.chart.levels {
        let _ = write!(
            out,
            "<b class=\"level\" style=\"bottom:{:.2}%\">{}</b>",
            picture.y.place(*y) * 100.0,
            escape(label)
        );
    }
}

/// A chart with the ranges of its axes.
struct Picture<'a> {
    chart: &'a Chart,
    x: Ruler,
    y: Ruler,
    empty: bool,
}

impl<'a> Picture<'a> {
    fn of(chart: &'a Chart) -> Self {
        let mut extent = Extent::default();
        for layer in &chart.layers {
            extent.take(&layer.shape);
        }
        let empty = extent.is_empty();
        for (y, _) in &chart.levels {
            extent.y(*y);
        }
        Self {
            chart,
            x: Ruler::new(&chart.x, extent.x.0, extent.x.1),
            y: Ruler::new(&chart.y, extent.y.0, extent.y.1),
            empty,
        }
    }

    const fn is_empty(&self) -> bool {
        self.empty
    }

    fn x(&self, value: f64) -> i32 {
        (self.x.place(value) * SIDE).round() as i32
    }

    /// Downwards, as SVG counts.
    fn y(&self, value: f64) -> i32 {
        ((1.0 - self.y.place(value)) * SIDE).round() as i32
    }

    fn svg(&self, out: &mut String, x_ticks: &[Tick], y_ticks: &[Tick]) {
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            escape(&self.chart.title)
        );
        self.grid(out, x_ticks, y_ticks);
        for layer in &self.chart.layers {
            self.layer(out, layer);
        }
        for (x, _) in &self.chart.marks {
            let _ = write!(out, "<path class=\"ml\" d=\"M{} 0v{SIDE}\"/>", self.x(*x));
        }
        for (y, _) in &self.chart.levels {
            let _ = write!(out, "<path class=\"ml\" d=\"M0 {}h{SIDE}\"/>", self.y(*y));
        }
        self.readings(out);
        out.push_str("</svg>");
    }

    fn grid(&self, out: &mut String, x_ticks: &[Tick], y_ticks: &[Tick]) {
        out.push_str("<path class=\"g\" d=\"");
        for tick in x_ticks {
            let _ = write!(out, "M{:.0} 0v{SIDE}", tick.at * SIDE);
        }
        for tick in y_ticks {
            let _ = write!(out, "M0 {:.0}h{SIDE}", (1.0 - tick.at) * SIDE);
        }
        out.push_str("\"/>");
    }

    fn layer(&self, out: &mut String, layer: &Layer) {
        let class = layer.tone.class();
        match &layer.shape {
            Shape::Line(pieces) => {
                let _ = write!(out, "<path class=\"s {class}\" d=\"");
                for piece in pieces {
                    self.polyline(out, piece.iter().copied());
                    if piece.len() == 1 {
                        out.push_str("h0");
                    }
                }
                out.push_str("\"/>");
            }
            Shape::Dots(points) => self.dots(out, &class, &layer.name, points),
            Shape::Ranges(ranges) => {
                let _ = write!(out, "<path class=\"r {class}\" d=\"");
                for (x, low, high) in ranges {
                    let _ = write!(out, "M{} {}V{}", self.x(*x), self.y(*low), self.y(*high));
                }
                out.push_str("\"/>");
            }
            Shape::Band(edges) => {
                let _ = write!(out, "<path class=\"a {class}\" d=\"");
                self.polyline(out, edges.iter().map(|(x, low, _)| (*x, *low)));
                for (x, _, high) in edges.iter().rev() {
                    let _ = write!(out, "L{} {}", self.x(*x), self.y(*high));
                }
                out.push_str("z\"/>");
            }
            Shape::Bars(bars) => self.bars(out, &class, &layer.name, bars),
            Shape::Heat(map) => {
                for (level, rectangles) in map.levels().iter().enumerate() {
                    self.shade(out, &class, level, rectangles);
                }
            }
        }
    }

    fn polyline(&self, out: &mut String, points: impl Iterator<Item = (f64, f64)>) {
        for (position, (x, y)) in points.enumerate() {
            let letter = if position == 0 { 'M' } else { 'L' };
            let _ = write!(out, "{letter}{} {}", self.x(x), self.y(y));
        }
    }

    /// A dot is a line without length and with round ends, so it stays round however the picture
    /// is stretched.
    fn dots(&self, out: &mut String, class: &str, name: &str, points: &[(f64, f64)]) {
        if points.len() > MAX_READINGS {
            let _ = write!(out, "<path class=\"d many {class}\" d=\"");
            for (x, y) in points {
                let _ = write!(out, "M{} {}h0", self.x(*x), self.y(*y));
            }
            out.push_str("\"/>");
            return;
        }
        for (x, y) in points {
            let _ = write!(
                out,
                "<path class=\"d {class}\" d=\"M{} {}h0\"><title>{} {} at {}</title></path>",
                self.x(*x),
                self.y(*y),
                escape(name),
                self.y.write(*y),
                self.x.write(*x)
            );
        }
    }

    fn bars(&self, out: &mut String, class: &str, name: &str, bars: &[Bar]) {
        for bar in bars.iter().filter(|bar| bar.height > 0.0) {
            let (left, right) = (self.x(bar.from), self.x(bar.to));
            let top = self.y(bar.height);
            let _ = write!(
                out,
                "<rect class=\"a {class}\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"><title>{} {} from {} to {}</title></rect>",
                right - left,
                SIDE as i32 - top,
                escape(name),
                self.y.write(bar.height),
                self.x.write(bar.from),
                self.x.write(bar.to)
            );
        }
    }

    fn shade(&self, out: &mut String, class: &str, level: usize, rectangles: &[Rectangle]) {
        if rectangles.is_empty() {
            return;
        }
        let _ = write!(out, "<path class=\"k k{level} {class}\" d=\"");
        for rectangle in rectangles {
            let (left, right) = (self.x(rectangle.x.0), self.x(rectangle.x.1));
            let (low, high) = (self.y(rectangle.y.0), self.y(rectangle.y.1));
            let (width, height) = (right - left, low - high);
            let _ = write!(out, "M{left} {high}h{width}v{height}h-{width}z");
        }
        out.push_str("\"/>");
    }

    /// Upright strips over the whole height, each with the values of all lines at its place.
    fn readings(&self, out: &mut String) {
        let lines: Vec<(&Layer, Vec<(f64, f64)>)> = self
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
            let left = i32::midpoint(self.x(before), self.x(*x));
            let right = i32::midpoint(self.x(*x), self.x(after));
            let _ = write!(
                out,
                "<rect class=\"h\" x=\"{left}\" width=\"{}\" height=\"{SIDE}\"><title>{}",
                (right - left).max(1),
                self.x.write(*x)
            );
            for (layer, points) in &lines {
                if let Some(y) = nearest(points, *x, (after - before).abs()) {
                    let _ = write!(out, "\n{} {}", escape(&layer.name), self.y.write(y));
                }
            }
            out.push_str("</title></rect>");
        }
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

/// The extent of all layers.
struct Extent {
    x: (f64, f64),
    y: (f64, f64),
}

impl Default for Extent {
    fn default() -> Self {
        Self {
            x: (f64::INFINITY, f64::NEG_INFINITY),
            y: (f64::INFINITY, f64::NEG_INFINITY),
        }
    }
}

impl Extent {
    fn is_empty(&self) -> bool {
        self.x.0 > self.x.1 || self.y.0 > self.y.1
    }

    fn take(&mut self, shape: &Shape) {
        match shape {
            Shape::Line(pieces) => pieces.iter().flatten().for_each(|point| self.point(*point)),
            Shape::Dots(points) => points.iter().for_each(|point| self.point(*point)),
            Shape::Ranges(ranges) | Shape::Band(ranges) => {
                for (x, low, high) in ranges {
                    self.point((*x, *low));
                    self.point((*x, *high));
                }
            }
            Shape::Bars(bars) => {
                for bar in bars {
                    self.point((bar.from, 0.0));
                    self.point((bar.to, bar.height));
                }
            }
            Shape::Heat(map) => {
                if let Some((low, high)) = map.y_range() {
                    let (from, to) = map.x_range();
                    self.point((from, low));
                    self.point((to, high));
                }
            }
        }
    }

    fn point(&mut self, (x, y): (f64, f64)) {
        self.x = (self.x.0.min(x), self.x.1.max(x));
        self.y(y);
    }

    fn y(&mut self, y: f64) {
        self.y = (self.y.0.min(y), self.y.1.max(y));
    }
}

/// Places at which a chart can be read under the pointer.
const MAX_READINGS: usize = 240;
/// A line of fewer points says nothing that a strip over it would.
const MIN_READINGS: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::{Axis, Bar, Chart, HeatMap, Tone, Unit};

    fn chart() -> Chart {
        Chart::new(
            "A <title>",
            Axis::time(),
            Axis::linear("rate", Unit::PerSecond),
        )
    }

    #[test]
    fn a_line_with_a_gap_has_two_pieces_and_can_be_read_under_the_pointer() {
        let points = [
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, 4.0),
            (4.0, 4.0),
        ];
        let html = chart().line("sent", Tone::Sent, points).html();
        let path = html.split("class=\"s t-sent\" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(html.contains("<title>3 s\nsent 4/s</title>"));
        assert!(html.contains("A &lt;title&gt;"));
        assert!(!html.contains('#'), "no fixed colours: {html}");
    }

    #[test]
    fn every_layer_has_its_class_and_its_word() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 100.0), 10);
        map.add(0, 5.0, 3);
        let html = chart()
            .heat("latency", Tone::P50, map)
            .dots("one", Tone::Nth(9), [(1.0, 2.0)])
            .band("spread", Tone::Accepted, [(0.0, 1.0, 2.0), (1.0, 1.5, 2.5)])
            .ranges("95 %", Tone::Committed, [(1.0, 2.0, 3.0)])
            .bars(
                "count",
                Tone::Depth,
                [Bar {
                    from: 0.0,
                    to: 1.0,
                    height: 3.0,
                }],
            )
            .mark(0.5, "here & now")
            .level(2.0, "knee")
            .html();
        for part in [
            "class=\"k k7 t-p50\"",
            "class=\"d t-1\"",
            "class=\"a t-accepted\"",
            "class=\"r t-committed\"",
            "<rect class=\"a t-depth\"",
            "here &amp; now",
            "knee",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        let html = chart().line("sent", Tone::Sent, []).html();
        assert!(html.contains("nothing to draw"));
    }
}
