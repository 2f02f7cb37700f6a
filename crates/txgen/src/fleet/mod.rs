//! Loads of many machines: `--workers N --nats URL`, `txgen worker`, `txgen fleet`.
//!
//! A [`Fleet`] has workers send one load, or several after one another: it resolves the plan, gives each worker the
//! command line of the load with its own `--shard` and the common `--start-at` by that worker's clock, shows the sum of
//! what they print, and joins their folders as `txgen merge` does. What a command concludes, it concludes from those.

mod arguments;
mod conduct;
mod live;
pub(crate) mod local;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use fleet::{Bus, Crew, FleetError};
use harness::{Part, default_folder};
use jiff::Timestamp;
use ops::command::{CommandError, failed, usage};
use tokio::runtime::{Builder, Runtime};

use self::conduct::Conduct;
pub(crate) use self::local::work;
use crate::live::Display;
use crate::merge_command::{Joining, join, tell};
use crate::plan::{Plan, fresh_seed};
use crate::run::{Outcome, RunError, RunFolder, Words};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::threshold::Kept;

/// Workers that are there for one command.
pub(crate) struct Fleet {
    crew: Crew,
    run: String,
    count: u32,
    /// The command line of the coordinator.
    given: Vec<String>,
    /// Keeps the claims of the crew.
    runtime: Runtime,
}

/// One load, as the coordinator has it and as the workers' command lines say it.
pub(crate) struct Shared<'a> {
    /// The whole of it.
    pub(crate) plan: &'a Plan,
    /// The command with its flags, e.g. `constant --rate=500/s --duration=20s`; that of the coordinator's line if none.
    pub(crate) load: Option<Vec<String>>,
    /// What is to be taken for what the coordinator's command line says, or does not say.
    pub(crate) settings: &'a Settings,
}

impl Fleet {
    /// Calls the workers that the settings want; none without `--workers`.
    ///
    /// # Errors
    /// When there are too few, or the server is away.
    pub(crate) fn of(
        settings: &Settings,
        shutdown: &Shutdown,
    ) -> Result<Option<Self>, CommandError> {
        let (Some(workers), Some(url)) = (settings.workers, &settings.nats) else {
            return Ok(None);
        };
        // Claims are kept while the command judges what was sent.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(failed)?;
        let count = workers.get();
        let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        // Coordinators on several machines, or in several containers, may have one process id in one second.
        let run = format!("{stamp}-{:08x}", fresh_seed());
        let crew = runtime.block_on(async {
            let bus = Bus::connect(url, "txgen coordinator").await?;
            let mut crew = Crew::new(bus, run.clone()).await?;
            call(&mut crew, count, shutdown).await?;
            Ok(crew)
        });
        Ok(Some(Self {
            crew: crew.map_err(unplayed)?,
            run,
            count,
            given: std::env::args().skip(1).collect(),
            runtime,
        }))
    }

    /// Has the workers send one load of several, and joins what they recorded into the plan's folder. Their folders are
    /// kept by the workers.
    ///
    /// # Errors
    /// As [`crate::run::run`]; when a worker cannot take part, nothing is sent.
    pub(crate) fn perform(
        &mut self,
        shared: &Shared<'_>,
        shutdown: &Shutdown,
        display: &mut Display,
    ) -> Result<Outcome, RunError> {
        let whole = shared.plan.out.clone();
        let whole = whole.unwrap_or_else(|| default_folder("fleet"));
        let shards = whole.with_file_name("shards");
        let folder = RunFolder::create(shards.clone())?;
        let places = (folder.path(), whole);
        let played = self.play(shared, places, (shutdown, Words::Few), display);
        let played = played.and_then(|it| Ok(join(it)?.outcome));
        let removed = std::fs::remove_dir_all(&shards);
        if let (Ok(_), Err(error)) = (&played, removed) {
            display.message(&format!("cannot remove {}: {error}", shards.display()));
        }
        played
    }

    /// Plays one load; gives the workers' folders, in the first of the places, and what is to be joined into the second.
    fn play(
        &mut self,
        shared: &Shared<'_>,
        (shards, whole): (&Path, PathBuf),
        (shutdown, words): (&Shutdown, Words),
        display: &mut Display,
    ) -> Result<Joining, RunError> {
        let order = arguments::of_load(&self.given, shared.load.as_deref(), shared.settings)
            .map_err(RunError::Unusable)?;
        let conduct = Conduct {
            plan: shared.plan,
            count: self.count,
            run: &self.run,
            order: &order,
            shutdown,
            words,
            shards,
            whole,
        };
        let played = self.runtime.block_on(conduct.play(&mut self.crew, display));
        played.map_err(unplayed)
    }
}

impl Drop for Fleet {
    /// Lets the workers go.
    fn drop(&mut self) {
        self.runtime.block_on(self.crew.end());
    }
}

/// Calls workers, unless the user asks to stop.
async fn call(crew: &mut Crew, count: u32, shutdown: &Shutdown) -> Result<(), FleetError> {
    tokio::select! {
        called = crew.call(count as usize, VERSION, PATIENCE) => called,
        () = shutdown.requested() => Err(FleetError::Interrupted),
    }
}

/// Has workers send the load of a command, and prints what it came to.
///
/// # Errors
/// When the output cannot be used, or nothing was sent.
pub(crate) fn conduct(shared: &Shared<'_>, shutdown: &Shutdown) -> Result<Outcome, CommandError> {
    let mut display = Display::open(&shared.plan.display, shutdown).map_err(failed)?;
    let out = shared.plan.out.clone();
    let folder = RunFolder::create(out.unwrap_or_else(|| default_folder("fleet")));
    let folder = folder.map_err(usage)?;
    let played = Fleet::of(shared.settings, shutdown).and_then(|fleet| {
        let mut fleet = fleet.ok_or_else(|| usage(anyhow!("--workers is missing")))?;
        let places = (folder.path(), folder.path().join("whole"));
        let watched = (shutdown, Words::All);
        Ok(fleet.play(shared, places, watched, &mut display)?)
    });
    display.close();
    if played.is_err() {
        folder.discard(&[]);
    }
    let joined = join(played?)?;
    tell(&joined);
    Ok(joined.outcome)
}

/// These settings, with the seed of all and the part that stands for the whole where workers are to divide a load.
///
/// # Errors
/// When so many cannot divide it.
pub(crate) fn divided(settings: Settings) -> anyhow::Result<Settings> {
    let Some(workers) = settings.workers else {
        return Ok(settings);
    };
    let first = Part::first_of(workers.get());
    let unknown = |kept: &&Kept| !kept.0.is_of_any_part();
    if let Some(kept) = settings.abort_on.iter().find(unknown) {
        anyhow::bail!(
            "--abort-on '{kept}': each worker looks at its own part, which has only a share of that; write a latency, \
             failed.share, or ==0"
        );
    }
    let none = || anyhow!("--workers {workers}: a fleet has 2 to 10,000 workers");
    Ok(Settings {
        shard: Some(first.ok_or_else(none)?),
        seed: settings.seed.or_else(|| Some(fresh_seed())),
        ..settings
    })
}

/// Why a load was not played.
fn unplayed(error: FleetError) -> RunError {
    match error {
        FleetError::Interrupted => RunError::Interrupted,
        FleetError::Workers(_) | FleetError::Bus { .. } => RunError::Unusable(error.into()),
        error => RunError::Failed(error.into()),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long workers are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
