//! The methods of the JSON-RPC that loads, observers and tests ask (`rpcserver.go` of btcd 0.26.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admission::Refused;
use bitcoin::consensus::encode::{self, serialize_hex};
use bitcoin::hex::FromHex as _;
use bitcoin::{Amount, BlockHash, OutPoint, Transaction, Txid};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::encoding::hex_text;

use super::chain::{Chain, StoredBlock};
use super::error::{NOT_DECODED, NOT_FOUND, OUT_OF_RANGE, RpcError, TX_REJECTED};
use super::ledger::Spendable;
use super::node::{Announcement, Bitcoin};
use super::rules::{self, Offered};
use crate::app::admission::Gate;

type Answer = Result<Value, RpcError>;

/// Most blocks that one request generates: what is mined is not answered before.
const MOST_GENERATED: u32 = 100_000;
/// The method whose calls are taken together.
pub(super) const BROADCAST: &str = "sendrawtransaction";

/// Answers a method other than [`BROADCAST`].
pub(super) async fn answer(node: &Arc<Bitcoin>, method: &str, params: &[Value]) -> Answer {
    match method {
        "generate" => generate(node, parameter(params, 0)?).await,
        // Walks through the mempool or a block, too long for a thread that serves clients.
        "getblock" | "getrawmempool" => {
            let (node, params, method) = (Arc::clone(node), params.to_vec(), method.to_owned());
            let read = tokio::task::spawn_blocking(move || match method.as_str() {
                "getblock" => block(&node, &params),
                _ => Ok(mempool_ids(&node)),
            });
            read.await
                .unwrap_or_else(|_| Err(RpcError::internal("the request failed")))
        }
        _ => answer_at_once(node, method, params),
    }
}

fn answer_at_once(node: &Bitcoin, method: &str, params: &[Value]) -> Answer {
    match method {
        // A method of this node alone: what admission has done since the start.
        "getadmissioninfo" => Ok(admission(node)),
        "getbestblockhash" => Ok(Value::from(node.chain().tip().to_string())),
        "getblockcount" => Ok(Value::from(node.chain().height())),
        "getblockhash" => {
            let height: i64 = parameter(params, 0)?;
            let height = u32::try_from(height).ok();
            let found = height.and_then(|height| node.chain().hash_at(height));
            let none = || RpcError::new(OUT_OF_RANGE, "Block number out of range");
            Ok(Value::from(found.ok_or_else(none)?.to_string()))
        }
        "getinfo" => Ok(info(node)),
        "getmempoolinfo" => {
            let depth = node.depth();
            Ok(json!({ "size": depth.txs, "bytes": depth.bytes }))
        }
        "gettxout" => unspent(node, params),
        "invalidateblock" => {
            let hash: BlockHash = hash_of(&parameter::<String>(params, 0)?)?;
            let unknown = || RpcError::new(NOT_FOUND, "Block not found");
            let taken_back = node.invalidate(&hash);
            taken_back.then_some(Value::Null).ok_or_else(unknown)
        }
        _ => Err(RpcError::method_not_found()),
    }
}

fn admission(node: &Bitcoin) -> Value {
    let counters = node.gate.counters();
    json!({
        "mode": match &*node.gate {
            Gate::Serial(_) => "serial",
            Gate::Parallel(_) => "parallel",
        },
        "validators": node.validators,
        "checked": counters.accepted + counters.rejected + counters.orphaned,
        "checking_ns": node.checking.load(Ordering::Relaxed),
    })
}

/// A parameter by its place. One that may be missing is of a type that takes null.
fn parameter<T: DeserializeOwned>(params: &[Value], at: usize) -> Result<T, RpcError> {
    let given = params.get(at).cloned().unwrap_or(Value::Null);
    serde_json::from_value(given)
        .map_err(|error| RpcError::invalid_params(format!("parameter #{}: {error}", at + 1)))
}

async fn generate(node: &Arc<Bitcoin>, blocks: u32) -> Answer {
    if node.payout.is_none() {
        return Err(RpcError::internal(
            "No payment addresses specified via --miningaddr",
        ));
    }
    if !(1..=MOST_GENERATED).contains(&blocks) {
        let text = format!("the built-in node generates 1 to {MOST_GENERATED} blocks at once");
        return Err(RpcError::internal(text));
    }
    let node = Arc::clone(node);
    let mined = tokio::task::spawn_blocking(move || {
        let hashes = (0..blocks).map(|_| Value::from(node.mine().0.to_string()));
        Value::from(hashes.collect::<Vec<_>>())
    });
    mined
        .await
        .map_err(|_| RpcError::internal("no block was made"))
}

fn info(node: &Bitcoin) -> Value {
    json!({
        // btcd's version and the protocol that it speaks with peers.
        "version": 260_200,
        "protocolversion": 70_002,
        "blocks": node.chain().height(),
        "relayfee": Amount::from_sat(node.min_relay_fee).to_btc(),
    })
}

/// With verbosity 0 the block's bytes, else its header's values and the ids of its transactions.
fn block(node: &Bitcoin, params: &[Value]) -> Answer {
    let hash: BlockHash = hash_of(&parameter::<String>(params, 0)?)?;
    let verbosity: Option<i64> = parameter(params, 1)?;
    let chain = node.chain();
    let height = chain.height_of(&hash);
    let found = height.and_then(|height| Some((height, chain.at(height)?)));
    let (height, kept) = found.ok_or_else(|| RpcError::new(NOT_FOUND, "Block not found"))?;
    Ok(match verbosity {
        Some(0) => Value::from(serialize_hex(&kept.block)),
        _ => shown(&chain, height, kept),
    })
}

fn shown(chain: &Chain, height: u32, kept: &StoredBlock) -> Value {
    let header = &kept.block.header;
    let txs = kept.block.txdata.iter();
    let ids = txs.map(|tx| Value::from(tx.compute_txid().to_string()));
    let mut shown = json!({
        "hash": header.block_hash().to_string(),
        "confirmations": 1 + chain.height() - height,
        "size": kept.block.total_size(),
        "height": height,
        "merkleroot": header.merkle_root.to_string(),
        "time": header.time,
        "previousblockhash": header.prev_blockhash.to_string(),
        "tx": ids.collect::<Vec<_>>(),
    });
    if let Some(next) = chain.hash_at(height + 1) {
        shown["nextblockhash"] = Value::from(next.to_string());
    }
    shown
}

/// A hash in the order of bytes in which it is shown; btcd fills up a short one.
fn hash_of<T: std::str::FromStr>(text: &str) -> Result<T, RpcError> {
    let padded = format!("{text:0>64}");
    padded.parse().map_err(|_| not_hexadecimal(text))
}

fn not_hexadecimal(text: &str) -> RpcError {
    let text = format!("Argument must be hexadecimal string (not {text:?})");
    RpcError::new(NOT_DECODED, text)
}

fn mempool_ids(node: &Bitcoin) -> Value {
    node.gate.pause(|ledger| {
        let ids = ledger.pool().iter().map(|pooled| pooled.txid.to_string());
        Value::from(ids.collect::<Vec<_>>())
    })
}

/// An unspent output; null for one that is not there. As in btcd, one of the chain that the mempool spends
/// is.
fn unspent(node: &Bitcoin, params: &[Value]) -> Answer {
    let txid: Txid = hash_of(&parameter::<String>(params, 0)?)?;
    let vout: u32 = parameter(params, 1)?;
    let mempool = parameter::<Option<bool>>(params, 2)?.unwrap_or(true);
    Ok(node.gate.pause(|ledger| {
        let found = ledger.find(&OutPoint { txid, vout });
        let found = found.filter(|found| mempool || found.height.is_some());
        let chain = node.chain();
        found.map_or(Value::Null, |found| output(&chain, found))
    }))
}

fn output(chain: &Chain, found: Spendable<'_>) -> Value {
    let script = hex_text(found.output.script_pubkey.as_bytes());
    json!({
        "bestblock": chain.tip().to_string(),
        "confirmations": found.height.map_or(0, |height| 1 + chain.height() - height),
        "value": found.output.value.to_btc(),
        "scriptPubKey": { "hex": script.to_lowercase() },
        "coinbase": found.is_coinbase,
    })
}

/// Admits transactions, each given by its parameters, and announces to the peers what is accepted; the answers in
/// their order.
pub(super) async fn broadcast(app: &Arc<Bitcoin>, calls: &[&[Value]]) -> Vec<Answer> {
    let count = calls.len() as u64;
    let (faults, counters) = (&app.host.faults, &app.host.counters);
    counters.broadcasts.fetch_add(count, Ordering::Relaxed);
    let is_full = !faults.untouched() && faults.now().mempool_full;
    let mut offered = Vec::new();
    let mut places = Vec::new();
    let mut answers: Vec<Result<Txid, RpcError>> = Vec::with_capacity(calls.len());
    for (at, params) in calls.iter().enumerate() {
        match decode(params) {
            Ok(_) if is_full => answers.push(Err(RpcError::new(
                TX_REJECTED,
                "TX rejected: mempool is full",
            ))),
            Ok(tx) => {
                let txid = tx.compute_txid();
                let (one, verdict) = Offered::new(tx, txid);
                offered.push(one);
                places.push((at, txid, verdict));
                answers.push(Ok(txid));
            }
            Err(error) => answers.push(Err(error)),
        }
    }
    let refused = app.gate.offer(offered).await;
    for (place, why) in refused {
        let (at, txid, _) = &places[place];
        // What was accepted before a pause is in the mempool after it.
        let is_pooled = || app.gate.pause(|ledger| ledger.pool().get(txid).is_some());
        answers[*at] = Err(match why {
            Refused::Duplicate if is_pooled() => rules::already_pooled(*txid),
            _ => RpcError::new(TX_REJECTED, format!("TX rejected: {why}")),
        });
    }
    // The last first: the others are decided by then as a rule, so that this task is woken once and not for each.
    let mut decided = Vec::with_capacity(places.len());
    for (at, txid, verdict) in places.into_iter().rev() {
        decided.push((at, txid, verdict.await));
    }
    for (at, txid, verdict) in decided.into_iter().rev() {
        // A refused one has been dropped, and with it the sender.
        if let Ok(verdict) = verdict {
            if verdict.is_ok() {
                app.announce(Announcement::Tx(txid));
            }
            answers[at] = verdict;
        }
    }
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    counters
        .refused
        .fetch_add(refused as u64, Ordering::Relaxed);
    let shown = |answer: Result<Txid, RpcError>| answer.map(|txid| Value::from(txid.to_string()));
    answers.into_iter().map(shown).collect()
}

fn decode(params: &[Value]) -> Result<Transaction, RpcError> {
    let mut text: String = parameter(params, 0)?;
    if !text.len().is_multiple_of(2) {
        text.insert(0, '0');
    }
    let bytes = Vec::from_hex(&text).map_err(|_| not_hexadecimal(&text))?;
    encode::deserialize(&bytes)
        .map_err(|error| RpcError::new(NOT_DECODED, format!("TX decode failed: {error}")))
}
