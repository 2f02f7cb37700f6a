//! Who links with whom, in which version, and who does not.

use gossip::{
    CloseReason, Endpoint, Node, Origin, Output, PeerId, Peering, Routing, Settings, Version,
};
use pacing::Nanos;

use crate::mesh::{Mesh, endpoint};

fn settings(version: Version) -> Settings {
    Settings {
        version,
        peering: Peering::fixed(Vec::new()),
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
        // As in factom-p2p: whoever is dialled in V11 answers in V11.
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
        settings.peering = Peering::fixed(vec![endpoint(0)]);
        let mut mesh = Mesh::new(vec![settings]);
        mesh.until(30);
        // Both ends of the one connection.
        let noticed = (0, CloseReason::SelfDial);
        assert_eq!(mesh.closed, [noticed.clone(), noticed], "{version:?}");
        assert_eq!(mesh.nodes[0].peers().count(), 0);
    }
}

#[test]
fn a_full_node_refuses_and_names_others_which_the_dialler_tries() {
    for version in [Version::V9, Version::V10, Version::V11] {
        let mut full = settings(version);
        full.peering.most = 1;
        let mut seeker = settings(version);
        seeker.peering = Peering {
            accept_every: Nanos::ZERO,
            ..Peering::capped(vec![endpoint(0)])
        };
        let mut mesh = Mesh::new(vec![full, settings(version), seeker]);
        mesh.connect(1, 0);
        mesh.settle();
        mesh.until(5);
        assert!(
            mesh.closed.contains(&(2, CloseReason::Refused)),
            "{version:?}: {:?}",
            mesh.closed
        );
        let linked: Vec<_> = mesh.nodes[2].peers().map(|peer| peer.endpoint).collect();
        assert_eq!(linked, [Some(endpoint(1))], "the alternative, {version:?}");
        // A special peer's host is let in all the same.
        assert_eq!(mesh.nodes[0].peers_up(), 1);
    }
}

#[test]
fn a_v9_handshake_is_answered_with_endpoints_because_it_is_a_peer_request() {
    let mut mesh = Mesh::new(vec![settings(Version::V9); 3]);
    mesh.connect(0, 1);
    mesh.settle();
    mesh.connect(0, 2);
    mesh.settle();
    // Each side of each link serves the other's handshake once: null, or the endpoints it knows.
    assert_eq!(mesh.sum(|counts| counts.parcels_read), 4);
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
fn a_capped_network_finds_itself_through_one_seed_and_keeps_its_bounds() {
    let peering = |number: usize| Peering {
        target: 4,
        most: 6,
        drop_to: 3,
        round: Nanos::from_secs(60),
        redial: Nanos::from_secs(10),
        accept_every: Nanos::ZERO,
        few: 2,
        request_every: Nanos::from_secs(2),
        ..Peering::capped(if number == 0 {
            Vec::new()
        } else {
            vec![endpoint(0)]
        })
    };
    let nodes = (0..20).map(|number| Settings {
        peering: peering(number),
        ..settings(Version::V11)
    });
    let mut mesh = Mesh::new(nodes.collect());
    mesh.until(50);
    for (number, node) in mesh.nodes.iter().enumerate() {
        assert!(
            (3..=6).contains(&node.peers_up()),
            "node {number}: {}",
            node.peers_up()
        );
    }
    mesh.publish(3, b"everybody", Routing::FullBroadcast);
    mesh.until(51);
    assert!(mesh.delivered.iter().all(|delivered| delivered.len() == 1));
    // The round drops some links, and time finds others.
    mesh.until(70);
    assert!(
        mesh.closed
            .iter()
            .any(|(_, reason)| *reason == CloseReason::Mixed)
    );
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
fn a_host_that_connects_more_than_once_a_second_is_turned_away() {
    let mut node = Node::new(
        Settings {
            peering: Peering::default(),
            ..settings(Version::V11)
        },
        1,
    );
    let accept = |node: &mut Node, number, at, host: &str| {
        node.on_connected(at, PeerId(number), Origin::Accepted(host.to_owned()));
        match node.poll_output() {
            Some(Output::Close { reason, .. }) => Some(reason),
            _ => None,
        }
    };
    let second = Nanos::from_secs(1);
    assert_eq!(accept(&mut node, 1, Nanos::ZERO, "10.0.0.1"), None);
    assert_eq!(
        accept(&mut node, 2, Nanos::ZERO, "10.0.0.1"),
        Some(CloseReason::TooOften)
    );
    assert_eq!(accept(&mut node, 3, Nanos::ZERO, "10.0.0.2"), None);
    assert_eq!(accept(&mut node, 4, second, "10.0.0.1"), None);
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
            peering: Peering::fixed(vec![absent]),
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
