//! What can be wrong with a configuration. Everything that is wrong is told at once.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::origin::Origin;

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: {reason}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the parser wanted.
        reason: String,
    },
    /// There is no such key.
    #[error("{origin}: unknown key {key}{hint}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// The near ones, as the end of the sentence.
        hint: String,
    },
    /// A value is not understood or out of its range.
    #[error("{origin}: {key}: {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// Where it was set.
        origin: Origin,
        /// What is wrong and how to write it.
        reason: String,
    },
    /// Two values cannot both be.
    #[error("{text}")]
    Conflict {
        /// Which, where they were set, and what to do.
        text: String,
    },
}

/// Everything that is wrong; at least one thing.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The result, or what is wrong with it.
    pub(super) fn none<T>(errors: Vec<ConfigError>, result: T) -> Result<T, Self> {
        if errors.is_empty() {
            Ok(result)
        } else {
            Err(Self(errors))
        }
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
