//! From the command line to the exit code.

use anyhow::anyhow;
use chain::ChainError;
use ops::command::{CommandError, completions, failed, manual, usage};
use pacing::Profile;

use crate::chains::ChainCommand;
use crate::ci::{Ci, CiReport};
use crate::cli::{Cli, Command, ReportArgs, SearchArgs};
use crate::fleet::{self, Shared};
use crate::folder::{RecordedRun, is_recording};
use crate::output::recorded::ReportFormat;
use crate::output::{note, print, recorded};
use crate::plan::{Plan, Request, RequestedLoad, fresh_seed};
use crate::run::{self, Words};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::{exit, output, recording};

/// Runs the command line; returns the exit code.
///
/// # Errors
/// With exit code 2 when the command line or a configuration is at fault, 1 otherwise.
pub fn execute(cli: Cli) -> Result<u8, CommandError> {
    match cli.command {
        Command::Constant(args) => {
            let load = RequestedLoad::constant(args.rate, args.duration).map_err(usage)?;
            start("txgen constant", load, args.settings)
        }
        Command::Ramp(args) => {
            let profile = Profile::steps(args.start, args.step, args.every, args.to);
            let load = RequestedLoad::Open {
                schedule: profile.map_err(usage)?,
                stop_when_saturated: args.to.is_none(),
                reconnect_in_pauses: false,
            };
            start("txgen ramp", load, args.settings)
        }
        Command::Square(args) => {
            let profile = Profile::square(args.rate, args.low, args.on, args.off, args.cycles);
            let load = RequestedLoad::Open {
                schedule: profile.map_err(usage)?,
                stop_when_saturated: false,
                reconnect_in_pauses: args.reconnect,
            };
            start("txgen square", load, args.settings)
        }
        Command::Flood(args) => {
            let (concurrency, count) = (args.concurrency, args.count);
            start(
                "txgen flood",
                RequestedLoad::Flood { concurrency, count },
                args.settings,
            )
        }
        Command::Run(args) => crate::campaign::play(*args),
        Command::Doctor(args) => crate::doctor::execute(args),
        Command::Init(args) => crate::init::init(&args),
        Command::Search(args) => search(args),
        Command::Ab(args) => {
            let shutdown = Shutdown::on_signals().map_err(failed)?;
            crate::ab::execute(&args, fresh_seed(), &shutdown)
        }
        Command::Report(args) => report(&args),
        Command::TmBench(args) => crate::tm_bench::play(&args),
        Command::BigchaindbBenchmark(args) => crate::bigchaindb_benchmark::play(args),
        Command::Compare(args) => crate::compare::execute(args),
        Command::Analyse(args) => crate::analyse::show(&args),
        Command::Record(args) => recording::record(&args),
        Command::Merge(args) => crate::merge_command::execute(args),
        #[cfg(feature = "fleet")]
        Command::Worker(args) => fleet::work(&args),
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => fleet::local::execute(&args),
        Command::Mesh { .. } => Err(usage(anyhow!(
            "gossip networks have a program of their own: `txmesh` in place of `txgen mesh`"
        ))),
        Command::Scan { .. } => Err(usage(anyhow!(
            "a list of rates is a search: `txgen search --rates 500..4000:500`"
        ))),
        Command::Chain(command) => of_chain(&command),
        Command::Devnode(args) => crate::devnode_command::serve(&args),
        Command::Guard(args) => Err(failed(harness::become_program(&args))),
        Command::Completions { shell } => Ok(completions::<Cli>(shell)),
        Command::Man => manual::<Cli>(),
    }
}

fn search(args: SearchArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let ci = Ci::open("txgen search", &args.settings.ci)?;
    if args.settings.dry_run {
        crate::search::execute(args, fresh_seed(), &shutdown)
    } else {
        ci.conclude_code(crate::search::execute(args, fresh_seed(), &shutdown))
    }
}

/// `title` is the program and the command.
fn start(title: &'static str, load: RequestedLoad, settings: Settings) -> Result<u8, CommandError> {
    let command = title.trim_start_matches("txgen ");
    let request = Request {
        command: command.into(),
        load,
        builtin: devnode::Blueprint::default(),
    };
    let settings = fleet::divided(settings).map_err(usage)?;
    let plan = Plan::resolve(request, settings.clone(), fresh_seed()).map_err(usage);
    if settings.dry_run {
        return Ok(print(&output::preview(&plan?)));
    }
    let ci = Ci::open(title, &settings.ci)?;
    let played = plan.and_then(|plan| match settings.workers() {
        Some(_) => {
            let shutdown = Shutdown::on_signals().map_err(failed)?;
            let shared = Shared {
                plan: &plan,
                load: None,
                settings: &settings,
            };
            fleet::conduct(&shared, &shutdown)
        }
        None => run::start_on_signals(&plan, Words::All),
    });
    ci.conclude(played.map(|outcome| (CiReport::of_run(&outcome), outcome.exit_code())))
}

fn of_chain(command: &ChainCommand) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    match command.execute(&|| shutdown.is_requested()) {
        Ok(text) => Ok(print(&text)),
        Err(ChainError::Unusable(error)) => Err(usage(error)),
        Err(ChainError::Failed(error)) => Err(failed(error)),
        Err(error @ ChainError::Interrupted(_)) => Err(CommandError {
            code: exit::INTERRUPTED,
            source: error.into(),
        }),
    }
}

/// Renders the report; gives the exit code.
fn report(args: &ReportArgs) -> Result<u8, CommandError> {
    let text = if is_recording(&args.run) {
        of_recording(args)?
    } else {
        of_run(args)?
    };
    let is_page = args.format == ReportFormat::Html;
    let path = match &args.out {
        Some(out) if out.as_os_str() == "-" => None,
        Some(out) => Some(out.clone()),
        None => is_page.then(|| args.run.join(recorded::FILE)),
    };
    let Some(path) = path else {
        return Ok(ops::command::print(text.as_bytes()));
    };
    recorded::write(&path, &text).map_err(failed)?;
    if args.out.is_none() {
        ops::command::print(format!("{}\n", path.display()).as_bytes());
    }
    Ok(exit::DONE)
}

fn of_run(args: &ReportArgs) -> Result<String, CommandError> {
    let run = RecordedRun::open(&args.run).map_err(usage)?;
    for text in run.notes() {
        note(&format!("note: {text}"));
    }
    recorded::render(&run, args.format).map_err(failed)
}

fn of_recording(args: &ReportArgs) -> Result<String, CommandError> {
    if args.format != ReportFormat::Html {
        let run = args.run.display();
        return Err(usage(anyhow!(
            "{run} is a recording without a load: its report is a page; leave --format out"
        )));
    }
    recording::page(&args.run).map_err(failed)
}
