//! Messages of Bitcoin's peer-to-peer protocol in a stream of bytes: where one ends, before its content is read.
//!
//! A message is 4 bytes of the network's magic, 12 of the command, 4 of the length, 4 of a checksum, and the
//! content (`wire/message.go` of btcd 0.26, `MessageHeaderSize`). What is in it is the business of others.

use thiserror::Error;

/// Bytes before a message's content.
pub const HEAD_BYTES: usize = 24;

/// What stands before a message's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    command: [u8; 12],
    /// Bytes of the message, its head included.
    pub bytes: usize,
}

/// Why a stream holds no messages of this network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeadError {
    /// Another network's.
    #[error("its message begins with {found:02x?}, and those of this network with {wanted:02x?}")]
    Magic {
        /// What it begins with.
        found: [u8; 4],
        /// What messages of the network begin with.
        wanted: [u8; 4],
    },
    /// Too much.
    #[error("its message has {bytes} bytes; at most {limit} are read")]
    TooLarge {
        /// Bytes of the content.
        bytes: usize,
        /// The most that are read.
        limit: usize,
    },
}

impl Head {
    /// The head of the message that begins here, whose content may have up to `limit` bytes; none until
    /// [`HEAD_BYTES`] are there.
    ///
    /// # Errors
    /// [`HeadError`], final for the stream.
    pub fn read(bytes: &[u8], magic: [u8; 4], limit: usize) -> Result<Option<Self>, HeadError> {
        let Some((found, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        if *found != magic {
            return Err(HeadError::Magic {
                found: *found,
                wanted: magic,
            });
        }
        let Some((command, rest)) = rest.split_first_chunk::<12>() else {
            return Ok(None);
        };
        let Some((length, checksum)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        if checksum.len() < 4 {
            return Ok(None);
        }
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > limit {
            return Err(HeadError::TooLarge { bytes, limit });
        }
        Ok(Some(Self {
            command: *command,
            bytes: HEAD_BYTES + bytes,
        }))
    }

    /// The command without the zeros behind it.
    pub fn command(&self) -> &[u8] {
        let end = self.command.iter().position(|byte| *byte == 0);
        &self.command[..end.unwrap_or(self.command.len())]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

    fn message(command: &str, length: u32) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(command.as_bytes());
        bytes.resize(16, 0);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    #[test]
    fn a_head_says_the_command_and_where_the_message_ends() {
        let bytes = message("verack", 0);
        for end in 0..HEAD_BYTES {
            assert_eq!(Head::read(&bytes[..end], MAGIC, 10), Ok(None));
        }
        let head = Head::read(&bytes, MAGIC, 10).unwrap().unwrap();
        assert_eq!((head.command(), head.bytes), (&b"verack"[..], 24));
        let full = Head::read(&message("sendaddrv2ab", 10), MAGIC, 10);
        let full = full.unwrap().unwrap();
        assert_eq!((full.command(), full.bytes), (&b"sendaddrv2ab"[..], 34));
    }

    #[test]
    fn another_networks_message_and_one_that_is_too_large_are_refused() {
        let bytes = message("tx", 11);
        let large = Head::read(&bytes, MAGIC, 10).unwrap_err();
        assert_eq!(
            large.to_string(),
            "its message has 11 bytes; at most 10 are read"
        );
        let other = Head::read(&bytes[..4], [0x16, 0x1c, 0x14, 0x12], 10).unwrap_err();
        let text = "its message begins with [fa, bf, b5, da], and those of this network with [16, 1c, 14, 12]";
        assert_eq!(other.to_string(), text);
        let web = Head::read(b"HTTP/1.1 400", MAGIC, 10).unwrap_err();
        assert!(matches!(web, HeadError::Magic { found, .. } if &found == b"HTTP"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_message_beyond_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..40), limit in 0_usize..100) {
            let mut stream = MAGIC.to_vec();
            stream.extend(bytes);
            if let Ok(Some(head)) = Head::read(&stream, MAGIC, limit) {
                prop_assert!(head.bytes <= HEAD_BYTES + limit && head.command().len() <= 12);
            }
        }
    }
}
