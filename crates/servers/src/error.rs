//! Why a server is not there.

use std::io;
use std::time::Duration;

use crate::settings::SettingError;

/// Why a server could not be started or stopped. Messages end with its own log where it has written one.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or process operation failed.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A step before the start failed.
    #[error("`{step}` failed: {message}")]
    Init {
        /// What was asked for.
        step: String,
        /// What it said.
        message: String,
    },
    /// A setting cannot be applied.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The process ended before it was ready.
    #[error("{name} ended while starting ({status}); its log ends with:\n{log}")]
    Ended {
        /// The program.
        name: &'static str,
        /// How it ended.
        status: String,
        /// Last lines of its log.
        log: String,
    },
    /// It did not become ready in time.
    #[error("{name} is not ready after {waited:?}; its log ends with:\n{log}")]
    NotReady {
        /// The program.
        name: &'static str,
        /// How long it was awaited.
        waited: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// The caller cancelled the wait.
    #[error("interrupted before the start: nothing was sent")]
    Interrupted,
}

impl StartError {
    /// Makes the error of a file or process operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
