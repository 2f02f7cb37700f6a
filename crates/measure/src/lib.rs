//! The account of a load run: what became of every transaction, how long it took, whether the
//! schedule was kept, and the files of the run folder.
//!
//! What it is not: it opens no file, reads no clock, runs no thread and knows no wire format of a
//! node. Events come in with their stamps, rows go out through [`std::io::Write`].
//!
//! Four modules, in one direction: `format` (what is written), `stats` (estimates from figures), [`judge`]
//! (conclusions), `record` (from events or rows to rows and a summary).
//!
//! Read first: [`Recorder`] (takes every event, owns every count), [`Sent`] (where a transaction's
//! account begins; the other events are beside it) and [`Summary`] (what a run was, in one object).
//! `docs/run-folder.md` describes the files.

mod format;
pub mod judge;
pub mod limits;
mod record;
mod stats;

pub use format::buckets::{BUCKET_BOUNDS_S, Buckets, LatencyBuckets};
pub use format::code::{Code, Codespace, MEMPOOL, code_title};
pub use format::cohort::Cohort;
pub use format::counts::{CommittedAnyway, Counts, Displaced, Late};
pub use format::document::FORMAT;
pub use format::event::{
    Answered, BlockSeen, BlockTx, Cause, Failure, LATE_LIMIT, MempoolSample, ReconnectReason,
    Reconnected, Reply, Sent, SourceId, TxHash, UNKNOWN_CODE, Unsent, UnsentReason, hash_prefix,
};
pub use format::evidence::{
    Evidence, EvidenceKind, LateOrUnsent, LimitedBy, MeshEvidence, Stage, StageEvidence, StepTerms,
    Strength,
};
pub use format::fate::{Conservation, Fate, Law, Offered};
pub use format::latency::{
    HIGHEST, Latencies, Latency, LatencyFigure, LatencyKind, LatencySet, Quantiles,
    SIGNIFICANT_DIGITS,
};
pub use format::manifest::{ClockBound, EndpointInfo, Host, LoadField, Manifest, NodeLimits};
pub use format::plan_document::{
    ClockOffset, FleetClock, LostPart, MergedPart, PlanDocument, ShardName,
};
pub use format::read;
pub use format::rows::{
    BlockRow, IdText, KeptRows, KeptRowsError, LatencyColumns, NodeRow, SeriesRow, SightRow,
    StepRow, write_row,
};
pub use format::summary::{
    Bar, Blocks, Knee, LateCauses, LoadModel, Machine, Rates, Reconnects, RecorderHealth,
    ScheduleVerdict, Summary, TimeSpans, Verdict,
};
pub use format::windows::{RATIO_MIN_PLANNED, RateStats, Window, WorstOf, WorstWindows};
pub use judge::HeaderClock;
pub use record::answers::{AnswerKind, AnswerRow, Answers};
pub use record::files::{RecordError, RunFolderWriters};
pub use record::merge::{
    MergeError, MergePart, check_shards, merge, merged_manifest, note_clocks, part_words, rebuild,
};
pub use record::recorder::watch::{Counters, LiveView};
pub use record::recorder::{
    Finished, MAX_FRESH_SECONDS, MAX_MARK_CHARS, MAX_MARKS, Recorder, RecorderConfig, RunEnd,
};
pub use record::refusals::RefusalTexts;
pub use record::segments::{ClosedLoop, Plan, SchedulePlan};
pub use stats::breakpoint::{Breakpoint, BreakpointFound, breakpoint};
pub use stats::compare::{
    Block, Change, CompareTerms, ComparisonVerdict, Difference, Doubts, Figure, Gate,
    LoadDifference, Metric, OtherMetric, Quantile, RunFigures, RunsNeeded, Uncertainty, compare,
    compare_turns, gated,
};
pub use stats::elasticity::{Effect, Elasticity};
pub use stats::knee::{
    BacklogGrowth, BlockMark, Drift, Ending, Finding, KneeEstimate, KneeSearch, KneeSettings, Next,
    Rationale, SearchTime, TimedSearch, Took, Trial, backlog_growth,
};
pub use stats::line::{Estimate, Line, LineFit};
pub use stats::nodes::{
    Attribution, Forks, Load, Propagation, Skew, admitted, propagations, skews,
};
pub use stats::similarity::{Alike, Committed, Ends, Known, alike, known};
