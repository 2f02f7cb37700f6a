//! How the follower learns the codes of executed transactions.

use super::*;

#[tokio::test]
async fn results_that_come_late_are_waited_for() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.refuse_results = 3);
    node.grow([10]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(1).await;
    check_blocks(&following.stop().await, 1, &[10]);
}

#[tokio::test]
async fn results_that_never_come_are_named() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.refuse_results = u32::MAX);
    node.grow([10, 10]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    let unavailable =
        |event: &FollowEvent| matches!(event, FollowEvent::CodesUnavailable { height: 1, .. });
    following.until(unavailable).await;
    following.until_height(2).await;
    let blocks = following.stop().await;
    assert_eq!(blocks.len(), 2);
    assert!(
        blocks
            .iter()
            .all(|block| !block.codes_known && block.hashes.len() == 10)
    );
}

/// The heights whose results were asked for by a follower of these blocks.
async fn results_asked(node: &FakeNode, counts: &[usize]) -> (Vec<u64>, Vec<FollowedBlock>) {
    node.grow(counts.iter().copied());
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following.until_height(counts.len() as u64).await;
    let blocks = following.stop().await;
    (node.change(|chain| chain.results_asked.clone()), blocks)
}

#[tokio::test]
async fn the_next_header_shows_that_all_of_a_large_block_succeeded() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.succeed = true);
    let (asked, blocks) = results_asked(&node, &[65, 1_000, 3, 4_097, 0]).await;
    assert_eq!(asked, [3], "only the results of the small block");
    assert!(
        blocks
            .iter()
            .all(|block| block.codes_known && block.codes.is_empty())
    );
}

#[tokio::test]
async fn the_results_are_asked_for_when_the_next_header_shows_a_failure() {
    let node = FakeNode::with_blocks();
    let (asked, blocks) = results_asked(&node, &[65, 1_000, 3, 0]).await;
    assert_eq!(asked, [1, 2, 3]);
    check_blocks(&blocks, 1, &[65, 1_000, 3, 0]);
}

#[tokio::test]
async fn the_results_of_the_last_block_of_a_chain_are_asked_for_without_a_next_header() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.succeed = true);
    let (asked, blocks) = results_asked(&node, &[65]).await;
    assert_eq!(asked, [1]);
    assert!(blocks[0].codes_known);
}

#[tokio::test]
async fn results_in_an_unknown_form_are_named_at_once_and_no_transaction_counts_as_successful() {
    let node = FakeNode::with_blocks();
    node.change(|chain| chain.results_name = "results_of_transactions");
    node.grow([7, 2]);
    let mut following = Following::start(&node.url(), options(Height::At(1)));
    following
        .until(|event| match event {
            FollowEvent::CodesUnavailable { height: 1, reason } => {
                assert!(
                    reason.contains("neither txs_results nor results.DeliverTx"),
                    "{reason}"
                );
                assert!(reason.contains("block_results in another form"), "{reason}");
                true
            }
            _ => false,
        })
        .await;
    // Without results only the next header can tell, and it shows a failure.
    node.grow([0]);
    following.until_height(3).await;
    let asked = node.change(|chain| chain.results_asked.clone());
    assert_eq!(asked, [1], "asked once");
    let blocks = following.stop().await;
    let codes = |block: &FollowedBlock| block.txs().map(|(_, code)| code).collect::<Vec<_>>();
    assert_eq!(codes(&blocks[0]), [None; 7]);
    assert_eq!(
        codes(&blocks[1]),
        [Some(0); 2],
        "shown by the header of block 3"
    );
}
