//! Calls about subscriptions, as the node reads their parameters: only what is understood here goes
//! to the node, and only in words of our own.

use crate::json::{self, Kind};
use crate::jsonrpc::Request;

/// A call about subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionCall {
    /// To subscribe to this query.
    Subscribe(String),
    /// To end the subscription to this query.
    Unsubscribe(String),
    /// To end all of them.
    UnsubscribeAll,
}

impl SubscriptionCall {
    /// What a request asks for; none if it calls another method.
    ///
    /// # Errors
    /// What is wrong with its parameters, in the node's words (`rpc/jsonrpc/server/ws_handler.go`,
    /// `jsonParamsToArgs` in `http_json_handler.go`; CometBFT 0.38).
    pub fn of(request: &Request<'_>) -> Option<Result<Self, String>> {
        let query = || query_of(request.params);
        Some(match &*request.method {
            "subscribe" => query().map(Self::Subscribe),
            "unsubscribe" => query().map(Self::Unsubscribe),
            "unsubscribe_all" => match request.params {
                Some(params) => arguments(params, &[]).map(|_| Self::UnsubscribeAll),
                None => Ok(Self::UnsubscribeAll),
            },
            _ => return None,
        })
    }
}

/// The query among parameters; empty if they are named and it is not among them.
fn query_of(params: Option<&[u8]>) -> Result<String, String> {
    let params = params.ok_or("WSJSONRPC: reflect: Call with too few input arguments")?;
    let query = arguments(params, &["query"])?;
    match query.map_or(Kind::Null, Kind::of) {
        Kind::String => Ok(json::unquote(query.unwrap_or_default()).into_owned()),
        Kind::Null => Ok(String::new()),
        kind => Err(unfit(&format!(
            "{CANNOT} {} into Go value of type string",
            kind.name()
        ))),
    }
}

/// The last argument of a function with these parameters, if it is given. Names of parameters count as
/// they are written, and of repeated ones the last.
pub(super) fn arguments<'a>(params: &'a [u8], names: &[&str]) -> Result<Option<&'a [u8]>, String> {
    match Kind::of(params) {
        Kind::Object | Kind::Null => {
            let named = json::members(params).filter(|(name, _)| names.contains(&&**name));
            Ok(named.last().map(|(_, value)| value))
        }
        Kind::Array => {
            let given: Vec<&[u8]> = json::elements(params).collect();
            if given.len() == names.len() {
                return Ok(given.last().copied());
            }
            // Go shows raw JSON as the decimal values of its bytes, which are many more.
            let shown = if params.len() <= MOST_SHOWN_BYTES {
                format!("{given:?}").replace(',', "")
            } else {
                "[...]".to_owned()
            };
            let (wanted, count, names) = (names.len(), given.len(), names.join(" "));
            Err(unfit(&format!(
                "expected {wanted} parameters ([{names}]), got {count} ({shown})"
            )))
        }
        kind => Err(unfit(&format!(
            "unknown type for JSON params: {CANNOT} {} into Go value of type []json.RawMessage. \
             Expected map or array",
            kind.name()
        ))),
    }
}

fn unfit(text: &str) -> String {
    format!("error converting json params to arguments: {text}")
}

/// Longer parameters are not shown.
const MOST_SHOWN_BYTES: usize = 4 << 10;
const CANNOT: &str = "json: cannot unmarshal";
