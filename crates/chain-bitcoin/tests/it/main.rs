//! Bitcoin nodes among peers: scripted ones that refuse, hang and announce.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "fixture")]
mod fixture;
mod observer;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bitcoin::consensus::{Decodable as _, serialize};
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, Magic, ServiceFlags};
use chain_bitcoin::{PeerInfo, probe_peer};
use rpc::{ClientError, Endpoint};

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
