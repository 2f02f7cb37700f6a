//! The kinds of messages that a node sends to a subscriber, and when two spellings of a query are the same.

use bytes::Bytes;
use serde_json::value::RawValue;
use wire::json::write::{Int, Raw, Text, filled};

use crate::upstream::query::Answer;

/// A message of the node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeMessage<'a> {
    /// An event of a subscription.
    Event {
        /// The subscription's id as the node writes it.
        id: &'a str,
        /// What comes behind the query.
        rest: &'a str,
    },
    /// The end of a subscription.
    Cancelled {
        /// The subscription's id.
        id: &'a str,
        /// The node's reason, without the text around it.
        reason: String,
    },
    /// The answer to a request.
    Answer {
        /// The request's id; none if the node could not read one.
        id: Option<&'a str>,
        /// The error's text, if it is one.
        error: Option<String>,
    },
    /// Not JSON-RPC.
    Garbage,
}

impl<'a> NodeMessage<'a> {
    /// Reads a message.
    pub(super) fn read(message: &'a [u8]) -> Self {
        let Ok(text) = std::str::from_utf8(message) else {
            return Self::Garbage;
        };
        Self::event(text).unwrap_or_else(|| Self::other(text))
    }

    /// An event in the node's own spelling. Events can be megabytes: no more than their start is
    /// looked at.
    fn event(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
        let (id, text) = text.split_at(scalar_len(text)?);
        let text = text.strip_prefix(r#","result":{"query":"#)?;
        let (_query, rest) = text.split_at(scalar_len(text)?);
        Some(Self::Event { id, rest })
    }

    fn other(text: &'a str) -> Self {
        let Ok(message) = serde_json::from_str::<Answer<'a>>(text) else {
            return Self::Garbage;
        };
        let id = message.id.map(RawValue::get);
        match (id, message.error, message.result) {
            (id, Some(error), _) => {
                let reason = cancel_reason(&error.data);
                if let (Some(id), Some(reason), SERVER_ERROR) = (id, reason, error.code) {
                    return Self::Cancelled { id, reason };
                }
                let error = Some(error.text());
                Self::Answer { id, error }
            }
            (id, None, Some(_)) => Self::Answer { id, error: None },
            (_, None, None) => Self::Garbage,
        }
    }
}

/// The end of a subscription as the node writes it (`rpc/core/events.go`).
pub(in crate::upstream) fn cancelled(id: &str, reason: &str) -> Vec<u8> {
    let template =
        r#"{"jsonrpc":"2.0","id":?,"error":{"code":?,"message":"Server error","data":?}}"#;
    let reason = format!("{CANCELLED}{reason})");
    filled(template, &[&Raw(id), &Int(SERVER_ERROR), &Text(&reason)])
}

/// An event as the node writes it, up to and with the query.
pub(in crate::upstream) fn event_head(id: &str, query: &str) -> Vec<u8> {
    let template = r#"{"jsonrpc":"2.0","id":?,"result":{"query":?"#;
    filled(template, &[&Raw(id), &Text(query)])
}

/// The `"error":{…}` of an answer that has one.
pub(super) fn error_member(answer: &[u8]) -> Bytes {
    let member = |name| wire::json::members(answer).find(|(key, _)| key == name);
    let error = member("error").map_or(&b"{}"[..], |(_, value)| value);
    [br#""error":"#, error].concat().into()
}

/// The id of an event that is indented, and what comes behind its query, compact. Up to Tendermint 0.32
/// its id ends in `#event` (`rpc/core/events.go`).
pub(super) fn compact_event(event: &[u8]) -> Option<(u64, Bytes)> {
    let mut compact = Vec::with_capacity(event.len());
    wire::json::compact(&mut compact, event);
    let compact = Bytes::from(compact);
    let NodeMessage::Event { id, rest } = NodeMessage::read(&compact) else {
        return None;
    };
    let id = id.trim_matches('"');
    let id = id.strip_suffix("#event").unwrap_or(id).parse().ok()?;
    Some((id, compact.slice_ref(rest.as_bytes())))
}

fn cancel_reason(data: &str) -> Option<String> {
    let reason = data.strip_prefix(CANCELLED)?;
    Some(reason.strip_suffix(')').unwrap_or(reason).to_owned())
}

/// The length of the string or number at the start of a text.
fn scalar_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return bytes.iter().position(|byte| matches!(byte, b',' | b'}'));
    }
    let mut escaped = false;
    let end = bytes[1..].iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some(end + 2)
}

/// A query in the one spelling in which the node is asked for it: without spaces where none are
/// needed, outside its quotes. A spelling that differs in these is never refused where this one is taken, so no
/// client that shares it can be refused for another one's spelling.
///
/// The grammar of every version allows spaces around `=`, `<` and `>`, and wants some around words
/// (`libs/pubsub/query`). Other white space has a meaning in some versions only, so it is left to the node.
pub(in crate::upstream) fn canonical(query: &str) -> String {
    let mut canonical = String::with_capacity(query.len());
    let (mut is_quoted, mut is_spaced) = (false, false);
    for letter in query.trim_matches(' ').chars() {
        if letter == ' ' && !is_quoted {
            is_spaced = true;
            continue;
        }
        // Between two operators a space stays: `< =` is not `<=`.
        let is_needed = is_operator(letter) == canonical.ends_with(is_operator);
        if std::mem::take(&mut is_spaced) && is_needed {
            canonical.push(' ');
        }
        is_quoted ^= letter == '\'';
        canonical.push(letter);
    }
    canonical
}

/// A query without any white space: queries that the node may take for the same are equal in this form.
pub(super) fn without_spaces(query: &str) -> String {
    let letters = query.chars();
    letters.filter(|letter| !letter.is_whitespace()).collect()
}

const fn is_operator(letter: char) -> bool {
    matches!(letter, '=' | '<' | '>')
}

const SERVER_ERROR: i64 = -32_000;
const CANCELLED: &str = "subscription was canceled (reason: ";
/// How a node that stops answers a request to subscribe until its last connection is closed (`Subscribe` in
/// `libs/pubsub/pubsub.go`, v0.34.35 to v1.0.1).
pub(super) const EXITING: &str = "service is shutting down";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_a_query_are_one() {
        for query in [
            "tm.event='New  Block' AND block.height>=5",
            " tm.event  = 'New  Block'  AND block.height >= 5 ",
        ] {
            let expected = "tm.event='New  Block' AND block.height>=5";
            assert_eq!(canonical(query), expected);
        }
    }

    #[test]
    fn json_96_what_only_some_nodes_take_stays_a_query_of_its_own() {
        for query in [
            "tm. event='NewBlock'",
            "tm.event=\u{a0}'NewBlock'",
            "tm.event=\t'NewBlock'",
            "block.height< =5",
            "a.b='x' ANDc.d='y'",
            "a.b='x",
            "",
        ] {
            assert_eq!(canonical(query), query);
        }
        let spaced = without_spaces("tm.event =\u{a0}'NewBlock'\t");
        assert_eq!(spaced, "tm.event='NewBlock'");
    }

    #[test]
    fn events_are_told_from_answers() {
        let text = r#"{"jsonrpc":"2.0","id":"a\"b","result":{"query":"tm.event='NewBlock'","data":{"type":"tendermint/event/NewBlock","value":{"block":{"header":{"version":{"block":"11","app":"1"},"chain_id":"c\"height\":\"9","height":"31","time":"t"}}}}}}"#;
        let NodeMessage::Event { id, rest } = NodeMessage::read(text.as_bytes()) else {
            panic!("an event");
        };
        assert_eq!(id, r#""a\"b""#);
        assert!(rest.starts_with(r#","data":{"type":"#), "{rest}");
    }

    #[test]
    fn answers_have_ids_and_errors() {
        let read = |text: &'static str| NodeMessage::read(text.as_bytes());
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            NodeMessage::Answer {
                id: Some("7"),
                error: None
            }
        );
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m","data":"d"}}"#),
            NodeMessage::Answer {
                id: None,
                error: Some("d".to_owned())
            }
        );
        for garbage in ["", "nonsense", "{}", "[1]", "\u{1}"] {
            assert_eq!(read(garbage), NodeMessage::Garbage, "{garbage}");
        }
        assert_eq!(NodeMessage::read(&[0xff]), NodeMessage::Garbage);
    }

    #[test]
    fn the_end_of_a_subscription_reads_as_it_is_written() {
        let text = cancelled("7", "client is not pulling messages fast enough");
        assert_eq!(
            String::from_utf8(text.clone()).unwrap(),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Server error","data":"subscription was canceled (reason: client is not pulling messages fast enough)"}}"#
        );
        assert_eq!(
            NodeMessage::read(&text),
            NodeMessage::Cancelled {
                id: "7",
                reason: "client is not pulling messages fast enough".to_owned()
            }
        );
    }

    #[test]
    fn versions_58_events_of_every_version_are_read() {
        for dialect in testkit::Dialect::ALL {
            let recorded = dialect.answer("ws_new_block").unwrap().as_bytes();
            let (id, rest) = compact_event(recorded).unwrap();
            let expected = if dialect.version == "0.31.5" { 7 } else { 1 };
            assert_eq!(id, expected, "{}", dialect.version);
            assert!(
                rest.starts_with(
                    br#","data":{"type":"tendermint/event/NewBlock","value":{"block":{"#
                )
            );
        }
        assert_eq!(
            compact_event(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            None
        );
    }

    proptest! {
        #[test]
        fn case_23_arbitrary_bytes_never_panic(bytes: Vec<u8>, cut in 0_usize..120) {
            let _ = NodeMessage::read(&bytes);
            let text = br#"{"jsonrpc":"2.0","id":"a\"","result":{"query":"tm.event='NewBlock'","data":{"height":"5"}}}"#;
            let mut damaged = text[..cut.min(text.len())].to_vec();
            damaged.extend(bytes);
            let _ = NodeMessage::read(&damaged);
        }
    }
}
