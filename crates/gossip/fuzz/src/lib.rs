//! What the targets of the three codecs have in common.

use gossip::{
    Handshake, Identity, ParcelKind, Version,
    codec::{CodecError, Decoder, Encoder, Event},
};

const LIMIT: usize = 4_096;

/// A stream means the same however it is cut, never yields more than the limit, and is never buffered
/// beyond what arrived. With `greeted` a good handshake comes before the bytes.
pub fn stream(version: Version, (bytes, cut, greeted): (Vec<u8>, u16, bool)) {
    let mut stream = Vec::new();
    if greeted {
        let identity = Identity {
            network: 7,
            node_id: 1,
            listen_port: 8108,
        };
        let handshake = Handshake {
            kind: ParcelKind::Handshake,
            identity,
            version,
            nonce: 1,
            features: 0,
        };
        Encoder::new(version, identity).handshake(&handshake, &mut stream);
    }
    stream.extend_from_slice(&bytes);
    let cut = usize::from(cut).min(stream.len());
    let read = |pieces: &[&[u8]]| {
        let (mut decoder, mut read, mut arrived) = (Decoder::new(LIMIT), Vec::new(), 0);
        for piece in pieces {
            decoder.push(piece);
            arrived += piece.len();
            loop {
                match decoder.next()? {
                    None => break,
                    Some(Event::Handshake(handshake)) => {
                        read.push(format!("{handshake:?}"));
                        decoder.speak(version);
                    }
                    Some(Event::Parcel(parcel)) => {
                        assert!(parcel.payload.len() <= LIMIT + (4 << 10));
                        read.push(format!("{parcel:?}"));
                    }
                }
            }
            assert!(decoder.waiting() <= arrived);
        }
        Ok::<_, CodecError>(read)
    };
    assert_eq!(read(&[&stream]), read(&[&stream[..cut], &stream[cut..]]));
}
