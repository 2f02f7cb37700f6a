//! What a transaction has to fulfil to enter the mempool: btcd's checks in their order, with their codes
//! and texts (`mempool/mempool.go`, `checkMempoolAcceptance`, and `blockchain/validate.go` of 0.26.2).

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use admission::{Admit, Outcome, OutputKey, Verdict};
use bitcoin::hashes::{Hash as _, hash160};
use bitcoin::script::Instruction;
use bitcoin::secp256k1::{Message, PublicKey, Secp256k1, VerifyOnly, ecdsa};
use bitcoin::sighash::SighashCache;
use bitcoin::{Amount, OutPoint, Script, Transaction, TxIn, Txid};
use tokio::sync::oneshot;

use super::error::{RpcError, TX_ALREADY_IN_CHAIN, TX_ERROR, TX_REJECTED};
use super::ledger::{Ledger, MATURITY, Pooled, Spendable};

/// A transaction that a client sent.
#[derive(Debug)]
pub(super) struct Offered {
    tx: Transaction,
    txid: Txid,
    answer: Option<oneshot::Sender<Result<Txid, RpcError>>>,
}

impl Offered {
    /// A transaction, and where its verdict comes.
    pub(super) fn new(
        tx: Transaction,
        txid: Txid,
    ) -> (Self, oneshot::Receiver<Result<Txid, RpcError>>) {
        let (answer, verdict) = oneshot::channel();
        let answer = Some(answer);
        (Self { tx, txid, answer }, verdict)
    }
}

/// The refusal of a transaction that is in the mempool.
pub(super) fn already_pooled(txid: Txid) -> RpcError {
    let text = format!("TX rejected: already have transaction in mempool {txid}");
    RpcError::new(TX_REJECTED, text)
}

/// What is refused for lack of room or of fee.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) mempool_txs: usize,
    pub(super) mempool_bytes: u64,
    /// Unspent outputs of the chain.
    pub(super) outputs: usize,
    /// In satoshi.
    pub(super) fee_per_kilobyte: u64,
}

/// The rules.
#[derive(Debug)]
pub(super) struct Rules {
    limits: Limits,
    secp: Secp256k1<VerifyOnly>,
    /// Nanoseconds that checks took, of all threads.
    checking: Arc<AtomicU64>,
}

/// Why a transaction is not accepted.
enum Fault {
    Missing(Txid),
    Refused(RpcError),
}

/// Bytes of the least standard transaction.
const LEAST_BYTES: usize = 65;
/// Bytes of the largest: those of a block without witnesses.
const MOST_BYTES: usize = 1_000_000;
fn rejected(text: impl Display) -> Fault {
    Fault::Refused(RpcError::new(TX_REJECTED, format!("TX rejected: {text}")))
}

/// btcd answers what breaks the chain's own rules with another code than what breaks the mempool's.
fn broken(text: impl Display) -> Fault {
    Fault::Refused(RpcError::new(TX_ERROR, format!("TX rejected: {text}")))
}

impl Admit for Rules {
    type Tx = Offered;
    type Id = Txid;
    type Key = OutputKey;
    type View = Ledger;
    /// The fee.
    type Checked = Amount;
    type Rejection = RpcError;

    fn id(&self, offered: &Offered) -> Txid {
        offered.txid
    }

    fn spends(&self, offered: &Offered) -> impl Iterator<Item = OutputKey> {
        let key = |input: &TxIn| OutputKey {
            hash: input.previous_output.txid.to_byte_array(),
            index: input.previous_output.vout,
        };
        offered.tx.input.iter().map(key)
    }

    fn check(&self, offered: &Offered, ledger: &Ledger) -> Verdict<Amount, Txid, RpcError> {
        let began = Instant::now();
        let judged = self.judge(&offered.tx, offered.txid, ledger);
        let took = began.elapsed().as_nanos() as u64;
        self.checking.fetch_add(took, Ordering::Relaxed);
        match judged {
            Ok(checked) => Verdict::Accepted(checked),
            Err(Fault::Missing(parent)) => Verdict::Missing(parent),
            Err(Fault::Refused(error)) => Verdict::Rejected(error),
        }
    }

    fn decided(&self, offered: &mut Offered, outcome: Outcome<'_, Self>) {
        let txid = offered.txid;
        let verdict = match outcome {
            Outcome::Accepted(_) => Ok(txid),
            Outcome::Rejected(error) => Err(error),
            Outcome::Orphaned(parent) => Err(RpcError::new(
                TX_ERROR,
                format!(
                    "TX rejected: orphan transaction {txid} references outputs of unknown or fully-spent transaction {parent}"
                ),
            )),
            Outcome::Abandoned => Err(RpcError::internal("the node is stopping")),
        };
        if let Some(answer) = offered.answer.take() {
            // The client that waits may have gone.
            let _ = answer.send(verdict);
        }
    }

    fn commit(&self, ledger: &mut Ledger, offered: Offered, fee: Amount) {
        ledger.add(Pooled {
            bytes: offered.tx.total_size(),
            txid: offered.txid,
            tx: offered.tx,
            fee,
        });
    }
}

impl Rules {
    /// The rules; nanoseconds that checks take are added to `checking`.
    pub(super) fn new(limits: Limits, checking: Arc<AtomicU64>) -> Self {
        Self {
            limits,
            secp: Secp256k1::verification_only(),
            checking,
        }
    }

    fn judge(&self, tx: &Transaction, txid: Txid, ledger: &Ledger) -> Result<Amount, Fault> {
        if ledger.pool().get(&txid).is_some() {
            return Err(Fault::Refused(already_pooled(txid)));
        }
        check_form(tx, txid)?;
        for input in &tx.input {
            let output = &input.previous_output;
            if let Some(spender) = ledger.pool().spender(output) {
                return Err(rejected(format!(
                    "output already spent in mempool: output={output}, tx={spender}"
                )));
            }
        }
        if ledger.is_in_chain(txid, tx.output.len()) {
            let text = "TX rejected: transaction already exists in blockchain";
            return Err(Fault::Refused(RpcError::new(TX_ALREADY_IN_CHAIN, text)));
        }
        let find = |input: &TxIn| {
            let output = &input.previous_output;
            ledger.find(output).ok_or(Fault::Missing(output.txid))
        };
        let coins: Vec<Spendable<'_>> = tx.input.iter().map(find).collect::<Result<_, _>>()?;
        let fee = check_inputs(tx, txid, &coins, ledger.height() + 1)?;
        check_locks(tx)?;
        self.check_fee(tx, txid, fee)?;
        self.check_room(tx, ledger)?;
        self.check_scripts(tx, txid, &coins)?;
        Ok(fee)
    }

    fn check_fee(&self, tx: &Transaction, txid: Txid, fee: Amount) -> Result<(), Fault> {
        let least = tx.vsize() as u64 * self.limits.fee_per_kilobyte / 1000;
        let fee = fee.to_sat();
        if fee >= least {
            return Ok(());
        }
        Err(rejected(format!(
            "transaction {txid} has {fee} fees which is under the required amount of {least}"
        )))
    }

    /// Bounds that btcd does not have.
    fn check_room(&self, tx: &Transaction, ledger: &Ledger) -> Result<(), Fault> {
        let Limits {
            mempool_txs,
            mempool_bytes,
            outputs,
            ..
        } = self.limits;
        let depth = ledger.pool().depth();
        if depth.txs >= mempool_txs || depth.bytes + tx.total_size() as u64 > mempool_bytes {
            return Err(rejected(format!(
                "mempool is full: number of txs {} (max: {mempool_txs}), total txs bytes {} (max: {mempool_bytes})",
                depth.txs, depth.bytes
            )));
        }
        if ledger.coins() + tx.output.len() > outputs + tx.input.len() {
            return Err(rejected(format!(
                "the node keeps at most {outputs} unspent outputs (bitcoin.max_outputs)"
            )));
        }
        Ok(())
    }

    fn check_scripts(
        &self,
        tx: &Transaction,
        txid: Txid,
        coins: &[Spendable<'_>],
    ) -> Result<(), Fault> {
        let sighashes = SighashCache::new(tx);
        for (index, (input, coin)) in tx.input.iter().zip(coins).enumerate() {
            let script = &coin.output.script_pubkey;
            if !script.is_p2pkh() || !input.witness.is_empty() {
                return Err(rejected(format!(
                    "input {txid}:{index} does not spend a P2PKH output, and the built-in node spends no others"
                )));
            }
            if let Err(why) = check_p2pkh(&self.secp, &sighashes, tx, index, script) {
                return Err(broken(format!(
                    "failed to validate input {txid}:{index} which references output {} - {why}",
                    input.previous_output
                )));
            }
        }
        Ok(())
    }
}

/// What needs no ledger (`CheckTransactionSanity`).
fn check_form(tx: &Transaction, txid: Txid) -> Result<(), Fault> {
    let bytes = tx.base_size();
    if bytes < LEAST_BYTES || tx.is_coinbase() {
        let text = format!("transaction {txid} is too small, or an individual coinbase");
        return Err(rejected(text));
    }
    let mut spent: HashSet<&OutPoint> = HashSet::with_capacity(tx.input.len());
    let mut inputs = tx.input.iter().map(|input| &input.previous_output);
    let values = tx.output.iter().map(|output| output.value.to_sat());
    let total: u128 = values.map(u128::from).sum();
    let rules = [
        (tx.input.is_empty(), "transaction has no inputs"),
        (tx.output.is_empty(), "transaction has no outputs"),
        (bytes > MOST_BYTES, "serialized transaction is too big"),
        (
            total > u128::from(Amount::MAX_MONEY.to_sat()),
            "outputs are worth more than the max allowed value",
        ),
        (
            !inputs.all(|output| !output.is_null() && spent.insert(output)),
            "transaction contains duplicate inputs, or one that is null",
        ),
    ];
    match rules.into_iter().find(|(is_broken, _)| *is_broken) {
        Some((_, text)) => Err(broken(text)),
        None => Ok(()),
    }
}

/// Maturity and sums (`CheckTransactionInputs`). Returns the fee.
fn check_inputs(
    tx: &Transaction,
    txid: Txid,
    coins: &[Spendable<'_>],
    next: u32,
) -> Result<Amount, Fault> {
    for (input, coin) in tx.input.iter().zip(coins) {
        if let Some(origin) = coin.height.filter(|_| !coin.is_mature_at(next)) {
            return Err(broken(format!(
                "tried to spend coinbase transaction output {} from height {origin} at height {next} before required maturity of {MATURITY} blocks",
                input.previous_output
            )));
        }
    }
    let taken: Amount = coins.iter().map(|coin| coin.output.value).sum();
    let given: Amount = tx.output.iter().map(|output| output.value).sum();
    taken.checked_sub(given).ok_or_else(|| {
        broken(format!(
            "total value of all transaction inputs for transaction {txid} is {} which is less than the amount spent of {}",
            taken.to_sat(),
            given.to_sat()
        ))
    })
}

/// Locks in time are not modelled: what has one is refused, whether it is over or not.
fn check_locks(tx: &Transaction) -> Result<(), Fault> {
    if tx.is_lock_time_enabled() && tx.lock_time.to_consensus_u32() > 0 {
        return Err(rejected(
            "the built-in node takes no transaction with a lock time",
        ));
    }
    let is_relative = |input: &TxIn| input.sequence.is_relative_lock_time();
    if tx.version.0 >= 2 && tx.input.iter().any(is_relative) {
        return Err(rejected(
            "the built-in node takes no transaction with a sequence lock",
        ));
    }
    Ok(())
}

/// Where the hash of the key stands in a P2PKH script.
const KEY_HASH: std::ops::Range<usize> = 3..23;

/// Why an input does not fulfil its output's script, in btcd's words.
fn check_p2pkh(
    secp: &Secp256k1<VerifyOnly>,
    sighashes: &SighashCache<&Transaction>,
    tx: &Transaction,
    index: usize,
    script: &Script,
) -> Result<(), &'static str> {
    let mut pushes = tx.input[index].script_sig.instructions();
    let (Some(Ok(Instruction::PushBytes(signature))), Some(Ok(Instruction::PushBytes(key))), None) =
        (pushes.next(), pushes.next(), pushes.next())
    else {
        return Err("the signature script is not a signature and a key");
    };
    if hash160::Hash::hash(key.as_bytes()).as_byte_array()[..] != script.as_bytes()[KEY_HASH] {
        return Err("OP_EQUALVERIFY failed");
    }
    let (kind, der) = signature
        .as_bytes()
        .split_last()
        .ok_or("false stack entry at end of script execution")?;
    let signature = ecdsa::Signature::from_der(der).map_err(|_| "malformed signature")?;
    let key = PublicKey::from_slice(key.as_bytes()).map_err(|_| "unsupported public key type")?;
    let digest = sighashes
        .legacy_signature_hash(index, script, u32::from(*kind))
        .map_err(|_| "the input does not exist")?;
    let message = Message::from_digest(digest.to_byte_array());
    secp.verify_ecdsa(&message, &signature, &key)
        .map_err(|_| "signature not empty on failed checksig")
}
