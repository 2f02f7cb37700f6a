//! Whom refusals and failures point to: a transaction is refused for what it is whenever that begins, and for the node's
//! sake, too.

use measure::{Cause, Codespace, Failure, LimitedBy, Reply, Summary};

use super::story::{Course, Story, accepted_at, every_second, found, healthy};
use crate::support::constant;

fn sdk(code: u32) -> Reply {
    let space = Codespace::named("sdk");
    Reply::Rejected { code, space }
}

const FULL: Reply = Reply::RpcError { code: -32_603 };
const BEHIND_A_GAP: Reply = Reply::Failed(Failure::SequenceBroken);

/// From the sixth of ten seconds on one in two has the next one of these answers.
fn from_the_sixth_second(replies: &[Reply]) -> Summary {
    let story = Story::of(constant("200/s", "10s"), |index, due| {
        if due < 6_000 || index % 2 == 0 {
            return accepted_at(due);
        }
        let reply = replies[(index / 2) as usize % replies.len()];
        Course::Sent {
            at: due,
            cause: Cause::OnTime,
            answer: Some((due + 2, reply)),
        }
    });
    story.with_blocks(every_second(12), usize::MAX).summary()
}

/// Accounts that ran dry in mid-run were "limited by the node"; the same refusals from the first second on were not.
#[test]
fn what_is_refused_for_what_it_is_points_to_the_workload_whenever_it_begins() {
    let rpc = |code| Reply::RpcError { code };
    let by = |reply| from_the_sixth_second(&[reply]).limited_by;
    // No funds, out of gas, an application's own code, another's name space, a double spend.
    for reply in [sdk(5), sdk(11), Reply::rejected(7), rpc(-26), rpc(-27)] {
        assert_eq!(by(reply), LimitedBy::Workload, "{reply:?}");
    }
    // No room, a lost predecessor, a price that rose, an input that is gone, a fault, a limit in front of the node.
    for reply in [
        FULL,
        sdk(20),
        sdk(32),
        sdk(13),
        sdk(39),
        rpc(-25),
        rpc(-32_005),
        Reply::Rejected {
            code: 26,
            space: Codespace::named("mempool"),
        },
    ] {
        assert_eq!(by(reply), LimitedBy::Node, "{reply:?}");
    }
}

#[test]
fn of_two_kinds_of_refusals_the_greater_part_counts() {
    let by = |replies: &[Reply]| from_the_sixth_second(replies).limited_by;
    assert_eq!(by(&[sdk(5), sdk(5), FULL]), LimitedBy::Workload);
    assert_eq!(by(&[sdk(5), FULL, FULL]), LimitedBy::Node);
}

/// An account without funds breaks its sequences, and so does a full mempool.
#[test]
fn what_only_follows_from_a_refusal_points_to_where_that_does() {
    for (cause, limited_by) in [(sdk(5), LimitedBy::Workload), (FULL, LimitedBy::Node)] {
        let gap = [BEHIND_A_GAP; 3];
        let summary = from_the_sixth_second(&[cause, gap[0], gap[1], gap[2]]);
        assert_eq!(summary.limited_by, limited_by, "{:?}", summary.evidence);
        let behind = found(&summary, "no_usable_answer").unwrap();
        assert_eq!((behind.points_to, behind.txs), (limited_by, 300));
    }
    // No answer at all follows from nothing.
    let silent = from_the_sixth_second(&[sdk(5), Reply::Failed(Failure::Timeout)]);
    let unanswered = found(&silent, "no_usable_answer").unwrap();
    assert_eq!(unanswered.points_to, LimitedBy::Node);
}

#[test]
fn what_fails_in_its_block_for_what_it_is_points_to_the_workload() {
    let failing = |code, space| {
        let story = Story {
            code,
            space: Codespace::named(space),
            ..healthy()
        };
        story.summary().limited_by
    };
    assert_eq!(failing(7, ""), LimitedBy::Workload);
    assert_eq!(failing(5, "sdk"), LimitedBy::Workload);
    // The one before it was lost.
    assert_eq!(failing(32, "sdk"), LimitedBy::Node);
}
