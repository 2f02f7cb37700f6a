//! The plan, the targets, the machine.

use std::fmt::Write as _;

use super::RunReport;
use crate::text::{escape, grouped};

pub(super) fn section(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let mut html = String::from("<dl>");
    let mut entry = |name: &str, value: &str| {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    };
    entry("command", &manifest.command.join(" "));
    entry("profile", &manifest.profile);
    entry("started", &manifest.started);
    entry("seed", &manifest.seed.to_string());
    for endpoint in &manifest.endpoints {
        let mut value = endpoint.url.clone();
        if let Some(chain) = &endpoint.chain_id {
            let _ = write!(value, ", chain {chain}");
        }
        if let Some(version) = &endpoint.node_version {
            let _ = write!(value, ", version {version}");
        }
        if endpoint.built_in {
            value.push_str(", the built-in node");
        }
        entry("endpoint", &value);
    }
    if let Some(plan) = manifest.plan.as_object() {
        for (name, value) in plan {
            if let Some(value) = plain(value) {
                entry(&name.replace('_', " "), &value);
            }
        }
    }
    let host = &manifest.host;
    entry("machine", &machine(host));
    entry("program", &format!("txgen {}", manifest.version));
    entry("format", &manifest.format);
    html.push_str("</dl>");
    html
}

/// The machine in one line.
fn machine(host: &measure::Host) -> String {
    let mut text = format!("{} processors", host.cpus);
    if let Some(cpu) = &host.cpu {
        let _ = write!(text, ", {cpu}");
    }
    if let Some(bytes) = host.memory_bytes {
        let _ = write!(text, ", {} MiB", grouped(bytes / (1024 * 1024)));
    }
    let _ = write!(text, ", {}", host.os);
    text
}

/// A value of the plan as people write it; nothing for what was not set.
fn plain(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) if text.is_empty() => None,
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Bool(true) => Some("yes".to_owned()),
        serde_json::Value::Bool(false) => Some("no".to_owned()),
        serde_json::Value::Array(values) if values.is_empty() => None,
        serde_json::Value::Array(values) => {
            let values: Vec<String> = values.iter().filter_map(plain).collect();
            Some(values.join(", "))
        }
        other => Some(other.to_string()),
    }
}
