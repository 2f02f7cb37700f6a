//! Evidence in sentences: the only place that words what a judge of `measure` found.

use measure::{
    Evidence, EvidenceKind, LateOrUnsent, LimitedBy, Stage, StageEvidence, Summary, code_title,
};

use super::mesh::mesh_evidence_text;
use crate::text::{count, grouped};

/// What held a load back: its name, a colon, and what that means.
#[must_use]
pub const fn limit_text(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Nothing => "nothing: the node kept up with what was offered",
        LimitedBy::Unknown => "unknown: too little was seen to tell",
        LimitedBy::Schedule => {
            "schedule: the generator did not get the processor in time, or its rows were not written"
        }
        LimitedBy::Source => "source: transactions were not ready in time",
        LimitedBy::Connection => {
            "connection: all were busy or down; more --connections may carry more"
        }
        LimitedBy::Concurrency => {
            "concurrency: each transaction waited for an answer; more --concurrency may carry more"
        }
        LimitedBy::Workload => "workload: the target refuses it for what it is, not for its rate",
        LimitedBy::Node => "node: it pushed back, refused, or did not commit what it accepted",
    }
}

/// A piece of evidence of a run in a sentence.
#[must_use]
pub fn evidence_text(summary: &Summary, evidence: &Evidence) -> String {
    let of_stretch = of_stretch(evidence);
    let is_unrecorded = summary.recorder.unrecorded_ms > 0;
    let text = of_stretch.or_else(|| of_lateness(&evidence.kind, is_unrecorded));
    text.unwrap_or_else(|| of_counts(summary, evidence))
}

/// Of what lasted for a time, or was full.
fn of_stretch(evidence: &Evidence) -> Option<String> {
    let txs = grouped(evidence.txs);
    let from_s = evidence.from_s.unwrap_or_default();
    let until_s = evidence.until_s.unwrap_or_default();
    let silence = |sign: &str, waiting: &str| {
        format!("no {sign} from {from_s:.1} s to {until_s:.1} s while up to {txs} {waiting} waited")
    };
    Some(match &evidence.kind {
        EvidenceKind::NoAnswers => silence("answer", "due or sent transactions"),
        EvidenceKind::NoBlocks => silence("block", "accepted transactions"),
        EvidenceKind::EndpointSilent { endpoint } => format!(
            "{endpoint} gave no answer from {from_s:.1} s to {until_s:.1} s while up to {txs} requests to it waited"
        ),
        EvidenceKind::Refused => match evidence.from_s {
            Some(from_s) => format!("{txs} refused from {from_s:.0} s on"),
            None => format!("{txs} refused"),
        },
        EvidenceKind::BlocksFull { limit } => format!(
            "blocks were full at {} transactions from {from_s:.1} s on, while up to {txs} waited",
            grouped(*limit)
        ),
        EvidenceKind::BlocksOutOfGas { limit, block_txs } => format!(
            "blocks had no gas for another transaction (block.max_gas {}) at {} transactions from {from_s:.1} s on, \
             while up to {txs} waited",
            grouped(*limit),
            grouped(*block_txs)
        ),
        EvidenceKind::MempoolFull { limit } => format!(
            "the mempool did not grow beyond {} transactions, reached at {from_s:.0} s, when refusals began",
            grouped(*limit)
        ),
        _ => return None,
    })
}

/// Of what left late or not at all.
fn of_lateness(kind: &EvidenceKind, is_unrecorded: bool) -> Option<String> {
    let (LateOrUnsent { late, unsent }, why) = match kind {
        EvidenceKind::HeldUpByNode(found) => {
            (found, "while answers took long or sockets took nothing")
        }
        EvidenceKind::ShortOfConnections(found) => {
            (found, "while all connections were busy or down")
        }
        EvidenceKind::ScheduleLate(found) if is_unrecorded => {
            (found, "because the disk did not take the rows in time")
        }
        EvidenceKind::ScheduleLate(found) => {
            (found, "because the generator's threads did not run in time")
        }
        EvidenceKind::SourceLate(found) => (found, "because transactions were not ready"),
        _ => return None,
    };
    Some(format!(
        "{} left more than 1 ms late and {} not at all {why}",
        grouped(*late),
        grouped(*unsent)
    ))
}

/// Of everything else, with figures of the summary.
fn of_counts(summary: &Summary, evidence: &Evidence) -> String {
    let txs = grouped(evidence.txs);
    match &evidence.kind {
        EvidenceKind::LostAfterAccept { blocks } => format!(
            "{txs} accepted transactions were lost: none of the last {blocks} blocks contains one of this run, \
             although they had room"
        ),
        EvidenceKind::FailedInBlocks => failed(summary),
        EvidenceKind::Backlog => {
            let mean = |stats: Option<measure::RateStats>| stats.map_or(0.0, |stats| stats.mean);
            let (accepted, committed) = (summary.rate.accepted_tps, summary.rate.committed_tps);
            format!(
                "accepted {}/s and committed {}/s: {txs} were in no block when the offering ended",
                count(mean(accepted)),
                count(mean(committed))
            )
        }
        EvidenceKind::Pending { all_seen, checked } => pending(summary, &txs, *all_seen, *checked),
        EvidenceKind::NoUsableAnswer => unusable(summary, &txs),
        EvidenceKind::StepsFailed {
            failed,
            steps,
            rate_tps,
            excess,
        } => format!(
            "steps not sustained: {failed} of {steps}, the first at {}/s: {excess}",
            count(*rate_tps)
        ),
        EvidenceKind::SerialStage(found) => stage(found),
        EvidenceKind::ClosedLoop => {
            "each transaction waited for an answer: answers and --concurrency set the rate".into()
        }
        EvidenceKind::EndedEarly => {
            let interrupted = if summary.interrupted {
                "interrupted: "
            } else {
                ""
            };
            format!(
                "{interrupted}the offering ended at {:.1} s; {txs} of what was due had not been sent by the end",
                summary.time.offered_s
            )
        }
        EvidenceKind::Worded { text, .. } => text.clone(),
        EvidenceKind::Mesh(_) => mesh_evidence_text(evidence),
        other => format!("{other:?}"),
    }
}

fn failed(summary: &Summary) -> String {
    let fate = &summary.fate;
    let codes = fate.commit_failed_by_code.iter().take(MAX_CODES);
    let codes: Vec<String> = codes
        .map(|(code, count)| format!("{} {}", grouped(*count), code_title(code)))
        .collect();
    let codes = if codes.is_empty() {
        "another code than 0".to_owned()
    } else {
        codes.join(", ")
    };
    format!(
        "{} failed in their blocks ({codes})",
        grouped(fate.commit_failed)
    )
}

fn pending(summary: &Summary, txs: &str, all_seen: bool, checked: bool) -> String {
    let drained_s = (summary.time.ended_s - summary.time.offered_s).max(0.0);
    let seen = if all_seen {
        ""
    } else {
        " that was seen (not all were)"
    };
    let checked = if checked {
        ""
    } else {
        "; nothing says that they passed the node's check"
    };
    format!(
        "{txs} accepted transactions were in no block{seen} {drained_s:.1} s after the last one was due{checked}"
    )
}

fn unusable(summary: &Summary, txs: &str) -> String {
    let fate = &summary.fate;
    let kinds = fate.errors_by_kind.iter().filter(|(_, count)| **count > 0);
    let kinds: String = kinds
        .map(|(kind, count)| format!(", {kind} {}", grouped(*count)))
        .collect();
    format!(
        "{txs} without a usable answer (unanswered {}{kinds})",
        grouped(fate.unanswered)
    )
}

fn stage(found: &StageEvidence) -> String {
    match found {
        StageEvidence::Answers {
            most_tps,
            alone_ms,
            at_once,
            crowded_ms,
        } => format!(
            "answers fell behind before the blocks did (CheckTx, the RPC, or a limit in front of the node): {}/s at most, \
             {alone_ms:.2} ms each when none waited ({at_once:.1} in work at once), up to {crowded_ms:.0} ms when \
             others did",
            count(*most_tps)
        ),
        StageEvidence::Blocks {
            stage,
            execution_ms,
            recheck_ms,
            execution,
            recheck,
            gap_s,
        } => format!(
            "{} takes the time between blocks: a transaction costs {execution_ms:.2} ms in its block and {recheck_ms:.2} \
             ms in the mempool after one, {} and {} of the {gap_s:.1} s between blocks",
            match stage {
                Some(Stage::Recheck) => RECHECK,
                Some(_) => "execution (FinalizeBlock)",
                None => "execution and recheck together",
            },
            percent(*execution),
            percent(*recheck),
        ),
        StageEvidence::Metrics { .. } => by_metrics(found),
        StageEvidence::Admission {
            mode,
            share,
            rate_tps,
        } => format!(
            "{mode} admission checks one transaction at a time, and did so for {} of its busiest stretch, at {}/s: a \
             serial stage. It is the built-in node's, which is a fixture; --admission parallel checks on several threads",
            percent(*share),
            grouped(*rate_tps as u64)
        ),
    }
}

fn by_metrics(found: &StageEvidence) -> String {
    let StageEvidence::Metrics {
        node,
        stage,
        check,
        execution,
        recheck,
    } = found
    else {
        return String::new();
    };
    let shares = format!(
        "{}, execution {}, recheck {}, by the metrics of {node}",
        match check {
            Some(check) => format!("CheckTx {}", percent(*check)),
            None => "CheckTx unknown, as its calls waited for each other all the time".into(),
        },
        percent(*execution),
        percent(*recheck),
    );
    let (name, share) = match stage {
        None => return format!("no stage of the node was at work most of the time: {shares}"),
        Some(Stage::Execution) => ("execution (FinalizeBlock and Commit)", *execution),
        Some(Stage::Recheck) => (RECHECK, *recheck),
        Some(Stage::Check) => (
            "CheckTx, which takes one transaction at a time,",
            check.unwrap_or_default(),
        ),
    };
    format!(
        "{name} was at work {} of the time: {shares}",
        percent(share)
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

const RECHECK: &str = "recheck (CheckTx of what a block left in the mempool)";
/// Codes in a line of text.
const MAX_CODES: usize = 3;
