//! The laws that no run may break: what goes in comes out, once.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::format::fate::{Fate, Offered};

/// Every law with both of its sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Whether every law holds.
    pub holds: bool,
    /// The laws.
    pub laws: Vec<Law>,
}

/// One law: `left` and `right` are equal in a sound run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Law {
    /// The law in words, for example `planned = sent + unsent`.
    pub law: String,
    /// Its left side.
    pub left: u64,
    /// Its right side.
    pub right: u64,
}

impl Conservation {
    pub(crate) fn of(offered: &Offered, fate: &Fate, own_txs: u64) -> Self {
        let laws = vec![
            Law::new(
                "planned = sent + unsent",
                offered.planned,
                offered.sent + offered.unsent,
            ),
            Law::new(
                "sent = accepted + rejected + errors + unanswered",
                fate.sent,
                fate.accepted + fate.rejected + fate.errors + fate.unanswered,
            ),
            Law::new(
                "accepted = committed + commit_failed + unverified + pending",
                fate.accepted,
                fate.committed + fate.commit_failed + fate.unverified + fate.pending,
            ),
            Law::new(
                "own transactions in blocks = committed + commit_failed + unverified + committed_anyway",
                own_txs,
                fate.committed
                    + fate.commit_failed
                    + fate.unverified
                    + fate.committed_anyway.total(),
            ),
        ];
        Self {
            holds: laws.iter().all(Law::holds),
            laws,
        }
    }

    /// The laws that are broken.
    pub fn broken(&self) -> impl Iterator<Item = &Law> {
        self.laws.iter().filter(|law| !law.holds())
    }
}

impl Law {
    fn new(law: &str, left: u64, right: u64) -> Self {
        Self {
            law: law.to_owned(),
            left,
            right,
        }
    }

    /// Whether both sides are equal.
    pub const fn holds(&self) -> bool {
        self.left == self.right
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, left, right } = self;
        let sign = if left == right { '=' } else { '≠' };
        write!(f, "{law}: {left} {sign} {right}")
    }
}
