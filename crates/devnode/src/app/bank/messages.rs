//! The messages of the bank module: what a transfer must be, and what it does. Order, codes and words are those of
//! `x/bank/keeper` in Cosmos SDK 0.50.

use ::cosmos::{Address, Coin, Message, Party, Transfer};

use super::{Account, Bank, Layer, Refusal, coins_text};

/// Moves the coins of a message.
pub(super) fn execute(
    bank: &Bank,
    layer: &mut Layer<'_>,
    message: &Message,
    transfer: &Transfer,
) -> Result<(), Refusal> {
    let mut outputs = Vec::with_capacity(transfer.outputs.len());
    if message.type_url() == Message::MULTI_SEND {
        are_balanced(bank, transfer)?;
        for output in &transfer.outputs {
            outputs.push(address(bank, &output.address)?);
        }
    } else {
        for output in &transfer.outputs {
            outputs.push(party(bank, output, "to")?);
        }
    }
    for input in &transfer.inputs {
        let payer = address(bank, &input.address)?;
        let mut account = layer.account(&payer).unwrap_or_default();
        for coin in &input.coins {
            account = take(bank, account, coin)?;
        }
        layer.set(payer, account);
    }
    for (to, output) in outputs.into_iter().zip(&transfer.outputs) {
        layer.credit(to, output.coins.iter().map(|coin| coin.amount).sum());
    }
    Ok(())
}

/// The account without a coin.
pub(super) fn take(bank: &Bank, account: Account, coin: &Coin) -> Result<Account, Refusal> {
    let spendable = match coin.denom == bank.config.denom {
        true => account.balance,
        false => 0,
    };
    let Some(balance) = spendable.checked_sub(coin.amount) else {
        let denom = &coin.denom;
        let log = format!("spendable balance {spendable}{denom} is smaller than {coin}");
        return Err(Refusal::new(5, log));
    };
    Ok(Account { balance, ..account })
}

/// Whether a message with several recipients pays out what it takes (`ValidateInputOutputs`).
fn are_balanced(bank: &Bank, transfer: &Transfer) -> Result<(), Refusal> {
    let refused = |code, log: &str| Err(Refusal::of("bank", code, log));
    let [input] = &transfer.inputs[..] else {
        return refused(9, "multiple senders not allowed");
    };
    if transfer.outputs.is_empty() {
        return refused(3, "no outputs to send transaction");
    }
    party(bank, input, "input")?;
    let mut rest = input.coins.clone();
    for output in &transfer.outputs {
        party(bank, output, "output")?;
        for coin in &output.coins {
            let same = rest.iter_mut().find(|it| it.denom == coin.denom);
            let left = same.and_then(|it| Some((it.amount.checked_sub(coin.amount)?, it)));
            match left {
                Some((left, it)) => it.amount = left,
                None => return refused(4, "sum inputs != sum outputs"),
            }
        }
    }
    match rest.iter().all(|coin| coin.amount == 0) {
        true => Ok(()),
        false => refused(4, "sum inputs != sum outputs"),
    }
}

/// The address of one who pays or is paid, if its coins are well formed too.
fn party(bank: &Bank, party: &Party, role: &str) -> Result<Address, Refusal> {
    let address = address(bank, &party.address).map_err(|error| {
        let text = format!("invalid {role} address: {}", error.log);
        Refusal::new(7, text)
    })?;
    match are_valid(&party.coins) {
        true => Ok(address),
        false => Err(Refusal::new(10, coins_text(&party.coins))),
    }
}

/// `Coins.IsValid` and `Coins.IsAllPositive`.
pub(super) fn are_valid(coins: &[Coin]) -> bool {
    let ascend = coins.windows(2).all(|pair| pair[0].denom < pair[1].denom);
    !coins.is_empty() && ascend && coins.iter().all(|coin| coin.amount > 0)
}

/// An address of the chain.
pub(super) fn address(bank: &Bank, text: &str) -> Result<Address, Refusal> {
    bank.prefix.read(text).map_err(|_| {
        let expected = bank.prefix.to_string();
        match text.rsplit_once('1') {
            Some((prefix, _)) if prefix != expected => {
                let log = format!(
                    "hrp does not match bech32 prefix: expected '{expected}' got '{prefix}'"
                );
                Refusal::new(35, log)
            }
            _ => Refusal::of("undefined", 1, format!("decoding bech32 failed: {text:?}")),
        }
    })
}
