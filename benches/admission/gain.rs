//! What validators gain over one lock, beside what their threads gain where they only check signatures.

use crate::payments::{Payment, Scheme, TRANSACTIONS, Wakes, payments};
use crate::runs::{EPOCH, Ran, Run, checks, cores, serial, validators};

/// Rounds, in each of which every case runs once: what else the machine does meets all of them alike.
const ROUNDS: usize = 15;
const FEW_ROUNDS: usize = 5;

/// A case, and the one that its rate is divided by.
struct Case {
    name: String,
    run: Run,
    beside: usize,
}

fn case(name: &str, run: Run, beside: usize) -> Case {
    let name = name.to_owned();
    Case { name, run, beside }
}

fn validating(count: usize) -> String {
    format!("parallel, {count} validators")
}

fn cases() -> Vec<Case> {
    let threads = cores();
    let alone = format!("checks alone, {threads} threads");
    let each = "each verdict wakes a thread";
    let woken = format!("{}, {each}", validating(threads));
    vec![
        case("checks alone, 1 thread", checks(1), 0),
        case(&alone, checks(threads), 0),
        case("serial", serial(Wakes::AtTheEnd), 2),
        case(
            "parallel, 1 validator",
            validators(1, EPOCH, Wakes::AtTheEnd),
            2,
        ),
        case(
            &validating(threads),
            validators(threads, EPOCH, Wakes::AtTheEnd),
            2,
        ),
        case(&format!("serial, {each}"), serial(Wakes::Each), 5),
        case(&woken, validators(threads, EPOCH, Wakes::Each), 5),
    ]
}

/// Serial, and as many validators as there are cores.
fn pair() -> Vec<Case> {
    vec![
        case("serial", serial(Wakes::AtTheEnd), 0),
        case(
            &validating(cores()),
            validators(cores(), EPOCH, Wakes::AtTheEnd),
            0,
        ),
    ]
}

/// Prints the gain with signatures of each scheme, with conflicts, and in chains of unconfirmed transactions.
pub(crate) fn print() {
    for (name, scheme) in [("ECDSA", Scheme::Ecdsa), ("Ed25519", Scheme::Ed25519)] {
        table(name, &payments(scheme, 0, 1), &cases(), ROUNDS);
    }
    for conflicts in [1, 10, 25, 50] {
        let name = format!("ECDSA, {conflicts} % conflicts");
        table(
            &name,
            &payments(Scheme::Ecdsa, conflicts, 1),
            &pair(),
            FEW_ROUNDS,
        );
    }
    for depth in [5, 20, 50] {
        let name = format!("ECDSA, chains of {depth}");
        table(
            &name,
            &payments(Scheme::Ecdsa, 0, depth),
            &pair(),
            FEW_ROUNDS,
        );
    }
}

/// Prints the median rate of each case, the median ratio of the rounds to the case beside it with its range,
/// and the processor time of a transaction, all threads together.
fn table(name: &str, txs: &[Payment], cases: &[Case], rounds: usize) {
    let round = |_| -> Vec<Ran> {
        let runs = cases.iter().map(|case| (case.run)(txs.to_vec()));
        runs.collect()
    };
    let rounds: Vec<Vec<Ran>> = (0..rounds).map(round).collect();
    println!(
        "\n{:53} {:>8} {:>21} {:>18}",
        format!("{name}, {} rounds", rounds.len()),
        "tx/s",
        "ratio (least, most)",
        "processor us / tx"
    );
    for (at, case) in cases.iter().enumerate() {
        let each = |value: &dyn Fn(&[Ran]) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(|round| value(round)).collect();
            values.sort_by(f64::total_cmp);
            (
                values[0],
                values[values.len() / 2],
                values[values.len() - 1],
            )
        };
        let rate = |ran: &Ran| f64::from(TRANSACTIONS) / ran.took.as_secs_f64();
        let (_, median, _) = each(&|round| rate(&round[at]));
        let (least, ratio, most) = each(&|round| rate(&round[at]) / rate(&round[case.beside]));
        let (_, processor, _) =
            each(&|round| 1e6 * round[at].processor.as_secs_f64() / f64::from(TRANSACTIONS));
        println!(
            "{:53} {median:8.0} {:>21} {processor:18.1}",
            case.name,
            format!("{ratio:.2} ({least:.2}, {most:.2})")
        );
    }
}
