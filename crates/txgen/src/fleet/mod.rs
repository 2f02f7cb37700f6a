//! One load of many machines: `--workers N --nats URL`, `txgen worker`, `txgen fleet`.
//!
//! The coordinator resolves the plan, gives each worker the same command line with its own `--shard` and the common
//! `--start-at` by that worker's clock, shows the sum of what they print, and joins their folders as `txgen merge`
//! does.

mod arguments;
mod live;
pub(crate) mod local;

use std::cell::Cell;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use fleet::{Bus, Crew, Ending, Event, FleetError, Member, Order, Program, Stop, Worker};
use harness::start_at::unix_now_ns;
use harness::{Part, StartAt, default_folder, note};
use jiff::Timestamp;
use measure::{FleetClock, LostPart, ShardName};
use ops::command::{CommandError, failed, usage};
use pacing::Nanos;

use self::live::Live;
use crate::cli::WorkerArgs;
use crate::exit;
use crate::live::{Display, RunInfo};
use crate::merge_command::{Joining, join};
use crate::plan::{Plan, Request, fresh_seed};
use crate::run::RunFolder;
use crate::settings::Settings;
use crate::shutdown::Shutdown;

/// Has workers send a load, and joins what they recorded; gives the exit code.
pub(crate) fn conduct(request: Request, mut settings: Settings) -> Result<u8, CommandError> {
    let count = settings.workers.map_or(0, NonZeroU32::get);
    let Some(first) = Part::first_of(count) else {
        return Err(usage(anyhow!(
            "--workers {count}: a fleet has 2 to 10,000 workers"
        )));
    };
    let url = settings.nats.clone().unwrap_or_default();
    let seed = settings.seed.unwrap_or_else(fresh_seed);
    (settings.seed, settings.shard) = (Some(seed), Some(first));
    let (display_settings, out, start) = (settings.display, settings.out.take(), settings.start_at);
    let plan = Plan::resolve(request, settings, seed).map_err(usage)?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let mut display = Display::open(&display_settings, &shutdown).map_err(failed)?;
    let out = out.unwrap_or_else(|| default_folder("fleet"));
    let folder = RunFolder::create(out).map_err(usage)?;
    let played = Conduct {
        plan: &plan,
        count,
        seed,
        start,
        shutdown: &shutdown,
        out: folder.path(),
    }
    .play(&url, &mut display);
    display.close();
    let joining = played.map_err(|error| match error {
        FleetError::Interrupted => CommandError {
            code: exit::INTERRUPTED,
            source: error.into(),
        },
        FleetError::Workers(_) | FleetError::Worker { .. } | FleetError::Bus { .. } => usage(error),
        error => failed(error),
    });
    if joining.is_err() {
        folder.discard(&[]);
    }
    join(joining?)
}

/// Says how far each worker's clock is off.
fn tell_clocks(crew: &Crew, display: &mut Display) {
    for member in crew.members() {
        if let Some(offset) = member.clock.first() {
            display.message(&format!(
                "worker {}: its clock is {:+.3} ms off (± {:.3} ms)",
                member.host,
                offset.offset_ns() as f64 / 1e6,
                offset.error_ns() as f64 / 1e6
            ));
        }
    }
}

/// A load of a fleet.
struct Conduct<'a> {
    plan: &'a Plan,
    count: u32,
    seed: u64,
    start: Option<StartAt>,
    shutdown: &'a Shutdown,
    out: &'a Path,
}

impl Conduct<'_> {
    fn play(&self, url: &str, display: &mut Display) -> Result<Joining, FleetError> {
        let runtime = crate::runtime::start().map_err(|source| FleetError::Folder {
            what: "cannot start a runtime".to_owned(),
            source,
        })?;
        runtime.block_on(self.play_on(url, display))
    }

    async fn play_on(&self, url: &str, display: &mut Display) -> Result<Joining, FleetError> {
        let bus = Bus::connect(url, "txgen coordinator").await?;
        let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let run = format!("{stamp}-{}", std::process::id());
        let called = Crew::call(bus, run.clone(), self.count as usize, VERSION, PATIENCE);
        let mut crew = tokio::select! {
            crew = called => crew?,
            () = self.shutdown.requested() => return Err(FleetError::Interrupted),
        };
        let endings = match crew.compare_clocks(CLOCK_LIMIT).await {
            Ok(()) => self.load(&mut crew, &run, display).await,
            Err(error) => Err(error),
        };
        let gathered = match endings {
            Ok(endings) => self.gather(&crew, endings, display).await,
            Err(error) => Err(error),
        };
        crew.end(
            gathered
                .as_ref()
                .is_ok_and(|joining| joining.lost.is_empty()),
        )
        .await;
        gathered
    }

    /// Starts all and hears them to their end.
    async fn load(
        &self,
        crew: &mut Crew,
        run: &str,
        display: &mut Display,
    ) -> Result<Vec<Ending>, FleetError> {
        tell_clocks(crew, display);
        let start_ns = match self.start {
            Some(start) => start.unix_ns(),
            None => unix_now_ns() + LEAD.as_nanos() as u64,
        };
        self.order(crew, run, start_ns).await?;
        let hosts: Vec<String> = crew
            .members()
            .iter()
            .map(|member| member.host.clone())
            .collect();
        display.message(&format!(
            "run {run}: {} workers begin in {} s",
            self.count,
            LEAD.as_secs()
        ));
        display.begin(RunInfo {
            planned: self.plan.planned_by_all(),
            ..RunInfo::of(self.plan, std::sync::Arc::default())
        });
        let mut live = Live::new(hosts.len(), self.plan.duration());
        // A worker that ends before the start could not begin: then nobody does.
        let early = Cell::new(None);
        let stop = || self.stop(early.get().is_some());
        let length = self.plan.duration().unwrap_or_default();
        let length = length.as_duration() + self.plan.rules.drain_timeout.as_duration() + LEAD;
        let mut on_event = |event: Event| match event {
            Event::Line(place, line) => live.line(place, line, display),
            Event::Silent(place) => {
                display.message(&format!("worker {}: not heard for 5 s", hosts[place]));
            }
            Event::Back(place) => display.message(&format!("worker {}: heard again", hosts[place])),
            Event::Ended(place, code) => {
                live.ended(place);
                if unix_now_ns() < start_ns && code != Some(i32::from(exit::INTERRUPTED)) {
                    early.set(early.get().or(Some(place)));
                }
            }
            Event::BusAway => display.message("the NATS server is away; the workers go on"),
            Event::BusBack => display.message("the NATS server is back"),
        };
        let endings = crew.watch(length, &stop, &mut on_event).await?;
        display.end();
        match early.get() {
            Some(place) => Err(FleetError::Worker {
                host: hosts[place].clone(),
                problem: format!(
                    "it could not begin, so nobody did: {}",
                    problem(&endings[place])
                ),
            }),
            None => Ok(endings),
        }
    }

    /// Gives each worker its command line.
    async fn order(&self, crew: &mut Crew, run: &str, start_ns: u64) -> Result<(), FleetError> {
        let environment = arguments::environment();
        let given = arguments::of_load(std::env::args().skip(1));
        crew.play(|member, number| Order {
            run: run.to_owned(),
            number,
            arguments: arguments::of_worker(
                &given,
                &format!("{number}/{}", self.count),
                self.seed,
                start_of(member, start_ns),
            ),
            environment: environment.clone(),
        })
        .await
    }

    /// Whether the workers are to end now.
    fn stop(&self, is_lost: bool) -> Stop {
        if self.shutdown.is_urgent() {
            Stop::AtOnce
        } else if self.shutdown.is_requested() || is_lost {
            Stop::Orderly
        } else {
            Stop::No
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
            clocks: Vec::new(),
            lost: Vec::new(),
            max_clock_offset: MAX_CLOCK_OFFSET,
            out: self.out.join("whole"),
        };
        for ((place, member), ending) in crew.members().iter().enumerate().zip(&endings) {
            let shard = ShardName {
                number: place as u32 + 1,
                of: self.count,
            };
            let folder = self.out.join(format!("shard-{}", shard.number));
            let fetched = match ending.kept {
                true => crew
                    .fetch(place, &folder)
                    .await
                    .map_err(|error| format!("{:#}", anyhow!(error))),
                false => Err(problem(ending)),
            };
            match fetched {
                Ok(()) => {
                    joining.folders.push(folder);
                    joining.clocks.push(clock(member));
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
        match (joining.folders.is_empty(), endings.first()) {
            (true, Some(ending)) => Err(FleetError::Workers(format!(
                "no worker left a run folder: {}",
                problem(ending)
            ))),
            _ => Ok(joining),
        }
    }

    /// What one shard had to send.
    fn planned(&self, shard: ShardName) -> u64 {
        let part: Option<Part> = shard.to_string().parse().ok();
        let all = self.plan.planned_by_all().unwrap_or(0);
        part.map_or(0, |part| part.count(all))
    }
}

/// The common start by the worker's clock.
fn start_of(member: &Member, start_ns: u64) -> StartAt {
    let ahead_ns = member.clock.first().map_or(0, fleet::Interval::offset_ns);
    StartAt::new(start_ns, ahead_ns)
}

fn clock(member: &Member) -> FleetClock {
    let first = member.clock.first();
    FleetClock {
        offset_ms: first.map_or(0.0, |offset| offset.offset_ns() as f64 / 1e6),
        error_ms: first.map_or(0.0, |offset| offset.error_ns() as f64 / 1e6),
        drift_ppm: member
            .clock
            .drift_ppb()
            .map(|(low, high)| (low / 1e3, high / 1e3)),
    }
}

/// Why a worker's part is missing.
fn problem(ending: &Ending) -> String {
    let error = ending.words.iter().find(|line| line.starts_with("error: "));
    let line = error.or(ending.words.last());
    let code = match (ending.lost, ending.code) {
        (true, _) => String::new(),
        (false, Some(code)) => format!("exit code {code}: "),
        (false, None) => "it was killed: ".to_owned(),
    };
    code + line.map_or("it said nothing", |line| line.trim_start_matches("error: "))
}

/// `txgen worker`
pub(crate) fn work(args: &WorkerArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let path = std::env::current_exe().map_err(failed)?;
    std::fs::create_dir_all(&args.runs).map_err(failed)?;
    let runs: PathBuf = args.runs.canonicalize().map_err(failed)?;
    let program = Program {
        before: vec![
            "guard".to_owned(),
            "--parent".to_owned(),
            std::process::id().to_string(),
            "--".to_owned(),
            path.display().to_string(),
        ],
        path,
        version: VERSION.to_owned(),
        prefix: arguments::PREFIX,
    };
    let host = args.name.clone().unwrap_or_else(host_name);
    let runtime = crate::runtime::start().map_err(failed)?;
    let served = runtime.block_on(async {
        let bus = Bus::connect(&args.nats, &format!("txgen worker {host}")).await?;
        note(&format!(
            "worker {host}: waiting for work, folders in {}",
            runs.display()
        ));
        let worker = Worker::new(bus, host, program, runs);
        worker
            .serve(shutdown.requested(), &mut |text| note(text))
            .await
    });
    match served {
        Ok(()) => Ok(exit::INTERRUPTED),
        Err(error) => Err(usage(error)),
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long workers are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
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
