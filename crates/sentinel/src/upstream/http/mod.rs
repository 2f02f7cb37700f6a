//! HTTP requests to one node over a [`pool`] of kept-alive connections, which sends a request once more whose kept
//! connection was dead. The head of an answer has a deadline, and each further part of it ([`progress`]).

mod pool;
mod progress;
#[cfg(test)]
mod testing;

use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use rpc::Transport;
use tokio::time::timeout;

pub(super) use self::pool::PoolOptions;
use self::pool::{Pool, PooledBody};
use self::progress::ProgressBody;
use super::UpstreamError;
use super::dial::Dialer;

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) repeat: Repeat,
}

/// When a request whose connection broke is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, so it may be carried out twice.
    Always,
    /// Only if not a byte of it was written.
    IfUnwritten,
}

/// The body of a node's answer.
pub(super) type NodeBody = ProgressBody<PooledBody>;

/// Asks one node. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub(super) struct NodeHttp {
    /// What stands before every path: empty, or a gateway's prefix.
    pub(super) base: String,
    dialer: Dialer,
    pool: Pool,
    /// For the head of an answer, and for each further part.
    patience: Duration,
}

impl NodeHttp {
    /// A client without connections. `patience` is for the head of an answer, and for each further
    /// part.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        dialer: &Dialer,
        options: PoolOptions,
        patience: Duration,
    ) -> Result<Self, UpstreamError> {
        let base = dialer.endpoint().with_transport(Transport::Http).path();
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            pool: Pool::new(dialer.clone(), options)?,
            dialer: dialer.clone(),
            patience,
        })
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
    ) -> Result<Response<NodeBody>, UpstreamError> {
        let answer = match timeout(self.patience, self.pool.send(request)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(self.dialer.timeout()),
        };
        let limit = (self.dialer.clone(), self.patience);
        Ok(answer.map(|body| ProgressBody::new(body, limit)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::testing::{dialer_to, options, request};
    use super::*;

    #[tokio::test]
    async fn an_answer_that_does_not_begin_in_time_is_an_error() {
        // Connections are made, and nothing reads them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialer = dialer_to(&format!("http://{}", listener.local_addr().unwrap()));
        let http = NodeHttp::new(&dialer, options(), Duration::from_millis(50)).unwrap();
        let late = http.send(&request(Repeat::Always)).await.map(|_| ());
        assert!(
            matches!(late, Err(UpstreamError::Timeout { .. })),
            "{late:?}"
        );
    }
}
