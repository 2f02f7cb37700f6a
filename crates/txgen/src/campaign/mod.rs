//! `txgen run`: the runs of a scenario file, one after the other, each with the node it asks for.

mod document;
mod html;
mod prepare;
mod record;
mod table;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ops::command::{CommandError, failed, usage};
use pacing::Nanos;
use servers::StartError;

use self::document::{Figures, RunState};
use self::prepare::{Estimate, Prepared, dry_run, patience, prepare};
use self::record::{Record, RunEnd};
use crate::ci::{CaseEnd, Ci, CiCase, CiReport, run_cases};
use crate::cli::RunArgs;
use crate::exit;
use crate::fleet::{self, Fleet};
use crate::live::Display;
use crate::managed::{ManagedError, Programs, Stage};
use crate::output::print;
use crate::plan::{Plan, fresh_seed};
use crate::run::{self, Outcome, RunFolder, Words, default_folder};
use crate::scenario::{NodeKind, ScenarioOptions, Script};
use crate::shutdown::Shutdown;

/// Plays the runs of a scenario file.
pub(crate) fn play(args: RunArgs) -> Result<u8, CommandError> {
    if args.list {
        return Ok(print(&crate::scenario::list()));
    }
    let ci = Ci::open("txgen run", &args.settings.alone().ci)?;
    if args.settings.alone().dry_run {
        play_all(args).map(|(_, code)| code)
    } else {
        ci.conclude(play_all(args))
    }
}

fn play_all(args: RunArgs) -> Result<(CiReport, u8), CommandError> {
    let options = options(&args).map_err(usage)?;
    let scenario = args.scenario.clone().unwrap_or_default();
    let script = Script::load(&scenario, &options).map_err(usage)?;
    let runs = prepare(&script, &args.settings, fresh_seed()).map_err(usage)?;
    if args.settings.alone().dry_run {
        return Ok((CiReport::default(), print(&dry_run(&script, &runs))));
    }
    if script.campaign.is_some() && !args.yes {
        patience(&script).map_err(usage)?;
    }
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    // All runs have the same: the file's, or the flag's over it.
    let named = runs.first().and_then(|run| run.settings.out.clone());
    let place = named.unwrap_or_else(|| default_folder(&record::slug(&script.name)));
    let parent = if script.campaign.is_some() {
        place.clone()
    } else {
        place.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    };
    let programs = Programs {
        cometbft: args.cometbft,
        btcd: args.btcd,
        simd: args.simd,
        sentinel: args.sentinel,
        guard: std::env::current_exe().ok(),
        folder: if parent.as_os_str().is_empty() {
            ".".into()
        } else {
            parent
        },
    };
    match &script.campaign {
        None => single(&script, &runs[0], place, &programs, &shutdown),
        Some(_) => {
            let fleet = Fleet::of(&runs[0].settings, &shutdown)?;
            let folder = RunFolder::create(place).map_err(usage)?;
            let shown = &runs[0].settings.display;
            let display = Display::open(shown, &shutdown).map_err(usage)?;
            Campaign {
                script: &script,
                runs: &runs,
                folder: folder.path(),
                programs: &programs,
                fleet,
                shutdown: &shutdown,
                display,
                cases: Vec::new(),
            }
            .play()
        }
    }
}

fn options(args: &RunArgs) -> anyhow::Result<ScenarioOptions> {
    let given = !args.settings.alone().endpoints.is_empty();
    let node = match (args.node, given) {
        (Some(kind), true) if kind != NodeKind::Endpoints => {
            anyhow::bail!("--endpoints are nodes that are there already; leave out --node or them")
        }
        (None, true) => Some(NodeKind::Endpoints),
        (kind, _) => kind,
    };
    Ok(ScenarioOptions {
        set: args.set.clone(),
        scale: args.scale,
        node,
        only: args.only.clone(),
        prove: args.prove,
        text: args.text.clone(),
    })
}

/// A run that is no campaign: its run folder is the place itself.
fn single(
    script: &Script,
    run: &Prepared,
    place: PathBuf,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<(CiReport, u8), CommandError> {
    let mut stage = set_stage(run, programs, shutdown)?;
    let mut plan = run.plan(&stage).map_err(usage)?;
    plan.out = Some(place);
    let outcome = match run.settings.workers() {
        Some(_) => fleet::conduct(&run.shared(script, &plan), shutdown)?,
        None => run::run(&plan, shutdown)?,
    };
    stage.keep_logs(&outcome.folder);
    match stage.trouble() {
        Some(trouble) => Err(failed(anyhow::anyhow!(trouble))),
        None => Ok((CiReport::of_run(&outcome), outcome.exit_code())),
    }
}

fn set_stage(
    run: &Prepared,
    programs: &Programs,
    shutdown: &Shutdown,
) -> Result<Stage, CommandError> {
    let set = Stage::set(run.script, &run.settings, run.transport, programs, shutdown);
    set.map_err(|error| CommandError {
        code: managed_code(&error),
        source: error.into(),
    })
}

fn managed_code(error: &ManagedError) -> u8 {
    match error {
        ManagedError::Missing { .. } | ManagedError::Start(StartError::Setting(_)) => exit::USAGE,
        ManagedError::Start(StartError::Interrupted) => exit::INTERRUPTED,
        _ => exit::FAILED,
    }
}

/// A run that was played: its outcome, and what went wrong with the processes around it.
type Played = (Outcome, Option<String>);

/// A campaign under way.
struct Campaign<'a> {
    script: &'a Script,
    runs: &'a [Prepared<'a>],
    folder: &'a Path,
    programs: &'a Programs,
    /// The fleet that sends the runs, if not this process.
    fleet: Option<Fleet>,
    shutdown: &'a Shutdown,
    display: Display,
    /// What was asked of the runs so far.
    cases: Vec<CiCase>,
}

impl Campaign<'_> {
    fn play(&mut self) -> Result<(CiReport, u8), CommandError> {
        let mut record = Record::begin(self.script, self.runs, self.folder).map_err(failed)?;
        self.say(&format!(
            "{}: {}; writing {}",
            self.script.name,
            Estimate::of(self.script),
            self.folder.display()
        ));
        if let Some(address) = self.display.metrics_address() {
            self.say(&format!("metrics on http://{address}/metrics"));
        }
        let mut stage: Option<Stage> = None;
        let runs = self.runs;
        for (number, run) in runs.iter().enumerate() {
            if self.shutdown.is_requested() {
                break;
            }
            let heading = format!(
                "run {} of {}: {}",
                number + 1,
                runs.len(),
                run.script.label()
            );
            self.say(&heading);
            self.display.heading(heading);
            record.starts(number).map_err(failed)?;
            let began = Instant::now();
            let played = self.one(run, &record.place(number), &mut stage);
            let uncommitted = played
                .as_ref()
                .map_or_else(|_| Vec::new(), |(outcome, _)| outcome.uncommitted());
            if played.is_err() {
                stage = None;
            }
            match played {
                Ok(played) => {
                    let end = self.describe(played, &run.script.label());
                    record.ends(number, end, began.elapsed());
                }
                Err(error) => {
                    let message = format!("{:#}", error.source);
                    self.cases.push(untold(&run.script.label(), &message));
                    let end = RunEnd::failed(error.code, message.clone());
                    record.ends(number, end, began.elapsed());
                    if number == 0 {
                        // What cannot even begin once is wrong as a whole.
                        record
                            .finish(self.shutdown.is_requested())
                            .map_err(failed)?;
                        return Err(error);
                    }
                    self.say(&format!("  failed: {message}"));
                }
            }
            record.write().map_err(failed)?;
            if number + 1 < self.runs.len() {
                self.between(run, &uncommitted, &mut stage);
            }
        }
        drop(stage);
        record
            .finish(self.shutdown.is_requested())
            .map_err(failed)?;
        let report = self.report(&record);
        Ok((report, record.exit_code()))
    }

    /// Prints how all of it went, and reports it to a CI system.
    fn report(&mut self, record: &Record) -> CiReport {
        let mut text = table::table(&record.document.runs);
        if let Some(proofs) = document::table(&record.document.prove) {
            text += &format!("\n{}", proofs.text());
        }
        text.push_str(&format!("written to {}\n", self.folder.display()));
        self.display.result(&text);
        CiReport {
            cases: std::mem::take(&mut self.cases),
            details: table::runs_table(&record.document.runs).markdown(),
            folder: self.folder.into(),
            ..CiReport::default()
        }
    }

    /// Prints the result of a run.
    fn describe(&mut self, (outcome, trouble): Played, label: &str) -> RunEnd {
        self.cases.extend(run_cases(&outcome, label));
        let figures = Figures::of(&outcome, self.window());
        self.say(&format!("  {}", table::line(&figures)));
        if let Some(trouble) = &trouble {
            self.say(&format!("  {trouble}"));
            self.cases.push(untold(label, trouble));
        }
        RunEnd {
            state: match &trouble {
                _ if outcome.summary.interrupted => RunState::Interrupted,
                Some(_) => RunState::Failed,
                None => RunState::Done,
            },
            exit_code: outcome.exit_code(),
            problem: trouble,
            figures: Some(figures),
        }
    }

    /// One run; beside its outcome what went wrong with the processes around it.
    fn one(
        &mut self,
        run: &Prepared,
        place: &Path,
        stage: &mut Option<Stage>,
    ) -> Result<Played, CommandError> {
        if stage
            .as_ref()
            .is_some_and(|stage| !stage.serves(run.script))
        {
            *stage = None;
        }
        let stage = match stage {
            Some(stage) => stage,
            none => none.insert(set_stage(run, self.programs, self.shutdown)?),
        };
        let mut plan: Plan = run.plan(stage).map_err(usage)?;
        plan.out = Some(place.into());
        let (shutdown, display) = (self.shutdown, &mut self.display);
        let played = match &mut self.fleet {
            Some(fleet) => fleet.perform(&run.shared(self.script, &plan), shutdown, display),
            None => run::start_on(&plan, shutdown, Words::Few, display),
        };
        let outcome = played.map_err(|error| {
            let CommandError { code, mut source } = error.into();
            if let Some(trouble) = stage.trouble() {
                source = source.context(trouble);
            }
            CommandError { code, source }
        })?;
        stage.keep_logs(&outcome.folder);
        Ok((outcome, stage.trouble()))
    }

    /// The rest between two runs, and the wait for an empty mempool where they share a node.
    fn between(&mut self, run: &Prepared, own: &[String], stage: &mut Option<Stage>) {
        if run.script.node.is_fresh() {
            *stage = None;
        }
        let settled = stage
            .as_ref()
            .map(|stage| stage.settle(own, SETTLE_PATIENCE, self.shutdown));
        if let Some(Some(trouble)) = settled
            && !self.shutdown.is_requested()
        {
            self.say(&format!(
                "  not at rest after {} s ({trouble}); the next run starts with what is left",
                SETTLE_PATIENCE.as_secs()
            ));
        }
        let pause = self
            .script
            .campaign
            .as_ref()
            .map_or(Nanos::ZERO, |it| it.pause);
        let deadline = Instant::now() + pause.as_duration();
        while Instant::now() < deadline && !self.shutdown.is_requested() {
            let left = deadline.saturating_duration_since(Instant::now());
            thread::sleep(left.min(LOOK_INTERVAL));
        }
    }

    fn window(&self) -> Option<usize> {
        let window = self.script.campaign.as_ref()?.window?;
        Some(window.get() as usize)
    }

    fn say(&mut self, message: &str) {
        self.display.message(message);
    }
}

/// A run of which nothing can be concluded, or not all.
fn untold(label: &str, reason: &str) -> CiCase {
    CiCase {
        suite: label.into(),
        name: "played".into(),
        end: CaseEnd::Untold,
        detail: reason.into(),
    }
}

/// A flooded node that commits nothing for this long will not.
const SETTLE_PATIENCE: Duration = Duration::from_secs(120);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
