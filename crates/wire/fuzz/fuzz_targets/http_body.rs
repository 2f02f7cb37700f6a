//! A chunked body means the same however it is cut, and never exceeds its bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::http::{BodyReader, Framing};

const LIMIT: usize = 512;

fuzz_target!(|input: (Vec<u8>, u16)| {
    let (bytes, cut) = input;
    let cut = usize::from(cut).min(bytes.len());
    let read = |pieces: &[&[u8]]| {
        let mut reader = BodyReader::new(Framing::Chunked, LIMIT)?;
        let (mut out, mut used) = (Vec::new(), 0);
        for piece in pieces {
            used += reader.read(piece, &mut out)?.used;
        }
        assert!(out.len() <= LIMIT);
        Ok::<_, wire::http::HttpError>((out, used, reader.is_done()))
    };
    assert_eq!(read(&[&bytes]), read(&[&bytes[..cut], &bytes[cut..]]));
});
