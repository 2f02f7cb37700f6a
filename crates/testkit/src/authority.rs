//! A certificate authority of a test's own, and clients that trust it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Issues certificates for servers and clients.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate in PEM.
    pub pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// The first and last year in which a certificate is valid, unless a test says otherwise.
const YEARS: [i32; 2] = [2000, 4000];

impl Default for Authority {
    fn default() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of a test");
        let key = KeyPair::generate().expect("the library makes keys");
        let certificate = params.self_signed(&key).expect("these fields are legal");
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }
}

impl Authority {
    /// A certificate for these names, valid now.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_for(names, YEARS)
    }

    /// A certificate that is valid from the beginning of one year to the beginning of another.
    ///
    /// # Panics
    /// When a name is no name.
    pub fn issue_for(&self, names: &[&str], [from, to]: [i32; 2]) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of hosts");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().expect("the library makes keys");
        let certificate = params.signed_by(&key, &self.issuer);
        Issued {
            certificate: certificate.expect("these fields are legal").pem(),
            key: key.serialize_pem(),
        }
    }

    /// What a client goes by that trusts this authority alone, presents a certificate if it has one, and speaks
    /// `protocols` (ALPN).
    ///
    /// # Panics
    /// When the certificate is not one.
    pub fn client(&self, own: Option<&Issued>, protocols: &[&str]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate())
            .expect("it is an authority's certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the usual ciphers")
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(vec![own.der()], own.key_der())
                .expect("the pair belongs together"),
        };
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        config
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("it was made here")
    }
}

impl Issued {
    /// The certificate as it is sent.
    ///
    /// # Panics
    /// When the field was replaced by something else.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("it was made here")
    }

    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("it was made here")
    }
}
