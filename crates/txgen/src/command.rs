//! From the command line to the exit code.

use std::hash::{BuildHasher, RandomState};

use devnode::DevNodeError;
pub(crate) use ops::command::{CommandError, failed, usage};
use ops::command::{completions, manual, print};
use pacing::Profile;

use crate::campaign;
use crate::cli::{Cli, Command, FloodArgs, Settings};
use crate::compare::{self, CompareError};
use crate::devnode_command;
use crate::exit;
use crate::managed;
use crate::merge_command;
use crate::plan::{Plan, Request, RequestedLoad};
use crate::report::preview;
use crate::report_command;
use crate::run::{self, BuiltInError, Outcome, RunError, Words};
use crate::search::{self, SearchError};
use crate::shutdown::Shutdown;
use crate::tm_bench;

/// Does what the command line says; gives the exit code.
///
/// # Errors
/// With exit code 2 when the command line or a configuration is at fault, 1 otherwise.
pub fn execute(cli: Cli) -> Result<u8, CommandError> {
    match cli.command {
        Command::Constant(args) => {
            let profile = Profile::constant(args.rate, Some(args.duration)).map_err(usage)?;
            load("constant", open(profile), args.settings)
        }
        Command::Ramp(args) => {
            let profile =
                Profile::steps(args.start, args.step, args.every, args.to).map_err(usage)?;
            let load_ = RequestedLoad::Open {
                profile,
                stop_when_saturated: args.to.is_none(),
                reconnect_in_pauses: false,
            };
            load("ramp", load_, args.settings)
        }
        Command::Square(args) => {
            let profile = Profile::square(args.rate, args.low, args.on, args.off, args.cycles)
                .map_err(usage)?;
            let load_ = RequestedLoad::Open {
                profile,
                stop_when_saturated: false,
                reconnect_in_pauses: args.reconnect,
            };
            load("square", load_, args.settings)
        }
        Command::Flood(args) => {
            let FloodArgs {
                concurrency,
                count,
                settings,
            } = args;
            load(
                "flood",
                RequestedLoad::Flood { concurrency, count },
                settings,
            )
        }
        Command::Run(args) => campaign::play(*args),
        Command::Search(args) => {
            let seed = args.settings.seed.unwrap_or_else(fresh_seed);
            search(|shutdown| search::search(args, seed, shutdown))
        }
        Command::Scan(args) => {
            let seed = args.settings.seed.unwrap_or_else(fresh_seed);
            search(|shutdown| search::scan(args, seed, shutdown))
        }
        Command::Report(args) => report_command::show(&args),
        Command::TmBench(args) => tm_bench::run(&args),
        Command::Compare(args) => compare::execute(args).map_err(|error| match error {
            CompareError::Write { .. } => failed(error),
            _ => usage(error),
        }),
        Command::Merge(args) => merge_command::execute(args).map_err(|error| {
            if error.is_usage() {
                usage(error)
            } else {
                failed(error)
            }
        }),
        Command::Devnode(args) => devnode_command::serve(&args),
        Command::Guard(args) => Err(failed(managed::become_program(&args))),
        Command::Completions { shell } => Ok(completions::<Cli>(shell)),
        Command::Man => manual::<Cli>(),
    }
}

fn open(profile: Profile) -> RequestedLoad {
    RequestedLoad::Open {
        profile,
        stop_when_saturated: false,
        reconnect_in_pauses: false,
    }
}

fn load(command: &str, load: RequestedLoad, settings: Settings) -> Result<u8, CommandError> {
    let request = Request {
        command: command.into(),
        load,
        builtin: devnode::Config::default(),
    };
    start(request, settings)
}

fn start(request: Request, settings: Settings) -> Result<u8, CommandError> {
    let dry_run = settings.dry_run;
    let plan = resolve(request, settings)?;
    if dry_run {
        return Ok(print(preview(&plan).as_bytes()));
    }
    start_run(&plan, Words::All).map(|outcome| outcome.exit_code())
}

pub(crate) fn resolve(request: Request, settings: Settings) -> Result<Plan, CommandError> {
    Plan::resolve(request, settings, fresh_seed()).map_err(usage)
}

/// Carries out a plan; signals end it.
pub(crate) fn start_run(plan: &Plan, words: Words) -> Result<Outcome, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    run::start(plan, &shutdown, words).map_err(|error| CommandError {
        code: exit_code_of(&error),
        source: error.into(),
    })
}

fn search(quest: impl FnOnce(&Shutdown) -> Result<u8, SearchError>) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    quest(&shutdown).map_err(|error| CommandError {
        code: match &error {
            SearchError::Plan(_)
            | SearchError::Usage(_)
            | SearchError::Preflight(_)
            | SearchError::Folder(_)
            | SearchError::Display(_) => exit::USAGE,
            SearchError::Point { source, .. } => exit_code_of(source),
            _ => exit::FAILED,
        },
        source: error.into(),
    })
}

pub(crate) fn exit_code_of(error: &RunError) -> u8 {
    match error {
        RunError::Folder(_)
        | RunError::Preflight(_)
        | RunError::Profiler(_)
        | RunError::StartAt(_)
        | RunError::Display(_) => exit::USAGE,
        RunError::BuiltIn(BuiltInError::Node(DevNodeError::Config(_))) => exit::USAGE,
        RunError::Interrupted => exit::INTERRUPTED,
        _ => exit::FAILED,
    }
}

/// A seed nobody chose: the standard library's randomly keyed hasher is seeded by the system.
pub(crate) fn fresh_seed() -> u64 {
    // Seeds are typed and read by people; 32 bits are enough to keep runs apart.
    RandomState::new().hash_one(std::process::id()) & u64::from(u32::MAX)
}
