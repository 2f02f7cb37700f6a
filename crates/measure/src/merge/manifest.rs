//! Whether folders are parts of one load, and the manifest of the whole.

use serde_json::{Value, json};

use super::MergeError;
use crate::manifest::{EndpointInfo, Manifest};

/// A part's position among its fellows: I of N, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartName {
    /// I.
    pub number: u32,
    /// N.
    pub of: u32,
}

impl PartName {
    /// As the manifest of a run has it; 1 of 1 where it has none.
    pub fn of(manifest: &Manifest) -> Self {
        let text = manifest.plan.get("shard").and_then(Value::as_str);
        let numbers = text.and_then(|text| {
            let (number, of) = text.split_once('/')?;
            Some((number.parse().ok()?, of.parse().ok()?))
        });
        let (number, of) = numbers.unwrap_or((1, 1));
        Self { number, of }
    }
}

/// The manifest of the whole, if these folders (by name) are all the parts of one load.
///
/// # Errors
/// When one is missing, comes twice, or differs from the others in what must be the same: the
/// program's version, the schedule, the seed, the workload, the warm-up, the start.
pub fn merged_manifest(parts: &[(String, Manifest)]) -> Result<Manifest, MergeError> {
    let Some(((first_name, first), others)) = parts.split_first() else {
        let none = "nothing to join; name the run folders of all generators";
        return Err(MergeError::Parts(none.to_owned()));
    };
    for (name, manifest) in parts {
        if PartName::of(manifest).of <= 1 {
            return Err(MergeError::Parts(format!(
                "{name} is a run of its own; only runs with --shard I/N are parts of one load"
            )));
        }
    }
    for (name, other) in others {
        for (what, of) in SAME {
            let (one, other) = (of(first), of(other));
            if one != other {
                let (one, other) = (words(&one), words(&other));
                return Err(MergeError::Parts(format!(
                    "{first_name} and {name} are not of one load: {what} is {one} in the first and {other} in the second"
                )));
            }
        }
        if first.origin_unix_ns != other.origin_unix_ns {
            let apart_ms = first.origin_unix_ns.abs_diff(other.origin_unix_ns) as f64 / 1e6;
            return Err(MergeError::Parts(format!(
                "{first_name} and {name} did not begin together ({apart_ms:.0} ms apart); give all generators the same --start-at"
            )));
        }
    }
    check_complete(parts)?;
    Ok(joined(first, parts))
}

fn check_complete(parts: &[(String, Manifest)]) -> Result<(), MergeError> {
    let numbers: Vec<PartName> = parts
        .iter()
        .map(|(_, manifest)| PartName::of(manifest))
        .collect();
    for (place, number) in numbers.iter().enumerate() {
        if let Some(twin) = numbers[..place]
            .iter()
            .position(|earlier| earlier == number)
        {
            return Err(MergeError::Parts(format!(
                "{} and {} overlap: both are shard {}/{}",
                parts[twin].0, parts[place].0, number.number, number.of
            )));
        }
    }
    let of = numbers.first().map_or(0, |part| part.of);
    let missing: Vec<String> = (1..=of)
        .filter(|number| numbers.iter().all(|part| part.number != *number))
        .map(|number| format!("{number}/{of}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown = missing.len().min(MISSING_NAMED);
    let more = match missing.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let missing = missing[..shown].join(", ") + &more;
    Err(MergeError::Parts(format!(
        "shards are missing: {missing}; name the run folders of all {of} generators"
    )))
}

fn joined(first: &Manifest, parts: &[(String, Manifest)]) -> Manifest {
    let mut whole = first.clone();
    whole.endpoints = endpoints(parts);
    whole.planned = parts.iter().map(|(_, manifest)| manifest.planned).sum();
    whole.plan["shard"] = Value::from("1/1");
    whole.plan["thresholds"] = thresholds(parts);
    whole.plan["merged"] = parts
        .iter()
        .map(|(name, manifest)| {
            json!({
                "folder": name,
                "shard": manifest.plan["shard"],
                "planned": manifest.planned,
                "threads": manifest.plan["threads"],
                "connections": manifest.plan["connections"],
                "endpoints": manifest.endpoints.iter().map(|endpoint| &endpoint.url).collect::<Vec<_>>(),
                "host": manifest.host,
            })
        })
        .collect();
    whole
}

/// All endpoints, each once.
fn endpoints(parts: &[(String, Manifest)]) -> Vec<EndpointInfo> {
    let mut all: Vec<EndpointInfo> = Vec::new();
    for endpoint in parts.iter().flat_map(|(_, manifest)| &manifest.endpoints) {
        if all.iter().all(|known| known.url != endpoint.url) {
            all.push(endpoint.clone());
        }
    }
    all
}

/// The conditions of all, each once: they were checked on a part, and the whole has to meet them, too.
fn thresholds(parts: &[(String, Manifest)]) -> Value {
    let of_part = |(_, manifest): &(String, Manifest)| of_plan(manifest, "thresholds");
    let mut all: Vec<Value> = Vec::new();
    for text in parts
        .iter()
        .map(of_part)
        .filter_map(|it| it.as_array().cloned())
        .flatten()
    {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    Value::from(all)
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "not said".into(),
        value => value.to_string(),
    }
}

fn of_plan(manifest: &Manifest, key: &str) -> Value {
    manifest.plan.get(key).cloned().unwrap_or_default()
}

/// What the manifests of one load have in common.
type Common = (&'static str, fn(&Manifest) -> Value);

const SAME: [Common; 11] = [
    ("the format", |m| m.format.as_str().into()),
    ("the version of txgen", |m| m.version.as_str().into()),
    ("the number of generators", |m| PartName::of(m).of.into()),
    ("the load", |m| m.profile.as_str().into()),
    ("the schedule", |m| of_plan(m, "schedule")),
    ("the arrivals", |m| of_plan(m, "arrivals")),
    ("the seed", |m| m.seed.into()),
    ("the workload", |m| of_plan(m, "workload")),
    ("the broadcast method", |m| of_plan(m, "method")),
    ("the warm-up", |m| of_plan(m, "warmup")),
    ("the chain", |m| {
        let chain = m
            .endpoints
            .first()
            .and_then(|endpoint| endpoint.chain_id.clone());
        chain.map_or(Value::Null, Value::from)
    }),
];
const MISSING_NAMED: usize = 5;
