mod again;

use super::*;
use crate::format::counts::Counts;
use crate::format::fate::Cohort;

const TERMS: StepTerms = StepTerms {
    followed: true,
    strict: false,
};

fn excess(step: &StepRow) -> Option<Shortfall> {
    excesses(std::slice::from_ref(step), TERMS)[0].map(|excess| excess.shortfall)
}

/// Ten seconds with ten blocks, in which these shares were accepted and committed.
fn step(number: u32, rate: f64, accepted: f64, committed: f64) -> StepRow {
    let count = |share: f64| (rate * 10.0 * share) as u64;
    StepRow {
        step: number,
        start_s: f64::from(number) * 10.0,
        end_s: f64::from(number + 1) * 10.0,
        rate_tps: rate,
        counts: Counts {
            offered: count(1.0),
            accepted: count(accepted),
            committed: count(committed),
            blocks: 10,
            ..Counts::default()
        },
        offered_tps: Some(rate),
        committed_tps: Some(rate * committed),
        backlog: count(1.0 - committed),
        cohort: Cohort {
            due_sent: count(1.0),
            due_accepted: count(accepted),
            due_committed: count(committed),
            ..Cohort::default()
        },
        awaited_s: Some(1.5),
        ..StepRow::default()
    }
}

/// The node gave no sign in the last `gap_s` seconds of a step.
fn stalled(number: u32, rate: f64, gap_s: f64) -> StepRow {
    let share = 1.0 - gap_s / 10.0;
    StepRow {
        answer_gap_s: gap_s,
        block_gap_s: gap_s,
        ..step(number, rate, share, share)
    }
}

/// A ramp in steps of 100/s of which these fail, by a stall or by the node's limit.
fn ramp_of(kinds: &[char]) -> Vec<StepRow> {
    let steps = (0..).zip(kinds).map(|(number, kind)| {
        let rate = 100.0 * f64::from(number + 1);
        match kind {
            'g' => step(number, rate, 1.0, 1.0),
            's' => stalled(number, rate, 4.0),
            _ => step(number, rate, 1.0, 0.7),
        }
    });
    steps.collect()
}

#[test]
fn the_last_sustained_step_is_named() {
    let steps = [
        step(0, 100.0, 1.0, 1.0),
        step(1, 200.0, 1.0, 0.99),
        step(2, 300.0, 1.0, 0.7),
        step(3, 400.0, 0.6, 0.6),
    ];
    let judgement = ramp(&steps, TERMS);
    assert!(judgement.saturated);
    // Its ten blocks took 198/s, give or take half a block.
    assert_eq!(judgement.knee.as_ref().unwrap().rate_tps, 198.0 * 0.95);
    assert_eq!(judgement.knee.unwrap().step, Some(1));
    assert_eq!(
        judgement.reason,
        "sustained up to step 1 (200/s); at 300/s only 70.0 % of offered was committed"
    );
    assert!(!ramp(&steps[..3], TERMS).saturated);
}

#[test]
fn one_stall_is_an_exception_and_not_the_end_of_what_was_sustained() {
    let judgement = ramp(&ramp_of(&['g', 'g', 'g', 's', 'g', 'g', 'g', 'g']), TERMS);
    assert_eq!(judgement.knee, None);
    assert_eq!(
        judgement.reason,
        "every step was sustained, except step 3 (stall of 4.0 s): the knee lies above the highest rate offered"
    );
    let judgement = ramp(&ramp_of(&['g', 'g', 'g', 's', 'g', 'g', 'x', 'x']), TERMS);
    assert_eq!(judgement.knee.unwrap().step, Some(5));
    assert_eq!(
        judgement.reason,
        "sustained up to step 5 (600/s), except step 3 (stall of 4.0 s); at 700/s only 70.0 % of offered was committed"
    );
}

#[test]
fn steps_that_fail_more_often_than_not_are_no_exceptions() {
    let judgement = ramp(&ramp_of(&['g', 'x', 'x', 'g', 'x']), TERMS);
    assert_eq!(judgement.knee.unwrap().step, Some(0));
}

#[test]
fn two_bad_steps_by_one_stall_do_not_end_a_ramp_and_two_by_the_rate_do() {
    let is_saturated = |kinds: &[char]| ramp(&ramp_of(kinds), TERMS).saturated;
    assert!(!is_saturated(&['g', 's', 's']));
    assert!(!is_saturated(&['g', 's', 's', 'g', 'x']));
    assert!(is_saturated(&['g', 'x', 'x']));
    assert!(is_saturated(&['g', 's', 'x', 'x']));
    // Where steps cannot be offered again, a node that halts for good ends it after as many steps again.
    let is_stalled = |kinds: &[char]| ramp(&ramp_of(kinds), TERMS).stalled;
    assert!(!is_saturated(&['g', 's', 's', 's', 's']));
    assert!(!is_stalled(&['g', 's', 's', 's']));
    assert!(is_stalled(&['g', 's', 's', 's', 's']));
}

#[test]
fn a_gap_beside_a_rate_that_is_too_high_is_no_stall() {
    let mut slow = step(0, 100.0, 1.0, 0.3);
    slow.block_gap_s = 4.0;
    assert_eq!(excesses(&[slow], TERMS)[0].unwrap().stall_s, None);
    let excess = excesses(&[stalled(0, 100.0, 4.0)], TERMS)[0].unwrap();
    assert_eq!(excess.stall_s, Some(4.0));
    assert_eq!(
        excess.to_string(),
        "only 60.0 % of offered was accepted (stall of 4.0 s)"
    );
}

#[test]
fn an_answer_after_the_end_of_its_step_counts_in_its_step() {
    // Of 2 s at 100/s, the answers of the last 120 ms came after the end.
    let mut edge = step(0, 20.0, 1.0, 1.0);
    (edge.counts.accepted, edge.counts.committed) = (188, 100);
    assert_eq!(excess(&edge), None);
    edge.cohort.due_accepted = 188;
    assert_eq!(excess(&edge), Some(Shortfall::Accepted(0.94)));
}

#[test]
fn transactions_that_fail_in_their_blocks_are_not_kept_up_with() {
    let mut failing = step(0, 100.0, 1.0, 0.0);
    failing.counts.commit_failed = 1_000;
    failing.cohort.due_commit_failed = 1_000;
    failing.backlog = 0;
    assert_eq!(excess(&failing), Some(Shortfall::FailedInBlocks(1.0)));
    assert!(
        !ramp(&[failing], TERMS)
            .reason
            .contains("every step was sustained")
    );
}

#[test]
fn a_step_that_the_generator_could_not_offer_says_nothing_about_the_node() {
    let mut steps = ramp_of(&['g', 'g', 'g', 'g', 'g', 'g']);
    for step in &mut steps[2..] {
        (step.late.connection, step.cohort.due_crowded) = (400, 400);
    }
    let judgement = ramp(&steps, TERMS);
    assert!(!judgement.saturated && judgement.stalled);
    assert_eq!(judgement.again, Some(2), "it is offered once more");
    assert_eq!(judgement.knee, None, "the node was not driven past it");
    assert!(
        judgement
            .reason
            .contains("the generator could not offer it"),
        "{}",
        judgement.reason
    );
    let labels = excesses(&steps, TERMS).into_iter().flatten();
    assert!(labels.map(|excess| excess.label()).eq(["not offered"; 4]));
    let first = ramp(&steps[2..], TERMS).reason;
    assert!(first.contains("was not offered"), "{first}");
}

/// On a busy machine a step of 30 transactions was "not offered" because two left late, the later by 16 ms.
#[test]
fn lateness_within_a_step_and_a_handful_outside_it_decide_nothing() {
    let mut busy = step(0, 3.0, 1.0, 1.0);
    (busy.late.schedule, busy.latency.lateness_p99_ms) = (30, Some(400.0));
    assert_eq!(excess(&busy), None);
    // Of thirty, four are more than a twentieth.
    (busy.cohort.due_behind, busy.cohort.due_unsent) = (4, 4);
    (busy.cohort.due_sent, busy.cohort.due_accepted) = (26, 26);
    busy.cohort.due_committed = 26;
    assert_eq!(excess(&busy), None);
    busy.cohort.due_behind = 5;
    assert!(matches!(excess(&busy), Some(Shortfall::Offered(_))));
    let strict = StepTerms {
        strict: true,
        ..TERMS
    };
    let late = StepRow {
        late: crate::Late {
            schedule: 2,
            ..crate::Late::default()
        },
        ..step(0, 3.0, 1.0, 1.0)
    };
    assert_eq!(excess(&late), None);
    let judged = excesses(&[late], strict)[0].map(|excess| excess.label());
    assert_eq!(judged, Some("not offered"));
}

#[test]
fn what_the_generator_kept_back_and_sent_at_once_may_be_what_was_refused() {
    let mut burst = step(0, 100.0, 0.8, 0.8);
    assert_eq!(excess(&burst), Some(Shortfall::Accepted(0.8)));
    burst.late.schedule = 300;
    burst.latency.lateness_p99_ms = Some(490.0);
    assert_eq!(
        excess(&burst),
        Some(Shortfall::Accepted(0.8)),
        "small beside the step"
    );
    burst.latency.lateness_p99_ms = Some(900.0);
    assert_eq!(excess(&burst), Some(Shortfall::Offered(0.7)));
    // The node kept more of it.
    burst.late.node = 301;
    assert_eq!(excess(&burst), Some(Shortfall::Accepted(0.8)));
}

#[test]
fn a_step_that_was_not_offered_neither_ends_a_ramp_nor_stands_for_its_limit() {
    let mut steps = ramp_of(&['g', 'x', 'g', 'x', 'x']);
    steps[1] = step(1, 200.0, 1.0, 1.0);
    steps[1].cohort.due_behind = 400;
    let judgement = ramp(&steps, TERMS);
    assert_eq!(judgement.knee.unwrap().step, Some(2));
    assert!(
        judgement.reason.contains("at 400/s only 70.0 %"),
        "{}",
        judgement.reason
    );
    let early = ramp(&steps[..3], TERMS);
    assert!(!early.saturated && !early.stalled);
    // Beside a step that failed it is none of two.
    let mut steps = ramp_of(&['g', 'x', 'g']);
    steps[2].cohort.due_behind = 400;
    assert!(!ramp(&steps, TERMS).saturated);
}

#[test]
fn a_noisy_commit_rate_without_backlog_is_no_saturation() {
    let mut noisy = step(0, 100.0, 1.0, 0.9);
    noisy.cohort.due_committed = 1_000;
    noisy.backlog = 100;
    assert_eq!(excess(&noisy), None);
    noisy.backlog = 151;
    assert_eq!(excess(&noisy), Some(Shortfall::Unclear(0.9)));
    noisy.counts.blocks = 100;
    assert_eq!(excess(&noisy), Some(Shortfall::Committed(0.9)));
}

/// Five seconds with five blocks, of which the fifth was seen later than it should by this share of a second,
/// so that its transactions are fewer than what fell due.
fn short(offered_tps: f64, committed_tps: f64, backlog_growth: i64) -> StepRow {
    let mut short = step(0, offered_tps, 1.0, 1.0);
    short.end_s = 5.0;
    (short.counts.offered, short.counts.blocks) = ((offered_tps * 5.0) as u64, 5);
    short.cohort.due_accepted = short.counts.offered;
    short.cohort.due_committed = short.counts.offered;
    short.committed_tps = Some(committed_tps);
    (short.backlog, short.backlog_growth) = (450, backlog_growth);
    short
}

#[test]
fn a_short_step_in_which_the_blocks_leave_ever_more_is_not_called_sustained() {
    // 50/s too many for 4 s are half of what falls due for a block: with the other half that waits anyway
    // no more than a block.
    let behind = short(400.0, 350.0, 250);
    assert_eq!(excess(&behind), Some(Shortfall::Unclear(0.875)));
    let far = short(400.0, 300.0, 450);
    assert_eq!(excess(&far), Some(Shortfall::Committed(0.75)));
    // The last block was seen 0.25 s late: the rate is lower, and nothing is left behind.
    assert_eq!(excess(&short(400.0, 376.0, 100)), None);
    // What the blocks left in the middle is made up for.
    assert_eq!(excess(&short(400.0, 350.0, 0)), None);
    // Where blocks are quick, 0.25 s are many of them.
    let mut quick = short(400.0, 376.0, 100);
    quick.counts.blocks = 50;
    quick.backlog = 59;
    assert_eq!(excess(&quick), None);
}

#[test]
fn a_chain_that_stops_is_saturated_although_its_mempool_takes_on() {
    let healthy = step(0, 100.0, 1.0, 1.0);
    let mut halted = step(1, 200.0, 1.0, 0.0);
    (halted.counts.blocks, halted.committed_tps) = (0, None);
    let steps = [healthy, halted.clone()];
    assert_eq!(
        excesses(&steps, TERMS)[1].unwrap().shortfall,
        Shortfall::Committed(0.0)
    );
    let unfollowed = StepTerms {
        followed: false,
        ..TERMS
    };
    assert_eq!(excesses(&steps, unfollowed)[1], None);
    // The run was ended before a block could have come.
    halted.awaited_s = None;
    assert_eq!(excess(&halted), None);
}

#[test]
fn lateness_of_the_node_counts_and_pauses_do_not() {
    let mut late = step(0, 100.0, 1.0, 1.0);
    // Within the step it is a latency, and no limit of the rate.
    late.late.node = 1_000;
    assert_eq!(excess(&late), None);
    late.cohort.due_held_up = 51;
    assert_eq!(excess(&late), Some(Shortfall::Late(0.051)));
    late.pause = true;
    assert_eq!(excess(&late), None);
}

#[test]
fn without_excess_there_is_no_knee_and_the_reason_says_so() {
    let judgement = ramp(&[step(0, 100.0, 1.0, 1.0)], TERMS);
    assert_eq!(judgement.knee, None);
    assert!(judgement.reason.contains("above the highest rate"));
    let judgement = ramp(&[step(0, 100.0, 0.5, 0.5)], TERMS);
    assert!(judgement.reason.contains("already the first step"));
    assert!(ramp(&[], TERMS).reason.contains("large enough"));
}

#[test]
fn a_sustained_rate_is_the_least_unless_its_blocks_or_those_of_the_step_above_show_less() {
    let of = |blocks, committed_tps| {
        let mut step = StepRow {
            rate_tps: 4500.0,
            committed_tps,
            ..StepRow::default()
        };
        step.counts.blocks = blocks;
        step
    };
    let silent = of(10, None);
    let least_of = |blocks, committed_tps| {
        let shows = of(blocks, committed_tps);
        // Whichever of the two it is.
        assert_eq!(least(&shows, &silent), least(&silent, &shows));
        least(&silent, &shows)
    };
    assert_eq!(least_of(10, None), 4500.0);
    assert_eq!(least_of(10, Some(4946.0)), 4500.0);
    assert_eq!(least_of(10, Some(4500.0)), 4500.0);
    // A short step filled the mempool and nothing more.
    assert_eq!(least_of(10, Some(4000.0)), 3800.0);
    // On a busy machine a step of three seconds had two blocks, one of them late: that shows no rate.
    for blocks in 0..4 {
        assert_eq!(least_of(blocks, Some(603.0)), 4500.0);
    }
    assert_eq!(least_of(4, Some(4000.0)), 3500.0);
    assert_eq!(least(&of(4, Some(4400.0)), &of(10, Some(4000.0))), 3800.0);
    assert_eq!(least(&of(4, Some(4000.0)), &of(10, Some(4400.0))), 3500.0);
}

/// Of ten blocks the last may be executed still, and the one before was awaited in part: up to 7.5 % of the step.
#[test]
fn what_the_next_block_may_hold_is_no_end_of_the_knee() {
    let kind = |committed| excess(&step(0, 300.0, 1.0, committed));
    assert_eq!(kind(0.95), None);
    assert_eq!(kind(0.9), Some(Shortfall::Unclear(0.9)));
    assert_eq!(kind(0.87), Some(Shortfall::Committed(0.87)));
    // A hundred blocks show the same share for what it is, and a dead chain has no next block.
    let mut long = step(0, 300.0, 1.0, 0.9);
    long.counts.blocks = 100;
    assert_eq!(excess(&long), Some(Shortfall::Committed(0.9)));
    let mut dead = step(0, 300.0, 1.0, 0.0);
    dead.counts.blocks = 0;
    assert_eq!(excess(&dead), Some(Shortfall::Committed(0.0)));
    let shares = [1.0, 1.0, 0.9, 0.6].iter().enumerate();
    let steps: Vec<StepRow> = shares
        .map(|(place, share)| step(place as u32, 100.0 * (place + 1) as f64, 1.0, *share))
        .collect();
    let knee = ramp(&steps, TERMS).knee.unwrap();
    assert_eq!(knee.below_tps, Some(400.0));
    assert!(!ramp(&steps, TERMS).saturated);
}

/// A ramp beside builds that took the processor from the node: "between 3,501 and 4,001/s", exit code 0, for one that
/// takes 5,000/s alone.
#[test]
fn what_a_node_did_not_do_while_it_lacked_the_processor_is_no_end_of_the_knee() {
    let beside = |lack: f64, step: &StepRow| StepRow {
        node_lack_s: lack * step.span_s(),
        ..step.clone()
    };
    let steps = ramp_of(&['g', 'g', 'b', 'b']);
    let all = |lack| -> Vec<StepRow> { steps.iter().map(|it| beside(lack, it)).collect() };
    let starved = ramp(&all(0.6), TERMS);
    assert_eq!(starved.knee, None);
    assert!(!starved.saturated);
    assert_eq!(starved.again, Some(2));
    assert_eq!(
        starved.reason,
        "sustained up to step 1 (200/s); at 300/s for 60 % of the step the node waited for a processor, which may be why it took less"
    );
    // What was sustained was sustained.
    assert_eq!(excess(&beside(0.9, &steps[0])), None);
    // The time that it waited has to be as much as what is missing: 60 % were taken.
    let most = step(0, 300.0, 0.6, 0.6);
    assert_eq!(excess(&beside(0.36, &most)), Some(Shortfall::Accepted(0.6)));
    assert_eq!(excess(&beside(0.38, &most)), Some(Shortfall::Starved(0.38)));
    // Of its transactions 10 % more were accepted in the time after it, which is no pace of the node's.
    let mut awaited = most.clone();
    awaited.cohort.due_accepted = awaited.counts.offered * 7 / 10;
    let excess_of = |lack, step: &StepRow| excess(&beside(lack, step));
    assert_eq!(excess_of(0.3, &awaited), Some(Shortfall::Accepted(0.7)));
    assert_eq!(excess_of(0.38, &awaited), Some(Shortfall::Starved(0.38)));
    // Half of the step is as good as all of it.
    let none = step(0, 300.0, 0.0, 0.0);
    assert_eq!(excess(&beside(0.49, &none)), Some(Shortfall::Accepted(0.0)));
    assert_eq!(excess(&beside(0.5, &none)), Some(Shortfall::Starved(0.5)));
    // The next step, whose transactions waited for those of the one before while the node took as many as fell due in it.
    let mut late = step(1, 300.0, 0.2, 0.2);
    late.counts.committed = late.counts.offered;
    let of = |steps: &[StepRow]| excesses(steps, TERMS)[1].unwrap().is_the_nodes();
    assert!(!of(&[beside(0.38, &most), late.clone()]));
    assert!(
        of(&[most.clone(), late.clone()]),
        "the node was too slow before"
    );
    late.counts.committed = late.counts.offered / 2;
    assert!(of(&[beside(0.38, &most), late]), "it is too slow now");
    // One step for which it had the processor is enough.
    let mut once = all(0.6);
    once[3].node_lack_s = 0.0;
    let knee = ramp(&once, TERMS).knee.unwrap();
    assert_eq!((knee.rate_tps, knee.below_tps), (200.0, Some(400.0)));
    // What fails in its block fails at any pace.
    let mut failing = step(0, 300.0, 0.5, 0.5);
    failing.cohort.due_accepted = failing.counts.offered;
    failing.cohort.due_commit_failed = failing.counts.offered - failing.cohort.due_committed;
    assert_eq!(
        excess(&beside(0.9, &failing)),
        Some(Shortfall::FailedInBlocks(0.5))
    );
}
