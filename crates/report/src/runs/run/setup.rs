//! The plan, the targets, the machine.

use serde_json::Value;

use super::RunReport;
use crate::Entries;
use crate::text::grouped;

pub(super) fn section(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let mut entries = Entries::default();
    entries.add("command", manifest.command.join(" "));
    entries.add("profile", &*manifest.profile);
    entries.add("started", &*manifest.started);
    entries.add("seed", manifest.seed.to_string());
    for endpoint in &manifest.endpoints {
        let chain = endpoint.chain_id.as_ref();
        let version = endpoint.node_version.as_ref();
        let parts = [
            Some(endpoint.url.clone()),
            chain.map(|chain| format!("chain {chain}")),
            version.map(|version| format!("version {version}")),
            endpoint.built_in.then(|| "the built-in node".to_owned()),
        ];
        entries.add("endpoint", joined(parts));
    }
    let plan = serde_json::to_value(&manifest.plan).unwrap_or_default();
    for (name, value) in plan.as_object().into_iter().flatten() {
        if let Some(value) = plain(value) {
            entries.add(&name.replace('_', " "), value);
        }
    }
    let host = &manifest.host;
    let memory = host.memory_bytes.map(|bytes| bytes / (1024 * 1024));
    let machine = [
        Some(format!("{} processors", host.cpus)),
        host.cpu.clone(),
        memory.map(|mib| format!("{} MiB", grouped(mib))),
        Some(host.os.clone()),
    ];
    entries.add("machine", joined(machine));
    entries.add("program", format!("txgen {}", manifest.version));
    entries.add("format", &*manifest.format);
    entries.html()
}

fn joined(parts: [Option<String>; 4]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A value of the plan as people write it; nothing for what was not set.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().filter_map(plain).collect();
            (!values.is_empty()).then(|| values.join(", "))
        }
        other => Some(other.to_string()),
    }
}
