//! Chains of TRANSFERs over outputs that CREATEs made before.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, OnceLock};

use bigchain::{Id, KeyPair, Link, PublicKey, TransferTemplate};

use super::super::{TxName, TxStream, WorkloadError};
use super::{Content, CreateWorkload, check, impossible, party};

/// Chains of TRANSFERs: each begins at an output of amount 1 that a CREATE made, and hands it to and
/// fro between two parties.
///
/// Transaction `i` is in chain `i mod chains`, so all chains grow together and as much as possible
/// lies between a transaction and the one it spends: a node refuses to spend what is not committed
/// yet. Ids are a function of the seed, the number of chains and the index, whatever the number of
/// threads that make them.
#[derive(Debug, Clone)]
pub struct TransferWorkload(Arc<Made>);

/// How many chains there are and how long each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chains {
    /// How many: as many CREATEs are committed before the load.
    pub count: NonZeroU64,
    /// TRANSFERs in each; the last ones of some chains may be left out.
    pub depth: NonZeroU32,
}

#[derive(Debug)]
struct Made {
    content: Content,
    chains: Chains,
    transactions: u64,
    roots: CreateWorkload,
    /// From the first party to the second, and back.
    steps: [TransferTemplate; 2],
    size: usize,
    /// The ids of the CREATEs, then of the TRANSFERs, as far as they are known: 40 bytes each.
    ids: Box<[OnceLock<Id>]>,
}

impl Chains {
    /// As many chains of this depth as hold `transactions`.
    #[must_use]
    pub fn holding(transactions: NonZeroU64, depth: NonZeroU32) -> Self {
        let count = transactions.get().div_ceil(u64::from(depth.get()));
        Self {
            count: NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN),
            depth,
        }
    }
}

impl TransferWorkload {
    /// `transactions` TRANSFERs in chains of this depth.
    ///
    /// # Errors
    /// As [`CreateWorkload::new`], and when there are more than 10,000,000.
    pub fn new(
        content: Content,
        transactions: NonZeroU64,
        depth: NonZeroU32,
    ) -> Result<Self, WorkloadError> {
        let transactions = transactions.get();
        if transactions > MAX_TRANSFERS {
            return Err(WorkloadError::TooMany {
                transactions,
                limit: MAX_TRANSFERS,
            });
        }
        let chains = Chains::holding(
            NonZeroU64::new(transactions).unwrap_or(NonZeroU64::MIN),
            depth,
        );
        let parties = ["first", "second"].map(|name| party(content.seed, name, content.signers));
        let keys = parties.each_ref().map(|party| public(party));
        let [first, second] = parties;
        let step = |owners, recipients: &[PublicKey]| {
            TransferTemplate::new(owners, recipients).map_err(|error| impossible(&error))
        };
        let steps = [step(first, &keys[1])?, step(second, &keys[0])?];
        let ids = chains.count.get() + transactions;
        let mut made = Made {
            roots: CreateWorkload::signed_by(content.clone(), "first")?,
            content,
            chains,
            transactions,
            steps,
            size: 0,
            ids: (0..ids).map(|_| OnceLock::new()).collect(),
        };
        let mut sample = String::new();
        made.sign(0, Id([0; 32]), Id([0; 32]), &mut sample);
        made.size = check(&sample)?;
        Ok(Self(Arc::new(made)))
    }

    /// How many TRANSFERs there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.transactions
    }

    /// The chains.
    #[must_use]
    pub fn chains(&self) -> Chains {
        self.0.chains
    }

    /// The size of each TRANSFER in bytes, in the original's default encoding.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// What they hold.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.0.content
    }

    /// The CREATEs that have to be committed before: one for each chain.
    #[must_use]
    pub fn roots(&self) -> &CreateWorkload {
        &self.0.roots
    }

    /// A stream of its transactions; any number may be open, on as many threads.
    #[must_use]
    pub fn open(&self) -> TransferStream {
        TransferStream {
            made: self.0.clone(),
            text: String::new(),
        }
    }
}

impl Made {
    /// The id at a place of the table: that of a CREATE, or of a TRANSFER after those. What it builds
    /// on is made first, in the order of the chain; two threads that need the same make the same.
    fn id_at(&self, place: u64, text: &mut String) -> Id {
        let chains = self.chains.count.get();
        let mut known = place;
        while known >= chains && self.slot(known).get().is_none() {
            known -= chains;
        }
        let mut id = match self.slot(known).get() {
            Some(id) => *id,
            // Only the CREATE at the beginning is looked up without being known.
            None => *self.slot(known).get_or_init(|| self.roots.id(known, text)),
        };
        if known == place {
            return id;
        }
        let asset = self.id_at(place % chains, text);
        while known < place {
            known += chains;
            text.clear();
            let made = self.sign(known - chains, asset, id, text);
            id = *self.slot(known).get_or_init(|| made);
        }
        id
    }

    fn slot(&self, place: u64) -> &OnceLock<Id> {
        &self.ids[place as usize]
    }

    /// Signs TRANSFER `index`, which spends the only output of `spent`.
    fn sign(&self, index: u64, asset: Id, spent: Id, text: &mut String) -> Id {
        let chains = self.chains.count.get();
        let step = (index / chains % 2) as usize;
        let spent = Link {
            transaction_id: spent.to_string(),
            output_index: 0,
        };
        // The CREATEs have the indices from zero.
        let metadata = &self.content.metadata;
        let metadata = metadata.of(self.content.seed, chains + index);
        self.steps[step].sign(asset, &spent, &metadata, text)
    }
}

fn public(party: &[KeyPair]) -> Vec<PublicKey> {
    party.iter().map(KeyPair::public).collect()
}

/// Makes TRANSFERs one after the other.
#[derive(Debug)]
pub struct TransferStream {
    made: Arc<Made>,
    text: String,
}

impl TxStream for TransferStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let Self { made, text } = self;
        let chains = made.chains.count.get();
        let asset = made.id_at(index % chains, text);
        let spent = made.id_at(index, text);
        text.clear();
        let id = made.sign(index, asset, spent, text);
        // Another thread that needed it has set the same.
        let _ = made.slot(chains + index).set(id);
        out.extend_from_slice(text.as_bytes());
        Ok(TxName::Known(id.0))
    }
}

/// Their ids are kept: 400 MB.
pub(super) const MAX_TRANSFERS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use bigchain::{MemoryLedger, Mode, Transaction};

    use super::super::Metadata;
    use super::*;

    fn workload(transactions: u64, depth: u32, signers: u32) -> TransferWorkload {
        let content = Content {
            seed: 9,
            signers: NonZeroU32::new(signers).unwrap(),
            asset_size: 3,
            metadata: Metadata::default(),
        };
        let count = NonZeroU64::new(transactions).unwrap();
        TransferWorkload::new(content, count, NonZeroU32::new(depth).unwrap()).unwrap()
    }

    fn text(stream: &mut dyn TxStream, index: u64) -> Vec<u8> {
        let mut tx = Vec::new();
        stream.write(index, &mut tx).unwrap();
        tx
    }

    #[test]
    fn chains_are_valid_from_their_creates_to_their_ends() {
        for (transactions, depth, signers) in [(10, 3, 1), (5, 1, 2), (6, 6, 1)] {
            let workload = workload(transactions, depth, signers);
            let chains = workload.chains().count.get();
            assert_eq!(chains, transactions.div_ceil(u64::from(depth)));
            let mut ledger = MemoryLedger::default();
            let mut commit = |tx: &[u8]| {
                let read = Transaction::from_text(tx, Mode::Strict).unwrap();
                read.validate(&ledger).unwrap();
                assert!(ledger.apply(&read));
            };
            for chain in 0..chains {
                commit(&text(&mut workload.roots().open(), chain));
            }
            for index in 0..transactions {
                let tx = text(&mut workload.open(), index);
                assert_eq!(tx.len(), workload.size());
                commit(&tx);
            }
        }
    }

    #[test]
    fn the_order_in_which_threads_make_them_changes_nothing() {
        let in_order: Vec<_> = {
            let workload = workload(30, 10, 1);
            (0..30)
                .map(|index| text(&mut workload.open(), index))
                .collect()
        };
        let backwards: Vec<_> = {
            let workload = workload(30, 10, 1);
            (0..30)
                .rev()
                .map(|index| text(&mut workload.open(), index))
                .collect()
        };
        assert!(in_order.iter().eq(backwards.iter().rev()));
    }
}
