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
    assert_eq!(book.awaited(0), [[8; 32]]);
    assert_eq!(book.awaited(1).len(), 2);
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

#[test]
fn transactions_that_no_node_shows_are_dropped_the_oldest_first_and_counted() {
    let mut book = book();
    for number in 0..3_000_u32 {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_be_bytes());
        book.sent(hash, Nanos::ZERO);
    }
    assert_eq!(book.awaited(0).len(), 256);
    assert_eq!(book.awaited(0)[0][..4], (3_000_u32 - 2_048).to_be_bytes());
    let end = book.finish(Nanos::from_secs(1));
    assert!(
        end.lines[0].contains("of 3,000 sampled transactions 0 seen"),
        "{end:?}"
    );
}

/// Two miners' blocks at one height are two blocks, and the one that loses is known by its name.
#[test]
fn blocks_of_one_height_are_told_apart_and_what_leaves_the_chain_is_recorded() {
    let mut book = book();
    let arrival = |name: u8, at| Arrival {
        hash: [name; 32],
        height: 5,
        at: Nanos::from_millis(at),
        ..Arrival::default()
    };
    book.arrived(0, &arrival(1, 100));
    book.arrived(1, &arrival(2, 110));
    book.arrived(1, &arrival(1, 400));
    book.left(1, Nanos::from_millis(900), 5, &[[2; 32]]);
    // What is delivered has a sight since it arrived.
    let delivered = FollowedBlock {
        hash: Some([1; 32]),
        height: 5,
        ..FollowedBlock::default()
    };
    book.block(0, &delivered);
    let sights = lines(&book.tables.sights);
    let of = |sight: &String| {
        let fields: Vec<&str> = sight.split(',').collect();
        (
            fields[0].to_owned(),
            fields[1][..2].to_owned(),
            fields[2].to_owned(),
            fields[8].to_owned(),
        )
    };
    let kinds: Vec<_> = sights.iter().map(of).collect();
    let row = |kind: &str, id: &str, node: &str| (kind.into(), id.into(), node.into(), "5".into());
    assert_eq!(
        kinds,
        [
            row("block", "01", "a"),
            row("block", "02", "b"),
            row("block", "01", "b"),
            row("left", "02", "b")
        ]
    );
}
