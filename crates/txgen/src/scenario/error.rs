//! Why a scenario cannot be played, and what was meant instead.

use std::path::PathBuf;

use pacing::ProfileError;

use servers::{DottedError, nearest};

/// Why a scenario file cannot be played. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file, or one it refers to, cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not the TOML of a scenario.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what, with the nearest known key for an unknown one.
        message: String,
    },
    /// A phase is illegal.
    #[error("{}, phase {number}", path.display())]
    Phase {
        /// The file.
        path: PathBuf,
        /// The phase, counted from one.
        number: usize,
        /// What is wrong with it.
        #[source]
        source: ProfileError,
    },
    /// One run of several cannot be made.
    #[error("{}, run {label:?}", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// Its case and parameters.
        label: String,
        /// What is wrong with it.
        #[source]
        source: Box<Self>,
    },
    /// A key of `--set`, a case or the matrix leads nowhere.
    #[error("{}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: DottedError,
    },
    /// The phases do not fit together, or there is nothing to play.
    #[error("{}: {problem}", path.display())]
    Illegal {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else {
        return message.trim_end().into();
    };
    let Some((unknown, expected)) = rest.split_once('`') else {
        return message.trim_end().into();
    };
    let known = expected.split('`').skip(1).step_by(2);
    match nearest(unknown, known) {
        Some(key) => format!("{}\ndid you mean `{key}`?", message.trim_end()),
        None => message.trim_end().into(),
    }
}
