//! Which methods may be called, and the parameters of a read: the height or the hash that it asks for, and how much.

use std::borrow::Cow;

use rpc::BroadcastMethod;
use wire::encoding::{self, decode_base64, decode_hash};
use wire::json;
use wire::proto::{Fields, Value};

use crate::config::Reads;
use crate::keys::is_listed;
use crate::refusal::{Reason, Refusal};
use crate::upstream::http::Repeat;

/// The height that a call of this method asks for, if it names one.
pub(super) fn height(method: &str, target: &[u8], body: &[u8]) -> Option<u64> {
    let place = match method {
        "block" | "block_results" | "commit" | "consensus_params" | "header" | "validators" => 0,
        "abci_query" => 2,
        _ => return None,
    };
    number(("height", place), target, body).ok()?
}

/// The hash that a call asks for, if it names one of 32 bytes: a target has hex (a text in quotes is its own bytes), a
/// body base64.
pub(super) fn hash(target: &[u8], body: &[u8]) -> Option<[u8; 32]> {
    let text = value(("hash", 0), target, body).ok()??;
    if body.is_empty() {
        return decode_hash(text.strip_prefix(b"0x")?);
    }
    let bytes = decode_base64(json::unquote(&text).as_bytes());
    bytes?.try_into().ok()
}

/// The part of the genesis file that a call asks for: the first, unless it names another.
pub(super) fn chunk(target: &[u8], body: &[u8]) -> Option<u64> {
    let chunk = number(("chunk", 0), target, body);
    chunk.ok().map(Option::unwrap_or_default)
}

/// What a call of this method takes of its client's rate of reads: 1 to 40.
///
/// CometBFT 0.38.17 with 11,000 transactions answered `status` in 0.2 ms, `block_results` of 350 transactions in 4,
/// `block_search` of all blocks in 9, and `tx_search` of all transactions in 40 to 90, which is more than any price here:
/// the node looks at all that match. A page, each entry of which it loads, has 30 entries unless the call asks
/// otherwise, and 100 at most (`rpc/core/env.go`).
pub(crate) fn price(method: &str, target: &[u8], body: &[u8]) -> u32 {
    let (base, page) = match method {
        "tx_search" => (10, ("per_page", 3)),
        "block_search" => (10, ("per_page", 2)),
        "validators" => (1, ("per_page", 2)),
        "unconfirmed_txs" => (1, ("limit", 0)),
        "genesis" | "dump_consensus_state" => return 10,
        "block_results" => return 5,
        "blockchain" | "genesis_chunked" => return 2,
        _ => return 1,
    };
    let entries = match number(page, target, body) {
        Ok(entries) => entries.unwrap_or(USUAL_PAGE),
        Err(Unreadable) => LONGEST_PAGE,
    };
    base * u32::try_from(entries.min(LONGEST_PAGE).div_ceil(USUAL_PAGE)).unwrap_or(1)
}

/// What a page costs that a call of gRPC or REST asks for: 1 to 100. The Cosmos SDK bounds none, and has 100 entries unless the call
/// asks otherwise (`DefaultLimit` in its `types/query/pagination.go`).
pub(crate) fn price_of_page(query: Option<&str>, message: Option<&[u8]>) -> u32 {
    let told = encoding::pairs(query.unwrap_or_default().as_bytes());
    let limits = told.filter(|(key, _)| **key == *b"pagination.limit");
    let limits = limits.filter_map(|(_, value)| positive(&value));
    let pages = Fields::of(message.unwrap_or_default(), "call").map_while(Result::ok);
    let entries = limits
        .chain(pages.filter_map(|(_, value)| page_limit(value)))
        .max();
    let reads = entries
        .unwrap_or(0)
        .div_ceil(USUAL_PAGE)
        .clamp(1, MOST_READS);
    u32::try_from(reads).unwrap_or(1)
}

/// The entries that a `cosmos.base.query.v1beta1.PageRequest` asks for, if a field can be one: nothing tells in which field of
/// a call it is.
fn page_limit(value: Value<'_>) -> Option<u64> {
    let Value::Bytes(message) = value else {
        return None;
    };
    let mut limit = None;
    for field in Fields::of(message, "PageRequest") {
        match field.ok()? {
            (3, Value::Number(entries)) => limit = Some(entries),
            (1, Value::Bytes(_)) | (2 | 4 | 5, Value::Number(_)) => {}
            _ => return None,
        }
    }
    limit
}

/// As many reads of a page at most as are half of a client's burst by default.
const MOST_READS: u64 = 100;
const USUAL_PAGE: u64 = 30;
const LONGEST_PAGE: u64 = 100;

/// The parameters are in a form that is not read here.
struct Unreadable;

/// The number that a parameter of this name, at that place where parameters have none, has in a call; 0 and less are
/// none, as the node takes its default then.
fn number(parameter: (&str, usize), target: &[u8], body: &[u8]) -> Result<Option<u64>, Unreadable> {
    let value = value(parameter, target, body)?;
    Ok(value.and_then(|value| positive(&value)))
}

/// The value of a parameter of this name, or at that place: decoded in a target, and JSON in a body.
fn value<'a>(
    (name, place): (&str, usize),
    target: &'a [u8],
    body: &'a [u8],
) -> Result<Option<Cow<'a, [u8]>>, Unreadable> {
    let split = target.iter().position(|byte| *byte == b'?');
    if body.is_empty() {
        let asked = split.map_or(&[][..], |at| &target[at + 1..]);
        let mut values = encoding::pairs(asked).filter(|(key, _)| **key == *name.as_bytes());
        // The node takes the first one of a query.
        return Ok(values.next().map(|(_, value)| value));
    }
    let text = json::check(body).map_err(|_| Unreadable)?;
    // And the last one of an object.
    let params = json::members(text).filter(|(key, _)| json::folds_to(key, "params"));
    let Some((_, params)) = params.last() else {
        return Ok(None);
    };
    let value = match json::Kind::of(params) {
        json::Kind::Object => {
            let named = json::members(params).filter(|(key, _)| key == name);
            named.last().map(|(_, value)| value)
        }
        json::Kind::Array => json::elements(params).nth(place),
        _ => None,
    };
    Ok(value.map(Cow::Borrowed))
}

/// A number, in quotes or not.
fn positive(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches('"');
    text.parse().ok().filter(|number| *number > 0)
}

impl Reads {
    /// Whether a method may be called. The node looks names up exactly, so does this. The list of
    /// allowed methods is one of reads: writes are allowed unless they are refused.
    pub(super) fn check(&self, method: &str) -> Result<(), Refusal> {
        let is_write = || BroadcastMethod::of(method.as_bytes()).is_some();
        let allowed = &self.allow_methods;
        let is_allowed = allowed.is_empty() || is_listed(allowed, method) || is_write();
        if !is_listed(&self.refuse_methods, method) && is_allowed {
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

#[cfg(test)]
mod tests {
    use wire::proto;

    use super::*;

    #[test]
    fn a_page_of_grpc_or_rest_costs_by_its_entries() {
        let page = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut message = Vec::new();
            proto::bytes(&mut message, 1, b"cosmos1qypqxpq9");
            proto::nested(&mut message, 4, write);
            price_of_page(None, Some(&message))
        };
        let entries = |limit| page(&|out| proto::number(out, 3, limit));
        assert_eq!(
            [0, 1, 30, 31, 3_000, u64::MAX].map(entries),
            [1, 1, 1, 2, 100, 100]
        );
        // A key of a page before, and what is no page.
        assert_eq!(
            page(&|out| {
                proto::bytes(out, 1, b"next");
                proto::number(out, 3, 90);
            }),
            3
        );
        assert_eq!(
            page(&|out| {
                proto::number(out, 3, 90);
                proto::number(out, 6, 1);
            }),
            1
        );
        for (query, reads) in [
            ("pagination.limit=90", 3),
            ("a=b&pagination%2Elimit=%39%30", 3),
            ("pagination.limit=30&pagination.limit=90", 3),
            ("pagination.limit=-1", 1),
            ("limit=90", 1),
        ] {
            assert_eq!(price_of_page(Some(query), None), reads, "{query}");
        }
    }

    #[test]
    fn a_height_is_read_wherever_the_node_reads_it() {
        for (method, target, body, expected) in [
            ("block", "/block?height=7", "", Some(7)),
            ("block", "/block?x=1&height=\"7\"", "", Some(7)),
            ("block", "/v1/block?h%65ight=%227%22&y", "", Some(7)),
            ("block", "/block", "", None),
            ("block", "/block?height=", "", None),
            ("block", "/block?height=0", "", None),
            ("block", "/block?height=-1", "", None),
            ("tx", "/tx?hash=0x00&height=7", "", None),
            ("abci_query", "/", r#"{"params":{"height":"7"}}"#, Some(7)),
            ("abci_query", "/", r#"{"params":["","",7]}"#, Some(7)),
            ("block", "/", r#"{"params":{"height":7}}"#, Some(7)),
            ("block", "/", r#"{"params":{"Height":7}}"#, None),
            ("block", "/", r#"{"params":["7"]}"#, Some(7)),
            ("genesis_chunked", "/", r#"{"params":["7"]}"#, None),
            ("block", "/", r#"{"height":"7"}"#, None),
            ("block", "/", r#"{"params":[]}"#, None),
            ("block", "/block", "height=7", None),
        ] {
            let found = height(method, target.as_bytes(), body.as_bytes());
            assert_eq!(found, expected, "{target} {body}");
        }
    }

    #[test]
    fn a_hash_is_read_as_the_node_reads_it() {
        let (hex, base64) = ("2a".repeat(32), format!("{}o=", "Kioq".repeat(10) + "Ki"));
        for (target, body, is_read) in [
            (format!("/tx?hash=0x{hex}"), String::new(), true),
            (
                format!("/tx?prove=true&hash=0x{}", hex.to_uppercase()),
                String::new(),
                true,
            ),
            (format!("/tx?hash={hex}"), String::new(), false),
            (
                format!("/tx?hash=\"{}\"", "*".repeat(32)),
                String::new(),
                false,
            ),
            (
                format!("/tx?hash=0x{}", "2a".repeat(31)),
                String::new(),
                false,
            ),
            ("/tx".to_owned(), String::new(), false),
            (
                "/".to_owned(),
                format!(r#"{{"params":{{"hash":"{base64}"}}}}"#),
                true,
            ),
            (
                "/".to_owned(),
                format!(r#"{{"params":["{base64}"]}}"#),
                true,
            ),
            (
                "/".to_owned(),
                format!(r#"{{"params":{{"hash":"0x{hex}"}}}}"#),
                false,
            ),
            ("/".to_owned(), r#"{"params":{"hash":7}}"#.to_owned(), false),
            ("/".to_owned(), r#"{"params":{}}"#.to_owned(), false),
        ] {
            let expected = is_read.then_some([b'*'; 32]);
            assert_eq!(
                hash(target.as_bytes(), body.as_bytes()),
                expected,
                "{target} {body}"
            );
        }
    }

    /// Before, each of these cost as much as `status`.
    #[test]
    fn a_read_costs_by_its_method_and_its_page_in_every_spelling() {
        for (method, target, body, expected) in [
            ("status", "/status?per_page=100", "", 1),
            ("no_such_method", "/", "{}", 1),
            ("genesis", "/genesis", "", 10),
            ("block_results", "/", "{}", 5),
            ("tx_search", "/tx_search?query=\"\"", "", 10),
            ("tx_search", "/tx_search?per_page=1", "", 10),
            ("tx_search", "/tx_search?per_page=0", "", 10),
            ("tx_search", "/tx_search?per_page=31", "", 20),
            ("tx_search", "/tx_search?per%5Fpage=%22100%22", "", 40),
            ("tx_search", "/tx_search?per_page=99999999", "", 40),
            // A form, which the node reads before the query.
            ("tx_search", "/tx_search?per_page=1", "per_page=100", 40),
            ("tx_search", "/", r#"{"params":{"per_page":"100"}}"#, 40),
            ("tx_search", "/", r#"{"Params":{"per\u005fpage":100}}"#, 40),
            (
                "tx_search",
                "/",
                r#"{"params":{"per_page":1,"per_page":100}}"#,
                40,
            ),
            ("tx_search", "/", r#"{"params":["",false,1,100]}"#, 40),
            ("block_search", "/", r#"{"params":["",1,100]}"#, 40),
            ("validators", "/", r#"{"params":[5,1,60]}"#, 2),
            ("unconfirmed_txs", "/", r#"{"params":[100]}"#, 4),
        ] {
            let found = price(method, target.as_bytes(), body.as_bytes());
            assert_eq!(found, expected, "{target} {body}");
        }
    }

    fn list(allow: &[&str], refuse: &[&str]) -> Reads {
        let owned = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        Reads {
            allow_methods: owned(allow),
            refuse_methods: owned(refuse),
            ..Reads::default()
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
        let list = Reads::default();
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
        let by_default = Reads::default();
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
