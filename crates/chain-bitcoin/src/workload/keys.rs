//! Keys from one seed, and what they sign.

use std::fmt;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::Encodable as _;
use bitcoin::hashes::{Hash as _, sha256d};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{All, Message, PublicKey, Scalar, Secp256k1, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, SighashCache};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, OutPoint, PublicKey as BitcoinKey, Script, ScriptBuf, Sequence, Transaction, TxIn,
    TxOut, Witness,
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The keys of a wallet.
#[derive(Clone)]
pub struct Keys {
    secp: Secp256k1<All>,
    keys: Vec<Key>,
    digest: Digest,
}

#[derive(Clone)]
struct Key {
    secret: SecretKey,
    public: BitcoinKey,
    script: ScriptBuf,
}

/// What a signature covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digest {
    /// Bitcoin's for P2PKH.
    #[default]
    Legacy,
    /// Bitcoin Cash's since August 2017: BIP 143 with the hash type 0x41.
    Forkid,
}

/// An output that is to be spent: where it is, whose, and how many satoshi.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spend {
    /// Where it is.
    pub outpoint: OutPoint,
    /// Which of the keys can spend it.
    pub key: u16,
    /// Satoshi.
    pub value: u64,
}

impl Keys {
    /// As many keys as a wallet has, from its seed: the first by hashing, the others by adding a
    /// number to it (BIP 32 derives in the same way, secp256k1's `tweak_add`).
    pub fn new(seed: u64, digest: Digest) -> Self {
        let secp = Secp256k1::new();
        let mut hasher = Sha256::new_with_prefix(b"tidegate bitcoin key ");
        hasher.update(seed.to_le_bytes());
        let mut bytes: [u8; 32] = hasher.finalize().into();
        let first = loop {
            // One in 2^128 is none.
            match SecretKey::from_slice(&bytes) {
                Ok(secret) => break secret,
                Err(_) => bytes = Sha256::digest(bytes).into(),
            }
        };
        let keys = (0..KEYS).map(|index| {
            let mut tweak = [0; 32];
            tweak[30..].copy_from_slice(&index.to_be_bytes());
            let scalar = Scalar::from_be_bytes(tweak).unwrap_or(Scalar::ZERO);
            // The sum is zero for one first key in 2^240.
            let secret = first.add_tweak(&scalar).unwrap_or(first);
            let public = BitcoinKey::new(PublicKey::from_secret_key(&secp, &secret));
            Key {
                secret,
                script: ScriptBuf::new_p2pkh(&public.pubkey_hash()),
                public,
            }
        });
        Self {
            keys: keys.collect(),
            secp,
            digest,
        }
    }

    /// What its signatures cover.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What outputs of a key are locked with.
    pub(crate) fn script(&self, key: u16) -> &ScriptBuf {
        &self.key(key).script
    }

    /// Whose a script is, if it is one of this wallet's.
    pub fn find(&self, script: &Script) -> Option<u16> {
        let position = self.keys.iter().position(|key| *key.script == *script)?;
        u16::try_from(position).ok()
    }

    /// The address of the first key on a network whose P2PKH addresses have this version.
    pub fn address(&self, version: u8) -> String {
        let mut payload = vec![version];
        payload.extend_from_slice(self.keys[0].public.pubkey_hash().as_byte_array());
        bitcoin::base58::encode_check(&payload)
    }

    fn key(&self, key: u16) -> &Key {
        // Wallet files are checked when they are read, and all other numbers come from here.
        &self.keys[usize::from(key) % self.keys.len()]
    }

    /// The transaction that pays these coins to keys of the wallet, signed.
    pub fn pay(&self, coins: &[Spend], outputs: &[(u16, u64)]) -> Transaction {
        let input = |coin: &Spend| TxIn {
            previous_output: coin.outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        };
        let output = |&(key, value): &(u16, u64)| TxOut {
            value: Amount::from_sat(value),
            script_pubkey: self.script(key).clone(),
        };
        let mut tx = Transaction {
            version: Version::ONE,
            lock_time: LockTime::ZERO,
            input: coins.iter().map(input).collect(),
            output: outputs.iter().map(output).collect(),
        };
        let signed: Vec<ScriptBuf> = {
            let mut cache = SighashCache::new(&tx);
            let sign = |(index, coin)| self.signed(&mut cache, index, coin);
            coins.iter().enumerate().map(sign).collect()
        };
        for (input, script) in tx.input.iter_mut().zip(signed) {
            input.script_sig = script;
        }
        tx
    }

    /// What unlocks a coin: the signature and the key.
    fn signed(
        &self,
        cache: &mut SighashCache<&Transaction>,
        index: usize,
        coin: &Spend,
    ) -> ScriptBuf {
        let key = self.key(coin.key);
        let (digest, kind) = match self.digest {
            Digest::Legacy => {
                let kind = EcdsaSighashType::All;
                let digest = cache
                    .legacy_signature_hash(index, &key.script, kind.to_u32())
                    .map_or([0; 32], |digest| digest.to_byte_array());
                (digest, kind as u8)
            }
            Digest::Forkid => {
                let digest = forkid_digest(cache, index, &key.script, coin.value, FORKID.into());
                (digest, FORKID)
            }
        };
        let signature = self
            .secp
            .sign_ecdsa(&Message::from_digest(digest), &key.secret);
        let mut pushed = PushBytesBuf::new();
        // A signature has 72 bytes at most, and a push takes 2^32.
        let _ = pushed.extend_from_slice(&signature.serialize_der());
        let _ = pushed.push(kind);
        Builder::new()
            .push_slice(pushed)
            .push_key(&key.public)
            .into_script()
    }
}

/// Bitcoin Cash's digest (`replay-protected-sighash.md` of its specification): that of BIP 143 with another
/// hash type in its last four bytes.
fn forkid_digest(
    cache: &mut SighashCache<&Transaction>,
    index: usize,
    script: &Script,
    value: u64,
    kind: u32,
) -> [u8; 32] {
    let mut data = Vec::new();
    let encoded = cache.segwit_v0_encode_signing_data_to(
        &mut data,
        index,
        script,
        Amount::from_sat(value),
        EcdsaSighashType::All,
    );
    if encoded.is_ok() {
        data.truncate(data.len() - 4);
        // Vectors take everything.
        let _ = kind.consensus_encode(&mut data);
    }
    sha256d::Hash::hash(&data).to_byte_array()
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// More would only make checks of the same kind slower to prepare.
pub const KEYS: u16 = 256;
/// `SIGHASH_ALL | SIGHASH_FORKID`.
const FORKID: u8 = 0x41;

/// A network whose coins can be had for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Network {
    /// The regression-test network of btcd, bchd, Bitcoin Core and the built-in node.
    #[default]
    Regtest,
    /// The simulation network of btcd and bchd.
    Simnet,
}

impl Network {
    /// The version of its P2PKH addresses (`chaincfg/params.go` of btcd 0.26).
    pub const fn version(self) -> u8 {
        match self {
            Self::Regtest => 0x6f,
            Self::Simnet => 0x3f,
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Txid;
    use bitcoin::consensus::encode;
    use bitcoin::secp256k1::ecdsa::Signature;

    use super::*;

    fn coin(byte: u8) -> Spend {
        let outpoint = OutPoint {
            txid: Txid::from_byte_array([byte; 32]),
            vout: 1,
        };
        Spend {
            outpoint,
            key: 3,
            value: 10_000,
        }
    }

    /// The signature and the key that an input shows.
    fn shown(tx: &Transaction) -> (Vec<u8>, Vec<u8>) {
        let mut pushes = tx.input[0].script_sig.instructions();
        let mut push = || {
            let bytes = pushes.next().unwrap().unwrap();
            bytes.push_bytes().unwrap().as_bytes().to_vec()
        };
        (push(), push())
    }

    #[test]
    fn keys_follow_from_the_seed_and_differ() {
        let keys = Keys::new(7, Digest::Legacy);
        assert_eq!(
            keys.address(0x6f),
            Keys::new(7, Digest::Legacy).address(0x6f)
        );
        assert_ne!(
            keys.address(0x6f),
            Keys::new(8, Digest::Legacy).address(0x6f)
        );
        assert!(
            keys.address(0x6f).starts_with(['m', 'n']),
            "regression tests"
        );
        assert!(
            keys.address(0x3f).starts_with('S'),
            "btcd's simulation network"
        );
        for key in [0, 1, KEYS - 1] {
            assert_eq!(keys.find(keys.script(key)), Some(key));
        }
    }

    #[test]
    fn a_signature_is_valid_for_the_digest_of_its_network() {
        for digest in [Digest::Legacy, Digest::Forkid] {
            let keys = Keys::new(7, digest);
            let spent = coin(9);
            let tx = keys.pay(&[spent], &[(0, 9_000)]);
            let (signature, public) = shown(&tx);
            let public = PublicKey::from_slice(&public).unwrap();
            assert_eq!(public, keys.keys[3].public.inner);
            let (kind, der) = signature.split_last().unwrap();
            let mut cache = SighashCache::new(&tx);
            let expected = match digest {
                Digest::Legacy => {
                    assert_eq!(*kind, 1);
                    let hash = cache.legacy_signature_hash(0, keys.script(3), 1);
                    hash.unwrap().to_byte_array()
                }
                Digest::Forkid => {
                    assert_eq!(*kind, 0x41);
                    forkid_digest(&mut cache, 0, keys.script(3), spent.value, 0x41)
                }
            };
            let signature = Signature::from_der(der).unwrap();
            let message = Message::from_digest(expected);
            keys.secp
                .verify_ecdsa(&message, &signature, &public)
                .unwrap();
        }
    }

    /// One of the vectors of bchd (`txscript/data/sighash_bip143.json`, commit 748f507), whose hash type has ALL and
    /// FORKID set, and other bits that the digest covers; the value spent is 0 there.
    #[test]
    fn the_digest_of_bitcoin_cash_is_bchds() {
        let raw = "aedc6922013b44d658cda59e6e5402d0c4e60c0dca9de4962a1f249ae3ccf0f2802e110e310300000001acffffffff0421f2\
                   71020000000001ab160a0f0400000000045100520095add1000000000008ab6a525265636a00b86a8302000000000565\
                   52636a6a00000000";
        let tx: Transaction = encode::deserialize_hex(raw).unwrap();
        let script = ScriptBuf::from_hex("53656a5251").unwrap();
        let mut cache = SighashCache::new(&tx);
        let digest = forkid_digest(&mut cache, 0, &script, 0, 1_344_539_233);
        let shown = sha256d::Hash::from_byte_array(digest).to_string();
        assert_eq!(
            shown,
            "2dfebad20592712ba162bbecda3bc0623821fedc1a049206949200e1c0687d69"
        );
    }

    #[test]
    fn the_digest_of_bitcoin_cash_covers_the_value() {
        let keys = Keys::new(7, Digest::Forkid);
        let worth = |value| keys.pay(&[Spend { value, ..coin(1) }], &[(0, 500)]);
        assert_ne!(
            worth(1_000).input[0].script_sig,
            worth(1_001).input[0].script_sig
        );
        let keys = Keys::new(7, Digest::Legacy);
        let worth = |value| keys.pay(&[Spend { value, ..coin(1) }], &[(0, 500)]);
        assert_eq!(
            worth(1_000).input[0].script_sig,
            worth(1_001).input[0].script_sig
        );
    }
}
