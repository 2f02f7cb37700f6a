//! Stacks folded and drawn by `inferno`, names of functions by `rustc-demangle`.

use std::io::{self, BufRead, Write};

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};

/// Whether this build can sample.
pub(super) const IS_BUILT: bool = true;

/// Folds what `perf script` prints into `thread;outer;inner weight` lines.
pub(super) fn fold(script: impl BufRead, folded: &mut Vec<u8>) -> io::Result<()> {
    let mut options = Options::default();
    options.nthreads = 1;
    Folder::from(options).collapse(script, folded)
}

/// Draws folded stacks. `unit` is what their weights count.
pub(super) fn draw(
    folded: &str,
    title: String,
    subtitle: String,
    unit: &str,
    out: impl Write,
) -> io::Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title;
    options.subtitle = Some(subtitle);
    unit.clone_into(&mut options.count_name);
    options.deterministic = true;
    inferno::flamegraph::from_lines(&mut options, folded.lines(), out)
}

/// The name of a function as in the source.
pub(super) fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
