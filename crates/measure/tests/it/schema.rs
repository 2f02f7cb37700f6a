//! `docs/summary.schema.json` against the summaries of runs.

use measure::{Knee, Manifest, RecorderConfig, SchedulePlan, Summary};
use serde_json::Value;

use crate::support::{Folder, ORIGIN_UNIX_NS, constant, end, ms, steady_run};

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
