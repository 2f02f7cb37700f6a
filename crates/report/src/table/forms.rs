//! A table as terminal text, Markdown and HTML.

use super::{Align, Cell, Column, Needed, Table};
use crate::page::{link, tag};
use crate::text::{TERMINAL_WIDTH, escape, folded, longest_word};

impl Table {
    /// As text for a terminal: columns aligned, two blanks apart, or one where two do not fit into 80
    /// characters; what is wider even so gets narrower columns, the widest first, whose cells go on below.
    /// No blanks at the ends of lines. A table without headings has no line of them.
    pub fn text(&self) -> String {
        let columns: Vec<&Column> = self.columns.iter().filter(|it| !it.page_only).collect();
        let apart = columns.len().saturating_sub(1);
        let total: usize = columns.iter().map(|column| column.text_width()).sum();
        let gap = if total + 2 * apart > TERMINAL_WIDTH {
            1
        } else {
            2
        };
        let widths = fitting(&columns, TERMINAL_WIDTH.saturating_sub(gap * apart));
        let headed = columns.iter().any(|column| !column.heading.is_empty());
        let mut out = String::new();
        for line in usize::from(!headed)..=self.len() {
            let fields = columns.iter().zip(&widths);
            let cells: Vec<Vec<&str>> = fields
                .map(|(column, width)| folded(column.text_line(line), *width))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for part in 0..height {
                for ((column, cell), width) in columns.iter().zip(&cells).zip(&widths) {
                    let text = cell.get(part).copied().unwrap_or_default();
                    let fill = " ".repeat(width.saturating_sub(text.chars().count()));
                    match column.align {
                        Align::Left => out.extend([text, &*fill]),
                        Align::Right => out.extend([&*fill, text]),
                    }
                    out.push_str(&"  "[..gap]);
                }
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
            }
        }
        out
    }

    /// As Go's `text/tabwriter` lays it out: each field, a line's last one too, is filled to the width
    /// of its column and followed by `padding` blanks.
    pub fn tabbed(&self, padding: usize) -> String {
        let mut out = String::new();
        for line in 0..=self.len() {
            for column in &self.columns {
                let width = column.text_width() + padding;
                out.push_str(&format!("{:<width$}", column.text_line(line)));
            }
            out.push('\n');
        }
        out
    }

    /// As HTML; where it is wider than the page it scrolls by itself. A box above a table with columns that few ask
    /// for unfolds them.
    pub fn html(&self) -> String {
        let heading = |column: &Column| {
            let text = escape(&column.heading).replace("/s", "<wbr>/s");
            tag(&column.tag("th", false), &text)
        };
        let head: String = self.columns.iter().map(heading).collect();
        let row = |row: usize| {
            let cell = |column: &Column| {
                let cell = &column.cells[row];
                let text = cell.text_or("–");
                let text = match (&cell.link, column.align) {
                    (Some(to), _) => link(to, text),
                    (None, Align::Left) if column.code => {
                        // A long dotted name may break after its parts.
                        escape(text).replace('.', ".<wbr>").replace('_', "_<wbr>")
                    }
                    (None, Align::Left) => escape(text).into_owned(),
                    // A figure stays in one line; a range may break before its end.
                    (None, Align::Right) => escape(text).replace(" to ", " to <wbr>"),
                };
                tag(&column.tag("td", cell.alarm), &text)
            };
            tag("tr", &self.columns.iter().map(cell).collect::<String>())
        };
        let body: String = (0..self.len()).map(row).collect();
        let table = tag("thead", &tag("tr", &head)) + &tag("tbody", &body);
        let window = if self.window { " window" } else { "" };
        let has = |needed| self.columns.iter().any(|column| column.needed == needed);
        let unfold = match (has(Needed::OnWidePages), has(Needed::FromTablets)) {
            (true, _) => unfold("x"),
            (false, true) => unfold("y"),
            (false, false) => String::new(),
        };
        tag(
            &format!("div class=\"scroll{window}\""),
            &(unfold + &tag("table", &table)),
        )
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |text: &dyn Fn(&Column) -> String| {
            let fields = self.columns.iter().map(text).collect::<String>();
            fields + "|\n"
        };
        let field =
            |text: &str| format!("| {} ", text.replace('|', "\\|").replace(['\n', '\r'], " "));
        let mut out = line(&|column| field(&column.heading));
        out += &line(&|column| match column.align {
            Align::Left => "|---".to_owned(),
            Align::Right => "|---:".to_owned(),
        });
        for row in 0..self.len() {
            out += &line(&|column| {
                let quote = if column.code { "`" } else { "" };
                field(&format!("{quote}{}{quote}", column.cells[row].text_or("–")))
            });
        }
        out
    }
}

impl Column {
    fn tag(&self, name: &str, alarm: bool) -> String {
        // Most cells are figures, so it is words that are marked there.
        let is_cell = name == "td";
        let classes = [
            ("f", !is_cell && self.align == Align::Right),
            ("w", is_cell && self.align == Align::Left),
            ("x", self.needed == Needed::OnWidePages),
            ("y", self.needed == Needed::FromTablets),
            ("bad", alarm),
        ];
        let classes: Vec<&str> = classes
            .into_iter()
            .filter_map(|(class, has)| has.then_some(class))
            .collect();
        if classes.is_empty() {
            name.to_owned()
        } else {
            format!("{name} class=\"{}\"", classes.join(" "))
        }
    }

    /// What stands in a line of terminal text; line 0 is the headings'.
    fn text_line(&self, line: usize) -> &str {
        match line.checked_sub(1) {
            None => &self.heading,
            Some(row) => self.cells[row].text_or("-"),
        }
    }

    fn text_width(&self) -> usize {
        let lines = 0..=self.cells.len();
        let widths = lines.map(|line| self.text_line(line).chars().count());
        widths.fold(self.width, usize::max)
    }

    /// The width of the longest word, which no line can be narrower than.
    fn least_width(&self) -> usize {
        let lines = (0..=self.cells.len()).map(|line| longest_word(self.text_line(line)));
        lines.fold(self.width, usize::max)
    }
}

/// Shows the hidden columns, where columns of this class are hidden; works without a script.
fn unfold(class: &str) -> String {
    format!("<label class=\"unfold {class}\"><input type=\"checkbox\"> all columns</label>")
}

/// Widths of `room` characters in all where that can be, taken from the widest columns.
fn fitting(columns: &[&Column], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.text_width()).collect();
    let least: Vec<usize> = columns.iter().map(|column| column.least_width()).collect();
    for _ in room..widths.iter().sum() {
        let can_shrink = (0..widths.len()).filter(|place| widths[*place] > least[*place]);
        let Some(widest) = can_shrink.max_by_key(|place| widths[*place]) else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

impl Cell {
    fn text_or<'a>(&'a self, none: &'a str) -> &'a str {
        self.text.as_deref().unwrap_or(none)
    }
}
