//! The layers above the defaults: a file, the environment, the flags. Each becomes a list of what it
//! sets and where; nothing is interpreted yet.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::keys::{self, KEYS, VARIABLE_PREFIX};
use super::suggest;
use super::value::Given;

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

/// One value that a layer sets.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The place of its key in [`KEYS`].
    pub(super) key: usize,
    pub(super) given: Given,
    pub(super) origin: Origin,
}

/// What was found, and what is wrong with the rest.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) entries: Vec<Entry>,
    pub(super) errors: Vec<ConfigError>,
}

impl Layer {
    fn set(&mut self, name: &str, given: Given, origin: Origin) {
        match keys::find(name) {
            Some(key) => self.entries.push(Entry { key, given, origin }),
            None => self.unknown(name, origin),
        }
    }

    fn unknown(&mut self, name: &str, origin: Origin) {
        let hint = suggest::hint(name);
        self.syntax(origin, format_args!("unknown key {name}{hint}"));
    }

    fn syntax(&mut self, origin: Origin, reason: impl Display) {
        self.errors.push(ConfigError::at(origin, reason));
    }
}

/// The text of a file; larger ones than any configuration are refused.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |error: &dyn Display| ConfigError::at(path.display(), error);
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| unreadable(&error))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(&"larger than 1 MiB; is this a configuration?"));
    }
    Ok(text)
}

const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a file sets.
pub(super) fn file(path: &Path, text: &str) -> Layer {
    let mut layer = Layer::default();
    let path = Arc::new(path.to_owned());
    let origin = |offset| Origin::File(Arc::clone(&path), line_of(text, offset));
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
            let offset = error.span().map_or(0, |span| span.start);
            layer.syntax(origin(offset), error.message());
        }
        return layer;
    }
    for (section, value) in document.get_ref() {
        let at = || origin(section.span().start);
        let name = section.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(table) if keys::sections().any(|known| known == name) => {
                for (key, value) in table {
                    let full = format!("{name}.{}", key.get_ref());
                    let at = origin(key.span().start);
                    match given(value.get_ref()) {
                        Ok(given) => layer.set(&full, given, at),
                        Err(reason) => layer.syntax(at, format!("{full}: {reason}")),
                    }
                }
            }
            DeValue::Table(_) => layer.unknown(name, at()),
            _ if keys::sections().any(|known| known == name) => layer.syntax(
                at(),
                format!("{name} is a section: write [{name}] and its keys below"),
            ),
            _ => layer.unknown(name, at()),
        }
    }
    layer
}

/// Errors after these are mostly consequences of them.
const MAX_SYNTAX_ERRORS: usize = 3;

/// The line of a place in a text, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|byte| **byte == b'\n').count()
}

fn given(value: &DeValue<'_>) -> Result<Given, String> {
    match value {
        DeValue::Array(array) => array
            .iter()
            .map(|element| scalar(element.get_ref()))
            .collect::<Result<_, _>>()
            .map(Given::List),
        DeValue::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.get_ref().to_string(), scalar(value.get_ref())?)))
            .collect::<Result<_, _>>()
            .map(Given::Pairs),
        value => scalar(value).map(Given::Text),
    }
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
                layer.syntax(origin, format!("unknown variable; did you mean {meant}?"));
            }
            continue;
        };
        let key = format!("{section}.{leaf}").to_ascii_lowercase();
        match value.to_str() {
            Some(value) => layer.set(&key, Given::Text(value.to_owned()), origin),
            None => layer.syntax(origin, "not UTF-8"),
        }
    }
    layer
}

/// The variable that was meant when one of the two underscores, or the key, is missing.
fn meant(name: &str) -> Option<String> {
    let slip = |key: &&keys::Key| {
        let variable = key.variable();
        let section = variable.split("__").next().unwrap_or_default();
        strsim::damerau_levenshtein(name, &variable.replace("__", "_")) <= 1 || name == section
    };
    KEYS.iter().find(slip).map(keys::Key::variable)
}

/// What the flags set.
pub(super) fn flags(flags: &[FlagValue]) -> Layer {
    let mut layer = Layer::default();
    for FlagValue { flag, key, value } in flags {
        let origin = Origin::Flag(flag.clone());
        let earlier = layer
            .entries
            .iter()
            .find(|entry| KEYS[entry.key].name == key)
            .map(|entry| entry.origin.clone());
        if let Some(earlier) = earlier {
            let text = format!("{key} is set twice, by {earlier} and by {origin}; keep one");
            layer.errors.push(ConfigError::conflict(text));
            continue;
        }
        layer.set(key, Given::Text(value.clone()), origin);
    }
    layer
}
