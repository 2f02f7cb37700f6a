//! What has to be committed before a load can be offered: a run of its own, in a folder inside the
//! run's.

use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::anyhow;
use chain::Workload;
use pacing::{CatchUp, Nanos};
use rpc::{BroadcastMethod, Transport};
use sender::shard::Rules;

use super::conduct::Run;
use super::error::{RunError, record_error};
use super::preflight;
use super::words::Words;
use super::{RunFolder, open_all};
use crate::live::{Display, RunInfo};
use crate::output::grouped;
use crate::plan::{Guest, Load, Plan};
use crate::shutdown::Shutdown;

/// Commits what the plan's workload spends, if it spends something, and prints a line about it.
pub(super) fn prepare(
    plan: &Plan,
    guest: Option<Guest>,
    folder: &RunFolder,
    shutdown: &Shutdown,
    words: Words,
    display: &mut Display,
) -> Result<(), RunError> {
    let Some((workload, wanted)) = plan.workload.preparation() else {
        return Ok(());
    };
    if words == Words::All {
        display.message(&format!(
            "prepare  {} transactions are committed first; {workload}",
            grouped(wanted)
        ));
    }
    let plan = preparation(plan, workload, wanted);
    let nodes = preflight::check(&plan, guest, shutdown)?.ok_or(RunError::Interrupted)?;
    let folder = RunFolder::create(folder.path().join(FOLDER))?;
    let mut files = open_all(&folder, plan.rows)?;
    let run = Run::new(&plan, &nodes, guest.is_some(), shutdown);
    display.begin(RunInfo {
        brief: true,
        ..RunInfo::of(&plan, Arc::clone(&run.board))
    });
    let played = run.play(files.rows, files.manifest, display)?;
    let summary = played.finished.summary;
    let written = summary.write_to(&mut files.summary);
    if let Some(error) = played.trouble {
        return Err(error);
    }
    if let Some(error) = record_error(&summary, played.finished.error, written, true) {
        return Err(error);
    }
    if shutdown.is_requested() {
        return Err(RunError::Interrupted);
    }
    let committed = summary.fate.committed;
    if committed < wanted {
        return Err(RunError::Failed(anyhow!(
            "only {committed} of the {wanted} transactions that the load builds on were committed; {} says what \
             became of the others (a mempool that is too small refuses some: raise its size)",
            folder.path().display()
        )));
    }
    Ok(())
}

/// As fast as answers come, over the run's own connections.
fn preparation(plan: &Plan, workload: Arc<dyn Workload>, count: u64) -> Plan {
    let per_connection = match plan.nodes.transport() {
        Transport::Ws => IN_FLIGHT_PER_WEBSOCKET,
        Transport::Http | Transport::P2p => 1,
    };
    let slots = u64::from(plan.connections.get()) * per_connection;
    let slots = slots.min(count).min(plan.rules.max_in_flight.get());
    let concurrency = NonZeroU32::new(slots as u32).unwrap_or(NonZeroU32::MIN);
    Plan {
        command: "preparation".into(),
        load: Load::Flood { concurrency, count },
        workload,
        // Waiting for the commit of each would take a block for every few.
        method: match plan.method {
            BroadcastMethod::Commit => BroadcastMethod::Sync,
            method => method,
        },
        threads: plan.threads.min(concurrency),
        rules: Rules {
            catch_up: CatchUp::Full,
            ..plan.rules
        },
        warmup: Nanos::ZERO,
        thresholds: Vec::new(),
        abort_on: Vec::new(),
        start_at: None,
        out: None,
        profiled: None,
        ..plan.clone()
    }
}

const FOLDER: &str = "preparation";
const IN_FLIGHT_PER_WEBSOCKET: u64 = 64;
