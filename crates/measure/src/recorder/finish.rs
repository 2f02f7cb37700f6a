//! The end of a run: every open fate settled, every row written, the summary drawn up.

use std::io::Write;

use pacing::Nanos;

use super::Recorder;
use crate::conservation::Conservation;
use crate::files::RecordError;
use crate::limit::{self, Pressure};
use crate::plan::Plan;
use crate::segments::SECOND;
use crate::summary::{
    Blocks, FORMAT, Knee, LateCauses, Offered, Rates, RecorderHealth, Summary, TimeSpans,
};
use crate::verdict::{self, Evidence};

/// How a run ended.
#[derive(Debug, Clone, Default)]
pub struct RunEnd {
    /// How many transactions were due until offering ended, counted by the schedule itself; `None`
    /// in a closed loop, where nothing is due.
    pub planned: Option<u64>,
    /// When offering ended.
    pub offered_until: Nanos,
    /// When the drain ended.
    pub ended: Nanos,
    /// Whether the user cut it short.
    pub interrupted: bool,
    /// The highest rate the target sustained, where the run can tell.
    pub knee: Option<Knee>,
    /// Why `knee` is what it is, or why there is none.
    pub knee_reason: String,
}

/// What is left of a recorder: the summary, and the first write error if there was one. The
/// summary is complete either way.
#[derive(Debug)]
pub struct Finished {
    /// What the run was. It is the caller's to write, see [`Summary::write_to`].
    pub summary: Summary,
    /// The first error of a writer.
    pub error: Option<RecordError>,
}

impl<W: Write, P: Plan> Recorder<W, P> {
    /// Takes over what still waits, gives every open transaction its fate, writes the rest and
    /// draws up the summary.
    pub fn finish(mut self, end: RunEnd) -> Finished {
        self.segments.cut(end.offered_until);
        self.take_blocks(Nanos::MAX);
        self.close_rest(end.ended);
        self.settle_rest();
        self.files.flush();
        self.health.incomplete_files = self.files.incomplete();
        let mut summary = self.summary(end);
        summary.steps = std::mem::take(&mut self.step_rows);
        summary.recorder = std::mem::take(&mut self.health);
        Finished {
            summary,
            error: self.files.into_error(),
        }
    }

    /// The account up to the instant that every source is past, without steps: what is under way
    /// counts neither as unanswered nor as pending yet. For conditions on a run that goes on.
    #[must_use]
    pub fn so_far(&self) -> Summary {
        let until = self.segments.offering_until(self.low);
        self.summary(RunEnd {
            planned: None,
            offered_until: until,
            ended: self.low,
            ..RunEnd::default()
        })
    }

    /// Closes what ends by `ended` and the beginning of what does not; events stamped later stretch
    /// the run, so that none is left out.
    fn close_rest(&mut self, ended: Nanos) {
        let after_latest = self.latest.saturating_add(Nanos::from_nanos(1));
        let last = ended.max(self.low).max(after_latest);
        while !self.segments.reaches(last) {
            self.segments.extend(&mut self.plan);
        }
        self.close_until(last);
        let start = self.segments.first().start;
        if start < last {
            self.segments.shorten_first(last);
            self.close_until(last);
        }
        self.close_step();
        self.close_second(last);
        self.close_interval(last);
    }

    fn settle_rest(&mut self) {
        self.health.pending_bytes_peak = self
            .health
            .pending_bytes_peak
            .max(self.pending.bytes() as u64);
        for record in self.pending.drain() {
            self.tally.settle(&record);
            self.tx_writer.write(&record, &mut self.files.txs.rows);
            self.files.relieve_txs();
        }
    }

    /// The summary without its steps and the recorder's own health.
    fn summary(&self, end: RunEnd) -> Summary {
        let offered = self.tally.offered(end.planned);
        let fate = self.tally.fate();
        let conservation = Conservation::of(&offered, &fate, self.run.own_txs);
        let late = self.late_causes();
        let blocks = self.blocks_summary(&end);
        let rate = self.rates(&end, &offered);
        let verdict = verdict::judge(&Evidence {
            model: self.config.model,
            offered: &offered,
            late,
            conservation: &conservation,
            late_events: self.health.late_events,
            missing_blocks: blocks.missing,
            failed_followers: self.health.failed_followers,
        });
        let limited_by = limit::limited_by(&Pressure {
            model: self.config.model,
            offered: &offered,
            fate: &fate,
            late,
            rate: &rate,
            blocks: self.run.blocks,
        });
        Summary {
            format: FORMAT.to_owned(),
            model: self.config.model,
            interrupted: end.interrupted,
            time: TimeSpans {
                origin_unix_ns: self.config.origin_unix_ns,
                warmup_s: self.config.warmup.as_secs_f64(),
                offered_s: end.offered_until.as_secs_f64(),
                ended_s: end.ended.as_secs_f64(),
            },
            verdict,
            offered,
            fate,
            conservation,
            rate,
            latency_ms: self.run.latencies.summary(),
            late,
            windows: self.windows.worst(),
            blocks,
            steps: Vec::new(),
            knee: end.knee,
            knee_reason: end.knee_reason,
            limited_by,
            reconnects: self.reconnects,
            recorder: RecorderHealth::default(),
        }
    }

    fn late_causes(&self) -> LateCauses {
        let late = &self.run.counts.late;
        LateCauses {
            schedule: late.schedule,
            source: late.source,
            connection: late.connection,
            node: late.node,
            generator_max_ms: self.run.generator_late_max.as_nanos() as f64 / 1e6,
        }
    }

    /// Whole seconds after the warm-up and before offering ended.
    fn steady_seconds(&self, end: &RunEnd) -> std::ops::Range<usize> {
        let second = SECOND.as_nanos();
        let first = self.config.warmup.as_nanos().div_ceil(second) as usize;
        let last = (end.offered_until.min(end.ended).as_nanos() / second) as usize;
        first..last.max(first)
    }

    fn rates(&self, end: &RunEnd, offered: &Offered) -> Rates {
        let span_s = end.offered_until.as_secs_f64();
        let over_span = |count: u64| (span_s > 0.0).then(|| count as f64 / span_s);
        let seconds = self.steady_seconds(end);
        Rates {
            planned_tps: over_span(offered.planned),
            sent_tps: over_span(offered.sent),
            accepted_tps: self.run.accepted_per_s.stats(seconds.clone()),
            committed_tps: self.run.committed_per_s.stats(seconds),
        }
    }

    fn blocks_summary(&self, end: &RunEnd) -> Blocks {
        let heights = self.blocks.heights();
        Blocks {
            count: self.run.blocks,
            first_height: heights.map(|(first, _)| first),
            last_height: heights.map(|(_, last)| last),
            missing: self.blocks.missing(),
            txs: self.run.block_txs,
            own_txs: self.run.own_txs,
            foreign_txs: self.run.block_txs - self.run.own_txs,
            bytes: self.run.block_bytes,
            per_s: self.run.blocks_per_s.stats(self.steady_seconds(end)),
        }
    }
}
