//! The built-in node among peers that are scripted: those that break the protocol, and those that ask for much.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use bitcoin::consensus::{Decodable as _, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::p2p::message::{CommandString, MAX_INV_SIZE, NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_blockdata::{GetHeadersMessage, Inventory};
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, Magic, ServiceFlags};
use bitcoin::{Block, BlockHash, Network};
use devnode::AdmissionMode;
use serde_json::json;

use super::client::{Client, config};
use super::wallet::{FEE, SUBSIDY, Wallet, hex};
use crate::support::{Running, start};

/// A node that listens for peers.
async fn node(wallet: &Wallet) -> (Running, Client, SocketAddr) {
    let mut config = config(wallet, AdmissionMode::Serial);
    config.bitcoin.p2p_listen = Some(([127, 0, 0, 1], 0).into());
    let running = start(config).await;
    let client = Client::new(running.node.rpc_address());
    let peers = running.node.peers_address().unwrap();
    (running, client, peers)
}

/// A peer's end of a connection.
struct Peer(TcpStream);

fn bytes(message: NetworkMessage) -> Vec<u8> {
    serialize(&RawNetworkMessage::new(Magic::REGTEST, message))
}

impl Peer {
    fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    /// Connects, and finishes the handshake.
    fn greeted(address: SocketAddr) -> Self {
        let mut peer = Self::connect(address);
        peer.send(version());
        assert_eq!(peer.receive().cmd(), "version");
        assert_eq!(peer.receive(), NetworkMessage::Verack);
        peer.send(NetworkMessage::Verack);
        peer
    }

    fn send(&mut self, message: NetworkMessage) {
        self.0.write_all(&bytes(message)).unwrap();
    }

    fn receive(&mut self) -> NetworkMessage {
        let message = RawNetworkMessage::consensus_decode(&mut self.0).unwrap();
        message.into_payload()
    }

    /// The node is there, and has taken all that was sent before.
    fn is_served(&mut self) {
        self.send(NetworkMessage::Ping(99));
        assert_eq!(self.receive(), NetworkMessage::Pong(99));
    }

    /// The node ends the connection, and has sent nothing more.
    fn ends(mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            // What it had not read is lost with the connection.
            Ok(_) => assert_eq!(rest, [0; 0]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
}

fn version() -> NetworkMessage {
    let nobody = Address::new(&SocketAddr::from(([0; 4], 0)), ServiceFlags::NONE);
    let agent = "/scripted:1/".to_owned();
    let mut version =
        VersionMessage::new(ServiceFlags::NONE, 0, nobody.clone(), nobody, 7, agent, 0);
    // Transactions are announced to it.
    version.relay = true;
    NetworkMessage::Version(version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_begins_without_its_version_or_repeats_the_handshake_is_left() {
    let (running, _, address) = node(&Wallet::new(20)).await;
    let mut hasty = Peer::connect(address);
    hasty.send(NetworkMessage::Ping(1));
    hasty.ends();
    for again in [version(), NetworkMessage::Verack] {
        let mut peer = Peer::greeted(address);
        peer.send(again);
        peer.ends();
    }
    let mut early = Peer::connect(address);
    early.send(version());
    assert_eq!(early.receive().cmd(), "version");
    assert_eq!(early.receive(), NetworkMessage::Verack);
    early.send(NetworkMessage::Ping(1));
    early.ends();
    Peer::greeted(address).is_served();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_network_a_message_too_large_and_a_damaged_one_end_the_connection_and_no_other() {
    let (running, _, address) = node(&Wallet::new(21)).await;
    let mut bystander = Peer::greeted(address);
    let sends = |bytes: &[u8]| {
        let mut peer = Peer::greeted(address);
        peer.0.write_all(bytes).unwrap();
        peer.ends();
    };
    sends(b"GET / HTTP/1.1\r\n\r\n");
    let simnet = Magic::from_bytes([0x16, 0x1c, 0x14, 0x12]);
    sends(&serialize(&RawNetworkMessage::new(
        simnet,
        NetworkMessage::Ping(1),
    )));
    let mut head = bytes(NetworkMessage::Ping(1));
    head.truncate(24);
    // Refused for what its head says: nothing of it is waited for.
    head[16..20].copy_from_slice(&5_000_001_u32.to_le_bytes());
    sends(&head);
    let mut damaged = bytes(NetworkMessage::Ping(1));
    damaged[30] ^= 1;
    sends(&damaged);
    // A list that says that it has 2^64 - 1 entries, with the right checksum.
    let endless = NetworkMessage::Unknown {
        command: CommandString::try_from_static("inv").unwrap(),
        payload: vec![0xff; 9],
    };
    sends(&bytes(endless));
    bystander.is_served();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_messages_are_ignored_and_slow_ones_are_waited_for() {
    let (running, _, address) = node(&Wallet::new(22)).await;
    let mut peer = Peer::greeted(address);
    for command in ["nonsense", "packetinfo12", "x"] {
        peer.send(NetworkMessage::Unknown {
            command: CommandString::try_from(command.to_owned()).unwrap(),
            payload: vec![7; 100],
        });
    }
    peer.send(NetworkMessage::SendHeaders);
    peer.is_served();
    peer.0.set_nodelay(true).unwrap();
    for byte in bytes(NetworkMessage::Ping(5)) {
        peer.0.write_all(&[byte]).unwrap();
    }
    assert_eq!(peer.receive(), NetworkMessage::Pong(5));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_blocks_are_served_and_what_is_unknown_is_named() {
    let (running, client, address) = node(&Wallet::new(24)).await;
    client.generate(101);
    let mut peer = Peer::greeted(address);
    let unknown = BlockHash::all_zeros();
    let genesis = bitcoin::blockdata::constants::genesis_block(Network::Regtest).block_hash();
    peer.send(NetworkMessage::GetHeaders(GetHeadersMessage::new(
        vec![unknown, genesis],
        unknown,
    )));
    let NetworkMessage::Headers(headers) = peer.receive() else {
        panic!("headers were requested");
    };
    let hashes: Vec<BlockHash> = headers.iter().map(|header| header.block_hash()).collect();
    let tip = client.call("getbestblockhash", &json!([]));
    assert_eq!((hashes.len(), json!(hashes[100].to_string())), (101, tip));
    let mut wanted: Vec<Inventory> = hashes.iter().map(|hash| Inventory::Block(*hash)).collect();
    wanted.insert(50, Inventory::Block(unknown));
    peer.send(NetworkMessage::GetData(wanted));
    for hash in hashes {
        let NetworkMessage::Block(block) = peer.receive() else {
            panic!("a block was requested");
        };
        assert_eq!(block.block_hash(), hash);
        assert!(block.check_merkle_root());
    }
    let missing = NetworkMessage::NotFound(vec![Inventory::Block(unknown)]);
    assert_eq!(peer.receive(), missing);
    let too_many = vec![Inventory::Block(unknown); MAX_INV_SIZE + 1];
    peer.send(NetworkMessage::GetData(too_many));
    peer.ends();
    running.stop().await;
}

/// Observers see a transaction announced when it is accepted, and the block that has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_and_blocks_are_announced() {
    let wallet = Wallet::new(23);
    let (running, client, address) = node(&wallet).await;
    let coins = client.generate(101);
    let mut peer = Peer::greeted(address);
    peer.is_served();
    let tx = wallet.pay(&coins[..1], &[SUBSIDY - FEE]);
    client.call("sendrawtransaction", &json!([hex(&tx)]));
    let announced = NetworkMessage::Inv(vec![Inventory::Transaction(tx.compute_txid())]);
    assert_eq!(peer.receive(), announced);
    client.generate(1);
    let tip = client.call("getbestblockhash", &json!([]));
    let tip: BlockHash = tip.as_str().unwrap().parse().unwrap();
    assert_eq!(
        peer.receive(),
        NetworkMessage::Inv(vec![Inventory::Block(tip)])
    );
    running.stop().await;
}

/// What a peer asked for and does not take waits in its own connection: others are served, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_takes_nothing_for_a_while_holds_up_nobody_and_gets_all_of_it() {
    const ASKED: usize = 40_000;
    let (running, client, address) = node(&Wallet::new(25)).await;
    client.generate(1);
    let tip = client.call("getbestblockhash", &json!([]));
    let tip: BlockHash = tip.as_str().unwrap().parse().unwrap();
    let mut slow = Peer::greeted(address);
    // 8 MB: more than the sockets' buffers hold.
    slow.send(NetworkMessage::GetData(vec![Inventory::Block(tip); ASKED]));
    Peer::greeted(address).is_served();
    client.generate(1);
    for _ in 0..ASKED {
        let NetworkMessage::Block(block) = slow.receive() else {
            panic!("blocks come first");
        };
        assert_eq!(Block::block_hash(&block), tip);
    }
    let NetworkMessage::Inv(announced) = slow.receive() else {
        panic!("then the block that was mined meanwhile");
    };
    assert_eq!(announced.len(), 1);
    slow.is_served();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_goes_in_the_middle_of_anything_leaves_its_place_to_others() {
    let wallet = Wallet::new(26);
    let mut config = config(&wallet, AdmissionMode::Parallel);
    config.bitcoin.p2p_listen = Some(([127, 0, 0, 1], 0).into());
    config.rpc.max_open_connections = 1;
    let running = start(config).await;
    let address = running.node.peers_address().unwrap();
    // Each is served once the one before has ended.
    drop(Peer::connect(address));
    let mut half = Peer::connect(address);
    half.0.write_all(&bytes(version())[..30]).unwrap();
    drop(half);
    let mut cut = Peer::greeted(address);
    cut.0
        .write_all(&bytes(NetworkMessage::Ping(1))[..20])
        .unwrap();
    cut.0.shutdown(Shutdown::Write).unwrap();
    cut.ends();
    let mut gone = Peer::greeted(address);
    gone.send(NetworkMessage::GetData(vec![
        Inventory::Block(
            BlockHash::all_zeros()
        );
        1_000
    ]));
    drop(gone);
    Peer::greeted(address).is_served();
    running.stop().await;
}
