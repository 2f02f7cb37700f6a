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

pub mod chart;
mod page;
#[cfg(feature = "runs")]
mod runs;
mod table;
pub mod text;

pub use page::{Entries, Page};
#[cfg(feature = "runs")]
pub use runs::{
    AnswerCourse, BUSY_MACHINE, Bep23, Bep23Collector, CommittedCourse, ComparedSide, DelayFigures,
    LatencyCourse, MAX_COLUMNS, PerSecondStats, Recording, RunReport, SecondFigures, Span, Stretch,
    TmBench, TmBenchSpan, answer, busy_machine_link, evidence_text, gate_name, interval_text,
    is_disturbed, limit_text, machine_text, mesh_evidence_text, mesh_gave_first, mesh_limit_text,
    quantile_curve, signed_change, titled,
};
pub use table::{Columns, Table};
pub use text::Figure;
