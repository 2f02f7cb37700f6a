//! Several generators, one load: each sends its part of one schedule, from one instant on.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Node, Place, RunFolder};

/// A little ahead, in seconds since 1970.
fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = now + Duration::from_millis(1500);
    format!("{}.{:03}", start.as_secs(), start.subsec_millis())
}

fn ids(run: &RunFolder) -> BTreeSet<String> {
    run.table("txs.csv")
        .column("txid")
        .map(Into::into)
        .collect()
}

#[test]
fn two_halves_are_the_whole_transaction_for_transaction() {
    let node = Node::quick();
    let place = Place::new();
    let load = format!(
        "--rate 301/s --duration 1s --seed 7 --connections 2 --drain-timeout 10s --endpoints {}",
        node.url()
    );
    let start = soon();
    let halves = ["1/2", "2/2"].map(|shard| {
        let out = shard.replace('/', "-");
        place.start(&format!(
            "constant {load} --threads {} --shard {shard} --start-at {start} --out {out}",
            &shard[..1]
        ))
    });
    let [first, second] = halves.map(|half| half.wait());
    let (one, two) = (place.run("1-2"), place.run("2-2"));
    first.expect_done(&one.summary());
    second.expect_done(&two.summary());
    one.summary().assert_all_committed(151);
    two.summary().assert_all_committed(150);
    let origin = |run: &RunFolder| run.manifest()["origin_unix_ns"].as_u64().unwrap();
    assert_eq!(origin(&one), origin(&two));

    let whole = Node::quick();
    let load = load.replace(&node.url(), &whole.url());
    let alone = place.txgen(&format!("constant {load} --out whole"));
    let run = place.run("whole");
    alone.expect_done(&run.summary());
    let (one, two) = (ids(&one), ids(&two));
    assert!(one.is_disjoint(&two));
    assert_eq!(one.union(&two).cloned().collect::<BTreeSet<_>>(), ids(&run));
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let place = Place::new();
    let target = "--endpoints http://127.0.0.1:9";
    for (line, phrase) in [
        (
            format!("constant --rate 1 --shard 1/2 {target}"),
            "--shard needs --seed",
        ),
        (
            "constant --rate 1 --shard 1/2 --seed 1".into(),
            "--shard needs --endpoints",
        ),
        (
            format!("flood --count 10 --shard 1/2 --seed 1 {target}"),
            "a flood has none",
        ),
        (
            format!("ramp --shard 2/2 --seed 1 {target}"),
            "give the ramp a --to",
        ),
        (
            format!("constant --rate 1 --shard 3/2 --seed 1 {target}"),
            "they count from 1 to 2",
        ),
        (
            format!("constant --rate 1 --start-at soon {target}"),
            "write RFC 3339",
        ),
        (
            format!("constant --rate 1 --start-at 1000 {target}"),
            "has passed",
        ),
        (
            format!("constant --rate 1 --start-at 9000000000 {target}"),
            "hours ahead",
        ),
    ] {
        place.txgen(&line).expect(2).says(phrase).says_it_once();
    }
}
