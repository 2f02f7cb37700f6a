//! Signed transfers of accounts on a chain of the Cosmos SDK, a line for each: account, space, base64.
//!
//! `cargo run --release --example signed_transfers -- SEED ACCOUNTS EACH FIRST CHAIN`
//!
//! Account I of the seed (`txgen cosmos prepare --seed SEED`) sends itself one `stake` EACH times, from sequence 0 on;
//! FIRST is the number that the chain gave account 0. `benches/peers/cosmos/doors` broadcasts them through every door.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::io::{BufWriter, Write as _, stdout};

use anyhow::{Context as _, Result};
use cosmos::{Coin, Draft, Fee, Keys, Message, Prefix, Signer, Signing};

fn main() -> Result<()> {
    let mut given = std::env::args().skip(1);
    let mut next = || given.next().context("SEED ACCOUNTS EACH FIRST CHAIN");
    let (seed, accounts) = (next()?.parse()?, next()?.parse::<u32>()?);
    let (each, first, chain) = (next()?.parse::<u64>()?, next()?.parse::<u64>()?, next()?);
    let (keys, prefix) = (Keys::from_seed(seed), Prefix::new("cosmos")?);
    let mut signing = Signing::default();
    let mut out = BufWriter::new(stdout().lock());
    for account in 0..accounts {
        let key = keys.key(account)?;
        let coin = Coin::new(1, "stake");
        let message = Message::send(&prefix, key.address(), key.address(), &coin);
        let fee = Fee {
            coins: Vec::new(),
            gas: 200_000,
        };
        let draft = Draft::new(std::slice::from_ref(&message), &fee);
        for sequence in 0..each {
            let signer = Signer {
                key: &key,
                account_number: first + u64::from(account),
                sequence,
            };
            let mut tx = Vec::new();
            signing.sign(&chain, &draft, &signer, &mut tx);
            let text = base64_simd::STANDARD.encode_to_string(&tx);
            writeln!(out, "{account} {text}")?;
        }
    }
    Ok(out.flush()?)
}
