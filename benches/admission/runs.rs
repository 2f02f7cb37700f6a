//! How a run of payments is admitted, or only checked.

use std::thread;
use std::time::{Duration, Instant};

use admission::{
    Counters, FastFilter, Filter, KeyBits, Layout, Pipeline, Secret, Serial, Settings,
};
use rustix::time::{ClockId, clock_gettime};

use crate::coins::{Ledger, Witness as _};
use crate::payments::{Payment, Signatures, Wakes};

/// What one run counted, with the times from submission to verdict in the order of the payments.
pub(crate) struct Ran {
    pub(crate) took: Duration,
    /// Processor time of all threads.
    pub(crate) processor: Duration,
    pub(crate) counters: Counters,
    pub(crate) waits: Vec<Duration>,
}

/// How payments are treated.
pub(crate) type Run = Box<dyn Fn(Vec<Payment>) -> Ran>;

/// The longest time between commits.
pub(crate) const EPOCH: Duration = Duration::from_millis(500);

pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn fast(layout: Layout) -> FastFilter {
    FastFilter::new(layout).expect("the layout is legal")
}

pub(crate) fn secret(positions: usize) -> FastFilter {
    let secret = Secret::from_seed(7);
    fast(Layout::Secret { positions, secret })
}

pub(crate) fn settings(validators: usize, epoch: Duration) -> Settings {
    Settings {
        validators,
        epoch,
        ..Settings::default()
    }
}

/// The instant and the processor time at which a run began.
struct Began(Instant, Duration);

impl Began {
    fn now() -> Self {
        Self(Instant::now(), processor_time())
    }

    fn ran(self, counters: Counters, waits: Vec<Duration>) -> Ran {
        let Self(at, used) = self;
        Ran {
            took: at.elapsed(),
            processor: processor_time().saturating_sub(used),
            counters,
            waits,
        }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Admission by validators with a filter.
pub(crate) fn parallel<F: Filter<KeyBits> + 'static>(
    txs: Vec<Payment>,
    filter: F,
    settings: Settings,
    wakes: Wakes,
) -> Ran {
    let (payments, verdicts) = Signatures::new(txs.len(), wakes);
    let pipeline = Pipeline::start(payments, Ledger::genesis(), filter, settings);
    let began = Began::now();
    for mut tx in txs {
        tx.proof.submitted = Instant::now();
        pipeline.submit(tx).expect("all fit");
    }
    let waits = verdicts.wait();
    began.ran(pipeline.counters(), waits)
}

/// Admission by so many validators with the filter that the built-in node has.
pub(crate) fn validators(validators: usize, epoch: Duration, wakes: Wakes) -> Run {
    Box::new(move |txs| parallel(txs, secret(16), settings(validators, epoch), wakes))
}

/// Admission under one lock, on a thread of its own.
pub(crate) fn serial(wakes: Wakes) -> Run {
    Box::new(move |txs| {
        let (payments, verdicts) = Signatures::new(txs.len(), wakes);
        let serial = Serial::new(payments, Ledger::genesis());
        let began = Began::now();
        let waits = thread::scope(|scope| {
            scope.spawn(|| {
                let submitted = Instant::now();
                for mut tx in txs {
                    tx.proof.submitted = submitted;
                    serial.submit(tx);
                }
            });
            verdicts.wait()
        });
        began.ran(serial.counters(), waits)
    })
}

/// The signatures alone, divided among threads before they begin: no queue, no filter, no ledger. What
/// admission gains by as many validators is at most what this gains.
pub(crate) fn checks(threads: usize) -> Run {
    Box::new(move |txs| {
        let (payments, verdicts) = Signatures::new(0, Wakes::AtTheEnd);
        let began = Began::now();
        thread::scope(|scope| {
            for share in txs.chunks(txs.len().div_ceil(threads)) {
                scope.spawn(|| assert!(share.iter().all(|tx| payments.0.proves(tx))));
            }
        });
        drop(verdicts);
        began.ran(Counters::default(), Vec::new())
    })
}
