//! How admitted writes end, in numbers.

use std::fmt;

/// How every admitted write ended; the sum is what was admitted, less what is still here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Writes taken into the queue.
    pub admitted: u64,
    /// Writes that were not taken.
    pub refused: u64,
    /// Answered by the node, with a result or an error, or taken over by the front.
    pub forwarded: u64,
    /// Pushed out of the queue by the bound on the bytes or entries of all clients.
    pub displaced: u64,
    /// Waited longer than the deadline.
    pub expired: u64,
    /// Their client left.
    pub cancelled: u64,
    /// Still here when the proxy stopped.
    pub lost: u64,
    /// Acknowledged before, and then not accepted by the node, or in no block: some of all of these.
    pub unkept: u64,
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {} writes taken {} were forwarded, {} displaced, {} expired, {} cancelled, {} lost \
             ({} acknowledged and not carried out); {} refused",
            self.admitted,
            self.forwarded,
            self.displaced,
            self.expired,
            self.cancelled,
            self.lost,
            self.unkept,
            self.refused
        )
    }
}
