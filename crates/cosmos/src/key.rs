//! Keys: one for each account, from a seed or from a mnemonic.

use std::fmt;

use bip39::{Language, Mnemonic};
use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, DerivationPath, Xpriv};
use bitcoin::secp256k1::{Secp256k1, SecretKey, SignOnly};
use sha2::{Digest, Sha256};

use crate::{Address, Error, PublicKey};

/// The key of one account.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub(crate) secret: SecretKey,
    public: PublicKey,
}

/// Keys without end, numbered from 0.
#[derive(Clone)]
pub struct Keys {
    source: Source,
    secp: Secp256k1<SignOnly>,
}

#[derive(Clone)]
enum Source {
    Seed(u64),
    /// The node above the accounts.
    Mnemonic(Box<Xpriv>),
}

impl Key {
    fn new(secp: &Secp256k1<SignOnly>, secret: SecretKey) -> Self {
        Self {
            public: PublicKey(secret.public_key(secp).serialize()),
            secret,
        }
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The address of the account.
    #[must_use]
    pub fn address(&self) -> Address {
        self.public.address()
    }
}

impl Keys {
    /// Keys derived from a number alone: anyone who knows it can spend what they own.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self {
            source: Source::Seed(seed),
            secp: Secp256k1::signing_only(),
        }
    }

    /// The keys of a wallet: the index is appended to `path`, usually `m/44'/118'/0'/0`.
    ///
    /// # Errors
    /// [`Error::Mnemonic`] and [`Error::Path`].
    pub fn from_mnemonic(words: &str, path: &str) -> Result<Self, Error> {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let mnemonic = Mnemonic::parse_in_normalized(Language::English, &words)
            .map_err(|error| Error::Mnemonic(error.to_string()))?;
        let refused = |problem: bitcoin::bip32::Error| Error::Path {
            text: path.to_owned(),
            problem: problem.to_string(),
        };
        let path: DerivationPath = path.parse().map_err(refused)?;
        let secp = Secp256k1::signing_only();
        let seed = mnemonic.to_seed_normalized("");
        let root = Xpriv::new_master(NetworkKind::Main, &seed).map_err(refused)?;
        let above = root.derive_priv(&secp, &path).map_err(refused)?;
        Ok(Self {
            source: Source::Mnemonic(Box::new(above)),
            secp,
        })
    }

    /// The key with this number.
    ///
    /// # Errors
    /// [`Error::Path`] for a number of a wallet from 2³¹ on.
    pub fn key(&self, number: u32) -> Result<Key, Error> {
        let secret = match &self.source {
            Source::Seed(seed) => of_seed(*seed, number),
            Source::Mnemonic(above) => {
                let refused = |problem: bitcoin::bip32::Error| Error::Path {
                    text: number.to_string(),
                    problem: problem.to_string(),
                };
                let child = ChildNumber::from_normal_idx(number).map_err(refused)?;
                let derived = above.derive_priv(&self.secp, &[child]).map_err(refused)?;
                derived.private_key
            }
        };
        Ok(Key::new(&self.secp, secret))
    }
}

fn of_seed(seed: u64, number: u32) -> SecretKey {
    (0..=u32::MAX)
        .find_map(|attempt| {
            let mut hasher = Sha256::new_with_prefix(b"tidegate cosmos key ");
            hasher.update(seed.to_le_bytes());
            hasher.update(number.to_le_bytes());
            hasher.update(attempt.to_le_bytes());
            SecretKey::from_slice(&hasher.finalize()).ok()
        })
        .expect("nearly every hash is a key")
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.public).finish()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No secret gets into a log.
        f.write_str(match self.source {
            Source::Seed(_) => "Keys(seed)",
            Source::Mnemonic(_) => "Keys(mnemonic)",
        })
    }
}
