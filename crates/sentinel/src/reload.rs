//! The configuration is read anew while the program runs: on SIGHUP, or by `POST /reload` on the operator's listener.
//!
//! A configuration that is wrong changes nothing. One that is right is put in force at once where it can be
//! ([`Key::is_live`](crate::config::Key::is_live)); connections, queues and counters stay as they are.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio_rustls::rustls::pki_types::UnixTime;
use tracing::{info, warn};

pub use crate::config::Reloaded;
use crate::config::{self, Resolved, Sources};
use crate::files::SettingError;
use crate::identity::Identities;
use crate::keys::KnownKeys;
use crate::shared_context::SharedContext;
use crate::tls;

/// Reads the configuration anew. Clones share it; one reload at a time.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    read: ReadConfig,
    set_level: Box<dyn Fn(tracing::Level) + Send + Sync>,
    context: OnceLock<SharedContext>,
    turn: Mutex<()>,
}

type ReadConfig = Box<dyn Fn() -> Result<Resolved, String> + Send + Sync>;

/// Why the old configuration stays in force, a line for each fault: where it was set, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the old configuration stays in force: {0}")]
pub struct NotReloaded(pub String);

impl Reloader {
    /// Reads these sources again. `set_level` changes the level of the log.
    pub fn new(
        sources: Sources,
        set_level: impl Fn(tracing::Level) + Send + Sync + 'static,
    ) -> Self {
        let read = move || config::load(&sources).map_err(|error| error.to_string());
        Self::of(Box::new(read), Box::new(set_level))
    }

    /// For a program that has its configuration from elsewhere: nothing can be read again.
    pub fn none() -> Self {
        let read = || Err("it was not read from a file, the environment or flags".to_owned());
        Self::of(Box::new(read), Box::new(|_| {}))
    }

    fn of(read: ReadConfig, set_level: Box<dyn Fn(tracing::Level) + Send + Sync>) -> Self {
        Self(Arc::new(Inner {
            read,
            set_level,
            context: OnceLock::new(),
            turn: Mutex::new(()),
        }))
    }

    /// From now on what is in there follows what is read.
    pub(crate) fn attach(&self, context: SharedContext) {
        let _ = self.0.context.set(context);
    }

    /// Reads the configuration, and puts in force what can be. Reads a file of at most 1 MiB, and blocks while it does.
    ///
    /// # Errors
    /// Something is wrong with it, or the program has not begun to serve: nothing was changed.
    pub fn reload(&self) -> Result<Reloaded, NotReloaded> {
        let _turn = self.0.turn.lock();
        let outcome = self.try_reload().map_err(NotReloaded);
        match &outcome {
            Ok(reloaded) => {
                for notice in &reloaded.notices {
                    warn!("{notice}");
                }
                info!("{reloaded}");
            }
            Err(error) => warn!("{error}"),
        }
        outcome
    }

    fn try_reload(&self) -> Result<Reloaded, String> {
        let early = || "the program has not begun to serve".to_owned();
        let context = self.0.context.get().ok_or_else(early)?;
        let resolved = (self.0.read)()?;
        // Files are read anew under the same names too.
        let located = |error: SettingError| format!("{}: {error}", resolved.origin(error.key));
        let tls = tls::load(&resolved.config, UnixTime::now()).map_err(located)?;
        let known = KnownKeys::load(resolved.config.keys.file.as_deref()).map_err(located)?;
        let change = config::change(&context.config.current(), resolved);
        let (mut config, reloaded) = change.map_err(|error| error.to_string())?;
        config.known = Arc::new(known);
        // The steps that can fail come first.
        let identities = Identities::new(&config.trust).map_err(|error| error.to_string())?;
        context.identities.follow(identities);
        context.tls.follow(tls);
        context.budget.follow(&config);
        (self.0.set_level)(config.log.level);
        context.config.replace(config);
        Ok(reloaded)
    }
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applied.is_empty() {
            f.write_str("the configuration was read again; nothing changes now")?;
        } else {
            write!(
                f,
                "the configuration was read again; in force: {}",
                self.applied.join(", ")
            )?;
        }
        if !self.needs_restart.is_empty() {
            write!(f, "; needs a restart: {}", self.needs_restart.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
