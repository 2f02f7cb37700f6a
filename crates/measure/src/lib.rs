//! The account of a load run: what became of every transaction, how long it took, whether the
//! schedule was kept, and the files of the run folder.
//!
//! What it is not: it opens no file, reads no clock, runs no thread and knows no wire format of a
//! node. Events come in with their stamps, rows go out through [`std::io::Write`].
//!
//! Read first: [`Recorder`] (takes every event, owns every count), [`Sent`] (where a transaction's
//! account begins; the other events are beside it) and [`Summary`] (what a run was, in one object).
//! `docs/run-folder.md` describes the files.

mod account;
mod answers;
mod bend;
mod blocks;
mod buckets;
mod code;
mod cohort;
mod compare;
mod conservation;
mod counts;
mod endpoints;
mod event;
mod evidence;
mod fate;
mod files;
mod format;
mod header_clock;
mod hlog;
pub mod judge;
mod knee;
mod latency;
pub mod limits;
mod line;
mod live;
mod manifest;
mod merge;
mod nodes;
mod pending;
mod plan;
mod rates;
pub mod read;
mod rebuild;
mod recorder;
mod refusals;
mod resample;
mod rows;
mod segments;
mod signs;
mod silence;
mod span;
mod stages;
mod student;
mod summary;
mod tally;
mod waiting;
mod watermarks;
mod windows;

pub use answers::{AnswerKind, AnswerRow, Answers};
pub use bend::{Bend, BendFound, bend};
pub use buckets::{BUCKET_BOUNDS_S, Buckets, LatencyBuckets};
pub use code::{Code, Codespace, code_title};
pub use cohort::Cohort;
pub use compare::{
    Change, CompareTerms, Difference, Figure, Ignorance, MANY_RUNS, Meaning, Metric, Quantile,
    RunFigures, ValueDifference, Values, compare, compare_values,
};
pub use conservation::{Conservation, Law};
pub use counts::{CommittedAnyway, Counts, Late};
pub use event::{
    AcceptanceSeen, Answered, BlockSeen, BlockTx, Cause, Failure, LATE_LIMIT, MempoolSample,
    ReconnectReason, Reconnected, Reply, Sent, SourceId, TxHash, UNKNOWN_CODE, Unsent,
    UnsentReason, hash_prefix,
};
pub use evidence::{Evidence, EvidenceKind, LimitedBy, Strength};
pub use fate::{Fate, Offered};
pub use files::{RecordError, RunFolderWriters};
pub use format::FORMAT;
pub use header_clock::HeaderClock;
pub use knee::{
    BacklogGrowth, Because, BlockMark, Ending, Finding, KneeEstimate, KneeSearch, KneeSettings,
    Next, Trial, backlog_growth,
};
pub use latency::{
    HIGHEST, Latencies, Latency, LatencyFigure, LatencyKind, LatencySet, Quantiles,
    SIGNIFICANT_DIGITS,
};
pub use line::{Estimate, Line, LineFit};
pub use live::{Counters, LiveView};
pub use manifest::{ClockBound, EndpointInfo, Host, Manifest, NodeLimits};
pub use merge::{
    ClockOffset, MergeError, MergePart, PartName, clock_words, merge, merged_manifest, note_clocks,
};
pub use nodes::{Attribution, Load, Propagation, Skew, admitted, propagations, skews};
pub use plan::{ClosedLoop, LoadModel, Plan, SchedulePlan};
pub use rates::RateStats;
pub use rebuild::KilledRun;
pub use recorder::{
    Finished, MAX_FRESH_SECONDS, MAX_MARK_CHARS, MAX_MARKS, Recorder, RecorderConfig, RunEnd,
};
pub use refusals::RefusalTexts;
pub use rows::{
    BlockRow, IdText, KeptRows, KeptRowsError, LatencyColumns, NodeRow, SeriesRow, SightRow,
    StepRow, write_row,
};
pub use summary::{
    Blocks, Knee, LateCauses, Rates, Reconnects, RecorderHealth, ScheduleVerdict, Summary,
    TimeSpans, Verdict,
};
pub use windows::{RATIO_MIN_PLANNED, Window, WorstOf, WorstWindows};
