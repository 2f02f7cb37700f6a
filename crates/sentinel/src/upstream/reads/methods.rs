//! Which methods may be called.

use crate::refusal::{Reason, Refusal};

/// Lists of names; a trailing `*` stands for any rest.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodList {
    allow: Vec<Pattern>,
    refuse: Vec<Pattern>,
}

#[derive(Clone, Debug)]
enum Pattern {
    Exact(String),
    Prefix(String),
}

impl MethodList {
    /// `allow` empty means every method that is not refused; `refuse` wins over `allow`.
    pub(super) fn new(allow: &[String], refuse: &[String]) -> Self {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        Self {
            allow: patterns(allow),
            refuse: patterns(refuse),
        }
    }

    /// Whether a method may be called. The node looks names up exactly, so does this.
    fn allows(&self, method: &str) -> bool {
        let listed = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(method));
        !listed(&self.refuse) && (self.allow.is_empty() || listed(&self.allow))
    }

    /// Whether a method may be called.
    pub(super) fn check(&self, method: &str) -> Result<(), Refusal> {
        if self.allows(method) {
            return Ok(());
        }
        let text = "this method is not served here";
        Err(Refusal::new(Reason::Method, text))
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    fn matches(&self, method: &str) -> bool {
        match self {
            Self::Exact(name) => name == method,
            Self::Prefix(prefix) => method.starts_with(prefix.as_str()),
        }
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
        MethodList::new(&owned(allow), &owned(refuse))
    }

    #[test]
    fn everything_is_allowed_that_is_not_refused() {
        let list = list(&[], &["unsafe_*", "dump_consensus_state"]);
        assert!(list.allows("status") && list.allows("") && list.allows("Unsafe_x"));
        assert!(!list.allows("unsafe_flush_mempool") && !list.allows("dump_consensus_state"));
    }

    #[test]
    fn refusing_wins_over_allowing() {
        let list = list(&["abci_*", "status"], &["abci_query"]);
        assert!(list.allows("abci_info") && list.allows("status"));
        assert!(!list.allows("abci_query") && !list.allows("block"));
    }
}
