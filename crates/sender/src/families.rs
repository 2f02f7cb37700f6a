//! Transactions that have to go to the same node, because they spend what one of them makes or spends.

use std::fmt;
use std::sync::Arc;

/// The families of a load. A node takes a transaction only where it knows what that spends, and it hears from other
/// nodes of a parent later than it could be sent the child.
#[derive(Clone)]
pub struct Families {
    count: u64,
    of: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Families {
    /// So many families, and which of them, from 0 on, a transaction is in by its index.
    pub fn new(count: u64, of: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self {
            count,
            of: Arc::new(of),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The family of a transaction.
    pub fn of(&self, index: u64) -> u64 {
        (self.of)(index)
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families = f.debug_struct("Families");
        families.field("count", &self.count).finish_non_exhaustive()
    }
}
