//! CREATEs as the original's benchmark sends them.

use std::sync::Arc;

use bigchain::CreateTemplate;
use bigchain::json::Object;

use super::super::{TxName, TxStream, WorkloadError};
use super::{Content, check, impossible, party};

/// CREATEs that differ in the UUID of their metadata.
#[derive(Debug, Clone)]
pub struct CreateWorkload(Arc<Made>);

#[derive(Debug)]
struct Made {
    content: Content,
    template: CreateTemplate,
    size: usize,
}

impl CreateWorkload {
    /// With asset data null, one signer and no metadata of one's own a transaction has the 765 bytes
    /// of BEP-23's benchmark.
    ///
    /// # Errors
    /// When there are more than 100 signers, the metadata is one that a BigchainDB refuses, or the
    /// transactions would be too large.
    pub fn new(content: Content) -> Result<Self, WorkloadError> {
        Self::signed_by(content, "signer")
    }

    pub(super) fn signed_by(content: Content, party_name: &str) -> Result<Self, WorkloadError> {
        let asset = (content.asset_size > 0)
            .then(|| Object::new().with("_", "x".repeat(content.asset_size)));
        let signers = party(content.seed, party_name, content.signers);
        let template = CreateTemplate::with_signers(signers, asset);
        let mut made = Made {
            template: template.map_err(|error| impossible(&error))?,
            content,
            size: 0,
        };
        let mut sample = String::new();
        made.sign(0, &mut sample);
        made.size = check(&sample)?;
        Ok(Self(Arc::new(made)))
    }

    /// The size of each transaction in bytes, in the original's default encoding.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// What they hold.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.0.content
    }

    /// The id of transaction `index`.
    pub(super) fn id(&self, index: u64, scratch: &mut String) -> bigchain::Id {
        scratch.clear();
        self.0.sign(index, scratch)
    }

    /// A stream of its transactions; any number may be open, on as many threads.
    #[must_use]
    pub fn open(&self) -> CreateStream {
        CreateStream {
            made: self.0.clone(),
            text: String::new(),
        }
    }
}

impl Made {
    fn sign(&self, index: u64, text: &mut String) -> bigchain::Id {
        let metadata = self.content.metadata.of(self.content.seed, index);
        self.template.sign(&metadata, text)
    }
}

/// Makes CREATEs one after the other.
#[derive(Debug)]
pub struct CreateStream {
    made: Arc<Made>,
    text: String,
}

impl TxStream for CreateStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        self.text.clear();
        let id = self.made.sign(index, &mut self.text);
        out.extend_from_slice(self.text.as_bytes());
        Ok(TxName::Known(id.0))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use bigchain::{MemoryLedger, Mode, Transaction};

    use super::super::Metadata;
    use super::*;

    fn workload(signers: u32, asset_size: usize, metadata: &str) -> CreateWorkload {
        CreateWorkload::new(Content {
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
            let mut stream = workload.open();
            let mut ledger = MemoryLedger::default();
            for index in 0..20 {
                let mut tx = Vec::new();
                let name = stream.write(index, &mut tx).unwrap();
                assert_eq!(tx.len(), workload.size());
                let read = Transaction::from_text(&tx, Mode::Strict).unwrap();
                assert_eq!(name, TxName::Known(read.id().0));
                read.validate(&ledger).unwrap();
                assert!(ledger.apply(&read), "each is new");
            }
        }
    }

    #[test]
    fn the_benchmark_s_create_has_its_765_bytes() {
        assert_eq!(workload(1, 0, "{}").size(), 765);
        assert_eq!(workload(1, 100, "{}").size(), 765 - 4 + 109);
    }

    #[test]
    fn what_a_node_refuses_is_refused_here() {
        let content = Content {
            seed: 5,
            signers: NonZeroU32::new(101).unwrap(),
            asset_size: 0,
            metadata: Metadata::default(),
        };
        let error = CreateWorkload::new(content.clone()).unwrap_err();
        assert!(matches!(error, WorkloadError::Signers { .. }));
        let content = Content {
            signers: NonZeroU32::MIN,
            metadata: Metadata::read("{\"$set\": 1}").unwrap(),
            ..content
        };
        let error = CreateWorkload::new(content).unwrap_err().to_string();
        assert!(error.contains("a BigchainDB refuses"), "{error}");
    }
}
