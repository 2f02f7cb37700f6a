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

/// The same from columns as from text, by everything that needs each row.
#[cfg(feature = "parquet")]
#[test]
fn columns_serve_wherever_every_row_is_needed() {
    let place = Place::new();
    played(&place, "all");
    played(&place, "parquet");
    let file = place.path().join("parquet");
    assert!(file.join("txs.parquet").exists() && !file.join("txs.csv").exists());
    place
        .txgen("report parquet --format bep23")
        .expect(0)
        .prints("300");
    // Without answers.csv the report counts the rows.
    fs::remove_file(file.join("answers.csv")).unwrap();
    place.txgen("report parquet --format md").expect(0);
    fs::remove_file(file.join("summary.json")).unwrap();
    place
        .txgen("report parquet --format md")
        .expect(0)
        .prints("300");
    fs::write(file.join("txs.parquet"), "PAR1 and no end").unwrap();
    place
        .txgen("report parquet --format md")
        .says("of a run that was killed it has no end, and series.csv is what is left");
}

/// Columns of two generators become columns of the whole.
#[cfg(feature = "parquet")]
#[test]
fn runs_with_columns_are_merged() {
    let place = Place::new();
    let node = Node::quick();
    let start = std::time::SystemTime::now() + std::time::Duration::from_secs(6);
    let start = start
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let line = |part: u32| {
        format!(
            "constant --rate 100/s --duration 1s --seed 7 --drain-timeout 10s --endpoints {} --rows parquet \
             --shard {part}/2 --start-at {start} --out part-{part}",
            node.url()
        )
    };
    let parts = [place.start(&line(1)), place.start(&line(2))];
    for part in parts {
        let ended = part.wait();
        assert!(matches!(ended.code, Some(0 | 98)), "{}", ended.err);
    }
    let merged = place.txgen("merge part-1 part-2 --out whole");
    assert!(matches!(merged.code, Some(0 | 98)), "{}", merged.err);
    assert!(place.path().join("whole/txs.parquet").exists());
    place
        .txgen("report whole --format bep23")
        .expect(0)
        .prints("100");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_columns_says_how_to_get_one_with_them() {
    let place = Place::new();
    place
        .txgen("constant --rows parquet --rate 1/s --duration 1s")
        .expect(2)
        .says("build it with --features parquet");
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
