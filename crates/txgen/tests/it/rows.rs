//! Runs that keep the rows of some transactions, or of none.

use std::fs;

use crate::support::{Node, Place, RunFolder};

/// The same 300 transactions, with so many of their rows kept.
fn played(place: &Place, rows: &str) -> RunFolder {
    let node = Node::quick();
    let out = rows.replace([':', '/'], "-");
    let ended = place.txgen(&format!(
        "constant --rate 300/s --duration 1s --seed 7 --drain-timeout 10s --endpoints {} --rows {rows} --out {out}",
        node.url()
    ));
    let run = place.run(&out);
    ended.ends_as_judged(0, &run.summary());
    run.summary().assert_all_committed(300);
    run
}

#[test]
fn the_account_is_of_all_transactions_whatever_rows_are_kept() {
    let place = Place::new();
    let all = played(&place, "all");
    let sample = played(&place, "sample:1/10");
    let none = played(&place, "none");
    let ids = |run: &RunFolder| -> Vec<String> {
        run.table("txs.csv")
            .column("txid")
            .map(Into::into)
            .collect()
    };
    // The seed decides what is sent, and the hash what is kept: the rows of a sample are among all.
    let (every, some) = (ids(&all), ids(&sample));
    assert_eq!(every.len(), 300);
    assert!((5..80).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|id| every.contains(id)));
    assert!(!place.path().join("none/txs.csv").exists());
    for (run, name) in [(&all, "all"), (&sample, "sample-1-10"), (&none, "none")] {
        let answered: u64 = run.table("answers.csv").numbers("txs").into_iter().sum();
        assert_eq!(answered, 300, "{name}");
        let page = fs::read_to_string(place.path().join(name).join("report.html")).unwrap();
        assert!(page.contains("<h2"), "{name}");
        place
            .txgen(&format!("report {name} --format md"))
            .expect(0)
            .prints("300");
    }
    assert_eq!(none.manifest()["plan"]["rows"], "none");
}

#[test]
fn what_needs_every_row_says_so() {
    let place = Place::new();
    played(&place, "sample:1/10");
    let told = "was played with --rows sample:1/10: play it again with --rows all";
    for line in [
        "merge sample-1-10 sample-1-10 --out whole",
        "report sample-1-10 --format bep23",
    ] {
        let ended = place.txgen(line);
        assert!(ended.code != Some(0), "{line}");
        ended.says(told);
    }
    // Killed before its summary: its figures would have to come from the rows.
    fs::remove_file(place.path().join("sample-1-10/summary.json")).unwrap();
    place.txgen("report sample-1-10").says(told);
    place
        .txgen("constant --rows some")
        .expect(2)
        .says("sample:1/100");
}
