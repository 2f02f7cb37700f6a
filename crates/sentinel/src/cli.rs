//! The command line: what the user typed, before anything is resolved. The flags of settings are made from the table of
//! keys, so that neither can be without the other.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Error, FromArgMatches, Parser, Subcommand};

use crate::config::{Config, FlagValue, KEYS, Key};

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
    ops::command::examples(include_str!("cli/examples.txt"), command)
}

const MORE: &str = include_str!("cli/more.txt").trim_ascii_end();

/// The settings on a command line, as they were typed: in the order of the keys, `--set` last.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags(pub Vec<FlagValue>);

/// The flag for every key without one of its own.
const SET: &str = "set";

impl Args for SettingFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = Config::default();
        let flags = KEYS.iter().filter_map(|key| argument(key, &defaults));
        let set = Arg::new(SET)
            .long(SET)
            .value_name("KEY=VALUE")
            .help("Any key of the file, e.g. --set limits.batch=20; may be repeated")
            .action(ArgAction::Append)
            .value_parser(assignment);
        let command = command.next_help_heading("Settings");
        command.args(flags).arg(set)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn argument(key: &Key, defaults: &Config) -> Option<Arg> {
    let (flag, value) = key.flag?;
    let default = match key.toml(defaults).replace(['"', '[', ']'], "") {
        none if none.is_empty() => "none".to_owned(),
        default => default,
    };
    let (help, name) = (key.help, key.name);
    let argument = Arg::new(flag)
        .long(flag)
        .value_name(value)
        .help(format!("{help} [default: {default}] [key: {name}]"))
        .hide_short_help(SELDOM.split(' ').any(|it| it == flag))
        .allow_negative_numbers(true)
        .action(if key.is_list {
            ArgAction::Append
        } else {
            ArgAction::Set
        });
    if key.words.is_empty() {
        return Some(argument);
    }
    let argument = argument
        .value_parser(PossibleValuesParser::new(key.words))
        .ignore_case(true);
    Some(match key.words {
        // A switch: alone it means true.
        ["false", "true"] => argument.num_args(0..=1).default_missing_value("true"),
        _ => argument,
    })
}

/// Flags that only `--help` shows, so that `-h` is one screen.
const SELDOM: &str = "threads shadow any-version ipv6-prefix allow deny queue-per-client queue-timeout async-ack buffer-bytes \
                      min-tx-rate pause-for pause-action log";

/// `key=value` in its two parts.
fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write KEY=VALUE, for instance limits.batch=20".to_owned()),
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut values = Vec::new();
        let mut add = |flag: &str, key: &str, value: String| {
            values.push(FlagValue {
                flag: flag.to_owned(),
                key: key.to_owned(),
                value,
            });
        };
        let own = KEYS.iter().filter_map(|key| Some((key.flag?.0, key.name)));
        for (flag, key) in own {
            if let Some(given) = matches.get_many::<String>(flag) {
                let texts: Vec<&str> = given.map(String::as_str).collect();
                add(flag, key, texts.join(","));
            }
        }
        let set = matches.get_many::<(String, String)>(SET);
        for (key, value) in set.into_iter().flatten() {
            add(SET, key, value.clone());
        }
        Ok(Self(values))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    fn typed(line: &str) -> Vec<(String, String, String)> {
        let words = std::iter::once("sentinel").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).unwrap();
        let values = cli.settings.0.into_iter();
        values
            .map(|value| (value.flag, value.key, value.value))
            .collect()
    }

    fn owned(flag: &str, key: &str, value: &str) -> (String, String, String) {
        (flag.into(), key.into(), value.into())
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_become_keys() {
        assert_eq!(
            typed("--max-req 2000 --pause-interval 100s"),
            [
                owned("max-req", "fair.max_req", "2000"),
                owned("pause-interval", "pause.interval", "100s"),
            ]
        );
        assert_eq!(
            typed("--upstream http://a:1 --upstream http://b:1,http://c:1 --set limits.batch=20"),
            [
                owned(
                    "upstream",
                    "upstream.urls",
                    "http://a:1,http://b:1,http://c:1"
                ),
                owned("set", "limits.batch", "20"),
            ]
        );
        assert_eq!(
            typed("--set fair.weights=10.0.0.0/8=4"),
            [owned("set", "fair.weights", "10.0.0.0/8=4")]
        );
        assert!(typed("").is_empty());
    }

    #[test]
    fn the_short_help_is_one_screen() {
        let help = Cli::command().render_help().to_string();
        assert!(help.lines().count() <= 40, "{help}");
        let flags: Vec<&str> = KEYS.iter().filter_map(|key| Some(key.flag?.0)).collect();
        assert!(SELDOM.split(' ').all(|it| flags.contains(&it)), "{SELDOM}");
    }

    #[test]
    fn every_flag_has_its_default_and_its_key_in_the_help() {
        let help = Cli::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in KEYS.iter().filter(|key| key.flag.is_some()) {
            assert!(
                help.contains(&format!("[key: {}]", key.name)),
                "{}",
                key.name
            );
        }
        assert!(help.contains("[default: 2000/s]"), "{help}");
        assert!(
            help.contains("[default: none] [key: trust.allow]"),
            "{help}"
        );
    }
}
