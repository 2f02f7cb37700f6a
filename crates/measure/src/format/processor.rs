//! The processor time that a node wanted, and what it got of it.

use serde::{Deserialize, Serialize};

use super::counts::adds_up;
use crate::limits::STARVED_SHARE;

/// Processor time of the nodes on the generator's machine. All zero where there are none, or the system does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeProcessor {
    /// What their threads used, or were ready to use, in seconds of a core.
    #[serde(default, rename = "node_cpu_wanted_s")]
    pub wanted_s: f64,
    /// Of that, what other programs, or other guests of the machine's host, had instead.
    #[serde(default, rename = "node_cpu_lost_s")]
    pub lost_s: f64,
}

adds_up!(NodeProcessor {
    sum: wanted_s,
    lost_s
});

impl NodeProcessor {
    /// Of a time in which the nodes ran and waited for so many seconds of a core, and all others ran for so many: all
    /// cores are taken while a thread waits, so others keep it waiting in proportion to what they have.
    pub fn shared(ran_s: f64, waited_s: f64, others_s: f64) -> Self {
        let all_s = ran_s + others_s;
        let by_others = if all_s > 0.0 { others_s / all_s } else { 0.0 };
        let lost_s = waited_s * by_others;
        Self {
            wanted_s: ran_s + lost_s,
            lost_s,
        }
    }

    /// To the millisecond, as a row has it: what is concluded from the row is then the same when it is read again.
    pub(crate) fn rounded(self) -> Self {
        let millis = |seconds: f64| (seconds * 1e3).round() / 1e3;
        Self {
            wanted_s: millis(self.wanted_s),
            lost_s: millis(self.lost_s),
        }
    }

    /// The share of what the nodes wanted that others had.
    pub fn lost_share(&self) -> f64 {
        if self.wanted_s > 0.0 {
            self.lost_s / self.wanted_s
        } else {
            0.0
        }
    }

    /// Whether so much was lost that nothing can be said of what the nodes did not do.
    pub fn is_starved(&self) -> bool {
        self.lost_share() > STARVED_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of a machine of two cores, a second each.
    #[test]
    fn a_node_is_starved_by_others_and_never_by_itself() {
        let by_equals = NodeProcessor::shared(0.1, 2.0, 1.9);
        assert!(by_equals.is_starved(), "{by_equals:?}");
        let beside_lower_priority = NodeProcessor::shared(1.2, 0.8, 0.8);
        assert!(
            !beside_lower_priority.is_starved(),
            "{beside_lower_priority:?}"
        );
        let by_its_own_threads = NodeProcessor::shared(1.95, 20.0, 0.05);
        assert!(!by_its_own_threads.is_starved(), "{by_its_own_threads:?}");
        let elsewhere = NodeProcessor::default();
        assert!(!elsewhere.is_starved() && elsewhere.lost_share() == 0.0);
        assert_eq!(NodeProcessor::shared(0.0, 1.0, 0.0).lost_s, 0.0);
    }
}
