//! The methods (`rpcserver.go` of btcd 0.26.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admission::Refused;
use bitcoin::consensus::encode::{self, serialize_hex};
use bitcoin::hex::FromHex as _;
use bitcoin::{Amount, BlockHash, OutPoint, Transaction, Txid};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{NOT_DECODED, NOT_FOUND, OUT_OF_RANGE, RpcError, TX_REJECTED};
use super::node::{Announcement, Bitcoin};
use super::render::{self, DIFFICULTY, Detail, bitcoins};
use super::rules::{self, Offered};
use crate::app::admission::Gate;
use crate::faults::Faults;

type Answer = Result<Value, RpcError>;

/// Most blocks that one request generates: what is mined is not answered before.
const MOST_GENERATED: u32 = 100_000;

/// Answers a method other than [`BROADCAST`].
pub(super) async fn answer(node: &Arc<Bitcoin>, method: &str, params: &[Value]) -> Answer {
    match method {
        "generate" => {
            let [blocks] = params_of::<1>(params, 1)?;
            generate(node, parameter(blocks, 1, "numblocks", "uint32")?).await
        }
        // Walks through the mempool or a block, too long for a thread that serves clients.
        "getblock" | "getrawmempool" => {
            let (node, params) = (Arc::clone(node), params.to_vec());
            let is_block = method == "getblock";
            let read = tokio::task::spawn_blocking(move || match is_block {
                true => block(&node, &params),
                false => raw_mempool(&node, &params),
            });
            read.await
                .unwrap_or_else(|_| Err(RpcError::internal("the request failed")))
        }
        _ => answer_at_once(node, method, params),
    }
}

fn answer_at_once(node: &Bitcoin, method: &str, params: &[Value]) -> Answer {
    match method {
        ADMISSION => {
            params_of::<0>(params, 0)?;
            Ok(admission(node))
        }
        "getbestblockhash" => {
            params_of::<0>(params, 0)?;
            Ok(Value::from(node.chain().tip().to_string()))
        }
        "getblockcount" => {
            params_of::<0>(params, 0)?;
            Ok(Value::from(node.chain().height()))
        }
        "getblockhash" => {
            let [height] = params_of::<1>(params, 1)?;
            let height: i64 = parameter(height, 1, "index", "int64")?;
            let found = u32::try_from(height)
                .ok()
                .and_then(|height| node.chain().hash_at(height));
            let none = || RpcError::new(OUT_OF_RANGE, "Block number out of range");
            Ok(Value::from(found.ok_or_else(none)?.to_string()))
        }
        "getinfo" => {
            params_of::<0>(params, 0)?;
            Ok(info(node))
        }
        "getmempoolinfo" => {
            params_of::<0>(params, 0)?;
            let depth = node.depth();
            Ok(json!({ "size": depth.txs, "bytes": depth.bytes }))
        }
        "getrawtransaction" => raw_transaction(node, params),
        "gettxout" => unspent(node, params),
        "invalidateblock" => {
            let [hash] = params_of::<1>(params, 1)?;
            let hash: String = parameter(hash, 1, "blockhash", "string")?;
            let hash: Option<BlockHash> = hash.parse().ok();
            // btcd's error is none of JSON-RPC's, and is answered as this one.
            let malformed = || RpcError::invalid_request("Invalid request: malformed");
            let taken_back = hash.is_some_and(|hash| node.invalidate(&hash));
            taken_back.then_some(Value::Null).ok_or_else(malformed)
        }
        _ => Err(RpcError::method_not_found()),
    }
}

/// A method of this node alone: what admission has done since the start.
const ADMISSION: &str = "getadmissioninfo";

fn admission(node: &Bitcoin) -> Value {
    let counters = node.admission();
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

static NULL: Value = Value::Null;

/// Parameters that are there, at least so many of at most `MOST`.
fn params_of<const MOST: usize>(
    params: &[Value],
    least: usize,
) -> Result<[&Value; MOST], RpcError> {
    let count = params.len();
    if (least..=MOST).contains(&count) {
        return Ok(std::array::from_fn(|at| params.get(at).unwrap_or(&NULL)));
    }
    let expected = match least {
        least if least == MOST => MOST.to_string(),
        least => format!("between {least} and {MOST}"),
    };
    Err(RpcError::invalid_params(format!(
        "wrong number of params (expected {expected}, received {count})"
    )))
}

/// A parameter; one that is null has its type's least value, as in Go.
fn parameter<T: DeserializeOwned + Default>(
    value: &Value,
    number: usize,
    name: &str,
    kind: &str,
) -> Result<T, RpcError> {
    let given = match value {
        Value::Null => return Ok(T::default()),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if kind.contains("int") => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    serde_json::from_value(value.clone()).map_err(|_| {
        RpcError::invalid_params(format!(
            "parameter #{number} '{name}' must be type {kind} (got {given})"
        ))
    })
}

async fn generate(node: &Arc<Bitcoin>, blocks: u32) -> Answer {
    if node.payout.is_none() {
        return Err(RpcError::internal(
            "No payment addresses specified via --miningaddr",
        ));
    }
    if blocks == 0 {
        return Err(RpcError::internal(
            "Please request a nonzero number of blocks to generate.",
        ));
    }
    if blocks > MOST_GENERATED {
        let text = format!("the built-in node generates at most {MOST_GENERATED} blocks at once");
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
        "timeoffset": 0,
        "connections": 0,
        "proxy": "",
        "difficulty": DIFFICULTY,
        "testnet": false,
        "relayfee": bitcoins(Amount::from_sat(node.min_relay_fee)),
        "errors": "",
    })
}

fn block(node: &Bitcoin, params: &[Value]) -> Answer {
    let [hash, verbosity] = params_of::<2>(params, 1)?;
    let text: String = parameter(hash, 1, "hash", "string")?;
    let verbosity = parameter::<Option<i64>>(verbosity, 2, "verbosity", "int")?.unwrap_or(1);
    let hash: BlockHash = hash_of(&text)?;
    let chain = node.chain();
    let found = chain
        .height_of(&hash)
        .and_then(|height| Some((height, chain.at(height)?)));
    let (height, kept) = found.ok_or_else(|| RpcError::new(NOT_FOUND, "Block not found"))?;
    Ok(match verbosity {
        0 => Value::from(serialize_hex(&kept.block)),
        1 => render::block(&chain, height, kept, Detail::Ids),
        _ => render::block(&chain, height, kept, Detail::Transactions),
    })
}

/// A hash in the order of bytes in which it is shown; btcd fills up a short one.
fn hash_of<T: std::str::FromStr>(text: &str) -> Result<T, RpcError> {
    let padded = format!("{text:0>64}");
    let not_hex = || {
        let text = format!("Argument must be hexadecimal string (not {text:?})");
        RpcError::new(NOT_DECODED, text)
    };
    padded.parse().map_err(|_| not_hex())
}

fn raw_mempool(node: &Bitcoin, params: &[Value]) -> Answer {
    let [verbose] = params_of::<1>(params, 0)?;
    let verbose = parameter::<Option<bool>>(verbose, 1, "verbose", "bool")?.unwrap_or(false);
    Ok(node.gate.pause(|ledger| {
        if verbose {
            return render::mempool(ledger);
        }
        let ids = ledger.pool().iter().map(|pooled| pooled.txid.to_string());
        Value::from(ids.collect::<Vec<_>>())
    }))
}

fn raw_transaction(node: &Bitcoin, params: &[Value]) -> Answer {
    let [txid, verbose] = params_of::<2>(params, 1)?;
    let text: String = parameter(txid, 1, "txid", "string")?;
    let verbose = parameter::<Option<i64>>(verbose, 2, "verbose", "int")?.unwrap_or(0);
    let txid: Txid = hash_of(&text)?;
    let shown = node.gate.pause(|ledger| {
        let pooled = ledger.pool().get(&txid)?;
        Some(match verbose {
            0 => Value::from(serialize_hex(&pooled.tx)),
            _ => render::transaction(&pooled.tx),
        })
    });
    let text = "The transaction index must be enabled to query the blockchain (specify --txindex)";
    shown.ok_or_else(|| RpcError::new(NOT_FOUND, text))
}

/// An unspent output; null for one that is not there. As in btcd, one of the chain that the mempool spends
/// is.
fn unspent(node: &Bitcoin, params: &[Value]) -> Answer {
    let [txid, vout, mempool] = params_of::<3>(params, 2)?;
    let text: String = parameter(txid, 1, "txid", "string")?;
    let vout: u32 = parameter(vout, 2, "vout", "uint32")?;
    let mempool = parameter::<Option<bool>>(mempool, 3, "includemempool", "bool")?.unwrap_or(true);
    let txid: Txid = hash_of(&text)?;
    node.gate.pause(|ledger| {
        let pooled = ledger.pool().get(&txid).filter(|_| mempool);
        if pooled.is_some_and(|pooled| pooled.tx.output.len() <= vout as usize) {
            let text = "Output index number (vout) does not exist for transaction.";
            return Err(RpcError::new(NOT_FOUND, text));
        }
        let found = ledger.find(&OutPoint { txid, vout });
        let found = found.filter(|found| mempool || found.height.is_some());
        let chain = node.chain();
        Ok(found.map_or(Value::Null, |found| render::unspent(&chain, found)))
    })
}

/// The method whose calls are taken together.
pub(super) const BROADCAST: &str = "sendrawtransaction";

/// Admits transactions, each given by its parameters; the answers in their order.
pub(super) async fn broadcast(
    app: &Arc<Bitcoin>,
    faults: &Faults,
    calls: &[&[Value]],
) -> Vec<Answer> {
    let txs = calls.iter().map(|params| decode(params)).collect();
    let answers = admit(app, faults, txs, None).await;
    let shown = |answer: Result<Txid, RpcError>| answer.map(|txid| Value::from(txid.to_string()));
    answers.into_iter().map(shown).collect()
}

/// Admits transactions of a peer, or of a client of the RPC, and tells the peers of what is accepted; the answers
/// in their order.
pub(super) async fn admit(
    app: &Arc<Bitcoin>,
    faults: &Faults,
    txs: Vec<Result<Transaction, RpcError>>,
    from: Option<u64>,
) -> Vec<Result<Txid, RpcError>> {
    let count = txs.len() as u64;
    app.broadcasts.fetch_add(count, Ordering::Relaxed);
    let is_full = !faults.untouched() && faults.now().mempool_full;
    let mut offered = Vec::new();
    let mut places = Vec::new();
    let mut answers: Vec<Result<Txid, RpcError>> = Vec::with_capacity(txs.len());
    for (at, tx) in txs.into_iter().enumerate() {
        match tx {
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
                app.announce(Announcement::Tx(txid, from));
            }
            answers[at] = verdict;
        }
    }
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    app.refused.fetch_add(refused as u64, Ordering::Relaxed);
    answers
}

fn decode(params: &[Value]) -> Result<Transaction, RpcError> {
    // The second says what fee is too high, and is ignored by btcd too.
    let [text, _] = params_of::<2>(params, 1)?;
    let mut text: String = parameter(text, 1, "hextx", "string")?;
    if !text.len().is_multiple_of(2) {
        text.insert(0, '0');
    }
    let bytes = Vec::from_hex(&text).map_err(|_| {
        let text = format!("Argument must be hexadecimal string (not {text:?})");
        RpcError::new(NOT_DECODED, text)
    })?;
    encode::deserialize(&bytes)
        .map_err(|error| RpcError::new(NOT_DECODED, format!("TX decode failed: {error}")))
}
