//! Files that are right, and wrong in every way that a disk has them.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use testkit::{Authority, Issued};

use super::*;

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn pair(&self, name: &str, issued: &Issued) -> CertificateFiles {
        CertificateFiles {
            chain: self.write(&format!("{name}.pem"), &issued.certificate),
            key: self.write(&format!("{name}.key"), &issued.key),
        }
    }
}

fn settings(pairs: impl IntoIterator<Item = CertificateFiles>) -> Config {
    let mut config = Config::default();
    config.tls.certificates.extend(pairs);
    config
}

#[test]
fn tls_33_without_certificates_there_is_no_tls() {
    let mut settings = Config::default();
    settings.tls.client_ca = Some("/nowhere".to_owned());
    assert!(load(&settings, UnixTime::now()).unwrap().is_none());
}

#[test]
fn tls_33_a_pair_is_taken_from_two_files_or_from_one() {
    let (files, issued) = (Files::new(), Authority::default().issue(&["a.example"]));
    let two = files.pair("two", &issued);
    let one = files.write("one.pem", issued.key + &issued.certificate);
    let one = CertificateFiles {
        chain: one.clone(),
        key: one,
    };
    let config = load(&settings([two, one]), UnixTime::now()).unwrap();
    assert_eq!(config.unwrap().alpn_protocols, [&b"h2"[..], b"http/1.1"]);
}

/// Each fault names its setting, its file and what is wrong with it.
#[test]
fn tls_33_a_pair_that_no_client_would_accept_is_refused_with_words() {
    let (files, authority) = (Files::new(), Authority::default());
    let good = files.pair("good", &authority.issue(&["a.example"]));
    let other = files.pair("other", &authority.issue(&["a.example"]));
    let of_past = files.pair("past", &authority.issue_for(&["a.example"], [2000, 2001]));
    let of_future = files.pair("future", &authority.issue_for(&["a.example"], [3000, 3001]));
    let with = |chain: &str, key: &str| CertificateFiles {
        chain: chain.to_owned(),
        key: key.to_owned(),
    };
    let empty = files.write("empty.pem", "");
    let text = files.write("text.pem", "-----BEGIN CERTIFICATE-----\nnot base64!\n");
    let bytes = files.write(
        "bytes.pem",
        "-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n",
    );
    let large = files.write("large.pem", vec![b'x'; (1 << 20) + 1]);
    let cases = [
        (
            with(&good.chain, &other.key),
            "other.key",
            "not the private key",
        ),
        (of_past, "past.pem", "expired"),
        (of_future, "future.pem", "not valid yet"),
        (
            with("/nowhere/a.pem", &good.key),
            "/nowhere/a.pem",
            "No such file",
        ),
        (
            with(&good.chain, "/nowhere/a.key"),
            "/nowhere/a.key",
            "No such file",
        ),
        (
            with(&good.key, &good.key),
            "good.key",
            "no certificate in PEM",
        ),
        (
            with(&good.chain, &good.chain),
            "good.pem",
            "no private key in PEM",
        ),
        (
            with(&empty, &good.key),
            "empty.pem",
            "no certificate in PEM",
        ),
        (with(&text, &good.key), "text.pem", "no certificates in PEM"),
        (with(&bytes, &good.key), "bytes.pem", "BadEncoding"),
        (with(&large, &good.key), "large.pem", "larger than 1 MiB"),
    ];
    for (pair, file, reason) in cases {
        // Behind one that is right.
        let error = load(&settings([good.clone(), pair]), UnixTime::now()).unwrap_err();
        let text = error.to_string();
        assert!(
            error.key == CERTIFICATES && error.value.ends_with(file) && text.contains(reason),
            "{file}, {reason}: {text}"
        );
    }
}

#[test]
fn tls_33_authorities_of_clients_are_certificates() {
    let (files, authority) = (Files::new(), Authority::default());
    let good = files.pair("good", &authority.issue(&["a.example"]));
    let with = |text: &str| {
        let mut settings = settings([good.clone()]);
        settings.tls.client_ca = Some(files.write("authorities.pem", text));
        settings
    };
    assert!(load(&with(&authority.pem), UnixTime::now()).is_ok());
    let error = load(&with("nothing"), UnixTime::now()).unwrap_err();
    assert_eq!(
        (error.key, error.reason.as_str()),
        (CLIENT_CA, "no certificate in PEM")
    );
}
