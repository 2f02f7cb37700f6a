//! As many open files as the plan has connections, as far as the system allows it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit for `connections` of our own and, with a built-in node, its ends of them.
///
/// Where the hard limit is below, opening the connections fails and says so.
pub(super) fn allow(connections: u64, built_in: bool) {
    let ends = if built_in { 2 } else { 1 };
    let needed = connections.saturating_mul(ends).saturating_add(RESERVE);
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = Rlimit {
        current: Some(limits.maximum.map_or(needed, |most| most.min(needed))),
        maximum: limits.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Files, followers, queries, and what the built-in node needs for itself.
const RESERVE: u64 = 256;
