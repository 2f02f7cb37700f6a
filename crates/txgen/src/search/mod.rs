//! `txgen search` and `txgen scan`: many short runs at one rate each, and the knee they show.

mod account;
mod drain;
mod judge;
mod page;
mod table;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use jiff::Timestamp;
use measure::{
    Because, BlockMark, BlockRow, Ending, Finding, KneeSearch, KneeSettings, Next, Trial,
};
use pacing::{Nanos, Profile, Rate, Schedule};
use rpc::Endpoint;

pub use drain::MempoolsError;

use account::{Account, Ended, Limits, PointRow, SEARCH_FORMAT, because_words};
use drain::Mempools;
use judge::{Evidence, GROWTH_LIMIT, LOST_LIMIT, judge};

use crate::cli::{PointArgs, ScanArgs, SearchArgs, Settings};
use crate::exit;
use crate::folder::RecordedRun;
use crate::plan::{Load, Plan, PlanError, Request, RequestedLoad, Target};
use crate::report;
use crate::run::{
    self, BuiltInError, BuiltInNode, FolderError, Outcome, RunError, RunFolder, Words,
};
use crate::shutdown::Shutdown;
use crate::workload::WorkloadKind;

/// Why there is no search.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The points make no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Options that do not fit together.
    #[error("{0}")]
    Usage(String),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The built-in node does not start.
    #[error(transparent)]
    BuiltIn(#[from] BuiltInError),
    /// The mempools cannot be asked.
    #[error(transparent)]
    Mempools(#[from] MempoolsError),
    /// A point could not be played; what the others showed was printed and written.
    #[error("point {number} ({rate}/s)")]
    Point {
        /// Which.
        number: usize,
        /// Its rate.
        rate: f64,
        /// Why.
        #[source]
        source: RunError,
    },
    /// `search.json` cannot be written.
    #[error("cannot write search.json; free some space or choose another folder with --out")]
    Account(#[source] io::Error),
    /// The report cannot be written; `search.json` is whole.
    #[error("cannot write report.html; free some space or choose another folder with --out")]
    Report(#[source] io::Error),
}

/// What is asked for, whatever chooses the rates.
struct Quest {
    kind: &'static str,
    points: PointArgs,
    settings: Settings,
    seed: u64,
}

/// Finds the knee; gives the exit code.
///
/// # Errors
/// When the target, the folder or the points cannot be used, or a point fails.
pub fn search(args: SearchArgs, seed: u64, shutdown: &Shutdown) -> Result<u8, SearchError> {
    if args.min > args.max {
        return Err(SearchError::Usage(format!(
            "--min {} is above --max {}",
            args.min, args.max
        )));
    }
    let settings = KneeSettings {
        from: args.from.as_f64(),
        min: args.min.as_f64(),
        max: args.max.as_f64(),
        precision: args.precision.as_f64(),
        confidence: args.confidence.as_f64(),
        ..KneeSettings::default()
    };
    let quest = Quest {
        kind: "search",
        points: args.points,
        settings: args.settings,
        seed,
    };
    if quest.is_dry() {
        return quest.preview(args.from, &format!(
            "looks for the highest rate sustained from {} on, between {} and {}, for {} at most\n",
            args.from, args.min, args.max, args.time_limit
        ));
    }
    let mut field = Field::open(quest, args.from, shutdown)?;
    let mut search = KneeSearch::new(settings);
    let mut longest = Nanos::ZERO;
    let ended = loop {
        let (rate, because) = match search.next() {
            Next::Try { rate, because } => (rate, because),
            Next::Done(ending) => break Some(ending),
        };
        let needed = longest.max(field.quest.points.duration);
        if field.elapsed().saturating_add(needed) > args.time_limit && !search.trials().is_empty() {
            break None;
        }
        let began = field.elapsed();
        let doubling = matches!(because, Because::First | Because::Higher | Because::Lower);
        match field.point(rate, &because_words(because), doubling)? {
            Step::Went(finding) => {
                search.add(Trial { rate, finding });
                field.learn(&search)?;
            }
            Step::Over(finding) => {
                search.add(Trial { rate, finding });
                return field.conclude(&search);
            }
            Step::Stopped => return field.conclude(&search),
        }
        longest = longest.max(field.elapsed().saturating_sub(began));
    };
    let (ended, reason) = ending_words(ended, &search, args.time_limit);
    field.account.ended = ended;
    field.account.reason = reason;
    field.conclude(&search)
}

/// Measures a list of rates; gives the exit code.
///
/// # Errors
/// As [`search`].
pub fn scan(args: ScanArgs, seed: u64, shutdown: &Shutdown) -> Result<u8, SearchError> {
    let rates = args.rates.as_slice();
    let first = rates[0];
    let quest = Quest {
        kind: "scan",
        points: args.points,
        settings: args.settings,
        seed,
    };
    let count = rates.len() as u64 * u64::from(args.repeats.get());
    if quest.is_dry() {
        let least = quest.points.duration.saturating_mul(count);
        return quest.preview(
            first,
            &format!(
                "offers {count} points one after the other, {least} at least: {}\n",
                args.rates
            ),
        );
    }
    let mut field = Field::open(quest, first, shutdown)?;
    let mut trials = Vec::new();
    for (place, rate) in (0..args.repeats.get()).flat_map(|_| rates).enumerate() {
        let because = format!("{} of {count}", place + 1);
        let rate = rate.as_f64();
        let step = field.point(rate, &because, false)?;
        let (Step::Went(finding) | Step::Over(finding)) = step else {
            break;
        };
        trials.push(Trial { rate, finding });
        let known = KneeSearch::of_trials(&trials, args.confidence.as_f64());
        field.learn(&known)?;
        if matches!(step, Step::Over(_)) {
            break;
        }
    }
    let known = KneeSearch::of_trials(&trials, args.confidence.as_f64());
    if field.account.ended == Ended::Running {
        field.account.ended = Ended::Done;
        field.account.reason = scan_words(&known);
    }
    field.conclude(&known)
}

impl Quest {
    fn is_dry(&self) -> bool {
        self.settings.dry_run
    }

    fn preview(&self, rate: Rate, words: &str) -> Result<u8, SearchError> {
        let plan = self.plan(0, rate, self.points.duration, None)?;
        let text = format!("{words}\nthe first point:\n{}", report::preview(&plan));
        let _ = io::stdout().lock().write_all(text.as_bytes());
        Ok(exit::DONE)
    }

    /// The plan of one point. Every point has a seed of its own, so that no transaction comes twice.
    fn plan(
        &self,
        number: usize,
        rate: Rate,
        duration: Nanos,
        out: Option<PathBuf>,
    ) -> Result<Plan, SearchError> {
        let settings = &self.settings;
        if matches!(settings.workload, Some(WorkloadKind::File(_))) {
            return Err(SearchError::Usage(format!(
                "{} needs new transactions for each point, and a file would repeat its own; use another --workload",
                self.kind
            )));
        }
        if !settings.threshold.is_empty() {
            return Err(SearchError::Usage(format!(
                "{} takes its conditions from --slo; write --slo instead of --threshold",
                self.kind
            )));
        }
        if settings.shard.is_some() || settings.start_at.is_some() {
            return Err(SearchError::Usage(format!(
                "{} decides each rate from the points before; --shard and --start-at are for single runs",
                self.kind
            )));
        }
        let profile = Profile::constant(rate, Some(duration)).map_err(PlanError::from)?;
        let quarter = Nanos::from_nanos(duration.as_nanos() / WARMUP_PART);
        let settings = Settings {
            seed: Some(self.seed.wrapping_add(number as u64)),
            warmup: settings.warmup.or(Some(quarter)),
            threshold: self.points.slo.clone(),
            out,
            ..settings.clone()
        };
        let request = Request {
            command: self.kind.into(),
            load: RequestedLoad::Open {
                profile,
                stop_when_saturated: false,
                reconnect_in_pauses: false,
            },
            builtin: devnode::Config::default(),
        };
        let plan = Plan::resolve(request, settings, self.seed)?;
        if plan.warmup >= duration {
            return Err(SearchError::Usage(format!(
                "--warmup {} leaves nothing of a point of {duration} to be judged; use a longer --duration",
                plan.warmup
            )));
        }
        Ok(plan)
    }
}

/// How a point ended.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It showed this, and the target is at rest again.
    Went(Finding),
    /// It showed this, and no more can follow.
    Over(Finding),
    /// It was interrupted: it showed nothing.
    Stopped,
}

/// A target under measurement, and the folder of its points.
struct Field<'a> {
    quest: Quest,
    guest: Option<BuiltInNode>,
    mempools: Mempools,
    folder: RunFolder,
    account: Account,
    shutdown: &'a Shutdown,
    began: Instant,
}

impl<'a> Field<'a> {
    fn open(quest: Quest, first: Rate, shutdown: &'a Shutdown) -> Result<Self, SearchError> {
        let plan = quest.plan(0, first, quest.points.duration, None)?;
        let guest = run::guest(&plan)?;
        let endpoints = endpoints(&plan, guest.as_ref());
        let folder = quest.settings.out.clone();
        let folder = RunFolder::create(folder.unwrap_or_else(|| run::default_folder(quest.kind)))?;
        let target = report::describe_target(&plan);
        say(&format!("target   {target}"));
        let slo: Vec<String> = quest.points.slo.iter().map(ToString::to_string).collect();
        say(&format!(
            "held     when under {:.0} % are lost, the backlog grows by under {:.0} % of the rate{}{}",
            LOST_LIMIT * 100.0,
            GROWTH_LIMIT * 100.0,
            if slo.is_empty() { "" } else { ", and " },
            slo.join(", ")
        ));
        say(&format!("writing  {}", folder.path().display()));
        let account = Account {
            format: SEARCH_FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            kind: quest.kind,
            command: std::env::args().collect(),
            started: Timestamp::now().to_string(),
            target,
            limits: Limits {
                lost_share: LOST_LIMIT,
                growth_share: GROWTH_LIMIT,
                slo,
            },
            points: Vec::new(),
            knee: None,
            highest_held_tps: None,
            lowest_broken_tps: None,
            ended: Ended::Running,
            reason: "not finished".into(),
            took_s: 0.0,
        };
        account.write(folder.path()).map_err(SearchError::Account)?;
        Ok(Self {
            mempools: Mempools::new(&endpoints, &plan.trust)?,
            quest,
            guest,
            folder,
            account,
            shutdown,
            began: Instant::now(),
        })
    }

    fn elapsed(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// Offers one rate, judges it, and waits until the target is at rest.
    fn point(&mut self, rate: f64, because: &str, short: bool) -> Result<Step, SearchError> {
        let number = self.account.points.len() + 1;
        let full = self.quest.points.duration;
        let duration = match short {
            true => Nanos::from_nanos(full.as_nanos() / 2),
            false => full,
        };
        let offered =
            Rate::from_f64(rate).map_err(|error| SearchError::Usage(error.to_string()))?;
        let out = self.folder.path().join(format!("{number:02}-{rate}"));
        let plan = self.quest.plan(number, offered, duration, Some(out))?;
        if number == 1 && !self.come_to_rest("before the first point") {
            return Ok(Step::Stopped);
        }
        say(&format!(
            "{number:>3}   {offered} for {duration}: {because}"
        ));
        let address = self.guest.as_ref().map(BuiltInNode::address);
        let outcome = match run::perform(&plan, address, self.shutdown, Words::Few) {
            Ok(outcome) => outcome,
            Err(RunError::Interrupted) => {
                self.interrupted();
                return Ok(Step::Stopped);
            }
            Err(source) => return Err(self.failed(number, rate, source)),
        };
        if outcome.summary.interrupted {
            self.interrupted();
            return Ok(Step::Stopped);
        }
        let judgement = judge(&Evidence {
            summary: &outcome.summary,
            blocks: &block_marks(&outcome),
            schedule: schedule(&plan),
            rate,
            warmup: plan.warmup,
            followed: plan.follow,
            limits: &outcome.thresholds,
        });
        let row = PointRow::new(number, rate, because.into(), &outcome, &judgement);
        say(&table::finding_line(&row));
        self.account.points.push(row);
        let rested = self.come_to_rest("after this point");
        Ok(match rested {
            true => Step::Went(judgement.finding),
            false => Step::Over(judgement.finding),
        })
    }

    /// Waits until the mempools are empty; false when they do not, or the user stopped it.
    fn come_to_rest(&mut self, when: &str) -> bool {
        let timeout = self.quest.points.recover_timeout;
        let rest = self.mempools.await_empty(timeout, self.shutdown);
        if let Some(point) = self.account.points.last_mut() {
            point.recovered_s = rest.took.as_secs_f64();
            point.recovered = rest.trouble.is_none();
        }
        if rest.took >= SLOW_REST {
            say(&format!(
                "      {:.1} s until the mempool was empty",
                rest.took.as_secs_f64()
            ));
        }
        let Some(trouble) = rest.trouble else {
            return true;
        };
        if self.shutdown.is_requested() {
            self.interrupted();
        } else {
            self.account.ended = Ended::NotRecovered;
            self.account.reason = format!(
                "given up: {when} the target did not come to rest within {timeout}: {trouble}"
            );
        }
        false
    }

    fn interrupted(&mut self) {
        self.account.ended = Ended::Interrupted;
        self.account.reason = "interrupted: the interval is what was known by then".into();
    }

    fn failed(&mut self, number: usize, rate: f64, source: RunError) -> SearchError {
        self.account.ended = Ended::Failed;
        self.account.reason = format!("point {number} ({rate}/s) failed: {source}");
        self.account.took_s = self.elapsed().as_secs_f64();
        let _ = self.account.write(self.folder.path());
        if !self.account.points.is_empty() {
            let _ = io::stdout()
                .lock()
                .write_all(table::table(&self.account).as_bytes());
        }
        SearchError::Point {
            number,
            rate,
            source,
        }
    }

    /// Writes down what is known by now.
    fn learn(&mut self, known: &KneeSearch) -> Result<(), SearchError> {
        self.account.knee = known.estimate().map(Into::into);
        self.account.highest_held_tps = known.highest_held();
        self.account.lowest_broken_tps = known.lowest_broken();
        self.account.took_s = self.elapsed().as_secs_f64();
        self.account
            .write(self.folder.path())
            .map_err(SearchError::Account)
    }

    /// The last words, the file and the exit code.
    fn conclude(mut self, known: &KneeSearch) -> Result<u8, SearchError> {
        self.learn(known)?;
        let report = self.folder.path().join("report.html");
        fs::write(&report, page::page(&self.account)).map_err(SearchError::Report)?;
        let mut text = table::table(&self.account);
        text.push_str(&format!(
            "{:<13}{}\n{:<13}{}\n",
            "written to",
            self.folder.path().display(),
            "report",
            report.display()
        ));
        // A reader that has gone does not make the search a failure.
        let _ = io::stdout().lock().write_all(text.as_bytes());
        Ok(match self.account.ended {
            Ended::Interrupted => exit::INTERRUPTED,
            Ended::GeneratorLimit => exit::INVALID,
            Ended::NotRecovered | Ended::Failed | Ended::Running => exit::FAILED,
            Ended::OutOfTime if self.account.knee.is_none() => exit::FAILED,
            Ended::Done | Ended::NotReached | Ended::BelowMin | Ended::OutOfTime => exit::DONE,
        })
    }
}

/// Why a search is over; `None` means that time is up.
fn ending_words(ending: Option<Ending>, search: &KneeSearch, limit: Nanos) -> (Ended, String) {
    let held = || {
        search
            .highest_held()
            .map_or("nothing held".into(), |rate| format!("{rate}/s held"))
    };
    match ending {
        Some(Ending::Found) => (
            Ended::Done,
            format!(
                "the highest rate sustained; {} points",
                search.trials().len()
            ),
        ),
        Some(Ending::NotReached { rate }) => (
            Ended::NotReached,
            format!("no knee up to {rate}/s, the highest rate allowed: it still held"),
        ),
        Some(Ending::BelowMin { rate }) => (
            Ended::BelowMin,
            format!("no rate held: already {rate}/s, the lowest allowed, broke"),
        ),
        Some(Ending::GeneratorLimit { held, rate }) => (
            Ended::GeneratorLimit,
            match held {
                Some(held) => format!(
                    "no knee up to {held}/s: that held, and {rate}/s is more than this generator could offer"
                ),
                None => format!("{rate}/s is more than this generator could offer"),
            },
        ),
        Some(Ending::TrialsUsed) => (
            Ended::OutOfTime,
            format!(
                "{} points did not suffice for the precision asked: {}",
                search.trials().len(),
                held()
            ),
        ),
        None => (
            Ended::OutOfTime,
            format!(
                "the time limit of {limit} is reached before the precision asked ({}); a higher --time-limit \
                 narrows the interval",
                held()
            ),
        ),
    }
}

fn scan_words(known: &KneeSearch) -> String {
    match (known.highest_held(), known.lowest_broken()) {
        (Some(held), Some(broken)) if held < broken => {
            format!("{held}/s held and {broken}/s did not; between them nothing was tried")
        }
        (Some(held), Some(broken)) => format!(
            "{broken}/s broke once although {held}/s held once: the target is noisy or tires"
        ),
        (Some(held), None) => format!("no knee up to {held}/s: everything held"),
        (None, Some(broken)) => format!("nothing held, not even {broken}/s"),
        (None, None) => "no point was usable".into(),
    }
}

fn endpoints(plan: &Plan, guest: Option<&BuiltInNode>) -> Vec<Endpoint> {
    match (&plan.target, guest) {
        (Target::Endpoints(endpoints), _) => endpoints.clone(),
        (Target::BuiltIn { .. }, Some(guest)) => format!("http://{}", guest.address())
            .parse()
            .into_iter()
            .collect(),
        (Target::BuiltIn { .. }, None) => Vec::new(),
    }
}

fn schedule(plan: &Plan) -> Option<&Schedule> {
    match &plan.load {
        Load::Open { schedule, .. } => Some(schedule),
        Load::Flood { .. } => None,
    }
}

/// The blocks of a point. A file that cannot be read gives none, and the coarser rule is used.
fn block_marks(outcome: &Outcome) -> Vec<BlockMark> {
    let blocks = RecordedRun::open(&outcome.folder).and_then(|run| run.all_blocks());
    let mark = |block: &BlockRow| BlockMark {
        observed: Nanos::from_nanos(block.observed_ns),
        committed: block.own_txs.saturating_sub(block.own_failed),
    };
    blocks.map_or_else(|_| Vec::new(), |blocks| blocks.iter().map(mark).collect())
}

/// To people; nobody reading stderr is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The first of as many parts of a point is not judged.
const WARMUP_PART: u64 = 4;
/// A rest that takes longer is worth a line.
const SLOW_REST: Nanos = Nanos::from_secs(2);
