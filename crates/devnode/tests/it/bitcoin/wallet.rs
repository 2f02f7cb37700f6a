//! One key, and transactions that it signs.

use bitcoin::absolute::LockTime;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash as _;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::{All, Message, Secp256k1, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, SighashCache};
use bitcoin::transaction::Version;
use bitcoin::{
    Address, Amount, Network, OutPoint, PublicKey, ScriptBuf, Sequence, Transaction, TxIn, TxOut,
    Txid, Witness,
};
use serde_json::Value;

pub(super) struct Wallet {
    secp: Secp256k1<All>,
    secret: SecretKey,
    public: PublicKey,
}

/// A coin: where it is and how many satoshi it has.
pub(super) type Coin = (OutPoint, u64);

/// Satoshi of a block's first outputs.
pub(super) const SUBSIDY: u64 = 5_000_000_000;
/// A fee above the least for the transactions of these tests.
pub(super) const FEE: u64 = 1_000;

impl Wallet {
    pub(super) fn new(seed: u8) -> Self {
        let secp = Secp256k1::new();
        let secret = SecretKey::from_slice(&[seed; 32]).unwrap();
        let public = PublicKey::new(secret.public_key(&secp));
        Self {
            secp,
            secret,
            public,
        }
    }

    pub(super) fn address(&self) -> String {
        Address::p2pkh(self.public, Network::Regtest).to_string()
    }

    pub(super) fn script(&self) -> ScriptBuf {
        ScriptBuf::new_p2pkh(&self.public.pubkey_hash())
    }

    /// A transaction from these coins to as many outputs of this wallet as there are values, signed.
    pub(super) fn pay(&self, coins: &[Coin], values: &[u64]) -> Transaction {
        let output = |value: &u64| TxOut {
            value: Amount::from_sat(*value),
            script_pubkey: self.script(),
        };
        let input = |coin: &Coin| TxIn {
            previous_output: coin.0,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        };
        let tx = Transaction {
            version: Version::ONE,
            lock_time: LockTime::ZERO,
            input: coins.iter().map(input).collect(),
            output: values.iter().map(output).collect(),
        };
        self.sign(tx)
    }

    /// Every input of a transaction, signed as if it spent an output of this wallet.
    pub(super) fn sign(&self, mut tx: Transaction) -> Transaction {
        let scripts: Vec<ScriptBuf> = {
            let cache = SighashCache::new(&tx);
            let sign = |index| {
                let kind = EcdsaSighashType::All;
                let digest = cache
                    .legacy_signature_hash(index, &self.script(), kind.to_u32())
                    .unwrap();
                let message = Message::from_digest(digest.to_byte_array());
                let signature = self.secp.sign_ecdsa(&message, &self.secret);
                let mut pushed = PushBytesBuf::new();
                pushed
                    .extend_from_slice(&signature.serialize_der())
                    .unwrap();
                pushed.push(kind as u8).unwrap();
                Builder::new()
                    .push_slice(pushed)
                    .push_key(&self.public)
                    .into_script()
            };
            (0..tx.input.len()).map(sign).collect()
        };
        for (input, script) in tx.input.iter_mut().zip(scripts) {
            input.script_sig = script;
        }
        tx
    }
}

/// An output of a transaction as a coin.
pub(super) fn coin(tx: &Transaction, vout: u32) -> Coin {
    let txid = tx.compute_txid();
    let value = tx.output[vout as usize].value.to_sat();
    (OutPoint { txid, vout }, value)
}

/// The coin that a block of `getblock` made.
pub(super) fn coinbase(block: &Value) -> Coin {
    let txid: Txid = block["tx"][0].as_str().unwrap().parse().unwrap();
    (OutPoint { txid, vout: 0 }, SUBSIDY)
}

pub(super) fn hex(tx: &Transaction) -> String {
    serialize_hex(tx)
}
