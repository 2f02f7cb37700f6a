//! A steady load of several epochs: what conflicts cost those who have none, and what readers cost those who write.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use admission::{Filter, KeyBits, Pipeline};

use crate::coins::Ledger;
use crate::payments::{Payment, Scheme, Signatures, Wakes, some_payments};
use crate::runs::{EPOCH, cores, secret, serial, settings};

/// Transactions of a load at most.
const STEADY: u32 = 40_000;
/// How long an open load lasts: five epochs and a little.
const EPOCHS: f64 = 5.2;
/// Of the rate of one lock, which two validators are well above.
const SHARE: f64 = 0.6;
const CONFLICTS: [u32; 5] = [0, 1, 10, 25, 50];
const ROUNDS: usize = 5;
const READERS: u32 = 4;
/// Between two reads of one reader: a client's round trip.
const READ_EVERY: Duration = Duration::from_millis(1);

/// What the readers of a run read.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// The pipeline's view.
    Pipeline,
    /// The same of a view of their own: what their threads cost by themselves.
    OwnView,
}

/// Prints both tables.
pub(crate) fn print() {
    conflicts();
    readers();
}

fn conflicts() {
    let loads = CONFLICTS.map(|share| some_payments(STEADY, Scheme::Ecdsa, share, 1));
    let some = loads[0][..4_000].to_vec();
    let rate = SHARE * some.len() as f64 / serial(Wakes::AtTheEnd)(some).took.as_secs_f64();
    let count = (rate * EPOCHS * EPOCH.as_secs_f64()) as usize;
    let loads = loads.map(|load| load[..count.min(load.len())].to_vec());
    let epochs = loads[0].len() as f64 / rate / EPOCH.as_secs_f64();
    println!(
        "\n{:46} {:>12} {:>21}",
        format!("open load of {rate:.0}/s, {epochs:.1} epochs, {ROUNDS} rounds"),
        "p99 ms",
        "ratio (least, most)"
    );
    let rounds: Vec<Vec<f64>> = (0..ROUNDS)
        .map(|_| loads.iter().map(|load| honest_p99(load, rate)).collect())
        .collect();
    for (at, share) in CONFLICTS.iter().enumerate() {
        let p99s = rounds.iter().map(|round| 1e3 * round[at]);
        let ratios = rounds.iter().map(|round| round[at] / round[0]);
        let (least, ratio, most) = spread(ratios);
        println!(
            "{:46} {:12.2} {:>21}",
            format!("those without conflict, beside {share} %"),
            spread(p99s).1,
            format!("{ratio:.2} ({least:.2}, {most:.2})")
        );
    }
}

/// The 99th percentile of the waits, from when they were due, of those that spend what nobody else does.
fn honest_p99(load: &[Payment], rate: f64) -> f64 {
    let (payments, verdicts) = Signatures::new(load.len(), Wakes::AtTheEnd);
    let all = settings(cores(), EPOCH);
    let pipeline = Pipeline::start(payments, Ledger::genesis(), secret(16), all);
    let began = Instant::now();
    for (index, mut tx) in load.iter().cloned().enumerate() {
        let due = began + Duration::from_secs_f64(index as f64 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        tx.proof.submitted = due;
        pipeline.submit(tx).expect("all fit");
    }
    let waits = verdicts.wait();
    let is_honest = |at: &usize| {
        let shares =
            |other: Option<&Payment>| other.is_some_and(|it| it.spends == load[*at].spends);
        !shares(load.get(at + 1)) && !shares(at.checked_sub(1).map(|before| &load[before]))
    };
    let mut honest: Vec<f64> = (0..load.len())
        .filter(is_honest)
        .map(|at| waits[at].as_secs_f64())
        .collect();
    honest.sort_by(f64::total_cmp);
    honest[honest.len() * 99 / 100]
}

fn readers() {
    let load = some_payments(STEADY / 4, Scheme::Ecdsa, 0, 1);
    let rounds: Vec<[f64; 2]> = (0..ROUNDS)
        .map(|round| {
            let mut order = [Reads::OwnView, Reads::Pipeline];
            order.rotate_left(round % 2);
            let mut rates = order.map(|reads| rate_beside(&load, reads));
            rates.rotate_right(round % 2);
            rates
        })
        .collect();
    let (least, ratio, most) = spread(rounds.iter().map(|[own, pipeline]| pipeline / own));
    println!(
        "\naccepted/s beside {READERS} threads that read every {READ_EVERY:?}, {ROUNDS} rounds: {:.0} of a view of their own, \
         {:.0} of the pipeline's, ratio {ratio:.3} ({least:.3}, {most:.3})",
        spread(rounds.iter().map(|[own, _]| *own)).1,
        spread(rounds.iter().map(|[_, pipeline]| *pipeline)).1,
    );
}

fn rate_beside(load: &[Payment], reads: Reads) -> f64 {
    let (payments, verdicts) = Signatures::new(load.len(), Wakes::AtTheEnd);
    let own: Ledger<()> = Ledger::genesis();
    let all = settings(cores(), EPOCH);
    let pipeline = Pipeline::start(payments, Ledger::genesis(), secret(16), all);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    black_box(match reads {
                        Reads::Pipeline => looked_up(&pipeline),
                        Reads::OwnView => own.order.len(),
                    });
                    thread::sleep(READ_EVERY);
                }
            });
        }
        let began = Instant::now();
        for tx in load.iter().cloned() {
            pipeline.submit(tx).expect("all fit");
        }
        verdicts.wait();
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        load.len() as f64 / took.as_secs_f64()
    })
}

fn looked_up<F: Filter<KeyBits> + 'static>(
    pipeline: &Pipeline<crate::coins::Coins<Signatures>, F>,
) -> usize {
    pipeline.read(|view| view.order.len())
}

/// The least, the median and the most.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}
