//! Payments with real signatures, their check, and the receiver of their verdicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use admission::KeyBits;
use bitcoin::secp256k1::{self, Message, Secp256k1, SecretKey, VerifyOnly};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use crate::coins::{self, Coin, Coins, Fate, GENESIS, Witness};

/// Transactions of most runs.
pub(crate) const TRANSACTIONS: u32 = 2_000;

/// A signature for each input.
#[derive(Clone)]
enum Proofs {
    Ecdsa([secp256k1::ecdsa::Signature; 2]),
    Ed25519([ed25519_dalek::Signature; 2]),
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scheme {
    Ecdsa,
    Ed25519,
}

/// What a payment carries: its signatures, and when it was submitted.
#[derive(Clone)]
pub(crate) struct Signed {
    proofs: Proofs,
    pub(crate) submitted: Instant,
}

pub(crate) type Payment = coins::Payment<Signed>;

/// Whom verdicts wake.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wakes {
    /// The thread that waits for all of them, with the last.
    AtTheEnd,
    /// A thread that waits for each, as a client does that is answered at once.
    Each,
}

/// Checks signatures, and writes down how long each payment waited for its verdict.
pub(crate) struct Signatures {
    secp: Secp256k1<VerifyOnly>,
    ecdsa: secp256k1::PublicKey,
    ed25519: VerifyingKey,
    /// By the number of the payment, in nanoseconds.
    waits: Arc<[AtomicU64]>,
    open: AtomicUsize,
    wakes: Wakes,
    told: Sender<()>,
}

/// Where a run's verdicts come.
pub(crate) struct Verdicts {
    waits: Arc<[AtomicU64]>,
    wakes: Wakes,
    told: Receiver<()>,
}

impl Verdicts {
    /// Waits for all verdicts; how long each took, in the order of the payments.
    pub(crate) fn wait(&self) -> Vec<Duration> {
        let messages = match self.wakes {
            Wakes::AtTheEnd => 1,
            Wakes::Each => self.waits.len(),
        };
        assert_eq!(self.told.iter().take(messages).count(), messages);
        let waits = self.waits.iter();
        waits
            .map(|wait| Duration::from_nanos(wait.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Signatures {
    /// For so many payments, each of which has one verdict.
    pub(crate) fn new(payments: usize, wakes: Wakes) -> (Coins<Self>, Verdicts) {
        let (sender, told) = channel();
        let waits: Arc<[AtomicU64]> = (0..payments).map(|_| AtomicU64::new(0)).collect();
        let signatures = Self {
            secp: Secp256k1::verification_only(),
            ecdsa: secret_key().public_key(&Secp256k1::new()),
            ed25519: SigningKey::from_bytes(&[7; 32]).verifying_key(),
            waits: Arc::clone(&waits),
            open: AtomicUsize::new(payments),
            wakes,
            told: sender,
        };
        (Coins(signatures), Verdicts { waits, wakes, told })
    }
}

impl Witness for Signatures {
    type Proof = Signed;

    fn proves(&self, tx: &Payment) -> bool {
        match &tx.proof.proofs {
            Proofs::Ecdsa(proofs) => proofs.iter().enumerate().all(|(input, proof)| {
                let message = Message::from_digest(digest(tx.id, input));
                self.secp.verify_ecdsa(&message, proof, &self.ecdsa).is_ok()
            }),
            Proofs::Ed25519(proofs) => proofs.iter().enumerate().all(|(input, proof)| {
                self.ed25519
                    .verify_strict(&digest(tx.id, input), proof)
                    .is_ok()
            }),
        }
    }

    fn decided(&self, tx: &Payment, _: Fate) {
        let waited = tx.proof.submitted.elapsed().as_nanos() as u64;
        self.waits[tx.id as usize - 1].store(waited, Ordering::Relaxed);
        let is_last = self.open.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last || self.wakes == Wakes::Each {
            // Once the case is over there is no receiver.
            let _ = self.told.send(());
        }
    }

    fn key(coin: Coin) -> KeyBits {
        key(u64::from(coin.0) << 32 | u64::from(coin.1))
    }
}

fn digest(id: u32, input: usize) -> [u8; 32] {
    Sha256::digest([id.to_le_bytes(), (input as u32).to_le_bytes()].concat()).into()
}

fn secret_key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).expect("the key is in range")
}

/// Uniformly distributed, as hashes are.
pub(crate) fn key(number: u64) -> KeyBits {
    let mut state = number;
    std::array::from_fn(|_| {
        state = (state ^ (state >> 29))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(1);
        (state >> 32) as u32
    })
}

/// Transactions of which so many per cent spend what the one before spends, in chains of a depth.
pub(crate) fn payments(scheme: Scheme, conflicts: u32, depth: u32) -> Vec<Payment> {
    some_payments(TRANSACTIONS, scheme, conflicts, depth)
}

/// So many of them.
pub(crate) fn some_payments(
    count: u32,
    scheme: Scheme,
    conflicts: u32,
    depth: u32,
) -> Vec<Payment> {
    let secp = Secp256k1::new();
    let signing = SigningKey::from_bytes(&[7; 32]);
    let mut all: Vec<Payment> = Vec::with_capacity(count as usize);
    for id in 1..=count {
        let spends = if id > 1 && id * 61 % 100 < conflicts {
            all[id as usize - 2].spends.clone()
        } else if !(id - 1).is_multiple_of(depth) {
            vec![(id - 1, 0), (id - 1, 1)]
        } else {
            vec![(GENESIS, 2 * id), (GENESIS, 2 * id + 1)]
        };
        let proofs = match scheme {
            Scheme::Ecdsa => Proofs::Ecdsa([0, 1].map(|input| {
                secp.sign_ecdsa(&Message::from_digest(digest(id, input)), &secret_key())
            })),
            Scheme::Ed25519 => {
                Proofs::Ed25519([0, 1].map(|input| signing.sign(&digest(id, input))))
            }
        };
        all.push(Payment {
            id,
            spends,
            proof: Signed {
                proofs,
                submitted: Instant::now(),
            },
        });
    }
    all
}

/// The first so many spend one output.
pub(crate) fn flood(conflicts: u32, honest: u32) -> Vec<Payment> {
    let mut all = some_payments(conflicts + honest, Scheme::Ecdsa, 0, 1);
    for tx in &mut all[..conflicts as usize] {
        tx.spends = vec![(GENESIS, 0)];
    }
    all
}
