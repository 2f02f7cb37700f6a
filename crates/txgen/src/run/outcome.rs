//! What a run came to.

use std::path::PathBuf;

use measure::Summary;
use measure::read::TxFate;

use crate::exit;
use crate::folder::RecordedRun;
use crate::threshold::ThresholdVerdict;

/// The account of a run, its folder and the conditions.
#[derive(Debug)]
pub struct Outcome {
    /// The whole account.
    pub summary: Summary,
    /// The plan's conditions.
    pub thresholds: Vec<ThresholdVerdict>,
    /// The condition that ended the run early.
    pub stopped_by: Option<ThresholdVerdict>,
    /// The run folder.
    pub folder: PathBuf,
}

impl Outcome {
    /// The ids of accepted transactions that no block has shown, some of them. None where the record
    /// cannot be read.
    pub(crate) fn uncommitted(&self) -> Vec<String> {
        let mut ids = Vec::new();
        if self.summary.fate.pending == 0 {
            return ids;
        }
        let Ok(mut txs) = RecordedRun::open(&self.folder).and_then(|run| run.txs()) else {
            return ids;
        };
        while let Ok(Some(tx)) = txs.next_row()
            && ids.len() < MOST_UNCOMMITTED
        {
            if tx.fate() == TxFate::Pending {
                ids.push(tx.txid.to_owned());
            }
        }
        ids
    }

    /// The process's exit code: an interruption beats an invalid schedule, which beats a threshold.
    pub fn exit_code(&self) -> u8 {
        match exit::of_run(&self.summary, &self.thresholds) {
            exit::DONE if self.stopped_by.is_some() => exit::THRESHOLD,
            code => code,
        }
    }
}

/// Enough to see whether a node still works on what it took.
const MOST_UNCOMMITTED: usize = 64;
