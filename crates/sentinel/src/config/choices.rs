//! Settings that are one of a few words, or a few words.

/// Which writes stay in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    /// Those of a connection.
    Connection,
    /// All of a client.
    Client,
    /// Those of a connection, and those of a Cosmos SDK's account, over whichever connections and clients.
    Account,
}

/// When a `broadcast_tx_async` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncAck {
    /// When it was admitted, with the hash computed here: the default.
    Buffered,
    /// When the node has answered.
    Forwarded,
}

/// A chain of certificates and its key, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then those of its issuers.
    pub chain: String,
    /// Its private key; may be the same file.
    pub key: String,
}

/// Threads that serve clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(Option<usize>);

impl Threads {
    /// The cores that this process may use, less one, and one at least: the nodes are watched, and the operator is
    /// served, by a thread beside these.
    pub const AUTO: Self = Self(None);

    /// So many, 1 to 64.
    pub fn new(threads: usize) -> Option<Self> {
        (1..=64).contains(&threads).then_some(Self(Some(threads)))
    }

    /// The number that was set.
    pub(super) const fn given(self) -> Option<usize> {
        self.0
    }

    /// How many these are on this machine.
    pub fn count(self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.0
            .unwrap_or_else(|| cores().saturating_sub(1).clamp(1, 64))
    }
}
