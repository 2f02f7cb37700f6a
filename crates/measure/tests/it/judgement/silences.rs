//! Stretches without an answer or a block: of the node, of one of its endpoints, of the generator itself.

use measure::{
    Cause, EvidenceKind, Failure, LimitedBy, Reply, ScheduleVerdict, Summary, UnsentReason, judge,
};

use super::story::{Course, ENDPOINTS, Story, accepted_at, every_second, first, found, ramp};
use crate::support::constant;

#[test]
fn a_node_that_freezes_in_a_ramp_is_what_limited_it() {
    // From 12 s on no answer; after 13 s the sockets take nothing, and at 20 s the ramp ends.
    let story = Story::of(ramp(4), |_, due| match due {
        0..12_000 => accepted_at(due),
        12_000..13_000 => Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: None,
        },
        _ => Course::Unsent {
            at: 20_000,
            reason: UnsentReason::Stopped,
        },
    });
    let story = Story {
        ended: 50_000,
        ..story
    };
    let summary = story.with_blocks(every_second(12), usize::MAX).summary();
    assert_eq!(summary.limited_by, LimitedBy::Node);
    let silence = found(&summary, "no_answers").unwrap();
    assert_eq!((silence.from_s, silence.until_s), (Some(12.0), Some(50.0)));
    assert_eq!(
        summary.knee.unwrap().rate_tps,
        200.0,
        "{}",
        summary.knee_reason
    );
}

#[test]
fn a_pause_of_the_generator_is_no_silence_of_the_node() {
    // The generator stands still from 4 s to 8 s, and catches up.
    let story = Story::of(constant("200/s", "12s"), |_, due| {
        let stalled = (4_000..8_000).contains(&due);
        let at = if stalled { 8_000 } else { due };
        Course::Sent {
            at,
            cause: if stalled {
                Cause::Schedule
            } else {
                Cause::OnTime
            },
            answer: Some((at + 2, Reply::Accepted)),
        }
    });
    let blocks: Vec<u64> = every_second(14)
        .filter(|at| !(4_000..8_000).contains(at))
        .collect();
    let story = Story {
        stall: 4_000,
        ..story.with_blocks(blocks, usize::MAX)
    };
    let summary = story.summary();
    assert_eq!(summary.limited_by, LimitedBy::Schedule);
    assert_eq!(found(&summary, "no_answers"), None);
    assert_eq!(found(&summary, "no_blocks"), None);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Invalid);
}

/// 200/s for 15 s; from 5 s to 9 s there is no block, or there are neither blocks nor answers.
pub(super) fn standing_still(answers: bool) -> Summary {
    let is_still = |at: &u64| (5_000..9_000).contains(at);
    let story = Story::of(constant("200/s", "15s"), |_, due| {
        if is_still(&due) && !answers {
            Course::Sent {
                at: due,
                cause: Cause::OnTime,
                answer: Some((9_002, Reply::Accepted)),
            }
        } else {
            accepted_at(due)
        }
    });
    let blocks: Vec<u64> = every_second(17).filter(|at| !is_still(at)).collect();
    story.with_blocks(blocks, usize::MAX).summary()
}

#[test]
fn a_node_that_stands_still_for_a_while_is_what_limited_the_run() {
    for (answers, wanted) in [(true, "no_blocks"), (false, "no_answers")] {
        let summary = standing_still(answers);
        assert_eq!(summary.limited_by, LimitedBy::Node);
        assert_eq!(first(&summary), wanted, "{:?}", summary.evidence);
    }
}

/// 200/s for 20 s, every second transaction to each of two endpoints. What is sent to the second one from
/// 8 s on, at most eight at a time as over eight connections, is answered as `course` has it; the rest goes
/// to the first one.
fn second_endpoint_from_8_s(course: fn(u64) -> Course) -> Story {
    let story = Story::of(constant("200/s", "20s"), move |index, due| {
        if is_of_the_second(index) && index >= 1_600 {
            course(due)
        } else {
            accepted_at(due)
        }
    });
    Story {
        endpoint: |index| u16::from(is_of_the_second(index)),
        ..story.with_blocks(every_second(22), usize::MAX)
    }
}

/// Eight in each five seconds from 8 s on.
fn is_of_the_second(index: u64) -> bool {
    index % 2 == 1 && (index < 1_600 || (index - 1_600) % 1_000 < 16)
}

fn chain_of_causes(summary: &Summary) -> Vec<String> {
    let onsets = judge::onsets(&summary.evidence);
    onsets.iter().map(ToString::to_string).collect()
}

#[test]
fn one_of_two_endpoints_that_freezes_for_good_is_named_and_since_when() {
    let never = |due| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: None,
    };
    let summary = second_endpoint_from_8_s(never).summary();
    let silent = found(&summary, "endpoint_silent").unwrap();
    let endpoint = ENDPOINTS[1].to_owned();
    assert_eq!(silent.kind, EvidenceKind::EndpointSilent { endpoint });
    assert_eq!((silent.from_s, silent.until_s), (Some(8.0), Some(22.0)));
    assert_eq!(silent.txs, 24);
    assert_eq!(
        chain_of_causes(&summary),
        ["no answer of 10.0.0.2:26657 for 14.0 s from 8 s"]
    );
    assert_eq!(found(&summary, "no_answers"), None);
}

#[test]
fn requests_that_are_given_up_and_sent_anew_do_not_end_the_silence_of_an_endpoint() {
    // Given up after 4 s; the connections are open again a second later.
    let given_up = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 4_000, Reply::Failed(Failure::Timeout))),
    };
    let summary = second_endpoint_from_8_s(given_up).summary();
    let silent = found(&summary, "endpoint_silent").unwrap();
    assert_eq!((silent.from_s, silent.until_s), (Some(8.0), Some(22.1)));
}

#[test]
fn an_endpoint_that_is_slow_is_not_called_silent() {
    let slow = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 4_000, Reply::Accepted)),
    };
    let summary = second_endpoint_from_8_s(slow).summary();
    assert_eq!(found(&summary, "endpoint_silent"), None);
    assert_eq!(chain_of_causes(&summary), [""; 0]);
}

/// `"result": null` to every request, a millisecond later: it was said to have given no answer for two seconds.
#[test]
fn an_endpoint_whose_answers_are_unusable_is_not_called_silent() {
    let unusable = |due: u64| Course::Sent {
        at: due,
        cause: Cause::OnTime,
        answer: Some((due + 150, Reply::Failed(Failure::Malformed))),
    };
    let summary = second_endpoint_from_8_s(unusable).summary();
    assert_eq!(found(&summary, "endpoint_silent"), None);
    assert_eq!(summary.fate.errors, 24);
}

#[test]
fn an_endpoint_that_gets_no_requests_is_not_called_silent() {
    let story = Story::of(constant("200/s", "20s"), |_, due| accepted_at(due));
    let story = Story {
        endpoint: |index| u16::from(index % 2 == 1 && index < 1_600),
        ..story.with_blocks(every_second(22), usize::MAX)
    };
    assert_eq!(story.summary().evidence, []);
}

#[test]
fn endpoints_that_are_silent_together_are_the_whole_target() {
    let story = Story::of(constant("200/s", "20s"), |_, due| match due {
        0..8_000 => accepted_at(due),
        _ => Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: None,
        },
    });
    let story = Story {
        endpoint: |index| u16::from(index % 2 == 1),
        ..story.with_blocks(every_second(22), usize::MAX)
    };
    let summary = story.summary();
    assert!(found(&summary, "no_answers").is_some());
    assert_eq!(found(&summary, "endpoint_silent"), None);
}
