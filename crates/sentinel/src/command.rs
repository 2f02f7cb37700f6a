//! From the command line to the exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{Level, info, warn};

use crate::cli::{Cli, Command};
use crate::config::{self, Config, LogLevel, Resolved, Sources};
use crate::exit;
use crate::open_files;
use crate::serve::{Listeners, ServeError, serve};

/// An error and the exit code it leads to.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code.
    pub code: u8,
    /// What went wrong; one line for each thing.
    pub source: anyhow::Error,
}

/// Does what the command line says; gives the exit code. `environment` is where variables of
/// settings are looked for.
///
/// # Errors
/// With exit code 2 when the command line or the configuration is at fault, 1 otherwise.
pub fn execute(cli: Cli, environment: Vec<(OsString, OsString)>) -> Result<u8, CommandError> {
    match cli.command {
        Some(Command::Check { file }) => check(&file),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sentinel", &mut script);
            Ok(print(&script))
        }
        Some(Command::Man) => manual().map(|page| print(&page)).map_err(failed),
        None => {
            let sources = Sources {
                file: cli.config.or_else(|| file_of(&environment)),
                environment,
                flags: cli.settings.into_values(),
            };
            let resolved = config::load(&sources).map_err(usage)?;
            if cli.print_config {
                return Ok(print(resolved.to_string().as_bytes()));
            }
            run(resolved)
        }
    }
}

/// Writes to stdout. A reader that has seen enough closes the pipe; that is no failure.
fn print(bytes: &[u8]) -> u8 {
    let _ = io::stdout().lock().write_all(bytes);
    exit::DONE
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
    for notice in &resolved.notices {
        let _ = writeln!(io::stderr(), "{}: note: {notice}", file.display());
    }
    Ok(print(format!("{}: ok\n", file.display()).as_bytes()))
}

/// The manual: the program's page, then one for each command.
fn manual() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let title = format!("sentinel-{}", subcommand.get_name());
        clap_mangen::Man::new(subcommand.clone())
            .title(title)
            .render(&mut page)?;
    }
    Ok(page)
}

/// Serves until a signal.
fn run(resolved: Resolved) -> Result<u8, CommandError> {
    let Resolved {
        config, notices, ..
    } = resolved;
    log_to_stderr(config.log.level);
    for notice in notices {
        warn!("{notice}");
    }
    open_files::allow(&config);
    let runtime = runtime(config.listen.threads).map_err(failed)?;
    let ended = runtime.block_on(until_signal(config));
    // Whatever still runs has had its time.
    runtime.shutdown_background();
    ended.map(|()| exit::DONE)
}

fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(level)
        .init();
}

/// One thread serves clients without handing tasks between cores; more only when asked for.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}

async fn until_signal(config: Config) -> Result<(), CommandError> {
    // Before the listeners: whoever sees them open may send the signal.
    let mut signals = Signals::install().map_err(failed)?;
    let listeners = Listeners::bind(&config).await.map_err(unserved)?;
    let shutdown = CancellationToken::new();
    let serving = serve(listeners, config, shutdown.clone());
    tokio::pin!(serving);
    let accounts = tokio::select! {
        ended = &mut serving => ended.map_err(unserved)?,
        name = signals.next() => {
            info!(signal = name, "going down: queued writes are still forwarded");
            shutdown.cancel();
            tokio::select! {
                ended = &mut serving => ended.map_err(unserved)?,
                name = signals.next() => {
                    return Err(failed(anyhow::anyhow!("{name} again: ended before the queue was empty")));
                }
            }
        }
    };
    info!(?accounts, "ended");
    Ok(())
}

/// The signals that ask for the end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn unserved(error: ServeError) -> CommandError {
    CommandError {
        code: match error {
            ServeError::Limits(_) => exit::USAGE,
            _ => exit::FAILED,
        },
        source: error.into(),
    }
}

fn usage(error: impl Into<anyhow::Error>) -> CommandError {
    CommandError {
        code: exit::USAGE,
        source: error.into(),
    }
}

fn failed(error: impl Into<anyhow::Error>) -> CommandError {
    CommandError {
        code: exit::FAILED,
        source: error.into(),
    }
}
