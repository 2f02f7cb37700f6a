//! The few protobuf forms that CometBFT hashes and signs.
//!
//! Field numbers are those of `proto/tendermint` in CometBFT 0.38. Proto3 leaves zero values out,
//! but gogoproto writes an embedded message even if it is empty; callers choose with
//! [`message`] (always written).

/// Appends a varint.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of a varint.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - value.max(1).leading_zeros() as usize).div_ceil(7)
}

/// Appends an integer field; zero is left out. Negative numbers take ten bytes.
pub(crate) fn int_field(out: &mut Vec<u8>, field: u8, value: i64) {
    if value != 0 {
        out.push(field << 3);
        varint(out, value as u64);
    }
}

/// Appends a fixed 64-bit field; zero is left out.
pub(crate) fn sfixed64_field(out: &mut Vec<u8>, field: u8, value: i64) {
    if value != 0 {
        out.push(field << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends a bytes or string field; an empty one is left out.
pub(crate) fn bytes_field(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    if !value.is_empty() {
        message(out, field, value);
    }
}

/// Appends an embedded message or an element of a repeated bytes field, also if it is empty.
pub(crate) fn message(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Bytes that [`message`] takes for a value of that length and a field number below 16.
pub(crate) fn message_len(value: usize) -> usize {
    1 + varint_len(value as u64) + value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_they_say() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
    }

    #[test]
    fn minus_one_takes_ten_bytes() {
        let mut out = Vec::new();
        int_field(&mut out, 2, -1);
        assert_eq!(out.len(), 11);
    }
}
