//! From layers to HTML and SVG.

use super::bars::{HeatMap, Rectangle};
use super::readings::{self, lane};
use super::scale::{Ruler, Tick};
use super::trace::{PathBuilder, thin_dots, thin_line, thin_ranges, thin_spans};
use super::{Bar, Chart, Layer, Shape};
use crate::page::{none, note, tag};
use crate::text::escape;

/// The SVG's own units: whole numbers are fine enough and short.
pub(super) const SIDE: f64 = 10_000.0;
/// Of the height: a third of a pixel of the tallest chart, and a digit shorter than [`SIDE`].
pub(super) const HEIGHT: f64 = 1_000.0;

pub(super) fn html(chart: &Chart) -> String {
    let picture = Picture::of(chart);
    let mut out = tag("figcaption", &escape(&chart.title));
    if let Some(text) = &chart.note {
        out += &note(text);
    }
    out += &legend(chart);
    out += &if picture.empty {
        none("nothing to draw: no such values were recorded")
    } else {
        plot(&picture)
    };
    tag("figure class=\"chart\"", &out)
}

/// The drawing between its axes.
fn plot(picture: &Picture<'_>) -> String {
    let chart = picture.chart;
    let (x_ticks, y_ticks) = (picture.x.ticks(10), picture.y.ticks(6));
    let widths = y_ticks.iter().map(|tick| tick.text.chars().count());
    let y_width = widths.max().unwrap_or(1);
    let y_tick = |tick: &Tick| {
        let place = format!("span style=\"bottom:{:.2}%\"", tick.at * 100.0);
        tag(&place, &escape(&tick.text))
    };
    // Centred under its place it would reach beyond the page.
    let is_beyond = |tick: &Tick| {
        let half = tick.text.chars().count() as f64 * HALF_LETTER;
        tick.at > LAST_AT || tick.at + half > PAGE_END
    };
    let last = x_ticks.last().filter(|tick| is_beyond(tick));
    let x_tick = |tick: &Tick| {
        let is_near_last = last.is_some_and(|last| tick.at > last.at - LAST_WIDTH);
        let class = if is_beyond(tick) {
            " class=\"e\""
        } else if tick.minor || is_near_last {
            " class=\"n\""
        } else {
            ""
        };
        let place = format!("span{class} style=\"left:{:.2}%\"", tick.at * 100.0);
        tag(&place, &escape(&tick.text))
    };
    let percent = |x: f64| picture.x.place(x) * 100.0;
    let marks = chart.marks.iter().map(|(x, label)| (percent(*x), &**label));
    let shade = chart.shade.as_ref();
    let shade = shade.map(|(_, to, label)| (percent(*to), &**label));
    let parts = [
        ("yl", escape(&chart.y.label).into_owned()),
        ("lane", lane(marks, shade)),
        ("ys", y_ticks.iter().map(y_tick).collect()),
        ("area", picture.svg(&x_ticks, &y_ticks)),
        ("xs", x_ticks.iter().map(x_tick).collect()),
        ("xl", escape(&chart.x.label).into_owned()),
    ];
    let parts = parts.map(|(class, html)| match (class, html.is_empty()) {
        ("lane", true) => String::new(),
        _ => tag(&format!("div class=\"{class}\""), &html),
    });
    let class = if chart.tall { "plot tall" } else { "plot" };
    let range = picture.x.range();
    let range = range.map_or(String::new(), |range| format!(" data-x=\"{range}\""));
    tag(
        &format!("div class=\"{class}\" style=\"--y:{y_width}ch\"{range}"),
        &parts.concat(),
    )
}

/// The layers with an entry of their own in the legend, in its order.
fn entries(chart: &Chart) -> Vec<&Layer> {
    // Several runs may belong to one side of a comparison: they share an entry.
    let mut named: Vec<&Layer> = Vec::new();
    for layer in &chart.layers {
        let is_shown = !layer.name.is_empty() && !layer.shape.points().is_empty();
        if is_shown && !named.iter().any(|known| known.is_like(layer)) {
            named.push(layer);
        }
    }
    named
}

fn legend(chart: &Chart) -> String {
    let named = entries(chart);
    if named.is_empty() && chart.levels.is_empty() {
        return String::new();
    }
    let entry = |layer: &Layer| {
        let symbol = match layer.shape {
            Shape::Line(_) => "line",
            Shape::Steps(_) => "line st",
            Shape::Dots(_) => "dot",
            Shape::Ranges(_) => "range",
            Shape::Bars(_) => "box",
            Shape::Heat(_) => "ramp",
        };
        let class = format!("i class=\"{symbol} {}\"", layer.tone.class());
        tag("li", &(tag(&class, "") + &escape(&layer.name)))
    };
    let level =
        |(_, label): &(f64, String)| tag("li", &(tag("i class=\"line ml\"", "") + &escape(label)));
    let entries = named.into_iter().map(entry);
    let entries = entries.chain(chart.levels.iter().map(level));
    tag("ul class=\"legend\"", &entries.collect::<String>())
}

/// Beyond this share of the width a label of the axis ends where the others have their middle.
const LAST_AT: f64 = 0.97;
/// Half the width of a letter of a narrow chart, and where its page ends, in widths of the chart.
const HALF_LETTER: f64 = 0.011_5;
const PAGE_END: f64 = 1.03;
/// The width that such a label takes of a narrow chart, with half of the one before it.
const LAST_WIDTH: f64 = 0.25;

/// With more dots than this, no dot has a title of its own.
const MAX_NAMED_DOTS: usize = 240;

/// A chart with the ranges of its axes.
pub(super) struct Picture<'a> {
    pub(super) chart: &'a Chart,
    pub(super) x: Ruler,
    pub(super) y: Ruler,
    empty: bool,
}

impl<'a> Picture<'a> {
    fn of(chart: &'a Chart) -> Self {
        let layers = chart.layers.iter();
        let points: Vec<(f64, f64)> = layers.flat_map(|it| it.shape.points()).collect();
        let levels = chart.levels.iter().map(|(y, _)| *y);
        let x = reach(points.iter().map(|point| point.0));
        let y = reach(points.iter().map(|point| point.1).chain(levels));
        Self {
            chart,
            x: Ruler::new(&chart.x, x.0, x.1),
            y: Ruler::new(&chart.y, y.0, y.1),
            empty: points.is_empty(),
        }
    }

    pub(super) fn x(&self, value: f64) -> i32 {
        (self.x.place(value) * SIDE).round() as i32
    }

    /// Downwards, as SVG counts.
    fn y(&self, value: f64) -> i32 {
        ((1.0 - self.y.place(value)) * HEIGHT).round() as i32
    }

    fn svg(&self, x_ticks: &[Tick], y_ticks: &[Tick]) -> String {
        let x_grid = x_ticks.iter().map(|tick| upright(tick.at * SIDE));
        let y_grid = y_ticks.iter().map(|tick| level((1.0 - tick.at) * HEIGHT));
        let shade = self.chart.shade.iter().map(|(from, to, _)| {
            let (left, right) = (self.x(*from), self.x(*to));
            let width = right - left;
            path("z", &format!("M{left} 0h{width}v{HEIGHT}h-{width}z"))
        });
        let mut out: String = shade.collect();
        out += &path("g", &x_grid.chain(y_grid).collect::<String>());
        let entries = entries(self.chart);
        out.extend(self.chart.layers.iter().map(|layer| {
            let html = self.layer(layer);
            match entries.iter().position(|entry| entry.is_like(layer)) {
                Some(entry) => tag(&format!("g data-l=\"{entry}\""), &html),
                None => html,
            }
        }));
        let marks = self.chart.marks.iter();
        out.extend(marks.map(|(x, _)| path("ml", &upright(f64::from(self.x(*x))))));
        let levels = self.chart.levels.iter();
        out.extend(levels.map(|(y, _)| path("ml", &level(f64::from(self.y(*y))))));
        out += &readings::strips(self);
        let title = escape(&self.chart.title);
        tag(
            &format!(
                "svg viewBox=\"0 0 {SIDE} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{title}\""
            ),
            &out,
        )
    }

    fn layer(&self, layer: &Layer) -> String {
        let class = layer.tone.class();
        match &layer.shape {
            Shape::Line(pieces) => self.line(&class, pieces),
            Shape::Steps(pieces) => self.staircases(&class, pieces),
            Shape::Dots(points) => self.dots(&class, &layer.name, points),
            Shape::Ranges(ranges) => self.ranges(&class, ranges),
            Shape::Bars(bars) => {
                let bars = bars.iter().filter(|bar| bar.height > 0.0);
                bars.map(|bar| self.bar(&class, &layer.name, bar)).collect()
            }
            Shape::Heat(map) => self.heat(&class, map),
        }
    }

    /// Each rectangle is one upright stroke as wide as a column, which takes half the letters of its outline.
    fn heat(&self, class: &str, map: &HeatMap) -> String {
        let levels = map.levels().into_iter().enumerate();
        let levels = levels.filter(|(_, rectangles)| !rectangles.is_empty());
        levels
            .map(|(level, rectangles)| {
                let mut trace = PathBuilder::default();
                for Rectangle { x, y } in &rectangles {
                    trace.jump(self.place(f64::midpoint(x.0, x.1), y.0));
                    trace.upright(self.y(y.1));
                }
                let (from, to) = rectangles[0].x;
                // A unit more than a column: rounded places leave no gap.
                let width = (self.x.place(to) - self.x.place(from)) * SIDE + 1.0;
                trace.path(&format!("k k{level} {class}\" stroke-width=\"{width:.1}"))
            })
            .collect()
    }

    fn place(&self, x: f64, y: f64) -> (i32, i32) {
        (self.x(x), self.y(y))
    }

    fn line(&self, class: &str, pieces: &[Vec<(f64, f64)>]) -> String {
        // A point between two gaps would not be seen in the width of a line.
        let (mut line, mut lone) = (PathBuilder::default(), None);
        for piece in pieces {
            let places: Vec<_> = piece.iter().map(|(x, y)| self.place(*x, *y)).collect();
            match places[..] {
                [only] => lone.get_or_insert_with(PathBuilder::default).dot(only),
                _ => line.polyline(thin_line(&places)),
            }
        }
        let lone = lone.map(|lone| lone.path(&format!("d lone {class}")));
        line.path(&format!("s {class}")) + &lone.unwrap_or_default()
    }

    fn staircases(&self, class: &str, pieces: &[Vec<(f64, f64, f64)>]) -> String {
        let mut trace = PathBuilder::default();
        for piece in pieces {
            let spans = thin_spans(piece, |x| self.x(x));
            trace.staircase(
                spans
                    .iter()
                    .map(|(from, to, y)| (self.x(*from), self.x(*to), self.y(*y))),
            );
        }
        trace.path(&format!("s st {class}"))
    }

    fn ranges(&self, class: &str, ranges: &[(f64, f64, f64)]) -> String {
        let place = |(x, low, high): &(f64, f64, f64)| (self.x(*x), self.y(*low), self.y(*high));
        let ranges: Vec<_> = ranges.iter().map(place).collect();
        let mut trace = PathBuilder::default();
        for (x, low, high) in thin_ranges(&ranges) {
            trace.jump((x, low));
            trace.upright(high);
        }
        trace.path(&format!("r {class}"))
    }

    fn dots(&self, class: &str, name: &str, points: &[(f64, f64)]) -> String {
        let places = points.iter().map(|(x, y)| self.place(*x, *y));
        if points.len() > MAX_NAMED_DOTS {
            let mut trace = PathBuilder::default();
            thin_dots(places).into_iter().for_each(|at| trace.dot(at));
            return trace.path(&format!("d many {class}"));
        }
        let name = escape(name);
        let dots = points.iter().zip(places).map(|((x, y), (left, top))| {
            let title = format!("{name} {} at {}", self.y.write(*y), self.x.write(*x));
            let path = format!("path class=\"d {class}\" d=\"M{left} {top}h0\"");
            tag(&path, &tag("title", &title))
        });
        dots.collect()
    }

    fn bar(&self, class: &str, name: &str, bar: &Bar) -> String {
        let (left, right) = (self.x(bar.from), self.x(bar.to));
        let (top, width) = (self.y(bar.height), right - left);
        let height = HEIGHT as i32 - top;
        let title = format!(
            "{} {} from {} to {}",
            escape(name),
            self.y.write(bar.height),
            self.x.write(bar.from),
            self.x.write(bar.to)
        );
        let place = format!("x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"");
        tag(
            &format!("rect class=\"a {class}\" {place}"),
            &tag("title", &title),
        )
    }
}

/// The least and the greatest of the values.
fn reach(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    )
}

fn path(class: &str, d: &str) -> String {
    format!("<path class=\"{class}\" d=\"{d}\"/>")
}

fn upright(x: f64) -> String {
    format!("M{x:.0} 0v{HEIGHT}")
}

fn level(y: f64) -> String {
    format!("M0 {y:.0}h{SIDE}")
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
        assert_eq!(path.to_lowercase().matches('m').count(), 2, "{path}");
        assert!(html.contains("<title>3 s\nsent 4/s</title>"));
        assert!(html.contains("A &lt;title&gt;"));
        assert!(!html.contains('#'), "no fixed colours: {html}");
    }

    /// At 400 pixels "99.999 %" reached beyond the page, which then scrolled sideways.
    #[test]
    fn a_label_that_would_reach_beyond_the_page_ends_at_its_place() {
        let curve = |to: f64| {
            let axis = Axis::log("", Unit::Millis);
            let chart = Chart::new("", Axis::percentile(), axis);
            let html = chart.line("a", Tone::Sent, [(0.0, 1.0), (to, 2.0)]).html();
            let label = html.split("99.999 %").next().unwrap().rsplit('<').next();
            label.unwrap().to_owned()
        };
        for (to, ends) in [(0.999_991, true), (0.999_993, true), (0.999_999_9, false)] {
            let label = curve(to);
            assert_eq!(label.contains("class=\"e\""), ends, "{to}: {label}");
        }
    }

    #[test]
    fn steps_are_level_and_gaps_are_not_bridged() {
        let spans = [
            (0.0, 1.0, 2.0),
            (1.0, 2.0, 4.0),
            (5.0, 6.0, 4.0),
            (6.0, 7.0, f64::NAN),
        ];
        let html = chart()
            .steps("sent", Tone::Sent, spans)
            .shade(6.0, 8.0, "drain")
            .html();
        let path = html.split("class=\"s st t-sent\" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!(path.to_lowercase().matches('m').count(), 2, "{path}");
        assert_eq!(path.matches('v').count(), 1, "{path}");
        assert!(!path.contains('l'), "nothing slopes: {path}");
        assert!(html.contains("class=\"z\"") && html.contains(">drain</b>"));
    }

    #[test]
    fn every_layer_has_its_class_and_its_word() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 100.0), 10);
        map.add(0, 5.0, 3);
        let html = chart()
            .heat("latency", Tone::P50, map)
            .dots("one", Tone::Nth(9), [(1.0, 2.0)])
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
            "class=\"r t-committed\"",
            "<rect class=\"a t-depth\"",
            "here &amp; now",
            "knee",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn words_stand_above_the_plot_and_never_over_one_another() {
        let marks = [(10.0, "one"), (10.0, "two"), (11.0, "near"), (60.0, "far")];
        let html = chart()
            .line("sent", Tone::Sent, [(0.0, 1.0), (100.0, 2.0)])
            .marks(marks)
            .shade(90.0, 100.0, "drain")
            .level(2.0, "limit")
            .html();
        let area = html.split("class=\"area\"").nth(1).unwrap();
        for word in ["one, two</b>", "near</b>", "far</b>", "drain</b>"] {
            assert!(html.contains(word) && !area.contains(word), "{html}");
        }
        assert!(html.contains("--n:1\">near"), "the next row: {html}");
        assert!(html.contains("--n:0\">far"), "room again: {html}");
        let legend = html.split("class=\"plot").next().unwrap();
        assert!(legend.contains("limit"), "{html}");
        assert!(html.contains("data-x=\"0 100 t\""), "{html}");
        assert!(html.contains("<g data-l=\"0\"><path class=\"s t-sent\""));
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
                        .ranges("c", Tone::Sent, triples())
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
