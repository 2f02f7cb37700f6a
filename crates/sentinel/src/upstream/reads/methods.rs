//! Which methods may be called.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use tower::{Layer, Service};

use super::request::Read;
use crate::refusal::{Reason, Refusal};

/// Makes [`Methods`].
#[derive(Clone, Debug)]
pub(super) struct MethodsLayer(pub(super) Arc<MethodList>);

/// Refuses reads of methods that are not served.
#[derive(Clone, Debug)]
pub(super) struct Methods<S> {
    inner: S,
    methods: Arc<MethodList>,
}

impl<S> Layer<S> for MethodsLayer {
    type Service = Methods<S>;

    fn layer(&self, inner: S) -> Methods<S> {
        let methods = Arc::clone(&self.0);
        Methods { inner, methods }
    }
}

impl<S> Service<Read> for Methods<S>
where
    S: Service<Read, Error = Refusal>,
{
    type Response = S::Response;
    type Error = Refusal;
    type Future = Either<Ready<Result<S::Response, Refusal>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, read: Read) -> Self::Future {
        let checked = match &read.request.method {
            Some(method) => self.methods.check(method),
            None => Ok(()),
        };
        match checked {
            Ok(()) => Either::Right(self.inner.call(read)),
            Err(refusal) => Either::Left(ready(Err(refusal))),
        }
    }
}

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
    use tower::ServiceExt as _;

    use super::super::testing::{node, read};
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

    #[tokio::test]
    async fn a_refused_method_does_not_reach_the_node() {
        let methods = MethodsLayer(Arc::new(list(&[], &["unsafe_*"])));
        let service = methods.layer(node());
        let refused = service.clone().oneshot(read(1, "unsafe_flush_mempool"));
        assert_eq!(refused.await.unwrap_err().reason, Reason::Method);
        service.oneshot(read(1, "status")).await.unwrap();
    }
}
