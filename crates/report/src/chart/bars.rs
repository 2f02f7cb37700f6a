//! Charts beside plots: bars, below each other on a page and as columns on a terminal; a forest plot, which is changes with
//! their intervals on one axis; and a heat map of how many values fell where.

use super::Tone;
use crate::page::{note, tag};
use crate::text::escape;

/// A value with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedBar {
    /// What it is of.
    pub name: String,
    /// How long it is; nothing is drawn of less than 0, nor of what is no number.
    pub value: f64,
    /// Its colour.
    pub tone: Tone,
    /// The value in words.
    pub text: String,
}

/// Draws the bars on one scale from 0 to the largest of them.
pub fn bars(title: &str, about: &str, bars: &[NamedBar]) -> String {
    let values = bars.iter().map(|bar| bar.value);
    let most = values
        .filter(|value| value.is_finite())
        .fold(f64::MIN_POSITIVE, f64::max);
    let bar = |bar: &NamedBar| {
        let share = (bar.value / most).clamp(0.0, 1.0) * 100.0;
        let class = bar.tone.class();
        let drawn = if share.is_nan() {
            String::new()
        } else {
            tag(
                &format!("i class=\"{class}\" style=\"width:{share:.2}%\""),
                "",
            )
        };
        let name = tag("span class=\"fn\"", &escape(&bar.name));
        name + &tag("span", &drawn) + &tag("span class=\"ft\"", &escape(&bar.text))
    };
    let drawn: String = bars.iter().map(bar).collect();
    let caption = tag("figcaption", &escape(title)) + &note(about);
    tag(
        "figure class=\"chart\"",
        &(caption + &tag("div class=\"bars\"", &drawn)),
    )
}

/// Draws one column for each of `values`, none of which is below 0, six lines high: the values of the
/// axis to the left as `label` writes them, what the first and the last column stand for below.
pub fn columns(values: &[f64], label: impl Fn(f64) -> String, from: &str, to: &str) -> String {
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut text = String::new();
    for line in (0..LINES).rev() {
        let label = label(top * (line + 1) as f64 / LINES as f64);
        text += &format!("{label:>MARGIN$} ┤");
        text.extend(values.iter().map(|value| {
            let eighths = (value / top * (LINES * 8) as f64).round() as usize;
            EIGHTHS[eighths.saturating_sub(line * 8).min(8)]
        }));
        text.push('\n');
    }
    let axis = "─".repeat(values.len());
    let width = values.len().saturating_sub(from.chars().count());
    text + &format!(
        "{:MARGIN$} └{axis}\n{:MARGIN$}  {from}{to:>width$}\n",
        "", ""
    )
}

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

/// Counts over a grid of equal columns and rows of equal factors.
#[derive(Debug, Clone)]
pub struct HeatMap {
    from_x: f64,
    column: f64,
    low: f64,
    factor: f64,
    rows: usize,
    /// Column after column, from the low row up.
    counts: Vec<u64>,
}

impl HeatMap {
    /// An empty map whose first column begins at `from_x`, each `column` wide, with `rows` rows from
    /// `low` to `high`, both above 0.
    pub fn new(from_x: f64, column: f64, (low, high): (f64, f64), rows: usize) -> Self {
        let rows = rows.max(1);
        let low = low.max(f64::MIN_POSITIVE);
        let factor = (high / low).max(1.01).powf(1.0 / rows as f64);
        Self {
            from_x,
            column,
            low,
            factor,
            rows,
            counts: Vec::new(),
        }
    }

    /// Counts `count` values of `y` in the column of number `column`. What is below or above the
    /// rows counts in the first or the last.
    pub fn add(&mut self, column: usize, y: f64, count: u64) {
        let row = (y.max(self.low) / self.low).ln() / self.factor.ln();
        let row = (row.floor() as usize).min(self.rows - 1);
        let needed = (column + 1) * self.rows;
        if self.counts.len() < needed {
            self.counts.resize(needed, 0);
        }
        self.counts[column * self.rows + row] += count;
    }

    /// Whether nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The extent of its columns that hold something.
    pub(super) fn x_range(&self) -> (f64, f64) {
        let columns = self.counts.len() / self.rows;
        (self.from_x, self.from_x + self.column * columns as f64)
    }

    /// The extent of its rows that hold something, from below without the [`LOWEST_SHARE`] of all values:
    /// a few that were much faster than all others would take decades of the axis.
    pub(super) fn y_range(&self) -> Option<(f64, f64)> {
        let count = |row: usize| -> u64 { self.counts.iter().skip(row).step_by(self.rows).sum() };
        let rows: Vec<u64> = (0..self.rows).map(count).collect();
        let least = (rows.iter().sum::<u64>() as f64 * LOWEST_SHARE) as u64;
        let mut below = 0;
        let first = rows.iter().position(|count| {
            below += count;
            below > least
        })?;
        let last = rows.iter().rposition(|count| *count > 0)?;
        Some((self.edge(first), self.edge(last + 1)))
    }

    /// The rectangles of each level of intensity, the faintest first, neighbours in a column joined.
    /// Intensity follows the logarithm of the count, so that a tail of single values shows.
    pub(super) fn levels(&self) -> Vec<Vec<Rectangle>> {
        let mut levels = vec![Vec::new(); LEVELS];
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let scale = (most as f64).ln_1p().max(f64::MIN_POSITIVE);
        for (column, counts) in self.counts.chunks(self.rows).enumerate() {
            let mut open: Option<(usize, usize)> = None;
            for row in 0..=self.rows {
                let level = counts.get(row).filter(|count| **count > 0).map(|count| {
                    let share = (*count as f64).ln_1p() / scale;
                    ((share * LEVELS as f64).ceil() as usize).clamp(1, LEVELS) - 1
                });
                if let Some((level_below, first)) = open
                    && level != Some(level_below)
                {
                    levels[level_below].push(self.rectangle(column, first, row));
                    open = None;
                }
                if open.is_none() {
                    open = level.map(|level| (level, row));
                }
            }
        }
        levels
    }

    fn rectangle(&self, column: usize, first: usize, end: usize) -> Rectangle {
        let from_x = self.from_x + self.column * column as f64;
        Rectangle {
            x: (from_x, from_x + self.column),
            y: (self.edge(first), self.edge(end)),
        }
    }

    /// The low edge of a row.
    fn edge(&self, row: usize) -> f64 {
        self.low * self.factor.powi(row as i32)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rectangle {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

const LINES: usize = 6;
/// Room for the labels of the axis.
const MARGIN: usize = 10;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A narrower axis would make much of nothing.
const SMALLEST: f64 = 0.01;

const LOWEST_SHARE: f64 = 0.002;
/// Shades of a heat map.
pub(super) const LEVELS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_the_whole_width_and_nothing_that_is_no_number_is_drawn() {
        let bar = |name: &str, value| NamedBar {
            name: name.into(),
            value,
            tone: Tone::Committed,
            text: "<text>".into(),
        };
        let drawn = [bar("a & b", 50.0), bar("c", 200.0), bar("d", f64::NAN)];
        let html = bars("Rates", "", &drawn);
        for part in ["width:25.00%", "width:100.00%", "a &amp; b", "&lt;text&gt;"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert_eq!(html.matches("<i ").count(), 2, "{html}");
    }

    #[test]
    fn columns_have_the_shape_of_the_values() {
        let values: Vec<f64> = (1..=60).map(f64::from).collect();
        let text = columns(&values, |value| format!("{value:.0}/s"), "0s", "60s …");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        let filled = |line: &str| line.chars().filter(|c| EIGHTHS[1..].contains(c)).count();
        let counts: Vec<usize> = lines[..LINES].iter().map(|line| filled(line)).collect();
        assert!(counts.is_sorted(), "{text}");
        assert!((8..=12).contains(&counts[0]), "{text}");
        assert!((57..=60).contains(&counts[LINES - 1]), "{text}");
        assert!(lines[0].starts_with("      60/s ┤"), "{text}");
        let ends = lines[LINES + 1];
        assert!(
            ends.starts_with("            0s ") && ends.ends_with(" 60s …"),
            "{text}"
        );
        assert_eq!(ends.chars().count(), MARGIN + 2 + 60);
    }

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

    #[test]
    fn every_value_is_in_one_rectangle_and_neighbours_are_joined() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 1_000.0), 3);
        map.add(0, 5.0, 7);
        map.add(0, 50.0, 7);
        map.add(2, 0.001, 1);
        map.add(2, 1e9, 1);
        assert_eq!(map.x_range(), (0.0, 3.0));
        let levels = map.levels();
        let all: Vec<&Rectangle> = levels.iter().flatten().collect();
        assert_eq!(all.len(), 3);
        let joined = levels[LEVELS - 1][0];
        assert_eq!(joined.x, (0.0, 1.0));
        assert!((joined.y.1 - 100.0).abs() < 1e-6);
        assert!(HeatMap::new(0.0, 1.0, (1.0, 10.0), 4).y_range().is_none());
    }

    #[test]
    fn one_fast_value_among_thousands_adds_no_decades() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 1_000.0), 3);
        map.add(0, 500.0, 5_000);
        map.add(0, 2.0, 1);
        assert!(map.y_range().is_some_and(|(low, _)| low > 99.0));
        map.add(0, 2.0, 500);
        assert!(map.y_range().is_some_and(|(low, _)| low < 2.0));
    }
}
