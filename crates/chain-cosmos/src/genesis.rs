//! Accounts written into the genesis of a chain that has not begun.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use cosmos::{Coin, Key, Prefix};
use serde_json::{Value, json};

/// Appends the accounts to a genesis of SDK 0.50: `auth.accounts`, `bank.balances`, and the supply.
pub fn write_genesis(
    path: &Path,
    prefix: &Prefix,
    keys: &[Key],
    amount: &Coin,
) -> anyhow::Result<()> {
    let unusable = || format!("cannot use {} as a genesis file", path.display());
    let text = fs::read_to_string(path).with_context(unusable)?;
    let mut genesis: Value = serde_json::from_str(&text).with_context(unusable)?;
    let state = genesis.get_mut("app_state").with_context(unusable)?;
    let list = |state: &mut Value, pointer: &str| -> anyhow::Result<Vec<Value>> {
        let place = state.pointer_mut(pointer).and_then(Value::as_array_mut);
        let place = place.ok_or_else(|| anyhow!("it has no {pointer}"));
        Ok(std::mem::take(place.with_context(unusable)?))
    };
    let mut accounts = list(state, "/auth/accounts")?;
    let mut balances = list(state, "/bank/balances")?;
    let mut supply = list(state, "/bank/supply")?;
    let known = accounts.len();
    for (number, key) in (known..).zip(keys) {
        let address = prefix.write(key.address());
        let of_this = |account: &&Value| account["address"] == address.as_str();
        if let Some(account) = accounts[..known].iter().find(of_this) {
            bail!("{} has {} already", path.display(), account["address"]);
        }
        accounts.push(json!({
            "@type": "/cosmos.auth.v1beta1.BaseAccount",
            "address": address,
            "pub_key": null,
            "account_number": number.to_string(),
            "sequence": "0",
        }));
        let coin = json!({ "denom": amount.denom, "amount": amount.amount.to_string() });
        balances.push(json!({ "address": address, "coins": [coin] }));
    }
    let added = amount.amount * keys.len() as u128;
    raise(&mut supply, &amount.denom, added).with_context(unusable)?;
    state["auth"]["accounts"] = accounts.into();
    state["bank"]["balances"] = balances.into();
    state["bank"]["supply"] = supply.into();
    let text = serde_json::to_string_pretty(&genesis)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds to the supply of a coin.
fn raise(supply: &mut Vec<Value>, denom: &str, added: u128) -> anyhow::Result<()> {
    let Some(coin) = supply.iter_mut().find(|coin| coin["denom"] == denom) else {
        supply.push(json!({ "denom": denom, "amount": added.to_string() }));
        return Ok(());
    };
    let before: u128 = coin["amount"].as_str().unwrap_or_default().parse()?;
    coin["amount"] = (before + added).to_string().into();
    Ok(())
}
