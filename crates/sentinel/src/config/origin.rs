//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

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
