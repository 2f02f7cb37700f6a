//! The bounds of a connection, and the certificates that it trusts.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

base::settings! {
    /// Limits and trust of a [`Connection`](super::Connection).
    #[derive(Clone, Debug)]
    pub struct ConnectionOptions {
        /// Bytes the read buffer starts with and returns to. Choose at least a few answers' worth: a
        /// buffer that is full after a read costs one more system call. Default 16 KiB.
        pub read_buffer_bytes: usize = 16 << 10,
        /// The longest response head, trailers and upgrade answer included. Default 64 KiB.
        pub max_head_bytes: usize = 64 << 10,
        /// The longest message. Answers to `sync` have some 300 bytes, those to `commit` carry the
        /// events of a transaction. Default 16 MiB.
        pub max_message_bytes: usize = 16 << 20,
        /// Whose certificates are accepted for `https` and `wss`.
        pub trust: Trust = Trust::native(),
        /// The local address to connect from, of the node's address family. Default: the system's
        /// choice.
        pub source: Option<IpAddr> = None,
        /// Whether the kernel stamps when an answer's bytes came, however late they are read. Not through
        /// TLS. Default: no.
        pub arrival_stamps: bool = false,
        /// Whether each message is the path of a GET, and not the body of a POST. Over HTTP only. Default: no.
        pub gets: bool = false,
        /// The path, with its query, that requests are posted to over HTTP; the endpoint's when `None`.
        pub path: Option<String> = None,
    }
}

/// The certificate authorities that may vouch for a node. Cheap to clone; the roots are loaded
/// when the first encrypted connection needs them, once.
#[derive(Clone)]
pub struct Trust {
    native: bool,
    extra: Arc<Vec<CertificateDer<'static>>>,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// Why the trusted roots cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TrustError {
    /// The given text holds no certificate.
    #[error("no certificate in the given PEM text: {0}")]
    Pem(String),
    /// The system has no roots.
    #[error("no trusted roots found on this system: {0}; install them or name a root certificate")]
    NoRoots(String),
    /// The TLS library refused the settings.
    #[error("TLS cannot be set up: {0}")]
    Config(String),
}

impl Trust {
    /// The roots of the operating system.
    pub fn native() -> Self {
        Self {
            native: true,
            extra: Arc::default(),
            config: Arc::default(),
        }
    }

    /// These roots and no other: PEM text of one or more certificates.
    ///
    /// # Errors
    /// [`TrustError::Pem`] when the text holds none.
    pub fn only(pem: &[u8]) -> Result<Self, TrustError> {
        let extra = certificates(pem)?;
        Ok(Self {
            native: false,
            extra: Arc::new(extra),
            config: Arc::default(),
        })
    }

    /// The roots of the operating system and these.
    ///
    /// # Errors
    /// [`TrustError::Pem`] when the text holds none.
    pub fn native_and(pem: &[u8]) -> Result<Self, TrustError> {
        Ok(Self {
            native: true,
            ..Self::only(pem)?
        })
    }

    /// The TLS configuration, built on first use. It negotiates no application protocol.
    ///
    /// # Errors
    /// [`TrustError`] when there are no roots.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let config = client_config(self.roots()?)?;
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }

    /// The same for `reqwest`, which wants one even where TLS is not spoken: of no roots then, so that none are loaded.
    ///
    /// # Errors
    /// Those of [`client_config`](Self::client_config).
    pub fn for_reqwest(&self, is_spoken: bool) -> Result<ClientConfig, TrustError> {
        if is_spoken {
            return self.client_config().map(Arc::unwrap_or_clone);
        }
        client_config(RootCertStore::empty())
    }

    fn roots(&self) -> Result<RootCertStore, TrustError> {
        let mut store = RootCertStore::empty();
        let mut problem = String::from("the store is empty");
        if self.native {
            let loaded = rustls_native_certs::load_native_certs();
            if let Some(error) = loaded.errors.first() {
                problem = error.to_string();
            }
            store.add_parsable_certificates(loaded.certs);
        }
        for root in self.extra.iter() {
            store
                .add(root.clone())
                .map_err(|error| TrustError::Pem(error.to_string()))?;
        }
        if store.is_empty() {
            Err(TrustError::NoRoots(problem))
        } else {
            Ok(store)
        }
    }
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Config(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("native", &self.native)
            .field("extra", &self.extra.len())
            .finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(TrustError::Pem("it has no CERTIFICATE section".into())),
        Err(error) => Err(TrustError::Pem(error.to_string())),
    }
}
