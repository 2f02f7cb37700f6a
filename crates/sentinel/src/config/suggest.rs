//! What is reported of an unknown key: the similar ones.

use super::keys::{KEYS, sections};

/// What is wrong with a key that does not exist.
pub(super) fn unknown(name: &str) -> String {
    format!("unknown key {name}; {}", hint(name))
}

/// The near keys, or those of its section.
fn hint(unknown: &str) -> String {
    let near = near(unknown);
    if !near.is_empty() {
        return format!("did you mean {}?", near.join(" or "));
    }
    let wanted = unknown.split('.').next().unwrap_or_default();
    let parts = KEYS.iter().map(|key| key.parts());
    let of_section = parts.filter(|(section, _)| *section == wanted);
    let leaves: Vec<&str> = of_section.map(|(_, leaf)| leaf).collect();
    if leaves.is_empty() {
        return format!("the sections are {}", sections().join(", "));
    }
    format!("[{wanted}] has {}", leaves.join(", "))
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
            let flag = key.flag.map(|(flag, _)| flag.replace('-', "_"));
            let distance = if leaf == key.parts().1 || flag.as_deref() == Some(leaf) {
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

/// Further apart than this two keys are different words.
const MAX_TYPING_ERRORS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_near_ones_are_named() {
        assert_eq!(hint("fair.max_rq"), "did you mean fair.max_req?");
        assert_eq!(hint("max_req"), "did you mean fair.max_req?");
        assert_eq!(
            hint("pace.max-req"),
            "did you mean fair.max_req or pace.min_req?"
        );
        assert_eq!(hint("pause.pause_for"), "did you mean pause.for?");
        assert!(hint("limits.patience").contains("[limits] has connections,"));
        assert!(hint("cache.bytes").contains("did you mean buffer.bytes?"));
        assert!(hint("cache.eviction").contains("the sections are listen, tls, upstream"));
    }
}
