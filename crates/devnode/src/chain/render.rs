//! Blocks, headers and the results of their transactions as JSON.

use wire::json::write as json;

use super::{Block, Header};
use crate::app::{App, Event, Outcome, Tx};
use crate::hash::Hash;

/// Appends a block id; that of no block has no hash.
pub(crate) fn block_id(out: &mut Vec<u8>, id: &Option<Hash>) {
    let hash = id.as_ref().map_or(&[][..], <[u8; 32]>::as_slice);
    let parts = usize::from(id.is_some());
    json::fill(
        out,
        r#"{"hash":?,"parts":{"total":?,"hash":?}}"#,
        &[&json::Hex(hash), &json::Int(parts), &json::Hex(hash)],
    );
}

/// Appends a header.
pub(crate) fn header(out: &mut Vec<u8>, header: &Header) {
    json::fill(
        out,
        r#"{"version":{"block":"11","app":"1"},"chain_id":?,"height":?,"time":?,"last_block_id":?,"data_hash":?,"app_hash":?,"last_results_hash":?,"proposer_address":?}"#,
        &[
            &json::Text(&header.chain_id),
            &json::IntText(header.height),
            &json::Text(&header.time.text()),
            &json::With(block_id, &header.previous),
            &json::Hex(&header.data_hash),
            &json::Hex(&header.app_hash),
            &json::Hex(&header.last_results_hash),
            &json::Hex(&header.proposer),
        ],
    );
}

/// Appends a block.
pub(crate) fn block(out: &mut Vec<u8>, block: &Block) {
    let values = [
        &json::With(header, &block.header) as _,
        &json::With(txs, &*block.txs) as _,
    ];
    let template = r#"{"header":?,"data":{"txs":?},"evidence":{"evidence":[]}}"#;
    json::fill(out, template, &values);
}

/// Appends transactions as a list of base64 strings.
pub(crate) fn txs(out: &mut Vec<u8>, txs: &[Tx]) {
    json::array(out, txs, |out, tx| json::base64(out, &tx.bytes));
}

/// Appends `{"block_id":…,"block":…}`.
pub(crate) fn block_with_id(out: &mut Vec<u8>, of: Option<&Block>) {
    let id = of.map(|block| block.hash);
    let content: &dyn json::Value = match of {
        Some(found) => &json::With(block, found),
        None => &json::Raw("null"),
    };
    let values = [&json::With(block_id, &id), content];
    json::fill(out, r#"{"block_id":?,"block":?}"#, &values);
}

/// Appends a block's summary, as `blockchain` lists it.
pub(crate) fn block_meta(out: &mut Vec<u8>, block: &Block) {
    let bytes: usize = block.txs.iter().map(|tx| tx.bytes.len()).sum();
    json::fill(
        out,
        r#"{"block_id":?,"block_size":?,"header":?,"num_txs":?}"#,
        &[
            &json::With(block_id, &Some(block.hash)),
            &json::IntText(bytes),
            &json::With(header, &block.header),
            &json::IntText(block.txs.len()),
        ],
    );
}

/// Appends the `ExecTxResult` of a block's transaction.
pub(crate) fn tx_result(out: &mut Vec<u8>, app: &dyn App, block: &Block, index: usize) {
    let executed = (block.code(index), block.outcome(index));
    self::executed(out, app, &block.txs[index].bytes, executed);
}

/// The same of a transaction that was executed with this code and outcome.
pub(crate) fn executed(
    out: &mut Vec<u8>,
    app: &dyn App,
    tx: &[u8],
    (code, outcome): (u32, &Outcome),
) {
    let events = app.events(tx, code);
    result(out, (code, outcome), &events);
}

/// Appends a result with its events: `ExecTxResult`, or `ResponseCheckTx` without any.
pub(crate) fn result(out: &mut Vec<u8>, (code, outcome): (u32, &Outcome), events: &[Event<'_>]) {
    let data: &dyn json::Value = match &outcome.data[..] {
        [] => &json::Raw("null"),
        data => &json::Base64(data),
    };
    json::fill(
        out,
        r#"{"code":?,"data":?,"log":?,"info":"","gas_wanted":?,"gas_used":?,"events":?,"codespace":?}"#,
        &[
            &json::Int(code),
            data,
            &json::Text(&outcome.log),
            &json::IntText(outcome.gas_wanted),
            &json::IntText(outcome.gas_used),
            &json::With(write_events, events),
            &json::Text(outcome.codespace),
        ],
    );
}

/// Appends the results of a block's transactions; `null` if it has none.
pub(crate) fn tx_results(out: &mut Vec<u8>, app: &dyn App, block: &Block) {
    if block.txs.is_empty() {
        json::raw(out, "null");
        return;
    }
    json::array(out, 0..block.txs.len(), |out, index| {
        tx_result(out, app, block, index);
    });
}

fn write_events(out: &mut Vec<u8>, events: &[Event<'_>]) {
    json::array(out, events, |out, event| {
        let part = |name: &'static str| name.split_once('.').unwrap_or((name, ""));
        let kind = event.first().map_or("", |(name, _)| part(name).0);
        let attributes = |out: &mut Vec<u8>| {
            json::array(out, event, |out, (name, value)| {
                json::fill(
                    out,
                    r#"{"key":?,"value":?,"index":true}"#,
                    &[&json::Text(part(name).1), &json::Text(value)],
                );
            });
        };
        json::fill(
            out,
            r#"{"type":?,"attributes":?}"#,
            &[&json::Text(kind), &attributes],
        );
    });
}
