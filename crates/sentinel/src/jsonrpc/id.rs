//! Ids of calls that wait for their answers.

use wire::jsonrpc::RequestId;

/// An id that waits for its answer; short ones need no memory of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptId(StoredId);

#[derive(Clone, PartialEq, Eq)]
enum StoredId {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

/// Longest id that is kept inline: more digits than a 64-bit number has.
const SHORT: usize = 22;

impl KeptId {
    /// A copy of an id's text.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(room), Ok(len)) => {
                room.copy_from_slice(text.as_bytes());
                Self(StoredId::Short { len, bytes })
            }
            _ => Self(StoredId::Long(text.into())),
        }
    }

    /// The text to be written behind `"id":`.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            StoredId::Short { len, bytes } => std::str::from_utf8(&bytes[..usize::from(*len)])
                .expect("a whole str was copied into the first len bytes"),
            StoredId::Long(text) => text,
        }
    }

    /// Bytes held beside this value.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            StoredId::Short { .. } => 0,
            StoredId::Long(text) => text.len(),
        }
    }
}

impl From<&RequestId<'_>> for KeptId {
    fn from(id: &RequestId<'_>) -> Self {
        Self::new(id.as_str())
    }
}

impl std::fmt::Debug for KeptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_kept_id_is_the_same_text(text in ".{0,40}") {
            let kept = KeptId::new(&text);
            prop_assert_eq!(kept.as_str(), text.as_str());
            prop_assert_eq!(kept.heap_bytes() > 0, text.len() > SHORT);
        }
    }

    #[test]
    fn a_kept_id_is_small() {
        assert_eq!(size_of::<KeptId>(), 24);
    }
}
