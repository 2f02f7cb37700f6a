//! Tables in HTML and Markdown.

use std::fmt::Write as _;

use super::text::escape;

/// A table of text under construction.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    window: bool,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Words, to the left.
    Text(String),
    /// A figure, to the right.
    Figure(String),
    /// A figure or word that should be noticed.
    Alarm(String),
}

impl Cell {
    /// Words, to the left.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A figure, to the right.
    pub fn figure(text: impl Into<String>) -> Self {
        Self::Figure(text.into())
    }

    const fn content(&self) -> &String {
        match self {
            Self::Text(text) | Self::Figure(text) | Self::Alarm(text) => text,
        }
    }

    const fn class(&self) -> &'static str {
        match self {
            Self::Text(_) => "",
            Self::Figure(_) => " class=\"f\"",
            Self::Alarm(_) => " class=\"f bad\"",
        }
    }
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            window: false,
        }
    }

    /// Adds a row; it has as many cells as there are headings.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// On a page it gets a window of limited height, with its headings always in sight.
    #[must_use]
    pub const fn in_window(mut self) -> Self {
        self.window = true;
        self
    }

    /// How many rows it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As HTML; where it is wider than the page it scrolls by itself.
    #[must_use]
    pub fn html(&self) -> String {
        let class = if self.window {
            "scroll window"
        } else {
            "scroll"
        };
        let mut out = format!("<div class=\"{class}\"><table><thead><tr>");
        for (column, heading) in self.head.iter().enumerate() {
            let figures = self
                .rows
                .first()
                .and_then(|row| row.get(column))
                .is_some_and(|cell| !matches!(cell, Cell::Text(_)));
            let class = if figures { " class=\"f\"" } else { "" };
            let _ = write!(out, "<th{class}>{}</th>", escape(heading));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for cell in row {
                let _ = write!(out, "<td{}>{}</td>", cell.class(), escape(cell.content()));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }

    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let line = |out: &mut String, cells: &mut dyn Iterator<Item = &String>| {
            for cell in cells {
                let _ = write!(out, "| {} ", cell.replace('|', "\\|").replace('\n', " "));
            }
            out.push_str("|\n");
        };
        line(&mut out, &mut self.head.iter());
        for column in 0..self.head.len() {
            let figures = self
                .rows
                .first()
                .and_then(|row| row.get(column))
                .is_some_and(|cell| !matches!(cell, Cell::Text(_)));
            out.push_str(if figures { "|---:" } else { "|---" });
        }
        out.push_str("|\n");
        for row in &self.rows {
            line(&mut out, &mut row.iter().map(Cell::content));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_keep_what_is_in_a_cell_in_it() {
        let mut table = Table::new(["name", "count"]);
        table.row([Cell::text("a<b|c"), Cell::figure("12")]);
        let html = table.html();
        assert!(
            html.contains("<td>a&lt;b|c</td><td class=\"f\">12</td>"),
            "{html}"
        );
        assert_eq!(
            table.markdown(),
            "| name | count |\n|---|---:|\n| a<b\\|c | 12 |\n"
        );
    }
}
