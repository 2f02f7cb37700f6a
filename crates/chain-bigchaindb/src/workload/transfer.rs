//! Chains of TRANSFERs over outputs that CREATEs made before.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, OnceLock};

use bigchain::{Id, KeyPair, Link, PublicKey, TransferTemplate};

use super::create::Creates;
use super::{Content, Sign, impossible, party};
use chain::WorkloadError;

/// How many chains there are and how long each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chains {
    /// How many: as many CREATEs are committed before the load.
    pub count: NonZeroU64,
    /// TRANSFERs in each; the last ones of some chains may be left out.
    pub depth: NonZeroU32,
}

/// Chains of TRANSFERs: each begins at an output of amount 1 that a CREATE made, and hands it to and
/// fro between two parties.
///
/// Transaction `i` is in chain `i mod chains`, so all chains grow together and as much as possible
/// lies between a transaction and the one it spends: a node refuses to spend what is not committed
/// yet. Ids are a function of the seed, the number of chains and the index, whatever the number of
/// threads that make them.
#[derive(Debug)]
pub(super) struct Transfers {
    content: Content,
    pub(super) chains: Chains,
    pub(super) transactions: u64,
    /// The CREATEs that have to be committed before: one for each chain.
    pub(super) roots: Arc<Creates>,
    /// From the first party to the second, and back.
    steps: [TransferTemplate; 2],
    /// The ids of the CREATEs, then of the TRANSFERs, as far as they are known: 40 bytes each.
    ids: Box<[OnceLock<Id>]>,
}

impl Chains {
    /// As many chains of this depth as hold `transactions`.
    pub fn holding(transactions: NonZeroU64, depth: NonZeroU32) -> Self {
        let count = transactions.get().div_ceil(u64::from(depth.get()));
        Self {
            count: NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN),
            depth,
        }
    }
}

impl Transfers {
    pub(super) fn new(
        content: Content,
        transactions: NonZeroU64,
        depth: NonZeroU32,
    ) -> Result<Self, WorkloadError> {
        let chains = Chains::holding(transactions, depth);
        let transactions = transactions.get();
        if transactions > MAX_TRANSFERS {
            return Err(WorkloadError::Unusable(format!(
                "{transactions} TRANSFERs are more than the {MAX_TRANSFERS} whose ids can be kept; offer fewer"
            )));
        }
        let parties = ["first", "second"].map(|name| party(content.seed, name, content.signers));
        let keys = parties.each_ref().map(|party| public(party));
        let [first, second] = parties;
        let step = |owners, recipients: &[PublicKey]| {
            TransferTemplate::new(owners, recipients).map_err(|error| impossible(&error))
        };
        let steps = [step(first, &keys[1])?, step(second, &keys[0])?];
        let ids = chains.count.get() + transactions;
        Ok(Self {
            roots: Arc::new(Creates::new(content.clone(), "first")?),
            content,
            chains,
            transactions,
            steps,
            ids: (0..ids).map(|_| OnceLock::new()).collect(),
        })
    }

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
            None => *self.slot(known).get_or_init(|| {
                text.clear();
                self.roots.sign(known, text)
            }),
        };
        if known == place {
            return id;
        }
        let asset = self.id_at(place % chains, text);
        while known < place {
            known += chains;
            text.clear();
            let made = self.spend(known - chains, asset, id, text);
            id = *self.slot(known).get_or_init(|| made);
        }
        id
    }

    fn slot(&self, place: u64) -> &OnceLock<Id> {
        &self.ids[place as usize]
    }

    /// Signs TRANSFER `index`, which spends the only output of `spent`.
    fn spend(&self, index: u64, asset: Id, spent: Id, text: &mut String) -> Id {
        let chains = self.chains.count.get();
        // What goes alone spends a CREATE, as the first of a chain does.
        let is_alone = index >= self.transactions;
        let step = if is_alone { 0 } else { index / chains % 2 } as usize;
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

impl Sign for Transfers {
    fn sign(&self, index: u64, text: &mut String) -> Id {
        let chains = self.chains.count.get();
        if index >= self.transactions {
            let root = self.roots.sign(index, text);
            text.clear();
            return self.spend(index, root, root, text);
        }
        let asset = self.id_at(index % chains, text);
        let spent = self.id_at(index, text);
        text.clear();
        let id = self.spend(index, asset, spent, text);
        // Another thread that needed it has set the same.
        let _ = self.slot(chains + index).set(id);
        id
    }
}

/// Their ids are kept: 400 MB.
const MAX_TRANSFERS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use bigchain::{MemoryLedger, Transaction};

    use super::super::{BigchainWorkload, Metadata};
    use super::*;
    use chain::{Probe, TxStream, Workload as _};

    fn workload(transactions: u64, depth: u32, signers: u32) -> BigchainWorkload {
        let content = Content {
            seed: 9,
            signers: NonZeroU32::new(signers).unwrap(),
            asset_size: 3,
            metadata: Metadata::default(),
        };
        let count = NonZeroU64::new(transactions).unwrap();
        BigchainWorkload::transfers(content, count, NonZeroU32::new(depth).unwrap()).unwrap()
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
            let chains = workload.chains().unwrap().count.get();
            assert_eq!(chains, transactions.div_ceil(u64::from(depth)));
            let mut ledger = MemoryLedger::default();
            let mut commit = |tx: &[u8]| {
                let read = Transaction::from_text(tx).unwrap();
                read.validate(&ledger).unwrap();
                assert!(ledger.apply(&read));
            };
            for chain in 0..chains {
                commit(&text(
                    &mut *workload.preparation().unwrap().0.open().unwrap(),
                    chain,
                ));
            }
            for generator in 1..3 {
                let probe = Probe::default();
                let roots = workload.preparation().unwrap().0;
                for alone in [roots.as_ref(), &workload] {
                    let alone = alone.first_alone(&probe, generator).unwrap();
                    commit(&text(&mut *alone.open().unwrap(), 0));
                }
            }
            for index in 0..transactions {
                let tx = text(&mut *workload.open().unwrap(), index);
                assert_eq!(tx.len(), workload.largest());
                commit(&tx);
            }
        }
    }

    #[test]
    fn the_order_in_which_threads_make_them_changes_nothing() {
        let in_order: Vec<_> = {
            let workload = workload(30, 10, 1);
            (0..30)
                .map(|index| text(&mut *workload.open().unwrap(), index))
                .collect()
        };
        let backwards: Vec<_> = {
            let workload = workload(30, 10, 1);
            (0..30)
                .rev()
                .map(|index| text(&mut *workload.open().unwrap(), index))
                .collect()
        };
        assert!(in_order.iter().eq(backwards.iter().rev()));
    }
}
