//! What people read of a load run: charts, pages and tables, rendered as HTML, Markdown and text.
//!
//! What it is not: it opens no file, reads no clock and writes to no terminal. Everything renders into a
//! string, which the caller writes.
//!
//! Read first: [`Table`] (columns computed of rows), [`chart::Chart`] (lines, dots, bars, ranges and heat maps
//! over linear, logarithmic, time and percentile axes, as HTML and SVG without fixed colours) and
//! [`RunReport`] (the report of one run, as a page or in Markdown). [`Page`] is the self-contained HTML
//! page of all reports; [`text`] formats numbers; [`TmBench`] and [`Bep23`] are the tables of two older
//! studies, by their own rules.

mod answers;
mod bep23;
pub mod chart;
mod committed;
mod course;
mod entries;
mod html;
mod nodes;
mod page;
mod run;
mod stretch;
mod table;
pub mod text;
mod tm_bench;

pub use answers::AnswerCourse;
pub use bep23::{Bep23, Bep23Collector, DelayFigures, SecondFigures};
pub use committed::CommittedCourse;
pub use course::{LatencyCourse, MAX_COLUMNS};
pub use entries::Entries;
pub use nodes::Recording;
pub use page::Page;
pub use run::{RunReport, quantile_curve};
pub use stretch::{Span, Stretch};
pub use table::{Columns, Table};
pub use text::Figure;
pub use tm_bench::{PerSecondStats, TmBench, TmBenchSpan};
