//! Everything that can be set, resolved: nothing behind this module parses text. And the configuration in force ([`Live`]),
//! with what of another one takes effect while the program runs.

mod check;
mod keys;
mod layers;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use control::PauseSettings;
pub use control::{MinTxRate, PaceMode, PauseAction};
use serde::Serialize;

pub use self::keys::{
    Admin, Buffer, Config, Cors, Fair, Fixed, Grpc, KEYS, Key, KeySettings, Limits, Listen, Log,
    Pace, Pause, Reads, Rest, Shutdown, Tls, Trust, Upstream,
};
use self::layers::Layer;
pub use self::layers::{FlagValue, Origin, Sources};
use self::value::Value as _;
pub use self::value::{AsyncAck, CertificateFiles, Threads, TrustedProxy, WriteOrder};

impl Cors {
    /// The origins of pages that may open a WebSocket; none for all.
    pub fn sockets(&self) -> &[String] {
        if self.origins.iter().any(|allowed| allowed == "*") {
            return &[];
        }
        &self.origins
    }

    /// The `Access-Control-Allow-Origin` of an answer to a page of this origin, if the page may read it.
    pub fn allows(&self, origin: &[u8]) -> Option<Bytes> {
        let allows =
            |allowed: &&String| *allowed == "*" || origin.eq_ignore_ascii_case(allowed.as_bytes());
        let allowed = self.origins.iter().find(allows)?;
        Some(match allowed.as_str() {
            "*" => Bytes::from_static(b"*"),
            _ => Bytes::copy_from_slice(origin),
        })
    }
}

impl Config {
    /// The value of a key as text; empty if there is no such key.
    pub fn text(&self, name: &str) -> String {
        Key::find(name).map_or_else(String::new, |(_, key)| (key.text)(self))
    }

    /// Connections of clients in all: a part of the buffers each, as far as there are files.
    pub fn connections(&self) -> usize {
        let of_bytes = (self.buffer.bytes / CONNECTION_SHARE).max(LEAST_CONNECTIONS);
        of_bytes.min(self.fixed.most_connections)
    }

    /// Writes under way in all, at most: what the ceiling lets out in a quarter of a second, which is longer than a round
    /// trip to the other side of the Earth takes.
    pub fn most_under_way(&self) -> usize {
        LEAST_UNDER_WAY.max((self.fair.max_req.as_f64() / 4.0) as usize)
    }

    /// Bytes of accepted transactions that are kept to be offered again after a restart of the node: their clients hold
    /// them until a block shows them, which may be never, and have to have room beside them.
    pub const fn retained(&self) -> usize {
        self.buffer.bytes / RETAINED_SHARE
    }

    /// The settings of the break controller.
    pub fn breaks(&self) -> PauseSettings {
        let pause = &self.pause;
        PauseSettings {
            interval: pause.interval,
            min_tx_rate: pause.min_tx_rate,
            length: pause.length,
            action: pause.action,
        }
    }
}

/// Bytes of the buffers for each connection of a client: six times what an idle one takes beside them.
const CONNECTION_SHARE: usize = 12 << 10;
/// Connections of clients where buffers are small: less than 1 MiB of idle ones.
const LEAST_CONNECTIONS: usize = 256;
/// As many as one write lane had under way at most where checks are slow and the node is near.
const LEAST_UNDER_WAY: usize = 512;
/// The part of the buffers that accepted transactions may take, one in so many: 32 MiB by default, a block or more of a
/// usual chain.
const RETAINED_SHARE: usize = 8;

/// Everything that is wrong with a configuration: for each thing where it was set, what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

/// A configuration, where each of its values comes from, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The configuration.
    pub config: Config,
    /// The origins, in the order of [`KEYS`].
    origins: Vec<Origin>,
    /// What is legal but probably not meant: one sentence each.
    pub notices: Vec<String>,
}

/// A duration as it is written in a configuration.
///
/// # Errors
/// What is wrong with the text, and how one is written.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    Duration::read(text)
}

/// Resolves default < file < environment < flag. A list in a higher layer replaces the one below.
///
/// # Errors
/// Everything that is wrong, in all layers.
pub fn load(sources: &Sources) -> Result<Resolved, ConfigErrors> {
    let file = match &sources.file {
        Some(path) => {
            let text = layers::read(path).map_err(|error| ConfigErrors(vec![error]))?;
            layers::file(path, &text)
        }
        None => Layer::default(),
    };
    resolve([
        file,
        layers::environment(&sources.environment),
        layers::flags(&sources.flags),
    ])
}

fn resolve(layers: impl IntoIterator<Item = Layer>) -> Result<Resolved, ConfigErrors> {
    let mut errors = Vec::new();
    let mut resolved = Resolved {
        config: Config::default(),
        origins: vec![Origin::Default; KEYS.len()],
        notices: Vec::new(),
    };
    for layer in layers {
        errors.extend(layer.errors);
        for entry in layer.entries {
            let (key, origin) = (&KEYS[entry.place], entry.origin);
            match (key.set)(&mut resolved.config, entry.text.trim()) {
                Ok(()) => resolved.origins[entry.place] = origin,
                Err(reason) => errors.push(format!("{origin}: {}: {reason}", key.name)),
            }
        }
    }
    // What values mean together is checked only once every value could be read.
    if errors.is_empty() {
        errors = check::check(&mut resolved);
    }
    if errors.is_empty() {
        Ok(resolved)
    } else {
        Err(ConfigErrors(errors))
    }
}

impl Resolved {
    /// Where the value of a key comes from; the default when there is no such key.
    pub fn origin(&self, key: &str) -> &Origin {
        Key::find(key).map_or(&Origin::Default, |(place, _)| &self.origins[place])
    }
}

/// TOML that parses back to the same configuration, each value with its origin behind it.
impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# The effective configuration, with the origin of each value.\n")?;
        let mut last = "";
        for (key, origin) in KEYS.iter().zip(&self.origins) {
            let (section, leaf) = key.parts();
            if section != last {
                last = section;
                write!(f, "\n[{section}]\n")?;
            }
            let line = format!("{leaf} = {}", key.toml(&self.config));
            // An origin names a file, and a file's name may hold anything.
            let comment = origin.to_string().replace(char::is_control, "?");
            writeln!(f, "{line:<COMMENT_COLUMN$} # {comment}")?;
        }
        Ok(())
    }
}

impl Key {
    /// The value in TOML.
    pub fn toml(&self, config: &Config) -> String {
        let text = (self.text)(config);
        let quoted = |text: &str| toml::Value::from(text).to_string();
        if self.is_list {
            let elements = text.split(',').filter(|element| !element.is_empty());
            return format!("[{}]", elements.map(quoted).collect::<Vec<_>>().join(", "));
        }
        // "007" is a name, and no number of TOML.
        let is_number = text
            .parse()
            .is_ok_and(|number: i64| number.to_string() == text);
        let is_bare = is_number || text.parse::<bool>().is_ok();
        if is_bare { text } else { quoted(&text) }
    }
}

/// Where the origins stand, unless a value is longer.
const COMMENT_COLUMN: usize = 40;

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

/// What a new configuration comes to while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// Keys whose new values are in force.
    pub applied: Vec<&'static str>,
    /// Keys whose new values need a restart; the old ones stay in force until then.
    pub needs_restart: Vec<&'static str>,
    /// What is legal but probably not meant.
    pub notices: Vec<String>,
}

/// What of a new configuration can be in force after `old`: of that all that needs a restart, the rest of the new one.
///
/// # Errors
/// What stays of the old one and what is new contradict each other.
pub fn change(old: &Config, new: Resolved) -> Result<(Config, Reloaded), ConfigErrors> {
    let (mut applied, mut needs_restart) = (Vec::new(), Vec::new());
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
        if !key.is_live || is_shared {
            needs_restart.push(key.name);
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
    let reloaded = Reloaded {
        applied,
        needs_restart,
        notices: new.notices,
    };
    Ok((merged.config, reloaded))
}
