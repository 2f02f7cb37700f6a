//! The ante handler: what a transaction must be before its messages count. Order, codes and words are
//! those of simapp's on Cosmos SDK 0.50 (`x/auth/ante`).

use ::cosmos::{Address, Coin, SignedTx, Transfer};

use super::{Account, Bank, Decoded, Layer, Refusal, coins_text, messages};

/// When a transaction is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Before it enters the mempool: the node's least price of gas counts.
    Check,
    /// Again after a block: its signature was verified.
    Recheck,
    /// In its block.
    Execute,
    /// In no block: without a signature, a price or a limit of gas.
    Simulate,
}

/// Passes a transaction: its fee is paid and its sequence used.
pub(super) fn pass(
    bank: &Bank,
    layer: &mut Layer<'_>,
    tx: &Decoded<'_>,
    mode: Mode,
) -> Result<(), Refusal> {
    fits_gas(bank, tx, mode)?;
    let payer = sole_signer(bank, tx)?;
    let characters = tx.memo.len();
    if characters > MEMO_CHARACTERS {
        let log = format!(
            "maximum number of characters is {MEMO_CHARACTERS} but received {characters} characters"
        );
        return Err(Refusal::new(12, log));
    }
    if mode == Mode::Check {
        pays_enough(bank, tx)?;
    }
    let Some(account) = layer.account(&payer) else {
        let bytes = as_go_prints(&payer.0);
        let log = format!("fee payer address: {bytes} does not exist");
        return Err(Refusal::new(9, log));
    };
    let account = take_fee(bank, account, tx)?;
    let account = signed(bank, tx, (payer, account), mode)?;
    let used = gas_of_check(tx, layer);
    if mode != Mode::Simulate && tx.fee.gas < used {
        return Err(out_of_gas(tx.fee.gas));
    }
    layer.set(payer, account);
    Ok(())
}

/// Whether its gas is enough to be looked at, and no more than a block may have.
fn fits_gas(bank: &Bank, tx: &SignedTx<'_>, mode: Mode) -> Result<(), Refusal> {
    let gas = tx.fee.gas;
    if let Some(most) = bank.max_block_gas
        && gas > most
    {
        let log = format!("tx gas limit {gas} exceeds block max gas {most}");
        return Err(Refusal::new(41, log));
    }
    match gas < FIRST_READ && mode != Mode::Simulate {
        true => Err(out_of_gas(gas)),
        false => Ok(()),
    }
}

/// Who signs all messages, and so pays.
fn sole_signer(bank: &Bank, tx: &Decoded<'_>) -> Result<Address, Refusal> {
    if tx.messages.is_empty() {
        return Err(Refusal::new(18, "must contain at least one message"));
    }
    let signers = tx.signers();
    let addresses: Result<Vec<_>, _> = signers
        .iter()
        .map(|text| messages::address(bank, text))
        .collect();
    match (&addresses?[..], tx.signature()) {
        (_, []) => Err(Refusal::of("sdk", 15, "no signatures supplied")),
        ([payer], _) => Ok(*payer),
        (others, _) => {
            let log = format!("wrong number of signers; expected {}, got 1", others.len());
            Err(Refusal::new(4, log))
        }
    }
}

/// Whether the fee is at least the node's least price of the gas.
fn pays_enough(bank: &Bank, tx: &SignedTx<'_>) -> Result<(), Refusal> {
    let required = bank.config.price().of(tx.fee.gas);
    let mut coins = tx.fee.coins.iter();
    let pays = |coin: &Coin| coin.denom == required.denom && coin.amount >= required.amount;
    if required.amount == 0 || coins.any(pays) {
        return Ok(());
    }
    let got = coins_text(&tx.fee.coins);
    let log = format!("insufficient fees; got: {got} required: {required}");
    Err(Refusal::new(13, log))
}

/// The account without the fee.
fn take_fee(bank: &Bank, account: Account, tx: &SignedTx<'_>) -> Result<Account, Refusal> {
    let coins = &tx.fee.coins;
    if coins.iter().all(|coin| coin.amount == 0) {
        return Ok(account);
    }
    if !messages::are_valid(coins) {
        let log = format!("invalid fee amount: {}", coins_text(coins));
        return Err(Refusal::new(13, log));
    }
    let take = |account, coin| messages::take(bank, account, coin);
    let taken = coins.iter().try_fold(account, take);
    taken.map_err(|refusal| Refusal::new(refusal.code, refusal.log))
}

/// The account after it, if the transaction has its next sequence and its signature.
fn signed(
    bank: &Bank,
    tx: &SignedTx<'_>,
    (payer, account): (Address, Account),
    mode: Mode,
) -> Result<Account, Refusal> {
    let named = tx.signer.key.filter(|_| mode != Mode::Simulate);
    if named.is_some_and(|key| key.address() != payer) {
        let address = bank.prefix.write(payer);
        let log = format!("pubKey does not match signer address {address} with signer index: 0");
        return Err(Refusal::new(8, log));
    }
    let key = account.key.or(tx.signer.key);
    let (expected, got) = (account.sequence, tx.signer.sequence);
    let (number, chain_id) = (account.number, &bank.chain_id);
    let is_signed = || key.is_some_and(|key| tx.is_signed_by(&key, chain_id, number));
    match mode {
        Mode::Check | Mode::Recheck | Mode::Execute if key.is_none() => {
            Err(Refusal::new(8, "pubkey on account is not set"))
        }
        _ if expected != got => {
            let log = format!("account sequence mismatch, expected {expected}, got {got}");
            Err(Refusal::new(32, log))
        }
        Mode::Check | Mode::Execute if !is_signed() => {
            let log = format!(
                "signature verification failed; please verify account number ({number}) and chain-id ({chain_id}): \
                 (unable to verify single signer signature)"
            );
            Err(Refusal::new(4, log))
        }
        _ => Ok(Account {
            sequence: expected + 1,
            key,
            ..account
        }),
    }
}

/// That the gas ended; where it does and with how much is simd's for the first read alone.
pub(super) fn out_of_gas(wanted: u64) -> Refusal {
    let used = FIRST_READ.max(wanted + GAS_OVERRUN);
    let log = format!("out of gas in location: ReadFlat; gasWanted: {wanted}, gasUsed: {used}");
    Refusal::new(11, log)
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

/// What messages use that take effect; of one that fails see [`gas_of_failed`].
pub(super) fn gas_of_messages(transfers: &[Transfer]) -> u64 {
    let outputs: usize = transfers
        .iter()
        .map(|transfer| transfer.outputs.len())
        .sum();
    GAS_OF_MESSAGES + GAS_OF_MESSAGE * transfers.len() as u64 + GAS_OF_OUTPUT * outputs as u64
}

/// What a message uses that is refused so, behind others.
pub(super) const fn gas_of_failed(refusal: &Refusal) -> u64 {
    match refusal.code {
        INSUFFICIENT_FUNDS => 6_660,
        _ => 2_000,
    }
}

/// `max_memo_characters` of the module's default parameters.
const MEMO_CHARACTERS: usize = 256;
/// The first read of the state (`ReadCostFlat` twice).
const FIRST_READ: u64 = 2_000;
/// What is used beyond a limit: half of a read.
pub(super) const GAS_OVERRUN: u64 = 500;
/// `tx_size_cost_per_byte` of the module's default parameters.
const GAS_OF_BYTE: u64 = 10;
/// Measured on simd: 34,261 of a send of 306 bytes.
const GAS_OF_ANTE: u64 = 31_041;
/// Measured on simd: what the first transaction of an account uses more, as it stores the key.
const GAS_OF_KEY: u64 = 13_836;
/// Measured on simd, with those of each message and of each who is paid: 33,201 of one send whose key is known, 53,707 of
/// two, 41,229 of one message that pays two.
const GAS_OF_MESSAGES: u64 = 12_695;
const GAS_OF_MESSAGE: u64 = 12_478;
const GAS_OF_OUTPUT: u64 = 8_028;
const INSUFFICIENT_FUNDS: u32 = 5;
