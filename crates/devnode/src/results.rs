//! Results of executed transactions as JSON.

use wire::json::write as json;

use crate::app::kvstore;
use crate::chain::block::Block;
use crate::config::Application;

/// Appends an `ExecTxResult`. One that failed has no events.
pub(crate) fn tx_result(out: &mut Vec<u8>, app: Application, tx: &[u8], code: u32) {
    json::raw(out, r#"{"code":"#);
    json::int(out, code);
    json::raw(
        out,
        r#","data":null,"log":"","info":"","gas_wanted":"0","gas_used":"0","events":"#,
    );
    if code == 0 && app == Application::Kvstore {
        kvstore::write_events(out, tx);
    } else {
        json::raw(out, "[]");
    }
    json::raw(out, r#","codespace":""}"#);
}

/// Appends an `ExecTxResult` that never executed.
pub(crate) fn no_tx_result(out: &mut Vec<u8>) {
    json::raw(
        out,
        r#"{"code":0,"data":null,"log":"","info":"","gas_wanted":"0","gas_used":"0","events":[],"codespace":""}"#,
    );
}

/// Appends an `ExecTxResult` without its zero values, as `Tx` events carry it.
pub(crate) fn sparse_tx_result(out: &mut Vec<u8>, app: Application, tx: &[u8], code: u32) {
    out.push(b'{');
    if code != 0 {
        json::raw(out, r#""code":"#);
        json::int(out, code);
    } else if app == Application::Kvstore {
        json::raw(out, r#""events":"#);
        kvstore::write_events(out, tx);
    }
    out.push(b'}');
}

/// Appends a `ResponseCheckTx`.
pub(crate) fn check_tx(out: &mut Vec<u8>, app: Application, code: u32) {
    json::raw(out, r#"{"code":"#);
    json::int(out, code);
    json::raw(out, r#","data":null,"log":"","info":"","gas_wanted":"#);
    let gas_wanted = match app {
        Application::Kvstore if code == 0 => kvstore::GAS_WANTED,
        _ => 0,
    };
    json::int_text(out, gas_wanted);
    json::raw(out, r#","gas_used":"0","events":[],"codespace":""}"#);
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
        json::raw(
            out,
            r#"{"pub_key":{"Sum":{"type":"tendermint.crypto.PublicKey_Ed25519","value":{"ed25519":"#,
        );
        json::base64(out, key);
        json::raw(out, "}}}");
        if *power != 0 {
            json::raw(out, r#","power":"#);
            json::int_text(out, *power);
        }
        out.push(b'}');
    });
}

/// Appends a `ResponseFinalizeBlock`, as `NewBlock` events carry it.
pub(crate) fn finalize_block(out: &mut Vec<u8>, block: &Block) {
    out.push(b'{');
    if !block.txs.is_empty() {
        json::raw(out, r#""tx_results":"#);
        tx_results(out, block);
        out.push(b',');
    }
    json::raw(out, r#""validator_updates":"#);
    validator_updates(out, block);
    json::raw(out, r#","app_hash":"#);
    json::base64(out, &block.app_hash);
    out.push(b'}');
}
