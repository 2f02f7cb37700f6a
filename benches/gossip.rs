//! Question: what does it cost to write a message as a parcel, and to read it?
//!
//! Unit: nanoseconds for each message of the mix of the load generator of 2020 (an entry: commit, ACK,
//! reveal, ACK, and 1.4 requests for missing messages). Compared with: the same protobuf message by
//! `prost`, whose derived type owns its payload; and, in docs/studies.md, with what factom-p2p
//! published for encoding 423,188 messages: 559 ms (V9), 179 ms (V10), 44 ms (V11).

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gossip::{
    Handshake, Identity, Parcel, ParcelKind, Version,
    codec::{Decoder, Encoder, Event},
};
use prost::Message;

const IDENTITY: Identity = Identity {
    network: 0x00f0_0b47,
    node_id: 1,
    listen_port: 8108,
};

/// Five entries with their requests: 27 messages of 234 bytes on average.
fn messages() -> Vec<Vec<u8>> {
    let sizes = [137, 256, 538, 256].repeat(5);
    let requests = [56; 7];
    sizes
        .into_iter()
        .chain(requests)
        .map(|size| (0..size).map(|i| i as u8).collect())
        .collect()
}

fn parcel(payload: &[u8]) -> Parcel<'_> {
    Parcel {
        kind: ParcelKind::Message,
        target: "<BROADCAST>",
        payload,
    }
}

/// An encoder that has declared its types, and the bytes of its handshake.
fn encoder(version: Version) -> (Encoder, Vec<u8>) {
    let handshake = Handshake {
        kind: ParcelKind::Handshake,
        identity: IDENTITY,
        version,
        nonce: 1,
        features: 0,
    };
    let (mut encoder, mut bytes) = (Encoder::new(version, IDENTITY), Vec::new());
    encoder.handshake(&handshake, &mut bytes);
    encoder.parcel(&parcel(b"first"), &mut bytes);
    (encoder, bytes)
}

const VERSIONS: [(&str, Version); 3] = [
    ("v9", Version::V9),
    ("v10", Version::V10),
    ("v11", Version::V11),
];

fn encode(c: &mut Criterion) {
    let messages = messages();
    let mut group = c.benchmark_group("gossip_encode");
    group.throughput(Throughput::Elements(messages.len() as u64));
    for (name, version) in VERSIONS {
        let (mut encoder, mut out) = encoder(version);
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                for message in &messages {
                    encoder.parcel(&parcel(black_box(message)), &mut out);
                }
                out.len()
            });
        });
    }
    let mut out = Vec::new();
    group.bench_function("v11_by_prost", |b| {
        b.iter(|| {
            out.clear();
            for message in &messages {
                let message = ByProst {
                    kind: 6,
                    payload: black_box(message).clone(),
                };
                out.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
                message.encode(&mut out).expect("a Vec takes everything");
            }
            out.len()
        });
    });
    group.finish();
}

fn decode(c: &mut Criterion) {
    let messages = messages();
    let mut group = c.benchmark_group("gossip_decode");
    group.throughput(Throughput::Elements(messages.len() as u64));
    for (name, version) in VERSIONS {
        let (mut encoder, greeting) = encoder(version);
        let mut stream = Vec::new();
        for message in &messages {
            encoder.parcel(&parcel(message), &mut stream);
        }
        let mut decoder = Decoder::new(1 << 20);
        decoder.push(&greeting);
        while let Ok(Some(event)) = decoder.next() {
            if matches!(event, Event::Handshake(_)) {
                decoder.speak(version);
            }
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                decoder.push(black_box(&stream));
                let mut bytes = 0;
                while let Ok(Some(Event::Parcel(parcel))) = decoder.next() {
                    bytes += parcel.payload.len();
                }
                bytes
            });
        });
    }
    let mut stream = Vec::new();
    for message in &messages {
        Encoder::new(Version::V11, IDENTITY).parcel(&parcel(message), &mut stream);
    }
    group.bench_function("v11_by_prost", |b| {
        b.iter(|| {
            let (mut rest, mut bytes) = (black_box(&stream[..]), 0);
            while let Some((length, after)) = rest.split_first_chunk() {
                let length = u32::from_be_bytes(*length) as usize;
                let message = ByProst::decode(&after[..length]).expect("a message");
                bytes += message.payload.len();
                rest = &after[length..];
            }
            bytes
        });
    });
    group.finish();
}

#[derive(Clone, PartialEq, Message)]
struct ByProst {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2));
    targets = encode, decode
}
criterion_main!(benches);
