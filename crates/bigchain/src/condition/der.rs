//! The part of DER (ITU-T X.690) that crypto-conditions use: one-byte tags, definite lengths, small integers.

use crate::error::Error;

/// Appends a value: tag, length, content.
pub(crate) fn write(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    write_length(content.len(), out);
    out.extend_from_slice(content);
}

/// The bytes of one value: tag, length, content.
pub(crate) fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    write(tag, content, &mut out);
    out
}

/// Appends an integer that is not negative, in as few bytes as it takes.
pub(crate) fn write_integer(tag: u8, number: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; 9];
    bytes[1..].copy_from_slice(&number.to_be_bytes());
    // One zero stays in front of a byte that would look negative.
    let start = (0..8)
        .find(|&at| bytes[at] != 0 || bytes[at + 1] >= 0x80)
        .unwrap_or(8);
    write(tag, &bytes[start..], out);
}

/// Appends a set, its elements sorted as DER requires.
pub(crate) fn write_set(tag: u8, mut elements: Vec<Vec<u8>>, out: &mut Vec<u8>) {
    elements.sort_unstable();
    write(tag, &elements.concat(), out);
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out.push(short);
        return;
    }
    let bytes = length.to_be_bytes();
    let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(0);
    let digits = &bytes[start..];
    out.push(0x80 | u8::try_from(digits.len()).expect("a length has at most eight bytes"));
    out.extend_from_slice(digits);
}

/// Reads one value after another.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The elements of a set, in any order.
    pub(crate) fn all<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        while !self.bytes.is_empty() {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// The next value's tag and content.
    pub(crate) fn next(&mut self) -> Result<(u8, &'a [u8]), Error> {
        const ENDS: Error = Error::Der("the bytes end too soon");
        let (&tag, rest) = self.bytes.split_first().ok_or(ENDS)?;
        let (&first, mut rest) = rest.split_first().ok_or(ENDS)?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            // Eight digits hold any length; zero digits would be an indefinite one.
            if !(1..=8).contains(&count) {
                return Err(Error::Der("a length that cannot be"));
            }
            let (digits, after) = rest.split_at_checked(count).ok_or(ENDS)?;
            let number = digits
                .iter()
                .fold(0_u64, |number, &digit| number << 8 | u64::from(digit));
            length = usize::try_from(number).map_err(|_| ENDS)?;
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length).ok_or(ENDS)?;
        self.bytes = after;
        Ok((tag, content))
    }

    /// The next value's tag, and a reader of its content.
    pub(crate) fn nested(&mut self) -> Result<(u8, Self), Error> {
        let (tag, content) = self.next()?;
        Ok((tag, Self::new(content)))
    }

    /// The content of the next value, which must have this tag.
    pub(crate) fn content(&mut self, wanted: u8) -> Result<&'a [u8], Error> {
        match self.next()? {
            (tag, content) if tag == wanted => Ok(content),
            _ => Err(Error::Der("another field than expected")),
        }
    }

    /// An integer that is not negative and fits 64 bits.
    pub(crate) fn integer(&mut self, wanted: u8) -> Result<u64, Error> {
        let content = self.content(wanted)?;
        match content {
            [] => return Err(Error::Der("an integer without bytes")),
            [0x80..=0xff, ..] => return Err(Error::Der("a negative integer")),
            _ => {}
        }
        let start = content.iter().position(|&byte| byte != 0);
        let digits = &content[start.unwrap_or(content.len())..];
        if digits.len() > 8 {
            return Err(Error::Der("an integer beyond 64 bits"));
        }
        Ok(digits
            .iter()
            .fold(0, |number, &digit| number << 8 | u64::from(digit)))
    }

    /// Checks that no bytes are left.
    pub(crate) const fn end(&self) -> Result<(), Error> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(Error::Der("bytes after the last field"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_come_back(number: u64) {
            let mut bytes = Vec::new();
            write_integer(0x80, number, &mut bytes);
            prop_assert_eq!(Reader::new(&bytes).integer(0x80), Ok(number));
        }
    }

    #[test]
    fn long_forms_pass_in_compatible_mode_only() {
        for bytes in [
            &[0x80, 0x81, 1, 5][..],
            &[0x80, 2, 0, 5],
            &[0x80, 0x82, 0, 1, 5],
        ] {
            assert_eq!(Reader::new(bytes).integer(0x80), Ok(5));
        }
        for bytes in [
            &[0x80, 0x80, 5, 0, 0][..],
            &[0x80, 1, 0x85],
            &[0x80, 0],
            &[0x80, 9],
            &[],
        ] {
            assert!(Reader::new(bytes).integer(0x80).is_err());
        }
    }
}
