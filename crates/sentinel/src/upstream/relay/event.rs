//! Events of past blocks, written from the blocks as CometBFT 0.38 would have written them.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use wire::json::quote;
use wire::json::write::{Raw, Value, array, fill, filled, raw};

use super::super::UpstreamError;
use super::super::nodes::{NodeIndex, Nodes};
use super::super::query;
use super::super::reply::part;
use super::node_message::event_head;
use super::subscriptions::EventKind;

/// What comes behind the query in the event of a past block: `,"data":…}}`.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct PastEvent(Bytes);

/// Which event is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) struct EventQuery {
    pub(in crate::upstream) height: u64,
    pub(in crate::upstream) kind: EventKind,
    /// How the application writes an empty list of validator updates, which its stored form
    /// does not tell: `null` or `[]`.
    pub(in crate::upstream) no_updates_are_null: bool,
}

#[derive(Deserialize)]
struct BlockAnswer<'a> {
    #[serde(borrow)]
    block_id: &'a RawValue,
    #[serde(borrow)]
    block: &'a RawValue,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    header: &'a RawValue,
}

#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow, default)]
    txs_results: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finalize_block_events: Option<&'a RawValue>,
    #[serde(borrow, default)]
    validator_updates: Option<&'a RawValue>,
    #[serde(borrow, default)]
    consensus_param_updates: Option<&'a RawValue>,
    #[serde(borrow, default)]
    app_hash: Option<&'a RawValue>,
}

/// Asks a node for what the event needs and writes it. The bytes are charged to the ledger.
///
/// # Errors
/// [`UpstreamError`].
///
/// # Cancel safety
/// Dropping the future drops the questions.
pub(in crate::upstream) async fn fetch(
    nodes: Nodes,
    node: NodeIndex,
    wanted: EventQuery,
) -> Result<PastEvent, UpstreamError> {
    let height = wanted.height;
    let block = query::ask_at(&nodes, node, "block", height).await?;
    let results = match wanted.kind {
        EventKind::NewBlock => query::ask_at(&nodes, node, "block_results", height).await?,
        EventKind::NewBlockHeader | EventKind::Other => Bytes::new(),
    };
    let room = block.len() + results.len() + FRAME_BYTES;
    let mut charge = nodes.ledger().reserve(room).ok_or(UpstreamError::Memory)?;
    let text = query::decode(block, move |block| match wanted.kind {
        EventKind::NewBlock => new_block(&block, &results, wanted.no_updates_are_null),
        EventKind::NewBlockHeader | EventKind::Other => new_block_header(&block),
    })
    .await?;
    if text.len() > room && !charge.grow(text.len() - room) {
        return Err(UpstreamError::Memory);
    }
    charge.shrink_to(text.len());
    Ok(PastEvent(query::charged(text, charge)))
}

impl PastEvent {
    /// The whole event for a subscription.
    pub(in crate::upstream) fn text(&self, id: &str, query: &str) -> Vec<u8> {
        let mut text = event_head(id, query);
        text.extend_from_slice(&self.0);
        text
    }
}

fn new_block_header(answer: &[u8]) -> Result<Vec<u8>, UpstreamError> {
    let answer: BlockAnswer<'_> = query::result(answer)?;
    let Block { header } = part(answer.block)?;
    let template = r#","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":?}},"events":{"tm.event":["NewBlockHeader"]}}}"#;
    Ok(filled(template, &[&Raw(header.get())]))
}

fn new_block(
    answer: &[u8],
    results: &[u8],
    no_updates_are_null: bool,
) -> Result<Vec<u8>, UpstreamError> {
    let BlockAnswer { block_id, block } = query::result(answer)?;
    let results: Results<'_> = query::result(results)?;
    let mut text = Vec::with_capacity(answer.len() + FRAME_BYTES);
    let template = r#","data":{"type":"tendermint/event/NewBlock","value":{"block":?,"block_id":?,"result_finalize_block":{"#;
    let values: [&dyn Value; 2] = [&Raw(block.get()), &Raw(block_id.get())];
    fill(&mut text, template, &values);
    let updates = match (
        results.validator_updates.map(RawValue::get),
        no_updates_are_null,
    ) {
        (None | Some("null"), true) => "null",
        (None | Some("null"), false) => "[]",
        (Some(updates), _) => updates,
    };
    // The structure omits what is empty, except for the updates.
    let members = [
        ("events", full(results.finalize_block_events)),
        ("tx_results", full(results.txs_results)),
        ("validator_updates", Some(updates)),
        (
            "consensus_param_updates",
            full(results.consensus_param_updates),
        ),
        ("app_hash", full(results.app_hash)),
    ];
    let mut comma = "";
    for (name, value) in members {
        let Some(value) = value else { continue };
        let values: [&dyn Value; 3] = [&Raw(comma), &Raw(name), &Raw(value)];
        fill(&mut text, r#"?"?":?"#, &values);
        comma = ",";
    }
    raw(&mut text, r#"}}},"events":{"#);
    tags(&mut text, results.finalize_block_events)?;
    raw(&mut text, "}}}");
    Ok(text)
}

/// The tags under which the node publishes a block: its events' attributes, in the order of their
/// names as Go prints a map, and the event's own name (`types/event_bus.go`).
fn tags(text: &mut Vec<u8>, events: Option<&RawValue>) -> Result<(), UpstreamError> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(default, rename = "type")]
        kind: String,
        #[serde(default)]
        attributes: Option<Vec<Attribute>>,
    }
    #[derive(Deserialize)]
    struct Attribute {
        #[serde(default)]
        key: String,
        #[serde(default)]
        value: String,
    }
    let events: Option<Vec<Event>> = match events {
        Some(events) => part(events)?,
        None => None,
    };
    let mut tags: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events.unwrap_or_default() {
        if event.kind.is_empty() {
            continue;
        }
        for attribute in event.attributes.unwrap_or_default() {
            if !attribute.key.is_empty() {
                let name = format!("{}.{}", event.kind, attribute.key);
                tags.entry(name).or_default().push(attribute.value);
            }
        }
    }
    let own = tags.entry("tm.event".to_owned()).or_default();
    own.push("NewBlock".to_owned());
    for (place, (name, values)) in tags.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        quote(text, name);
        text.push(b':');
        array(text, values, |out, value| quote(out, value));
    }
    Ok(())
}

fn full(value: Option<&RawValue>) -> Option<&str> {
    let is_full = |value: &&str| !matches!(*value, "null" | "[]" | r#""""#);
    value.map(RawValue::get).filter(is_full)
}

/// Whether a live event of a new block shows that no validator updates are `null`; none if it has
/// some. They stand near the end, so that is where it is looked for.
pub(super) fn shows_null_updates(rest: &str) -> Option<bool> {
    let (_, updates) = rest.rsplit_once(r#""validator_updates":"#)?;
    if updates.starts_with("null") {
        Some(true)
    } else if updates.starts_with("[]") {
        Some(false)
    } else {
        None
    }
}

/// What an event has around its parts.
const FRAME_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"block_id":{"hash":"AB"},"block":{"header":{"height":"5"},"data":{"txs":[]}}}}"#;

    #[test]
    fn an_event_of_a_header_is_the_header_in_its_frame() {
        let event = PastEvent(new_block_header(BLOCK).unwrap().into());
        assert_eq!(
            String::from_utf8(event.text("3", "tm.event='NewBlockHeader'")).unwrap(),
            r#"{"jsonrpc":"2.0","id":3,"result":{"query":"tm.event='NewBlockHeader'","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":{"height":"5"}}},"events":{"tm.event":["NewBlockHeader"]}}}"#
        );
    }

    #[test]
    fn an_event_of_a_block_has_the_tags_of_its_events() {
        let results = br#"{"jsonrpc":"2.0","id":1,"result":{"height":"5","txs_results":null,"finalize_block_events":[{"type":"z","attributes":[{"key":"b","value":"1","index":true},{"key":"","value":"x"}]},{"type":"a","attributes":[{"key":"b","value":"<2>","index":false}]},{"type":"z","attributes":[{"key":"b","value":"3"}]}],"validator_updates":null,"consensus_param_updates":null,"app_hash":"AA=="}}"#;
        let text = String::from_utf8(new_block(BLOCK, results, true).unwrap()).unwrap();
        assert!(
            text.contains(r#""validator_updates":null,"app_hash":"AA=="}"#),
            "{text}"
        );
        assert!(
            text.ends_with(
                r#""events":{"a.b":["\u003c2\u003e"],"tm.event":["NewBlock"],"z.b":["1","3"]}}}"#
            ),
            "{text}"
        );
    }

    #[test]
    fn the_form_of_no_updates_is_learnt() {
        assert_eq!(
            shows_null_updates(r#""validator_updates":null,"app_hash":"""#),
            Some(true)
        );
        assert_eq!(
            shows_null_updates(r#""validator_updates":[]}"#),
            Some(false)
        );
        assert_eq!(shows_null_updates(r#""validator_updates":[{}]"#), None);
        assert_eq!(shows_null_updates("{}"), None);
    }
}
