//! Whether the help of a program begins with examples that the program understands.

use clap::{Command, CommandFactory, Parser};

/// What is wrong with the examples in the help of `C`: each command has two or more, its own name
/// stands in each, and the command line parses.
pub fn complaints_about_examples<C: Parser>() -> Vec<String> {
    examples_of(&C::command(), "")
        .into_iter()
        .flat_map(|(command, examples)| {
            let few = (examples.len() < 2)
                .then(|| format!("{command}: its help begins with no two examples"));
            let wrong = examples.into_iter().filter_map(move |example| {
                if !example.starts_with(&command) {
                    return Some(format!("{command}: {example} is of another command"));
                }
                let parsed = C::try_parse_from(words(&example));
                parsed
                    .err()
                    .map(|error| format!("{example}: {}", error.kind()))
            });
            few.into_iter().chain(wrong).collect::<Vec<_>>()
        })
        .collect()
}

/// The examples at the head of the help of each command that people see, the program's own first.
pub fn examples<C: CommandFactory>() -> Vec<(String, Vec<String>)> {
    examples_of(&C::command(), "")
}

fn examples_of(command: &Command, above: &str) -> Vec<(String, Vec<String>)> {
    let name = format!("{above}{}", command.get_name());
    let head = command
        .get_before_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let lines = head.strip_prefix("Examples:\n").unwrap_or_default().lines();
    let own = (
        name.clone(),
        lines.map(|line| line.trim().to_owned()).collect(),
    );
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let below = below.flat_map(|below| examples_of(below, &format!("{name} ")));
    std::iter::once(own).chain(below).collect()
}

/// The words of an example, up to where the shell takes over; single quotes keep a word together.
fn words(example: &str) -> Vec<String> {
    let command = [" | ", " > "].iter().fold(example, |rest, shell| {
        rest.split_once(shell).map_or(rest, |(before, _)| before)
    });
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        match place % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    #[command(
        name = "tide",
        before_long_help = "Examples:\n  tide rise --by '3 m'\n  tide fall | less"
    )]
    enum Cli {
        #[command(before_long_help = "Examples:\n  tide rise --by 3m\n  tide rise --height 5")]
        Rise {
            #[arg(long)]
            by: Option<String>,
        },
        #[command(before_long_help = "Examples:\n  tide fall\n  tide rise")]
        Fall,
        Turn,
        #[command(hide = true)]
        Guard,
    }

    #[test]
    fn examples_that_cannot_be_run_and_commands_without_are_named() {
        assert_eq!(
            complaints_about_examples::<Cli>(),
            [
                "tide rise --height 5: unexpected argument found",
                "tide fall: tide rise is of another command",
                "tide turn: its help begins with no two examples",
            ]
        );
    }
}
