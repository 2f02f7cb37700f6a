//! `txgen ab`: runs of two sides in turns, until it is decided whether B is worse.

mod sides;
mod words;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use measure::{
    Block, CompareTerms, Doubts, Gate, LoadField, RunFigures, ScheduleVerdict, compare_turns, gated,
};
use ops::command::{CommandError, failed, usage};
use pacing::{Nanos, Profile};

use crate::chains::WorkloadKind;
use crate::ci::{Ci, CiReport};
use crate::cli::{AbArgs, AbLoad, CompareFormat};
use crate::compare::Comparison;
use crate::drain::Drain;
use crate::fleet::{self, Fleet, Shared};
use crate::folder::Journal;
use crate::live::Display;
use crate::output::recorded;
use crate::plan::{Nodes, Plan, Request, RequestedLoad};
use crate::run::{self, Outcome, RunError, RunFolder, Words};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::{exit, output};
use sides::{AbSide, StartedNode};

/// Takes the runs and compares them; gives the exit code.
///
/// # Errors
/// When the sides, the load, the folder or a node cannot be used, or a run fails.
pub(crate) fn execute(args: &AbArgs, seed: u64, shutdown: &Shutdown) -> Result<u8, CommandError> {
    let ci = Ci::open("txgen ab", &args.settings.ci)?;
    if args.settings.dry_run {
        played(args, seed, shutdown).map(|(_, code)| code)
    } else {
        ci.conclude(played(args, seed, shutdown))
    }
}

fn played(args: &AbArgs, seed: u64, shutdown: &Shutdown) -> Result<(CiReport, u8), CommandError> {
    let sides = sides::sides(args).map_err(usage)?;
    let load = requested(&args.load).map_err(usage)?;
    let max_pairs = args.max_pairs.map_or(u32::MAX, NonZeroU32::get);
    if max_pairs < 2 {
        return Err(usage(anyhow!(
            "--max-pairs has to be at least 2: a block is ABBA or BAAB"
        )));
    }
    let settings = &args.settings;
    let seed = settings.seed.unwrap_or(seed);
    let terms = CompareTerms {
        margin: args.margin.as_f64(),
        limit: None,
        metrics: args.judge_by.clone(),
    };
    let plans = sides
        .each_ref()
        .map(|side| plan(settings_of(side, seed, 0, None)?, &load, seed));
    let [first, second] = plans;
    let (first, second) = (first?, second?);
    if settings.dry_run {
        let text = format!(
            "A: {}\nB: {}\n\nruns in turns, ABBA and BAAB, for {} at most; each of A's:\n{}",
            sides[0].about,
            sides[1].about,
            args.budget,
            output::preview(&first)
        );
        return Ok((CiReport::default(), output::print(&text)));
    }
    let fleet = Fleet::of(settings, shutdown)?;
    let folder = settings
        .out
        .clone()
        .unwrap_or_else(|| run::default_folder("ab"));
    let folder = RunFolder::create(folder).map_err(usage)?;
    let display = Display::open(&settings.display, shutdown).map_err(usage)?;
    let mut session = Session {
        drains: [drain(&first)?, drain(&second)?],
        sides,
        fleet,
        line: line(&args.load),
        load,
        seed,
        terms,
        folder,
        display,
        shutdown,
        played: 0,
        blocks: Vec::new(),
        began: Instant::now(),
    };
    let ended = session.play(args.budget, max_pairs);
    session.conclude(ended, args.format)
}

fn requested(load: &AbLoad) -> anyhow::Result<RequestedLoad> {
    if let Some(rate) = load.rate {
        return RequestedLoad::constant(rate, load.duration).map_err(|error| anyhow!(error));
    }
    Ok(RequestedLoad::Open {
        schedule: Profile::steps(load.start, load.step, load.every, load.to)?,
        stop_when_saturated: false,
        reconnect_in_pauses: false,
    })
}

/// What a side's run has for settings. Every run has a seed of its own, so that no transaction comes twice.
fn settings_of(
    side: &AbSide,
    seed: u64,
    number: u64,
    out: Option<PathBuf>,
) -> Result<Settings, CommandError> {
    let mut settings = side.settings.clone();
    if settings.shard.is_some() || settings.start_at.is_some() || !settings.threshold.is_empty() {
        return Err(usage(anyhow!(
            "--shard, --start-at and --threshold are for single runs; ab decides by --judge-by and --margin"
        )));
    }
    let is_kept = side.command.is_none() && !settings.endpoints.is_empty();
    if is_kept && matches!(settings.workload, Some(WorkloadKind::File(_))) {
        return Err(usage(anyhow!(
            "each run needs new transactions, and a file would repeat its own on these nodes; use another --workload, \
             or commands that start a fresh node"
        )));
    }
    settings.seed = Some(seed.wrapping_add(number));
    settings.accounts_seed = settings.accounts_seed.or(Some(seed));
    settings.out = out;
    fleet::divided(settings).map_err(usage)
}

/// The plan of a run with these settings.
fn plan(settings: Settings, load: &RequestedLoad, seed: u64) -> Result<Plan, CommandError> {
    let request = Request {
        command: "ab".into(),
        load: load.clone(),
        builtin: devnode::Blueprint::default(),
    };
    Plan::resolve(request, settings, seed).map_err(usage)
}

/// The load as a command line of its own.
fn line(load: &AbLoad) -> Vec<String> {
    let AbLoad {
        rate,
        duration,
        to,
        start,
        step,
        every,
    } = load;
    match (rate, to) {
        (Some(rate), _) => vec![
            "constant".into(),
            format!("--rate={rate}"),
            format!("--duration={duration}"),
        ],
        (None, to) => [
            Some("ramp".into()),
            Some(format!("--start={start}")),
            Some(format!("--step={step}")),
            Some(format!("--every={every}")),
            to.map(|to| format!("--to={to}")),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

/// What waits for a node that is there before and after a run; `None` where each run has one of its own.
fn drain(plan: &Plan) -> Result<Option<Drain>, CommandError> {
    match &plan.nodes {
        Nodes::Endpoints(endpoints) => Drain::new(plan.target, endpoints, &plan.trust)
            .map(Some)
            .map_err(failed),
        Nodes::BuiltIn { .. } => Ok(None),
    }
}

/// Why no more runs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It is decided.
    Decided,
    /// Time or pairs are spent.
    Spent,
    /// By the user.
    Interrupted,
    /// Several runs in a row were not the planned load.
    NotOffered,
}

/// A comparison under way.
struct Session<'a> {
    sides: [AbSide; 2],
    drains: [Option<Drain>; 2],
    /// The fleet that sends the runs, if not this process.
    fleet: Option<Fleet>,
    load: RequestedLoad,
    /// The same as a command line.
    line: Vec<String>,
    seed: u64,
    terms: CompareTerms,
    folder: RunFolder,
    display: Display,
    shutdown: &'a Shutdown,
    /// Runs, those that do not count included.
    played: u64,
    blocks: Vec<Block>,
    began: Instant,
}

impl Session<'_> {
    /// Plays block after block.
    fn play(&mut self, budget: Nanos, max_pairs: u32) -> Result<Ended, CommandError> {
        let [a, b] = self.sides.each_ref().map(|side| side.about.clone());
        let folder = self.folder.path().display().to_string();
        self.display
            .message(&format!("A        {a}\nB        {b}\nwriting  {folder}"));
        let mut longest = Nanos::ZERO;
        loop {
            let elapsed = Nanos::from(self.began.elapsed());
            let pairs = 2 * self.blocks.len() as u64;
            let is_spent =
                elapsed.saturating_add(longest) > budget || pairs + 2 > u64::from(max_pairs);
            if is_spent && pairs > 0 {
                return Ok(Ended::Spent);
            }
            let is_reversed = self.blocks.len() % 2 == 1;
            let mut runs: [RunFigures; 4] = Default::default();
            let order = Block::order(is_reversed);
            for (place, is_other) in order.into_iter().enumerate() {
                match self.run(usize::from(is_other))? {
                    RunEnd::Figures(figures) => runs[place] = figures,
                    RunEnd::Ended(ended) => return Ok(ended),
                }
                if place % 2 == 1 {
                    let (one, two) = (&runs[place - 1], &runs[place]);
                    let [a, b] = if is_other { [one, two] } else { [two, one] };
                    let number = pairs + place as u64 / 2 + 1;
                    let line = words::pair_line(number, a, b, &self.terms.metrics);
                    self.display.message(&line);
                }
            }
            self.blocks.push(Block { runs, is_reversed });
            let so_far = compare_turns(&self.blocks, &self.terms, &Doubts::default());
            self.display.message(&words::so_far(&so_far));
            if gated(&so_far).is_some_and(|gate| gate != Gate::Open) {
                return Ok(Ended::Decided);
            }
            longest = longest.max(Nanos::from(self.began.elapsed()).saturating_sub(elapsed));
        }
    }

    /// A run that counts: one that was not the planned load is taken again.
    fn run(&mut self, place: usize) -> Result<RunEnd, CommandError> {
        for _ in 0..ATTEMPTS {
            let Some((figures, verdict)) = self.attempt(place)? else {
                return Ok(RunEnd::Ended(Ended::Interrupted));
            };
            if verdict != ScheduleVerdict::Invalid {
                return Ok(RunEnd::Figures(figures));
            }
            self.display
                .message("      not the planned load; taken again");
        }
        Ok(RunEnd::Ended(Ended::NotOffered))
    }

    /// One run from rest to rest; nothing when the user ended it.
    fn attempt(
        &mut self,
        place: usize,
    ) -> Result<Option<(RunFigures, ScheduleVerdict)>, CommandError> {
        let side = &self.sides[place];
        if self.shutdown.is_requested() {
            return Ok(None);
        }
        self.played += 1;
        let out = self.folder.path().join(side.name);
        let out = out.join(format!("{:03}", self.played));
        let settings = settings_of(side, self.seed, self.played, Some(out))?;
        let plan = plan(settings.clone(), &self.load, self.seed)?;
        let mut node = match &side.command {
            Some(command) => {
                let log = self.folder.path().join(format!("node-{}.log", side.name));
                match StartedNode::start(command, &plan, log, self.shutdown) {
                    Ok(node) => Some(node),
                    Err(_) if self.shutdown.is_requested() => return Ok(None),
                    Err(error) => return Err(failed(error)),
                }
            }
            None => None,
        };
        self.display
            .heading(format!("ab: run {} of side {}", self.played, side.name));
        let played = self.send(place, &settings, &plan);
        if let Some(trouble) = node.as_mut().and_then(StartedNode::trouble)
            && !self.shutdown.is_requested()
        {
            let name = self.sides[place].name;
            return Err(failed(anyhow!("side {name}: {trouble}")));
        }
        let outcome = match played {
            Ok(outcome) => outcome,
            Err(RunError::Interrupted) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if outcome.summary.interrupted {
            return Ok(None);
        }
        if let Some(drain) = self.drains[place].as_ref().filter(|_| node.is_none()) {
            let drained = drain.await_empty(&outcome.uncommitted(), REST_TIMEOUT, self.shutdown);
            if let Some(obstacle) = drained.obstacle.filter(|_| !self.shutdown.is_requested()) {
                return Err(failed(anyhow!(
                    "after a run of side {} the target did not come to rest within {REST_TIMEOUT}: {obstacle}",
                    self.sides[place].name
                )));
            }
        }
        let figures = RunFigures::of(&outcome.summary);
        Ok(Some((figures, outcome.summary.verdict.schedule)))
    }

    /// The load of one run.
    fn send(
        &mut self,
        place: usize,
        settings: &Settings,
        plan: &Plan,
    ) -> Result<Outcome, RunError> {
        let Some(fleet) = &mut self.fleet else {
            return run::start_on(plan, self.shutdown, Words::Few, &mut self.display);
        };
        let flags = &self.sides[place].flags;
        let shared = Shared {
            plan,
            load: Some(self.line.iter().chain(flags).cloned().collect()),
            settings,
        };
        fleet.perform(&shared, self.shutdown, &mut self.display)
    }

    /// The last words, the files and the exit code.
    fn conclude(
        mut self,
        ended: Result<Ended, CommandError>,
        format: CompareFormat,
    ) -> Result<(CiReport, u8), CommandError> {
        if self.blocks.is_empty() {
            let code = match ended? {
                Ended::Interrupted => exit::INTERRUPTED,
                Ended::Decided | Ended::Spent | Ended::NotOffered => exit::INVALID,
            };
            self.display
                .result("undecided: there is no whole block of four runs to compare\n");
            return Ok((CiReport::default(), code));
        }
        let comparison = self.comparison().map_err(failed)?;
        let differences = comparison.differences();
        let gate = gated(&differences);
        let took = Nanos::from(self.began.elapsed());
        let why = match &ended {
            Ok(Ended::Decided) => "decided",
            Ok(Ended::Spent) => "the budget is spent",
            Ok(Ended::Interrupted) => "interrupted",
            Ok(Ended::NotOffered) => "runs were not the planned load",
            Err(_) => "a run failed",
        };
        let pairs = 2 * self.blocks.len();
        let answer = words::answer(&differences, self.terms.margin);
        let course = format!(
            "{why} after {pairs} pairs of runs in {}",
            Nanos::from_secs(took.as_secs_f64().round() as u64)
        );
        let comparison = comparison.answered(answer, course);
        let journal = Journal::new(self.folder.path());
        let mut document = comparison.document();
        document["format"] = "tidegate.ab/1".into();
        document["ended"] = why.into();
        document["pairs"] = pairs.into();
        document["took_s"] = took.as_secs_f64().into();
        let written = journal.document("ab.json", &document);
        let written = written
            .and_then(|()| journal.text(recorded::FILE, &comparison.written(CompareFormat::Html)));
        self.display.close();
        let _ = output::print(&comparison.written(format));
        written.map_err(failed)?;
        let code = match (ended?, gate) {
            (Ended::Interrupted, _) => exit::INTERRUPTED,
            (_, Some(Gate::Regression)) => exit::THRESHOLD,
            (Ended::Decided | Ended::Spent, Some(Gate::Within)) => exit::DONE,
            _ => exit::INVALID,
        };
        Ok((comparison.for_ci(), code))
    }

    /// All that was found, over the folders.
    fn comparison(&self) -> anyhow::Result<Comparison> {
        let varied: Vec<LoadField> = LoadField::all().collect();
        let folders = self.sides.each_ref().map(|side| {
            let folder = self.folder.path().join(side.name);
            (folder, side.name.to_uppercase(), side.about.clone())
        });
        Comparison::of_turns(folders, &self.terms, &varied, |doubts| {
            compare_turns(&self.blocks, &self.terms, doubts)
        })
        .context("what was measured lies there, and cannot be read again")
    }
}

/// How the taking of a run ended.
enum RunEnd {
    Figures(RunFigures),
    Ended(Ended),
}

/// A run is taken so often until it is the planned load.
const ATTEMPTS: u32 = 3;
/// A target that still holds transactions after this long holds them for good.
const REST_TIMEOUT: Nanos = Nanos::from_secs(60);
