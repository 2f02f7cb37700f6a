//! What is joined, and why it cannot be; the figures of one part, whether it wrote its summary, was killed or was lost.

use crate::format::event::UnsentReason;
use crate::format::fate::{Fate, Offered};
use crate::format::latency::Latencies;
use crate::format::manifest::Manifest;
use crate::format::read::{HlogReader, ReadError, RowReader, TxReader};
use crate::format::rows::{BlockRow, SeriesRow, StepRow};
use crate::format::summary::{
    Bar, LateCauses, LoadModel, Reconnects, RecorderHealth, ScheduleVerdict, Summary, TimeSpans,
};
use crate::record::answers::AnswerRow;
use crate::record::files::RecordError;

/// The files of one generator.
pub struct MergePart<R> {
    /// `manifest.json`.
    pub manifest: Manifest,
    /// `summary.json`; `None` of a run that was killed.
    pub summary: Option<Summary>,
    /// `series.csv`.
    pub series: RowReader<R, SeriesRow>,
    /// `steps.csv`.
    pub steps: RowReader<R, StepRow>,
    /// `blocks.csv`.
    pub blocks: RowReader<R, BlockRow>,
    /// `latency.hlog`.
    pub hlog: HlogReader<R>,
    /// `txs.csv`; `None` where no rows are kept.
    pub txs: Option<TxReader<R>>,
    /// `answers.csv`, which is needed where not all rows are kept.
    pub answers: Vec<AnswerRow>,
}

/// Why folders cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// They are not all the parts of one load: why not.
    #[error("{0}")]
    Parts(String),
    /// A file cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// The folder.
        name: String,
        /// What is wrong.
        #[source]
        source: ReadError,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] RecordError),
}

/// An error of the part with this position.
pub(super) type PartError = (usize, ReadError);

/// The figures of a part that its rows of seconds, blocks and steps do not have.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) model: LoadModel,
    pub(super) interrupted: bool,
    pub(super) time: TimeSpans,
    pub(super) offered: Offered,
    pub(super) fate: Fate,
    pub(super) late: LateCauses,
    /// Exact counts, maxima and means, where they are known.
    pub(super) latency_ms: Option<Latencies>,
    pub(super) reconnects: Reconnects,
    pub(super) recorder: RecorderHealth,
    pub(super) verdict: ScheduleVerdict,
    /// What an invalid part says nothing about; a lost one, and one of an earlier version, do not say.
    pub(super) bars: Vec<Bar>,
}

impl Figures {
    /// Whether it leaves unknown what it did, which the sums of all parts would hide. How much of the whole was another
    /// load, was not seen or was refused is judged of those sums, as of one generator.
    pub(super) fn bars_account(&self) -> bool {
        let is_invalid = self.verdict == ScheduleVerdict::Invalid;
        is_invalid && (self.bars.is_empty() || self.bars.contains(&Bar::Account))
    }

    /// Those of a part of the same load whose generator was lost, all of it unsent.
    pub(super) fn lost(&self, planned: u64) -> Self {
        let mut by_reason = [0; UnsentReason::ALL.len()];
        let reasons = UnsentReason::ALL
            .iter()
            .position(|reason| *reason == UnsentReason::GeneratorLost);
        if let Some(place) = reasons {
            by_reason[place] = planned;
        }
        Self {
            model: self.model,
            interrupted: false,
            time: self.time,
            offered: Offered::new(Some(planned), 0, by_reason, 0),
            fate: Fate::default(),
            late: LateCauses::default(),
            latency_ms: Some(Latencies::default()),
            reconnects: Reconnects::default(),
            recorder: RecorderHealth::default(),
            verdict: ScheduleVerdict::Invalid,
            bars: Vec::new(),
        }
    }
}

impl From<&Summary> for Figures {
    fn from(summary: &Summary) -> Self {
        Self {
            model: summary.model,
            interrupted: summary.interrupted,
            time: summary.time,
            offered: summary.offered.clone(),
            fate: summary.fate.clone(),
            late: summary.late,
            latency_ms: Some(summary.latency_ms.clone()),
            reconnects: summary.reconnects,
            recorder: summary.recorder.clone(),
            verdict: summary.verdict.schedule,
            bars: summary.verdict.bars.clone(),
        }
    }
}
