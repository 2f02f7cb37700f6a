//! From the command line to the exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use ops::command::{CommandError, completions, exit, failed, manual, print, usage};
use ops::process::{self, TooFewOpenFiles};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{Cli, Command};
use crate::config::{Config, Resolved, Sources};
use crate::handover::{NotifyState, Predecessor};
use crate::keys::KnownKeys;
use crate::lane::OWN_CONNECTIONS;
use crate::log::Log;
use crate::reload::Reloader;
use crate::serve::{ListenError, Listeners, ServeError, serve_replacing};
use crate::{config, handover, tls, top};

/// Runs the command; returns the exit code. `environment` is where variables of
/// settings are looked for.
///
/// # Errors
/// With exit code 2 when the command line or the configuration is at fault, 1 otherwise.
pub fn execute(cli: Cli, environment: Vec<(OsString, OsString)>) -> Result<u8, CommandError> {
    match cli.command {
        Some(Command::Check { file }) => check(&file),
        Some(Command::Top { admin, once }) => top::run(&admin, once),
        Some(Command::Completions { shell }) => Ok(completions::<Cli>(shell)),
        Some(Command::Man) => manual::<Cli>(),
        None => {
            let sources = Sources {
                file: cli.config.or_else(|| file_of(&environment)),
                environment,
                flags: cli.settings.0,
            };
            let resolved = config::load(&sources).map_err(usage)?;
            if cli.print_config {
                return Ok(print(resolved.to_string().as_bytes()));
            }
            run(resolved, sources)
        }
    }
}

fn file_of(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    environment
        .iter()
        .find(|(name, value)| name == "SENTINEL_CONFIG" && !value.is_empty())
        .map(|(_, value)| value.into())
}

fn check(file: &Path) -> Result<u8, CommandError> {
    let sources = Sources {
        file: Some(file.to_owned()),
        ..Sources::default()
    };
    let resolved = config::load(&sources).map_err(usage)?;
    tls::load(&resolved.config, UnixTime::now()).map_err(usage)?;
    KnownKeys::load(resolved.config.keys.file.as_deref()).map_err(usage)?;
    for notice in &resolved.notices {
        let _ = writeln!(io::stderr(), "{}: note: {notice}", file.display());
    }
    Ok(print(format!("{}: ok\n", file.display()).as_bytes()))
}

/// Serves until a signal.
fn run(resolved: Resolved, sources: Sources) -> Result<u8, CommandError> {
    let mut config = resolved.config;
    let (log, level) = Log::begin(config.log.level).map_err(failed)?;
    for notice in resolved.notices {
        warn!("{notice}");
    }
    allow_open_files(&mut config);
    let runtime = runtime(config.listen.threads.count()).map_err(failed)?;
    let set_level = move |wanted| {
        // Fails only once nothing is logged any more.
        let _ = level.modify(|filter| *filter = LevelFilter::from_level(wanted));
    };
    let reloader = Reloader::new(sources, set_level);
    let ended = runtime.block_on(until_signal(config, reloader));
    let is_read = runtime.block_on(log.end());
    // Tasks that still run have exceeded the shutdown budget.
    runtime.shutdown_background();
    match ended {
        // To say why on stderr would wait for ever.
        Err(error) if !is_read => Ok(error.code),
        ended => ended.map(|()| exit::DONE),
    }
}

/// Raises the limit of open files to what the configuration needs. When it cannot, fewer connections
/// of clients are let in, so that there are always files for the nodes and the operator.
fn allow_open_files(config: &mut Config) {
    if let Err(TooFewOpenFiles { needed, limit }) = process::allow_open_files(files_needed(config))
    {
        config.fixed.most_connections = affordable(config, limit);
        let connections = config.connections();
        let text = "open files allow fewer connections of clients than buffer.bytes: raise the hard limit (ulimit -Hn, or \
                    LimitNOFILE in the unit)";
        // The default promises no number of clients, and the first line of the log has it.
        if config.buffer.bytes == Config::default().buffer.bytes {
            debug!(needed, limit, connections, "{text}");
        } else {
            warn!(needed, limit, connections, "{text}");
        }
    }
}

/// Connections of clients that so many open files allow.
fn affordable(config: &Config, limit: u64) -> usize {
    let connections = config.connections();
    let others = files_needed(config) - connections as u64 + process::RESERVED_FILES;
    let left = usize::try_from(limit.saturating_sub(others)).unwrap_or(usize::MAX);
    left.clamp(1, connections)
}

/// One for each client's connection and each connection to a node; writes that go alone and those in an unusual
/// form have connections of their own.
fn files_needed(config: &Config) -> u64 {
    let upstream = &config.upstream;
    let writes = config.pace.mode.most_connections() * upstream.urls.len() + OWN_CONNECTIONS;
    let nodes = writes + config.reads.concurrency + config.fixed.subscribers * upstream.urls.len();
    (config.connections() + nodes) as u64
}

/// One thread serves clients without handing tasks between cores.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build()
}

async fn until_signal(config: Config, reloader: Reloader) -> Result<(), CommandError> {
    // Before the listeners: a signal may come as soon as they are open.
    let mut signals = Signals::install(reloader.clone()).map_err(failed)?;
    let (predecessor, listeners) = sockets(&config).await?;
    let shutdown = CancellationToken::new();
    let serving = serve_replacing(listeners, config, (reloader, predecessor), shutdown.clone());
    tokio::pin!(serving);
    let accounts = tokio::select! {
        ended = &mut serving => ended.map_err(unserved)?,
        name = signals.next() => {
            info!(signal = name, "going down: queued writes are still forwarded");
            handover::notify(NotifyState::Stopping);
            shutdown.cancel();
            tokio::select! {
                ended = &mut serving => ended.map_err(unserved)?,
                name = signals.next() => {
                    return Err(failed(anyhow::anyhow!("{name} again: ended before the queue was empty")));
                }
            }
        }
    };
    info!("ended: {accounts}");
    Ok(())
}

/// The sockets to serve: those of the process that serves now if there is one, else those that a service manager has
/// opened and the configured ones.
async fn sockets(config: &Config) -> Result<(Option<Predecessor>, Listeners), CommandError> {
    if let Some(path) = &config.listen.handover {
        let taken = handover::take(Path::new(path)).await;
        let taken = taken.map_err(|error| {
            failed(anyhow::Error::new(error).context(format!("listen.handover = {path}")))
        })?;
        if let Some((predecessor, passed)) = taken {
            let listeners = Listeners::replace(passed, config).await;
            return Ok((Some(predecessor), listeners.map_err(unserved)?));
        }
    }
    let passed = handover::passed_listeners().map_err(unusable)?;
    let listeners = Listeners::inherit(passed, config).await;
    Ok((None, listeners.map_err(unserved)?))
}

/// The signals that ask for the end. A terminal that is closed sends SIGHUP; to a service it is sent for settings to be
/// read again.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    has_terminal: bool,
    reloader: Reloader,
}

impl Signals {
    fn install(reloader: Reloader) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            has_terminal: io::stderr().is_terminal(),
            reloader,
        })
    }

    /// The name of the next one. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {
                    if self.has_terminal {
                        return "SIGHUP";
                    }
                    let reloader = self.reloader.clone();
                    // What it comes to is logged. A file may be slow to read, and clients are served on this thread.
                    tokio::task::spawn_blocking(move || reloader.reload());
                }
            }
        }
    }
}

/// Starting again would not change what the unit passes.
fn unusable(error: io::Error) -> CommandError {
    usage(
        anyhow::Error::new(error)
            .context("the sockets that were passed (LISTEN_FDS) cannot be used"),
    )
}

fn unserved(error: impl Into<ServeError>) -> CommandError {
    let error = error.into();
    CommandError {
        code: match error {
            ServeError::Limits(_)
            | ServeError::Setting(_)
            | ServeError::Listeners(ListenError::Passed { .. }) => exit::USAGE,
            _ => exit::FAILED,
        },
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_64_files_are_kept_for_the_nodes_and_the_operator() {
        let config = Config::default();
        let others = 64 + OWN_CONNECTIONS as u64 + 256 + 20 + process::RESERVED_FILES;
        assert_eq!(affordable(&config, others + 1_000), 1_000);
        assert_eq!(affordable(&config, 64), 1);
        assert_eq!(affordable(&config, u64::MAX), 21_845);
    }

    #[test]
    fn every_connection_has_its_file() {
        let mut config = Config::default();
        assert!(files_needed(&config) > 21_845);
        config.buffer.bytes = 64 << 10;
        assert_eq!(config.connections(), 256);
    }
}
