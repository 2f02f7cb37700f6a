//! Results of executed transactions as JSON.

use wire::json::write as json;

use crate::app::kvstore;
use crate::chain::block::Block;
use crate::config::Application;

/// Appends an `ExecTxResult`. One that failed has no events.
pub(crate) fn tx_result(out: &mut Vec<u8>, app: Application, tx: &[u8], code: u32) {
    let events: &dyn json::Value = if code == 0 && app == Application::Kvstore {
        &json::With(kvstore::write_events, tx)
    } else {
        &json::Raw("[]")
    };
    whole_result(out, app, code, 0, events);
}

/// Appends an `ExecTxResult` that never executed.
pub(crate) fn no_tx_result(out: &mut Vec<u8>) {
    whole_result(out, Application::Kvstore, 0, 0, &json::Raw("[]"));
}

fn whole_result(
    out: &mut Vec<u8>,
    app: Application,
    code: u32,
    gas_wanted: u32,
    events: &dyn json::Value,
) {
    let codespace = match app {
        Application::Bank if code != 0 => "sdk",
        _ => "",
    };
    json::fill(
        out,
        r#"{"code":?,"data":null,"log":"","info":"","gas_wanted":?,"gas_used":"0","events":?,"codespace":?}"#,
        &[
            &json::Int(code),
            &json::IntText(gas_wanted),
            events,
            &json::Text(codespace),
        ],
    );
}

/// Appends an `ExecTxResult` without its zero values, as `Tx` events carry it.
pub(crate) fn sparse_tx_result(out: &mut Vec<u8>, app: Application, tx: &[u8], code: u32) {
    if code != 0 {
        json::fill(out, r#"{"code":?}"#, &[&json::Int(code)]);
    } else if app == Application::Kvstore {
        let events = json::With(kvstore::write_events, tx);
        json::fill(out, r#"{"events":?}"#, &[&events]);
    } else {
        json::raw(out, "{}");
    }
}

/// Appends a `ResponseCheckTx`.
pub(crate) fn check_tx(out: &mut Vec<u8>, app: Application, code: u32) {
    let gas_wanted = match app {
        Application::Kvstore if code == 0 => kvstore::GAS_WANTED,
        _ => 0,
    };
    whole_result(out, app, code, gas_wanted, &json::Raw("[]"));
}

/// Appends the results of a block's transactions; `null` if it has none.
pub(crate) fn tx_results(out: &mut Vec<u8>, block: &Block) {
    if block.txs.is_empty() {
        json::raw(out, "null");
        return;
    }
    json::array(out, block.txs.iter().enumerate(), |out, (index, tx)| {
        tx_result(out, block.app, &tx.bytes, block.code(index));
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
