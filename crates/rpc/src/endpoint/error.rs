//! Why a text is not an endpoint, and what to write instead.

/// Why a text is not an endpoint.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// The text is empty.
    #[error("the endpoint is empty; write for example http://127.0.0.1:26657")]
    Empty,
    /// There is no `scheme://`.
    #[error("endpoint '{text}' has no scheme; write http://{text} or ws://{text}")]
    NoScheme {
        /// The text as given.
        text: String,
    },
    /// The scheme is not one of the five.
    #[error("endpoint '{text}' has the scheme '{scheme}'; use http, https, ws, wss or bitcoin-p2p")]
    Scheme {
        /// The text as given.
        text: String,
        /// What stands before `://`.
        scheme: String,
    },
    /// The host is missing or contains something that cannot be part of one.
    #[error("endpoint '{text}' has no usable host: {reason}")]
    Host {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The port is not a number from 1 to 65535.
    #[error("endpoint '{text}' has the port '{port}'; use a number from 1 to 65535")]
    Port {
        /// The text as given.
        text: String,
        /// What stands in the port's place.
        port: String,
    },
    /// Something the RPC has no use for: a user name, a query or a fragment.
    #[error("endpoint '{text}' contains {what}, which is not supported; leave it out")]
    Unsupported {
        /// The text as given.
        text: String,
        /// Which part.
        what: &'static str,
    },
    /// Not the name of a transport.
    #[error("'{text}' is not a transport; use http or ws")]
    Transport {
        /// The text as given.
        text: String,
    },
}
