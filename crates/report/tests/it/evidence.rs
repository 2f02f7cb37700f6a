//! The wording of evidence.

use measure::judge::{Excess, Shortfall};
use measure::{Evidence, EvidenceKind, LateOrUnsent, LimitedBy, Stage, StageEvidence, Strength};
use report::evidence_text;

use crate::page::report;

/// The wording of evidence, one sentence a kind.
#[test]
fn every_kind_of_evidence_has_its_sentence() {
    let mut summary = report().summary;
    summary.fate.commit_failed = 3_000;
    summary.fate.commit_failed_by_code = [("sdk/5".to_owned(), 3_000)].into();
    (summary.time.offered_s, summary.time.ended_s) = (10.0, 12.5);
    let late = LateOrUnsent {
        late: 4_000,
        unsent: 5_000,
    };
    let excess = Excess {
        shortfall: Shortfall::Committed(0.5),
        stall_s: None,
    };
    let by_metrics = |stage| {
        EvidenceKind::SerialStage(StageEvidence::Metrics {
            node: "a".into(),
            stage,
            check: Some(0.1),
            execution: 0.8,
            recheck: 0.05,
        })
    };
    let kinds = [
        EvidenceKind::LostAfterAccept { blocks: 7 },
        EvidenceKind::NoAnswers,
        EvidenceKind::EndpointSilent {
            endpoint: "http://b:2".into(),
        },
        EvidenceKind::NoBlocks,
        EvidenceKind::Refused,
        EvidenceKind::FailedInBlocks,
        EvidenceKind::BlocksFull { limit: 6_000 },
        EvidenceKind::BlocksOutOfGas {
            limit: 9_000_000,
            block_txs: 9_000,
        },
        EvidenceKind::MempoolFull { limit: 2_000 },
        EvidenceKind::Pending {
            all_seen: false,
            checked: false,
        },
        EvidenceKind::StepsFailed {
            failed: 2,
            steps: 5,
            rate_tps: 4_000.0,
            excess,
        },
        EvidenceKind::SerialStage(StageEvidence::Answers {
            most_tps: 5_000.0,
            alone_ms: 2.0,
            at_once: 1.0,
            crowded_ms: 30.0,
        }),
        EvidenceKind::SerialStage(StageEvidence::Blocks {
            stage: Some(Stage::Execution),
            execution_ms: 1.0,
            recheck_ms: 0.0,
            execution: 0.7,
            recheck: 0.0,
            gap_s: 1.5,
        }),
        by_metrics(Some(Stage::Execution)),
        by_metrics(None),
        EvidenceKind::HeldUpByNode(late),
        EvidenceKind::ShortOfConnections(late),
        EvidenceKind::ScheduleLate(late),
        EvidenceKind::SourceLate(late),
        EvidenceKind::ClosedLoop,
        EvidenceKind::EndedEarly,
    ];
    let sentences = kinds.map(|kind| {
        let evidence = Evidence {
            kind,
            points_to: LimitedBy::Node,
            strength: Strength::Strong,
            txs: 12_000,
            from_s: Some(2.0),
            until_s: Some(4.5),
        };
        evidence_text(&summary, &evidence)
    });
    assert_eq!(sentences.join("\n") + "\n", include_str!("evidence.txt"));
    let run_together = |text: &&String| {
        let mut digits = text.split(|letter: char| !letter.is_ascii_digit());
        digits.any(|digits| digits.len() > 3)
    };
    assert_eq!(sentences.iter().find(run_together), None);
}
