//! RSA-PSS signatures with SHA-256, the public exponent 65537 and a salt of 32 bytes.
//!
//! Only the public half, as far as the draft's vectors reach: nothing here touches a secret, so
//! plain big integers serve.

use num_bigint::BigUint;
use sha2::{Digest, Sha256};

/// An RSA fulfillment: a modulus and its signature of the message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rsa {
    modulus: Vec<u8>,
    signature: Vec<u8>,
}

const PUBLIC_EXPONENT: u32 = 65_537;
const HASH_BYTES: usize = 32;
const SALT_BYTES: usize = 32;

impl Rsa {
    /// A modulus of 128 to 512 bytes that does not begin with zero, and a signature of the same
    /// length that is smaller than the modulus; otherwise nothing.
    pub fn new(modulus: Vec<u8>, signature: Vec<u8>) -> Option<Self> {
        let fits = (128..=512).contains(&modulus.len())
            && modulus[0] != 0
            && signature.len() == modulus.len()
            && signature < modulus;
        fits.then_some(Self { modulus, signature })
    }

    /// The modulus, most significant byte first.
    pub fn modulus(&self) -> &[u8] {
        &self.modulus
    }

    /// The signature, as long as the modulus.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// The draft's cost: the square of the modulus' length in bytes.
    pub(super) fn cost(&self) -> u64 {
        let bytes = self.modulus.len() as u64;
        bytes * bytes
    }

    /// Whether the signature is one of this message (RFC 8017, section 8.1.2).
    pub fn verify(&self, message: &[u8]) -> bool {
        let modulus = BigUint::from_bytes_be(&self.modulus);
        let opened = BigUint::from_bytes_be(&self.signature)
            .modpow(&BigUint::from(PUBLIC_EXPONENT), &modulus)
            .to_bytes_be();
        let Ok(modulus_bits) = usize::try_from(modulus.bits()) else {
            return false;
        };
        let bits = modulus_bits - 1;
        let length = bits.div_ceil(8);
        if opened.len() > length {
            return false;
        }
        let mut encoded = vec![0; length - opened.len()];
        encoded.extend_from_slice(&opened);
        is_encoding(&encoded, bits, &Sha256::digest(message).into())
    }
}

/// Whether an encoded message of so many bits is one of a hash (RFC 8017, section 9.1.2).
fn is_encoding(encoded: &[u8], bits: usize, hash: &[u8; HASH_BYTES]) -> bool {
    let Some((body, [0xbc])) = encoded.split_at_checked(encoded.len().wrapping_sub(1)) else {
        return false;
    };
    let Some((masked, inner_hash)) = body.split_at_checked(body.len().wrapping_sub(HASH_BYTES))
    else {
        return false;
    };
    let unused_bits = 8 * encoded.len() - bits;
    let top = 0xff_u8 >> unused_bits;
    if masked.len() < SALT_BYTES + 1 || masked[0] & !top != 0 {
        return false;
    }
    let mut block: Vec<u8> = masked
        .iter()
        .zip(mask(inner_hash, masked.len()))
        .map(|(masked, mask)| masked ^ mask)
        .collect();
    block[0] &= top;
    let (padding, salt) = block.split_at(block.len() - SALT_BYTES);
    let Some((1, zeros)) = padding.split_last() else {
        return false;
    };
    let wanted = Sha256::new()
        .chain_update([0; 8])
        .chain_update(hash)
        .chain_update(salt)
        .finalize();
    zeros.iter().all(|&byte| byte == 0) && wanted[..] == *inner_hash
}

/// The mask generation function MGF1 with SHA-256.
fn mask(seed: &[u8], length: usize) -> Vec<u8> {
    let blocks =
        u32::try_from(length.div_ceil(HASH_BYTES)).expect("a modulus has 512 bytes at most");
    (0..blocks)
        .flat_map(|counter| {
            Sha256::new()
                .chain_update(seed)
                .chain_update(counter.to_be_bytes())
                .finalize()
        })
        .take(length)
        .collect()
}
