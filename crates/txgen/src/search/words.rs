//! What a search prints of the knee, of the tests at its end, and of why it is over.

use measure::{Ending, Finding, KneeSearch, Trial};
use pacing::Nanos;

use report::text;

use super::account::{Account, DriftRow, Ended, KneeRow, Tested};

/// Where the knee is so far; `None` before the first point.
pub(super) fn so_far(account: &Account) -> Option<String> {
    if let Some(knee) = &account.knee {
        let [low, high] = [knee.low_tps, knee.high_tps].map(text::number);
        let rate = text::rate(knee.rate_tps);
        let confidence = text::percent(knee.confidence);
        return Some(format!("knee {rate}, {low} to {high} with {confidence}"));
    }
    bounds(account).map(|bounds| format!("knee {bounds}"))
}

/// Where the knee is: an estimate with its interval if the search got as close as was asked, else only the interval.
/// None of these rates was offered.
fn knee_words(account: &Account, knee: &KneeRow) -> String {
    let [low, high] = [knee.low_tps, knee.high_tps].map(text::number);
    let confidence = text::percent(knee.confidence);
    match account.ended {
        Ended::Done => format!(
            "{}, {low} to {high} with {confidence} confidence",
            text::rate(knee.rate_tps)
        ),
        _ => format!("between {low} and {high}/s with {confidence} confidence"),
    }
}

/// Where the knee is: its interval, or else bounds.
pub(super) fn answer(account: &Account) -> Option<String> {
    let knee = account.knee.as_ref();
    let knee = knee.map(|knee| knee_words(account, knee));
    knee.or_else(|| bounds(account))
}

/// The highest rate that held and the lowest that broke, where there is no interval.
fn bounds(account: &Account) -> Option<String> {
    if account.contradicted {
        let test = account.refuted()?;
        let rate = text::rate(test.rate_tps);
        return match test.finding {
            "held" => Some(format!("at least {rate}")),
            "broken" => Some(format!("below {rate}")),
            _ => None,
        };
    }
    match (account.highest_held_tps, account.lowest_broken_tps) {
        (Some(held), Some(broken)) if held >= broken => None,
        (Some(held), Some(broken)) => {
            let [held, broken] = [held, broken].map(text::number);
            Some(format!("between {held} and {broken}/s"))
        }
        (Some(held), None) => Some(format!("at least {}", text::rate(held))),
        (None, Some(broken)) => Some(format!("below {}", text::rate(broken))),
        (None, None) => None,
    }
}

/// Why a search is over.
pub(super) fn ending_words(
    ending: Ending,
    search: &KneeSearch,
    limit: Nanos,
    account: &Account,
) -> (Ended, String) {
    // Why the last point did not hold.
    let last = account.points.last();
    let last_reason = last.map_or(String::new(), |point| point.reasons.join("; "));
    let held = || match (&account.lasting, search.highest_held()) {
        (Some(tested), _) => tested_words(tested),
        (None, Some(rate)) => format!("{rate}/s held"),
        (None, None) => "nothing held".into(),
    };
    match ending {
        Ending::Found => (
            Ended::Done,
            format!(
                "the highest rate sustained; {} points",
                search.trials().len()
            ),
        ),
        Ending::NotReached { rate } => (
            Ended::NotReached,
            format!("no knee up to {rate}/s, the highest rate allowed: it still held"),
        ),
        Ending::BelowMin { rate } => (
            Ended::BelowMin,
            format!("no rate held: already {rate}/s, the lowest allowed, broke"),
        ),
        Ending::GeneratorLimit { held, rate } => (
            Ended::GeneratorLimit,
            match held {
                _ if search.estimate().is_some() => format!(
                    "given up at {rate}/s: {last_reason}; the interval is what was known by then"
                ),
                Some(held) => {
                    format!("no knee up to {held}/s, which held; at {rate}/s {last_reason}")
                }
                None => format!("at {rate}/s {last_reason}"),
            },
        ),
        Ending::Undecided { rate } => (
            Ended::Undecided,
            format!(
                "given up at {rate}/s, offered longer and longer ({}): {last_reason}; use a longer --duration",
                held()
            ),
        ),
        Ending::TrialsUsed => (
            Ended::OutOfTime,
            format!(
                "{} points did not suffice for the precision asked: {}",
                search.trials().len(),
                held()
            ),
        ),
        Ending::TimeUsed => (
            Ended::OutOfTime,
            out_of_time(limit, &held(), search.is_narrow()),
        ),
    }
}

fn out_of_time(limit: Nanos, held: &str, is_narrow: bool) -> String {
    let [before, what_for] = if is_narrow {
        ["with few points near", "makes it surer"]
    } else {
        ["before the precision asked", "narrows the interval"]
    };
    format!(
        "the time limit of {limit} is reached {before} ({held}); a higher --time-limit {what_for}"
    )
}

/// The two tests at the end of a search, each with its name: what they showed, or why the second was not made.
pub(super) fn test_rows(account: &Account) -> Vec<(&'static str, String)> {
    let made = [("lasting", account.lasting), ("above it", account.above)];
    let made = made.into_iter().filter_map(|(name, test)| {
        let test = test?;
        let not = if test.refutes { "not: " } else { "" };
        Some((name, format!("{not}{}", tested_words(&test))))
    });
    let mut rows: Vec<_> = made.collect();
    if account.lacks_test_above() {
        let why = "not tested: no time was left, or such a rate is more than twice what held";
        rows.push(("above it", why.into()));
    }
    rows
}

/// The result of the test at the end of a search: one long point, because shorter ones may have held by chance.
fn tested_words(test: &Tested) -> String {
    let (rate, offered_s) = (text::rate(test.rate_tps), test.for_s);
    match test.finding {
        "held" => format!("{rate} held for {offered_s:.0} s"),
        "starved" => format!("{rate}, offered for {offered_s:.0} s, lacked the processor"),
        finding => format!("{rate}, offered for {offered_s:.0} s, was {finding}"),
    }
}

/// How the target changed during the search.
pub(super) fn drift_words(drift: &DriftRow) -> String {
    let [before, since] = [drift.before_tps, drift.since_tps].map(text::rate);
    let [from, until] = drift.between_s;
    if drift.slower {
        format!(
            "it took {before} until {from:.0} s, and {since} broke from {until:.0} s on: the target or its machine became \
             slower; a knee is what it takes since"
        )
    } else {
        format!(
            "{before} broke until {from:.0} s, and it took {since} from {until:.0} s on: the target or its machine became \
             faster; a knee is what it takes since"
        )
    }
}

/// The result of a search over a list of rates.
pub(super) fn list_words(known: &KneeSearch) -> String {
    match (known.highest_held(), known.lowest_broken()) {
        (Some(held), Some(broken)) if held < broken => {
            format!("{held}/s held and {broken}/s did not; between them nothing was tried")
        }
        (Some(held), Some(broken)) => format!(
            "{broken}/s broke once although {held}/s held once: the target is noisy, or its capacity falls with time"
        ),
        (Some(held), None) => format!("no knee up to {held}/s: everything held"),
        (None, Some(broken)) => format!("nothing held, not even {broken}/s"),
        (None, None) => {
            "nothing is known: every point was undecided, starved or unusable, as its line says"
                .into()
        }
    }
}

/// How a list of rates ended that was measured to its end: one that showed nothing is no success.
pub(super) fn list_ended(trials: &[Trial]) -> Ended {
    let any = |finding: Finding| trials.iter().any(|trial| trial.finding == finding);
    if any(Finding::Held) || any(Finding::Broken) {
        Ended::Done
    } else if any(Finding::Undecided) || any(Finding::Starved) {
        Ended::Undecided
    } else {
        Ended::GeneratorLimit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_showed_nothing_is_no_success() {
        let trial = |finding| Trial {
            rate: 500.0,
            finding,
            took: None,
        };
        for (findings, ended) in [
            (&[Finding::Unusable][..], Ended::GeneratorLimit),
            (&[Finding::Unusable, Finding::Undecided], Ended::Undecided),
            (&[Finding::Starved], Ended::Undecided),
            (&[Finding::Unusable, Finding::Held], Ended::Done),
            (&[Finding::Undecided, Finding::Broken], Ended::Done),
        ] {
            let trials: Vec<Trial> = findings.iter().copied().map(trial).collect();
            assert_eq!(list_ended(&trials), ended, "{findings:?}");
        }
    }

    /// "the time limit is reached before the precision asked (2,400/s held)" beside a confirmation at 2,214/s.
    #[test]
    fn a_search_that_is_out_of_time_names_what_was_confirmed_before_what_held_for_a_moment() {
        let trial = Trial {
            rate: 2_400.0,
            finding: Finding::Held,
            took: None,
        };
        let search = KneeSearch::of_trials(&[trial], 0.9);
        let mut account = Account::default();
        let said = |account: &Account| {
            ending_words(Ending::TimeUsed, &search, Nanos::from_secs(300), account).1
        };
        assert!(
            said(&account).contains("asked (2400/s held)"),
            "{}",
            said(&account)
        );
        account.lasting = Some(Tested {
            point: 1,
            rate_tps: 2_214.0,
            for_s: 120.0,
            finding: "held",
            refutes: false,
        });
        assert!(
            said(&account).contains("asked (2,214/s held for 120 s)"),
            "{}",
            said(&account)
        );
        account.lasting = account.lasting.map(|it| Tested {
            finding: "broken",
            ..it
        });
        assert!(
            said(&account).contains("asked (2,214/s, offered for 120 s, was broken)"),
            "{}",
            said(&account)
        );
    }

    /// "The target sustained 213/s (153 to 1,813 with 90 %)", of a search in which 421/s, offered for longer, broke.
    #[test]
    fn an_estimate_is_named_only_where_the_search_came_as_close_as_asked() {
        let knee = KneeRow {
            rate_tps: 213.0,
            low_tps: 153.0,
            high_tps: 1_813.0,
            confidence: 0.9,
        };
        let mut account = Account::default();
        for ended in [Ended::OutOfTime, Ended::Undecided, Ended::NotRecovered] {
            account.ended = ended;
            let words = "between 153 and 1,813/s with 90 % confidence";
            assert_eq!(knee_words(&account, &knee), words);
        }
        account.ended = Ended::Done;
        let words = "213/s, 153 to 1,813 with 90 % confidence";
        assert_eq!(knee_words(&account, &knee), words);
    }

    /// The terminal said "knee at least 500/s" and how the target changed; the page had the reason of the end alone.
    #[test]
    fn a_page_has_the_answer_and_the_drift_that_a_terminal_has() {
        let mut account = Account {
            reason: "the time limit is reached".into(),
            ..Account::default()
        };
        let page = |account: &Account| super::super::page::page(account);
        assert!(page(&account).contains(">the time limit is reached.<"));
        account.highest_held_tps = Some(500.0);
        account.drift = Some(DriftRow {
            before_tps: 800.0,
            since_tps: 600.0,
            between_s: [20.0, 45.0],
            slower: true,
        });
        for part in [
            "The knee: <b>at least 500/s</b>: the time limit is reached.",
            "Drift: it took 800/s until 20 s, and 600/s broke from 45 s on",
        ] {
            assert!(page(&account).contains(part), "{part}");
        }
    }

    #[test]
    fn the_view_says_the_interval_as_soon_as_there_is_one() {
        let mut account = Account::default();
        let words = |account: &Account| so_far(account).unwrap_or_default();
        assert_eq!(words(&account), "");
        account.highest_held_tps = Some(400.0);
        assert_eq!(words(&account), "knee at least 400/s");
        account.lowest_broken_tps = Some(800.0);
        assert_eq!(words(&account), "knee between 400 and 800/s");
        account.highest_held_tps = None;
        assert_eq!(words(&account), "knee below 800/s");
        account.knee = Some(KneeRow {
            rate_tps: 487.3,
            low_tps: 470.0,
            high_tps: 512.0,
            confidence: 0.9,
        });
        assert_eq!(words(&account), "knee 487/s, 470 to 512 with 90 %");
    }

    /// A node that wore down to 800/s: 1,172/s broke for two minutes, and "between 1,000 and 1,172/s" was said.
    #[test]
    fn what_held_before_the_target_changed_bounds_nothing() {
        let mut account = Account {
            contradicted: true,
            highest_held_tps: Some(1_000.0),
            lowest_broken_tps: Some(1_172.0),
            ..Account::default()
        };
        // It may as well have become faster.
        assert_eq!(bounds(&account), None);
        let test = |finding| Tested {
            point: 0,
            rate_tps: 1_172.0,
            for_s: 120.0,
            finding,
            refutes: true,
        };
        for (finding, words) in [("broken", Some("below 1,172/s")), ("undecided", None)] {
            account.lasting = Some(test(finding));
            assert_eq!(bounds(&account).as_deref(), words, "{finding}");
        }
        account.lasting = None;
        for (finding, words) in [("held", "at least 1,172/s"), ("broken", "below 1,172/s")] {
            account.above = Some(test(finding));
            assert_eq!(bounds(&account).as_deref(), Some(words), "{finding}");
        }
    }
}
