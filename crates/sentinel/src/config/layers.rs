//! The layers above the defaults: a file, the environment, the flags. Each becomes a list of what it
//! sets and where; nothing is interpreted yet. An unknown key is reported with those that are similar.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Key, VARIABLE_PREFIX, sections};
use crate::files;

/// What may set a configuration, from the lowest layer to the highest.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables; only those of the scheme `SENTINEL_SECTION__KEY` matter.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags.
    pub flags: Vec<FlagValue>,
}

/// A flag as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagValue {
    /// The name without the dashes.
    pub flag: String,
    /// The key it sets.
    pub key: String,
    /// Its value; several are separated by commas.
    pub value: String,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is not set.
    Default,
    /// A line of a file, counted from 1.
    File(Arc<PathBuf>, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl Origin {
    /// Whether a layer set it.
    pub(super) const fn is_given(&self) -> bool {
        !matches!(self, Self::Default)
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// One value that a layer sets.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The place of its key in [`KEYS`].
    pub(super) place: usize,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// What a layer sets, and what is wrong with the rest of it.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<String>,
}

impl Layer {
    fn set(&mut self, name: &str, text: Result<String, String>, origin: Origin) {
        match (Key::find(name), text) {
            (None, _) => self.wrong(&origin, unknown_key(name)),
            (_, Err(reason)) => self.wrong(&origin, format_args!("{name}: {reason}")),
            (Some((place, _)), Ok(text)) => self.entries.push(Entry {
                place,
                text,
                origin,
            }),
        }
    }

    fn wrong(&mut self, origin: &Origin, reason: impl Display) {
        self.errors.push(format!("{origin}: {reason}"));
    }
}

/// The text of a file; larger ones than any configuration are refused.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: &dyn Display| format!("{}: {error}", path.display());
    let bytes = files::read(path, MAX_FILE_BYTES).map_err(|error| unreadable(&error))?;
    String::from_utf8(bytes).map_err(|error| unreadable(&error))
}

const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a file sets.
pub(super) fn file(path: &Path, text: &str) -> Layer {
    let mut layer = Layer::default();
    let path = Arc::new(path.to_owned());
    // The line of a place in the text, counted from 1.
    let origin = |offset: usize| {
        let before = text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Origin::File(Arc::clone(&path), line)
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let offset = error.span().map_or(0, |span| span.start);
        layer.wrong(&origin(offset), error.message());
    }
    if !errors.is_empty() {
        return layer;
    }
    for (section, value) in document.get_ref() {
        let at = origin(section.span().start);
        let name = section.get_ref().as_ref();
        let is_known = sections().contains(&name);
        match value.get_ref() {
            DeValue::Table(table) if is_known => {
                for (key, value) in table {
                    let full = format!("{name}.{}", key.get_ref());
                    layer.set(&full, text_of(value.get_ref()), origin(key.span().start));
                }
            }
            _ if is_known => {
                let reason = format!("{name} is a section: write [{name}] and its keys below");
                layer.wrong(&at, reason);
            }
            _ => layer.wrong(&at, unknown_key(name)),
        }
    }
    layer
}

/// Errors after these are mostly consequences of them.
const MAX_SYNTAX_ERRORS: usize = 3;

/// A value as a flag would have it: elements between commas, pairs as `name=value`.
fn text_of(value: &DeValue<'_>) -> Result<String, String> {
    let elements: Result<Vec<String>, String> = match value {
        DeValue::Array(array) => array.iter().map(|one| scalar(one.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(name, one)| Ok(format!("{}={}", name.get_ref(), scalar(one.get_ref())?)))
            .collect(),
        value => return scalar(value),
    };
    elements.map(|elements| elements.join(","))
}

fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| format!("{number} is too large")),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Datetime(_) => Err("a date is never wanted here".to_owned()),
        DeValue::Array(_) | DeValue::Table(_) => Err("nested too deeply".to_owned()),
    }
}

/// What the environment sets. Variables of other programs that happen to begin with `SENTINEL_`
/// (an orchestrator names the ports of a service `sentinel` so) are left alone unless they are a slip
/// of ours.
pub(super) fn environment(variables: &[(OsString, OsString)]) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
            continue;
        };
        let origin = Origin::Environment(name.to_owned());
        let Some((section, leaf)) = rest.split_once("__") else {
            if let Some(meant) = meant(name) {
                let reason = format!("unknown variable; did you mean {meant}?");
                layer.wrong(&origin, reason);
            }
            continue;
        };
        let key = format!("{section}.{leaf}").to_ascii_lowercase();
        let text = value.to_str().map(str::to_owned);
        layer.set(&key, text.ok_or_else(|| "not UTF-8".to_owned()), origin);
    }
    layer
}

/// The variable that was meant when one of the two underscores, or the key, is missing.
fn meant(name: &str) -> Option<String> {
    let mut variables = KEYS.iter().map(Key::variable);
    variables.find(|variable| {
        let section = variable.split("__").next().unwrap_or_default();
        strsim::damerau_levenshtein(name, &variable.replace("__", "_")) <= 1 || name == section
    })
}

/// What the flags set.
pub(super) fn flags(flags: &[FlagValue]) -> Layer {
    let mut layer = Layer::default();
    for (index, FlagValue { flag, key, value }) in flags.iter().enumerate() {
        match flags[..index].iter().find(|earlier| earlier.key == *key) {
            Some(FlagValue { flag: earlier, .. }) => layer.errors.push(format!(
                "{key} is set twice, by --{earlier} and by --{flag}; keep one"
            )),
            None => layer.set(key, Ok(value.clone()), Origin::Flag(flag.clone())),
        }
    }
    layer
}

/// What is wrong with a key that does not exist.
fn unknown_key(name: &str) -> String {
    match REPLACED.iter().find(|(known, _)| *known == name) {
        Some((_, instead)) => format!("{name} is no longer a key; {instead}"),
        None => format!("unknown key {name}; {}", hint(name)),
    }
}

/// Keys that there were, and what to do instead.
const REPLACED: [(&str, &str); 3] = [
    (
        "limits.connections",
        "there is one connection for each 12 KiB of buffer.bytes",
    ),
    (
        "limits.connections_per_client",
        "a client may have as many as are free besides; buffer.bytes decides how many there are",
    ),
    (
        "listen.proxy_protocol",
        "write trust.proxies = [\"NETWORK proxy-protocol\"]",
    ),
];

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
        assert_eq!(hint("pace.max-req"), "did you mean fair.max_req?");
        assert_eq!(hint("pause.pause_for"), "did you mean pause.for?");
        assert!(hint("limits.patience").contains("[limits] has body_bytes,"));
        assert!(hint("cache.bytes").contains("did you mean buffer.bytes?"));
        assert!(hint("cache.eviction").contains("the sections are listen, tls, upstream"));
    }
}
