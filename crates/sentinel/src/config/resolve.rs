//! From layers to one configuration.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::error::{ConfigError, ConfigErrors, Origin};
use super::keys::{self, KEYS, Key};
use super::layers::{self, Entry, Layer, Sources};
use super::{Config, PauseMode, check};

/// A configuration, where each of its values comes from, and what is odd about it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The configuration.
    pub config: Config,
    /// The origins, in the order of [`KEYS`].
    pub(super) origins: Vec<Origin>,
    /// What is legal but probably not meant: one sentence each.
    pub notices: Vec<String>,
}

/// Resolves default < file < environment < flag. A list in a higher layer replaces the one below.
///
/// # Errors
/// Everything that is wrong, in all layers.
pub fn load(sources: &Sources) -> Result<Resolved, ConfigErrors> {
    let file = match &sources.file {
        Some(path) => layers::file(path, &layers::read(path)?),
        None => Layer::default(),
    };
    resolve([
        file,
        layers::environment(&sources.environment),
        layers::flags(&sources.flags),
    ])
}

/// The configuration of a file's text alone; `path` is only shown.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(path: &Path, text: &str) -> Result<Resolved, ConfigErrors> {
    resolve([layers::file(path, text)])
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
            if let Err(error) = resolved.apply(entry) {
                errors.push(error);
            }
        }
    }
    // Ranges are checked only once every value could be read.
    if errors.is_empty() {
        resolved.imply();
        resolved.follow();
        errors = check::check(&mut resolved);
    }
    ConfigErrors::none(errors, resolved)
}

impl Resolved {
    /// Where the value of a key comes from; `None` when there is no such key.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        keys::find(key).map(|place| &self.origins[place])
    }

    /// Where the value of a key of the table comes from.
    pub(super) fn origin_of(&self, key: &str) -> &Origin {
        self.origin(key).unwrap_or(&Origin::Default)
    }

    fn is_given(&self, key: &str) -> bool {
        self.origin_of(key).is_given()
    }

    fn apply(&mut self, entry: Entry) -> Result<(), ConfigError> {
        let key = &KEYS[entry.key];
        (key.set)(&mut self.config, &entry.given)
            .map_err(|reason| ConfigError::value(key.name, &entry.origin, reason))?;
        self.origins[entry.key] = entry.origin;
        Ok(())
    }

    /// `--pause-interval 100s` alone means breaks by the clock, `--min-tx-rate` alone breaks by
    /// throughput, both mean both. A mode that is set in the same or a higher layer stands; one that
    /// is set in a lower layer (a file, and the flag is on the command line) is added to.
    fn imply(&mut self) {
        let mode = self.origin_of("pause.mode").layer();
        let above = |key: &&str| self.origin_of(key).layer() > mode;
        let clock = Some("pause.interval").filter(above);
        let threshold = ["pause.min_tx_rate", "pause.min_fraction"]
            .into_iter()
            .find(above);
        let Some(because) = clock.or(threshold) else {
            return;
        };
        let before = self.config.pause.mode;
        let clock = clock.is_some() || before.by_clock();
        let threshold = threshold.is_some() || before.by_throughput();
        self.config.pause.mode = match (clock, threshold) {
            (true, true) => PauseMode::Both,
            (true, false) => PauseMode::Interval,
            (false, true) => PauseMode::Threshold,
            (false, false) => before,
        };
        if self.config.pause.mode != before {
            self.follows("pause.mode", because);
        }
    }

    fn follows(&mut self, key: &'static str, leader: &'static str) {
        if let Some(place) = keys::find(key) {
            self.origins[place] = Origin::Follows(leader);
        }
    }

    /// A default is adjusted to a value that was set: with `--max-req 10` the lowest rate is 10/s
    /// instead of 50/s.
    fn follow(&mut self) {
        for pair in PAIRS {
            if !self.is_given(pair.lower)
                && self.is_given(pair.upper)
                && (pair.is_above)(&self.config)
            {
                (pair.lower_it)(&mut self.config);
                self.follows(pair.lower, pair.upper);
            }
        }
        self.follow_ping();
    }

    /// A client answers a ping before it counts as silent, so the ping comes first: 27 s and 30 s on
    /// the node, and in the same proportion when one of the two is set.
    fn follow_ping(&mut self) {
        let (ping, read) = (self.config.ws.ping_interval, self.config.ws.read_timeout);
        if ping < read {
            return;
        }
        if !self.is_given("ws.ping_interval") {
            self.config.ws.ping_interval = read * 9 / 10;
            self.follows("ws.ping_interval", "ws.read_timeout");
        } else if !self.is_given("ws.read_timeout") {
            self.config.ws.read_timeout = ping.saturating_mul(10) / 9;
            self.follows("ws.read_timeout", "ws.ping_interval");
        }
    }
}

/// Two keys of which the first must not be above the second. A default of the first is lowered to a
/// value of the second that was set.
pub(super) struct Pair {
    pub(super) lower: &'static str,
    pub(super) upper: &'static str,
    pub(super) is_above: fn(&Config) -> bool,
    lower_it: fn(&mut Config),
}

macro_rules! pairs {
    ($($lower:ident.$low:ident <= $upper:ident.$high:ident,)+) => {
        &[$(Pair {
            lower: concat!(stringify!($lower), ".", stringify!($low)),
            upper: concat!(stringify!($upper), ".", stringify!($high)),
            is_above: |config| config.$lower.$low > config.$upper.$high,
            lower_it: |config| config.$lower.$low = config.$upper.$high,
        },)+]
    };
}

pub(super) const PAIRS: &[Pair] = pairs![
    pace.min_req <= fair.max_req,
    limits.connections_per_client <= limits.connections,
    reads.concurrency_per_client <= reads.concurrency,
    pace.inflight_per_connection <= pace.inflight,
    limits.uri_bytes <= limits.header_bytes,
    limits.body_bytes <= buffer.bytes,
];

/// TOML that parses back to the same configuration, each value with its origin behind it.
impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# The effective configuration, with the origin of each value.\n")?;
        let mut section = "";
        for (key, origin) in KEYS.iter().zip(&self.origins) {
            if key.section() != section {
                section = key.section();
                write!(f, "\n[{section}]\n")?;
            }
            let line = self.line(key);
            // An origin names a file, and a file's name may hold anything.
            let mut comment = String::new();
            for c in origin.to_string().chars() {
                write!(comment, "{}", if c.is_control() { '?' } else { c })?;
            }
            writeln!(f, "{line:<COMMENT_COLUMN$} # {comment}")?;
        }
        Ok(())
    }
}

impl Resolved {
    fn line(&self, key: &Key) -> String {
        format!("{} = {}", key.leaf(), key.value(&self.config))
    }
}

/// Where the origins stand, unless a value is longer.
const COMMENT_COLUMN: usize = 40;
