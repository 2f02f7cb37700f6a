//! As many open files as connections are configured, as far as the system allows it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::config::Config;

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

/// A connection each, a WebSocket's own connection to the node for those that read over it (half of
/// all is a guess), and what the nodes, the operator and the program itself need.
fn needed(config: &Config) -> u64 {
    let clients = config.limits.connections as u64;
    let nodes = (config.upstream.connections * config.upstream.urls.len()) as u64;
    clients + clients / 2 + config.reads.concurrency as u64 + nodes + RESERVE
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
