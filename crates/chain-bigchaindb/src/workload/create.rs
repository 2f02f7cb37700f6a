//! CREATEs as the original's benchmark sends them.

use bigchain::json::Object;
use bigchain::{CreateTemplate, Id};

use super::{Content, Sign, impossible, party};
use chain::WorkloadError;

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
    use chain::{TxName, Workload as _};

    fn workload(signers: u32, asset_size: usize, metadata: &str) -> BigchainWorkload {
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
            let workload = workload(signers, asset, metadata);
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
        assert_eq!(workload(1, 0, "{}").largest(), 765);
        assert_eq!(workload(1, 100, "{}").largest(), 765 - 4 + 109);
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
