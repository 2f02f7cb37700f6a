//! The settings that a command line gives over those of a scenario file.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::Settings;

/// The flags of [`Settings`], and which of them the command line or the environment gives.
#[derive(Debug, Clone)]
pub struct GivenSettings {
    alone: Settings,
    given: ArgMatches,
}

impl GivenSettings {
    /// These settings, and defaults elsewhere.
    pub fn alone(&self) -> &Settings {
        &self.alone
    }

    /// These settings where they are given, `base` elsewhere.
    ///
    /// # Errors
    /// When a flag has no value that it can have.
    pub fn over(&self, mut base: Settings) -> Result<Settings, clap::Error> {
        base.update_from_arg_matches(&self.given)?;
        Ok(base)
    }
}

impl Args for GivenSettings {
    fn augment_args(command: Command) -> Command {
        Settings::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Settings::augment_args_for_update(command)
    }
}

impl FromArgMatches for GivenSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = matches.clone();
        for id in matches.ids() {
            if matches.value_source(id.as_str()) == Some(ValueSource::DefaultValue) {
                let _ = given.try_clear_id(id.as_str());
            }
        }
        Ok(Self {
            alone: Settings::from_arg_matches(matches)?,
            given,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> GivenSettings {
        let command = GivenSettings::augment_args(Command::new("")).no_binary_name(true);
        // Whatever stands in the environment of the tests.
        let command = command.mut_args(|arg| arg.env(clap::builder::Resettable::Reset));
        let matches = command.try_get_matches_from(line.split_whitespace());
        GivenSettings::from_arg_matches(&matches.unwrap()).unwrap()
    }

    /// The defaults of the flags and of the keys of a file.
    #[test]
    fn without_flags_there_are_the_defaults() {
        let flags = format!("{:?}", given("").alone());
        assert_eq!(flags, format!("{:?}", Settings::default()));
        let file: Settings = toml::from_str("").unwrap();
        assert_eq!(flags, format!("{file:?}"));
    }

    #[test]
    fn flags_that_are_given_beat_a_file_and_defaults_do_not() {
        let file = "endpoints = [\"http://user:secret@file:1\"]\ndrain_timeout = \"5s\"\nno_follow = true\n\
                    at_max_in_flight = \"wait\"\nwarmup = \"1s\"\nsize = 64\nobserve = [\"a=http://x:1\"]";
        let file: Settings = toml::from_str(file).unwrap();
        let over = |line: &str| format!("{:?}", given(line).over(file.clone()).unwrap());
        assert_eq!(over(""), format!("{file:?}"));
        let mut changed = file.clone();
        changed.rules.drain_timeout = pacing::Nanos::from_secs(30);
        changed.size = Some(pacing::Size(100));
        changed.display.no_tui = true;
        changed.dry_run = true;
        // Also where the value given is the default's.
        let line = "--drain-timeout 30s -s 100 --no-tui --dry-run";
        assert_eq!(over(line), format!("{changed:?}"));
        changed = file.clone();
        changed.endpoints = vec!["http://b:2".parse().unwrap(), "http://c:3".parse().unwrap()];
        assert_eq!(
            over("--endpoints http://b:2,http://c:3"),
            format!("{changed:?}")
        );
    }
}
