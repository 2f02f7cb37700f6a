//! Whether folders are parts of one load, and the manifest of the whole.

use super::part::MergeError;
use crate::format::document::FORMAT;
use crate::format::load_field::LoadField;
use crate::format::manifest::{EndpointInfo, Manifest};
use crate::format::plan_document::{LostPart, MergedPart, ShardName};

/// The manifest of the whole, if these folders (by name) are, with the lost ones, all the parts of one load.
///
/// # Errors
/// When one is missing, comes twice, or differs from the others in what must be the same: the
/// program's version, the schedule, the seed, the workload, the warm-up, the start.
pub fn merged_manifest(
    parts: &[(String, Manifest)],
    lost: &[LostPart],
) -> Result<Manifest, MergeError> {
    let Some(((first_name, first), others)) = parts.split_first() else {
        let none = "nothing to join; name the run folders of all generators";
        return Err(MergeError::Parts(none.to_owned()));
    };
    for (name, manifest) in parts {
        if manifest.plan.shard.of <= 1 {
            return Err(MergeError::Parts(format!(
                "{name} is a run of its own; only runs with --shard I/N are parts of one load"
            )));
        }
    }
    for (name, other) in others {
        for field in LoadField::of_one_load() {
            let (one, other) = (field.of(first), field.of(other));
            if one != other {
                let what = field.title();
                let [one, other] = [one, other].map(|it| it.unwrap_or_else(|| "not said".into()));
                return Err(MergeError::Parts(format!(
                    "{first_name} and {name} are not of one load: {what} is {one} in the first and {other} in the second"
                )));
            }
        }
        let [one, two] = [first, other].map(|it| it.plan.rows);
        if one != two {
            return Err(MergeError::Parts(format!(
                "{first_name} was played with --rows {one} and {name} with --rows {two}: what is merged keeps the same rows of both"
            )));
        }
        if first.origin_unix_ns != other.origin_unix_ns {
            let apart_ms = first.origin_unix_ns.abs_diff(other.origin_unix_ns) as f64 / 1e6;
            return Err(MergeError::Parts(format!(
                "{first_name} and {name} did not begin together ({apart_ms:.0} ms apart); give all generators the same --start-at"
            )));
        }
    }
    let shards = parts.iter();
    let shards = shards.map(|(name, manifest)| (name.clone(), manifest.plan.shard));
    let lost_shards = lost.iter().map(|part| (part.reason.clone(), part.shard));
    check_shards(&shards.chain(lost_shards).collect::<Vec<_>>())?;
    let mut whole = joined(first, parts);
    let missing: u64 = lost.iter().map(|part| part.planned).sum();
    whole.planned = whole.planned.map(|planned| planned + missing);
    whole.plan.lost = lost.to_vec();
    Ok(whole)
}

/// Refuses folders, by name, that are not all parts of one load, each once.
///
/// # Errors
/// When one is missing, or comes twice.
pub fn check_shards(parts: &[(String, ShardName)]) -> Result<(), MergeError> {
    let numbers: Vec<ShardName> = parts.iter().map(|(_, shard)| *shard).collect();
    for (place, number) in numbers.iter().enumerate() {
        if let Some(twin) = numbers[..place]
            .iter()
            .position(|earlier| earlier == number)
        {
            return Err(MergeError::Parts(format!(
                "{} and {} overlap: both are shard {number}",
                parts[twin].0, parts[place].0
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
    whole.format = FORMAT.into();
    whole.endpoints = endpoints(parts);
    whole.planned = parts.iter().map(|(_, manifest)| manifest.planned).sum();
    whole.plan.shard = ShardName::WHOLE;
    whole.plan.thresholds = thresholds(parts);
    let merged = parts.iter().map(|(name, manifest)| MergedPart {
        folder: name.clone(),
        shard: manifest.plan.shard,
        planned: manifest.planned,
        threads: manifest.plan.threads,
        connections: manifest.plan.connections,
        endpoints: urls(manifest).collect(),
        host: manifest.host.clone(),
        clock: None,
        fleet_clock: None,
        problem: None,
    });
    whole.plan.merged = merged.collect();
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

fn urls(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest
        .endpoints
        .iter()
        .map(|endpoint| endpoint.url.clone())
}

/// The conditions of all, each once: they were checked on a part, and the whole has to meet them, too.
fn thresholds(parts: &[(String, Manifest)]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in parts
        .iter()
        .flat_map(|(_, manifest)| &manifest.plan.thresholds)
    {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    all
}

const MISSING_NAMED: usize = 5;
