//! TLS of the clients' listeners: files are read and checked whole before any of them is used.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio_rustls::rustls;

use crate::config::{CertificateFiles, Config};
use crate::files::{self, SettingError};

/// What new connections are encrypted with, if they are. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LiveTls(Arc<ArcSwapOption<ServerConfig>>);

impl LiveTls {
    /// A look at it, to keep for one handshake.
    pub(crate) fn current(&self) -> Option<Arc<ServerConfig>> {
        self.0.load_full()
    }

    /// From now on this one.
    pub(crate) fn follow(&self, config: Option<Arc<ServerConfig>>) {
        self.0.store(config);
    }
}

const CERTIFICATES: &str = "tls.certificates";
const CLIENT_CA: &str = "tls.client_ca";
/// A chain has some 5 KiB; a bundle of all public authorities has 200 KiB.
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Reads and checks all that `[tls]` names; none if it names no certificate. `now` is what a certificate has to be
/// valid at. Clients have to present a certificate of the authorities that are named; where a file of keys is named as
/// well, they may.
///
/// # Errors
/// The first file that cannot be used.
pub fn load(config: &Config, now: UnixTime) -> Result<Option<Arc<ServerConfig>>, SettingError> {
    let settings = &config.tls;
    if settings.certificates.is_empty() {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let pairs = settings.certificates.iter();
    let pairs: Result<Vec<_>, _> = pairs.map(|files| pair(files, now, &provider)).collect();
    let names = Names(pairs?);
    let of_library = |error: rustls::Error| SettingError::new(CERTIFICATES, "TLS", error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(of_library)?;
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(authorities(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            // Beside certificates, secrets and networks name clients then.
            let verifier = if config.keys.file.is_some() {
                verifier.allow_unauthenticated().build()
            } else {
                verifier.build()
            };
            let unusable = |error| SettingError::new(CLIENT_CA, file, error);
            builder.with_client_cert_verifier(verifier.map_err(unusable)?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(names));
    config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
    // A client keeps the ticket that resumes its session. Keys are new with each load, so that no client resumes a session
    // that other settings admitted.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new().map_err(of_library)?;
    Ok(Some(Arc::new(config)))
}

/// A chain of certificates and the key of the first one, which belong together and are valid.
fn pair(
    files: &CertificateFiles,
    now: UnixTime,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, SettingError> {
    let of_chain = |reason: String| SettingError::new(CERTIFICATES, &files.chain, reason);
    let chain = certificates(CERTIFICATES, &files.chain)?;
    let of_key = |reason: String| SettingError::new(CERTIFICATES, &files.key, reason);
    let key = PrivateKeyDer::from_pem_slice(&read(CERTIFICATES, &files.key)?)
        .map_err(|error| of_key(format!("no private key in PEM: {error}")))?;
    is_valid(&chain[0], now).map_err(of_chain)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => of_key(format!(
            "is not the private key of the first certificate in {}",
            files.chain
        )),
        error => of_key(error.to_string()),
    })
}

/// Whether a certificate can be read and is valid today. Clients judge its issuer.
fn is_valid(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    let parsed = ParsedCertificate::try_from(certificate);
    let parsed = parsed.map_err(|error| error.to_string())?;
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let roots = RootCertStore::empty();
    // The dates are checked before the issuer, which is unknown here.
    let verified =
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms.all);
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    match verified {
        Err(rustls::Error::InvalidCertificate(
            error @ (Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }),
        )) => Err(format!("{error}; renew it, or look at the clock")),
        _ => Ok(()),
    }
}

fn authorities(file: &str) -> Result<RootCertStore, SettingError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CLIENT_CA, file)? {
        roots
            .add(certificate)
            .map_err(|error| SettingError::new(CLIENT_CA, file, error))?;
    }
    Ok(roots)
}

/// At least one certificate.
fn certificates(
    key: &'static str,
    file: &str,
) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let text = read(key, file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| {
        SettingError::new(key, file, format_args!("no certificates in PEM: {error}"))
    })?;
    if all.is_empty() {
        Err(SettingError::new(key, file, "no certificate in PEM"))
    } else {
        Ok(all)
    }
}

fn read(key: &'static str, file: &str) -> Result<Vec<u8>, SettingError> {
    files::read(file, MOST_FILE_BYTES).map_err(|reason| SettingError::new(key, file, reason))
}

/// Certificates, each for the names that stand in it.
#[derive(Debug)]
struct Names(Vec<CertifiedKey>);

impl ResolvesServerCert for Names {
    /// The first one for the name that the client asks for; without a name, or with an unknown one, the first.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|pair| is_for(pair, &name)));
        named.or_else(|| self.0.first()).cloned().map(Arc::new)
    }
}

fn is_for(pair: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = pair.end_entity_cert().and_then(ParsedCertificate::try_from);
    certificate.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

#[cfg(test)]
mod tests;
