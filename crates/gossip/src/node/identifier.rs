//! What a message is called.

use sha2::{Digest, Sha256};
use siphasher::sip128::SipHasher13;

use super::settings::Spread;

/// 128 bits that stand for a message.
#[derive(Debug)]
pub(super) enum Identifier {
    /// Of this node alone, so a secret key keeps others from finding two messages with one name.
    Own(SipHasher13),
    /// The first half of the SHA-256, where nodes tell each other names.
    Shared,
}

impl Identifier {
    pub(super) fn new(spread: Spread, seed: u64) -> Self {
        match spread {
            Spread::Flood => Self::Own(SipHasher13::new_with_keys(
                pacing::mix(seed ^ 3),
                pacing::mix(seed ^ 4),
            )),
            Spread::Announce | Spread::Tree => Self::Shared,
        }
    }

    pub(super) fn of(&self, message: &[u8]) -> u128 {
        match self {
            Self::Own(hasher) => hasher.hash(message).as_u128(),
            Self::Shared => {
                let digest: [u8; 32] = Sha256::digest(message).into();
                digest.first_chunk().copied().map_or(0, u128::from_be_bytes)
            }
        }
    }
}
