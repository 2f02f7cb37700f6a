//! `txmesh`: a gossip network of real processes over real sockets, an exact load, and an account of
//! what every node did with it.
//!
//! What a node does is [`gossip::Node`]'s, and when transactions are due is `pacing`'s. Here the processes
//! are started and conducted (`crew`, `conduct`), each of them runs (`node`), and what they count is added up
//! (`account`), checked (`conservation`), judged (`judge`) and shown (`table`, `page`).

mod account;
mod by_step;
pub mod cli;
mod compare;
mod conduct;
mod conservation;
mod control;
mod crew;
mod figures;
mod judge;
mod mix_file;
mod node;
mod page;
mod part;
mod plan;
pub mod settings;
mod simulate;
mod summary;
mod table;

use account::PlayedMesh;
use harness::{RunFolder, Shutdown, default_folder, exit, print};
use ops::command::{CommandError, completions, failed, manual, usage};
use part::PartFile;
use plan::{MeshLoad, MeshPlan};
use summary::MeshSummary;
use table::Progress;

use crate::cli::{Cli, Command, MergeArgs};
use crate::settings::MeshSettings;

/// Executes a command line; gives the exit code.
///
/// # Errors
/// With exit code 2 when the command line or a file is at fault, 1 otherwise.
pub fn execute(cli: Cli) -> Result<u8, CommandError> {
    match cli.command {
        Command::Constant(args) => {
            start(MeshLoad::constant(args.rate, args.duration), args.settings)
        }
        Command::Ramp(args) => start(MeshLoad::ramp(&args), args.settings),
        Command::Square(args) => start(MeshLoad::square(&args), args.settings),
        Command::Run(args) => {
            let (load, settings) = plan::read_file(&args.file, args.settings).map_err(usage)?;
            start(load, settings)
        }
        Command::Compare(args) => compare::execute(args),
        Command::Merge(args) => merge(&args),
        Command::Simulate(args) => simulate::execute(&args),
        Command::Node(args) => node::run(&args).map_err(failed).map(|()| exit::DONE),
        Command::Guard(args) => Err(failed(harness::become_program(&args))),
        Command::Completions { shell } => Ok(completions::<Cli>(shell)),
        Command::Man => manual::<Cli>(),
    }
}

fn start(load: MeshLoad, settings: MeshSettings) -> Result<u8, CommandError> {
    let plan = MeshPlan::resolve(load, settings).map_err(usage)?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let (played, part, folder) = play(&plan, &shutdown)?;
    if let Some(part) = part {
        return end_part(&plan, part, &played, &folder);
    }
    let summary = conclude(&plan, &played, &folder)?;
    Ok(print_summary(&summary, &folder))
}

/// Prints the summary of a run; gives the exit code.
fn print_summary(summary: &MeshSummary, folder: &RunFolder) -> u8 {
    let report = folder.path().join("report.html");
    let text = format!("{}\nreport: {}\n", table::text(summary), report.display());
    let _ = print(&text);
    exit_code(summary)
}

/// Completes the record of one machine of several.
fn end_part(
    plan: &MeshPlan,
    part: PartFile,
    played: &PlayedMesh,
    folder: &RunFolder,
) -> Result<u8, CommandError> {
    part.end(plan, played).map_err(failed)?;
    let text = format!(
        "\npart {} of the mesh is in {}; with the folders of all machines on one of them: txmesh merge FOLDER... \
         --out WHOLE\n",
        plan.part.unwrap_or_default(),
        folder.path().display()
    );
    let _ = print(&text);
    Ok(if played.interrupted {
        exit::INTERRUPTED
    } else {
        exit::DONE
    })
}

/// Makes one run of the parts of all machines.
fn merge(args: &MergeArgs) -> Result<u8, CommandError> {
    let (plan, played) = part::merge(&args.folders).map_err(usage)?;
    let path = args.out.clone();
    let path = path.unwrap_or_else(|| default_folder(&format!("mesh-{}", plan.document.load.name)));
    let folder = RunFolder::create(path).map_err(usage)?;
    let summary = conclude(&plan, &played, &folder)?;
    Ok(print_summary(&summary, &folder))
}

/// Plays a plan and writes its run folder.
fn perform(plan: &MeshPlan, shutdown: &Shutdown) -> Result<(MeshSummary, RunFolder), CommandError> {
    let (played, _, folder) = play(plan, shutdown)?;
    Ok((conclude(plan, &played, &folder)?, folder))
}

fn play(
    plan: &MeshPlan,
    shutdown: &Shutdown,
) -> Result<(PlayedMesh, Option<PartFile>, RunFolder), CommandError> {
    let name = format!("mesh-{}", plan.document.load.name);
    let path = plan.out.clone().unwrap_or_else(|| default_folder(&name));
    let folder = RunFolder::create(path).map_err(usage)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut progress = Progress::new(plan.quiet);
    let played = conduct::play(plan, &program, &folder, &mut progress, shutdown);
    let (played, part) = played.map_err(failed)?;
    Ok((played, part, folder))
}

/// Judges what was played and writes the run folder.
fn conclude(
    plan: &MeshPlan,
    played: &PlayedMesh,
    folder: &RunFolder,
) -> Result<MeshSummary, CommandError> {
    let summary = MeshSummary::of(plan, played);
    let title = format!(
        "{} of {} nodes, {}",
        plan.schedule.profile(),
        plan.document.nodes,
        plan.label()
    );
    let page = page::page(&title, &played.account, &summary);
    page::write(folder, &played.account, &summary, &page).map_err(failed)?;
    Ok(summary)
}

fn exit_code(summary: &MeshSummary) -> u8 {
    match summary {
        summary if !summary.conservation.violations.is_empty() => exit::FAILED,
        summary if summary.interrupted => exit::INTERRUPTED,
        summary if !summary.is_valid() => exit::INVALID,
        _ => exit::DONE,
    }
}
