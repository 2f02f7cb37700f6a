//! The totals of a run: every transaction counted when it is sent, when it is answered and when
//! its fate is settled.

use std::collections::BTreeMap;

use crate::format::code::{Code, Codespace};
use crate::format::event::{Failure, Reply, UNKNOWN_CODE, UnsentReason};
use crate::format::fate::{self, Fate, Offered};
use crate::record::pending::{Record, RecordState};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Without the counts by code and by kind.
    pub(crate) fate: Fate,
    pub(crate) unsent: [u64; UnsentReason::ALL.len()],
    pub(crate) errors: [u64; Failure::ALL.len()],
    rejected: ByCode,
    commit_failed: ByCode,
}

/// Counts by code. The codes come from the node, so their number is bounded here: those beyond the first 64 are
/// counted together.
#[derive(Debug, Default)]
struct ByCode(BTreeMap<Option<Code>, u64>);

impl ByCode {
    fn count(&mut self, code: Code) {
        let known = self.0.len() < MAX_CODES || self.0.contains_key(&Some(code));
        *self.0.entry(known.then_some(code)).or_default() += 1;
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let name = |code: &Option<Code>| code.map_or("other".to_owned(), |code| code.to_string());
        let counts = self.0.iter();
        counts.map(|(code, count)| (name(code), *count)).collect()
    }
}

impl Tally {
    pub(crate) fn answer(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted => self.fate.accepted += 1,
            Reply::Rejected { code, space } => self.reject(space, i64::from(code)),
            Reply::RpcError { code } => self.reject(Codespace::NONE, i64::from(code)),
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
            RecordState::Accepted => {
                fate.commit_failed += 1;
                let (space, number) = (record.space, i64::from(record.code));
                self.commit_failed.count(Code { space, number });
            }
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
            rejected_by_code: self.rejected.counts(),
            commit_failed_by_code: self.commit_failed.counts(),
            errors_by_kind: fate::by_kind(self.errors),
            ..self.fate.clone()
        }
    }

    fn reject(&mut self, space: Codespace, number: i64) {
        self.fate.rejected += 1;
        self.rejected.count(Code { space, number });
    }
}

const MAX_CODES: usize = 64;
