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
