//! Questions of our own to a node: over HTTP, the answer charged to an account.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::UpstreamError;
use super::body::collected;
use super::http::{NodeHttp, Outgoing, Repeat, content_length, uri};
use crate::budget::Ledger;

impl NodeHttp {
    /// Asks the node. `params` is a JSON object as text. The answer stays charged to the account until its last
    /// part is dropped.
    ///
    /// # Errors
    /// [`UpstreamError`]; [`UpstreamError::Refused`] is not among them, as the answer is not read.
    ///
    /// # Cancel safety
    /// Dropping the future drops the question.
    pub(super) async fn ask(
        &self,
        (method, params): (&str, &str),
        account: &Ledger,
    ) -> Result<Bytes, UpstreamError> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let request = Outgoing {
            method: Method::POST,
            uri: uri(&self.base, &Bytes::from_static(b"/"))?,
            headers: json_headers(),
            body: body.into(),
            repeat: Repeat::Always,
        };
        let answer = self.send(&request).await?;
        let limit = account.capacity() / ANSWER_SHARE;
        let announced = content_length(answer.headers()).unwrap_or(0);
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(UpstreamError::TooLarge(limit));
        }
        let charge = account.reserve(announced).ok_or(UpstreamError::Memory)?;
        collected(answer.into_body(), charge, limit).await
    }

    /// Asks the node what needs no parameters, and reads the answer.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask) and of [`result`].
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        account: &Ledger,
    ) -> Result<T, UpstreamError> {
        result(&self.ask((method, "{}"), account).await?)
    }
}

/// The headers of a JSON-RPC request.
pub(super) fn json_headers() -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    HeaderMap::from_iter([(CONTENT_TYPE, json)])
}

/// The result in an answer.
///
/// # Errors
/// [`UpstreamError::Refused`] with the node's words, [`UpstreamError::Garbage`] for anything else.
pub(crate) fn result<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, UpstreamError> {
    let answer: Answer<'a> = serde_json::from_slice(body).map_err(|error| garbage(&error))?;
    if let Some(failure) = answer.error {
        return Err(UpstreamError::Refused(failure.text()));
    }
    let result = answer
        .result
        .ok_or_else(|| garbage(&"neither result nor error"))?;
    serde_json::from_str(result.get()).map_err(|error| garbage(&error))
}

/// An answer in JSON-RPC.
#[derive(Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}

/// The error in one.
#[derive(Deserialize)]
pub(super) struct Failure<'a> {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) data: Cow<'a, str>,
}

impl Failure<'_> {
    /// What went wrong, in the node's words.
    pub(super) fn text(self) -> String {
        let has_data = !self.data.is_empty();
        let text = if has_data { self.data } else { self.message };
        text.into_owned()
    }
}

pub(super) fn garbage(reason: &impl ToString) -> UpstreamError {
    UpstreamError::Garbage("the node".to_owned(), reason.to_string())
}

/// One answer takes at most this part of an account.
pub(super) const ANSWER_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_told_apart() {
        let number = result::<u64>(br#"{"jsonrpc":"2.0","id":1,"result":7}"#);
        assert_eq!(number, Ok(7));
        let refused = result::<u64>(
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"no"}}"#,
        );
        assert_eq!(refused, Err(UpstreamError::Refused("no".to_owned())));
        for garbage in ["", "[]", "{}", "<html>", r#"{"result":"x"}"#] {
            let read = result::<u64>(garbage.as_bytes());
            assert!(
                matches!(read, Err(UpstreamError::Garbage { .. })),
                "{garbage}"
            );
        }
    }
}
