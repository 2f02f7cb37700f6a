//! Results of executed transactions as JSON.

use wire::json::write as json;

use crate::app::events::{self, Event};
use crate::app::events_of;
use crate::chain::block::{Block, Outcome};
use crate::config::Application;

/// Appends the `ExecTxResult` of a block's transaction. One that failed has no events.
pub(crate) fn tx_result(out: &mut Vec<u8>, block: &Block, index: usize) {
    let (tx, code) = (&block.txs[index].bytes, block.code(index));
    executed(out, block.app, tx, (code, block.outcome(index)));
}

/// The same of a transaction that was executed with this code and outcome.
pub(crate) fn executed(
    out: &mut Vec<u8>,
    app: Application,
    tx: &[u8],
    (code, outcome): (u32, &Outcome),
) {
    let events = events_of(app, tx, (code, outcome));
    whole_result(out, (code, outcome), &events);
}

/// Appends an `ExecTxResult` that never executed.
pub(crate) fn no_tx_result(out: &mut Vec<u8>) {
    let none = (0, &Outcome::default());
    whole_result(out, none, &[]);
}

fn whole_result(out: &mut Vec<u8>, (code, outcome): (u32, &Outcome), events: &[Event<'_>]) {
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
            &|out: &mut Vec<u8>| events::write(out, events),
            &json::Text(outcome.codespace),
        ],
    );
}

/// Appends the `ExecTxResult` of a transaction without its zero values, as `Tx` events carry it.
pub(crate) fn sparse_tx_result(
    out: &mut Vec<u8>,
    (code, outcome): (u32, &Outcome),
    found: &[Event<'_>],
) {
    let events = |out: &mut Vec<u8>| events::write(out, found);
    let codespace = outcome.codespace;
    let members: [(&str, bool, &dyn json::Value); 7] = [
        ("code", code != 0, &json::Int(code)),
        (
            "data",
            !outcome.data.is_empty(),
            &json::Base64(&outcome.data),
        ),
        ("log", !outcome.log.is_empty(), &json::Text(&outcome.log)),
        (
            "gas_wanted",
            outcome.gas_wanted != 0,
            &json::IntText(outcome.gas_wanted),
        ),
        (
            "gas_used",
            outcome.gas_used != 0,
            &json::IntText(outcome.gas_used),
        ),
        ("events", !found.is_empty(), &events),
        ("codespace", !codespace.is_empty(), &json::Text(codespace)),
    ];
    let present = members.iter().filter(|(_, is_present, _)| *is_present);
    for (at, (name, _, value)) in present.enumerate() {
        json::raw(out, if at == 0 { "{" } else { "," });
        json::fill(out, r#""?":?"#, &[&json::Raw(name), *value]);
    }
    let is_empty = !members.iter().any(|(_, is_present, _)| *is_present);
    json::raw(out, if is_empty { "{}" } else { "}" });
}

/// Appends a `ResponseCheckTx`.
pub(crate) fn check_tx(out: &mut Vec<u8>, checked: (u32, &Outcome)) {
    whole_result(out, checked, &[]);
}

/// Appends the results of a block's transactions; `null` if it has none.
pub(crate) fn tx_results(out: &mut Vec<u8>, block: &Block) {
    if block.txs.is_empty() {
        json::raw(out, "null");
        return;
    }
    json::array(out, 0..block.txs.len(), |out, index| {
        tx_result(out, block, index);
    });
}

/// Appends validator updates.
pub(crate) fn validator_updates(out: &mut Vec<u8>, block: &Block) {
    json::array(out, &block.validator_updates, |out, (key, power)| {
        let power = |out: &mut Vec<u8>| {
            if *power != 0 {
                json::fill(out, r#","power":?"#, &[&json::IntText(*power)]);
            }
        };
        json::fill(
            out,
            r#"{"pub_key":{"Sum":{"type":"tendermint.crypto.PublicKey_Ed25519","value":{"ed25519":?}}}?}"#,
            &[&json::Base64(key), &power],
        );
    });
}

/// Appends a `ResponseFinalizeBlock`, as `NewBlock` events carry it.
pub(crate) fn finalize_block(out: &mut Vec<u8>, block: &Block) {
    let tx_results = |out: &mut Vec<u8>| {
        if !block.txs.is_empty() {
            json::fill(out, r#""tx_results":?,"#, &[&json::With(tx_results, block)]);
        }
    };
    json::fill(
        out,
        r#"{?"validator_updates":?,"app_hash":?}"#,
        &[
            &tx_results,
            &json::With(validator_updates, block),
            &json::Base64(&block.app_hash),
        ],
    );
}
