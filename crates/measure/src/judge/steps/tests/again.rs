//! Steps that stalled and are offered a second time.

use super::*;

/// A ramp whose step 2 stalls, with its second offering behind step 3.
fn again(kind: char) -> Vec<StepRow> {
    let mut steps = ramp_of(&['g', 'g', 's', 'g', kind, 'g']);
    let (rate_tps, offered_as) = (steps[2].rate_tps, steps[2].step);
    let (start_s, end_s) = (steps[4].start_s, steps[4].end_s);
    steps[4] = StepRow {
        step: 4,
        again_of: Some(offered_as),
        start_s,
        end_s,
        ..match kind {
            'g' => step(2, rate_tps, 1.0, 1.0),
            's' => stalled(2, rate_tps, 4.0),
            _ => step(2, rate_tps, 1.0, 0.7),
        }
    };
    steps
}

#[test]
fn a_step_that_stalled_is_asked_for_again_and_one_that_was_too_much_is_not() {
    let asked = |kinds: &[char]| ramp(&ramp_of(kinds), TERMS).again;
    assert_eq!(asked(&['g', 'g', 's', 'g']), Some(2));
    assert_eq!(asked(&['g', 's', 's', 'g']), Some(1));
    assert_eq!(asked(&['g', 'g', 'x', 'x']), None);
    assert_eq!(asked(&['g', 'g', 'g']), None);
    for kind in ['g', 's', 'x'] {
        assert_eq!(ramp(&again(kind), TERMS).again, None, "{kind}");
    }
}

#[test]
fn a_step_is_judged_by_how_it_went_when_it_was_offered_again() {
    let judgement = ramp(&again('g'), TERMS);
    assert!(!judgement.saturated);
    assert_eq!(
        judgement.reason,
        "every step was sustained, except step 2 (stall of 4.0 s; sustained when it was offered again): the \
         knee lies above the highest rate offered"
    );
    assert_eq!(again('g')[4].name(), "2 again");
    // Its rate is its own, not that of the step before it in time.
    let judgement = ramp(&again('g')[..5], TERMS);
    assert!(judgement.knee.is_none(), "{judgement:?}");
}

#[test]
fn a_step_that_fails_twice_ends_the_ramp_and_is_said_to_have() {
    for (kind, words) in [
        ('s', "60.0 % of offered was accepted"),
        ('x', "70.0 % of offered was committed"),
    ] {
        let steps = again(kind);
        assert!(!ramp(&steps[..4], TERMS).saturated);
        let judgement = ramp(&steps[..5], TERMS);
        assert!(judgement.saturated);
        let twice =
            "except step 2 (stall of 4.0 s; not sustained when it was offered again, either)";
        assert!(judgement.reason.contains(twice), "{}", judgement.reason);
        // Nothing above it was sustained: it is the limit, and the reason is that of the second time.
        let alone = [&steps[..3], &steps[4..5]].concat();
        let judgement = ramp(&alone, TERMS);
        let knee = judgement.knee.unwrap();
        // Where less was committed at 300/s than at 200/s, that is all that is known of the capacity.
        let least = least(&steps[1], &steps[4]);
        assert_eq!((knee.rate_tps, knee.below_tps), (least, Some(300.0)));
        let limit = format!("at 300/s only {words}");
        assert!(judgement.reason.contains(&limit), "{}", judgement.reason);
        assert!(judgement.reason.ends_with("when it was offered again"));
    }
}
