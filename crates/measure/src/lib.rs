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

pub use self::format::code::{Code, Codespace, MEMPOOL, code_title};
pub use self::format::counts::{CommittedAnyway, Counts, Displaced, Late};
pub use self::format::document::FORMAT;
pub use self::format::event::{
    Answered, BlockSeen, BlockTx, Cause, Failure, LATE_LIMIT, MempoolSample, ReconnectReason,
    Reconnected, Reply, Sent, SourceId, TxHash, UNKNOWN_CODE, Unsent, UnsentReason, hash_prefix,
};
pub use self::format::evidence::{
    Evidence, EvidenceKind, LateOrUnsent, LimitedBy, MeshEvidence, Stage, StageEvidence, StepTerms,
    Strength,
};
pub use self::format::fate::{Cohort, Conservation, Fate, Law, Offered};
pub use self::format::latency::{
    BUCKET_BOUNDS_S, Buckets, HIGHEST, Latencies, Latency, LatencyBuckets, LatencyFigure,
    LatencyKind, LatencySet, Quantiles, SIGNIFICANT_DIGITS,
};
pub use self::format::manifest::{ClockBound, EndpointInfo, Host, LoadField, Manifest, NodeLimits};
pub use self::format::plan_document::{
    ClockOffset, FleetClock, LostPart, MergedPart, PlanDocument, ShardName,
};
pub use self::format::read;
pub use self::format::rows::{
    BlockRow, IdText, KeptRows, KeptRowsError, LatencyColumns, NodeRow, SeriesRow, SightRow,
    StepRow, write_row,
};
pub use self::format::summary::{
    Bar, Blocks, Knee, LateCauses, LoadModel, Machine, Rates, Reconnects, RecorderHealth,
    ScheduleVerdict, Summary, TimeSpans, Verdict,
};
pub use self::format::windows::{RATIO_MIN_PLANNED, RateStats, Window, WorstOf, WorstWindows};
pub use self::judge::HeaderClock;
pub use self::record::answers::{AnswerKind, AnswerRow, Answers};
pub use self::record::files::{RecordError, RunFolderWriters};
pub use self::record::merge::{
    MergeError, MergePart, check_shards, merge, merged_manifest, note_clocks, part_words, rebuild,
};
pub use self::record::recorder::watch::{Counters, LiveView};
pub use self::record::recorder::{
    Finished, MAX_FRESH_SECONDS, MAX_MARK_CHARS, MAX_MARKS, Recorder, RecorderConfig, RunEnd,
};
pub use self::record::refusals::RefusalTexts;
pub use self::record::segments::{ClosedLoop, Plan, SchedulePlan};
pub use self::stats::breakpoint::{Breakpoint, BreakpointFound, breakpoint};
pub use self::stats::compare::{
    Block, Change, CompareTerms, ComparisonVerdict, Difference, Doubts, Figure, Gate,
    LoadDifference, Metric, OtherMetric, Quantile, RunFigures, RunsNeeded, Uncertainty, compare,
    compare_turns, gated,
};
pub use self::stats::elasticity::{Effect, Elasticity};
pub use self::stats::knee::{
    BacklogGrowth, BlockMark, Drift, Ending, Fall, Finding, KneeEstimate, KneeSearch, KneeSettings,
    Next, Rationale, SearchTime, TimedSearch, Took, Trial, backlog_growth,
};
pub use self::stats::line::{Estimate, Line, LineFit};
pub use self::stats::nodes::{
    Attribution, Forks, Load, Propagation, Skew, admitted, propagations, skews,
};
pub use self::stats::similarity::{Alike, Committed, Ends, Known, alike, known};
