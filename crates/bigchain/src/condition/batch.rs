//! Many Ed25519 signatures checked together, in about half the time.

use ed25519_dalek::{Signature, VerifyingKey, verify_batch};

use super::Ed25519;

/// Signatures to be checked together.
///
/// The coefficients of the batch come from its content alone, so every node that checks the same
/// signatures in the same order comes to the same verdict, and needs no randomness for it.
///
/// A batch that passes is as good as its signatures one by one, with one exception: a signer can
/// craft, with a key of its own, a signature with a part of small order, which
/// [`Ed25519::verify`] refuses and a batch may admit. No one else's signature can be made that way.
/// Where single and batched checks must agree on that too, check one by one.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    signed: Ed25519,
    message: Vec<u8>,
}

impl Batch {
    /// A batch without signatures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a signature and the message it should be of.
    pub fn push(&mut self, signed: Ed25519, message: &[u8]) {
        self.entries.push(Entry {
            signed,
            message: message.to_vec(),
        });
    }

    /// How many signatures there are.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no signature.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The verdict on every signature, in the order they were added.
    ///
    /// If the batch as a whole does not pass, each is checked by itself: one bad signature costs
    /// the others their saving, not their verdict.
    pub fn verify(&self) -> Vec<bool> {
        let checked: Vec<Option<(VerifyingKey, Signature)>> = self
            .entries
            .iter()
            .map(|entry| entry.signed.checked())
            .collect();
        let mut messages = Vec::with_capacity(self.entries.len());
        let mut signatures = Vec::with_capacity(self.entries.len());
        let mut keys = Vec::with_capacity(self.entries.len());
        for (entry, checked) in self.entries.iter().zip(&checked) {
            if let Some((key, signature)) = checked {
                messages.push(entry.message.as_slice());
                signatures.push(*signature);
                keys.push(*key);
            }
        }
        let together = keys.len() > 1 && verify_batch(&messages, &signatures, &keys).is_ok();
        self.entries
            .iter()
            .zip(&checked)
            .map(|(entry, checked)| {
                checked.as_ref().is_some_and(|(key, signature)| {
                    together || key.verify_strict(&entry.message, signature).is_ok()
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyPair;

    #[test]
    fn one_bad_signature_does_not_spoil_the_others() {
        for bad in [None, Some(0), Some(3), Some(9)] {
            let mut batch = Batch::new();
            for index in 0..10_u8 {
                let pair = KeyPair::from_seed([index; 32]);
                let mut signature = pair.sign(&[index]);
                signature[5] ^= u8::from(bad == Some(usize::from(index)));
                let public_key = pair.public().0;
                batch.push(
                    Ed25519 {
                        public_key,
                        signature,
                    },
                    &[index],
                );
            }
            let verdicts = batch.verify();
            assert!(
                verdicts
                    .iter()
                    .enumerate()
                    .all(|(index, ok)| *ok == (Some(index) != bad))
            );
        }
        assert!(Batch::new().verify().is_empty());
    }
}
