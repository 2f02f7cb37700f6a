//! Tables as terminal text, Markdown and HTML.

mod forms;

use crate::text::Figure;

/// A finished table, which renders itself in three forms; [`Table::of`] begins one.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<Column>,
    window: bool,
}

/// A table under construction: its rows, and the columns that were computed of them so far.
#[derive(Debug, Clone)]
pub struct Columns<R> {
    rows: Vec<R>,
    table: Table,
}

#[derive(Debug, Clone, Default)]
struct Column {
    heading: String,
    align: Align,
    /// Characters in terminal text, at least.
    width: usize,
    /// In Markdown the cells are names as a program writes them.
    code: bool,
    /// Left out of terminal text.
    page_only: bool,
    needed: Needed,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Align {
    #[default]
    Left,
    Right,
}

/// On which pages a column is shown before the reader asks for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Needed {
    #[default]
    Everywhere,
    /// Not on a telephone's.
    FromTablets,
    OnWidePages,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    /// `None` where there is no value.
    text: Option<String>,
    alarm: bool,
    /// On a page the text leads there.
    link: Option<String>,
}

impl<R> Columns<R> {
    /// Adds a column of words, to the left.
    #[must_use]
    pub fn text<S: Into<String>>(self, heading: &str, text: impl Fn(&R) -> S) -> Self {
        self.column(heading, Align::Left, |row| Some(text(row).into()))
    }

    /// Adds a column to the right, of values that are written already.
    #[must_use]
    pub fn figure<S: Into<String>>(self, heading: &str, text: impl Fn(&R) -> S) -> Self {
        self.column(heading, Align::Right, |row| Some(text(row).into()))
    }

    /// Adds a column of counts, with their thousands apart.
    #[must_use]
    pub fn count<F: Figure>(self, heading: &str, value: impl Fn(&R) -> F) -> Self {
        self.number(heading, crate::text::count, value)
    }

    /// Adds a column of numbers in the given format, for example [`rate`](crate::text::rate).
    pub fn number<F: Figure>(
        self,
        heading: &str,
        format: impl Fn(f64) -> String,
        value: impl Fn(&R) -> F,
    ) -> Self {
        self.column(heading, Align::Right, |row| {
            crate::text::figure(value(row), &format)
        })
    }

    /// Sets off the cells of the last column in the rows where `alarm` holds.
    #[must_use]
    pub fn alarm(mut self, alarm: impl Fn(&R) -> bool) -> Self {
        if let Some(column) = self.table.columns.last_mut() {
            for (cell, row) in column.cells.iter_mut().zip(&self.rows) {
                cell.alarm = alarm(row);
            }
        }
        self
    }

    /// On a page the cells of the last column lead to the pages that `to` names.
    #[must_use]
    pub fn link(mut self, to: impl Fn(&R) -> Option<String>) -> Self {
        if let Some(column) = self.table.columns.last_mut() {
            for (cell, row) in column.cells.iter_mut().zip(&self.rows) {
                cell.link = to(row);
            }
        }
        self
    }

    /// The last column is on pages only if `only` is true: a terminal has no room for it.
    #[must_use]
    pub fn on_page_if(self, only: bool) -> Self {
        self.last(|column| column.page_only = only)
    }

    /// The last column is one that few ask for: on a page that is not wide it is hidden until the reader unfolds
    /// the table.
    #[must_use]
    pub fn rest(self) -> Self {
        self.last(|column| column.needed = Needed::OnWidePages)
    }

    /// As [`rest`](Self::rest), and on pages only: a terminal has no room for it.
    #[must_use]
    pub fn rest_of_page(self) -> Self {
        self.rest().on_page_if(true)
    }

    /// As [`rest`](Self::rest), but only on a page as narrow as a telephone's.
    #[must_use]
    pub fn not_on_phones(self) -> Self {
        self.last(|column| column.needed = Needed::FromTablets)
    }

    /// In Markdown the cells of the last column are set as code.
    #[must_use]
    pub fn code(self) -> Self {
        self.last(|column| column.code = true)
    }

    fn last(mut self, change: impl FnOnce(&mut Column)) -> Self {
        self.table.columns.last_mut().map(change);
        self
    }

    /// The table of these columns.
    #[must_use]
    pub fn table(self) -> Table {
        self.table
    }

    fn column(mut self, heading: &str, align: Align, text: impl Fn(&R) -> Option<String>) -> Self {
        let texts = self.rows.iter().map(text).collect();
        self.table.push(heading, align, texts);
        self
    }
}

impl Table {
    /// Begins a table with one row for each of `rows`; its columns are added one by one.
    pub fn of<R>(rows: impl IntoIterator<Item = R>) -> Columns<R> {
        Columns {
            rows: rows.into_iter().collect(),
            table: Self::default(),
        }
    }

    /// Once for all kinds of rows and of values.
    fn push(&mut self, heading: &str, align: Align, texts: Vec<Option<String>>) {
        let cell = |text| Cell {
            text,
            ..Cell::default()
        };
        self.columns.push(Column {
            heading: heading.to_owned(),
            align,
            cells: texts.into_iter().map(cell).collect(),
            ..Column::default()
        });
    }

    /// On a page it gets a window of limited height, with its headings always in sight.
    #[must_use]
    pub const fn in_window(mut self, window: bool) -> Self {
        self.window = window;
        self
    }

    /// In terminal text the columns have at least these widths, the first one first.
    #[must_use]
    pub fn at_least(mut self, widths: &[usize]) -> Self {
        for (column, width) in self.columns.iter_mut().zip(widths) {
            column.width = *width;
        }
        self
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    fn table() -> Table {
        Table::of([("a<b|c", 12_u64, Some(0.25)), ("d", 1_234, None)])
            .text("name", |row| row.0)
            .count("count", |row| row.1)
            .number("share", text::percent, |row| row.2)
            .alarm(|row| row.2.is_none())
            .table()
    }

    #[test]
    fn all_forms_keep_what_is_in_a_cell_in_it() {
        assert_eq!(
            table().markdown(),
            "| name | count | share |\n|---|---:|---:|\n| a<b\\|c | 12 | 25 % |\n| d | 1,234 | – |\n"
        );
        let html = table().html();
        for part in [
            "<th>name</th><th class=\"f\">count</th>",
            "<td class=\"w\">a&lt;b|c</td><td>12</td>",
            "<td class=\"bad\">–</td>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn terminal_text_is_aligned_without_blanks_at_the_ends_of_lines() {
        assert_eq!(
            table().text(),
            "name   count  share\na<b|c     12   25 %\nd      1,234      -\n"
        );
        let notes = Table::of([("one", "x"), ("two", "")])
            .text("", |row| row.0)
            .text("", |row| row.1)
            .table()
            .at_least(&[6]);
        assert_eq!(notes.text(), "one     x\ntwo\n");
        assert_eq!(notes.tabbed(1).lines().next_back(), Some("two      "));
    }

    #[test]
    fn a_page_has_links_and_columns_that_a_terminal_has_no_room_for() {
        let table = Table::of([("a", "<why>")])
            .text("run", |row| row.0)
            .link(|row| Some(format!("{}/report.html", row.0)))
            .text("why", |row| row.1)
            .on_page_if(true)
            .table();
        assert_eq!(table.text(), "run\na\n");
        let html = table.html();
        assert!(html.contains("<a href=\"a/report.html\">a</a>"), "{html}");
        assert!(html.contains("&lt;why&gt;"), "{html}");
    }

    #[test]
    fn columns_that_few_ask_for_unfold_on_a_page_and_are_in_every_other_form() {
        let columns = || {
            let columns = Table::of([("a", "1")]).figure("rate", |row| row.0);
            columns.figure("mempool", |row| row.1)
        };
        let all = columns().table();
        assert!(!all.html().contains("checkbox"));
        for (class, few) in [("x", columns().rest()), ("y", columns().not_on_phones())] {
            let few = few.table();
            let html = few.html();
            assert!(
                html.contains(&format!("<td class=\"{class}\">1</td>")),
                "{html}"
            );
            assert!(
                html.contains(&format!("<label class=\"unfold {class}\">")),
                "{html}"
            );
            assert_eq!(few.text(), all.text());
            assert_eq!(few.markdown(), all.markdown());
        }
    }

    #[test]
    fn columns_move_together_where_that_fits_a_terminal() {
        let wide = |characters: usize| {
            let table = Table::of([("y".repeat(characters), "z", "ä".repeat(10))])
                .text("first", |row| row.0.clone())
                .figure("second", |row| row.1)
                .text("third", |row| row.2.clone());
            let text = table.table().text();
            text.lines().map(|line| line.chars().count()).max()
        };
        assert_eq!(wide(60), Some(60 + 2 + 6 + 2 + 10));
        assert_eq!(wide(62), Some(62 + 1 + 6 + 1 + 10));
        // A word is never broken.
        assert_eq!(wide(63), Some(63 + 1 + 6 + 1 + 10));
    }

    #[test]
    fn a_wide_table_folds_the_cells_of_its_widest_column() {
        let why = "no answer from 3.3 s to 10.0 s while up to 16 requests to it waited for an end";
        let table = Table::of([("1", why), ("2", "")])
            .figure("run", |row| row.0)
            .text("why it is not valid", |row| row.1)
            .figure("offered", |_| "1,000/s")
            .table();
        assert_eq!(
            table.text(),
            "run why it is not valid                                                  offered\n  \
             1 no answer from 3.3 s to 10.0 s while up to 16 requests to it waited  1,000/s\n    \
             for an end\n  2                                                                      1,000/s\n"
        );
    }

    proptest::proptest! {
        /// Whatever stands in it, as long as its longest words fit side by side.
        #[test]
        fn every_table_holds_to_80_columns(
            rows in proptest::collection::vec(
                (proptest::collection::vec("[a-zä]{1,9}", 0..30), 0..10_000_000_000_u64, 0..100_u64),
                1..6,
            ),
            columns in 1..4_usize,
        ) {
            let mut table = Table::of(rows).text("why", |row| row.0.join(" "));
            for _ in 1..columns {
                table = table.count("commit p50", |row| row.1).text("", |row| row.0.join(" "));
            }
            for line in table.table().text().lines() {
                proptest::prop_assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
