//! A node to observe, as it is written: `name=URL[,peer=bitcoin-p2p://HOST:PORT][,pid=PID][,metrics=URL]`.

use std::fmt;
use std::str::FromStr;

use rpc::{Endpoint, EndpointError};

/// A node that is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// What it is called in tables and charts.
    pub name: String,
    /// Its RPC.
    pub endpoint: Endpoint,
    /// Where it speaks to its peers, and announces blocks and transactions.
    pub peer: Option<Endpoint>,
    /// Its process on this machine.
    pub pid: Option<i32>,
    /// Where its Prometheus metrics are.
    pub metrics: Option<Endpoint>,
    /// Whether it is the one that is loaded, whose silences the load shows.
    pub(crate) is_loaded: bool,
}

/// Why a text names no node to observe.
#[derive(Debug, thiserror::Error)]
pub enum ObservedError {
    /// Its form.
    #[error(
        "{0:?} is not name=URL[,peer=bitcoin-p2p://HOST:PORT][,pid=PID][,metrics=URL], with a name of letters, digits, - and _"
    )]
    Form(String),
    /// An address in it.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.endpoint)
    }
}

impl FromStr for Observed {
    type Err = ObservedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || ObservedError::Form(text.into());
        let mut parts = text.split(',');
        let (name, url) = parts
            .next()
            .and_then(|part| part.split_once('='))
            .ok_or_else(form)?;
        let is_named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_named) {
            return Err(form());
        }
        let mut node = Self {
            name: name.into(),
            endpoint: url.parse()?,
            peer: None,
            pid: None,
            metrics: None,
            is_loaded: false,
        };
        for part in parts {
            match part.split_once('=') {
                Some(("pid", pid)) => node.pid = Some(pid.parse().map_err(|_| form())?),
                Some(("peer", url)) => node.peer = Some(url.parse()?),
                Some(("metrics", url)) => node.metrics = Some(url.parse()?),
                _ => return Err(form()),
            }
        }
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_written_with_its_process_or_its_metrics() {
        let node: Observed = "b-2=http://me:it@127.0.0.1:18334,pid=77".parse().unwrap();
        assert_eq!(
            (&*node.name, node.pid, node.metrics),
            ("b-2", Some(77), None)
        );
        let node: Observed = "a=http://me:it@127.0.0.1:18334,peer=bitcoin-p2p://127.0.0.1:18444"
            .parse()
            .unwrap();
        assert_eq!(node.peer.unwrap().port(), 18_444);
        let node: Observed = "n=http://[::1]:26657,metrics=http://[::1]:26660/metrics"
            .parse()
            .unwrap();
        assert!(node.metrics.is_some() && node.pid.is_none());
    }

    #[test]
    fn what_names_no_node_is_refused_with_the_form() {
        for text in [
            "",
            "http://a:1",
            "=http://a:1",
            "a b=http://a:1",
            "a=http://a:1,pid=x",
            "a=http://a:1,cpu=2",
            "a=x",
        ] {
            let error = text.parse::<Observed>().unwrap_err().to_string();
            assert!(!error.is_empty(), "{text}");
        }
        let error = "a=http://a:1,pid=x"
            .parse::<Observed>()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("name=URL[,peer=bitcoin-p2p://HOST:PORT]"),
            "{error}"
        );
    }
}
