//! Queries in place of transactions: the paths of a file, asked for by GETs in turn.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::mix;
use measure::{Failure, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::Message;
use sender::{Limits, Loader, Protocol, ReplyTo, TxName, TxStream, WorkloadError};
use serde::Deserialize;
use serde_json::Value;

use crate::workload::Workload;

/// The paths of a file, one a line: the load begins again where it ends.
#[derive(Debug, Clone)]
pub struct QueryWorkload {
    file: PathBuf,
    paths: Arc<[Box<str>]>,
}

impl QueryWorkload {
    /// Reads the file.
    ///
    /// # Errors
    /// When it is unreadable, empty or above 64 MiB, or a line is no path; the error names the line.
    pub fn read(file: &Path) -> Result<Self, WorkloadError> {
        let unreadable = |source| WorkloadError::Unreadable {
            path: file.into(),
            source,
        };
        let refused = |problem: &str| {
            WorkloadError::Unusable(format!("the queries in {}: {problem}", file.display()))
        };
        if file.metadata().map_err(unreadable)?.len() > MAX_FILE_BYTES {
            return Err(refused(
                "the file is above 64 MiB; use fewer of them, which come in turn",
            ));
        }
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let read = |(number, line): (usize, &str)| {
            let is_path = line.starts_with('/') && line.bytes().all(|it| it.is_ascii_graphic());
            let problem = "is no path of a GET; begin it with /, and write %20 for a space";
            is_path
                .then(|| Box::<str>::from(line))
                .ok_or_else(|| refused(&format!("line {} {problem}", number + 1)))
        };
        let paths: Arc<[Box<str>]> = text
            .lines()
            .enumerate()
            .map(read)
            .collect::<Result<_, _>>()?;
        if paths.is_empty() {
            return Err(refused("there are none; write a path into each line"));
        }
        Ok(Self {
            file: file.into(),
            paths,
        })
    }
}

impl Workload for QueryWorkload {
    fn largest(&self) -> usize {
        self.paths.iter().map(|path| path.len()).max().unwrap_or(0)
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(QueryStream(self.paths.clone())))
    }

    fn queries(&self) -> Option<Arc<dyn Loader>> {
        Some(Arc::new(Queries::default()))
    }
}

impl fmt::Display for QueryWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, file) = (self.paths.len(), self.file.display());
        write!(f, "{count} queries from {file}, in turn")
    }
}

/// The paths in turn.
#[derive(Debug)]
struct QueryStream(Arc<[Box<str>]>);

impl TxStream for QueryStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let path = &self.0[(index % self.0.len() as u64) as usize];
        out.extend_from_slice(path.as_bytes());
        Ok(TxName::Hash)
    }
}

/// A node that is asked for paths. An answered query is accepted, one that it refuses rejected with the status or the
/// code of the error.
#[derive(Debug, Clone, Default)]
struct Queries {
    /// Shared by the clones of all threads, and touched by refusals only.
    refusals: Arc<Mutex<RefusalTexts>>,
}

impl Protocol for Queries {
    /// A query has no name on the chain, so it is called by its number.
    fn encode(
        &self,
        index: u64,
        path: &[u8],
        _: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(path);
        let mut name = [0; 32];
        name[..8].copy_from_slice(&mix(index).to_be_bytes());
        name[24..].copy_from_slice(&index.to_be_bytes());
        Ok(name)
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let told = Told::of(message.body);
        let is_fine = (200..300).contains(&message.status);
        let reply = match told.code() {
            Some(code) => Reply::RpcError { code },
            None if is_fine => Reply::Accepted,
            // A proxy between may have answered without asking the node.
            None if message.status >= 500 => Reply::Failed(Failure::HttpStatus),
            None => Reply::rejected(u32::from(message.status)),
        };
        let code = match reply {
            Reply::RpcError { code } => Some(i64::from(code)),
            Reply::Rejected { code, .. } => Some(i64::from(code)),
            Reply::Accepted | Reply::Failed(_) => None,
        };
        if let Some(code) = code {
            self.refusals.lock().count(&code.to_string(), told.text());
        }
        replies(ReplyTo::OldestRequest, reply);
    }

    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        Some(&self.refusals)
    }

    /// Some servers have few workers, each of which waits on a connection.
    fn limits(&self) -> Limits {
        Limits {
            on_demand: true,
            ..Limits::default()
        }
    }
}

/// The failure in an answer: by JSON-RPC, whatever the status (Tendermint up to 0.31 has 200), or with a message
/// beside the status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
    error: Option<Value>,
    message: Option<Value>,
}

impl Told {
    fn of(body: &[u8]) -> Self {
        let is_object = body.trim_ascii_start().starts_with(b"{");
        let told = is_object.then(|| serde_json::from_slice(body).ok());
        told.flatten().unwrap_or_default()
    }

    fn code(&self) -> Option<i32> {
        let error = self.error.as_ref()?;
        let code = error.get("code").and_then(Value::as_i64);
        Some(
            code.and_then(|code| code.try_into().ok())
                .unwrap_or(i32::MIN),
        )
    }

    fn text(&self) -> &str {
        let error = |member| self.error.as_ref()?.get(member)?.as_str();
        let data = error("data").filter(|data| !data.is_empty());
        let message = || self.message.as_ref().and_then(Value::as_str);
        data.or(error("message")).or_else(message).unwrap_or("")
    }
}

const MAX_FILE_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn workload(content: &str) -> Result<QueryWorkload, WorkloadError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        QueryWorkload::read(file.path())
    }

    #[test]
    fn paths_come_in_turn_and_each_request_has_a_name_of_its_own() {
        let workload = workload("/block?height=1\r\n/tx?hash=0xAB\n").unwrap();
        let mut stream = workload.open().unwrap();
        let mut names = Vec::new();
        for (index, path) in [
            (0, "/block?height=1"),
            (1, "/tx?hash=0xAB"),
            (4, "/block?height=1"),
        ] {
            let (mut tx, mut request) = (Vec::new(), Vec::new());
            let name = stream.write(index, &mut tx).unwrap();
            names.push(
                Queries::default()
                    .encode(index, &tx, name, &mut request)
                    .unwrap(),
            );
            assert_eq!(request, path.as_bytes());
        }
        names.dedup();
        assert_eq!(names.len(), 3);
        assert_eq!((workload.count(), workload.largest()), (None, 15));
    }

    #[test]
    fn what_would_be_another_request_is_refused_with_its_line() {
        for (content, words) in [
            ("", "there are none"),
            ("/a\nstatus\n", "line 2 is no path"),
            ("/a\n\n/b", "line 2 is no path"),
            ("/a HTTP/1.1\n", "line 1 is no path"),
            ("/a\rGET /b", "line 1 is no path"),
        ] {
            let error = workload(content).unwrap_err().to_string();
            assert!(error.contains(words), "{content:?}: {error}");
        }
        let missing = QueryWorkload::read(Path::new("/nowhere/q")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/q"), "{missing}");
    }

    /// Answers of CometBFT 0.38, Tendermint 0.31, BigchainDB 2.2.2 and of a gateway.
    #[test]
    fn a_query_is_answered_or_refused_by_its_status_and_by_json_rpc() {
        let queries = Queries::default();
        let missing = r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"tx (AB) not found"}}"#;
        let rpc = Reply::RpcError { code: -32_603 };
        for (status, body, expected) in [
            (
                200,
                r#"{"jsonrpc":"2.0","id":-1,"result":{"error":"none"}}"#,
                Reply::Accepted,
            ),
            (
                200,
                r#"{"result":null,"error":null,"id":1}"#,
                Reply::Accepted,
            ),
            (
                200,
                r#"[{"transaction_id": "ab", "output_index": 0}]"#,
                Reply::Accepted,
            ),
            (500, missing, rpc),
            (200, missing, rpc),
            (
                404,
                r#"{"message": "Not found", "status": 404}"#,
                Reply::rejected(404),
            ),
            (429, "too many requests", Reply::rejected(429)),
            (
                502,
                "<html>Bad Gateway</html>",
                Reply::Failed(Failure::HttpStatus),
            ),
        ] {
            let mut replies = Vec::new();
            let message = Message {
                body: body.as_bytes(),
                status,
                arrived_unix_ns: None,
            };
            queries.read(&message, &mut |to, reply| replies.push((to, reply)));
            assert_eq!(
                replies,
                [(ReplyTo::OldestRequest, expected)],
                "{status} {body}"
            );
        }
        let texts = queries.refusals.lock().counts().clone();
        let has = |words: &str| texts.keys().any(|text| text.contains(words));
        assert!(has("not found") && has("404: Not found"), "{texts:?}");
    }
}
