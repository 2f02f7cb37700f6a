//! As many open files as connections are configured, as far as the system allows it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::config::Config;
use crate::upstream::MAX_RELAYS;

/// Raises the soft limit to what the configuration needs; says so when the hard limit is below.
pub(crate) fn allow(config: &Config) {
    let needed = needed(config);
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return;
    }
    let reachable = limits.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(reachable),
        maximum: limits.maximum,
    };
    let refused = setrlimit(Resource::Nofile, raised).is_err();
    if refused || reachable < needed {
        warn!(
            needed,
            limit = if refused {
                limits.current
            } else {
                Some(reachable)
            },
            "too few open files for limits.connections: raise the hard limit (ulimit -Hn, or \
             LimitNOFILE in the unit), or lower limits.connections"
        );
    }
}

/// A connection each, the connections to nodes, and what the program itself needs.
fn needed(config: &Config) -> u64 {
    let upstream = &config.upstream;
    let writes = upstream.connections * upstream.urls.len();
    let nodes = writes + config.reads.concurrency + MAX_RELAYS;
    (config.limits.connections + nodes) as u64 + RESERVE
}

const RESERVE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_its_file() {
        assert!(needed(&Config::default()) > 20_000);
    }
}
