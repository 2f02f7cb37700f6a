//! `txgen cosmos`: funds the accounts of a load and gives back what is left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use chain::ChainError;
use chain_cometbft::Client;
use chain_cometbft::caught_up;
use clap::{ArgMatches, Args, FromArgMatches as _, Parser, Subcommand};
use cosmos::{Address, Coin, Draft, Fee, GasPrice, Key, Keys, Message, Prefix, Signer, Signing};
use rpc::{BroadcastMethod, Endpoint};

use crate::client::ChainClient;
use crate::resolve::{account_keys, write_accounts};
use crate::settings::AccountSettings;

/// `txgen cosmos`
#[derive(Debug, Parser)]
#[command(name = "cosmos", about = ABOUT, before_long_help = examples("cosmos"))]
pub(crate) struct CosmosArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CosmosCommand,
}

/// The commands of `txgen cosmos`.
#[derive(Debug, Subcommand)]
pub(crate) enum CosmosCommand {
    /// Fund the accounts: in a genesis file, or from one key in transfers of 100 accounts each.
    #[command(before_long_help = examples("prepare"))]
    Prepare(PrepareArgs),
    /// Send what the accounts still have to one address.
    #[command(before_long_help = examples("sweep"))]
    Sweep(SweepArgs),
}

/// Which accounts; as for `--workload cosmos-send`.
#[derive(Debug, Args)]
pub(crate) struct WalletArgs {
    /// The accounts follow from this number alone: for test chains only.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Which of them.
    #[command(flatten)]
    pub(crate) of: AccountSettings,
}

/// `txgen cosmos prepare`
#[derive(Debug, Args)]
pub(crate) struct PrepareArgs {
    /// Which accounts.
    #[command(flatten)]
    pub(crate) wallet: WalletArgs,
    /// What each account gets, for instance 1000000stake.
    #[arg(long, value_name = "COIN")]
    pub(crate) amount: Coin,
    /// Write the accounts into this genesis file of a chain that has not begun.
    #[arg(long, value_name = "PATH", conflicts_with = "endpoints")]
    pub(crate) genesis: Option<PathBuf>,
    /// The node whose chain is used.
    #[arg(long, value_name = "URL", required_unless_present = "genesis")]
    pub(crate) endpoints: Option<Endpoint>,
    /// The words of the wallet whose first account pays; better in the environment than on the command
    /// line.
    #[arg(
        long,
        value_name = "WORDS",
        env = "TXGEN_FUNDER",
        hide_env_values = true
    )]
    pub(crate) funder: Option<String>,
}

/// `txgen cosmos sweep`
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Which accounts.
    #[command(flatten)]
    pub(crate) wallet: WalletArgs,
    /// Who gets it.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: String,
    /// The node whose chain is used.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoints: Endpoint,
    /// The coin that is sent back [default: the one that is staked].
    #[arg(long, value_name = "DENOM")]
    pub(crate) denom: Option<String>,
}

/// Runs the command; returns the text to print.
pub(crate) fn execute(matches: &ArgMatches) -> Result<String, ChainError> {
    let args = CosmosArgs::from_arg_matches(matches);
    let args = args.map_err(|error| ChainError::Unusable(error.into()))?;
    let done = match args.command {
        CosmosCommand::Prepare(args) => prepare(&args),
        CosmosCommand::Sweep(args) => sweep(&args),
    };
    done.map_err(ChainError::Failed)
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
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

/// The head of a command's help.
fn examples(command: &str) -> &'static str {
    ops::command::examples(include_str!("examples.txt"), command)
}

/// Accounts that one transfer funds.
const BATCH: usize = 100;
/// Of a transaction beside its outputs, and of an output to a new account, with room to spare.
const GAS_OF_TX: u64 = 150_000;
const GAS_OF_OUTPUT: u64 = 60_000;
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
const ABOUT: &str =
    "Fund the accounts of a load on a Cosmos SDK chain, or send back what they have";
