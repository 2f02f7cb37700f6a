//! The command line: what the user typed, before anything is resolved.

mod settings;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use settings::SettingFlags;

/// A proxy for a CometBFT node's RPC: shares its write capacity fairly between clients, sends writes
/// at the rate at which the node commits most, and can pause them to let the node recover.
#[derive(Debug, Parser)]
#[command(
    name = "sentinel",
    version,
    propagate_version = true,
    args_conflicts_with_subcommands = true,
    before_long_help = examples("sentinel"),
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

    /// Print the configuration as TOML, with the origin of each value, and stop.
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
    #[command(before_long_help = examples("check"))]
    Check {
        /// The file (TOML).
        file: PathBuf,
    },
    /// Print a running sentinel's figures every second; a terminal is cleared before each.
    #[command(before_long_help = examples("top"))]
    Top {
        /// Its operator's listener: a URL, an address with a port, or a port of this machine.
        #[arg(long, value_name = "URL", default_value = "127.0.0.1:26681", value_parser = crate::top::address)]
        admin: String,
        /// Print the figures once and end.
        #[arg(long)]
        once: bool,
    },
    /// Print the completion script of a shell.
    #[command(before_long_help = examples("completions"))]
    Completions {
        /// The shell.
        shell: ops::command::Shell,
    },
    /// Print the manual page in roff (read it with: sentinel man | man -l -).
    #[command(before_long_help = examples("man"))]
    Man,
}

/// The head of a command's help.
fn examples(command: &str) -> &'static str {
    ops::command::examples(include_str!("examples.txt"), command)
}

const MORE: &str = include_str!("more.txt").trim_ascii_end();
