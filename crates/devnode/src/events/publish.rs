//! The events of a committed block, in the original's order.

use wire::encoding::hex_text;
use wire::json::write as json;

use super::bus::{Bus, Committed};
use crate::app::{events, events_of};
use crate::chain::block::{Block, Tx};
use crate::chain::render;
use crate::chain::tendermint;
use crate::dialect::Dialect;
use crate::results;

/// Events of single transactions after which the publisher lets subscribers' connections write.
const EVENTS_AT_ONCE: usize = 100;

/// The tags of an event: what queries select by.
type TagValues<'a> = [(&'a str, Vec<&'a str>)];

/// Publishes a block to subscribers and waiting calls.
pub(crate) async fn publish(bus: &Bus, block: &Block) {
    let events = match bus.dialect() {
        Dialect::Comet038 => &BLOCK_EVENTS[..],
        Dialect::Tendermint031 => &TENDERMINT_EVENTS,
    };
    for (event, write) in events {
        if bus.has_subscribers_to(event) {
            let tags = [("tm.event", vec![*event])];
            let members = |out: &mut Vec<u8>| write(out, block);
            bus.publish(&tags, || content(bus.dialect(), event, &tags, members));
        }
    }
    let waits = bus.has_waiters();
    let wanted = bus.has_subscribers_to("Tx");
    if !waits && !wanted {
        return;
    }
    for (index, tx) in block.txs.iter().enumerate() {
        if wanted {
            publish_tx(bus, block, index, tx);
            if index % EVENTS_AT_ONCE == EVENTS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        if waits {
            let committed = || Committed {
                height: block.header.height,
                code: block.code(index),
                outcome: block.outcome(index).clone(),
            };
            bus.committed(&tx.hash, committed);
        }
    }
}

/// Appends the members of an event's value.
type WriteMembers = fn(&mut Vec<u8>, &Block);

/// The events of a whole block and what writes the members of their values.
const BLOCK_EVENTS: [(&str, WriteMembers); 3] = [
    ("NewBlock", |out, block| {
        json::fill(
            out,
            r#""block":?,"block_id":?,"result_finalize_block":?"#,
            &[
                &json::With(render::block, block),
                &json::With(render::block_id, &block.id),
                &json::With(results::finalize_block, block),
            ],
        );
    }),
    ("NewBlockHeader", |out, block| {
        let header = json::With(render::header, &block.header);
        json::fill(out, r#""header":?"#, &[&header]);
    }),
    ("NewBlockEvents", |out, block| {
        let (height, txs) = (block.header.height, block.txs.len());
        json::fill(
            out,
            r#""height":?,"events":null,"num_txs":?"#,
            &[&json::IntText(height), &json::IntText(txs)],
        );
    }),
];

/// The same of Tendermint 0.31.
const TENDERMINT_EVENTS: [(&str, WriteMembers); 2] = [
    ("NewBlock", |out, block| {
        with_results(out, "block", &json::With(tendermint::block, block));
    }),
    ("NewBlockHeader", |out, block| {
        with_results(out, "header", &json::With(tendermint::header, block));
    }),
];

fn with_results(out: &mut Vec<u8>, name: &str, value: &dyn json::Value) {
    let template = r#""?":?,"result_begin_block":{},"result_end_block":{"validator_updates":null}"#;
    json::fill(out, template, &[&json::Raw(name), value]);
}

fn publish_tx(bus: &Bus, block: &Block, index: usize, tx: &Tx) {
    let hash = hex_text(&tx.hash);
    let height = block.header.height.to_string();
    let executed = (block.code(index), block.outcome(index));
    let events = events_of(block.app, &tx.bytes, executed);
    let mut tags = vec![
        ("tm.event", vec!["Tx"]),
        ("tx.hash", vec![hash.as_str()]),
        ("tx.height", vec![height.as_str()]),
    ];
    tags.extend(events::tags(&events, |_| true));
    let write = |out: &mut Vec<u8>| {
        let place = |out: &mut Vec<u8>| {
            if index > 0 {
                json::fill(out, r#","index":?"#, &[&json::Int(index)]);
            }
        };
        let result = |out: &mut Vec<u8>| results::sparse_tx_result(out, executed, &events);
        json::fill(
            out,
            r#""TxResult":{"height":??,"tx":?,"result":?}"#,
            &[
                &json::IntText(block.header.height),
                &place,
                &json::Base64(&tx.bytes),
                &result,
            ],
        );
    };
    bus.publish(&tags, || content(bus.dialect(), "Tx", &tags, write));
}

/// The members of an event's `result` behind its query: the value with its `members`, and
/// the tags.
fn content(
    dialect: Dialect,
    event: &str,
    tags: &TagValues<'_>,
    members: impl Fn(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let all = |out: &mut Vec<u8>| {
        for (position, (tag, values)) in tags.iter().enumerate() {
            json::raw(out, if position > 0 { "," } else { "" });
            let values = |out: &mut Vec<u8>| match dialect {
                Dialect::Comet038 => {
                    json::array(out, values, |out, value| json::string(out, value));
                }
                Dialect::Tendermint031 => json::string(out, values[0]),
            };
            json::fill(out, "?:?", &[&json::Text(tag), &values]);
        }
    };
    let name = match dialect {
        Dialect::Comet038 => "events",
        Dialect::Tendermint031 => "tags",
    };
    json::fill(
        &mut out,
        r#""data":{"type":"tendermint/event/?","value":{?}},"?":{?}"#,
        &[&json::Raw(event), &members, &json::Raw(name), &all],
    );
    out
}
