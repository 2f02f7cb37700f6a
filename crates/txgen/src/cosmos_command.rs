//! `txgen cosmos`: funds the accounts of a load and gives back what is left.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use chain_cometbft::caught_up;
use chain_cosmos::ChainClient;
use cosmos::{Address, Coin, Draft, Fee, GasPrice, Key, Keys, Message, Prefix, Signer, Signing};
use ops::command::{CommandError, failed};
use rpc::{BroadcastMethod, Client, Endpoint};

use crate::cli::{CosmosCommand, PrepareArgs, SweepArgs};
use crate::output::print;
use crate::plan::cosmos::{account_keys, write_accounts};
use crate::settings::AccountSettings;

/// Does what the command says; gives the exit code.
pub(crate) fn execute(command: CosmosCommand) -> Result<u8, CommandError> {
    let done = match command {
        CosmosCommand::Prepare(args) => prepare(&args),
        CosmosCommand::Sweep(args) => sweep(&args),
    };
    Ok(print(&done.map_err(failed)?))
}

fn prepare(args: &PrepareArgs) -> anyhow::Result<String> {
    let keys = account_keys(&args.wallet.of, args.wallet.seed)?;
    if let Some(path) = &args.genesis {
        write_accounts(path, &args.wallet.of, &keys, &args.amount)?;
        return Ok(format!(
            "{} accounts with {} each are in {}\n",
            keys.len(),
            args.amount,
            path.display()
        ));
    }
    let (Some(endpoint), Some(words)) = (&args.endpoints, &args.funder) else {
        bail!("who pays? give the words of its wallet with --funder or in TXGEN_FUNDER");
    };
    let funder = Keys::from_mnemonic(words, "m/44'/118'/0'/0").context("--funder")?;
    let funder = funder.key(0)?;
    in_runtime(async {
        let chain = Chain::ask(endpoint, &args.wallet.of, &args.amount.denom).await?;
        for part in keys.chunks(BATCH) {
            let to: Vec<Address> = part.iter().map(Key::address).collect();
            let message = Message::multi_send(&chain.prefix, funder.address(), &to, &args.amount);
            let fee = chain.fee(GAS_OF_TX + GAS_OF_OUTPUT * to.len() as u64);
            let needed = args.amount.amount.saturating_mul(to.len() as u128);
            chain
                .has(&funder, needed.saturating_add(cost(&fee, &chain.denom)))
                .await?;
            let before = chain.balance(&part[0]).await?;
            let sequence = chain.send(&funder, &message, &fee).await?;
            chain.await_sequence(&funder, sequence + 1).await?;
            if chain.balance(&part[0]).await? <= before {
                bail!("a block has the transfer, and it failed there: nobody was paid by it");
            }
        }
        Ok(format!(
            "{} accounts have {} more each\n",
            keys.len(),
            args.amount
        ))
    })
}

fn sweep(args: &SweepArgs) -> anyhow::Result<String> {
    let keys = account_keys(&args.wallet.of, args.wallet.seed)?;
    in_runtime(async {
        let denom = args.denom.as_deref().unwrap_or_default();
        let chain = Chain::ask(&args.endpoints, &args.wallet.of, denom).await?;
        let to = chain.prefix.read(&args.to).context("--to")?;
        let fee = chain.fee(GAS_OF_TX + GAS_OF_OUTPUT);
        let cost = cost(&fee, &chain.denom);
        let mut sent = Vec::new();
        let mut total = 0;
        for key in &keys {
            let balance = chain.balance(key).await?;
            let Some(rest) = balance.checked_sub(cost).filter(|rest| *rest > 0) else {
                continue;
            };
            let coin = Coin::new(rest, chain.denom.clone());
            let message = Message::send(&chain.prefix, key.address(), to, &coin);
            let sequence = chain.send(key, &message, &fee).await?;
            sent.push((key, sequence));
            total += rest;
        }
        for (key, sequence) in &sent {
            chain.await_sequence(key, sequence + 1).await?;
        }
        Ok(format!(
            "{} of {} accounts sent {total}{} to {}\n",
            sent.len(),
            keys.len(),
            chain.denom,
            args.to
        ))
    })
}

/// What a fee comes to in this coin.
fn cost(fee: &Fee, denom: &str) -> u128 {
    let own = fee.coins.iter().filter(|coin| coin.denom == denom);
    own.map(|coin| coin.amount).sum()
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = crate::runtime::start()?;
    runtime.block_on(work)
}

/// A chain that transfers are sent to, one by one.
struct Chain {
    client: Client,
    queries: ChainClient,
    chain_id: String,
    prefix: Prefix,
    denom: String,
    price: Option<GasPrice>,
}

impl Chain {
    /// Asks what has to be known; an empty `denom` is that of the stake.
    async fn ask(
        endpoint: &Endpoint,
        given: &AccountSettings,
        denom: &str,
    ) -> anyhow::Result<Self> {
        let client = Client::new(endpoint, QUERY_TIMEOUT)?;
        let queries = ChainClient::new(client.clone());
        let prefix = given.prefix.as_deref().map(Prefix::new).transpose()?;
        let status = caught_up(&client).await?;
        let denom = match denom {
            "" => queries.bond_denom().await?,
            denom => denom.to_owned(),
        };
        Ok(Self {
            chain_id: status.chain_id,
            prefix: queries.prefix(prefix).await?,
            price: match &given.gas_price {
                Some(price) => Some(price.clone()),
                None => queries.least_price(&denom).await?,
            },
            client,
            queries,
            denom,
        })
    }

    fn fee(&self, gas: u64) -> Fee {
        let coin = self.price.as_ref().map(|price| price.of(gas));
        Fee {
            coins: coin.into_iter().filter(|coin| coin.amount > 0).collect(),
            gas,
        }
    }

    /// Number and sequence of a key's account.
    async fn account(&self, key: &Key) -> anyhow::Result<(u64, u64)> {
        let address = self.prefix.write(key.address());
        let account = self.queries.account(&address).await?;
        let account =
            account.ok_or_else(|| anyhow!("{} does not know {address}", self.chain_id))?;
        Ok((account.number, account.sequence))
    }

    /// What a key's account has.
    async fn balance(&self, key: &Key) -> anyhow::Result<u128> {
        let address = self.prefix.write(key.address());
        Ok(self.queries.balance(&address, &self.denom).await?)
    }

    /// Refuses an account that has less than what it is to pay.
    async fn has(&self, key: &Key, needed: u128) -> anyhow::Result<()> {
        let (balance, denom) = (self.balance(key).await?, &self.denom);
        if balance < needed {
            let address = self.prefix.write(key.address());
            bail!(
                "{address} has {balance}{denom} of the {needed}{denom} that the next transfer takes; give it more, or \
                 correct --funder or --amount"
            );
        }
        Ok(())
    }

    /// Sends one transaction; the sequence that it has.
    async fn send(&self, key: &Key, message: &Message, fee: &Fee) -> anyhow::Result<u64> {
        let (account_number, sequence) = self.account(key).await?;
        let draft = Draft::new(std::slice::from_ref(message), fee);
        let signer = Signer {
            key,
            account_number,
            sequence,
        };
        let mut tx = Vec::new();
        Signing::default().sign(&self.chain_id, &draft, &signer, &mut tx);
        let reply = self.client.broadcast(BroadcastMethod::Sync, &tx).await?;
        match reply.code {
            0 => Ok(sequence),
            code => Err(anyhow!(
                "the transfer from {} was refused with code {code}: {}",
                self.prefix.write(key.address()),
                reply.log
            )),
        }
    }

    /// Waits until a block has brought an account to this sequence.
    async fn await_sequence(&self, key: &Key, wanted: u64) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.account(key).await?.1 < wanted {
            if start.elapsed() > COMMIT_TIMEOUT {
                bail!("no block has the transfer after {COMMIT_TIMEOUT:?}");
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }
}

/// Accounts that one transfer funds.
const BATCH: usize = 100;
/// Of a transaction beside its outputs, and of an output to a new account, with room to spare.
const GAS_OF_TX: u64 = 150_000;
const GAS_OF_OUTPUT: u64 = 60_000;
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
