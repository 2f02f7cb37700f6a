//! The configuration in force, and what of another one takes effect while the program runs.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::fixed::Fixed;
use super::keys::{KEYS, Key};
use super::{Config, ConfigErrors, Resolved, check};

/// The configuration in force. Clones share it; a look at it costs some 100 instructions, which what never changes
/// does not.
#[derive(Clone, Debug)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    current: ArcSwap<Config>,
    fixed: Fixed,
}

impl Live {
    /// The first one.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Inner {
            fixed: config.fixed.clone(),
            current: ArcSwap::from_pointee(config),
        }))
    }

    /// A short look at it.
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.current.load()
    }

    /// What no key sets.
    pub(crate) fn fixed(&self) -> &Fixed {
        &self.0.fixed
    }

    /// The one that is in force now, to keep.
    pub fn current(&self) -> Arc<Config> {
        self.0.current.load_full()
    }

    pub(crate) fn replace(&self, config: Config) {
        self.0.current.store(Arc::new(config));
    }
}

/// Keys whose new values take effect while the program runs. Whatever is not listed needs a restart: it decides what
/// is opened, allocated or promised at the start.
pub const LIVE: &[&str] = &[
    "tls.certificates",
    "tls.client_ca",
    "tls.require_client",
    "trust.proxies",
    "trust.ipv6_prefix",
    "trust.allow",
    "trust.deny",
    "keys.file",
    "keys.header",
    "keys.query",
    "limits.connections",
    "limits.connections_per_client",
    "limits.body_bytes",
    "limits.batch",
    "limits.shadow",
    "reads.rate_per_client",
    "reads.concurrency",
    "reads.allow_methods",
    "reads.refuse_methods",
    "fair.max_req",
    "fair.queue_per_client",
    "fair.queue_timeout",
    "fair.weights",
    "fair.async_ack",
    "fair.commit_waiters",
    "pace.min_req",
    "pace.inflight",
    "pause.interval",
    "pause.min_tx_rate",
    "pause.for",
    "pause.action",
    "cors.origins",
    "log.level",
    "shutdown.drain",
];

impl Key {
    /// Whether a new value takes effect while the program runs.
    pub fn is_live(&self) -> bool {
        LIVE.contains(&self.name)
    }
}

/// What a new configuration comes to while the program runs.
#[derive(Clone, Debug)]
pub struct Change {
    /// What is to be in force: of the old one all that needs a restart, the rest of the new one.
    pub config: Config,
    /// Keys whose values change now.
    pub applied: Vec<&'static str>,
    /// Keys whose new values need a restart.
    pub restart: Vec<&'static str>,
    /// What is odd about it.
    pub notices: Vec<String>,
}

/// What of a new configuration can be in force after `old`.
///
/// # Errors
/// What stays of the old one and what is new contradict each other.
pub fn change(old: &Config, new: Resolved) -> Result<Change, ConfigErrors> {
    let (mut applied, mut restart) = (Vec::new(), Vec::new());
    let mut errors = Vec::new();
    let mut merged = Resolved {
        config: old.clone(),
        ..new.clone()
    };
    for (key, origin) in KEYS.iter().zip(&new.origins) {
        let text = (key.text)(&new.config);
        if text == (key.text)(old) {
            continue;
        }
        // What a cluster shares is agreed on at the start.
        let is_shared = key.name == "fair.max_req" && old.cluster.nats.is_some();
        if !key.is_live() || is_shared {
            restart.push(key.name);
            continue;
        }
        applied.push(key.name);
        if let Err(reason) = (key.set)(&mut merged.config, &text) {
            errors.push(format!("{origin}: {}: {reason}", key.name));
        }
    }
    if errors.is_empty() {
        errors = check::check(&mut merged);
    }
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    Ok(Change {
        config: merged.config,
        applied,
        restart,
        notices: new.notices,
    })
}
