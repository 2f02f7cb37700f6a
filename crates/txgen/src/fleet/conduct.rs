//! One load of a crew, from the orders to the folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use fleet::{Crew, Ending, Event, FleetError, Member, Stop};
use harness::part::unix_now_ns;
use harness::{Part, StartAt};
use measure::{FleetClock, LostPart, ShardName};
use pacing::Nanos;

use super::live::Live;
use super::{arguments, call};
use crate::exit;
use crate::live::{Display, RunInfo};
use crate::merge_command::{Joining, open_part};
use crate::plan::Plan;
use crate::run::Words;
use crate::shutdown::Shutdown;

/// A load of a fleet.
pub(super) struct Conduct<'a> {
    pub(super) plan: &'a Plan,
    pub(super) count: u32,
    pub(super) run: &'a str,
    /// The command line of all workers.
    pub(super) order: &'a [String],
    pub(super) shutdown: &'a Shutdown,
    pub(super) words: Words,
    /// Where the workers' folders are brought to.
    pub(super) shards: &'a Path,
    /// Where they are to be joined.
    pub(super) whole: PathBuf,
}

impl Conduct<'_> {
    /// Has all send their parts, and fetches what they recorded.
    pub(super) async fn play(
        &self,
        crew: &mut Crew,
        display: &mut Display,
    ) -> Result<Joining, FleetError> {
        call(crew, self.count, self.shutdown).await?;
        crew.compare_clocks(CLOCK_LIMIT).await?;
        let (endings, stopped) = self.load(crew, display).await?;
        let mut joining = self.gather(crew, endings, display).await?;
        joining.stopped = stopped;
        if joining.lost.is_empty() {
            crew.forget().await;
        }
        Ok(joining)
    }

    /// Gives each worker its shard of the load, to begin at one instant by its own clock.
    async fn order_shards(&self, crew: &mut Crew, start_ns: u64) -> Result<(), FleetError> {
        crew.play(&arguments::environment(), |member, number| {
            let offset = member.clock.first();
            let ahead_ns = offset.map_or(0, fleet::Interval::offset_ns);
            let start = StartAt::new(start_ns, ahead_ns);
            arguments::of_worker(self.order, &format!("{number}/{}", self.count), start)
        })
        .await
    }

    /// Starts all and hears them to their end.
    async fn load(
        &self,
        crew: &mut Crew,
        display: &mut Display,
    ) -> Result<(Vec<Ending>, Option<String>), FleetError> {
        let start_ns = match self.plan.start_at {
            Some(start) => start.unix_ns(),
            None => unix_now_ns() + LEAD.as_nanos() as u64,
        };
        self.order_shards(crew, start_ns).await?;
        let members = crew.members().iter();
        let hosts: Vec<String> = members.map(|member| member.host.clone()).collect();
        self.announce(display);
        let mut live = Live::new(hosts.len(), self.plan.duration());
        // A worker that ends before the start could not begin: then nobody does.
        let mut early = None;
        let mut stopped = None;
        let mut turn = |events: Vec<Event>| {
            for event in events {
                match event {
                    Event::Line(place, line) => {
                        if let Some(condition) = live.line(place, line, display)
                            && stopped.is_none()
                        {
                            let host = &hosts[place];
                            display.message(&format!("worker {host}: {condition}; the load ends"));
                            let number = place + 1;
                            stopped = Some(format!("shard {number}/{}: {condition}", self.count));
                        }
                    }
                    Event::Heard(place, is_heard) => {
                        let how = if is_heard {
                            "heard again"
                        } else {
                            "not heard for 5 s"
                        };
                        display.message(&format!("worker {}: {how}", hosts[place]));
                        live.set_at_work(place, is_heard, display);
                    }
                    Event::Ended(place, code) => {
                        live.set_at_work(place, false, display);
                        if unix_now_ns() < start_ns && code != Some(i32::from(exit::INTERRUPTED)) {
                            early = early.or(Some(place));
                        }
                    }
                    Event::Bus(true) => display.message("the NATS server is back"),
                    Event::Bus(false) => {
                        display.message("the NATS server is away; the workers go on");
                    }
                }
            }
            match (early, &stopped) {
                (Some(_), _) => self.stop(Stop::Orderly),
                (None, Some(_)) => self.stop(Stop::Over),
                (None, None) => self.stop(Stop::No),
            }
        };
        let endings = crew.watch(self.longest(), &mut turn).await?;
        display.end();
        match early {
            Some(place) => Err(FleetError::Workers(format!(
                "worker {}: it could not begin, so nobody did: {}",
                hosts[place],
                problem(&endings[place])
            ))),
            None => Ok((endings, stopped)),
        }
    }

    /// How long the load takes with its drain, at most.
    fn longest(&self) -> Duration {
        let length = self.plan.duration().unwrap_or_default();
        length.as_duration() + self.plan.rules.drain_timeout.as_duration() + LEAD
    }

    /// Says that the workers have their orders.
    fn announce(&self, display: &mut Display) {
        if self.words == Words::All {
            display.say_where(self.shards);
            display.message(&format!(
                "run {}: {} workers begin in {} s",
                self.run,
                self.count,
                LEAD.as_secs()
            ));
        }
        display.begin(RunInfo {
            brief: self.words == Words::Few,
            planned: self.plan.planned_by_all(),
            ..RunInfo::of(self.plan, Arc::default())
        });
    }

    /// Whether the workers are to end now, by the user or by what they have come to.
    fn stop(&self, by_workers: Stop) -> Stop {
        if self.shutdown.is_urgent() {
            Stop::AtOnce
        } else if self.shutdown.is_requested() {
            Stop::Orderly
        } else {
            by_workers
        }
    }

    /// Fetches the folders; what cannot be had is lost.
    async fn gather(
        &self,
        crew: &Crew,
        endings: Vec<Ending>,
        display: &mut Display,
    ) -> Result<Joining, FleetError> {
        let mut joining = Joining {
            folders: Vec::new(),
            known: Vec::new(),
            lost: Vec::new(),
            stopped: None,
            max_clock_offset: MAX_CLOCK_OFFSET,
            out: self.whole.clone(),
        };
        for ((place, member), ending) in crew.members().iter().enumerate().zip(&endings) {
            let shard = ShardName {
                number: place as u32 + 1,
                of: self.count,
            };
            let folder = self.shards.join(format!("shard-{}", shard.number));
            let fetched = if ending.kept {
                fetched(crew, place, &folder, ending).await
            } else {
                Err(problem(ending))
            };
            match fetched {
                Ok(()) => {
                    joining.folders.push(folder);
                    let lacks = ending.code == Some(i32::from(exit::FAILED));
                    let problem = lacks.then(|| problem(ending));
                    if let Some(problem) = &problem {
                        display.message(&format!("worker {}: {problem}", member.host));
                    }
                    joining.known.push((clock(member), problem));
                }
                Err(why) => {
                    display.message(&format!("worker {} is lost: {why}", member.host));
                    joining.lost.push(LostPart {
                        shard,
                        planned: self.planned(shard),
                        reason: format!("the generator on {} was lost: {why}", member.host),
                    });
                }
            }
        }
        match joining.lost.first().filter(|_| joining.folders.is_empty()) {
            Some(lost) => {
                let kept = if endings.iter().any(|ending| ending.kept) {
                    format!("; `txgen fleet --fetch {}` fetches what there is", self.run)
                } else {
                    String::new()
                };
                Err(FleetError::Workers(format!(
                    "there is no run folder of any worker: {}{kept}",
                    lost.reason
                )))
            }
            None => Ok(joining),
        }
    }

    /// What one shard had to send.
    fn planned(&self, shard: ShardName) -> u64 {
        let part: Option<Part> = shard.to_string().parse().ok();
        let all = self.plan.planned_by_all().unwrap_or(0);
        part.map_or(0, |part| part.count(all))
    }
}

/// Brings a folder that can be joined; or says why there is none.
async fn fetched(crew: &Crew, place: usize, folder: &Path, ending: &Ending) -> Result<(), String> {
    let got = crew.fetch(place, folder).await;
    got.map_err(|error| format!("{:#}", anyhow!(error)))?;
    // What was killed, or had no room for its summary, cannot be joined.
    open_part(folder)
        .map(drop)
        .map_err(|error| match ending.code {
            Some(code) if code != i32::from(exit::FAILED) => format!("{error:#}"),
            _ => problem(ending),
        })
}

fn clock(member: &Member) -> FleetClock {
    let (first, drift) = (member.clock.first(), member.clock.drift_ppb());
    FleetClock {
        offset_ms: first.map_or(0.0, |offset| offset.offset_ns() as f64 / 1e6),
        error_ms: first.map_or(0.0, |offset| offset.error_ns() as f64 / 1e6),
        drift_ppm: drift.map(|(low, high)| (low / 1e3, high / 1e3)),
    }
}

/// Why a worker's part is missing.
fn problem(ending: &Ending) -> String {
    let said = said(&ending.words);
    match ending.code {
        _ if ending.lost => said.to_owned(),
        Some(code) => format!("exit code {code}: {said}"),
        None => format!("it was killed: {said}"),
    }
}

/// A program's error among its last lines.
fn said(words: &[String]) -> &str {
    let mut lines = words.iter();
    let error = lines.find_map(|line| PREFIXES.iter().find_map(|it| line.strip_prefix(it)));
    error
        .or(words.last().map(String::as_str))
        .unwrap_or("it said nothing")
}

/// What a program's error begins with, its own and clap's.
const PREFIXES: [&str; 2] = ["txgen: ", "error: "];
/// A start is no more exact than this; a round trip of 20 ms gives it.
const CLOCK_LIMIT: Duration = Duration::from_millis(10);
/// From the orders to the start: programs start, look at their nodes, open connections, sign ahead.
const LEAD: Duration = Duration::from_secs(10);
/// As in `txgen merge`, by the blocks that two generators saw.
const MAX_CLOCK_OFFSET: Nanos = Nanos::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_missing_part_is_the_program_s_error() {
        let ending = |lost, code, words: &[&str]| Ending {
            code,
            words: words.iter().map(|line| (*line).to_owned()).collect(),
            kept: false,
            lost,
        };
        for (ending, expected) in [
            (
                ending(false, Some(2), &["error: no such node", "try --help"]),
                "exit code 2: no such node",
            ),
            (
                ending(false, Some(1), &["writing", "txgen: no space", "bye"]),
                "exit code 1: no space",
            ),
            (
                ending(false, None, &["5 s of 10 s", "the folder was too large"]),
                "it was killed: the folder was too large",
            ),
            (
                ending(true, None, &["nothing was heard of it for 15 s"]),
                "nothing was heard of it for 15 s",
            ),
            (ending(false, Some(1), &[]), "exit code 1: it said nothing"),
        ] {
            assert_eq!(problem(&ending), expected);
        }
    }
}
