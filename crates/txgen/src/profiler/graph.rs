//! Stacks folded and drawn by `inferno`, names of functions by `rustc-demangle`.

use std::fmt::Write as _;
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

/// The same stacks with the names of Rust's functions as in the source.
pub(super) fn demangled(folded: &str) -> String {
    let mut text = String::with_capacity(folded.len());
    for (stack, weight) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
        for (position, frame) in stack.split(';').enumerate() {
            if position > 0 {
                text.push(';');
            }
            let name = rustc_demangle::demangle(without_hash(frame));
            let _ = write!(text, "{name:#}");
        }
        let _ = writeln!(text, " {weight}");
    }
    text
}

/// perf demangles the old form of Rust's names itself and leaves the hash at their end.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            path
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_names_are_read_in_both_forms() {
        let folded = "t;core::ops::f::h0123456789abcdef;_ZN4core3foo17h05af221e174051e9E 2\n";
        assert_eq!(demangled(folded), "t;core::ops::f;core::foo 2\n");
        assert_eq!(
            demangled("t;_RNvCs1234_7mycrate3foo 1\n"),
            "t;mycrate::foo 1\n"
        );
        assert_eq!(demangled("t;a::hello 1\n"), "t;a::hello 1\n");
    }
}
