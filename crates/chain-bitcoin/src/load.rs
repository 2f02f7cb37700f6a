//! The wallet's transactions as a workload: made ahead, and supplied with coins.

use chain::{ChainError, Families, Supplied, Supply, TxStream, Workload, WorkloadError};

use crate::supply::supply;
use crate::workload::BitcoinWorkload;

impl Workload for BitcoinWorkload {
    fn count(&self) -> Option<u64> {
        Some(self.transactions())
    }

    fn largest(&self) -> usize {
        self.size()
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(self.stream()))
    }

    fn is_signed(&self) -> bool {
        true
    }

    fn has_chains(&self) -> bool {
        true
    }

    fn families(&self) -> Option<Families> {
        let load = self.clone();
        let of = move |index| load.family(index);
        Some(Families::new(self.families_count(), of))
    }

    fn supply(&self, with: Supply<'_>) -> Result<Option<Box<dyn Supplied>>, ChainError> {
        supply(self, with).map(Some)
    }

    fn document(&self) -> Option<serde_json::Value> {
        let spec = self.spec();
        Some(serde_json::json!({
            "transactions": self.transactions(),
            "shape": spec.shape.to_string(),
            "depth": spec.depth,
            "conflicts": spec.conflicts,
            "orphans": spec.orphans,
            "fee_rate": spec.fee_rate,
        }))
    }
}
