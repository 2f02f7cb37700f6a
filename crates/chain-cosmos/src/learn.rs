//! What a run learns of its chain and of its accounts: before it begins, and from refusals that name a sequence.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use chain_cometbft::Client;
use cosmos::{Coin, Fee, GasPrice, Prefix, Signing};
use tokio::task::JoinSet;

use chain::Sequences;
use sender::Expectation;

use super::client::{ChainClient, QueryError, refused, unusable};
use super::{Account, CosmosContent, CosmosWorkload, Gas, Ready, sign};

impl CosmosWorkload {
    /// The workload with everything that the chain answers: its accounts, prices and limits.
    /// `planned` is how many transactions there will be at most.
    pub(crate) async fn ask_chain(
        &self,
        client: &Client,
        chain_id: &str,
        planned: Option<u64>,
    ) -> Result<Self, QueryError> {
        let content = &self.content;
        let chain = ChainClient::new(client.clone());
        if let Some(wanted) = content
            .given
            .chain_id
            .as_deref()
            .filter(|wanted| *wanted != chain_id)
        {
            return Err(refused(format!(
                "{} is on chain {chain_id:?}, not on {wanted:?}; correct --chain-id or --endpoints",
                client.endpoint()
            )));
        }
        let prefix = chain.prefix(content.prefix).await?;
        let coin = match &content.given.amount {
            Some(coin) => coin.clone(),
            None => Coin::new(1, chain.bond_denom().await?),
        };
        let mut signers = signers(content)?;
        let starts = sequences(&chain, &prefix, &mut signers, chain_id).await?;
        let mut ready = Ready {
            chain_id: chain_id.to_owned(),
            prefix,
            coin,
            fee: Fee::default(),
            signers,
            sequences: Arc::new(Sequences::new(
                starts.into_iter(),
                content.given.on_gap.unwrap_or_default(),
                expectation,
            )),
            size: 0,
            unordered: content.given.unordered,
        };
        let cost = cost(content, &chain, &mut ready).await;
        if let Ok(fee) = &cost {
            ready.fee = fee.clone();
        }
        // What an account lacks explains more than the chain's refusal of its first transaction.
        check_funds(&chain, content, &ready, planned).await?;
        cost?;
        ready.size = first(content, &ready)?.len();
        Ok(Self {
            content: content.clone(),
            ready: Some(Arc::new(ready)),
        })
    }
}

/// What each transaction pays, and the gas that it may use.
async fn cost(
    content: &CosmosContent,
    chain: &ChainClient,
    ready: &mut Ready,
) -> Result<Fee, QueryError> {
    let least = chain.least_price(&ready.coin.denom).await?;
    let price = content.given.of.gas_price.as_ref().or(least.as_ref());
    // As large as the transaction will be: its bytes cost gas, too.
    ready.fee = fee(content, price, TYPICAL_GAS);
    let used = chain.simulate(&first(content, ready)?).await;
    if let Err(QueryError::Refused(text)) = &used
        && content.given.unordered.is_some()
        && NO_UNORDERED.iter().any(|words| text.contains(words))
    {
        return Err(refused(format!(
            "the chain takes no transactions without sequences: leave --unordered out (Cosmos SDK 0.53 and later have \
             them, where the chain switches them on); it said: {text}"
        )));
    }
    let gas = match content.given.gas.unwrap_or_default() {
        Gas::Auto => match used {
            Ok(used) => used + used / GAS_MARGIN,
            Err(QueryError::Refused(text)) => {
                let moved_on = expectation(&text).and_then(moved_on);
                let said = moved_on.map(|moved_on| {
                    let account = ready.account(0);
                    format!("somebody else used {account} while this load was prepared: {moved_on}")
                });
                return Err(refused(said.unwrap_or(text)));
            }
            Err(error) => return Err(error),
        },
        Gas::Fixed(gas) => match used {
            Ok(used) if gas < used => {
                return Err(refused(format!(
                    "--gas {gas} is below the {used} that a simulation of the first transaction uses; give more, or \
                     leave it out"
                )));
            }
            _ => gas,
        },
    };
    let fee = fee(content, price, gas);
    let least = least.map(|least| least.of(gas));
    // A node may take several coins: of another one than this it is not known how much.
    let pays = |least: &Coin| {
        let paid = fee.coins.first();
        paid.is_some_and(|coin| coin.denom != least.denom || coin.amount >= least.amount)
    };
    match least.filter(|least| !pays(least)) {
        None => Ok(fee),
        Some(least) => Err(refused(format!(
            "the fee is below {least}, the least that the node takes for {gas} gas; give more with --fee or \
             --gas-price, or leave both out"
        ))),
    }
}

/// Transaction 0.
fn first(content: &CosmosContent, ready: &Ready) -> Result<Vec<u8>, QueryError> {
    let mut first = Vec::new();
    let sequence = ready.sequences.sequence(0);
    sign(
        content,
        ready,
        &mut Signing::default(),
        (0, sequence),
        &mut first,
    )
    .map_err(|error| refused(error.to_string()))?;
    Ok(first)
}

/// What a transaction pays for so much gas.
fn fee(content: &CosmosContent, price: Option<&GasPrice>, gas: u64) -> Fee {
    let coin = content.given.fee.clone().or_else(|| Some(price?.of(gas)));
    Fee {
        coins: coin.into_iter().filter(|coin| coin.amount > 0).collect(),
        gas,
    }
}

/// All accounts with their keys, which as many threads make as there are cores.
fn signers(content: &CosmosContent) -> Result<Vec<Account>, QueryError> {
    let count = content.accounts().get() as usize;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let keys = &content.wallet.keys;
    let key = keys.key(0).map_err(unusable)?;
    // In place: there may be a million of them.
    let mut signers = vec![Account { key, number: 0 }; count];
    let each = count.div_ceil(threads);
    thread::scope(|scope| {
        let parts = signers.chunks_mut(each).zip((0..).step_by(each));
        let parts = parts.map(|(part, first)| {
            scope.spawn(move || {
                let mut numbered = part.iter_mut().zip(first..);
                numbered.try_for_each(|(account, number)| {
                    account.key = keys.key(number)?;
                    Ok(())
                })
            })
        });
        let parts: Vec<_> = parts.collect();
        let mut parts = parts.into_iter();
        parts.try_for_each(|part| part.join().expect("making keys does not panic"))
    })
    .map_err(unusable)?;
    Ok(signers)
}

/// Asks for the number of each account, and gives their sequences.
async fn sequences(
    chain: &ChainClient,
    prefix: &Prefix,
    signers: &mut [Account],
    chain_id: &str,
) -> Result<Vec<u64>, QueryError> {
    let mut sequences = vec![0; signers.len()];
    let mut missing = Missing::default();
    let ask = |address: String| {
        let chain = chain.clone();
        async move { chain.account(&address).await }
    };
    let addresses = addresses(prefix, signers);
    let mut numbers = vec![0; signers.len()];
    each(addresses, ask, |at, found| match found {
        Some(found) => (numbers[at], sequences[at]) = (found.number, found.sequence),
        None => missing.add(at),
    })
    .await?;
    if let Some(first) = missing.first {
        let address = prefix.write(signers[first].key.address());
        return Err(refused(format!(
            "{} of the {} accounts are unknown to {chain_id}, the first of them account {first}, {address}; fund \
             them with `txgen cosmos prepare`, or correct --seed, --mnemonic or --hd-path",
            missing.count,
            signers.len()
        )));
    }
    for (account, number) in signers.iter_mut().zip(numbers) {
        account.number = number;
    }
    Ok(sequences)
}

/// Accounts that lack something.
#[derive(Default)]
struct Missing {
    count: usize,
    first: Option<usize>,
}

impl Missing {
    fn add(&mut self, at: usize) {
        self.count += 1;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }
}

/// The addresses of accounts, each written when it is needed.
fn addresses(prefix: &Prefix, signers: &[Account]) -> impl Iterator<Item = String> {
    signers
        .iter()
        .map(|account| prefix.write(account.key.address()))
}

/// Refuses accounts that cannot pay for their part of the run, or for one transaction when the run has
/// no planned end.
async fn check_funds(
    chain: &ChainClient,
    content: &CosmosContent,
    ready: &Ready,
    planned: Option<u64>,
) -> Result<(), QueryError> {
    let denom = &ready.coin.denom;
    let paid = match content.template {
        None => ready.coin.amount * u128::from(content.messages()),
        // What other messages cost is known to their modules alone.
        Some(_) => 0,
    };
    let fees = ready.fee.coins.iter().filter(|fee| fee.denom == *denom);
    let each_costs: u128 = paid + fees.map(|fee| fee.amount).sum::<u128>();
    let count = planned.map_or(1, |planned| {
        planned.div_ceil(ready.sequences.accounts()).max(1)
    });
    // Warm recipients pay each other, so only fees are lost; but their order is unknown.
    let needed = each_costs.saturating_mul(u128::from(count));
    let mut poor = Missing::default();
    let ask = |address: String| {
        let (chain, denom) = (chain.clone(), denom.clone());
        async move { chain.balance(&address, &denom).await }
    };
    each(
        addresses(&ready.prefix, &ready.signers),
        ask,
        |at, balance| {
            if balance < needed {
                poor.add(at);
            }
        },
    )
    .await?;
    let Some(first) = poor.first else {
        return Ok(());
    };
    let address = ready.prefix.write(ready.signers[first].key.address());
    let balance = chain.balance(&address, denom).await?;
    Err(refused(format!(
        "{} of the {} accounts cannot pay for {count} transactions of {each_costs}{denom} each, the first of them \
         account {first}, {address}, which has {balance}{denom} of {needed}{denom}; fund them with `txgen cosmos prepare`",
        poor.count,
        ready.signers.len(),
    )))
}

/// Asks for each, [`AT_A_TIME`] at a time, and puts the answers as they come, each with its place.
async fn each<T: Send + 'static, F>(
    of: impl Iterator<Item = String>,
    ask: impl Fn(String) -> F,
    mut put: impl FnMut(usize, T),
) -> Result<(), QueryError>
where
    F: Future<Output = Result<T, QueryError>> + Send + 'static,
{
    let mut waiting = of.enumerate();
    let mut asking = JoinSet::new();
    loop {
        while asking.len() < AT_A_TIME
            && let Some((at, text)) = waiting.next()
        {
            let answer = ask(text);
            asking.spawn(async move { (at, answer.await) });
        }
        let Some(answered) = asking.join_next().await else {
            return Ok(());
        };
        let (at, answer) = answered.expect("asking does not panic");
        put(at, answer?);
    }
}

/// A chain answers one in about 0.2 ms; more at a time would only load it.
const AT_A_TIME: usize = 16;
/// Of a chain that does not know `unordered` of ADR-070, and of one that has it off (x/auth/ante/sigverify.go of 0.53).
const NO_UNORDERED: [&str; 2] = ["errUnknownField", "unordered transactions are not enabled"];
/// Of a simulation's first transaction; its digits count as bytes.
const TYPICAL_GAS: u64 = 100_000;
/// The part of the gas used that is added: 1 / 2. Gas depends on the state: the first transaction of an
/// account stores its key, and amounts get longer.
const GAS_MARGIN: u64 = 2;

/// Reads `account sequence mismatch, expected 5, got 7`, the words of `sdk/32` (Cosmos SDK 0.50,
/// x/auth/ante/sigverify.go).
pub(crate) fn expectation(log: &str) -> Option<Expectation> {
    let (_, numbers) = log.split_once("account sequence mismatch")?;
    let number = |word: &str| {
        let (_, rest) = numbers.split_once(word)?;
        let digits = rest.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit());
        digits[..end.unwrap_or(digits.len())].parse().ok()
    };
    Some(Expectation {
        expected: number("expected ")?,
        got: number("got ")?,
    })
}

/// The message where the chain is ahead of a sequence that was read from it a moment ago; where it is
/// behind, the node that answered is.
fn moved_on(expectation: Expectation) -> Option<String> {
    let Expectation { expected, got } = expectation;
    (expected > got).then(|| {
        format!(
            "its sequence was {got} and is {expected}; give every generator accounts of its own (--shard, \
             another --seed or --hd-path)"
        )
    })
}

/// How a table of refusals names a wrong sequence.
pub(crate) const MISMATCH: &str =
    "sdk/32: account sequence mismatch, expected #, got #: incorrect account sequence";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_sdk_say_what_it_expects() {
        let log = "account sequence mismatch, expected 12, got 9: incorrect account sequence";
        let read = expectation(log).unwrap();
        assert_eq!((read.expected, read.got), (12, 9));
        assert_eq!(expectation("incorrect account sequence"), None);
    }

    #[test]
    fn somebody_else_used_an_account_where_the_chain_is_ahead_of_what_was_read() {
        let [ahead, behind] = [(18, 12), (12, 18)].map(|(expected, got)| {
            let log = format!("account sequence mismatch, expected {expected}, got {got}: wrong");
            moved_on(expectation(&log).unwrap())
        });
        assert!(ahead.unwrap().starts_with("its sequence was 12 and is 18;"));
        assert_eq!(behind, None);
    }
}
