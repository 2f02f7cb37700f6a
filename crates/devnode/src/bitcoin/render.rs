//! Blocks and transactions as JSON, with btcd's members (`btcjson/chainsvrresults.go` of 0.26.2).

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Amount, BlockHash, Network, Transaction, TxIn, TxOut};
use serde_json::{Map, Number, Value, json};

use super::chain::{Chain, StoredBlock};
use super::ledger::{Ledger, Pooled, Spendable, priority};
use super::scripts::{class, disassembled, hex};

/// What a block's header says in a transaction's own answer.
#[derive(Clone, Copy)]
struct Place {
    hash: BlockHash,
    time: u32,
    confirmations: u32,
}

/// How much of a block is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Ids of its transactions.
    Ids,
    /// Transactions.
    Transactions,
}

/// A block that is kept.
pub(super) fn block(chain: &Chain, height: u32, kept: &StoredBlock, detail: Detail) -> Value {
    let header = &kept.block.header;
    let hash = header.block_hash();
    let confirmations = 1 + chain.height() - height;
    let mut shown = json!({
        "hash": hash.to_string(),
        "confirmations": confirmations,
        "strippedsize": kept.block.total_size(),
        "size": kept.block.total_size(),
        "weight": kept.block.weight().to_wu(),
        "height": height,
        "version": header.version.to_consensus(),
        "versionHex": format!("{:08x}", header.version.to_consensus()),
        "merkleroot": header.merkle_root.to_string(),
        "time": header.time,
        "nonce": header.nonce,
        "bits": format!("{:x}", header.bits.to_consensus()),
        "difficulty": DIFFICULTY,
        "previousblockhash": header.prev_blockhash.to_string(),
    });
    let txs = &kept.block.txdata;
    let (name, txs) = match detail {
        Detail::Ids => {
            let ids = txs
                .iter()
                .map(|tx| Value::from(tx.compute_txid().to_string()));
            ("tx", ids.collect::<Vec<_>>())
        }
        Detail::Transactions => {
            let place = Place {
                hash,
                time: header.time,
                confirmations,
            };
            let txs = txs.iter().map(|tx| transaction_at(tx, Some(place)));
            ("rawtx", txs.collect())
        }
    };
    shown[name] = Value::from(txs);
    if let Some(next) = chain.hash_at(height + 1) {
        shown["nextblockhash"] = Value::from(next.to_string());
    }
    shown
}

/// The difficulty of the easiest target, which every block of the network has.
pub(super) const DIFFICULTY: u32 = 1;

/// A transaction of the mempool.
pub(super) fn transaction(tx: &Transaction) -> Value {
    transaction_at(tx, None)
}

fn transaction_at(tx: &Transaction, place: Option<Place>) -> Value {
    let mut shown = json!({
        "hex": serialize_hex(tx),
        "txid": tx.compute_txid().to_string(),
        "hash": tx.compute_wtxid().to_string(),
        "size": tx.total_size(),
        "vsize": tx.vsize(),
        "weight": tx.weight().to_wu(),
        "version": tx.version.0.cast_unsigned(),
        "locktime": tx.lock_time.to_consensus_u32(),
        "vin": tx.input.iter().map(|one| input(tx, one)).collect::<Vec<_>>(),
        "vout": (0..).zip(&tx.output).map(output).collect::<Vec<_>>(),
    });
    if let Some(place) = place {
        shown["blockhash"] = Value::from(place.hash.to_string());
        shown["confirmations"] = Value::from(place.confirmations);
        shown["time"] = Value::from(place.time);
        shown["blocktime"] = Value::from(place.time);
    }
    shown
}

fn input(tx: &Transaction, input: &TxIn) -> Value {
    let script = &input.script_sig;
    let sequence = input.sequence.to_consensus_u32();
    if tx.is_coinbase() {
        return json!({ "coinbase": hex(script.as_bytes()), "sequence": sequence });
    }
    json!({
        "txid": input.previous_output.txid.to_string(),
        "vout": input.previous_output.vout,
        "scriptSig": { "asm": disassembled(script), "hex": hex(script.as_bytes()) },
        "sequence": sequence,
    })
}

fn output((number, output): (u32, &TxOut)) -> Value {
    json!({ "value": bitcoins(output.value), "n": number, "scriptPubKey": locked(output) })
}

/// An unspent output.
pub(super) fn unspent(chain: &Chain, found: Spendable<'_>) -> Value {
    let confirmations = found.height.map_or(0, |height| 1 + chain.height() - height);
    json!({
        "bestblock": chain.tip().to_string(),
        "confirmations": confirmations,
        "value": bitcoins(found.output.value),
        "scriptPubKey": locked(found.output),
        "coinbase": found.is_coinbase,
    })
}

/// What locks an output.
fn locked(output: &TxOut) -> Value {
    let script = &output.script_pubkey;
    let mut shown = json!({
        "asm": disassembled(script),
        "hex": hex(script.as_bytes()),
        "type": class(script),
    });
    // That of a bare key is shown as the address of its hash.
    let of_key = || {
        script
            .p2pk_public_key()
            .map(|key| Address::p2pkh(key, Network::Regtest))
    };
    let address = Address::from_script(script, Network::Regtest).ok();
    if let Some(address) = address.or_else(of_key) {
        let address = address.to_string();
        shown["reqSigs"] = Value::from(1);
        shown["addresses"] = json!([address]);
        shown["address"] = Value::from(address);
    }
    shown
}

/// The mempool with every member that btcd shows of its transactions.
pub(super) fn mempool(ledger: &Ledger) -> Value {
    let shown = ledger.pool().iter();
    let shown = shown.map(|pooled| (pooled.txid.to_string(), entry(ledger, pooled)));
    Value::from(shown.collect::<Map<_, _>>())
}

fn entry(ledger: &Ledger, pooled: &Pooled) -> Value {
    let outputs = pooled.tx.input.iter().map(|input| input.previous_output);
    let coins: Vec<_> = outputs
        .clone()
        .filter_map(|output| ledger.find(&output))
        .collect();
    let parents = outputs.filter(|output| ledger.pool().get(&output.txid).is_some());
    json!({
        "size": pooled.bytes,
        "vsize": pooled.tx.vsize(),
        "weight": pooled.tx.weight().to_wu(),
        "fee": bitcoins(pooled.fee),
        "time": pooled.added,
        "height": pooled.height,
        "startingpriority": number(pooled.priority),
        "currentpriority": number(priority(&pooled.tx, &coins, ledger.height() + 1)),
        "depends": parents.map(|output| output.txid.to_string()).collect::<Vec<_>>(),
    })
}

/// An amount in coins.
pub(super) fn bitcoins(amount: Amount) -> Value {
    number(amount.to_btc())
}

/// A number without a fraction is written without one, as Go does.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A number as Go's `%g` prints it: the shortest digits, with an exponent below 10^-4 and from 10^6 on.
pub(super) fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (57_600_000.0, "5.76e+07"),
            (1_234.5, "1234.5"),
            (0.00001, "1e-05"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
        ] {
            assert_eq!(go_float(value), text);
        }
        assert_eq!(number(50.0).to_string(), "50");
        assert_eq!(number(0.5).to_string(), "0.5");
    }
}
