//! The id of a call as the node echoes it.

use std::borrow::Cow;

/// The JSON text of an id, exactly as the node writes it into the answer: a string with Go's
/// escapes, or a whole number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawId<'a>(Cow<'a, str>);

impl<'a> RawId<'a> {
    /// The id of answers to URI requests.
    pub const URI: RawId<'static> = RawId(Cow::Borrowed("-1"));

    /// An id that is written as the node would write it already.
    pub(super) const fn verbatim(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(super) const fn rewritten(text: String) -> Self {
        Self(Cow::Owned(text))
    }

    /// The text to be written behind `"id":`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A copy that outlives the request.
    pub fn keep(&self) -> KeptId {
        KeptId::new(&self.0)
    }
}

/// An id that waits for its answer; short ones need no memory of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptId(Kept);

#[derive(Clone, PartialEq, Eq)]
enum Kept {
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
                Self(Kept::Short { len, bytes })
            }
            _ => Self(Kept::Long(text.into())),
        }
    }

    /// The text to be written behind `"id":`.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Short { len, bytes } => std::str::from_utf8(&bytes[..usize::from(*len)])
                .expect("a whole str was copied into the first len bytes"),
            Kept::Long(text) => text,
        }
    }

    /// Bytes held beside this value.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kept::Short { .. } => 0,
            Kept::Long(text) => text.len(),
        }
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
