//! The command line: what the user typed, before anything is resolved.

mod settings;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use ops::examples;

pub use settings::SettingFlags;

/// A proxy for a CometBFT node's RPC: shares its write capacity fairly between clients, sends writes
/// at the rate at which the node commits most, and can pause them to let the node recover.
#[derive(Debug, Parser)]
#[command(
    name = "sentinel",
    version,
    propagate_version = true,
    args_conflicts_with_subcommands = true,
    before_long_help = EXAMPLES,
    after_help = "See --help for examples, the environment and the exit codes.",
    after_long_help = MORE
)]
pub struct Cli {
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// A TOML file with settings (see config/sentinel.toml) [env: SENTINEL_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print the effective configuration as TOML, with the origin of each value, and stop.
    #[arg(long)]
    pub print_config: bool,

    /// Everything that can be set.
    #[command(flatten)]
    pub settings: SettingFlags,
}

/// What `sentinel` does beside serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a configuration file on its own: exit code 0 when it is right, 2 when it is not.
    #[command(before_long_help = examples![
        "sentinel check config/sentinel.toml"
        "sentinel check /etc/sentinel.toml"
    ])]
    Check {
        /// The file (TOML).
        file: PathBuf,
    },
    /// Print a running sentinel's figures every second; a terminal is cleared before each.
    #[command(before_long_help = examples![
        "sentinel top"
        "sentinel top --admin http://127.0.0.1:26681 --once"
    ])]
    Top {
        /// Its operator's listener: a URL, an address with a port, or a port of this machine.
        #[arg(long, value_name = "URL", default_value = "127.0.0.1:26681", value_parser = crate::top::address)]
        admin: String,
        /// Print the figures once and end.
        #[arg(long)]
        once: bool,
    },
    /// Print the completion script of a shell.
    #[command(before_long_help = examples![
        "sentinel completions bash > ~/.local/share/bash-completion/completions/sentinel"
        "sentinel completions zsh > ~/.zfunc/_sentinel"
    ])]
    Completions {
        /// The shell.
        shell: ops::command::Shell,
    },
    /// Print the manual page in roff (read it with: sentinel man | man -l -).
    #[command(before_long_help = examples!["sentinel man | man -l -" "sentinel man > sentinel.1"])]
    Man,
}

const EXAMPLES: &str = examples![
    "sentinel --max-req 2000 --pause-interval 100s"
    "sentinel --upstream http://10.0.0.5:26657 --listen 0.0.0.0:26680 --deny 192.0.2.0/24"
    "sentinel --config sentinel.toml --set fair.weights=10.0.0.0/8=4 --print-config"
];

const MORE: &str = "\
Settings: a flag beats the environment, the environment the file, the file the default. Every key of \
the file has a variable, SENTINEL_ and section and key with two underscores between them: \
SENTINEL_FAIR__MAX_REQ=2000/s. A list replaces the one below it; in flags and variables commas \
separate its elements.

Values: rates 2000/s, 2000, 30k/m; times 100s, 1.5s, 20ms; sizes 64MiB, 100kB, 1000000.

Signals: SIGTERM and SIGINT stop taking requests, forward what is queued for shutdown.drain and end; \
a second one ends at once. SIGHUP does the same where a terminal is closed; else it has the settings read again (see docs/sentinel.md).

Exit codes: 0 ended as asked; 1 failed; 2 the command line or the configuration is wrong.";
