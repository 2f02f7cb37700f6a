//! What has to be committed before a load can be offered: a run of its own, in a folder inside the run's.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use chain::Workload;
use harness::{Part, RunFolder};
use measure::{KeptRows, Summary};
use pacing::{CatchUp, Nanos};
use rpc::{BroadcastMethod, Transport};
use sender::shard::Rules;

use super::conclude::Words;
use super::conclude::{RunError, record_error};
use super::conduct::Run;
use super::host::open_all;
use super::nodes::{Node, check};
use crate::folder::RecordedRun;
use crate::live::{Display, RunInfo};
use crate::output::grouped;
use crate::plan::{Guest, Load, Plan};
use crate::shutdown::Shutdown;

/// What a load is prepared with.
pub(super) struct Preparation<'a> {
    pub(super) plan: &'a Plan,
    pub(super) nodes: &'a [Node],
    pub(super) guest: Option<Guest>,
    pub(super) folder: &'a RunFolder,
    pub(super) shutdown: &'a Shutdown,
    pub(super) words: Words,
}

impl Preparation<'_> {
    /// Commits what the plan's workload spends, if it spends something, and prints a line about it. What a node may stop
    /// at goes alone before the rest of its kind.
    pub(super) fn perform(&self, display: &mut Display) -> Result<(), RunError> {
        if let Some((workload, wanted)) = self.plan.workload.preparation() {
            self.go_alone(workload.as_ref(), FIRST_OF_PREPARATION, display)?;
            self.commit(workload, wanted, display)?;
        }
        self.go_alone(self.plan.workload.as_ref(), FIRST, display)
    }

    fn commit(
        &self,
        workload: Arc<dyn Workload>,
        wanted: u64,
        display: &mut Display,
    ) -> Result<(), RunError> {
        self.say(display, || {
            format!(
                "prepare  {} transactions are committed first; {workload}",
                grouped(wanted)
            )
        });
        let plan = preparation(self.plan, workload, wanted);
        let nodes = check(&plan, self.guest, self.shutdown)?.ok_or(RunError::Interrupted)?;
        let (summary, folder) = self.play(&plan, &nodes, FOLDER, display)?;
        let committed = summary.fate.committed;
        if committed < wanted {
            return Err(RunError::Failed(anyhow!(
                "only {committed} of the {wanted} transactions that the load builds on were committed; {} says what \
                 became of the others (a mempool that is too small refuses some: raise its size)",
                folder.display()
            )));
        }
        Ok(())
    }

    /// Sends one transaction where a node may stop at it, and awaits its answer and its block. The built-in node stops at
    /// none.
    fn go_alone(
        &self,
        workload: &dyn Workload,
        name: &str,
        display: &mut Display,
    ) -> Result<(), RunError> {
        let Some(node) = self.nodes.first().filter(|_| self.guest.is_none()) else {
            return Ok(());
        };
        let generator = self.plan.part.number();
        let Some(first) = workload.first_alone(&node.probe, generator) else {
            return Ok(());
        };
        let plan = Plan {
            part: Part::WHOLE,
            rows: KeptRows::All,
            ..preparation(self.plan, first, 1)
        };
        let (summary, folder) = self.play(&plan, &self.nodes[..1], name, display)?;
        let fate = &summary.fate;
        if fate.rejected + fate.commit_failed > 0 {
            let texts = fate.rejected_by_text.keys().next();
            self.say(display, || {
                let told = texts.map_or("no reason given", String::as_str);
                format!("refused  the first transaction, which went alone: {told}")
            });
            return Ok(());
        }
        let in_blocks = fate.committed + fate.unverified;
        if in_blocks > 0 || (!plan.follow && fate.accepted > 0) {
            return Ok(());
        }
        let became = if fate.accepted > 0 {
            "accepted it, and no block has it"
        } else {
            "did not answer"
        };
        Err(RunError::Failed(anyhow!(
            "{} got one transaction alone, {}, and {became}: it may have stopped at it (its log says why), and the load \
             was not begun; {} is the record",
            node.url(),
            only_id(&folder).unwrap_or_default(),
            folder.display()
        )))
    }

    /// Plays a run in a folder inside the load's.
    fn play(
        &self,
        plan: &Plan,
        nodes: &[Node],
        name: &str,
        display: &mut Display,
    ) -> Result<(Summary, PathBuf), RunError> {
        let folder = RunFolder::create(self.folder.path().join(name))?;
        let mut files = open_all(&folder, plan.rows)?;
        let run = Run::new(plan, nodes, self.guest.is_some(), self.shutdown);
        display.begin(RunInfo {
            brief: true,
            ..RunInfo::of(plan, Arc::clone(&run.board))
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
        if self.shutdown.is_requested() {
            return Err(RunError::Interrupted);
        }
        Ok((summary, folder.path().to_owned()))
    }

    fn say(&self, display: &mut Display, text: impl FnOnce() -> String) {
        if self.words == Words::All {
            display.message(&text());
        }
    }
}

/// The id of the transaction that is alone in a record.
fn only_id(folder: &Path) -> Option<String> {
    let mut txs = RecordedRun::open(folder).ok()?.txs().ok()?;
    let row = txs.next_row().ok()??;
    Some(row.txid.to_owned())
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
const FIRST: &str = "first";
const FIRST_OF_PREPARATION: &str = "preparation-first";
const IN_FLIGHT_PER_WEBSOCKET: u64 = 64;
