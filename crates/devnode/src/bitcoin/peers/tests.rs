//! Peers that are too slow, on a clock of the test's.

use bitcoin::consensus::Decodable as _;
use bitcoin::hashes::Hash as _;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::Config;
use crate::host::Host;

/// The peer's end of a connection with a node.
struct Peer {
    stream: DuplexStream,
    app: Arc<Bitcoin>,
    session: JoinHandle<()>,
}

impl Peer {
    /// Room for so many bytes that neither side has read.
    fn connected(room: usize, config: &Config) -> Self {
        let (stream, own) = duplex(room);
        let stop = CancellationToken::new();
        let host = Arc::new(Host::new(config.clone(), Vec::new(), stop));
        let app = Arc::new(Bitcoin::new(&host));
        let served = Arc::clone(&app);
        let session = tokio::spawn(async move {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            let session = Session::new(&served, own, [address; 2]);
            let Err(Over) = session.run().await;
        });
        Self {
            stream,
            app,
            session,
        }
    }

    async fn send(&mut self, message: NetworkMessage) {
        let bytes = serialize(&RawNetworkMessage::new(Magic::REGTEST, message));
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn receive(&mut self) -> NetworkMessage {
        let mut bytes = vec![0; wire::p2p::HEAD_BYTES];
        self.stream.read_exact(&mut bytes).await.unwrap();
        let head = Head::read(&bytes, Magic::REGTEST.to_bytes(), MAX_MSG_SIZE);
        bytes.resize(head.unwrap().unwrap().bytes, 0);
        let rest = &mut bytes[wire::p2p::HEAD_BYTES..];
        self.stream.read_exact(rest).await.unwrap();
        let message = RawNetworkMessage::consensus_decode(&mut &bytes[..]);
        message.unwrap().into_payload()
    }

    async fn say_version(&mut self) {
        let nobody = Address::new(&SocketAddr::from(([0; 4], 0)), ServiceFlags::NONE);
        let mut version = VersionMessage::new(
            ServiceFlags::NONE,
            0,
            nobody.clone(),
            nobody,
            7,
            "/scripted:1/".into(),
            0,
        );
        version.relay = true;
        self.send(NetworkMessage::Version(version)).await;
        assert_eq!(self.receive().await.cmd(), "version");
        assert_eq!(self.receive().await, NetworkMessage::Verack);
    }

    async fn greet(&mut self) {
        self.say_version().await;
        self.send(NetworkMessage::Verack).await;
    }

    /// How long the session goes on from now.
    async fn left_after(&mut self) -> Duration {
        let began = Instant::now();
        (&mut self.session).await.unwrap();
        began.elapsed()
    }
}

const ROOM: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_finish_the_handshake_is_left_after_30_s() {
    let mut silent = Peer::connected(ROOM, &Config::bitcoin());
    assert_eq!(silent.left_after().await, HANDSHAKE_LIMIT);
    let mut half = Peer::connected(ROOM, &Config::bitcoin());
    half.say_version().await;
    assert_eq!(half.left_after().await, HANDSHAKE_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_left_when_it_answers_no_ping_and_kept_when_it_does() {
    let mut peer = Peer::connected(ROOM, &Config::bitcoin());
    peer.greet().await;
    let began = Instant::now();
    for _ in 0..3 {
        let NetworkMessage::Ping(nonce) = peer.receive().await else {
            panic!("nothing but pings is due");
        };
        peer.send(NetworkMessage::Pong(nonce)).await;
    }
    assert_eq!(
        began.elapsed(),
        3 * PING_INTERVAL,
        "longer than it may be silent"
    );
    assert_eq!(peer.left_after().await, SILENCE_LIMIT);
}

/// Bytes that make no message are no sign of life.
#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_waited_for_no_longer_than_none() {
    let mut peer = Peer::connected(ROOM, &Config::bitcoin());
    peer.greet().await;
    let began = Instant::now();
    let bytes = serialize(&RawNetworkMessage::new(
        Magic::REGTEST,
        NetworkMessage::Alert(vec![0; 1_000]),
    ));
    for byte in bytes.chunks(1).take(9) {
        peer.stream.write_all(byte).await.unwrap();
        tokio::time::sleep(SILENCE_LIMIT / 10).await;
    }
    peer.left_after().await;
    assert_eq!(began.elapsed(), SILENCE_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_left_after_5_minutes() {
    let mut peer = Peer::connected(1_000, &Config::bitcoin());
    peer.greet().await;
    for nonce in 0..40 {
        peer.send(NetworkMessage::Ping(nonce)).await;
    }
    assert_eq!(peer.left_after().await, SILENCE_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_announced_is_bounded_whatever_the_interval() {
    let mut config = Config::bitcoin();
    config.bitcoin.trickle = Duration::from_secs(3_600);
    let mut peer = Peer::connected(4 << 20, &config);
    peer.greet().await;
    let txid = |number: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Txid::from_byte_array(bytes)
    };
    // The first one waits for nothing; when it comes the handshake is over.
    peer.send(NetworkMessage::Ping(1)).await;
    assert_eq!(peer.receive().await, NetworkMessage::Pong(1));
    peer.app.announce(Announcement::Tx(txid(0)));
    let first = NetworkMessage::Inv(vec![Inventory::Transaction(txid(0))]);
    assert_eq!(peer.receive().await, first);
    let began = Instant::now();
    for number in 1..=MAX_INV_SIZE {
        peer.app.announce(Announcement::Tx(txid(number)));
    }
    let mut announced = 1;
    while announced <= MAX_INV_SIZE {
        let NetworkMessage::Inv(items) = peer.receive().await else {
            panic!("nothing but announcements is due");
        };
        assert_eq!(items[0], Inventory::Transaction(txid(announced)));
        assert!(items.len() <= ANNOUNCED_TOGETHER);
        announced += items.len();
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "it waited for no interval");
}
