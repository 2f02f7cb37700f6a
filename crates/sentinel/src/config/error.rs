//! What can be wrong with a configuration, and where its values come from. Everything that is wrong is
//! reported at once.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// One thing that is wrong: where it was set, what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// What a layer sets cannot be used.
    pub(super) fn at(origin: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self(format!("{origin}: {reason}"))
    }

    /// A value is not understood or out of its range.
    pub(super) fn value(key: &str, origin: &Origin, reason: impl fmt::Display) -> Self {
        Self(format!("{origin}: {key}: {reason}"))
    }

    /// Two values contradict each other.
    pub(super) const fn conflict(text: String) -> Self {
        Self(text)
    }
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

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is not set.
    Default,
    /// It is not set, and follows another key.
    Follows(&'static str),
    /// A line of a file, counted from 1.
    File(Arc<PathBuf>, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl Origin {
    /// Higher layers win.
    pub(super) const fn layer(&self) -> u8 {
        match self {
            Self::Default | Self::Follows(_) => 0,
            Self::File(..) => 1,
            Self::Environment(_) => 2,
            Self::Flag(_) => 3,
        }
    }

    /// Whether it was set.
    pub(super) const fn is_given(&self) -> bool {
        self.layer() > 0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Follows(key) => write!(f, "follows {key}"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}
