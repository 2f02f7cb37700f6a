//! Clients that are known by a key, whatever their address: a secret that a request carries, or a certificate.
//!
//! A file names them, with the hashes of their secrets. Each is one client with an identity of its own in a part of
//! IPv6 that no host has an address in, so that shares, bounds and bans know it as they know networks.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};

use fairq::{ClientKey, KeyScheme, Network, Weight};
use pacing::Rate;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::files::{self, SettingError};
use crate::refusal::{Reason, Refusal};

/// The clients that a file names, and where requests carry their secrets. The default has no clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownKeys {
    /// In lower case; empty for none.
    header: String,
    /// Empty for none.
    query: String,
    hashes: Vec<(Kind, Hash, ClientKey)>,
    rules: HashMap<ClientKey, Rules>,
}

/// What of a key is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Secret,
    Certificate,
}

/// SHA-256.
type Hash = [u8; 32];

/// What a known client may do.
#[derive(Clone, Debug, PartialEq)]
struct Rules {
    weight: Weight,
    reads: Option<Rate>,
    /// None for all that others may.
    methods: Vec<String>,
}

/// Each request that carries a secret is compared with all: some 10 µs.
const MOST_KEYS: usize = 1_000;
/// The header that carries secrets, unless the file names another.
const HEADER: &str = "x-api-key";
/// Keys of some 200 bytes each, and comments.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// The first byte of the addresses that stand for keys: of 0400::/6, which is unassigned
/// (IANA, Internet Protocol Version 6 Address Space).
const PREFIX: u8 = 0x04;
/// Bits of such an address that tell keys apart, the first byte included: what is bounded for an IPv6 /48 is bounded
/// for each of them.
const KEY_BITS: u8 = 48;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The header that carries secrets.
    header: Option<String>,
    /// The parameter of the query that may carry them too.
    query: Option<String>,
    #[serde(default)]
    keys: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    secret_sha256: Option<String>,
    certificate_sha256: Option<String>,
    weight: Option<u32>,
    reads_per_second: Option<u64>,
    #[serde(default)]
    methods: Vec<String>,
}

impl KnownKeys {
    /// Reads and checks the file of keys, if there is one.
    ///
    /// # Errors
    /// The first thing in it that is wrong.
    pub fn load(file: Option<&str>) -> Result<Self, SettingError> {
        let Some(file) = file else {
            return Ok(Self::default());
        };
        let wrong = |reason: String| SettingError::new("keys.file", file, reason);
        let text = files::read(file, MOST_FILE_BYTES).map_err(wrong)?;
        let text = String::from_utf8(text).map_err(|_| wrong("not UTF-8".to_owned()))?;
        let document: Document = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if document.keys.len() > MOST_KEYS {
            return Err(wrong(format!("more than {MOST_KEYS} keys")));
        }
        let header = document.header.unwrap_or_else(|| HEADER.to_owned());
        let mut known = Self {
            header: header.to_ascii_lowercase(),
            query: document.query.unwrap_or_default(),
            ..Self::default()
        };
        for entry in document.keys {
            let name = entry.name.clone();
            let added = known.add(entry);
            added.map_err(|reason| wrong(format!("the key {name:?}: {reason}")))?;
        }
        Ok(known)
    }

    fn add(&mut self, entry: Entry) -> Result<(), String> {
        let (kind, hash) = match (&entry.secret_sha256, &entry.certificate_sha256) {
            (Some(secret), None) => (Kind::Secret, secret),
            (None, Some(certificate)) => (Kind::Certificate, certificate),
            _ => return Err("give secret_sha256 or certificate_sha256".to_owned()),
        };
        let digits = hash.replace(':', "");
        let hash = wire::encoding::decode_hash(digits.as_bytes());
        let hash = hash.ok_or("a SHA-256 has 64 hexadecimal digits")?;
        let weight = entry.weight.map_or(Ok(Weight::ONE), Weight::new);
        let reads = entry.reads_per_second.map(rate).transpose()?;
        let rules = Rules {
            weight: weight.map_err(|error| error.to_string())?,
            reads,
            methods: entry.methods,
        };
        let client = client_of(&hash);
        if self.rules.insert(client, rules).is_some() {
            return Err("another key has this hash; make a new secret".to_owned());
        }
        self.hashes.push((kind, hash, client));
        Ok(())
    }

    /// Whether no key is known.
    pub(crate) const fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The header that carries a secret, in lower case.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// Whether a header carries a secret.
    pub(crate) fn is_header(&self, name: &str) -> bool {
        !self.is_empty() && name.eq_ignore_ascii_case(&self.header)
    }

    /// The client whose secret a request carries, in a header or else in its target; none if it carries no secret.
    ///
    /// # Errors
    /// No key has this secret.
    pub(crate) fn client(
        &self,
        header: Option<&[u8]>,
        target: &[u8],
    ) -> Result<Option<ClientKey>, Refusal> {
        let Some(secret) = header.or_else(|| self.in_target(target)) else {
            return Ok(None);
        };
        let found = self.find(Kind::Secret, secret);
        let unknown = || Refusal::new(Reason::Denied, "this key is not known here");
        found.map(Some).ok_or_else(unknown)
    }

    /// The client that has this certificate.
    pub(crate) fn of_certificate(&self, der: &[u8]) -> Option<ClientKey> {
        self.find(Kind::Certificate, der)
    }

    /// Looks at all of them, and at all bytes, so that no time tells how much of a guess was right.
    fn find(&self, kind: Kind, presented: &[u8]) -> Option<ClientKey> {
        let presented: Hash = Sha256::digest(presented).into();
        let mut found = None;
        for (of, hash, client) in &self.hashes {
            let pairs = hash.iter().zip(&presented);
            let differences = pairs.fold(0, |all, (one, other)| all | black_box(one ^ other));
            if differences == 0 && *of == kind {
                found = Some(*client);
            }
        }
        found
    }

    /// The secret in the query of a target.
    fn in_target<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        if self.is_empty() || self.query.is_empty() {
            return None;
        }
        let (_, query) = split_once(target, b'?')?;
        let parameters = query.split(|byte| *byte == b'&');
        parameters
            .filter_map(|parameter| self.value(parameter))
            .next()
    }

    fn value<'t>(&self, parameter: &'t [u8]) -> Option<&'t [u8]> {
        let (name, value) = split_once(parameter, b'=')?;
        (name == self.query.as_bytes()).then_some(value)
    }

    /// The target without secrets, as the node gets it; none if it has none.
    pub(crate) fn without_secret(&self, target: &[u8]) -> Option<Vec<u8>> {
        self.in_target(target)?;
        let (path, query) = split_once(target, b'?')?;
        let kept = query.split(|byte| *byte == b'&');
        let kept: Vec<&[u8]> = kept.filter(|one| self.value(one).is_none()).collect();
        let query = kept.join(&b'&');
        Some(if query.is_empty() {
            path.to_vec()
        } else {
            [path, &query].join(&b'?')
        })
    }

    /// Whether a client may call a method, or the path of gRPC or REST; networks may call what the lanes allow.
    ///
    /// # Errors
    /// Its key does not allow it.
    pub(crate) fn check_method(&self, client: ClientKey, method: &str) -> Result<(), Refusal> {
        let Some(rules) = self.rules.get(&client) else {
            return Ok(());
        };
        let is_allowed = rules.methods.is_empty() || is_listed(&rules.methods, method);
        let refusal = || Refusal::new(Reason::Method, "this key may not call this method");
        is_allowed.then_some(()).ok_or_else(refusal)
    }

    /// Weights of known clients.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (Network, Weight)> {
        let rules = self.rules.iter();
        rules.map(|(client, rules)| (client.network(), rules.weight))
    }

    /// Rates of reads of known clients that have one of their own.
    pub(crate) fn read_rates(&self) -> impl Iterator<Item = (ClientKey, Rate)> {
        let rules = self.rules.iter();
        rules.filter_map(|(client, rules)| Some((*client, rules.reads?)))
    }
}

/// Whether an address stands for a key: no host has it.
pub(crate) fn is_reserved(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.octets()[0] == PREFIX)
}

/// Of the hash, so that it stays the same wherever the key stands in the file.
fn client_of(hash: &Hash) -> ClientKey {
    let mut octets = [0; 16];
    octets[0] = PREFIX;
    octets[1..6].copy_from_slice(&hash[..5]);
    let scheme = KeyScheme::new(32, KEY_BITS).expect("48 bits are less than an address has");
    scheme.key(Ipv6Addr::from(octets).into())
}

fn rate(per_second: u64) -> Result<Rate, String> {
    let rate = Rate::per_second(per_second).map_err(|error| error.to_string())?;
    if rate > Rate::ZERO {
        Ok(rate)
    } else {
        Err("reads_per_second = 0 would let nothing through".to_owned())
    }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(at, bytes)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// Whether a list has this method; a trailing `*` of an entry stands for any rest.
pub(crate) fn is_listed(methods: &[String], method: &str) -> bool {
    let fits = |entry: &String| match entry.strip_suffix('*') {
        Some(start) => method.starts_with(start),
        None => method == entry,
    };
    methods.iter().any(fits)
}

#[cfg(test)]
mod tests;
