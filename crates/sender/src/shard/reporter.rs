//! What a sender reports to the recorder: batches, so that the hot path rarely touches a channel.

use crossbeam_channel::{Receiver, Sender, TrySendError};
use measure::{Answered, Reconnected, Sent, Unsent};
use pacing::Nanos;

use super::accounts::Accounts;

/// The events of one shard since its last batch. Every `Answered` has its `Sent` in the same or an
/// earlier batch.
#[derive(Debug, Default)]
pub struct ShardBatch {
    /// Which shard.
    pub shard: u16,
    /// Nothing stamped before this is still to come from this shard.
    pub watermark: Nanos,
    /// Transactions sent.
    pub sent: Vec<Sent>,
    /// Transactions answered.
    pub answered: Vec<Answered>,
    /// Transactions that were due and never sent.
    pub unsent: Vec<Unsent>,
    /// Connections opened again.
    pub reconnected: Vec<Reconnected>,
    /// Answers without a request, since the last batch.
    pub stray_answers: u64,
    /// Answers that came after `--answer-timeout`, since the last batch.
    pub late_answers: u64,
    /// How long the loop was at most behind its times, since the last batch.
    pub stall: Nanos,
    /// How long the shard waited for room on the way to the recorder, since the last batch.
    pub unrecorded: Nanos,
    /// Whether nothing falls due any more.
    pub offered_all: bool,
    /// The shard's last batch.
    pub finished: bool,
}

/// The shard's end of the way to the recorder.
#[derive(Debug)]
pub(super) struct Reporter {
    batch: ShardBatch,
    /// The order of accounts, where it matters: every end of a transaction passes here.
    accounts: Option<Accounts>,
    shard: u16,
    flush_at: Nanos,
    /// Since when it waited for the recorder.
    waited_at: Option<Nanos>,
    /// Nothing that is read from now on came before this.
    read_since: Nanos,
    full: Sender<ShardBatch>,
    empty: Receiver<ShardBatch>,
}

impl Reporter {
    pub(super) fn new(shard: u16, full: Sender<ShardBatch>, empty: Receiver<ShardBatch>) -> Self {
        Self {
            batch: ShardBatch::default(),
            accounts: None,
            shard,
            flush_at: Nanos::ZERO,
            waited_at: None,
            read_since: Nanos::ZERO,
            full,
            empty,
        }
    }

    /// Keeps the order of these accounts from now on.
    pub(super) fn keep_order(&mut self, accounts: Accounts) {
        self.accounts = Some(accounts);
    }

    /// The accounts whose order is kept.
    #[inline]
    pub(super) fn accounts(&self) -> Option<&Accounts> {
        self.accounts.as_ref()
    }

    /// A transaction was put into the buffer of its connection.
    #[inline]
    pub(super) fn queued(&mut self, index: u64) {
        if let Some(accounts) = &mut self.accounts {
            accounts.queued(index);
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, sent: Sent) {
        self.batch.sent.push(sent);
    }

    #[inline]
    pub(super) fn answered(&mut self, mut answered: Answered) {
        if let Some(accounts) = &mut self.accounts {
            answered.reply = accounts.answered(answered.index, answered.reply);
        }
        self.batch.answered.push(answered);
    }

    /// After a long stall there may be millions of these at once, so a large batch goes at once.
    pub(super) fn unsent(&mut self, unsent: Unsent) {
        if let Some(accounts) = &mut self.accounts {
            accounts.unsent(unsent.index);
        }
        self.batch.unsent.push(unsent);
        if self.batch.is_large() {
            self.flush(unsent.at);
        }
    }

    pub(super) fn reconnected(&mut self, reconnected: Reconnected) {
        self.batch.reconnected.push(reconnected);
    }

    /// An answer without a request.
    pub(super) fn stray_answer(&mut self) {
        self.batch.stray_answers += 1;
    }

    /// An answer to a request that was given up.
    pub(super) fn late_answer(&mut self) {
        self.batch.late_answers += 1;
    }

    /// The loop did something this long after it was due.
    #[inline]
    pub(super) fn stalled(&mut self, span: Nanos) {
        self.batch.stall = self.batch.stall.max(span);
    }

    /// Whether nothing falls due any more.
    pub(super) fn offered_all(&mut self, all: bool) {
        self.batch.offered_all = all;
    }

    /// Forgets what was reconnected before the origin: it belongs to no run.
    pub(super) fn forget_reconnects(&mut self) {
        self.batch.reconnected.clear();
    }

    /// Nothing that is read from now on came before this.
    pub(super) fn read_since(&mut self, at: Nanos) {
        self.read_since = at;
    }

    /// Hands the batch over when it is large or old enough.
    pub(super) fn flush_if_due(&mut self, now: Nanos) {
        if now >= self.flush_at || self.batch.is_large() {
            self.flush(now);
        }
    }

    /// When the batch must go at the latest.
    pub(super) fn flush_at(&self) -> Nanos {
        self.flush_at
    }

    /// Hands the batch over. While the recorder is behind, events stay here; only past
    /// [`OVERFLOW_EVENTS`] the shard waits, which the lateness then shows: nothing is dropped.
    fn flush(&mut self, now: Nanos) {
        self.flush_at = now.saturating_add(FLUSH_INTERVAL);
        self.stamp(now.min(self.read_since));
        let waited = self.waited_at.take().map(|at| now.saturating_sub(at));
        self.batch.unrecorded = waited.unwrap_or(self.batch.unrecorded);
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        match self.full.try_send(batch) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(batch)) => {
                if batch.events() >= OVERFLOW_EVENTS {
                    self.waited_at = Some(now);
                    // An error means that the recorder has ended: there is no reader any more.
                    let _ = self.full.send(batch);
                } else {
                    self.batch = batch;
                }
            }
        }
    }

    /// Hands the last batch over, waiting for room.
    pub(super) fn finish(mut self, now: Nanos) {
        self.stamp(now);
        self.batch.offered_all = true;
        self.batch.finished = true;
        let _ = self.full.send(self.batch);
    }

    fn stamp(&mut self, watermark: Nanos) {
        self.batch.shard = self.shard;
        self.batch.watermark = watermark;
    }
}

impl ShardBatch {
    /// Empties it for another use.
    pub fn clear(&mut self) {
        self.sent.clear();
        self.answered.clear();
        self.unsent.clear();
        self.reconnected.clear();
        self.stray_answers = 0;
        self.late_answers = 0;
        self.stall = Nanos::ZERO;
        self.unrecorded = Nanos::ZERO;
        self.offered_all = false;
        self.finished = false;
    }

    fn events(&self) -> usize {
        self.sent.len() + self.answered.len() + self.unsent.len()
    }

    fn is_large(&self) -> bool {
        self.events() >= LARGE_EVENTS
    }
}

/// Batches on their way to the recorder at most.
pub const BATCHES_IN_FLIGHT: usize = 64;
/// The recorder lags by this much at low rates; 100 messages a second cost nothing.
const FLUSH_INTERVAL: Nanos = Nanos::from_millis(10);
/// About 64 KiB a batch, so that it stays in the cache between the two threads.
const LARGE_EVENTS: usize = 1024;
/// About 8 MiB kept back before the shard waits for the recorder.
const OVERFLOW_EVENTS: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn a_shard_says_once_how_long_it_waited_for_the_recorder() {
        let (full, recorder) = bounded(3);
        let (_, empty) = bounded(1);
        let mut reporter = Reporter::new(0, full, empty);
        reporter.flush(Nanos::from_secs(1));
        reporter.waited_at = Some(Nanos::from_secs(1));
        reporter.flush(Nanos::from_secs(6));
        reporter.finish(Nanos::from_secs(7));
        let waited = recorder.iter().map(|batch| batch.unrecorded.as_millis());
        assert!(waited.eq([0, 5_000, 0]));
    }
}
