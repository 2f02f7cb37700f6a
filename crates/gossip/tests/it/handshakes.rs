//! Who links with whom, in which version, and who does not.

use gossip::{CloseReason, Endpoint, Node, Origin, Output, PeerId, Routing, Settings, Version};
use pacing::Nanos;

use crate::mesh::{Mesh, endpoint};

fn settings(version: Version) -> Settings {
    Settings {
        version,
        ..Settings::default()
    }
}

fn versions(mesh: &Mesh, node: usize) -> Vec<u16> {
    let number = |version: Version| version.number();
    mesh.nodes[node]
        .peers()
        .filter_map(|peer| peer.version.map(number))
        .collect()
}

#[test]
fn the_dialler_proposes_and_a_v9_node_takes_v10_down() {
    use Version::{V9, V10, V11};
    for (dialler, acceptor, expected) in [
        (V9, V9, 9),
        (V9, V10, 9),
        (V9, V11, 9),
        (V10, V9, 9),
        (V10, V10, 10),
        (V10, V11, 10),
        // As in factom-p2p: the node that is dialled in V11 answers in V11.
        (V11, V9, 11),
        (V11, V10, 11),
        (V11, V11, 11),
    ] {
        let mut mesh = Mesh::new(vec![settings(dialler), settings(acceptor)]);
        mesh.connect(0, 1);
        mesh.settle();
        assert_eq!(
            (versions(&mesh, 0), versions(&mesh, 1)),
            (vec![expected], vec![expected])
        );
        for number in 0..3 {
            mesh.publish(0, &[number], Routing::RandomPeer);
            mesh.publish(1, &[number + 100], Routing::RandomPeer);
        }
        mesh.settle();
        assert_eq!(mesh.delivered.iter().map(Vec::len).sum::<usize>(), 12);
    }
}

#[test]
fn versions_below_the_minimum_and_other_networks_are_refused() {
    let mut strict = settings(Version::V11);
    strict.oldest_version = Version::V10;
    let mut mesh = Mesh::new(vec![settings(Version::V9), strict]);
    mesh.connect(0, 1);
    mesh.settle();
    assert_eq!(mesh.closed, [(1, CloseReason::OldVersion(Version::V9))]);

    let mut foreign = settings(Version::V11);
    foreign.identity.network = 5;
    let mut mesh = Mesh::new(vec![settings(Version::V11), foreign]);
    mesh.connect(0, 1);
    mesh.settle();
    let reason = CloseReason::WrongNetwork {
        theirs: 0x00f0_0b47,
        ours: 5,
    };
    assert_eq!(mesh.closed, [(1, reason)]);
    assert!(mesh.nodes.iter().all(|node| node.peers().count() == 0));
}

#[test]
fn a_node_that_dials_itself_notices_and_never_tries_again() {
    for version in [Version::V9, Version::V10, Version::V11] {
        let mut settings = settings(version);
        settings.dialled = vec![endpoint(0)];
        let mut mesh = Mesh::new(vec![settings]);
        mesh.until(30);
        // Both ends of the one connection.
        let noticed = (0, CloseReason::SelfDial);
        assert_eq!(mesh.closed, [noticed.clone(), noticed], "{version:?}");
        assert_eq!(mesh.nodes[0].peers().count(), 0);
    }
}

#[test]
fn two_nodes_that_dial_each_other_at_once_keep_one_link_and_the_same_one() {
    for version in [Version::V10, Version::V11] {
        let mut mesh = Mesh::new(vec![settings(version); 2]);
        mesh.connect(0, 1);
        mesh.connect(1, 0);
        mesh.settle();
        assert!(
            mesh.nodes.iter().all(|node| node.peers().count() == 1),
            "{:?}",
            mesh.closed
        );
        mesh.publish(0, b"x", Routing::RandomPeer);
        mesh.settle();
        assert_eq!(mesh.delivered, [vec![&b"x"[..]], vec![b"x"]]);
    }
}

#[test]
fn silence_brings_a_ping_and_a_pong() {
    let mut mesh = Mesh::full(2, &settings(Version::V11));
    mesh.until(14);
    assert_eq!(mesh.sum(|counts| counts.parcels_read), 0);
    mesh.until(16);
    assert_eq!(
        mesh.sum(|counts| counts.parcels_read),
        4,
        "two pings, two pongs"
    );
}

#[test]
fn connections_without_a_handshake_are_bounded_and_short() {
    let mut node = Node::new(settings(Version::V11), 1);
    for number in 0..10_000 {
        node.on_connected(
            Nanos::ZERO,
            PeerId(number),
            Origin::Accepted("10.0.0.1".to_owned()),
        );
    }
    let closed = std::iter::from_fn(|| node.poll_output()).count();
    assert_eq!((closed, node.peers().count()), (10_000 - 64, 64));
    node.on_timeout(Nanos::from_secs(5));
    let closes = std::iter::from_fn(|| node.poll_output()).filter(|output| {
        matches!(
            output,
            Output::Close {
                reason: CloseReason::NoHandshake,
                ..
            }
        )
    });
    assert_eq!(closes.count(), 64);
    assert_eq!(node.peers().count(), 0);
}

#[test]
fn a_garbled_link_is_closed_and_the_others_go_on() {
    let mut mesh = Mesh::full(3, &settings(Version::V11));
    let peer = mesh.nodes[0].peers().next().unwrap().id;
    mesh.nodes[0].on_bytes(mesh.now, peer, &[0xff; 64]);
    mesh.settle();
    assert!(
        matches!(mesh.closed[..], [(0, CloseReason::Malformed(_))]),
        "{:?}",
        mesh.closed
    );
    mesh.publish(0, b"x", Routing::RandomPeer);
    mesh.settle();
    assert!(mesh.delivered.iter().all(|delivered| delivered.len() == 1));
}

#[test]
fn an_endpoint_that_is_not_up_yet_is_dialled_again_and_again() {
    let absent: Endpoint = "127.0.0.1:10999".parse().unwrap();
    let mut node = Node::new(
        Settings {
            dialled: vec![absent],
            ..settings(Version::V11)
        },
        1,
    );
    let dials = (0..10).map(|second| {
        node.on_timeout(Nanos::from_secs(second));
        std::iter::from_fn(|| node.poll_output()).count()
    });
    assert_eq!(dials.sum::<usize>(), 10);
}
