//! The ante handler: what a transaction must be before its messages count. Order, codes and words are
//! those of simapp's on Cosmos SDK 0.50 (`x/auth/ante`).

use ::cosmos::{Coin, SignedTx};

use super::{Account, Bank, Layer, Refusal};

/// When a transaction is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Before it enters the mempool: the node's least price of gas counts.
    Check,
    /// Again after a block: its signature was verified.
    Recheck,
    /// In its block.
    Execute,
}

/// Passes a transaction: its fee is paid and its sequence used.
pub(super) fn pass(
    bank: &Bank,
    layer: &mut Layer<'_>,
    tx: &SignedTx<'_>,
    mode: Mode,
) -> Result<(), Refusal> {
    within_limits(bank, tx)?;
    if mode == Mode::Check {
        pays_enough(bank, tx)?;
    }
    let address = payer(bank, tx)?;
    let account = layer.account(&address).ok_or_else(|| {
        let bytes = as_go_prints(&address.0);
        Refusal::new(
            9,
            format!("fee payer address: {bytes} does not exist: unknown address"),
        )
    })?;
    let account = take_fee(bank, account, tx)?;
    let expected = account.sequence;
    let got = tx.signer.sequence;
    if expected != got {
        return Err(Refusal::new(
            32,
            format!(
                "account sequence mismatch, expected {expected}, got {got}: incorrect account sequence"
            ),
        ));
    }
    let number = account.number;
    if mode != Mode::Recheck && !tx.is_signed_for(&bank.chain_id, number) {
        let chain_id = &bank.chain_id;
        return Err(Refusal::new(
            4,
            format!(
                "signature verification failed; please verify account number ({number}) and chain-id ({chain_id}): \
                 (unable to verify single signer signature): unauthorized"
            ),
        ));
    }
    let used = gas_of_check(tx, layer);
    if tx.fee.gas < used {
        return Err(out_of_gas("WritePerByte", tx.fee.gas, used));
    }
    layer.set(
        address,
        Account {
            sequence: expected + 1,
            key: tx.signer.key,
            ..account
        },
    );
    Ok(())
}

/// Whether its gas and its memo are within what is looked at before its account.
fn within_limits(bank: &Bank, tx: &SignedTx<'_>) -> Result<(), Refusal> {
    let gas = tx.fee.gas;
    if let Some(most) = bank.max_block_gas
        && gas > most
    {
        let log = format!("tx gas limit {gas} exceeds block max gas {most}: invalid gas limit");
        return Err(Refusal::new(41, log));
    }
    if gas < FIRST_READ {
        return Err(out_of_gas("ReadFlat", gas, FIRST_READ));
    }
    let characters = tx.memo.len();
    if characters > MEMO_CHARACTERS {
        return Err(Refusal::new(
            12,
            format!(
                "maximum number of characters is {MEMO_CHARACTERS} but received {characters} characters: memo too large"
            ),
        ));
    }
    Ok(())
}

/// Whether the fee is at least the node's least price of the gas.
fn pays_enough(bank: &Bank, tx: &SignedTx<'_>) -> Result<(), Refusal> {
    let required = bank.config.price().of(tx.fee.gas);
    let paid = fee(bank, tx);
    if paid >= required.amount {
        return Ok(());
    }
    let got: Vec<String> = tx.fee.coins.iter().map(Coin::to_string).collect();
    let got = got.join(",");
    Err(Refusal::new(
        13,
        format!("insufficient fees; got: {got} required: {required}: insufficient fee"),
    ))
}

fn fee(bank: &Bank, tx: &SignedTx<'_>) -> u128 {
    let coins = tx.fee.coins.iter();
    let own = coins.filter(|coin| coin.denom == bank.config.denom);
    own.map(|coin| coin.amount).sum()
}

/// The account without the fee.
fn take_fee(bank: &Bank, account: Account, tx: &SignedTx<'_>) -> Result<Account, Refusal> {
    let (fee, denom) = (fee(bank, tx), &bank.config.denom);
    match account.balance.checked_sub(fee) {
        Some(balance) => Ok(Account { balance, ..account }),
        None => {
            let balance = account.balance;
            Err(Refusal::new(
                5,
                format!(
                    "spendable balance {balance}{denom} is smaller than {fee}{denom}: insufficient funds: insufficient \
                     funds"
                ),
            ))
        }
    }
}

/// Who signs every message, and so pays.
fn payer(bank: &Bank, tx: &SignedTx<'_>) -> Result<::cosmos::Address, Refusal> {
    let refused = |text: &str| Refusal::new(18, format!("{text}: invalid request"));
    if tx.messages.is_empty() {
        return Err(refused("must contain at least one message"));
    }
    let mut payer = None;
    for message in &tx.messages {
        let Ok(Some(payments)) = message.payments() else {
            let url = message.type_url();
            return Err(Refusal::new(
                2,
                format!("unable to resolve type URL {url}: tx parse error"),
            ));
        };
        for payment in payments {
            let from = bank.prefix.read(&payment.from);
            let from = from.map_err(|error| refused(&error.to_string()))?;
            if *payer.get_or_insert(from) != from {
                return Err(Refusal::new(
                    4,
                    "wrong number of signers; expected 2, got 1: unauthorized",
                ));
            }
        }
    }
    let payer = payer.ok_or_else(|| refused("no inputs to send transaction"))?;
    match tx.signer.key.map(|key| key.address()) {
        Some(signer) if signer != payer => Err(Refusal::new(
            8,
            format!(
                "pubKey does not match signer address {} with signer index: 0: invalid pubkey",
                bank.prefix.write(payer)
            ),
        )),
        _ => Ok(payer),
    }
}

fn out_of_gas(place: &str, wanted: u64, used: u64) -> Refusal {
    Refusal::new(
        11,
        format!(
            "out of gas in location: {place}; gasWanted: {wanted}, gasUsed: {used}: out of gas"
        ),
    )
}

/// Bytes as Go writes them into JSON: each that is not UTF-8 becomes a replacement character. The SDK prints
/// this address raw.
fn as_go_prints(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// What the ante handler uses: simapp's for an account with few digits.
pub(super) fn gas_of_check(tx: &SignedTx<'_>, layer: &Layer<'_>) -> u64 {
    let signer = tx.signer.key.map(|key| layer.account(&key.address()));
    let is_known =
        signer.is_none_or(|account| account.is_some_and(|account| account.key.is_some()));
    let of_key = if is_known { 0 } else { GAS_OF_KEY };
    GAS_OF_ANTE + of_key + GAS_OF_BYTE * tx.size() as u64
}

/// What the messages use.
pub(super) fn gas_of_messages(tx: &SignedTx<'_>) -> u64 {
    GAS_OF_PAYMENT * tx.messages.len() as u64
}

/// `max_memo_characters` of the module's default parameters.
const MEMO_CHARACTERS: usize = 256;
/// The first read of the state (`ReadCostFlat` twice).
const FIRST_READ: u64 = 2_000;
/// `tx_size_cost_per_byte` of the module's default parameters.
const GAS_OF_BYTE: u64 = 10;
/// Measured on simd: 34,261 of a send of 306 bytes.
const GAS_OF_ANTE: u64 = 31_041;
/// Measured on simd: what the first transaction of an account uses more, as it stores the key.
const GAS_OF_KEY: u64 = 13_836;
/// Measured on simd: 67,392 for a send whose key is known, executed.
const GAS_OF_PAYMENT: u64 = 33_201;
/// Measured on simd: of a send that its payer has too little for.
pub(super) const GAS_OF_FAILED_PAYMENT: u64 = 19_346;
