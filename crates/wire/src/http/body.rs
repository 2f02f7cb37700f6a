//! The body of a request, taken off the stream piece by piece.

use super::{Framing, HttpError};

/// Takes a body off the stream, by its length or in chunks, up to a bound.
///
/// A body of known length that lies in the read buffer as a whole needs no reader:
/// [`Framing::whole`].
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: BodyState,
    /// Data bytes that may still come in chunks.
    room: usize,
    limit: usize,
    /// Bytes so far that are neither data nor needed to frame it.
    excess: usize,
}

/// Most bytes of extensions, trailers and superfluous digits in one chunked body. They carry
/// nothing, and a flood of them would cost time without ever reaching the body's bound.
pub const MAX_CHUNK_EXCESS: usize = 8 << 10;

/// How far a call of [`BodyReader::read`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyProgress {
    /// Bytes of the input that were used.
    pub used: usize,
    /// Whether the body is complete; what follows belongs to the next request.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    /// So many bytes are missing.
    Length(usize),
    /// Among the digits of a chunk's size.
    Size {
        digits: u8,
        size: usize,
    },
    /// Behind the size, in an extension.
    Extension {
        size: usize,
    },
    /// Before the line feed that ends the line of the size.
    SizeEnd {
        size: usize,
    },
    /// So many bytes of the chunk are missing.
    Data(usize),
    DataCr,
    DataLf,
    /// Behind the last chunk, at the start of a line.
    TrailerStart,
    /// In the name of a header line.
    TrailerName,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

impl Framing {
    /// The body, if it starts `bytes` and is there as a whole; none for chunks.
    pub fn whole<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Self::Length(length) => bytes.get(..usize::try_from(*length).ok()?),
            Self::Chunked => None,
        }
    }
}

impl BodyReader {
    /// A reader of a body of at most `limit` bytes.
    ///
    /// # Errors
    /// [`HttpError::BodyTooLarge`] when the stated length is beyond the limit.
    pub fn new(framing: Framing, limit: usize) -> Result<Self, HttpError> {
        let state = match framing {
            Framing::Length(0) => BodyState::Done,
            Framing::Length(length) => match usize::try_from(length) {
                Ok(length) if length <= limit => BodyState::Length(length),
                _ => return Err(HttpError::BodyTooLarge(limit)),
            },
            Framing::Chunked => SIZE,
        };
        Ok(Self {
            state,
            room: limit,
            limit,
            excess: 0,
        })
    }

    /// Whether the body is complete.
    pub const fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }

    /// Appends the data at the start of `input` to `out`.
    ///
    /// # Errors
    /// [`HttpError::Chunk`] or [`HttpError::BodyTooLarge`]; the connection is of no further use.
    pub fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<BodyProgress, HttpError> {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            match self.state {
                BodyState::Done => break,
                BodyState::Length(missing) | BodyState::Data(missing) => {
                    let taken = missing.min(rest.len());
                    out.extend_from_slice(&rest[..taken]);
                    used += taken;
                    self.state = self.after_data(missing - taken);
                }
                state => {
                    self.state = self.after_byte(state, rest[0])?;
                    used += 1;
                }
            }
        }
        Ok(BodyProgress {
            used,
            done: self.is_done(),
        })
    }

    const fn after_data(&self, missing: usize) -> BodyState {
        match (self.state, missing) {
            (BodyState::Length(_), 0) => BodyState::Done,
            (BodyState::Length(_), missing) => BodyState::Length(missing),
            (_, 0) => BodyState::DataCr,
            (_, missing) => BodyState::Data(missing),
        }
    }

    /// The state after one byte of the framing.
    fn after_byte(&mut self, state: BodyState, byte: u8) -> Result<BodyState, HttpError> {
        Ok(match (state, byte) {
            (BodyState::Size { digits, size }, _) => return self.size(digits, size, byte),
            (BodyState::Extension { size }, b'\r') => BodyState::SizeEnd { size },
            (BodyState::SizeEnd { size: 0 }, b'\n') => BodyState::TrailerStart,
            (BodyState::SizeEnd { size }, b'\n') => self.chunk(size)?,
            (BodyState::DataCr, b'\r') => BodyState::DataLf,
            (BodyState::DataLf, b'\n') => SIZE,
            (BodyState::TrailerStart, b'\r') => BodyState::EndLf,
            (BodyState::Trailer, b'\r') => BodyState::TrailerLf,
            (BodyState::TrailerLf, b'\n') => BodyState::TrailerStart,
            (BodyState::EndLf, b'\n') => BodyState::Done,
            (BodyState::Extension { .. }, _) => self.count_excess(byte, state)?,
            (BodyState::TrailerName, b':') | (BodyState::Trailer, _) => {
                self.count_excess(byte, BodyState::Trailer)?
            }
            // The line of another request, say, would be hidden in this one.
            (BodyState::TrailerStart | BodyState::TrailerName, _) if is_of_token(byte) => {
                self.count_excess(byte, BodyState::TrailerName)?
            }
            _ => return Err(HttpError::Chunk),
        })
    }

    /// The state after one byte of the line with a chunk's size.
    fn size(&mut self, digits: u8, size: usize, byte: u8) -> Result<BodyState, HttpError> {
        match byte {
            b'\r' if digits > 0 => Ok(BodyState::SizeEnd { size }),
            b';' if digits > 0 => self.count_excess(byte, BodyState::Extension { size }),
            _ => {
                let digit = char::from(byte).to_digit(16).ok_or(HttpError::Chunk)? as usize;
                match digits {
                    0..NEEDED_DIGITS => {}
                    NEEDED_DIGITS..MOST_DIGITS => {
                        self.count_excess(byte, state_of(digits, size))?;
                    }
                    _ => return Err(HttpError::Chunk),
                }
                let size = size
                    .checked_mul(16)
                    .and_then(|size| size.checked_add(digit))
                    .ok_or(HttpError::BodyTooLarge(self.limit))?;
                Ok(state_of(digits + 1, size))
            }
        }
    }

    /// The state at the start of a chunk's data, if it is within the bound.
    fn chunk(&mut self, size: usize) -> Result<BodyState, HttpError> {
        self.room = self
            .room
            .checked_sub(size)
            .ok_or(HttpError::BodyTooLarge(self.limit))?;
        Ok(BodyState::Data(size))
    }

    /// The state after a byte that carries nothing: counts it.
    fn count_excess(&mut self, byte: u8, next: BodyState) -> Result<BodyState, HttpError> {
        self.excess += 1;
        let is_text = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        if is_text && self.excess <= MAX_CHUNK_EXCESS {
            Ok(next)
        } else {
            Err(HttpError::Chunk)
        }
    }
}

/// Whether the name of a header line may have this byte (RFC 9110, section 5.6.2).
const fn is_of_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
        || byte.is_ascii_alphanumeric()
}

/// At the start of a chunk.
const SIZE: BodyState = state_of(0, 0);

const fn state_of(digits: u8, size: usize) -> BodyState {
    BodyState::Size { digits, size }
}

/// Digits that are enough for any size; further ones are superfluous zeros, or beyond the bound.
const NEEDED_DIGITS: u8 = 8;
/// Those of 64 bits: of more, others refuse or read fewer.
const MOST_DIGITS: u8 = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 100;

    /// Reads in pieces that end at `cuts`; the body and what follows it.
    fn read(framing: Framing, input: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, usize), HttpError> {
        let mut reader = BodyReader::new(framing, LIMIT)?;
        let (mut out, mut used, mut start) = (Vec::new(), 0, 0);
        for end in cuts.iter().copied().chain([input.len()]) {
            let end = end.clamp(start, input.len());
            let progress = reader.read(&input[start..end], &mut out)?;
            used += progress.used;
            start += progress.used;
            if progress.done {
                return Ok((out, used));
            }
            assert_eq!(start, end, "an unfinished reader takes everything");
        }
        panic!("not complete: {input:?}")
    }

    fn chunked(input: &[u8]) -> Result<(Vec<u8>, usize), HttpError> {
        read(Framing::Chunked, input, &[])
    }

    #[test]
    fn a_length_is_kept() {
        let (body, used) = read(Framing::Length(5), b"helloGET", &[2]).unwrap();
        assert_eq!((body.as_slice(), used), (&b"hello"[..], 5));
        assert_eq!(Framing::Length(5).whole(b"helloGET"), Some(&b"hello"[..]));
        assert_eq!(Framing::Length(9).whole(b"helloGET"), None);
        assert!(BodyReader::new(Framing::Length(0), 0).unwrap().is_done());
    }

    #[test]
    fn chunks_are_joined_without_extensions_and_trailers() {
        let input = b"5;x=\"y\"\r\nhello\r\n00000000001\r\n!\r\n0\r\nA: b\r\n\r\nGET";
        let (body, used) = chunked(input).unwrap();
        assert_eq!(body, b"hello!");
        assert_eq!(&input[used..], b"GET");
    }

    #[test]
    fn case_29_chunk_framing_that_is_ambiguous_or_a_flood_is_refused() {
        for input in [
            &b"\r\n"[..],
            b"x\r\n",
            b"5\nhello\r\n",
            b"5 \r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"-0\r\n\r\n",
            b"5\r\nhelloo\r\n",
            b"5\r\nhello\n",
            b"5\rxhello",
            b";x\r\n",
            b"5;a\nb\r\nhello",
            b"5;a\0\r\nhello",
            b"0\r\nA: b\n\r\n",
            b"0\r\n\n",
            b"00000000000000001\r\n",
            b"0\r\nGET / HTTP/1.1\r\n",
            b"0\r\n: b\r\n",
            b"0\r\nA : b\r\n",
            b"0\r\nA\r\n",
        ] {
            assert_eq!(chunked(input), Err(HttpError::Chunk), "{input:?}");
        }
        let flood = [b"1;", "x".repeat(MAX_CHUNK_EXCESS).as_bytes(), b"\r\na\r\n"].concat();
        assert_eq!(chunked(&flood), Err(HttpError::Chunk));
        let drops = b"1;xxxx\r\na\r\n".repeat(MAX_CHUNK_EXCESS / 5 + 1);
        let mut reader = BodyReader::new(Framing::Chunked, usize::MAX).unwrap();
        assert_eq!(reader.read(&drops, &mut Vec::new()), Err(HttpError::Chunk));
    }

    #[test]
    fn case_30_a_body_ends_at_the_limit_however_it_comes() {
        assert_eq!(
            read(Framing::Length(LIMIT as u64 + 1), b"", &[]),
            Err(HttpError::BodyTooLarge(LIMIT))
        );
        assert_eq!(
            read(Framing::Length(u64::MAX), b"", &[]),
            Err(HttpError::BodyTooLarge(LIMIT))
        );
        for too_large in [
            &b"65\r\n"[..],
            b"ffffffffffffffff\r\n",
            b"1000000000000000\r\n",
            b"1\r\na\r\n64\r\n",
        ] {
            assert_eq!(
                chunked(too_large),
                Err(HttpError::BodyTooLarge(LIMIT)),
                "{too_large:?}"
            );
        }
        let full = [b"64\r\n", "x".repeat(LIMIT).as_bytes(), b"\r\n0\r\n\r\n"].concat();
        assert_eq!(chunked(&full).unwrap().0.len(), LIMIT);
    }

    proptest! {
        /// Chunks come out as they were put in, wherever the stream is cut.
        #[test]
        fn chunks_survive_any_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..8),
            cuts in prop::collection::vec(0usize..120, 0..6),
        ) {
            let mut input = Vec::new();
            for chunk in &chunks {
                input.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                input.extend_from_slice(chunk);
                input.extend_from_slice(b"\r\n");
            }
            input.extend_from_slice(b"0\r\n\r\n");
            let len = input.len();
            input.extend_from_slice(b"next");
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (body, used) = read(Framing::Chunked, &input, &cuts).unwrap();
            prop_assert_eq!((body, used), (chunks.concat(), len));
        }

        /// Arbitrary bytes mean the same wherever they are cut.
        #[test]
        fn cuts_change_nothing(
            input in prop::collection::vec(prop::sample::select(&b"0123aF;\r\n x"[..]), 0..60),
            cut in 0usize..60,
        ) {
            let run = |pieces: &[&[u8]]| {
                let mut reader = BodyReader::new(Framing::Chunked, 20).unwrap();
                let mut out = Vec::new();
                let mut used = 0;
                for piece in pieces {
                    used += reader.read(piece, &mut out)?.used;
                }
                Ok::<_, HttpError>((out, used, reader.is_done()))
            };
            let cut = cut.min(input.len());
            prop_assert_eq!(run(&[&input]), run(&[&input[..cut], &input[cut..]]));
        }
    }
}
