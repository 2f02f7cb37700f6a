//! A target under measurement, and the folder of its points.

use std::time::Instant;

use jiff::Timestamp;
use measure::judge::{BrokenLimit, Point, answer_mark};
use measure::limits::{GROWTH_LIMIT, LOST_LIMIT};
use measure::{BlockMark, BlockRow, KneeSearch, Rationale, Trial};
use ops::command::{CommandError, failed, usage};
use pacing::{Nanos, Rate, Schedule};
use report::Entries;

use super::SearchRequest;
use super::account::{Account, DriftRow, Ended, Limits, PointRow, SEARCH_FORMAT, Tested};
use super::page;
use super::words::so_far;
use crate::drain::Drain;
use crate::fleet::{Fleet, Shared};
use crate::folder::Journal;
use crate::folder::RecordedRun;
use crate::live::Display;
use crate::output::recorded;
use crate::plan::{Load, Plan};
use crate::run::{BuiltInNode, Outcome, RunError, RunFolder, Words};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::{exit, output, run};

/// How a point ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum PointEnd {
    /// It showed this, and the target is at rest again.
    Measured(Trial),
    /// It showed this, and no more can follow.
    Last(Trial),
    /// It was interrupted: it showed nothing.
    Interrupted,
}

impl PointEnd {
    /// What it showed, if it showed anything.
    pub(super) const fn trial(self) -> Option<Trial> {
        match self {
            Self::Measured(trial) | Self::Last(trial) => Some(trial),
            Self::Interrupted => None,
        }
    }
}

/// A target under measurement, and the folder of its points.
pub(super) struct Session<'a> {
    pub(super) request: SearchRequest,
    guest: Option<BuiltInNode>,
    /// The fleet that sends the points, if not this process.
    fleet: Option<Fleet>,
    /// What that commits at most, in words.
    ceiling: Option<String>,
    drain: Drain,
    /// Accepted transactions of the last point that no block has shown.
    uncommitted: Vec<String>,
    folder: RunFolder,
    journal: Journal,
    pub(super) account: Account,
    shutdown: &'a Shutdown,
    display: Display,
    began: Instant,
    /// Between the blocks of the last point; zero before the first.
    block_interval: Nanos,
}

impl<'a> Session<'a> {
    pub(super) fn open(
        request: SearchRequest,
        first: Rate,
        shutdown: &'a Shutdown,
    ) -> Result<Self, CommandError> {
        let plan = request.plan(0, first, request.points.duration, None)?;
        let guest = run::guest(&plan).map_err(failed)?;
        let address = guest.as_ref().map(BuiltInNode::guest);
        run::check_target(&plan, address, shutdown).map_err(usage)?;
        let endpoints = plan.nodes.endpoints(address);
        let fleet = Fleet::of(&request.settings, shutdown)?;
        let folder = request.settings.out.clone();
        let folder = folder.unwrap_or_else(|| run::default_folder("search"));
        let folder = RunFolder::create(folder).map_err(usage)?;
        let target = output::describe_target(&plan);
        let mut display = Display::open(&plan.display, shutdown).map_err(usage)?;
        display.message(&format!("target   {target}"));
        let slo: Vec<String> = request.points.slo.iter().map(ToString::to_string).collect();
        display.message(&format!(
            "held     when under {:.0} % are lost, the backlog grows by under {:.0} % of the rate{}{}",
            LOST_LIMIT * 100.0,
            GROWTH_LIMIT * 100.0,
            if slo.is_empty() { "" } else { ", and " },
            slo.join(", ")
        ));
        display.say_where(folder.path());
        let account = Account {
            format: SEARCH_FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            command: std::env::args().collect(),
            started: Timestamp::now().to_string(),
            target,
            limits: Limits {
                lost_share: LOST_LIMIT,
                growth_share: GROWTH_LIMIT,
                slo,
            },
            reason: "not finished".into(),
            ..Account::default()
        };
        let journal = Journal::new(folder.path());
        journal.document(FILE, &account).map_err(failed)?;
        Ok(Self {
            drain: Drain::new(plan.target, &endpoints, &plan.trust).map_err(failed)?,
            uncommitted: Vec::new(),
            request,
            ceiling: plan.nodes.ceiling(),
            guest,
            fleet,
            folder,
            journal,
            account,
            shutdown,
            display,
            began: Instant::now(),
            block_interval: Nanos::ZERO,
        })
    }

    pub(super) fn elapsed(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// How long a point of this length, in parts of the usual one, takes.
    pub(super) fn duration(&self, length: f64) -> Nanos {
        self.request.point_duration(length, self.block_interval)
    }

    /// Notes what the last point showed, if it was a test of the interval.
    pub(super) fn tested(&mut self, because: Rationale, is_refuted: bool) {
        let Some(row) = self.account.points.last() else {
            return;
        };
        let test = Tested {
            point: row.number,
            rate_tps: row.rate_tps,
            for_s: row.for_s,
            finding: row.finding,
            refutes: is_refuted,
        };
        match because {
            Rationale::Lasting => self.account.lasting = Some(test),
            Rationale::Above => self.account.above = Some(test),
            _ => {}
        }
    }

    /// Offers one rate, judges it, and waits until the target is at rest.
    pub(super) fn point(
        &mut self,
        rate: f64,
        because: &str,
        length: f64,
    ) -> Result<PointEnd, CommandError> {
        let number = self.account.points.len() + 1;
        let duration = self.duration(length);
        let offered = Rate::from_f64(rate).map_err(usage)?;
        let out = self.folder.path().join(format!("{number:02}-{rate}"));
        let plan = self.request.plan(number, offered, duration, Some(out))?;
        if number == 1 && !self.come_to_rest("before the first point") {
            return Ok(PointEnd::Interrupted);
        }
        self.display.message(&format!(
            "{number:>3}   {offered} for {duration}: {because}"
        ));
        let so_far = so_far(&self.account).map_or(String::new(), |text| format!(": {text}"));
        self.display
            .heading(format!("search point {number}{so_far}"));
        let begun_s = self.elapsed().as_secs_f64();
        let settings = self.request.settings(number, duration)?;
        let outcome = match self.offer(&plan, (offered, duration), &settings) {
            Ok(outcome) => outcome,
            Err(RunError::Interrupted) => {
                self.interrupted();
                return Ok(PointEnd::Interrupted);
            }
            Err(source) => return Err(self.failed(number, rate, source)),
        };
        if outcome.summary.interrupted {
            self.interrupted();
            return Ok(PointEnd::Interrupted);
        }
        let broken_limits = broken_limits(&outcome);
        let blocks = block_marks(&outcome, plan.follow);
        self.block_interval = interval(&blocks).unwrap_or(self.block_interval);
        let point = Point {
            summary: &outcome.summary,
            blocks: &blocks,
            schedule: schedule(&plan),
            rate,
            warmup: plan.warmup,
            followed: plan.follow,
            broken_limits: &broken_limits,
        };
        let judgement = point.judge();
        let row = PointRow {
            begun_s,
            for_s: duration.as_secs_f64(),
            ..PointRow::new(number, rate, because.into(), &outcome, &judgement)
        };
        self.display.message(&page::finding_line(&row));
        self.account.points.push(row);
        self.uncommitted = outcome.uncommitted();
        let rested = self.come_to_rest("after this point");
        Ok(if rested {
            PointEnd::Measured(judgement.trial(rate))
        } else {
            PointEnd::Last(judgement.trial(rate))
        })
    }

    /// Offers a rate for a time, by itself or through the fleet's workers.
    fn offer(
        &mut self,
        plan: &Plan,
        (rate, duration): (Rate, Nanos),
        settings: &Settings,
    ) -> Result<Outcome, RunError> {
        let Some(fleet) = &mut self.fleet else {
            let address = self.guest.as_ref().map(BuiltInNode::guest);
            return run::perform(plan, address, self.shutdown, Words::Few, &mut self.display);
        };
        let load = vec![
            "constant".into(),
            format!("--rate={rate}"),
            format!("--duration={duration}"),
        ];
        let shared = Shared {
            plan,
            load: Some(load),
            settings,
        };
        fleet.perform(&shared, self.shutdown, &mut self.display)
    }

    /// Waits until the mempools are empty; false when they do not, or the user stopped it.
    fn come_to_rest(&mut self, when: &str) -> bool {
        let timeout = self.request.points.recover_timeout;
        let drained = self
            .drain
            .await_empty(&self.uncommitted, timeout, self.shutdown);
        if let Some(point) = self.account.points.last_mut() {
            point.recovered_s = drained.took.as_secs_f64();
            point.recovered = drained.obstacle.is_none();
        }
        if drained.took >= SLOW_REST {
            self.display.message(&format!(
                "      {:.1} s until the mempool was empty",
                drained.took.as_secs_f64()
            ));
        }
        let Some(obstacle) = drained.obstacle else {
            return true;
        };
        if self.shutdown.is_requested() {
            self.interrupted();
        } else {
            self.account.ended = Ended::NotRecovered;
            self.account.reason = format!(
                "given up: {when} the target did not come to rest within {timeout}: {obstacle}"
            );
        }
        false
    }

    fn interrupted(&mut self) {
        self.account.ended = Ended::Interrupted;
        self.account.reason = "interrupted before the search was over".into();
    }

    fn failed(&mut self, number: usize, rate: f64, source: RunError) -> CommandError {
        self.account.ended = Ended::Failed;
        self.account.reason = format!("point {number} ({rate}/s) failed: {source}");
        self.account.took_s = self.elapsed().as_secs_f64();
        let _ = self.journal.document(FILE, &self.account);
        if !self.account.points.is_empty() {
            self.display.result(&page::table(&self.account));
        }
        let CommandError { code, source } = source.into();
        let source = source.context(format!("point {number} ({rate}/s)"));
        CommandError { code, source }
    }

    /// Prints and writes the state of the search.
    pub(super) fn learn(&mut self, known: &KneeSearch) -> Result<(), CommandError> {
        self.note(known)?;
        if let Some(known) = so_far(&self.account) {
            self.display.message(&format!("      so far: {known}"));
        }
        Ok(())
    }

    /// Whether the last points contradict what was known before.
    fn is_open(&self, known: &KneeSearch) -> bool {
        self.account.refuted().is_some() || known.is_in_doubt()
    }

    fn note(&mut self, known: &KneeSearch) -> Result<(), CommandError> {
        self.account.contradicted = self.is_open(known);
        let knee = known.estimate().filter(|_| !self.account.contradicted);
        self.account.knee = knee.map(Into::into);
        let points = &self.account.points;
        self.account.drift = known.drift().map(|it| DriftRow::new(it, points));
        self.account.highest_held_tps = known.highest_held();
        self.account.lowest_broken_tps = known.lowest_broken();
        self.account.took_s = self.elapsed().as_secs_f64();
        self.journal.document(FILE, &self.account).map_err(failed)?;
        // Each point's own report leads there.
        let page = page::page(&self.account);
        self.journal.text(recorded::FILE, &page).map_err(failed)
    }

    /// The last words, the file and the exit code.
    pub(super) fn conclude(mut self, known: &KneeSearch) -> Result<u8, CommandError> {
        if let Some(ceiling) = &self.ceiling {
            self.account.reason = format!("{}; {ceiling}", self.account.reason);
        }
        if self.is_open(known) {
            self.account.reason += "; the last points contradict those before: the target or its machine may have changed";
        }
        self.note(known)?;
        let mut written = Entries::default();
        written.add("written to", self.folder.path().display().to_string());
        written.add(
            "report",
            self.journal.path(recorded::FILE).display().to_string(),
        );
        let text = page::table(&self.account) + &written.text();
        self.display.result(&text);
        Ok(match self.account.ended {
            Ended::Interrupted => exit::INTERRUPTED,
            Ended::GeneratorLimit => exit::INVALID,
            Ended::NotRecovered | Ended::Failed | Ended::Running => exit::FAILED,
            // Nothing was found out, whatever the search came to.
            _ if known.highest_held().is_none() && known.lowest_broken().is_none() => exit::INVALID,
            Ended::OutOfTime | Ended::Undecided if self.account.knee.is_none() => exit::INVALID,
            _ if self.is_open(known) => exit::INVALID,
            Ended::Done | Ended::NotReached | Ended::BelowMin => exit::DONE,
            Ended::OutOfTime | Ended::Undecided => exit::DONE,
        })
    }
}

/// The conditions that did not hold, or may not have.
fn broken_limits(outcome: &Outcome) -> Vec<BrokenLimit> {
    let limits = outcome.thresholds.iter().chain(&outcome.stopped_by);
    limits
        .filter(|limit| !limit.held)
        .map(|limit| BrokenLimit {
            text: limit.text.clone(),
            value: limit.value_text(),
            unresolved: limit.unresolved,
        })
        .collect()
}

fn schedule(plan: &Plan) -> Option<&Schedule> {
    match &plan.load {
        Load::Open { schedule, .. } => Some(schedule),
        Load::Flood { .. } => None,
    }
}

/// The blocks of a point; its seconds, where blocks are not watched. A file that cannot be read gives none, and the
/// coarser rule is used.
fn block_marks(outcome: &Outcome, followed: bool) -> Vec<BlockMark> {
    let mark = |block: &BlockRow| BlockMark {
        observed: Nanos::from_nanos(block.observed_ns),
        committed: block.committed(),
    };
    let marks = RecordedRun::open(&outcome.folder).and_then(|run| {
        Ok(if followed {
            run.all_rows()?.iter().map(mark).collect()
        } else {
            run.all_rows()?.iter().map(answer_mark).collect()
        })
    });
    marks.unwrap_or_default()
}

/// The mean time between blocks.
fn interval(blocks: &[BlockMark]) -> Option<Nanos> {
    let (first, last) = (blocks.first()?, blocks.last()?);
    let span = last.observed.saturating_sub(first.observed);
    let count = blocks.len() as u64 - 1;
    (count > 0).then(|| Nanos::from_nanos(span.as_nanos() / count))
}

/// The document of a search.
const FILE: &str = "search.json";
/// A rest that takes longer is worth a line.
const SLOW_REST: Nanos = Nanos::from_secs(2);
