//! The account of a load run: what became of every transaction, how long it took, whether the
//! schedule was kept, and the files that say so.
//!
//! What it is not: it opens no file, reads no clock, runs no thread and knows no wire format of a
//! node. Events come in with their stamps, rows go out through [`std::io::Write`].
//!
//! Read first: [`Recorder`] (takes every event, owns every count), [`Sent`] (where a transaction's
//! account begins; the other events are beside it) and [`Summary`] (what a run was, in one object).
//! `docs/run-folder.md` describes the files.

mod blocks;
mod buckets;
mod compare;
mod conservation;
mod event;
mod files;
mod hlog;
mod knee;
mod latency;
mod limit;
mod live;
mod manifest;
mod merge;
mod pending;
mod plan;
mod rates;
pub mod read;
mod rebuild;
mod recorder;
mod rows;
mod segments;
mod span;
mod summary;
mod tally;
mod verdict;
mod watermarks;
mod windows;

pub use buckets::{BUCKET_BOUNDS_S, Buckets, LatencyBuckets};
pub use compare::{Change, Difference, Drawn, Meaning, Metric, Quantile, RunCourse, compare};
pub use conservation::{Conservation, Law};
pub use event::{
    Answered, BlockSeen, BlockTx, Cause, Failure, LATE_LIMIT, MempoolSample, ReconnectReason,
    Reconnected, Reply, Sent, SourceId, TxHash, Unsent, UnsentReason, hash_prefix,
};
pub use files::{RecordError, RunFolderWriters};
pub use knee::{
    BacklogGrowth, Because, BlockMark, Ending, Finding, KneeEstimate, KneeSearch, KneeSettings,
    Next, Trial, backlog_growth,
};
pub use latency::{HIGHEST, Latency, LatencyKind, LatencySet, Quantiles, SIGNIFICANT_DIGITS};
pub use live::{Counters, LiveView, Totals};
pub use manifest::{EndpointInfo, Host, Manifest};
pub use merge::{MergeError, MergePart, PartName, merge, merged_manifest};
pub use plan::{ClosedLoop, Plan, SchedulePlan};
pub use rates::RateStats;
pub use rebuild::Remains;
pub use recorder::{
    Finished, MAX_FRESH_SECONDS, MAX_MARK_CHARS, MAX_MARKS, Recorder, RecorderConfig, RunEnd,
};
pub use rows::{BlockRow, IdText, SeriesRow, StepRow};
pub use summary::{
    Blocks, CommittedAnyway, FORMAT, Fate, Knee, LateCauses, Latencies, LimitedBy, LoadModel,
    Offered, Rates, Reconnects, RecorderHealth, Summary, TimeSpans,
};
pub use verdict::{
    LATE_SHARE_DEGRADED, LATE_SHARE_INVALID, STALL_DEGRADED_MS, ScheduleVerdict,
    UNSENT_SHARE_INVALID, Verdict,
};
pub use windows::{RATIO_MIN_PLANNED, Window, WorstOf, WorstWindows};
