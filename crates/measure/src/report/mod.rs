//! What people read: charts, pages, and the forms of a report. Everything renders into text; no
//! file is opened here.
//!
//! - [`chart`] draws: lines, dots, bars, bands and heat maps over linear, logarithmic, time and
//!   percentile axes, as HTML and SVG without fixed colours.
//! - [`RunReport`] is the report of one run, as a page or in Markdown.
//! - [`TmBench`] and [`Bep23`] are the tables of two older studies, by their own rules.
//! - [`Page`] is the one self-contained HTML page that all reports are: no script, no font and no
//!   picture from elsewhere, light and dark by the reader's own setting, for paper too.
//! - [`text`] writes numbers as people read them.

mod bep23;
pub mod chart;
mod committed;
mod course;
mod page;
mod run;
mod table;
pub mod text;
mod tm_bench;

pub use bep23::{Bep23, Bep23Collector, DelayFigures, SecondFigures};
pub use committed::CommittedCourse;
pub use course::{LatencyCourse, MAX_COLUMNS};
pub use page::Page;
pub use run::RunReport;
pub use table::{Cell, Table};
pub use tm_bench::{PerSecondStats, TmBench, TmBenchSpan};
