//! From layers to HTML and SVG.

use std::fmt::Write as _;

use super::extent::Extent;
use super::heat::Rectangle;
use super::readings::{self, MAX_READINGS};
use super::scale::{Ruler, Tick};
use super::{Bar, Chart, Layer, Shape};
use crate::text::escape;

/// The SVG's own units: whole numbers are fine enough and short.
pub(super) const SIDE: f64 = 10_000.0;

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
    // Several runs may be one party: they share a word.
    let mut named: Vec<&Layer> = Vec::new();
    for layer in &chart.layers {
        let same = |known: &&Layer| known.name == layer.name && known.tone == layer.tone;
        if !layer.name.is_empty() && !named.iter().any(same) {
            named.push(layer);
        }
    }
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
pub(super) struct Picture<'a> {
    pub(super) chart: &'a Chart,
    pub(super) x: Ruler,
    pub(super) y: Ruler,
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
            extent.also_y(*y);
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

    pub(super) fn x(&self, value: f64) -> i32 {
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
        readings::write(self, out);
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
                let (lone, joined): (Vec<_>, Vec<_>) =
                    pieces.iter().partition(|piece| piece.len() == 1);
                let _ = write!(out, "<path class=\"s {class}\" d=\"");
                for piece in joined {
                    self.polyline(out, piece.iter().copied());
                }
                out.push_str("\"/>");
                if !lone.is_empty() {
                    // A point between two gaps would not be seen in the width of a line.
                    let _ = write!(out, "<path class=\"d lone {class}\" d=\"");
                    for (x, y) in lone.into_iter().flatten() {
                        let _ = write!(out, "M{} {}h0", self.x(*x), self.y(*y));
                    }
                    out.push_str("\"/>");
                }
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
}

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

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            cases: 64,
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn any_values_at_all_make_a_chart(
            points in proptest::collection::vec(proptest::num::f64::ANY, 0..40),
        ) {
            let pairs = || points.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            let triples = || points.chunks_exact(3).map(|three| (three[0], three[1], three[2]));
            for y in [Axis::linear("", Unit::Millis), Axis::log("", Unit::Millis), Axis::percentile()] {
                for x in [Axis::time(), Axis::log("", Unit::Number).from(None), Axis::percentile()] {
                    let html = Chart::new("", x, y.clone())
                        .line("a", Tone::Sent, pairs())
                        .dots("b", Tone::Sent, pairs())
                        .band("c", Tone::Sent, triples())
                        .ranges("d", Tone::Sent, triples())
                        .html();
                    proptest::prop_assert!(html.len() < 200_000);
                    proptest::prop_assert!(!html.contains("NaN"));
                }
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        let html = chart().line("sent", Tone::Sent, []).html();
        assert!(html.contains("nothing to draw"));
    }
}
