//! What a judge found in a gossip network, in sentences.

use measure::{Evidence, EvidenceKind, MeshEvidence};

use crate::text::grouped;

/// A piece of evidence in a sentence; empty where it is none of a gossip network.
#[must_use]
pub fn mesh_evidence_text(evidence: &Evidence) -> String {
    let EvidenceKind::Mesh(found) = evidence.kind else {
        return String::new();
    };
    match found {
        MeshEvidence::EntriesMissing {
            node,
            seen,
            offered,
        } => format!(
            "node {node} saw {} new entries, of {} offered in that second",
            grouped(seen),
            grouped(offered)
        ),
        MeshEvidence::QueueFull { node } => {
            format!(
                "node {node} dropped {} parcels at full queues",
                grouped(evidence.txs)
            )
        }
        MeshEvidence::OfferShort {
            offered,
            planned,
            late_ms,
        } => offer_short(offered, planned, late_ms),
        MeshEvidence::NodeEnded { node } => {
            format!(
                "node {node} ended at {:.1} s",
                evidence.from_s.unwrap_or_default()
            )
        }
        MeshEvidence::Outage { node } => outage(node, evidence),
        MeshEvidence::RateReached {
            node,
            bytes_per_s,
            limit_bytes_per_s,
        } => {
            let wrote = wrote(bytes_per_s, limit_bytes_per_s);
            format!("node {node} {wrote} that it may write")
        }
        MeshEvidence::SwitchFull {
            bytes_per_s,
            limit_bytes_per_s,
        } => {
            let wrote = wrote(bytes_per_s, limit_bytes_per_s);
            format!("all nodes together {wrote} that the switch carries")
        }
        MeshEvidence::CpuFull {
            node,
            cpus,
            limit_cpus,
        } => format!("the CPU of node {node}: {cpus:.2} of the {limit_cpus:.2} that it has"),
        MeshEvidence::MachineFull {
            cpus,
            busy,
            others,
            stolen,
            waited_s,
        } => {
            let others = others.map_or_else(String::new, |others| {
                format!("{others:.2} of them by programs that are not of the mesh, ")
            });
            format!(
                "the CPUs of the machine: {busy:.2} of {cpus:.0} busy, {others}{stolen:.2} stolen by other guests; \
                 the nodes together waited {waited_s:.2} s for a CPU in a second"
            )
        }
    }
}

fn wrote(bytes_per_s: f64, limit_bytes_per_s: f64) -> String {
    let [wrote, limit] = [bytes_per_s, limit_bytes_per_s].map(|bytes| bytes / 1e6);
    format!("wrote {wrote:.2} MB/s of the {limit:.2} MB/s")
}

fn outage(node: u16, evidence: &Evidence) -> String {
    let from = evidence.from_s.unwrap_or_default();
    let txs = grouped(evidence.txs);
    match evidence.until_s {
        Some(until) => format!(
            "node {node} saw no new entry for {:.0} s, of {txs} offered, and recovered",
            until - from
        ),
        None => format!("node {node} saw no new entry until the load was over, of {txs} offered"),
    }
}

/// `late_ms` is there of a second, and not of the whole load.
fn offer_short(offered: u64, planned: u64, late_ms: Option<f64>) -> String {
    let (offered, planned) = (grouped(offered), grouped(planned));
    match late_ms {
        Some(late_ms) => format!(
            "the generator offered {offered} of {planned} transactions in that second, p99 of the lateness {late_ms:.0} ms"
        ),
        None => format!(
            "the generator had offered {offered} of {planned} transactions when the load was over"
        ),
    }
}

/// What gave first in a gossip network, by its name in bold between `**`.
#[must_use]
pub fn mesh_gave_first(cause: Option<&Evidence>) -> String {
    let Some(EvidenceKind::Mesh(found)) = cause.map(|cause| &cause.kind) else {
        return "**what gave first cannot be told**".into();
    };
    let name = match found {
        MeshEvidence::EntriesMissing { node, .. }
        | MeshEvidence::NodeEnded { node }
        | MeshEvidence::Outage { node } => format!("node {node}"),
        MeshEvidence::QueueFull { node } => format!("a queue of node {node}"),
        MeshEvidence::OfferShort { .. } => "the generator".into(),
        MeshEvidence::RateReached { node, .. } => format!("the link of node {node}"),
        MeshEvidence::SwitchFull { .. } => "the switch".into(),
        MeshEvidence::CpuFull { node, .. } => format!("the CPU of node {node}"),
        MeshEvidence::MachineFull { .. } => "the CPUs of the machine".into(),
    };
    format!("**{name}** gave first")
}

/// What gave first in a gossip network: what was at its limit when the first symptom began, if anything was.
#[must_use]
pub fn mesh_limit_text(cause: Option<&Evidence>) -> String {
    let Some(cause) = cause else {
        return "cannot tell: no CPU, link, queue or generator was at its limit".into();
    };
    match cause.kind {
        EvidenceKind::Mesh(MeshEvidence::OfferShort { .. }) => {
            "the generator itself, while no CPU and no link was at its limit".into()
        }
        EvidenceKind::Mesh(MeshEvidence::QueueFull { .. }) => {
            "a queue, while no CPU and no link was at its limit: it is short for the bursts, or a peer does not read"
                .into()
        }
        _ => mesh_evidence_text(cause),
    }
}

#[cfg(test)]
mod tests {
    use measure::{LimitedBy, Strength};

    use super::*;

    /// The one place that holds the wording.
    #[test]
    fn each_kind_of_evidence_has_its_sentence() {
        let kinds = [
            MeshEvidence::EntriesMissing {
                node: 2,
                seen: 900,
                offered: 1000,
            },
            MeshEvidence::QueueFull { node: 2 },
            MeshEvidence::OfferShort {
                offered: 900,
                planned: 1000,
                late_ms: Some(120.4),
            },
            MeshEvidence::OfferShort {
                offered: 900,
                planned: 1000,
                late_ms: None,
            },
            MeshEvidence::NodeEnded { node: 2 },
            MeshEvidence::Outage { node: 2 },
            MeshEvidence::RateReached {
                node: 2,
                bytes_per_s: 950_000.0,
                limit_bytes_per_s: 1e6,
            },
            MeshEvidence::SwitchFull {
                bytes_per_s: 950_000.0,
                limit_bytes_per_s: 1e6,
            },
            MeshEvidence::CpuFull {
                node: 2,
                cpus: 0.99,
                limit_cpus: 1.0,
            },
            MeshEvidence::MachineFull {
                cpus: 2.0,
                busy: 1.98,
                others: Some(0.78),
                stolen: 0.0,
                waited_s: 1.5,
            },
        ];
        let evidence = kinds.map(|found| Evidence {
            kind: EvidenceKind::Mesh(found),
            points_to: LimitedBy::Node,
            strength: Strength::Strong,
            txs: 7_000,
            from_s: Some(4.7),
            until_s: Some(24.7),
        });
        let names = evidence.each_ref().map(|it| mesh_gave_first(Some(it)));
        assert_eq!(
            names,
            [
                "**node 2** gave first",
                "**a queue of node 2** gave first",
                "**the generator** gave first",
                "**the generator** gave first",
                "**node 2** gave first",
                "**node 2** gave first",
                "**the link of node 2** gave first",
                "**the switch** gave first",
                "**the CPU of node 2** gave first",
                "**the CPUs of the machine** gave first",
            ]
        );
        assert_eq!(
            evidence.each_ref().map(mesh_evidence_text),
            [
                "node 2 saw 900 new entries, of 1,000 offered in that second",
                "node 2 dropped 7,000 parcels at full queues",
                "the generator offered 900 of 1,000 transactions in that second, p99 of the lateness 120 ms",
                "the generator had offered 900 of 1,000 transactions when the load was over",
                "node 2 ended at 4.7 s",
                "node 2 saw no new entry for 20 s, of 7,000 offered, and recovered",
                "node 2 wrote 0.95 MB/s of the 1.00 MB/s that it may write",
                "all nodes together wrote 0.95 MB/s of the 1.00 MB/s that the switch carries",
                "the CPU of node 2: 0.99 of the 1.00 that it has",
                "the CPUs of the machine: 1.98 of 2 busy, 0.78 of them by programs that are not of the mesh, 0.00 \
                 stolen by other guests; the nodes together waited 1.50 s for a CPU in a second",
            ]
        );
    }
}
