//! Bitcoin nodes among peers: scripted ones that refuse, hang, announce and reject.

mod observer;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bitcoin::BlockHash;
use bitcoin::consensus::{Decodable as _, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_blockdata::Inventory;
use bitcoin::p2p::message_network::{Reject, RejectReason, VersionMessage};
use bitcoin::p2p::{Address, Magic, ServiceFlags};
use rpc::{
    ClientError, ConnectionError, ConnectionOptions, Endpoint, PeerInfo, PeerRejection, probe_peer,
};

use crate::peer::Peer;

const SIMNET: [u8; 4] = [0x16, 0x1c, 0x14, 0x12];
const REGTEST: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// A node's end of a connection.
struct Session {
    stream: TcpStream,
    magic: [u8; 4],
}

impl Session {
    fn send(&mut self, message: NetworkMessage) {
        let message = RawNetworkMessage::new(Magic::from_bytes(self.magic), message);
        // The other side may have gone.
        let _ = self.stream.write_all(&serialize(&message));
    }

    /// The next message; `None` when the other side has gone, or is of another network.
    fn receive(&mut self) -> Option<NetworkMessage> {
        let message = RawNetworkMessage::consensus_decode(&mut self.stream).ok()?;
        (message.magic().to_bytes() == self.magic).then(|| message.into_payload())
    }

    /// The handshake as btcd does it; what the other side said of itself.
    fn greet(&mut self, takes_txs: bool) -> Option<VersionMessage> {
        let NetworkMessage::Version(theirs) = self.receive()? else {
            return None;
        };
        let nobody = Address::new(&SocketAddr::from(([0; 4], 0)), ServiceFlags::NONE);
        self.send(NetworkMessage::Version(VersionMessage {
            version: 70_016,
            services: ServiceFlags::NETWORK,
            timestamp: 0,
            receiver: nobody.clone(),
            sender: nobody,
            nonce: 7,
            user_agent: "/btcwire:0.5.0/scripted:1/".into(),
            start_height: 5,
            relay: takes_txs,
        }));
        self.send(NetworkMessage::Verack);
        matches!(self.receive()?, NetworkMessage::Verack).then_some(theirs)
    }
}

/// A node that does this with each connection; its address.
fn node(magic: [u8; 4], serve: impl Fn(Session) + Send + Sync + 'static) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(Session { stream, magic }));
        }
    });
    format!("bitcoin-p2p://{address}").parse().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn probe(endpoint: &Endpoint, limit: Duration) -> Result<PeerInfo, ClientError> {
    runtime().block_on(probe_peer(endpoint, limit))
}

const LONG: Duration = Duration::from_secs(60);

/// Answers pings until the other side goes.
fn answer_pings(mut session: Session) {
    while let Some(message) = session.receive() {
        if let NetworkMessage::Ping(nonce) = message {
            session.send(NetworkMessage::Pong(nonce));
        }
    }
}

#[test]
fn the_network_of_a_node_is_found_by_trying_those_that_are_known() {
    for (magic, name) in [(REGTEST, "regtest"), (SIMNET, "simnet")] {
        let endpoint = node(magic, |mut session| {
            if session.greet(true).is_some() {
                session.send(NetworkMessage::SendHeaders);
                session.send(NetworkMessage::FeeFilter(5_000));
                answer_pings(session);
            }
        });
        let info = probe(&endpoint, LONG).unwrap();
        assert_eq!((info.network.name, info.height), (name, 5));
        assert_eq!(info.fee_filter, Some(5_000));
        assert!(info.user_agent.contains("scripted"), "{info:?}");
    }
}

#[test]
fn a_node_that_ends_every_connection_may_be_on_another_network_or_have_banned_us() {
    let tried = Arc::new(AtomicU64::new(0));
    let endpoint = {
        let tried = Arc::clone(&tried);
        node(REGTEST, move |_| {
            tried.fetch_add(1, Ordering::SeqCst);
        })
    };
    let text = probe(&endpoint, LONG).unwrap_err().to_string();
    assert!(
        text.contains(
            "before its version message: it is on another network, has banned this address"
        ),
        "{text}"
    );
    assert!(
        text.contains("Tried as a peer of regtest, simnet, Bitcoin Cash regtest"),
        "{text}"
    );
    assert_eq!(tried.load(Ordering::SeqCst), 3);
    let endpoint = node(REGTEST, |mut session| {
        // Banned after the version, as btcd's handleAddPeerMsg does.
        session.receive();
        session.send(NetworkMessage::Version(VersionMessage {
            user_agent: String::new(),
            ..own_version()
        }));
    });
    let text = probe(&endpoint, LONG).unwrap_err().to_string();
    assert!(
        text.contains("another network") || text.contains("in the middle of the handshake"),
        "{text}"
    );
}

fn own_version() -> VersionMessage {
    let nobody = Address::new(&SocketAddr::from(([0; 4], 0)), ServiceFlags::NONE);
    VersionMessage::new(
        ServiceFlags::NETWORK,
        0,
        nobody.clone(),
        nobody,
        1,
        String::new(),
        0,
    )
}

#[test]
fn a_node_that_never_finishes_the_handshake_is_told_of_with_how_long_it_was_given() {
    let endpoint = node(REGTEST, |mut session| while session.receive().is_some() {});
    let text = probe(&endpoint, Duration::from_millis(50))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("did not finish the handshake of peers in 0.05 s"),
        "{text}"
    );
}

#[test]
fn a_node_that_takes_no_transactions_is_refused_and_a_web_server_is_no_node() {
    let endpoint = node(REGTEST, |mut session| {
        session.greet(false);
        answer_pings(session);
    });
    let text = probe(&endpoint, LONG).unwrap_err().to_string();
    assert!(text.contains("start it without --blocksonly"), "{text}");
    let endpoint = node(REGTEST, |mut session| {
        let _ = session.stream.read(&mut [0; 10]);
        let _ = session
            .stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let text = probe(&endpoint, LONG).unwrap_err().to_string();
    assert!(text.contains("another network"), "{text}");
}

/// The connection of a sender.
#[test]
fn a_sender_greets_answers_pings_and_hears_what_is_rejected_and_nothing_else() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let endpoint = {
        let heard = Arc::clone(&heard);
        node(SIMNET, move |mut session| {
            let theirs = session.greet(true).unwrap();
            assert!(!theirs.relay, "a sender wants no announcements");
            session.send(NetworkMessage::Ping(77));
            session.send(NetworkMessage::Inv(vec![Inventory::Block(
                BlockHash::all_zeros(),
            )]));
            session.send(NetworkMessage::Reject(Reject {
                message: "tx".into(),
                ccode: RejectReason::Fee,
                reason: "too little".into(),
                hash: bitcoin::hashes::sha256d::Hash::all_zeros(),
            }));
            while let Some(message) = session.receive() {
                heard.lock().unwrap().push(message.cmd());
            }
        })
    };
    let options = ConnectionOptions {
        magic: SIMNET,
        ..ConnectionOptions::default()
    };
    let mut peer = Peer::open_with(&endpoint.to_string(), &options);
    while peer.received.is_empty() || heard.lock().unwrap().is_empty() {
        peer.turn().unwrap();
        if !peer.received.is_empty() {
            break;
        }
    }
    let (_, rejected) = &peer.received[0];
    let rejected = PeerRejection::read(rejected).unwrap();
    assert_eq!((rejected.code, &*rejected.reason), (0x42, "too little"));
    let mut message = Vec::new();
    rpc::write_peer_tx(&mut message, SIMNET, &[7; 100]);
    let end = peer.connection.queue(&message);
    while peer.connection.flush().unwrap().written_to < end {}
    while !heard.lock().unwrap().contains(&"pong") {
        thread::yield_now();
    }
    assert_eq!(peer.connection.counters().pings, 1);
}

#[test]
fn a_sender_of_another_network_a_message_too_large_and_a_damaged_one_end_the_connection() {
    let broken = |magic: [u8; 4], bytes: &'static [u8]| {
        let endpoint = node(magic, move |mut session| {
            if session.greet(true).is_none() {
                return;
            }
            let _ = session.stream.write_all(bytes);
            while session.receive().is_some() {}
        });
        let mut peer = Peer::open(&endpoint.to_string());
        loop {
            if let Err(error) = peer.turn() {
                return error;
            }
        }
    };
    let error = broken(SIMNET, b"");
    assert!(
        matches!(error, ConnectionError::Handshake { .. }),
        "{error:?}"
    );
    let error = broken(
        REGTEST,
        b"\xfa\xbf\xb5\xdablock\0\0\0\0\0\0\0\xff\xff\xff\x7f\0\0\0\0",
    );
    assert!(
        matches!(
            error,
            ConnectionError::TooLarge {
                limit: 5_000_000,
                ..
            }
        ),
        "{error:?}"
    );
    let error = broken(
        REGTEST,
        b"\xfa\xbf\xb5\xdaping\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08",
    );
    let text = error.to_string();
    assert!(
        text.contains("does not speak Bitcoin's peer-to-peer protocol"),
        "{text}"
    );
}
