//! CREATEs as the original's benchmark sends them, and chains of TRANSFERs over outputs that CREATEs made before.

use std::sync::{Arc, OnceLock};

use bigchain::{CreateTemplate, Id, KeyPair, Link, PublicKey, TransferTemplate};

use super::{Content, Sign, impossible, party};
use bigchain::json::Object;
use chain::{Chains, WorkloadError};

/// Chains of TRANSFERs: each begins at an output of amount 1 that a CREATE of the first party made, and hands it to and
/// fro between two parties; over a conflict in the chain a party may hand it to itself. So a signature needs no more
/// of the chain than the link before.
///
/// Transaction `i` is in chain `i mod chains`, so all chains grow together and as much as possible
/// lies between a transaction and the one it spends: a node refuses to spend what is not committed
/// yet. A conflict spends what an earlier TRANSFER spends, and nothing spends its output. Ids are a function of the
/// seed, the chains and the index, whatever the number of threads that make them.
#[derive(Debug)]
pub(super) struct Transfers {
    content: Content,
    pub(super) chains: Chains,
    /// The CREATEs that have to be committed before: one for each chain.
    pub(super) roots: Arc<Creates>,
    /// By owner before, then owner after.
    steps: [[TransferTemplate; 2]; 2],
    /// The ids of the CREATEs, then of the TRANSFERs, as far as they are known: 40 bytes each.
    ids: Box<[OnceLock<Id>]>,
}

impl Transfers {
    pub(super) fn new(content: Content, chains: Chains) -> Result<Self, WorkloadError> {
        let transactions = chains.transactions();
        if transactions > MAX_TRANSFERS {
            return Err(WorkloadError::Unusable(format!(
                "{transactions} TRANSFERs are more than the {MAX_TRANSFERS} whose ids can be kept; offer fewer"
            )));
        }
        let party = |name| party(content.seed, name, content.signers);
        let [first, second] = ["first", "second"].map(party);
        let step = |owners: &[KeyPair], recipients: &[KeyPair]| {
            TransferTemplate::new(owners.to_vec(), &public(recipients))
                .map_err(|error| impossible(&error))
        };
        let steps_of = |owners: &[KeyPair]| -> Result<_, WorkloadError> {
            Ok([step(owners, &first)?, step(owners, &second)?])
        };
        let steps = [steps_of(&first)?, steps_of(&second)?];
        let ids = chains.count() + transactions;
        Ok(Self {
            roots: Arc::new(Creates::new(content.clone(), "first")?),
            content,
            chains,
            steps,
            ids: (0..ids).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The id of what a link spends: of the link before it, or of the CREATE that its chain begins with. What is not
    /// known yet is made first, in the order of the chain; two threads that need the same make the same.
    fn spent_by(&self, link: u64, text: &mut String) -> Id {
        let mut unknown = Vec::new();
        let mut at = link;
        let mut id = loop {
            let Some(previous) = self.chains.previous(at) else {
                break self.asset(link, text);
            };
            if let Some(id) = self.slot(previous).get() {
                break *id;
            }
            unknown.push(previous);
            at = previous;
        };
        for link in unknown.into_iter().rev() {
            let asset = self.asset(link, text);
            text.clear();
            let made = self.spend(link, self.step(link), asset, id, text);
            id = *self.slot(link).get_or_init(|| made);
        }
        id
    }

    /// The id of the CREATE that the chain of an index begins with.
    fn asset(&self, index: u64, text: &mut String) -> Id {
        let chain = self.chains.chain(index);
        *self.ids[chain as usize].get_or_init(|| {
            text.clear();
            self.roots.sign(chain, text)
        })
    }

    /// Where the id of a TRANSFER is kept: after those of the CREATEs.
    fn slot(&self, index: u64) -> &OnceLock<Id> {
        &self.ids[(self.chains.count() + index) as usize]
    }

    /// The owners before and after at a link of a chain.
    fn step(&self, link: u64) -> &TransferTemplate {
        let recipient = |link: u64| (link / self.chains.count() + 1) % 2;
        let owner = self.chains.previous(link).map_or(0, recipient);
        &self.steps[owner as usize][recipient(link) as usize]
    }

    /// Signs TRANSFER `index`, which spends the only output of `spent`.
    fn spend(
        &self,
        index: u64,
        step: &TransferTemplate,
        asset: Id,
        spent: Id,
        text: &mut String,
    ) -> Id {
        let spent = Link {
            transaction_id: spent.to_string(),
            output_index: 0,
        };
        // The CREATEs have the indices from zero.
        let metadata = &self.content.metadata;
        let metadata = metadata.of(self.content.seed, self.chains.count() + index);
        step.sign(asset, &spent, &metadata, text)
    }
}

fn public(party: &[KeyPair]) -> Vec<PublicKey> {
    party.iter().map(KeyPair::public).collect()
}

impl Sign for Transfers {
    fn sign(&self, index: u64, text: &mut String) -> Id {
        if index >= self.chains.transactions() {
            // What goes alone spends a CREATE, as the first of a chain does.
            let root = self.roots.sign(index, text);
            text.clear();
            return self.spend(index, &self.steps[0][1], root, root, text);
        }
        let link = self.chains.spends_as(index).unwrap_or(index);
        let asset = self.asset(link, text);
        let spent = self.spent_by(link, text);
        text.clear();
        let id = self.spend(index, self.step(link), asset, spent, text);
        // Another thread that needed it has set the same.
        let _ = self.slot(index).set(id);
        id
    }
}

/// Their ids are kept: 400 MB.
const MAX_TRANSFERS: u64 = 10_000_000;

/// CREATEs that differ in the UUID of their metadata.
#[derive(Debug)]
pub(super) struct Creates {
    content: Content,
    template: CreateTemplate,
}

impl Creates {
    pub(super) fn new(content: Content, party_name: &str) -> Result<Self, WorkloadError> {
        let asset = (content.asset_size > 0)
            .then(|| Object::new().with("_", "x".repeat(content.asset_size)));
        let signers = party(content.seed, party_name, content.signers);
        let template = CreateTemplate::with_signers(signers, asset);
        Ok(Self {
            template: template.map_err(|error| impossible(&error))?,
            content,
        })
    }
}

impl Sign for Creates {
    fn sign(&self, index: u64, text: &mut String) -> Id {
        let metadata = self.content.metadata.of(self.content.seed, index);
        self.template.sign(&metadata, text)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use bigchain::{MemoryLedger, Transaction};

    use super::super::{BigchainWorkload, Metadata};
    use super::*;
    use chain::{ChainDepth, Chaining, Probe, Role, TxName, TxStream, Workload as _};

    fn workload(transactions: u64, depth: u32, signers: u32, conflicts: f64) -> BigchainWorkload {
        let content = Content {
            seed: 9,
            signers: NonZeroU32::new(signers).unwrap(),
            asset_size: 3,
            metadata: Metadata::default(),
        };
        let chaining = Chaining {
            seed: 9,
            depth: ChainDepth::all(NonZeroU32::new(depth).unwrap()),
            conflicts,
            orphans: 0.0,
            generators: 1,
        };
        let chains = Chains::new(transactions, chaining).unwrap();
        BigchainWorkload::transfers(content, chains).unwrap()
    }

    fn text(stream: &mut dyn TxStream, index: u64) -> Vec<u8> {
        let mut tx = Vec::new();
        stream.write(index, &mut tx).unwrap();
        tx
    }

    #[test]
    fn chains_are_valid_from_their_creates_to_their_ends() {
        for (transactions, depth, signers) in [(10, 3, 1), (5, 1, 2), (6, 6, 1)] {
            let workload = workload(transactions, depth, signers, 0.0);
            let chains = workload.chains().unwrap().count();
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
    fn a_chain_goes_on_over_its_conflicts_which_are_double_spends() {
        // Some begin with a conflict, and some have several in a row.
        for (depth, share) in [(1, 0.3), (10, 0.3), (200, 0.3), (40, 0.8)] {
            let workload = workload(200, depth, 1, share);
            let chains = workload.chains().unwrap();
            let mut ledger = MemoryLedger::default();
            let (roots, count) = workload.preparation().unwrap();
            let commit = |ledger: &mut MemoryLedger, tx: &[u8]| {
                let read = Transaction::from_text(tx).unwrap();
                read.validate(ledger).map(|()| ledger.apply(&read)).is_ok()
            };
            let mut roots = roots.open().unwrap();
            assert!((0..count).all(|chain| commit(&mut ledger, &text(&mut *roots, chain))));
            let mut stream = workload.open().unwrap();
            let mut conflicts = 0;
            for index in 0..200 {
                let is_link = chains.role(index) == Role::Link;
                conflicts += u32::from(!is_link);
                let is_taken = commit(&mut ledger, &text(&mut *stream, index));
                assert_eq!(is_taken, is_link, "{index}");
            }
            assert!(conflicts > 30, "{conflicts}");
        }
    }

    #[test]
    fn the_order_in_which_threads_make_them_changes_nothing() {
        let in_order: Vec<_> = {
            let workload = workload(30, 10, 1, 0.2);
            (0..30)
                .map(|index| text(&mut *workload.open().unwrap(), index))
                .collect()
        };
        let backwards: Vec<_> = {
            let workload = workload(30, 10, 1, 0.2);
            (0..30)
                .rev()
                .map(|index| text(&mut *workload.open().unwrap(), index))
                .collect()
        };
        assert!(in_order.iter().eq(backwards.iter().rev()));
    }

    fn creates(signers: u32, asset_size: usize, metadata: &str) -> BigchainWorkload {
        BigchainWorkload::creates(Content {
            seed: 5,
            signers: NonZeroU32::new(signers).unwrap(),
            asset_size,
            metadata: Metadata::read(metadata).unwrap(),
        })
        .unwrap()
    }

    #[test]
    fn every_create_is_valid_and_has_the_size_that_was_said() {
        for (signers, asset, metadata) in [
            (1, 0, "{}"),
            (3, 10, "{\"planet\": \"\\u00e9arth\", \"n\": 1.50}"),
        ] {
            let workload = creates(signers, asset, metadata);
            let mut stream = workload.open().unwrap();
            let mut ledger = MemoryLedger::default();
            for index in 0..20 {
                let mut tx = Vec::new();
                let name = stream.write(index, &mut tx).unwrap();
                assert_eq!(tx.len(), workload.largest());
                let read = Transaction::from_text(&tx).unwrap();
                assert_eq!(name, TxName::Known(read.id().0));
                read.validate(&ledger).unwrap();
                assert!(ledger.apply(&read), "each is new");
            }
        }
    }

    #[test]
    fn the_benchmark_s_create_has_its_765_bytes() {
        assert_eq!(creates(1, 0, "{}").largest(), 765);
        assert_eq!(creates(1, 100, "{}").largest(), 765 - 4 + 109);
    }

    #[test]
    fn what_a_node_refuses_is_refused_here() {
        let content = Content {
            seed: 5,
            signers: NonZeroU32::new(101).unwrap(),
            asset_size: 0,
            metadata: Metadata::default(),
        };
        let error = BigchainWorkload::creates(content.clone())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("--signers: "), "{error}");
        let content = Content {
            signers: NonZeroU32::MIN,
            metadata: Metadata::read("{\"$set\": 1}").unwrap(),
            ..content
        };
        let error = BigchainWorkload::creates(content).unwrap_err().to_string();
        assert!(error.contains("a BigchainDB refuses"), "{error}");
    }
}
