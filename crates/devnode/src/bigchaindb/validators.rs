//! The threads that read transactions and check their signatures.
//!
//! Each takes as many as wait for it, up to a bound, and checks their signatures together, which
//! costs about half of checking them one by one. Alone, as in serial validation, the one thread
//! takes them one by one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bigchain::{Effect, Error, SignatureBatch, Transaction};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};
use thiserror::Error;
use tokio::sync::oneshot;

use super::state::CommittedState;

/// Most transactions whose signatures are checked together: past it the saving hardly grows, and
/// the first one waits for the last.
const BATCH: usize = 32;

/// Stack of a thread. Bodies are read recursively, 512 levels deep at most.
const STACK_BYTES: usize = 4 << 20;

/// What is returned of a transaction that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// What it does to the ledger.
    Effect,
    /// That, and its text as the original hands it to Tendermint.
    EffectAndText,
}

/// A transaction that passed all checks.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) effect: Arc<Effect>,
    /// Its text in the original's form; empty unless it was requested.
    pub(super) text: Bytes,
}

/// Why a transaction did not pass.
#[derive(Debug, Error)]
pub(super) enum Rejection {
    /// It is refused, or is no JSON.
    #[error(transparent)]
    Refused(#[from] Error),
    /// It was not checked: the node stops, or the thread that checked it failed.
    #[error("the check was abandoned")]
    Abandoned,
}

#[derive(Debug)]
struct Job {
    text: Bytes,
    needed: Needed,
    verdict: oneshot::Sender<Result<Checked, Error>>,
}

/// The jobs that wait. Each is part of a check of `Node::finish`, which bounds them.
#[derive(Debug, Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

/// The threads.
#[derive(Debug)]
pub(super) struct Validators {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Validators {
    /// Starts so many threads; a system that gives fewer gets by with what there is.
    pub(super) fn start(workers: usize, state: &Arc<RwLock<CommittedState>>) -> Self {
        let queue = Arc::new(Queue::default());
        let batch = if workers > 1 { BATCH } else { 1 };
        let threads = (0..workers)
            .filter_map(|number| {
                let worker = Worker {
                    queue: Arc::clone(&queue),
                    state: Arc::clone(state),
                    batch,
                    workers,
                };
                thread::Builder::new()
                    .name(format!("validator-{number}"))
                    .stack_size(STACK_BYTES)
                    .spawn(move || worker.run())
                    .inspect_err(|error| tracing::warn!(%error, "a validator did not start"))
                    .ok()
            })
            .collect();
        Self {
            queue,
            threads: Mutex::new(threads),
        }
    }

    /// Checks a transaction against what is committed.
    ///
    /// # Errors
    /// Why it does not pass.
    pub(super) async fn check(&self, text: Bytes, needed: Needed) -> Result<Checked, Rejection> {
        let (verdict, answer) = oneshot::channel();
        self.queue.push(Job {
            text,
            needed,
            verdict,
        });
        let verdict = answer.await.map_err(|_| Rejection::Abandoned)?;
        Ok(verdict?)
    }

    /// Ends the threads when they have done what they were at, and waits for them.
    pub(super) fn stop(&self) {
        self.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A panic was logged when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Validators {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Queue {
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        // Dropping a job answers its client with `Rejection::Abandoned`.
        if jobs.closed {
            return;
        }
        jobs.waiting.push_back(job);
        let idle = jobs.idle > 0;
        drop(jobs);
        if idle {
            self.changed.notify_one();
        }
    }

    /// Waits for jobs and takes a fair share of them, at most `most`; nothing once closed.
    fn take(&self, most: usize, workers: usize) -> Vec<Job> {
        let mut jobs = self.jobs.lock();
        while jobs.waiting.is_empty() && !jobs.closed {
            jobs.idle += 1;
            self.changed.wait(&mut jobs);
            jobs.idle -= 1;
        }
        if jobs.closed {
            jobs.waiting.clear();
        }
        let share = jobs.waiting.len().div_ceil(workers).min(most);
        jobs.waiting.drain(..share).collect()
    }

    fn close(&self) {
        self.jobs.lock().closed = true;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Worker {
    queue: Arc<Queue>,
    state: Arc<RwLock<CommittedState>>,
    batch: usize,
    workers: usize,
}

/// A transaction that passed everything but the check of its signatures.
#[derive(Debug)]
struct Pending {
    job: Job,
    checked: Checked,
}

impl Worker {
    fn run(&self) {
        loop {
            let jobs = self.queue.take(self.batch, self.workers);
            if jobs.is_empty() {
                return;
            }
            // A panic is a mistake in this program. It has been printed; the thread lives on, since
            // without it clients would wait for ever.
            if catch_unwind(AssertUnwindSafe(|| self.check(jobs))).is_err() {
                tracing::error!("transactions could not be checked because the check panicked");
            }
        }
    }

    fn check(&self, jobs: Vec<Job>) {
        let mut signatures = SignatureBatch::new();
        let mut pending = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.read(&job, &mut signatures) {
                Ok(checked) => pending.push(Pending { job, checked }),
                Err(error) => job.answer(Err(error)),
            }
        }
        for (Pending { job, checked }, verdict) in pending.into_iter().zip(signatures.verify()) {
            job.answer(verdict.map(|()| checked).map_err(Error::Refused));
        }
    }

    /// All checks but that of the signatures, which join the batch.
    fn read(&self, job: &Job, signatures: &mut SignatureBatch) -> Result<Checked, Error> {
        let transaction = Transaction::from_text(&job.text)?;
        let effect = transaction.effect();
        let conditions = {
            let state = self.state.read();
            effect.check(&*state)?
        };
        signatures.push(&transaction, &conditions);
        let text = match job.needed {
            Needed::Effect => Bytes::new(),
            Needed::EffectAndText => Bytes::from(transaction.text()),
        };
        Ok(Checked {
            effect: Arc::new(effect),
            text,
        })
    }
}

impl Job {
    fn answer(self, verdict: Result<Checked, Error>) {
        // The client may have closed its connection.
        let _ = self.verdict.send(verdict);
    }
}
