//! What is reported of an unknown key: that it was removed, or the similar ones.

use super::keys::{KEYS, sections};

/// What is wrong with a key that does not exist.
pub(super) fn unknown(name: &str) -> String {
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        return format!("{name} was removed: {instead}");
    }
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

/// Keys that were removed, and what holds instead.
const REMOVED: [(&str, &str); 29] = [
    ("upstream.health_interval", "it is 1s"),
    ("upstream.connect_timeout", "it is 5s"),
    ("limits.connect_rate_per_client", "it is 500/s"),
    ("limits.header_bytes", "it is 32KiB"),
    ("limits.headers", "it is 100"),
    ("limits.uri_bytes", "it is 16KiB"),
    ("limits.depth", "it is 64"),
    ("limits.header_timeout", "it is 10s"),
    ("limits.body_timeout", "it is 10s"),
    ("limits.write_timeout", "it is 10s"),
    ("reads.burst_per_client", "it is 1s"),
    ("reads.window_bytes", "it is 256KiB"),
    ("fair.clients_max", "it is 100000"),
    ("pace.inflight_per_connection", "it is 256"),
    ("pace.burst", "it is 20ms"),
    ("pace.mempool_size", "it is learnt from the node"),
    ("pace.mempool_fill", "it is 0.99"),
    ("pace.mempool_interval", "it is 500ms"),
    (
        "pause.mode",
        "set pause.interval, pause.min_tx_rate or both",
    ),
    ("pause.min_fraction", "use pause.min_tx_rate = \"60%\""),
    ("pause.min_run", "it is 30s; use pause.interval"),
    ("pause.max_pause", "it is 30s; use pause.for"),
    ("pause.drain", "it is 2s"),
    ("pause.ramp", "the pace bounds what follows a break"),
    ("pause.jitter", "it is 0.1"),
    ("ws.ping_interval", "it is 27s"),
    ("ws.read_timeout", "it is 30s"),
    ("ws.out_bytes", "it is 1MiB"),
    ("ws.origins", "use cors.origins"),
];

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
        assert!(hint("limits.timeout").contains("[limits] has connections,"));
        assert!(hint("cache.bytes").contains("did you mean buffer.bytes?"));
        assert!(hint("cache.eviction").contains("the sections are listen, upstream"));
    }

    #[test]
    fn a_removed_key_is_answered_with_what_holds_instead() {
        assert_eq!(unknown("pause.drain"), "pause.drain was removed: it is 2s");
        assert!(unknown("pause.mode").contains("pause.interval"));
        let none_is_back = |(name, _): &(&str, _)| KEYS.iter().all(|key| key.name != *name);
        assert!(REMOVED.iter().all(none_is_back));
    }
}
