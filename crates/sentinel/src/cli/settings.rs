//! The flags of settings, made from the table of keys so that neither can be without the other.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::config::{Config, Flag, FlagValue, KEYS, Key};

/// The settings on a command line, as they were typed.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags(Vec<FlagValue>);

impl SettingFlags {
    /// In the order of the keys; `--set` last.
    pub fn into_values(self) -> Vec<FlagValue> {
        self.0
    }
}

/// The flag for every key without one of its own.
const SET: &str = "set";

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let defaults = Config::default();
        let flags = KEYS
            .iter()
            .filter_map(|key| Some(argument(key, key.flag?, &defaults)));
        command.next_help_heading("Settings").args(flags).arg(set())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(key: &Key, flag: Flag, defaults: &Config) -> Arg {
    let default = key.value(defaults).replace(['"', '[', ']'], "");
    let default = match default.as_str() {
        "" => "none",
        default => default,
    };
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .help(format!(
            "{} [default: {default}] [key: {}]",
            key.help, key.name
        ))
        .allow_negative_numbers(true)
        .action(if key.is_list {
            ArgAction::Append
        } else {
            ArgAction::Set
        });
    if key.words.is_empty() {
        return argument;
    }
    let argument = argument
        .value_parser(PossibleValuesParser::new(key.words))
        .ignore_case(true);
    match key.words {
        // A switch: alone it means true.
        ["false", "true"] => argument.num_args(0..=1).default_missing_value("true"),
        _ => argument,
    }
}

fn set() -> Arg {
    Arg::new(SET)
        .long(SET)
        .value_name("KEY=VALUE")
        .help("Any key of the file, e.g. --set limits.batch=20; may be repeated")
        .action(ArgAction::Append)
        .value_parser(assignment)
}

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
        for key in KEYS {
            let Some(flag) = key.flag else { continue };
            if let Some(given) = matches.get_many::<String>(flag.name) {
                let texts: Vec<&str> = given.map(String::as_str).collect();
                values.push(FlagValue {
                    flag: flag.name.to_owned(),
                    key: key.name.to_owned(),
                    value: texts.join(","),
                });
            }
        }
        for (key, value) in matches
            .get_many::<(String, String)>(SET)
            .into_iter()
            .flatten()
        {
            values.push(FlagValue {
                flag: SET.to_owned(),
                key: key.clone(),
                value: value.clone(),
            });
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
        let values = cli.settings.into_values().into_iter();
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
