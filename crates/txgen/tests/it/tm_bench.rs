//! `txgen tm-bench`: the old flags, the old table, and a count that holds.

use serde_json::Value;

use crate::support::{Node, Place};

#[test]
fn the_table_counts_what_is_in_the_chain() {
    let node = Node::quick();
    let place = Place::new();
    let address = node.url().replace("http://", "");
    let ended = place.txgen(&format!(
        "tm-bench -T 2 -r 50 -c 2 -s 100 -broadcast-tx-method sync -output-format=json \
         --window 21 --out bench {address}"
    ));
    let run = place.run("bench");
    ended.ends_as_judged(0, &run.summary());
    ended.says("50 a second on each of 2 connections is 100 a second in all");
    let printed: Value = serde_json::from_str(&ended.out).unwrap();
    let in_chain = node.committed().len() as u64;
    assert_eq!(in_chain, 200);
    let total = printed["txs_total"].as_u64().unwrap();
    let avg = printed["txs_per_sec_avg"].as_f64().unwrap();
    // What is committed after the time is over is not in the table.
    assert!(total <= 200, "{ended}");
    assert!((avg - total as f64 / 2.0).abs() < 1e-9, "{ended}");
    assert!(printed["window"]["txs_total"].as_u64().unwrap() <= total);
}

#[test]
fn the_plain_table_is_the_old_one() {
    let place = Place::new();
    let ended = place.txgen("tm-bench -T 1 -r 20 --out bench --window 21");
    ended.ends_as_judged(0, &place.run("bench").summary());
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines[0].starts_with("Stats          Avg"), "{ended}");
    assert!(lines[1].starts_with("Txs/sec "), "{ended}");
    assert!(lines[2].starts_with("Blocks/sec "), "{ended}");
    ended.prints("of the newest 21 blocks alone");
}

#[test]
fn what_tm_bench_did_not_know_is_refused() {
    let place = Place::new();
    place
        .txgen("tm-bench -broadcast-tx-method slowly 127.0.0.1:1")
        .expect(2);
    place.txgen("tm-bench -T 0 127.0.0.1:1").expect(2);
    place
        .txgen("tm-bench -r 4000000000 -c 4000000000 127.0.0.1:1")
        .expect(2);
}
