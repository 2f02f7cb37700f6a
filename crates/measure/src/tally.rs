//! The totals of a run: every transaction counted when it is sent, when it is answered and when
//! its fate is settled.

use std::collections::BTreeMap;

use crate::event::{Failure, Reply, UNKNOWN_CODE, UnsentReason};
use crate::fate::{self, Fate, Offered};
use crate::pending::{Record, RecordState};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Without the counts by code and by kind.
    pub(crate) fate: Fate,
    pub(crate) unsent: [u64; UnsentReason::ALL.len()],
    pub(crate) errors: [u64; Failure::ALL.len()],
    rejected: BTreeMap<i64, u64>,
}

impl Tally {
    pub(crate) fn answer(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted => self.fate.accepted += 1,
            Reply::Rejected { code } => self.reject(i64::from(code)),
            Reply::RpcError { code } => self.reject(i64::from(code)),
            Reply::Failed(failure) => {
                self.fate.errors += 1;
                self.errors[failure as usize] += 1;
            }
        }
    }

    /// The one end of a transaction.
    pub(crate) fn settle(&mut self, record: &Record) {
        let committed = u64::from(record.is_committed());
        let fate = &mut self.fate;
        match record.state {
            RecordState::Free => debug_assert!(false, "a free record has no fate"),
            RecordState::Accepted if committed == 0 => fate.pending += 1,
            RecordState::Accepted if record.code == 0 => fate.committed += 1,
            RecordState::Accepted if record.code == UNKNOWN_CODE => fate.unverified += 1,
            RecordState::Accepted => fate.commit_failed += 1,
            RecordState::Rejected | RecordState::RpcError => {
                fate.committed_anyway.rejected += committed;
            }
            RecordState::Failed(_) => fate.committed_anyway.errors += committed,
            RecordState::Unanswered => {
                fate.unanswered += 1;
                fate.committed_anyway.unanswered += committed;
            }
        }
    }

    pub(crate) fn offered(&self, planned: Option<u64>, while_offering: u64) -> Offered {
        Offered::new(planned, self.fate.sent, self.unsent, while_offering)
    }

    pub(crate) fn fate(&self) -> Fate {
        Fate {
            rejected_by_code: self
                .rejected
                .iter()
                .map(|(code, count)| (code_name(*code), *count))
                .collect(),
            errors_by_kind: fate::by_kind(self.errors),
            ..self.fate.clone()
        }
    }

    fn reject(&mut self, code: i64) {
        self.fate.rejected += 1;
        let known = self.rejected.len() < MAX_CODES || self.rejected.contains_key(&code);
        let code = if known { code } else { OTHER };
        *self.rejected.entry(code).or_default() += 1;
    }
}

fn code_name(code: i64) -> String {
    if code == OTHER {
        "other".to_owned()
    } else {
        code.to_string()
    }
}

/// Codes counted apart; the rest is counted as `other`. The codes come from the node, so their
/// number must be bounded here.
const MAX_CODES: usize = 64;
const OTHER: i64 = i64::MIN;
