//! Bitcoin transactions from a wallet of one's own, signed ahead: the same for one wallet and seed, on every
//! machine.

mod keys;
mod mining;
mod settle;
mod shape;
mod wallet;

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bitcoin::consensus::Encodable as _;
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Transaction, Txid};
use sha2::{Digest as _, Sha256};

pub use keys::{Digest, KEYS, Keys, Network, Spend};
pub use mining::Mining;
pub use settle::{Settlement, Settler};
pub use shape::{LEAST_OUTPUT, Shape, size};
pub use wallet::{Coin, CoinState, Wallet, WalletError, WalletLock, read_coin};

use base::mix;
use chain::{ChainDepth, Chaining, Chains, Role, TxName, TxStream, Workload, WorkloadError};

base::settings! {
    /// What makes the transactions of a load.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Spec {
        /// The run's seed.
        pub seed: u64 = 0,
        /// Inputs and outputs.
        pub shape: Shape = Shape::default(),
        /// Transactions of a chain, each of which spends the one before it.
        pub depth: ChainDepth = ChainDepth::all(NonZeroU32::MIN),
        /// Share of transactions that spend what another one spends.
        pub conflicts: f64 = 0.0,
        /// Share of transactions that spend what no transaction makes.
        pub orphans: f64 = 0.0,
        /// Satoshi for each byte.
        pub fee_rate: u64 = DEFAULT_FEE_RATE,
        /// How many generators share the load: what belongs together is one generator's.
        pub generators: u32 = 1,
        /// What the keys are derived from.
        pub wallet_seed: u64 = DEFAULT_WALLET_SEED,
        /// What signatures cover.
        pub digest: Digest = Digest::default(),
    }
}

impl Spec {
    fn chaining(&self) -> Chaining {
        Chaining {
            seed: self.seed,
            depth: self.depth,
            conflicts: self.conflicts,
            orphans: self.orphans,
            generators: self.generators,
        }
    }

    /// The key of an output.
    fn key(&self, index: u64, output: usize) -> u16 {
        let bits = mix(mix(self.seed ^ KEY_DOMAIN).wrapping_add(index)) ^ output as u64;
        (mix(bits) % u64::from(KEYS)) as u16
    }

    /// Satoshi that each transaction pays.
    pub(crate) fn fee(&self) -> u64 {
        self.fee_rate * self.shape.size() as u64
    }

    /// Satoshi that each coin of a chain needs at least.
    pub fn coin_value(&self) -> u64 {
        let inputs = self.shape.inputs() as u64;
        // A conflicting one pays a satoshi more.
        let a_link = self.fee() + self.shape.left_behind() + 1;
        let chain = u64::from(self.depth.links.get()) * a_link + inputs * LEAST_OUTPUT;
        chain.div_ceil(inputs).max(LEAST_COIN)
    }
}

/// Transactions of a wallet. The coins come later than the plan.
#[derive(Debug, Clone)]
pub struct BitcoinWorkload {
    inner: Arc<Inner>,
    wallet_file: Option<PathBuf>,
    mining: Option<Mining>,
}

#[derive(Debug)]
struct Inner {
    spec: Spec,
    chains: Chains,
    keys: Keys,
    wallet: OnceLock<Wallet>,
    /// The coins that chains begin with, one chain's after the other's.
    coins: OnceLock<Vec<Spend>>,
    /// Of the transactions, as far as they are known: 40 bytes each.
    ids: Box<[OnceLock<Txid>]>,
    /// The lowest index of each chain that a node refused; [`u64::MAX`] for none.
    refused: Box<[AtomicU64]>,
}

impl BitcoinWorkload {
    /// So many transactions of this kind.
    ///
    /// # Errors
    /// When there are more than 10,000,000, or the shares leave no chain to spend.
    pub fn new(spec: Spec, transactions: u64) -> Result<Self, WorkloadError> {
        if transactions > MOST_TRANSACTIONS {
            return Err(WorkloadError::Unusable(format!(
                "{transactions} Bitcoin transactions are more than the {MOST_TRANSACTIONS} whose ids can be kept; offer fewer"
            )));
        }
        let chains = Chains::new(transactions, spec.chaining())?;
        Ok(Self {
            inner: Arc::new(Inner {
                keys: Keys::new(spec.wallet_seed, spec.digest),
                wallet: OnceLock::new(),
                coins: OnceLock::new(),
                ids: (0..transactions).map(|_| OnceLock::new()).collect(),
                refused: (0..chains.count())
                    .map(|_| AtomicU64::new(u64::MAX))
                    .collect(),
                chains,
                spec,
            }),
            wallet_file: None,
            mining: None,
        })
    }

    /// With the wallet file that is spent, and when txgen asks nodes to mine.
    #[must_use]
    pub fn supplied_by(self, wallet_file: Option<PathBuf>, mining: Option<Mining>) -> Self {
        Self {
            wallet_file,
            mining,
            ..self
        }
    }

    /// The wallet file that is spent.
    pub fn wallet_file(&self) -> Option<&Path> {
        self.wallet_file.as_deref()
    }

    /// When txgen asks nodes to mine, and which.
    pub fn mining(&self) -> Option<Mining> {
        self.mining
    }

    /// What makes its transactions.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// The keys of its wallet.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// The workload behind the trait, if it is this one.
    pub fn of(workload: &dyn Workload) -> Option<&Self> {
        (workload as &dyn Any).downcast_ref()
    }

    /// The number of transactions.
    pub fn transactions(&self) -> u64 {
        self.inner.chains.transactions()
    }

    /// Coins that it needs.
    pub fn needs(&self) -> usize {
        self.inner.chains.count() as usize * self.inner.spec.shape.inputs()
    }

    /// The wallet that it spends from, once given.
    pub(crate) fn wallet(&self) -> Option<&Wallet> {
        self.inner.wallet.get()
    }

    /// Gives it the wallet to spend from.
    ///
    /// # Errors
    /// When the wallet has too few coins, or coins that are worth too little.
    pub fn give(&self, wallet: Wallet) -> Result<(), WorkloadError> {
        let (least, needs) = (self.inner.spec.coin_value(), self.needs());
        let fit = wallet.spendable().filter(|coin| coin.value >= least);
        let coins: Vec<Spend> = fit.take(needs).collect();
        if coins.len() < needs {
            let confirmed = wallet.spendable().count();
            return Err(WorkloadError::Unusable(format!(
                "the wallet has {} of the {needs} coins of at least {least} satoshi that the load spends ({confirmed} \
                 confirmed ones in all); prepare more with `txgen bitcoin prepare --utxos {needs} --value {least}`, \
                 or use a smaller load or a larger --chain-depth",
                coins.len()
            )));
        }
        let _ = self.inner.coins.set(coins);
        let _ = self.inner.wallet.set(wallet);
        Ok(())
    }

    /// A node refused this transaction: what spends its outputs is dead.
    pub(crate) fn refuse(&self, index: u64) {
        let inner = &self.inner;
        if index < inner.chains.transactions() && inner.chains.role(index) == Role::Link {
            let refused = &inner.refused[inner.chains.chain(index) as usize];
            refused.fetch_min(index, Ordering::Relaxed);
        }
    }

    /// Whether the transaction spends, over others or not, an output of one that was refused.
    pub(crate) fn is_dead(&self, index: u64) -> bool {
        let inner = &self.inner;
        if index >= inner.chains.transactions() {
            return false;
        }
        let Some(spends_as) = inner.chains.spends_as(index) else {
            return false;
        };
        let refused = &inner.refused[inner.chains.chain(spends_as) as usize];
        refused.load(Ordering::Relaxed) < spends_as
    }
}

impl BitcoinWorkload {
    /// What has to go to one node: the transactions of a chain, and those that conflict with one of them.
    pub(crate) fn family(&self, index: u64) -> u64 {
        let chains = &self.inner.chains;
        chains.chain(chains.spends_as(index).unwrap_or(index))
    }

    /// How many chains there are.
    pub(crate) fn families_count(&self) -> u64 {
        self.inner.chains.count()
    }
}

impl Inner {
    /// What the transaction spends.
    fn spends(&self, index: u64) -> Vec<Spend> {
        let spent_by = match self.chains.role(index) {
            Role::Orphan => return self.unknown(index),
            Role::Conflict(with) => with,
            Role::Link => index,
        };
        match self.chains.previous(spent_by) {
            Some(previous) => self.outputs_at(previous, self.id(previous)),
            None => self.first_coins(self.chains.chain(spent_by)),
        }
    }

    /// The coins that a chain begins with.
    fn first_coins(&self, chain: u64) -> Vec<Spend> {
        let inputs = self.spec.shape.inputs();
        let coins = self.coins.get().map_or(&[][..], Vec::as_slice);
        let from = chain as usize * inputs;
        coins.get(from..from + inputs).unwrap_or_default().to_vec()
    }

    /// Outputs of nothing.
    fn unknown(&self, index: u64) -> Vec<Spend> {
        let spend = |vout: usize| {
            let mut hasher = Sha256::new_with_prefix(b"tidegate bitcoin orphan ");
            hasher.update(self.spec.seed.to_le_bytes());
            hasher.update(index.to_le_bytes());
            Spend {
                outpoint: OutPoint {
                    txid: Txid::from_byte_array(hasher.finalize().into()),
                    vout: vout as u32,
                },
                key: self.spec.key(index, vout),
                value: self.spec.coin_value(),
            }
        };
        (0..self.spec.shape.inputs()).map(spend).collect()
    }

    /// The satoshi that a chain's link spends: its coins less what the links before it paid and left.
    fn spent(&self, index: u64) -> u64 {
        let coins = self.first_coins(self.chains.chain(index));
        let value: u64 = coins.iter().map(|coin| coin.value).sum();
        let each = self.spec.fee() + self.spec.shape.left_behind();
        value.saturating_sub(self.chains.links_before(index).saturating_mul(each))
    }

    /// Keys and values of the outputs.
    fn pays(&self, index: u64) -> Vec<(u16, u64)> {
        let (spent, fee) = match self.chains.role(index) {
            Role::Link => (self.spent(index), self.spec.fee()),
            // A satoshi more of fee, so that it is another transaction.
            Role::Conflict(with) => (self.spent(with), self.spec.fee() + 1),
            Role::Orphan => {
                let inputs = self.spec.shape.inputs() as u64;
                (self.spec.coin_value() * inputs, self.spec.fee())
            }
        };
        let values = self.spec.shape.values(spent, fee);
        let key = |(output, value)| (self.spec.key(index, output), value);
        values.into_iter().enumerate().map(key).collect()
    }

    /// The outputs that the next link spends, of a link with this id.
    fn outputs_at(&self, index: u64, txid: Txid) -> Vec<Spend> {
        let inputs = self.spec.shape.inputs();
        let mut outputs = self.all_outputs(index, txid);
        outputs.truncate(inputs);
        outputs
    }

    fn all_outputs(&self, index: u64, txid: Txid) -> Vec<Spend> {
        let output = |(vout, (key, value))| Spend {
            outpoint: OutPoint { txid, vout },
            key,
            value,
        };
        (0..).zip(self.pays(index)).map(output).collect()
    }

    /// The id of a link. What it spends is made first, in the order of the chain; two threads that need
    /// the same make the same.
    fn id(&self, index: u64) -> Txid {
        let mut unknown = vec![index];
        while let Some(previous) = unknown.last().and_then(|last| self.chains.previous(*last))
            && self.known(previous).is_none()
        {
            unknown.push(previous);
        }
        let mut id = self.known(index);
        for at in unknown.into_iter().rev() {
            let slot = &self.ids[at as usize];
            id = Some(*slot.get_or_init(|| self.sign(at).compute_txid()));
        }
        id.unwrap_or_else(Txid::all_zeros)
    }

    fn known(&self, index: u64) -> Option<Txid> {
        self.ids.get(index as usize)?.get().copied()
    }

    /// Signs a transaction whose chain is known up to it.
    fn sign(&self, index: u64) -> Transaction {
        self.keys.pay(&self.spends(index), &self.pays(index))
    }
}

impl BitcoinWorkload {
    /// A stream of its transactions; any number may be open, on as many threads.
    pub(crate) fn stream(&self) -> BitcoinStream {
        BitcoinStream {
            inner: Arc::clone(&self.inner),
        }
    }

    /// The largest size of a transaction in bytes.
    pub(crate) fn size(&self) -> usize {
        self.inner.spec.shape.size()
    }
}

/// Makes transactions one after the other.
#[derive(Debug)]
pub(crate) struct BitcoinStream {
    inner: Arc<Inner>,
}

impl TxStream for BitcoinStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let inner = &self.inner;
        if inner.coins.get().is_none() {
            let text = "the wallet has not been prepared; this is a bug in txgen, please report it";
            return Err(WorkloadError::Unusable(text.into()));
        }
        let tx = inner.sign(index);
        // Vectors take everything.
        let _ = tx.consensus_encode(out);
        let txid = tx.compute_txid();
        // Another thread that needed it has set the same.
        let _ = inner.ids[index as usize].set(txid);
        Ok(TxName::Known(shown(txid)))
    }
}

/// The bytes of an id in the order in which they are shown.
pub fn shown(txid: Txid) -> [u8; 32] {
    let mut bytes = txid.to_byte_array();
    bytes.reverse();
    bytes
}

/// A hash as it is shown.
pub fn hash_text(hash: &[u8; 32]) -> String {
    hex_simd::encode_to_string(hash, hex_simd::AsciiCase::Lower)
}

/// The id of a transaction that was not made here.
///
/// # Errors
/// When the bytes are no transaction.
pub(crate) fn bitcoin_id(index: u64, tx: &[u8]) -> Result<[u8; 32], WorkloadError> {
    let read: Result<Transaction, _> = bitcoin::consensus::deserialize(tx);
    let refused = |error| {
        WorkloadError::Unusable(format!(
            "transaction {index} is no Bitcoin transaction: {error}"
        ))
    };
    read.map(|tx| shown(tx.compute_txid())).map_err(refused)
}

impl fmt::Display for BitcoinWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { spec, chains, .. } = &*self.inner;
        let (shape, size, fee) = (spec.shape, self.size(), spec.fee());
        write!(
            f,
            "{BITCOIN_WORKLOAD} {shape}, at most {size} bytes each, fee {fee} satoshi, {chains}"
        )
    }
}

/// What the workload is called on the command line.
pub const BITCOIN_WORKLOAD: &str = "bitcoin";
/// Twice the least fee that nodes relay.
pub(crate) const DEFAULT_FEE_RATE: u64 = 2;
/// What the keys of a wallet are derived from when nothing else is given.
pub const DEFAULT_WALLET_SEED: u64 = 1;
/// Coins that are not worth less to spend than they are.
const LEAST_COIN: u64 = 10_000;
/// Their ids are kept: 400 MB.
const MOST_TRANSACTIONS: u64 = 10_000_000;
/// Keeps the keys apart from other uses of the same seed.
const KEY_DOMAIN: u64 = 0x7469_6465_6b65_7973;

#[cfg(test)]
mod tests;
