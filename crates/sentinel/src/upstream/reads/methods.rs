//! Which methods may be called.

use rpc::BroadcastMethod;

use crate::config::Reads;
use crate::refusal::{Reason, Refusal};
use crate::upstream::http::Repeat;

/// Lists of names; a trailing `*` stands for any rest.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodList {
    allow: Vec<String>,
    refuse: Vec<String>,
}

impl MethodList {
    /// `allow` empty means every method that is not refused; `refuse` wins over `allow`.
    pub(super) fn new(reads: &Reads) -> Self {
        Self {
            allow: reads.allow_methods.clone(),
            refuse: reads.refuse_methods.clone(),
        }
    }

    /// Whether a method may be called. The node looks names up exactly, so does this. The list of
    /// allowed methods is one of reads: writes are allowed unless they are refused.
    pub(super) fn check(&self, method: &str) -> Result<(), Refusal> {
        let listed = |list: &[String]| list.iter().any(|pattern| matches(pattern, method));
        let is_write = || BroadcastMethod::of(method.as_bytes()).is_some();
        if !listed(&self.refuse) && (self.allow.is_empty() || listed(&self.allow) || is_write()) {
            return Ok(());
        }
        let text = "this method is not served here";
        Err(Refusal::new(Reason::Method, text))
    }

    /// When a read is sent once more. What calls no known method, such as a batch, calls any that is served.
    pub(super) fn repeat(&self, method: Option<&str>) -> Repeat {
        let may_change = match method {
            Some(method) => changes(method),
            None => CHANGING.iter().any(|method| self.check(method).is_ok()),
        };
        if may_change {
            Repeat::IfUnwritten
        } else {
            Repeat::Always
        }
    }
}

/// What leaves something at the node, though it is no broadcast: a check in the application, evidence in the pool.
const CHANGING: [&str; 2] = ["check_tx", "broadcast_evidence"];

/// Whether a call of this method is work of a write's kind, and has its turn among the writes.
pub(crate) fn changes(method: &str) -> bool {
    CHANGING.contains(&method)
}

fn matches(pattern: &str, method: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => method.starts_with(prefix),
        None => method == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(allow: &[&str], refuse: &[&str]) -> MethodList {
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        MethodList {
            allow: owned(allow),
            refuse: owned(refuse),
        }
    }

    #[test]
    fn everything_is_allowed_that_is_not_refused() {
        let list = list(&[], &["unsafe_*", "dump_consensus_state"]);
        assert!(
            list.check("status").is_ok()
                && list.check("").is_ok()
                && list.check("Unsafe_x").is_ok()
        );
        assert!(
            list.check("unsafe_flush_mempool").is_err()
                && list.check("dump_consensus_state").is_err()
        );
    }

    #[test]
    fn refusing_wins_over_allowing() {
        let list = list(&["abci_*", "status"], &["abci_query"]);
        assert!(list.check("abci_info").is_ok() && list.check("status").is_ok());
        assert!(list.check("abci_query").is_err() && list.check("block").is_err());
    }

    #[test]
    fn refused_60_what_only_an_operator_may_call_is_refused_by_default() {
        let list = MethodList::new(&Reads::default());
        for method in [
            "dial_seeds",
            "dial_peers",
            "unsafe_flush_mempool",
            "unsafe_start_cpu_profiler",
            // At 2b52556 these went past the write lane, at the price of a read, and were sent twice.
            "check_tx",
            "broadcast_evidence",
        ] {
            assert!(list.check(method).is_err(), "{method}");
        }
        assert!(list.check("net_info").is_ok());
    }

    #[test]
    fn refused_60_what_changes_something_is_not_sent_twice_where_it_is_served() {
        let by_default = MethodList::new(&Reads::default());
        let all = list(&[], &[]);
        for (method, once_at) in [
            (Some("status"), [false, false]),
            (Some("check_tx"), [true, true]),
            (Some("broadcast_evidence"), [true, true]),
            // A batch.
            (None, [false, true]),
        ] {
            let repeats = [&by_default, &all].map(|list| list.repeat(method));
            let expected = once_at.map(|once| {
                if once {
                    Repeat::IfUnwritten
                } else {
                    Repeat::Always
                }
            });
            assert_eq!(repeats, expected, "{method:?}");
        }
    }

    #[test]
    fn a_list_of_allowed_reads_leaves_writes_alone_and_a_refusal_holds_for_them() {
        let list = list(&["status"], &["broadcast_tx_commit"]);
        assert!(list.check("broadcast_tx_sync").is_ok() && list.check("block").is_err());
        assert!(list.check("broadcast_tx_commit").is_err());
    }
}
