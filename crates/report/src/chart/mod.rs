//! Charts as HTML and SVG without fixed colours, without scripts, readable at any width.
//!
//! The drawing is an SVG that is stretched to its place; strokes and dots keep their width. What is
//! written stands beside it as HTML, so that letters never shrink or stretch; where room is scarce
//! every other tick is left out. Colours are classes ([`Tone`]) that the [`Page`](super::Page)
//! gives a light and a dark value. Values under the pointer are shown by the browser itself, from
//! `<title>` elements.
//!
//! ```
//! use report::chart::{Axis, Chart, Tone, Unit};
//!
//! let curve = [(500.0, 499.0), (1_000.0, 998.0), (1_500.0, 1_204.0)];
//! let html = Chart::new(
//!     "Committed against offered",
//!     Axis::linear("offered", Unit::PerSecond),
//!     Axis::linear("committed", Unit::PerSecond),
//! )
//! .line("kept up", Tone::Plan, [(0.0, 0.0), (1_500.0, 1_500.0)])
//! .dots("committed", Tone::Committed, curve)
//! .level(1_204.0, "knee")
//! .html();
//! assert!(html.starts_with("<figure"));
//! ```

mod bars;
mod draw;
mod readings;
mod scale;
mod trace;

pub use self::{
    bars::{ForestRow, HeatMap, NamedBar, bars, columns, forest},
    scale::{Axis, Scale, Unit, round_up},
};

/// What something is, and so its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// The plan: dashed.
    Plan,
    /// What the schedule wanted: a wide band, so that what lies on it is seen.
    Offered,
    /// Handed to the node.
    Sent,
    /// Accepted by the node.
    Accepted,
    /// In a block.
    Committed,
    /// How full something is.
    Depth,
    /// The ground of a heat map, on which lines stand out.
    Heat,
    /// What went wrong.
    Bad,
    /// The middle of a distribution.
    P50,
    /// Its upper part.
    P95,
    /// Its tail.
    P99,
    /// One of several runs, from 0; the ninth has the first one's colour again.
    Nth(usize),
}

impl Tone {
    /// The CSS class: of one that has a name, the name in small letters.
    #[must_use]
    pub fn class(self) -> String {
        match self {
            Self::Nth(number) => format!("t-{}", number % 8),
            named => format!("t-{named:?}").to_ascii_lowercase(),
        }
    }
}

/// A chart under construction; the layers are drawn in the order in which they are added.
#[derive(Debug, Clone)]
pub struct Chart {
    title: String,
    note: Option<String>,
    x: Axis,
    y: Axis,
    layers: Vec<Layer>,
    marks: Vec<(f64, String)>,
    levels: Vec<(f64, String)>,
    shade: Option<(f64, f64, String)>,
    tall: bool,
}

#[derive(Debug, Clone)]
struct Layer {
    name: String,
    tone: Tone,
    shape: Shape,
}

impl Layer {
    /// Whether both have one entry in the legend; the line beneath named dots has theirs.
    fn is_like(&self, other: &Self) -> bool {
        self.tone == other.tone && (self.name == other.name || other.name.is_empty())
    }
}

#[derive(Debug, Clone)]
enum Shape {
    /// Pieces of a line; a gap lies between two.
    Line(Vec<Vec<(f64, f64)>>),
    /// Pieces of a line that is level between two x: from, to, y.
    Steps(Vec<Vec<(f64, f64, f64)>>),
    Dots(Vec<(f64, f64)>),
    /// x, low, high.
    Ranges(Vec<(f64, f64, f64)>),
    Bars(Vec<Bar>),
    Heat(HeatMap),
}

impl Shape {
    /// The corners of what is drawn.
    fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Line(pieces) => pieces.concat(),
            Self::Steps(pieces) => {
                let spans = pieces.iter().flatten();
                spans
                    .flat_map(|(from, to, y)| [(*from, *y), (*to, *y)])
                    .collect()
            }
            Self::Dots(points) => points.clone(),
            Self::Ranges(ranges) => {
                let ends = ranges.iter();
                ends.flat_map(|(x, low, high)| [(*x, *low), (*x, *high)])
                    .collect()
            }
            Self::Bars(bars) => {
                let bars = bars.iter();
                bars.flat_map(|bar| [(bar.from, 0.0), (bar.to, bar.height)])
                    .collect()
            }
            Self::Heat(map) => {
                let (from, to) = map.x_range();
                let ends = map.y_range().map(|(low, high)| [(from, low), (to, high)]);
                ends.into_iter().flatten().collect()
            }
        }
    }
}

/// One bar of a histogram, from 0 up to `height`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Left edge.
    pub from: f64,
    /// Right edge.
    pub to: f64,
    /// Upper edge.
    pub height: f64,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title.to_owned(),
            note: None,
            x,
            y,
            layers: Vec::new(),
            marks: Vec::new(),
            levels: Vec::new(),
            shade: None,
            tall: false,
        }
    }

    /// A sentence below the title.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.note = Some(note.to_owned());
        self
    }

    /// Higher than others.
    #[must_use]
    pub const fn tall(mut self) -> Self {
        self.tall = true;
        self
    }

    /// A line through `points`, whose x do not fall; a y that is not finite leaves a gap.
    pub fn line(
        self,
        name: &str,
        tone: Tone,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let mut pieces = vec![Vec::new()];
        for (x, y) in points {
            match pieces.last_mut() {
                Some(piece) if y.is_finite() && x.is_finite() => piece.push((x, y)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        self.layer(name, tone, Shape::Line(pieces))
    }

    /// A line that is level over each span: from, to, y. Where the next span begins later, or a y is
    /// not finite, there is a gap.
    pub fn steps(
        self,
        name: &str,
        tone: Tone,
        spans: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Self {
        let spans: Vec<_> = spans.into_iter().filter(is_finite).collect();
        let pieces = spans.chunk_by(|one, next| (one.1 - next.0).abs() < 1e-9);
        let pieces = pieces.map(<[_]>::to_vec).collect();
        self.layer(name, tone, Shape::Steps(pieces))
    }

    /// A dot at each of `points`.
    pub fn dots(
        self,
        name: &str,
        tone: Tone,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let points = points.into_iter().filter(finite).collect();
        self.layer(name, tone, Shape::Dots(points))
    }

    /// An upright stroke at each x from its low to its high, as for a confidence interval.
    pub fn ranges(
        self,
        name: &str,
        tone: Tone,
        ranges: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Self {
        let ranges = ranges.into_iter().filter(is_finite).collect();
        self.layer(name, tone, Shape::Ranges(ranges))
    }

    /// The bars of a histogram.
    #[must_use]
    pub fn bars(self, name: &str, tone: Tone, bars: impl IntoIterator<Item = Bar>) -> Self {
        let finite = |bar: &Bar| is_finite(&(bar.from, bar.to, bar.height));
        let bars = bars.into_iter().filter(finite).collect();
        self.layer(name, tone, Shape::Bars(bars))
    }

    /// A heat map in the colour of `tone`.
    #[must_use]
    pub fn heat(self, name: &str, tone: Tone, map: HeatMap) -> Self {
        self.layer(name, tone, Shape::Heat(map))
    }

    /// An upright line over the whole height, with a word on it.
    #[must_use]
    pub fn mark(mut self, x: f64, label: &str) -> Self {
        if x.is_finite() {
            self.marks.push((x, label.to_owned()));
        }
        self
    }

    /// Several of them.
    #[must_use]
    pub fn marks<'a>(self, marks: impl IntoIterator<Item = (f64, &'a str)>) -> Self {
        marks
            .into_iter()
            .fold(self, |chart, (x, label)| chart.mark(x, label))
    }

    /// A level line over the whole width, with a word on it.
    #[must_use]
    pub fn level(mut self, y: f64, label: &str) -> Self {
        if y.is_finite() {
            self.levels.push((y, label.to_owned()));
        }
        self
    }

    /// A shaded stretch of the x axis with a word on it, such as the drain of a run.
    #[must_use]
    pub fn shade(mut self, from: f64, to: f64, label: &str) -> Self {
        if from < to {
            self.shade = Some((from, to, label.to_owned()));
        }
        self
    }

    /// The chart as one HTML element, for a [`Page`](super::Page).
    pub fn html(&self) -> String {
        draw::html(self)
    }

    fn layer(mut self, name: &str, tone: Tone, shape: Shape) -> Self {
        self.layers.push(Layer {
            name: name.to_owned(),
            tone,
            shape,
        });
        self
    }
}

const fn is_finite((x, low, high): &(f64, f64, f64)) -> bool {
    x.is_finite() && low.is_finite() && high.is_finite()
}
