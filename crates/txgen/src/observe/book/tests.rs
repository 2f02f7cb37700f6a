use rpc::HeaderTime;

use super::*;
use crate::chains::TargetKind;

fn book() -> Book<Vec<u8>> {
    let tables = Tables {
        nodes: Vec::new(),
        sights: Vec::new(),
    };
    let nodes = ["a=http://a:1", "b=http://b:1"].map(|node| node.parse().unwrap());
    Book::new(
        &nodes,
        "bitcoin".parse::<TargetKind>().unwrap().facts(),
        tables,
    )
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_sampled_transaction_is_awaited_at_each_node_until_that_one_shows_it() {
    let mut book = book();
    book.sent([7; 32], Nanos::from_secs(1));
    book.sent([8; 32], Nanos::from_secs(1));
    let has = HashSet::from([[7; 32]]);
    book.seen(
        0,
        Nanos::from_millis(1_100),
        Some(Nanos::from_millis(200)),
        &has,
    );
    let now = Nanos::from_millis(1_200);
    assert_eq!(book.awaited(0, now), [[8; 32]]);
    assert_eq!(book.awaited(1, now).len(), 2);
    book.seen(1, Nanos::from_millis(3_000), None, &has);
    let sights = lines(&book.tables.sights);
    assert!(
        sights[0].starts_with("tx,0707")
            && sights[0].ends_with("a,1100000000,200.000,,,1000000000,"),
        "{sights:?}"
    );
    assert!(
        sights[1].ends_with("b,3000000000,,,,1000000000,"),
        "{sights:?}"
    );
    let end = book.finish(Nanos::from_secs(5));
    assert!(
        end.lines[1].contains("of 2 sampled transactions 1 seen"),
        "{end:?}"
    );
}

/// A load that is not ours: what is sampled follows from the hash, so that every observer samples the same.
#[test]
fn what_a_node_shows_without_a_load_of_ours_is_sampled_by_hash_and_has_one_sight_at_each_node() {
    let mut book = book();
    let hash = |number: u16| {
        let mut hash = [9; 32];
        hash[..2].copy_from_slice(&number.to_le_bytes());
        hash
    };
    let all: Vec<TxHash> = (0..640).map(hash).collect();
    book.shown(0, Nanos::from_secs(1), None, all[..320].to_vec());
    book.shown(0, Nanos::from_secs(2), None, all.clone());
    book.shown(1, Nanos::from_secs(3), Some(Nanos::from_millis(250)), all);
    let sights = lines(&book.tables.sights);
    let of = |node: &str| -> Vec<String> {
        let sights = sights.iter().filter(|sight| sight.contains(node));
        sights.map(|sight| sight[..67].to_owned()).collect()
    };
    assert_eq!((of(",a,").len(), of(",a,")), (10, of(",b,")));
    assert!(
        sights[19].ends_with("b,3000000000,250.000,,,,"),
        "{}",
        sights[19]
    );
    let end = book.finish(Nanos::from_secs(4));
    assert!(
        end.lines[0].contains("of 10 sampled transactions 10 seen"),
        "{end:?}"
    );
}

#[test]
fn a_process_that_ended_is_told_of_with_the_gaps() {
    let mut book = book();
    for number in 0..20 {
        book.process(1, format!("process {number} ended"));
    }
    let end = book.finish(Nanos::from_secs(4));
    assert_eq!((end.gaps.len(), &*end.gaps[0]), (16, "process 0 ended"));
}

#[test]
fn a_second_has_a_row_with_its_own_blocks_and_the_last_depth() {
    let mut book = book();
    let block = FollowedBlock {
        hash: None,
        height: 5,
        header_time: HeaderTime::default(),
        observed: Nanos::from_millis(400),
        resolution: None,
        hashes: vec![[1; 32], [2; 32]],
        codes: Vec::new(),
        codespaces: Vec::new(),
        codes_known: false,
        gas: None,
        bytes: 700,
        proposer: String::new(),
    };
    let depth = |txs| {
        Some(Mempool {
            txs,
            bytes: txs * 300,
        })
    };
    for (millis, txs) in [(10, 10), (20, 30), (30, 20)] {
        book.mempool(0, Nanos::from_millis(millis), depth(txs));
    }
    book.mempool(0, Nanos::from_millis(900), None);
    book.block(0, &block);
    book.close(0, 0, |row| row.cpu = Some(1.5));
    book.close(0, 1, |_| ());
    let rows = lines(&book.tables.nodes);
    assert_eq!(
        rows[0],
        "0,a,4,3,5,20,6000,1,2,700,1000.000,1.500,,,,,,,,,,,10,30,,,,,"
    );
    assert_eq!(rows[1], "1,a,0,0,5,,,0,0,0,,,,,,,,,,,,,,,,,,,");
    assert_eq!(
        lines(&book.tables.sights),
        ["block,5,a,400000000,,700,2,,5"]
    );
    // The page shows the rows' most: what no row has is not told by the terminal either.
    book.mempool(0, Nanos::from_millis(2_100), depth(99));
    let end = book.finish(Nanos::from_millis(2_200));
    assert!(end.lines[0].contains("up to 30 in its mempool"), "{end:?}");
}

#[test]
fn a_node_that_vanishes_and_returns_is_told_of_and_one_that_stays_is_not() {
    let mut book = book();
    let depth = Some(Mempool { txs: 0, bytes: 0 });
    for second in 0..10 {
        let at = Nanos::from_secs(second);
        book.mempool(0, at, depth);
        book.mempool(1, at, depth.filter(|_| !(3..7).contains(&second)));
    }
    let end = book.finish(Nanos::from_secs(10));
    assert_eq!(
        end.gaps,
        [
            "the observed node b gave no answer from 3.0 s until 7.0 s: its figures are missing there"
        ]
    );
}

fn numbered(number: u32) -> TxHash {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    hash
}

#[test]
fn transactions_that_no_node_shows_are_dropped_the_oldest_first_and_counted() {
    let mut book = book();
    for number in 0..3_000_u32 {
        book.sent(numbered(number), Nanos::from_millis(number.into()));
    }
    let asked: Vec<_> = (0..8)
        .flat_map(|_| book.awaited(0, Nanos::from_secs(4)))
        .collect();
    let kept: Vec<_> = (3_000 - 2_048..3_000).map(numbered).collect();
    assert_eq!(asked, kept);
    // Also when the questions have moved the oldest.
    book.awaited(0, Nanos::from_secs(4));
    book.sent(numbered(3_000), Nanos::from_secs(5));
    let end = book.finish(Nanos::from_secs(6));
    assert!(
        end.lines[0].contains("of 3,001 sampled transactions 0 seen"),
        "{end:?}"
    );
    assert!(!book.nodes[0].awaited.iter().any(|it| it.hash == kept[0]));
}

/// Before, the oldest 256 filled every question: what a node had refused kept all later ones from being asked for.
#[test]
fn what_a_node_will_never_have_keeps_no_other_from_being_asked_for() {
    let mut book = book();
    for number in 0..600 {
        book.sent(numbered(number), Nanos::ZERO);
    }
    let late = numbered(599);
    let asked = (1..=5).map(|turn| {
        let asked = book.awaited(0, Nanos::from_millis(100 * turn));
        asked.contains(&late)
    });
    assert!(asked.eq([false, false, true, false, true]));
    // It may have come since it was asked for before.
    book.held(0, Nanos::from_millis(510), &HashSet::from([late]));
    let sights = lines(&book.tables.sights);
    assert!(sights[0].contains("a,510000000,210.000,"), "{sights:?}");
    // One that was not asked for before: since it was sent.
    let new = numbered(600);
    book.sent(new, Nanos::from_millis(700));
    // A question without an answer counts for nothing.
    while !book.awaited(0, Nanos::from_millis(750)).contains(&new) {}
    book.unanswered(0, Nanos::from_millis(750));
    while !book.awaited(0, Nanos::from_millis(800)).contains(&new) {}
    book.held(0, Nanos::from_millis(850), &HashSet::from([new]));
    let sights = lines(&book.tables.sights);
    assert!(sights[1].contains("a,850000000,150.000,"), "{sights:?}");
}
