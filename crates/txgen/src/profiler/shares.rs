//! From folded stacks to who takes how much.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use report::Table;

/// Who takes how much of the sampled time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// Every function, the largest own share first.
    pub functions: Vec<Share>,
    /// Every thread's name, the largest share first; threads of one name count together.
    pub threads: Vec<(String, f64)>,
}

/// One function.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// The share of the time in the function itself, from 0 to 1.
    pub own: f64,
    /// The share of the time in it and in what it calls.
    pub total: f64,
}

impl Shares {
    /// Adds up `thread;outer;inner weight` lines.
    pub fn of(folded: &str) -> Self {
        let mut functions: HashMap<&str, (u64, u64)> = HashMap::new();
        let mut threads: HashMap<&str, u64> = HashMap::new();
        let mut sum = 0;
        let mut seen = HashSet::new();
        for (stack, weight) in folded.lines().filter_map(split) {
            sum += weight;
            let mut frames = stack.split(';');
            *threads
                .entry(frames.next().unwrap_or_default())
                .or_default() += weight;
            seen.clear();
            let mut leaf = None;
            for frame in frames {
                // A function that calls itself is on the stack twice and takes its time once.
                if seen.insert(frame) {
                    functions.entry(frame).or_default().1 += weight;
                }
                leaf = Some(frame);
            }
            if let Some(leaf) = leaf {
                functions.entry(leaf).or_default().0 += weight;
            }
        }
        let share = |weight: u64| weight as f64 / (sum as f64).max(1.0);
        let mut functions: Vec<Share> = functions
            .into_iter()
            .map(|(name, (own, total))| Share {
                name: name.to_owned(),
                own: share(own),
                total: share(total),
            })
            .collect();
        functions.sort_by(|a, b| {
            let by_share = b.own.total_cmp(&a.own).then(b.total.total_cmp(&a.total));
            by_share.then_with(|| a.name.cmp(&b.name))
        });
        let mut threads: Vec<(String, f64)> = threads
            .into_iter()
            .map(|(name, weight)| (name.to_owned(), share(weight)))
            .collect();
        threads.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Self { functions, threads }
    }

    /// A table of the functions with the largest own shares, and a line of threads.
    pub fn table(&self, rows: usize) -> String {
        let threads: Vec<String> = self
            .threads
            .iter()
            .take(rows)
            .map(|(name, share)| format!("{name} {:.1} %", share * 100.0))
            .collect();
        let percent = |share: f64| format!("{:.2}", share * 100.0);
        let table = Table::of(self.functions.iter().take(rows))
            .number("own %", percent, |function| function.own)
            .number("total %", percent, |function| function.total)
            .text("function", |function| shortened(&function.name, rows));
        let table = table.table().at_least(&[9]).text();
        format!("  threads    {}\n{table}", threads.join(", "))
    }
}

/// The same stacks with the names of Rust's functions as in the source.
pub(super) fn demangled(folded: &str) -> String {
    let mut text = String::with_capacity(folded.len());
    for (stack, weight) in folded.lines().filter_map(split) {
        for (position, frame) in stack.split(';').enumerate() {
            if position > 0 {
                text.push(';');
            }
            text.push_str(&super::graph::demangled(without_hash(frame)));
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

fn split(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.rsplit_once(' ')?;
    Some((stack, weight.parse().ok()?))
}

/// A short table stands on a terminal: names of a generic's generic lose their middle.
fn shortened(name: &str, rows: usize) -> String {
    let length = name.chars().count();
    if rows == usize::MAX || length <= LONGEST_NAME {
        return name.to_owned();
    }
    let head: String = name.chars().take(LONGEST_NAME / 2).collect();
    let tail: String = name.chars().skip(length - (LONGEST_NAME / 2 - 1)).collect();
    format!("{head}…{tail}")
}

const LONGEST_NAME: usize = 78;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let shares = Shares::of("a;f;g;f 3\na;f 1\nb;g 4\nnot a line\n");
        let share = |name: &str| {
            let found = shares.functions.iter().find(|share| share.name == name);
            found.map(|share| (share.own, share.total)).unwrap()
        };
        assert_eq!(share("f"), (0.5, 0.5));
        assert_eq!(share("g"), (0.5, 0.875));
        assert_eq!(shares.threads, [("a".into(), 0.5), ("b".into(), 0.5)]);
        assert!(shares.table(10).contains("50.00    87.50  g"));
        assert_eq!(Shares::of("").functions, []);
    }

    #[test]
    #[cfg(feature = "flame-graph")]
    fn rust_names_are_read_in_both_forms() {
        let folded = "t;core::ops::f::h0123456789abcdef;_ZN4core3foo17h05af221e174051e9E 2\n";
        assert_eq!(demangled(folded), "t;core::ops::f;core::foo 2\n");
        assert_eq!(
            demangled("t;_RNvCs1234_7mycrate3foo 1\n"),
            "t;mycrate::foo 1\n"
        );
        assert_eq!(demangled("t;a::hello 1\n"), "t;a::hello 1\n");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = "x".repeat(500);
        assert_eq!(shortened(&name, 10).chars().count(), LONGEST_NAME);
        assert_eq!(shortened(&name, usize::MAX), name);
    }
}
