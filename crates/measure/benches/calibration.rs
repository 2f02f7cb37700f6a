//! Question: how often are the conclusions that claim a confidence wrong, and how often do they find
//! what is there?
//!
//! Unit: per cent of simulated comparisons, searches, ramps and runs, on models and worlds whose truth is known
//! (`tests/it/models.rs`, `worlds/`). Nothing is timed. Compared with: the methods that were used
//! before (the percentile bootstrap over runs) or could be used for a single run (the block
//! bootstrap). The output is the tables of `docs/calibration.md`; it is the same on every machine.
//!
//! `-- worlds 3000 40` prints one table alone, of 40 worlds from that seed on, and what was wrong in which of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Random;
use measure::{CompareTerms, ComparisonVerdict, Difference, Doubts, Gate};

#[path = "../tests/it/models.rs"]
mod models;

#[path = "../tests/it/worlds/mod.rs"]
mod worlds_of;

use models::{Repeats, Turns, normal};
use worlds_of::census::Drifts;
use worlds_of::{Census, Ranges, World};

const TERMS: CompareTerms = CompareTerms {
    margin: 0.05,
    limit: Some(0.05),
    metrics: Vec::new(),
};

#[expect(clippy::print_stdout, reason = "the tables are what this bench is for")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words = arguments.iter().filter(|it| !it.starts_with('-'));
    let only = words.next();
    let mut number = |default| {
        words.next().map_or(default, |it| {
            it.parse().expect("a seed or a count of worlds")
        })
    };
    let (first, count) = (number(0), number(WORLDS));
    let tables: [(&str, &dyn Fn() -> String); 9] = [
        ("alarms", &false_alarms),
        ("together", &together),
        ("power", &power),
        ("turns", &turns),
        ("methods", &methods),
        ("single", &single_runs),
        ("truth", &|| truth(first..first + count)),
        ("worlds", &|| worlds(first..first + count)),
        ("drift", &|| drifts(first..first + count)),
    ];
    for (_, table) in tables
        .iter()
        .filter(|(name, _)| only.is_none_or(|only| only == name))
    {
        println!("{}", table());
    }
}

/// Per cent of `count` draws in which something is so.
fn percent(count: u32, mut draw: impl FnMut() -> bool) -> f64 {
    let found = (0..count).filter(|_| draw()).count();
    100.0 * found as f64 / f64::from(count)
}

fn is_verdict(difference: &Difference) -> bool {
    matches!(
        difference.meaning,
        ComparisonVerdict::Better | ComparisonVerdict::Worse
    )
}

/// Nine metrics of equal sides.
fn false_alarms() -> String {
    let mut table = String::from(
        "| between runs | runs a side | any \"worse\" or \"better\" | exit 99 at 5 % | \"same\" | \"cannot tell\" |\n|---|---|---|---|---|---|\n",
    );
    for (name, spread, outliers) in MODELS {
        for runs in [1, 2, 3, 5, 10] {
            let repeats = Repeats { spread, outliers };
            let mut random = Random::new(1);
            let (mut alarms, mut exits, mut same, mut open) = (0.0, 0.0, 0.0, 0.0);
            let each = 100.0 / f64::from(COMPARISONS);
            for _ in 0..COMPARISONS {
                let differences = repeats.compared(runs, 0.0, &TERMS, &mut random);
                let share = |what: &dyn Fn(&Difference) -> bool| {
                    let found = differences.iter().filter(|it| what(it)).count();
                    each * found as f64 / differences.len() as f64
                };
                alarms += each * f64::from(u8::from(differences.iter().any(is_verdict)));
                let failed = differences
                    .iter()
                    .any(|it| it.gate == Some(Gate::Regression));
                exits += each * f64::from(u8::from(failed));
                same += share(&|it| it.meaning == ComparisonVerdict::Same);
                open += share(&|it| matches!(it.meaning, ComparisonVerdict::CannotTell(_)));
            }
            table += &format!(
                "| {name} | {runs} | {alarms:.1} % | {exits:.1} % | {same:.0} % | {open:.0} % |\n"
            );
        }
    }
    table
}

/// Comparisons in which an interval of any metric misses the change, when all are worse by the same share.
fn together() -> String {
    let mut table = String::from(
        "| between runs | runs a side | worse by | an interval misses |\n|---|---|---|---|\n",
    );
    for (name, spread, outliers) in [MODELS[0], MODELS[1]] {
        for (runs, worse_by) in [(3, 0.5), (10, 0.0), (10, 0.5)] {
            let repeats = Repeats { spread, outliers };
            let mut random = Random::new(6);
            let missed = percent(COMPARISONS, || {
                let differences = repeats.compared(runs, worse_by, &TERMS, &mut random);
                !differences.iter().all(|it| Repeats::holds(it, worse_by))
            });
            table += &format!(
                "| {name} | {runs} | {:.0} % | {missed:.1} % |\n",
                worse_by * 100.0
            );
        }
    }
    table
}

/// Comparisons in turns: how they end, and after how many runs.
fn turns() -> String {
    let mut table = String::from(
        "| between runs | B is worse by | drift over 60 runs | memory of runs | any \"worse\" or \"better\" | exit 99 | exit 0 | exit 98 | runs, mean |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let terms = models::ab_terms();
    let drifts = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.8)];
    let quiet = [0.0, 0.02, 0.05, 0.1].map(|worse_by| (MODELS[0], worse_by, drifts));
    let loud = [0.0, 0.1, 0.2].map(|worse_by| (MODELS[2], worse_by, drifts));
    for ((name, spread, outliers), worse_by, drifts) in quiet.into_iter().chain(loud) {
        for (drift, memory) in drifts {
            let turns = Turns {
                repeats: Repeats { spread, outliers },
                drift,
                memory,
                worse_by,
            };
            let mut random = Random::new(7);
            let (mut alarms, mut ends, mut runs) = (0, [0; 3], 0);
            for _ in 0..COMPARISONS {
                let end = turns.played(&terms, &mut random);
                alarms += u32::from(end.has_alarm);
                let gates = [Gate::Regression, Gate::Within, Gate::Open];
                for (count, gate) in ends.iter_mut().zip(gates) {
                    *count += u32::from(end.gate == gate);
                }
                runs += end.runs;
            }
            let share = |count: u32| 100.0 * f64::from(count) / f64::from(COMPARISONS);
            let [failed, passed, open] = ends.map(share);
            table += &format!(
                "| {name} | {:.0} % | {:.0} % | {memory} | {:.1} % | {failed:.0} % | {passed:.0} % | {open:.0} % | {:.0} |\n",
                worse_by * 100.0,
                drift * 100.0,
                share(alarms),
                runs as f64 / f64::from(COMPARISONS),
            );
        }
    }
    table
}

/// Comparisons that call a metric worse when all are.
fn power() -> String {
    let mut table = String::from(
        "| between runs | worse by | 3 a side | 5 | 10 | 20 | exit 99 at 5 %, 10 a side |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, spread, outliers) in [MODELS[0], MODELS[1]] {
        for worse_by in [0.02, 0.05, 0.1, 0.2] {
            let repeats = Repeats { spread, outliers };
            let mut random = Random::new(2);
            let mut found = |runs, gate: bool| {
                percent(COMPARISONS, || {
                    let differences = repeats.compared(runs, worse_by, &TERMS, &mut random);
                    differences.iter().any(|it| {
                        if gate {
                            it.gate == Some(Gate::Regression)
                        } else {
                            it.meaning == ComparisonVerdict::Worse
                        }
                    })
                })
            };
            let shown = [3, 5, 10, 20].map(|runs| format!("{:.0} %", found(runs, false)));
            let failed = found(10, true);
            let shown = shown.join(" | ");
            table += &format!(
                "| {name} | {:.0} % | {shown} | {failed:.0} % |\n",
                worse_by * 100.0
            );
        }
    }
    table
}

/// One metric of equal sides: how often each method finds a difference at 5 %.
fn methods() -> String {
    let mut table = String::from(
        "| between runs | runs a side | Welch's t | exact permutation | percentile bootstrap over runs (before) |\n|---|---|---|---|---|\n",
    );
    for (name, spread, outliers) in MODELS {
        for runs in [2, 3, 4, 5, 6] {
            let repeats = Repeats { spread, outliers };
            let mut random = Random::new(3);
            let mut found = [0_u32; 3];
            for _ in 0..COMPARISONS {
                let mut side = || -> Vec<f64> {
                    let commit = measure::Metric::Commit(measure::Quantile::P50);
                    let run = |_| repeats.run(0.0, &mut random).figure(commit);
                    (0..runs).filter_map(run).map(|it| it.value.ln()).collect()
                };
                let (base, other) = (side(), side());
                found[0] += u32::from(welch_finds(&base, &other));
                found[1] += u32::from(permutation_p(&base, &other) <= 0.05);
                found[2] += u32::from(bootstrap_finds(&base, &other, &mut random));
            }
            let share =
                |found: u32| format!("{:.1} %", 100.0 * f64::from(found) / f64::from(COMPARISONS));
            let shares = found.map(share).join(" | ");
            table += &format!("| {name} | {runs} | {shares} |\n");
        }
    }
    table
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// By the comparison itself, with one metric and so without Holm's correction.
fn welch_finds(base: &[f64], other: &[f64]) -> bool {
    let metric = measure::Metric::Commit(measure::Quantile::P50);
    let run = |value: &f64| {
        let figure = measure::Figure::exact(value.exp());
        measure::RunFigures::default().with(metric, Some(figure))
    };
    let [base, other] = [base, other].map(|side| side.iter().map(run).collect::<Vec<_>>());
    measure::compare(
        &base,
        &other,
        &CompareTerms {
            limit: None,
            metrics: vec![metric],
            ..TERMS
        },
        &Doubts::default(),
    )
    .iter()
    .any(is_verdict)
}

/// Of all ways to divide the values into two such sides, the share whose means differ as much (Fisher,
/// "The design of experiments", 1935, section 21).
fn permutation_p(base: &[f64], other: &[f64]) -> f64 {
    let all: Vec<f64> = base.iter().chain(other).copied().collect();
    let total: f64 = all.iter().sum();
    let seen = (mean(base) - mean(other)).abs() - 1e-12;
    let (mut ways, mut extreme) = (0, 0);
    for chosen in 0_u32..1 << all.len() {
        if chosen.count_ones() as usize != base.len() {
            continue;
        }
        let of = |place: usize| {
            if chosen >> place & 1 == 1 {
                all[place]
            } else {
                0.0
            }
        };
        let sum: f64 = (0..all.len()).map(of).sum();
        let difference = sum / base.len() as f64 - (total - sum) / other.len() as f64;
        ways += 1;
        extreme += u32::from(difference.abs() >= seen);
    }
    f64::from(extreme) / f64::from(ways)
}

/// Whether the interval from the 2.5th to the 97.5th percentile of the resampled differences excludes 0.
fn bootstrap_finds(base: &[f64], other: &[f64], random: &mut Random) -> bool {
    let mut drawn = |side: &[f64]| {
        let one = |_| side[(random.unit() * side.len() as f64) as usize];
        side.iter().map(one).sum::<f64>() / side.len() as f64
    };
    let differences = (0..RESAMPLES).map(|_| drawn(other) - drawn(base));
    excludes_zero(differences.collect())
}

fn excludes_zero(mut differences: Vec<f64>) -> bool {
    differences.sort_unstable_by(f64::total_cmp);
    let last = differences.len() as f64 - 1.0;
    let at = |share: f64| differences[(share * last).round() as usize];
    at(0.025) > 0.0 || at(0.975) < 0.0
}

/// Two single equal runs of 60 s, compared by the seconds within them: autocorrelated values (first
/// order), and a level that varies from run to run.
fn single_runs() -> String {
    let mut table = String::from(
        "| autocorrelation of seconds | between runs | single seconds drawn | blocks of seconds drawn |\n|---|---|---|---|\n",
    );
    for correlation in [0.0, 0.5, 0.8] {
        for spread in [0.0, 0.01, 0.03] {
            let mut random = Random::new(4);
            let mut found = [0_u32; 2];
            for _ in 0..COMPARISONS / 5 {
                let mut run = || seconds(correlation, spread, &mut random);
                let (base, other) = (run(), run());
                let lengths = [1, block_length(&base).max(block_length(&other))];
                for (found, length) in found.iter_mut().zip(lengths) {
                    *found += u32::from(blocks_find(&base, &other, length, &mut random));
                }
            }
            let share =
                |found: u32| format!("{:.0} %", 500.0 * f64::from(found) / f64::from(COMPARISONS));
            let shares = found.map(share).join(" | ");
            table += &format!(
                "| {correlation:.1} | {:.0} % | {shares} |\n",
                spread * 100.0
            );
        }
    }
    table
}

/// The logarithm of a latency in each second of a run; seconds vary by 5 %.
fn seconds(correlation: f64, spread: f64, random: &mut Random) -> Vec<f64> {
    let level = spread * normal(random);
    let fresh = 0.05 * (1.0 - correlation * correlation).sqrt();
    let mut value = 0.05 * normal(random);
    (0..SECONDS)
        .map(|_| {
            value = correlation * value + fresh * normal(random);
            level + value
        })
        .collect()
}

/// The block length for values that are autocorrelated in the first order: (√6 ρ / (1 − ρ²))^(2/3)
/// n^(1/3) (Carlstein, "The use of subseries values for estimating the variance of a general statistic from a
/// stationary sequence", Annals of Statistics 14, 1986; Politis and White, "Automatic block-length
/// selection for the dependent bootstrap", Econometric Reviews 23, 2004, is of the same order).
fn block_length(values: &[f64]) -> usize {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let pairs = values.windows(2).map(|it| (it[0] - mean) * (it[1] - mean));
    let alike = (pairs.sum::<f64>() / squares).clamp(0.0, 0.95);
    let length = (6_f64.sqrt() * alike / (1.0 - alike * alike)).powf(2.0 / 3.0);
    ((length * (values.len() as f64).cbrt()).round() as usize).clamp(1, values.len() / 2)
}

/// The moving-block bootstrap (Künsch, Annals of Statistics 17, 1989) of the difference of two means.
fn blocks_find(base: &[f64], other: &[f64], length: usize, random: &mut Random) -> bool {
    let mut drawn = |side: &[f64]| {
        let (mut sum, mut count) = (0.0, 0);
        while count < side.len() {
            let starts = side.len() - length + 1;
            let start = (random.unit() * starts as f64) as usize;
            let take = length.min(side.len() - count);
            sum += side[start..start + take].iter().sum::<f64>();
            count += take;
        }
        sum / count as f64
    };
    excludes_zero((0..RESAMPLES).map(|_| drawn(other) - drawn(base)).collect())
}

/// By how much the capacity of a world is off what its node takes where more is always ready: the worst of each part.
fn truth(seeds: Range<u64>) -> String {
    let mut worst = BTreeMap::new();
    for ranges in [Ranges::SEEN, Ranges::HELD_BACK] {
        for world in seeds.clone().map(|seed| World::drawn(seed, ranges)) {
            let (capacity, part) = world.capacity();
            let off = (world.saturated(SATURATED_BLOCKS) / capacity - 1.0).abs();
            let worst = worst.entry(format!("{part:?}")).or_insert(0.0);
            *worst = off.max(*worst);
        }
    }
    let row = |(part, off): (&String, &f64)| format!("| {part} | {:.2} % |\n", 100.0 * off);
    let rows: String = worst.iter().map(row).collect();
    format!("| limited by | off by at most |\n|---|---|\n{rows}")
}

/// What is said of worlds whose truth is known, half of them from ranges that no rule was tuned on.
fn worlds(seeds: Range<u64>) -> String {
    let mut table = String::new();
    for (name, ranges) in [
        ("looked at", Ranges::SEEN),
        ("held back", Ranges::HELD_BACK),
    ] {
        let census = census(seeds.clone(), ranges);
        table += &format!(
            "Ranges {name}:\n\n| conclusion | made | wrong | share | budget | nothing said |\n|---|---|---|---|---|---|\n{census}\n{}\n",
            census.wrong.join("\n")
        );
    }
    table
}

/// That of all worlds, on all processors.
fn census(seeds: Range<u64>, ranges: Ranges) -> Census {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let parts = std::thread::scope(|scope| {
        let taken = || {
            let mut part = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return part;
                }
                part.push((seed, Census::of(seed..seed + 1, ranges)));
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(taken)).collect();
        let parts = threads
            .into_iter()
            .map(|it| it.join().expect("no world ends a thread"));
        parts.flatten().collect::<BTreeMap<_, _>>()
    });
    let mut all = Census::default();
    for part in parts.into_values() {
        for (kind, count) in part.counts {
            let sum = all.counts.entry(kind).or_default();
            sum.made += count.made;
            sum.wrong += count.wrong;
            sum.open += count.open;
        }
        all.wrong.extend(part.wrong);
    }
    all
}

/// What the runs vary by: a name, a standard deviation, the share of outliers.
const MODELS: [(&str, f64, f64); 3] = [
    ("2 %", 0.02, 0.0),
    ("10 %", 0.1, 0.0),
    ("5 %, one in ten 25 %", 0.05, 0.1),
];
const COMPARISONS: u32 = 1_000;
const RESAMPLES: u32 = 300;
const SECONDS: usize = 60;
const WORLDS: u64 = 400;
const SATURATED_BLOCKS: usize = 20_000;

/// Searches of targets that change meanwhile.
fn drifts(seeds: Range<u64>) -> String {
    let mut table = String::from(
        "| the capacity | ranges | searches | change said | right | wrong, change said | wrong | no knee |\n|---|---|---|---|---|---|---|---|\n",
    );
    let changes = DRIFTS.map(|(name, to, over_s)| (name, Ok((to, over_s))));
    let credits = CREDITS.map(|(name, seconds)| (name, Err(seconds)));
    for (name, change) in changes.into_iter().chain(credits) {
        for (which, ranges) in [("tuned on", Ranges::SEEN), ("held back", Ranges::HELD_BACK)] {
            let seeds = seeds.clone();
            let drifts = match change {
                Ok((to, over_s)) => Drifts::of(seeds, ranges, to, over_s),
                Err(seconds) => Drifts::of_credits(seeds, ranges, seconds),
            };
            let Drifts {
                searches,
                said,
                right,
                wrong_said,
                wrong,
                open,
                seeds,
            } = drifts;
            table += &format!(
                "| {name} | {which} | {searches} | {said} | {right} | {wrong_said} | {wrong} | {open} | {seeds:?}\n"
            );
        }
    }
    table
}

/// What capacities become a multiple of, and over how many seconds.
const DRIFTS: [(&str, f64, f64); 5] = [
    ("stays", 1.0, 0.0),
    ("falls to 0.6 at once", 0.6, 0.0),
    ("falls to 0.6 over 150 s", 0.6, 150.0),
    ("rises to 1.6 at once", 1.6, 0.0),
    ("rises to 1.6 over 150 s", 1.6, 150.0),
];

/// For how many seconds a node has credits.
const CREDITS: [(&str, [f64; 2]); 2] = [
    ("credits for 1 to 4 s", [1.0, 4.0]),
    ("credits for 5 to 60 s", [5.0, 60.0]),
];
