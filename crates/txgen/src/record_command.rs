//! `txgen record`: nodes observed without a load.

use std::thread;
use std::time::Duration;

use harness::whole;
use measure::read::TableRow as _;
use measure::{NodeRow, SightRow};
use ops::command::{CommandError, failed, usage};
use pacing::Nanos;
use rpc::Trust;
use sender::clock::RunClock;

use crate::cli::RecordArgs;
use crate::folder::RECORD;
use crate::observe::{Chosen, Observers, discover};
use crate::output::print;
use crate::plan::observed;
use crate::recording::{FORMAT, Note, write_page};
use crate::run::{RunFolder, default_folder, host, observed_tables};
use crate::shutdown::Shutdown;

/// Observes until the time is up or a signal comes; gives the exit code.
pub(crate) fn record(args: &RecordArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let trust = Trust::native();
    let mut nodes = observed(&args.observe).map_err(usage)?;
    if let Some((first, wanted)) = args.from.as_ref().zip(args.discover) {
        let found = discover(
            args.target.target(),
            first,
            wanted.get() as usize,
            &trust,
            &shutdown,
        );
        nodes.extend(found.map_err(failed)?);
    }
    if nodes.is_empty() {
        let nobody = anyhow::anyhow!(
            "there is nothing to observe: give --observe name=URL, or --from URL --discover N"
        );
        return Err(usage(nobody));
    }
    let out = args.out.clone().unwrap_or_else(|| default_folder("record"));
    let folder = RunFolder::create(out).map_err(failed)?;
    let clock = RunClock::default();
    let tables = observed_tables(&folder).map_err(failed)?;
    let observers = Observers::start(
        args.target.target(),
        &nodes,
        &trust,
        &clock,
        Chosen::OfAll,
        tables,
    );
    let unused = |_: &_| folder.discard(&[NodeRow::FILE, SightRow::FILE]);
    let observers = observers.inspect_err(unused).map_err(failed)?;
    let origin = clock.start(Nanos::ZERO);
    let mut note = Note {
        format: FORMAT.into(),
        origin_unix_ns: origin.unix_ns(),
        host: host(),
        lasted_s: None,
        notes: Vec::new(),
    };
    whole(note.write(folder.path()), RECORD).map_err(failed)?;
    while !shutdown.is_requested() && args.duration.is_none_or(|duration| clock.now() < duration) {
        thread::sleep(LOOK_INTERVAL);
    }
    let ended = clock.now();
    let seen = observers.stop(ended);
    note.lasted_s = Some(ended.as_secs_f64());
    note.notes = seen.gaps;
    whole(note.write(folder.path()), RECORD).map_err(failed)?;
    let page = write_page(folder.path()).map_err(failed)?;
    let mut text = String::new();
    for line in seen.lines.iter().chain(&note.notes) {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&format!("written to {}\n", folder.path().display()));
    text.push_str(&format!("report: {}\n", page.display()));
    match seen.write_error {
        Some(error) => Err(failed(error)),
        None => Ok(print(&text)),
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
