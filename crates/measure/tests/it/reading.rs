//! What a run writes comes back as it was, whole or cut off anywhere, and as
//! `docs/summary.schema.json` describes it.

use std::io::BufRead;

use measure::read::{HlogReader, ReadError, RowReader, TableRow, TxFate, TxReader};
use measure::{
    BlockRow, EndpointInfo, EvidenceKind, FORMAT, Host, Knee, LatencyKind, LimitedBy, Manifest,
    MergePart, NodeLimits, PlanDocument, RecorderConfig, SchedulePlan, ScheduleVerdict, SeriesRow,
    StepRow, Summary, rebuild,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{File, Folder, ORIGIN_UNIX_NS, constant, end, hash, ms, steady_run};

pub(crate) fn rows<T: TableRow>(bytes: &[u8]) -> Vec<T> {
    RowReader::new(bytes).unwrap().map(Result::unwrap).collect()
}

pub(crate) fn manifest() -> Manifest {
    Manifest {
        format: FORMAT.into(),
        version: "0.1.0".into(),
        command: vec!["txgen".into()],
        origin_unix_ns: ORIGIN_UNIX_NS,
        origin_error_ns: 0,
        started: "2026-11-20T00:00:00.123456789Z".into(),
        plan: PlanDocument {
            arrivals: Some("even".into()),
            ..PlanDocument::default()
        },
        profile: "1000/s for 3s".into(),
        planned: Some(3_000),
        seed: 1,
        endpoints: vec![EndpointInfo {
            url: "http://127.0.0.1:26657/".into(),
            chain_id: None,
            node_version: None,
            built_in: true,
        }],
        limits: NodeLimits::default(),
        host: Host {
            os: "Linux".into(),
            cpu: None,
            cpus: 2,
            memory_bytes: None,
            clock: None,
        },
    }
}

#[test]
fn the_tables_come_back_as_they_were_written() {
    let folder = Folder::new();
    let summary = steady_run(&folder).summary;
    let series: Vec<SeriesRow> = rows(&folder.series.bytes());
    assert_eq!(series.len(), 4);
    assert_eq!(series.iter().map(|row| row.counts.sent).sum::<u64>(), 3_000);
    assert_eq!(series[1].span_s, 1.0);
    assert_eq!(series[3].step, None);
    let steps: Vec<StepRow> = rows(&folder.steps.bytes());
    // The file has three decimals, the summary all of them.
    assert_eq!(steps[0].counts, summary.steps[0].counts);
    assert_eq!(steps[0].latency.accept_p99_ms, Some(2.0));
    let blocks: Vec<BlockRow> = rows(&folder.blocks.bytes());
    assert_eq!(blocks.len() as u64, summary.blocks.count);
    assert_eq!(blocks.iter().map(|row| row.own_txs).sum::<u64>(), 3_000);
}

#[test]
fn the_summary_and_the_manifest_come_back_as_they_were_written() {
    let summary = steady_run(&Folder::new()).summary;
    let mut text = Vec::new();
    summary.write_to(&mut text).unwrap();
    assert_eq!(Summary::read_from(&mut &text[..]).unwrap(), summary);
    let mut text = Vec::new();
    manifest().write_to(&mut text).unwrap();
    assert_eq!(Manifest::read_from(&mut &text[..]).unwrap(), manifest());
}

#[test]
fn transactions_come_back_one_by_one() {
    let folder = Folder::new();
    steady_run(&folder);
    let bytes = folder.txs.bytes();
    let mut reader = TxReader::new(&bytes[..]).unwrap();
    let mut count = 0;
    while let Some(row) = reader.next_row().unwrap() {
        assert_eq!(row.fate(), TxFate::Committed);
        assert_eq!(row.sent.as_nanos() - row.due.as_nanos(), 20_000);
        assert_eq!(
            row.accepted.unwrap().as_nanos() - row.due.as_nanos(),
            2_000_000
        );
        assert_eq!(
            row.send_unix_us,
            (ORIGIN_UNIX_NS + row.sent.as_nanos()) / 1_000
        );
        assert_eq!(
            (row.size, row.endpoint, row.step, row.code),
            (250, 0, 0, Some(0))
        );
        assert_eq!(row.txid.len(), 64);
        assert!(row.txid.ends_with(&format!("{:02X}", hash(count)[31])));
        count += 1;
    }
    assert_eq!(count, 3_000);
    assert!(!reader.is_torn());
}

#[test]
fn the_log_adds_up_to_the_latencies_of_the_summary() {
    let folder = Folder::new();
    let summary = steady_run(&folder).summary;
    let bytes = folder.hlog.bytes();
    let mut log = HlogReader::new(&bytes[..]);
    let sum = log.sum(0.0).unwrap().summary(log.censored());
    for (found, written) in [
        (&sum.accept_response, &summary.latency_ms.accept_response),
        (&sum.commit_from_due, &summary.latency_ms.commit_from_due),
        (&sum.lateness, &summary.latency_ms.lateness),
    ] {
        assert_eq!(
            (found.count, found.p50, found.p99_7),
            (written.count, written.p50, written.p99_7)
        );
        let (mean, exact) = (found.mean.unwrap(), written.mean.unwrap());
        assert!((mean - exact).abs() <= exact * 1e-3, "{mean} {exact}");
    }
    let bytes = folder.hlog.bytes();
    let mut log = HlogReader::new(&bytes[..]);
    let first = log.next_interval().unwrap().unwrap();
    assert_eq!(
        (first.kind, first.start_s, first.length_s),
        (LatencyKind::Lateness, 0.0, 1.0)
    );
    assert_eq!(first.histogram().unwrap().len(), 1_000);
}

#[test]
fn a_killed_run_is_summed_up_from_its_rows() {
    let folder = Folder::new();
    let whole = steady_run(&folder).summary;
    // Killed after two of its three seconds: no step had ended.
    folder.steps.cut(1);
    let summary = rebuilt(&folder, manifest(), 2);
    assert_eq!(summary.verdict.schedule, ScheduleVerdict::Degraded);
    assert!(summary.verdict.reasons[0].contains("killed"));
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!((summary.offered.planned, summary.fate.sent), (2_000, 2_000));
    assert_eq!(summary.fate.accepted, 1_998);
    assert_eq!(summary.fate.unanswered, 2);
    assert_eq!(summary.fate.committed + summary.fate.pending, 1_998);
    let anyway = summary.fate.committed_anyway.total();
    assert_eq!(summary.blocks.own_txs, summary.fate.committed + anyway);
    assert!(summary.fate.committed < whole.fate.committed);
    assert_eq!(summary.steps.len(), 1);
    assert_eq!(summary.steps[0].end_s, 2.0);
    assert_eq!(summary.time.offered_s, 2.0);
    assert_eq!(summary.rate.accepted_tps.unwrap().seconds, 2);
    // It may have ended because of what its rows do not say yet.
    assert_eq!(summary.limited_by, LimitedBy::Unknown);
    assert_eq!(summary.knee, None);
}

#[test]
fn what_the_rows_of_a_killed_run_show_is_not_unknown() {
    let folder = Folder::new();
    steady_run(&folder);
    folder.steps.cut(1);
    // Half of the second second's answers were refusals.
    let text = folder.series.text();
    let changed = text.replacen("1000,1000,0,1000,0,0", "1000,1000,0,500,500,0", 2);
    assert_ne!(text, changed);
    folder.series.set(&changed);
    let summary = rebuilt(&folder, manifest(), 2);
    assert_eq!(summary.limited_by, LimitedBy::Node);
}

/// The summary of a run that was killed after so many seconds.
pub(crate) fn rebuilt(folder: &Folder, manifest: Manifest, seconds: usize) -> Summary {
    folder.series.cut(seconds.saturating_add(1));
    let Folder {
        txs,
        series,
        steps,
        blocks,
        hlog,
        ..
    } = folder;
    let files = [txs, series, steps, blocks, hlog].map(|file| file.bytes());
    let [txs, series, steps, blocks, hlog] = files.each_ref().map(|bytes| &bytes[..]);
    let mut killed = MergePart {
        manifest,
        summary: None,
        series: RowReader::new(series).unwrap(),
        steps: RowReader::new(steps).unwrap(),
        blocks: RowReader::new(blocks).unwrap(),
        hlog: HlogReader::new(hlog),
        txs: Some(TxReader::new(txs).unwrap()),
        answers: Vec::new(),
    };
    rebuild(&mut killed).unwrap()
}

fn read_all<T: TableRow>(bytes: impl BufRead) -> Result<(usize, bool), ReadError> {
    let mut reader = RowReader::<_, T>::new(bytes)?;
    let mut count = 0;
    for row in reader.by_ref() {
        row?;
        count += 1;
    }
    Ok((count, reader.is_torn()))
}

const TXS_HEADER: &str = "txid,size,ts_send,ts_accept,ts_commit,ts_error,due_ns,sent_ns,accepted_ns,committed_ns,height,code,endpoint,step,codespace\n";

fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_rows(share in 0.0..1.0_f64) {
        let folder = Folder::new();
        steady_run(&folder);
        let cut = |file: &File| {
            let bytes = file.bytes();
            bytes[..(bytes.len() as f64 * share) as usize].to_vec()
        };
        for (bytes, found) in [
            (cut(&folder.series), read_all::<SeriesRow>(&cut(&folder.series)[..])),
            (cut(&folder.steps), read_all::<StepRow>(&cut(&folder.steps)[..])),
            (cut(&folder.blocks), read_all::<BlockRow>(&cut(&folder.blocks)[..])),
        ] {
            let (rows, torn) = found.unwrap();
            prop_assert_eq!(rows, whole_lines(&bytes).saturating_sub(1));
            prop_assert_eq!(torn, !bytes.is_empty() && !bytes.ends_with(b"\n"));
        }
        let txs = cut(&folder.txs);
        let mut reader = TxReader::new(&txs[..]).unwrap();
        let mut rows = 0;
        while reader.next_row().unwrap().is_some() {
            rows += 1;
        }
        prop_assert_eq!(rows, whole_lines(&txs).saturating_sub(1));
        let log = cut(&folder.hlog);
        let mut log = HlogReader::new(&log[..]);
        prop_assert!(log.sum(0.0).is_ok());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let with_header = |header: &str| [header.as_bytes(), &bytes].concat();
        let _ = read_all::<SeriesRow>(&bytes[..]);
        let _ = read_all::<SeriesRow>(&with_header(SeriesRow::HEADER)[..]);
        let _ = read_all::<StepRow>(&with_header(StepRow::HEADER)[..]);
        let _ = HlogReader::new(&with_header("Tag=lateness,0.0,1.0,0.1,")[..]).sum(0.0);
        let _ = Summary::read_from(&mut &bytes[..]);
        let txs = [TXS_HEADER.as_bytes(), &bytes].concat();
        let mut txs = TxReader::new(&txs[..]).unwrap();
        while let Ok(Some(_)) = txs.next_row() {}
    }
}

#[test]
fn errors_name_file_line_and_column() {
    let message = |error: ReadError| error.to_string();
    let header = BlockRow::HEADER;
    let bad = format!("{header}1,2,3,,5,6,7,8,,,0,,,\n1,2,x,,5,6,7,8,,,0,,,\n");
    let error = read_all::<BlockRow>(bad.as_bytes()).unwrap_err();
    assert_eq!(
        message(error),
        "blocks.csv, line 3, column observed_ns: \"x\" is not a whole number of this column's range"
    );
    let short = format!("{header}1,2\n");
    let error = read_all::<BlockRow>(short.as_bytes()).unwrap_err();
    assert_eq!(
        message(error),
        "blocks.csv, line 2: it has 2 fields where the first line names 14"
    );
    let error = read_all::<BlockRow>(&b"height,size\n1,2\n"[..]).unwrap_err();
    assert!(message(error).starts_with("blocks.csv has no column \"header_time_ns\""));
    let error = Summary::read_from(&mut &br#"{"format":"tidegate.run/3"}"#[..]).unwrap_err();
    assert!(message(error).contains("summary.json is of format \"tidegate.run/3\""));
}

/// Sums of them panicked, or wrapped where nothing checks: a table of tm-bench with 0 transactions.
#[test]
fn counts_that_sums_have_no_room_for_are_refused_and_times_may_be_any() {
    let row = |header_time: &str, txs: &str| {
        let text = format!(
            "{}1,{header_time},3,,{txs},6,7,8,,,0,,,\n",
            BlockRow::HEADER
        );
        read_all::<BlockRow>(text.as_bytes())
    };
    assert!(row("1795000000000000000", "9007199254740992").is_ok());
    for txs in ["9007199254740993", "18446744073709551615"] {
        let error = row("2", txs).unwrap_err().to_string();
        assert!(error.contains("column txs"), "{error}");
        assert!(error.ends_with("is not a whole number of this column's range"));
    }
    let folder = Folder::new();
    let summary = steady_run(&folder).summary;
    let text = serde_json::to_string(&summary).unwrap();
    let with = |sent: u64| {
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["fate"]["sent"] = sent.into();
        Summary::read_from(&mut document.to_string().as_bytes())
    };
    assert!(with(1 << 53).is_ok());
    let error = with(u64::MAX).unwrap_err().to_string();
    assert!(
        error.contains("18446744073709551615 is more than anything comes to"),
        "{error}"
    );
}

#[test]
fn columns_are_found_by_name_and_unknown_ones_passed_over() {
    let text = "new,bytes,height,header_time_ns,observed_ns,interval_ms,txs,own_txs,own_failed,commit_p50_ms,commit_max_ms\n\
                \"a, b\",8,1,2,3,4.5,5,6,7,,9\n";
    let blocks: Vec<BlockRow> = rows(text.as_bytes());
    assert_eq!(
        (blocks[0].height, blocks[0].bytes, blocks[0].interval_ms),
        (1, 8, Some(4.5))
    );
    assert_eq!(
        (blocks[0].commit_p50_ms, blocks[0].commit_max_ms),
        (None, Some(9.0))
    );
}

#[test]
fn a_code_keeps_its_name_space_and_folders_without_them_are_still_read() {
    let id = "AB".repeat(32);
    let old = format!(
        "txid,size,ts_send,ts_accept,ts_commit,ts_error,due_ns,sent_ns,accepted_ns,committed_ns,height,code,endpoint,step\n\
         {id},9,1763800000000.000,,,1763800000001.000,1,2,,,,32,0,0\n"
    );
    let new = old
        .replace(",step\n", ",step,codespace\n")
        .replace(",32,0,0\n", ",32,0,0,sdk\n");
    for (text, code) in [(old, "32"), (new, "sdk/32")] {
        let mut reader = TxReader::new(text.as_bytes()).unwrap();
        let row = reader.next_row().unwrap().unwrap();
        assert_eq!(row.code().unwrap().to_string(), code);
        assert_eq!(row.step, 0);
    }
}

/// A summary of the version before, whose evidence is in words.
#[test]
fn evidence_of_the_version_before_is_read_as_its_sentence() {
    let summary = steady_run(&Folder::new()).summary;
    let mut document = serde_json::to_value(&summary).unwrap();
    document["format"] = "tidegate.run/1".into();
    document["evidence"] = serde_json::json!([{
        "kind": "blocks_full", "points_to": "node", "strength": "strong", "txs": 9, "from_s": 1.0, "until_s": 2.0,
        "limit": 600, "endpoint": null, "text": "blocks were full"
    }]);
    let read = Summary::read_from(&mut document.to_string().as_bytes()).unwrap();
    let worded = EvidenceKind::Worded {
        was: "blocks_full".into(),
        text: "blocks were full".into(),
    };
    assert_eq!((&read.evidence[0].kind, read.evidence[0].txs), (&worded, 9));
}

const SCHEMA: &str = include_str!("../../../../docs/summary.schema.json");

fn validate(summary: &Summary) -> Value {
    let mut json = Vec::new();
    summary.write_to(&mut json).unwrap();
    assert_eq!(json.last(), Some(&b'\n'));
    let value: Value = serde_json::from_slice(&json).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    value
}

#[test]
fn a_steady_run_has_the_documented_shape() {
    let mut summary = steady_run(&Folder::new()).summary;
    validate(&summary);
    summary.knee = Some(Knee {
        rate_tps: 1_000.0,
        below_tps: Some(1_500.0),
        step: Some(0),
    });
    validate(&summary);
}

#[test]
fn an_empty_run_has_the_documented_shape() {
    let folder = Folder::new();
    let config = RecorderConfig::new(ORIGIN_UNIX_NS, 1, 1);
    let recorder = folder.recorder(config, SchedulePlan::new(constant("1/s", "1s")));
    validate(&recorder.finish(end(0, ms(0), ms(0))).summary);
}

#[test]
fn the_schema_refuses_what_is_not_documented() {
    let mut value = validate(&steady_run(&Folder::new()).summary);
    value["surprise"] = Value::Bool(true);
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(!jsonschema::is_valid(&schema, &value));
}

#[test]
fn a_summary_reads_back_as_it_was_written() {
    let summary = steady_run(&Folder::new()).summary;
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
}

#[test]
fn a_manifest_reads_back_as_it_was_written() {
    let text = r#"{"format":"tidegate.run/1","version":"0.1.0","command":["txgen","constant"],
        "origin_unix_ns":1795132800123456789,"started":"2026-11-20T00:00:00.123Z",
        "plan":{"rate":"1000/s"},"profile":"constant 1000/s for 3s","planned":3000,"seed":7,
        "endpoints":[{"url":"http://127.0.0.1:26657","chain_id":"tide","node_version":null,"built_in":true}],
        "host":{"os":"Linux 6.1","cpu":null,"cpus":2,"memory_bytes":null}}"#;
    let manifest: Manifest = serde_json::from_str(text).unwrap();
    let mut json = Vec::new();
    manifest.write_to(&mut json).unwrap();
    assert_eq!(serde_json::from_slice::<Manifest>(&json).unwrap(), manifest);
}

/// The files as version 1 of the format has always written them.
#[test]
fn the_tables_keep_their_bytes() {
    let folder = Folder::new();
    steady_run(&folder);
    assert_eq!(
        folder.series.text(),
        "second,span_s,step,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,in_flight,backlog,mempool_txs,mempool_bytes,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p99_ms,mark,generator_cpu,unverified,mempool_min,mempool_max,at_least,silent,signs\n\
             0,1.000,0,1000,1000,0,998,0,0,1000,0,2,2,0,,,0.020,0.020,2.000,2.000,1.980,1.980,249.430,494.404,,,0,,,,,3ff/2/0\n\
             1,1.000,0,1000,1000,0,1000,0,0,1000,0,2,2,0,,,0.020,0.020,2.000,2.000,1.980,1.980,249.430,494.404,,,0,,,,,3ff/2/0\n\
             2,1.000,0,1000,1000,0,1000,0,0,1000,0,2,2,0,,,0.020,0.020,2.000,2.000,1.980,1.980,249.430,494.404,,,0,,,,,3ff/2/0\n\
             3,1.000,,0,0,0,2,0,0,0,0,2,0,0,,,,,2.000,2.000,1.980,1.980,,,,,0,,,,,1/0/0\n"
    );
    assert_eq!(
        folder.steps.text(),
        "step,start_s,end_s,rate_tps,pause,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,offered_tps,sent_tps,accepted_tps,committed_tps,late_schedule,late_source,late_connection,late_node,in_flight,in_flight_growth,backlog,backlog_growth,mempool_txs,lateness_p50_ms,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p95_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p95_ms,commit_p99_ms,unverified,at_least,due_sent,due_unsent,due_accepted,due_refused,due_committed,due_commit_failed,due_unverified,awaited_s,answer_gap_s,block_gap_s,again_of,due_behind,due_crowded,due_held_up,node_lack_s\n\
             0,0.000,3.000,1000.000,0,3000,3000,0,2998,0,0,3000,0,6,1000.000,1000.000,999.333,1000.000,0,0,0,0,2,2,0,0,,0.020,0.020,0.020,2.000,2.000,2.000,1.980,1.980,249.430,474.481,494.404,0,,3000,0,3000,0,3000,0,0,1.000,0.000,0.400,,0,0,0,0.000\n"
    );
    assert!(
        folder.blocks.text().starts_with(
            "height,header_time_ns,observed_ns,interval_ms,txs,own_txs,own_failed,bytes,commit_p50_ms,commit_max_ms,own_unverified,resolution_ms,gas_wanted,gas_used\n\
             1,1795132800622756789,499300000,,500,500,0,1000,249.300,499.300,0,,,\n\
             2,1795132801122756789,999300000,500.000,500,500,0,1000,249.300,499.300,0,,,\n"
        )
    );
}
