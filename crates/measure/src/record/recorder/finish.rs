//! The end of a run: every open fate settled, every row written, the summary drawn up.

use std::io::Write;

use pacing::Nanos;

use super::{Recorder, RecorderConfig};
use crate::format::latency::LatencySet;
use crate::format::rows::StepRow;
use crate::format::summary::{LateCauses, RecorderHealth, Summary, TimeSpans};
use crate::judge::JudgeContext;
use crate::record::account::Account;
use crate::record::files::RecordError;
use crate::record::plan::Plan;

/// How a run ended.
#[derive(Debug, Clone, Copy, Default)]
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

/// A follower that reads each block as it comes is never so far behind: an answer that takes as long is a stall.
const FOLLOWS_WITHIN: Nanos = Nanos::from_secs(2);

impl<W: Write, P: Plan> Recorder<W, P> {
    /// Takes over what still waits, gives every open transaction its fate, writes the rest and
    /// draws up the summary.
    pub fn finish(mut self, end: RunEnd) -> Finished {
        self.segments.cut(end.offered_until);
        self.take_blocks(Nanos::MAX);
        self.close_rest(end.ended);
        self.settle_rest(end.ended);
        self.hlog
            .write_censored(&self.run.censored, end.ended, &mut self.files.hlog.rows);
        self.files.flush();
        self.health.incomplete_files = self.files.incomplete();
        let steps = std::mem::take(&mut self.step_rows);
        Finished {
            summary: self.summary(end, steps, self.health.clone(), &self.run.censored),
            error: self.files.into_error(),
        }
    }

    /// The account up to the instant that every source is past, without steps: what is under way
    /// counts neither as unanswered nor as pending yet, but its age counts as censored. For conditions
    /// on a run that goes on.
    pub fn so_far(&self) -> Summary {
        let until = self.segments.offering_until(self.low);
        let end = RunEnd {
            planned: None,
            offered_until: until,
            ended: self.low,
            interrupted: false,
        };
        let mut censored = self.run.censored.clone();
        let followed = !self.is_unfollowed();
        let closed_until = self.segments.first().start;
        self.waiting.add_to(&mut censored, closed_until, followed);
        self.summary(end, Vec::new(), self.health.clone(), &censored)
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
        self.write_steps(last);
        self.close_second(last);
        self.close_interval(last);
    }

    fn settle_rest(&mut self, ended: Nanos) {
        let RecorderConfig {
            senders, followers, ..
        } = self.config;
        let blocks_until = self.watermarks.reached(senders..senders + followers);
        let answers_until = self.watermarks.reached(0..senders);
        // A follower stops where a block was announced that it has not read.
        let unread = self.last_sign.saturating_sub(blocks_until);
        if followers > 0 && unread > FOLLOWS_WITHIN {
            self.health.unread_ms = unread.as_millis();
        }
        let [answers_until, blocks_until] = [answers_until, blocks_until].map(|at| at.min(ended));
        self.health.pending_bytes_peak = self
            .health
            .pending_bytes_peak
            .max(self.pending.bytes() as u64);
        for record in self.pending.drain() {
            self.censor_open(&record, answers_until, blocks_until);
            self.enter(&record);
        }
        self.files.write_answers(&self.answers);
    }

    fn summary(
        &self,
        end: RunEnd,
        steps: Vec<StepRow>,
        recorder: RecorderHealth,
        censored: &LatencySet,
    ) -> Summary {
        let account = Account {
            model: self.config.model,
            interrupted: end.interrupted,
            followed: self.config.followers > 0,
            context: JudgeContext {
                checked: self.config.checked,
                waits_at: self.config.waits_at,
                strict: self.config.strict,
            },
            time: TimeSpans {
                origin_unix_ns: self.config.origin_unix_ns,
                warmup_s: self.config.warmup.as_secs_f64(),
                offered_s: end.offered_until.as_secs_f64(),
                ended_s: end.ended.as_secs_f64(),
            },
            offered: self
                .tally
                .offered(end.planned, self.run.sent_while_offering),
            fate: self.tally.fate(),
            late: LateCauses {
                causes: self.run.late,
                displaced: self.run.displaced,
                generator_max_ms: self.run.generator_late_max.as_millis_f64(),
            },
            latency_ms: self.run.latencies.summary(censored),
            seconds: &self.run.seconds,
            blocks: self.run.blocks,
            steady_blocks: self.run.steady_blocks,
            windows: self.windows.worst(),
            steps,
            reconnects: self.reconnects,
            recorder,
        };
        account.summary()
    }
}
