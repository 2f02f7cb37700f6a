//! Suggestions for an unknown key.

use super::keys::{KEYS, sections};

/// The end of the sentence "unknown key X": the near keys, or those of its section.
pub(super) fn hint(unknown: &str) -> String {
    if let Some((_, instead)) = REMOVED.iter().find(|(key, _)| *key == unknown) {
        return format!("; {instead}");
    }
    let near = near(unknown);
    if !near.is_empty() {
        return format!("; did you mean {}?", near.join(" or "));
    }
    let section = unknown.split('.').next().unwrap_or_default();
    let leaves: Vec<&str> = KEYS
        .iter()
        .filter(|key| key.section() == section)
        .map(super::keys::Key::leaf)
        .collect();
    if leaves.is_empty() {
        let sections: Vec<&str> = sections().collect();
        return format!("; the sections are {}", sections.join(", "));
    }
    format!("; [{section}] has {}", leaves.join(", "))
}

/// The most similar keys, nearest first, three at most.
fn near(unknown: &str) -> Vec<&'static str> {
    let written = unknown.replace('-', "_").to_ascii_lowercase();
    let leaf = written.rsplit('.').next().unwrap_or_default();
    let mut near: Vec<(usize, &'static str)> = KEYS
        .iter()
        .filter_map(|key| {
            // The right key in the wrong section is as likely as a slip of the finger; and so is
            // the name of its flag, `pause.pause_for`.
            let flag = key.flag.map(|flag| flag.name.replace('-', "_"));
            let distance = if leaf == key.leaf() || flag.as_deref() == Some(leaf) {
                1
            } else {
                strsim::damerau_levenshtein(&written, key.name)
            };
            (distance <= MAX_TYPING_ERRORS).then_some((distance, key.name))
        })
        .collect();
    near.sort_unstable();
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Keys that were, and what to use instead.
const REMOVED: [(&str, &str); 5] = [
    (
        "pause.min_run",
        "it is 30s now, and longer while breaks do not help; use pause.interval",
    ),
    (
        "pause.max_pause",
        "new connections are awaited for 30s at most now; use pause.for",
    ),
    ("pause.drain", "it is 2s now; remove it"),
    (
        "pause.ramp",
        "the pace bounds what follows a break; remove it",
    ),
    ("pause.jitter", "it is 0.1 now; remove it"),
];

/// Further apart than this two keys are different words.
const MAX_TYPING_ERRORS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_near_ones_are_named() {
        assert_eq!(hint("fair.max_rq"), "; did you mean fair.max_req?");
        assert_eq!(hint("max_req"), "; did you mean fair.max_req?");
        assert_eq!(
            hint("pace.max-req"),
            "; did you mean fair.max_req or pace.min_req?"
        );
        assert_eq!(hint("pause.pause_for"), "; did you mean pause.for?");
        assert_eq!(
            hint("pause.ramp"),
            "; the pace bounds what follows a break; remove it"
        );
        assert!(hint("pause.min_run").contains("use pause.interval"));
        assert!(hint("limits.timeout").contains("[limits] has connections,"));
        assert!(hint("cache.bytes").contains("did you mean buffer.bytes?"));
        assert!(hint("cache.eviction").contains("the sections are listen, upstream"));
    }
}
