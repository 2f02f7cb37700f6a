//! From a command line to an exit code: what both programs do alike.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
pub use clap_complete::Shell;

/// Exit codes that both programs have: a contract with scripts and service managers.
pub mod exit {
    /// Ended as asked.
    pub const DONE: u8 = 0;
    /// Something failed.
    pub const FAILED: u8 = 1;
    /// The command line or a configuration is wrong; starting again without a change is useless.
    pub const USAGE: u8 = 2;
}

/// An error and the exit code it leads to.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code.
    pub code: u8,
    /// What went wrong; one line for each thing.
    pub source: anyhow::Error,
}

/// The command line or a configuration is at fault.
pub fn usage(error: impl Into<anyhow::Error>) -> CommandError {
    CommandError {
        code: exit::USAGE,
        source: error.into(),
    }
}

/// Something else failed.
pub fn failed(error: impl Into<anyhow::Error>) -> CommandError {
    CommandError {
        code: exit::FAILED,
        source: error.into(),
    }
}

/// Parses a command line. Help, version and complaints are printed.
///
/// # Errors
/// There is nothing to execute: the exit code.
pub fn parse<C: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<C, ExitCode> {
    parse_with(arguments, "")
}

/// As [`parse`]; for a flag that is unknown and among `brought`, from other programs, the error names the flag here. Each
/// line there has flags, two blanks, and what is meant.
///
/// # Errors
/// As [`parse`].
pub fn parse_with<C: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    brought: &str,
) -> Result<C, ExitCode> {
    C::try_parse_from(arguments).map_err(|error| {
        let error = explained(error, brought);
        // clap prints help and version to stdout, everything else to stderr.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() {
            exit::USAGE
        } else {
            exit::DONE
        })
    })
}

/// With what is meant here by a flag of other programs.
fn explained(mut error: clap::Error, brought: &str) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = given.split(['=', ' ']).next().unwrap_or_default();
    let mut meant = brought.lines().filter_map(|line| line.split_once("  "));
    let meant = meant.find(|(flags, _)| flags.split(' ').any(|flag| flag == name));
    if let (Some((_, meant)), ErrorKind::UnknownArgument) = (meant, error.kind()) {
        // The likest flag of this program is another word.
        error.remove(ContextKind::SuggestedArg);
        let tips = vec![meant.to_owned().into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// The exit code of what a command did; an error goes to stderr, each line headed by the program's
/// name. A command whose results did not all reach stdout has failed.
pub fn conclude(program: &str, done: Result<u8, CommandError>) -> ExitCode {
    let tell = |text: &str| {
        let mut stderr = io::stderr().lock();
        for line in text.lines() {
            let _ = writeln!(stderr, "{program}: {line}");
        }
    };
    let code = done.unwrap_or_else(|error| {
        tell(&format!("{:#}", error.source));
        error.code
    });
    match (UNPRINTED.get(), code) {
        (None, code) => ExitCode::from(code),
        (Some(error), code) => {
            tell(&format!(
                "{}: {error}",
                base::write_failure("to stdout", error)
            ));
            ExitCode::from(if code == exit::DONE {
                exit::FAILED
            } else {
                code
            })
        }
    }
}

/// What kept results from stdout first, if anything did.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// What the help of `command` begins with: of `all`, the lines below its name up to an empty one.
pub fn examples(all: &'static str, command: &str) -> &'static str {
    let mut named = all.split("\n\n").filter_map(|it| it.split_once('\n'));
    let found = named.find(|(name, _)| *name == command);
    found.map_or("", |(_, lines)| lines.trim_end())
}

/// Prints a script for `shell` that completes the program's command line.
pub fn completions<C: CommandFactory>(shell: Shell) -> u8 {
    let mut command = C::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    print(&script)
}

/// Prints the manual in roff: the program's page, then one for each command.
///
/// # Errors
/// A page cannot be rendered.
pub fn manual<C: CommandFactory>() -> Result<u8, CommandError> {
    let mut pages = Vec::new();
    render(C::command(), &mut pages).map_err(failed)?;
    Ok(print(&pages))
}

fn render(mut command: clap::Command, pages: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    render_page(&command, command.get_name(), pages)
}

/// The page of a command, then those of the commands below it that people use.
fn render_page(command: &clap::Command, title: &str, pages: &mut Vec<u8>) -> io::Result<()> {
    clap_mangen::Man::new(command.clone())
        .title(title)
        .render(pages)?;
    render_examples(command, pages)?;
    // The help that clap adds has pages enough already.
    let for_people = |below: &&clap::Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(for_people) {
        render_page(below, &format!("{title}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

/// What stands before a command's help, which clap_mangen leaves out.
fn render_examples(command: &clap::Command, pages: &mut Vec<u8>) -> io::Result<()> {
    let Some(head) = command.get_before_long_help().map(ToString::to_string) else {
        return Ok(());
    };
    writeln!(pages, ".SH EXAMPLES\n.nf")?;
    for line in head.lines().skip(1) {
        let escaped = line.trim().replace('\\', "\\e").replace('-', "\\-");
        writeln!(pages, "{}", escaped.replace('\'', "\\(aq"))?;
    }
    writeln!(pages, ".fi")
}

/// Writes to stdout. A reader that has seen enough closes the pipe, which is no failure; any other error, such as that of
/// a full disk, is reported by [`conclude`].
pub fn print(bytes: &[u8]) -> u8 {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = UNPRINTED.set(error);
    }
    exit::DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tide", version)]
    struct Cli {
        #[arg(long)]
        height: Option<u32>,
        #[command(subcommand)]
        command: Option<Command>,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        /// Rises.
        #[command(before_long_help = "Examples:\n  tide flood spring")]
        Flood {
            #[command(subcommand)]
            kind: Option<Kind>,
        },
        /// Not for people.
        #[command(hide = true)]
        Guard,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Kind {
        /// The highest.
        Spring,
    }

    fn parsed(arguments: &[&str]) -> Result<Cli, ExitCode> {
        parse(std::iter::once(&"tide").chain(arguments).map(Into::into))
    }

    #[test]
    fn a_wrong_command_line_is_a_usage_error_and_help_is_none() {
        assert_eq!(parsed(&["--height", "3"]).unwrap().height, Some(3));
        assert_eq!(parsed(&["--help"]).unwrap_err(), ExitCode::from(exit::DONE));
        let wrong = parsed(&["--depth"]).unwrap_err();
        assert_eq!(wrong, ExitCode::from(exit::USAGE));
        assert!(parsed(&["guard"]).unwrap().command.is_some());
    }

    #[test]
    fn a_flag_of_another_program_is_answered_with_the_right_one_and_a_typing_error_as_before() {
        let brought = "--heights --tall  say --height once for each\n-R  it is --height\n";
        let said = |flag: &str| {
            let error = Cli::try_parse_from(["tide", flag]).unwrap_err();
            explained(error, brought).to_string()
        };
        let text = said("--heights=3");
        assert!(text.contains("tip: say --height once for each"), "{text}");
        assert!(!text.contains("similar"), "{text}");
        assert!(said("-R").contains("tip: it is --height"), "{}", said("-R"));
        let text = said("--hight");
        assert!(
            text.contains("similar") && text.contains("--height"),
            "{text}"
        );
    }

    #[test]
    fn the_manual_has_a_page_for_each_command_that_people_use() {
        let mut pages = Vec::new();
        render(Cli::command(), &mut pages).unwrap();
        let pages = String::from_utf8(pages).unwrap();
        for page in [".TH tide 1", ".TH tide-flood 1", ".TH tide-flood-spring 1"] {
            assert!(pages.contains(page), "{page}: {pages}");
        }
        assert!(
            pages.contains(".SH EXAMPLES\n.nf\ntide flood spring\n.fi\n"),
            "{pages}"
        );
        for page in ["tide-guard", ".TH tide-help"] {
            assert!(!pages.contains(page), "{page}: {pages}");
        }
    }
}
