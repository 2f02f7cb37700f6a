//! Any parcels, cut anywhere, are read as they were written; and no bytes are too strange.

use gossip::{
    Handshake, Identity, Parcel, ParcelKind, Version,
    codec::{CodecError, Decoder, Encoder, Event},
};
use proptest::prelude::*;

const IDENTITY: Identity = Identity {
    network: 7,
    node_id: 0xffff_ffff,
    listen_port: 8108,
};

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V9), Just(Version::V10), Just(Version::V11)]
}

fn parcels() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let length = prop_oneof![
        1..40_usize,
        120..140_usize,
        250..260_usize,
        16_380..16_390_usize
    ];
    let payload = (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    prop::collection::vec((0..10_u64, payload), 0..12)
}

fn greeting(version: Version, kind: ParcelKind) -> Handshake {
    Handshake {
        kind,
        identity: IDENTITY,
        version,
        nonce: 0x0102_0304_0506_0708,
        features: 0,
    }
}

/// Reads a stream that arrives in pieces of these lengths, over and over.
fn read(stream: &[u8], pieces: &[usize], version: Version) -> Result<Vec<String>, CodecError> {
    let (mut decoder, mut read, mut rest) = (Decoder::new(1 << 20), Vec::new(), stream);
    for length in pieces.iter().cycle() {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        rest = after;
        decoder.push(piece);
        loop {
            match decoder.next()? {
                Some(Event::Handshake(handshake)) => {
                    read.push(format!("{handshake:?}"));
                    decoder.speak(version);
                }
                Some(Event::Parcel(parcel)) => read.push(format!("{parcel:?}")),
                None => break,
            }
        }
        if rest.is_empty() {
            assert_eq!(decoder.waiting(), 0);
            return Ok(read);
        }
    }
    unreachable!("there is a piece")
}

proptest! {
    #[test]
    fn any_parcels_cut_anywhere_are_read_as_they_were_written(
        version in version(),
        parcels in parcels(),
        pieces in prop::collection::vec(1..2_000_usize, 1..20),
    ) {
        let (mut encoder, mut stream) = (Encoder::new(version, IDENTITY), Vec::new());
        let mut sent = greeting(version, ParcelKind::Handshake);
        encoder.handshake(&sent, &mut stream);
        if version == Version::V9 {
            sent.kind = ParcelKind::PeerRequest;
        }
        let mut written = vec![format!("{sent:?}")];
        for (code, payload) in &parcels {
            let kind = ParcelKind::from_code(*code).unwrap();
            let target = if version == Version::V9 { "<RANDOMPEER>" } else { "" };
            let parcel = Parcel { kind, target, payload };
            encoder.parcel(&parcel, &mut stream);
            written.push(format!("{parcel:?}"));
        }
        prop_assert_eq!(read(&stream, &pieces, version), Ok(written));
    }

    #[test]
    fn a_v10_dialler_that_is_answered_in_v9_goes_on_in_v9_without_declaring_its_types_again(
        parcels in parcels(),
    ) {
        let (mut encoder, mut stream) = (Encoder::new(Version::V10, IDENTITY), Vec::new());
        encoder.handshake(&greeting(Version::V10, ParcelKind::Handshake), &mut stream);
        encoder.speak(Version::V9);
        for (code, payload) in &parcels {
            encoder.parcel(&Parcel::new(ParcelKind::from_code(*code).unwrap(), payload), &mut stream);
        }
        let read = read(&stream, &[stream.len()], Version::V9).unwrap();
        prop_assert_eq!(read.len(), parcels.len() + 1);
    }

    #[test]
    fn strange_bytes_are_refused_or_awaited_and_never_buffered_beyond_what_arrived(
        protobuf: bool,
        greeted: bool,
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        cut in 0..600_usize,
    ) {
        let version = if protobuf { Version::V11 } else { Version::V10 };
        let mut stream = Vec::new();
        if greeted {
            let sent = greeting(version, ParcelKind::Handshake);
            Encoder::new(version, IDENTITY).handshake(&sent, &mut stream);
        } else if protobuf {
            stream.extend_from_slice(b"pbuf");
        }
        stream.extend_from_slice(&bytes);
        let cut = cut.min(stream.len());
        let outcome = |pieces: &[&[u8]]| {
            let (mut decoder, mut arrived) = (Decoder::new(1 << 20), 0);
            for piece in pieces {
                arrived += piece.len();
                decoder.push(piece);
                while let Some(event) = decoder.next()? {
                    if matches!(event, Event::Handshake(_)) {
                        decoder.speak(version);
                    }
                }
                assert!(decoder.waiting() <= arrived);
            }
            Ok::<_, CodecError>(decoder.waiting())
        };
        prop_assert_eq!(outcome(&[&stream]), outcome(&[&stream[..cut], &stream[cut..]]));
    }
}

/// A stream that has greeted, and then says this.
fn after_greeting(version: Version, bytes: &[u8]) -> Result<Option<String>, CodecError> {
    let (mut stream, mut decoder) = (Vec::new(), Decoder::new(1_000));
    let sent = greeting(version, ParcelKind::Handshake);
    Encoder::new(version, IDENTITY).handshake(&sent, &mut stream);
    decoder.push(&stream);
    assert!(matches!(decoder.next(), Ok(Some(Event::Handshake(_)))));
    decoder.speak(version);
    decoder.push(bytes);
    decoder
        .next()
        .map(|event| event.map(|event| format!("{event:?}")))
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_arrive() {
    let too_long = |length| {
        Err(CodecError::TooLong {
            length,
            limit: 1_000,
        })
    };
    let announced = 128_u32 << 20;
    assert_eq!(
        after_greeting(Version::V11, &announced.to_be_bytes()),
        too_long(u64::from(announced))
    );
    let gob = [&[0xfc][..], &announced.to_be_bytes()].concat();
    assert_eq!(
        after_greeting(Version::V10, &gob),
        too_long(u64::from(announced))
    );
    // Within the limit it is awaited, and nothing is reserved for it.
    assert_eq!(
        after_greeting(Version::V11, &900_u32.to_be_bytes()),
        Ok(None)
    );
}

#[test]
fn a_parcel_without_payload_or_of_an_unknown_type_ends_the_link() {
    assert_eq!(
        after_greeting(Version::V11, &[0, 0, 0, 2, 8, 6]),
        Err(CodecError::Empty(ParcelKind::Message))
    );
    assert_eq!(
        after_greeting(Version::V11, &[0, 0, 0, 5, 8, 10, 0x12, 1, 7]),
        Err(CodecError::UnknownKind(10))
    );
    assert_eq!(
        after_greeting(Version::V11, &[0, 0, 0, 5, 8, 9, 0x12, 1, 7])
            .unwrap()
            .unwrap(),
        "Parcel(Parcel { kind: Refusal, target: \"\", payload: [7] })"
    );
}

#[test]
fn a_v9_parcel_whose_header_lies_about_its_payload_ends_the_link() {
    let stream = |payload: &[u8]| {
        let (mut encoder, mut out) = (Encoder::new(Version::V9, IDENTITY), Vec::new());
        encoder.handshake(
            &greeting(Version::V9, ParcelKind::Handshake),
            &mut Vec::new(),
        );
        encoder.parcel(&Parcel::new(ParcelKind::Message, payload), &mut out);
        out
    };
    let mut changed = stream(b"payload");
    let last = changed.len() - 2;
    assert!(after_greeting(Version::V9, &changed).unwrap().is_some());
    changed[last] ^= 1;
    assert!(matches!(
        after_greeting(Version::V9, &changed),
        Err(CodecError::Checksum { .. })
    ));
}

#[test]
fn a_gob_stream_that_declares_a_type_twice_ends_the_link_as_gos_does() {
    let (mut encoder, mut stream) = (Encoder::new(Version::V9, IDENTITY), Vec::new());
    encoder.parcel(&Parcel::new(ParcelKind::Message, b"payload"), &mut stream);
    assert_eq!(
        after_greeting(Version::V9, &stream),
        Err(CodecError::Gob("a type is declared twice"))
    );
}
