//! What holds of every mesh.

use gossip::{QueueLimits, Routing, Settings, Version};
use proptest::prelude::*;

use crate::mesh::Mesh;

fn settings(version: Version) -> Settings {
    Settings {
        version,
        ..Settings::default()
    }
}

/// Nothing is lost, and every node knows each message once.
fn check_whole(mesh: &Mesh, messages: usize) {
    for (node, delivered) in mesh.delivered.iter().enumerate() {
        assert_eq!(delivered.len(), messages, "node {node}");
    }
    assert_eq!(mesh.sum(|counts| counts.dropped + counts.lost), 0);
    check_conserved(mesh);
}

/// Every parcel that was written has been read, or was lost with its link.
fn check_conserved(mesh: &Mesh) {
    let (written, read) = (
        mesh.sum(|c| c.parcels_written),
        mesh.sum(|c| c.parcels_read),
    );
    assert_eq!(written, read + mesh.lost);
    for node in &mesh.nodes {
        let counts = node.counts();
        let own = counts.first_seen + counts.duplicates - counts.received;
        assert!(own <= counts.offered, "{counts:?}");
        let waiting: u64 = node.peers().map(|peer| peer.queued as u64).sum();
        let out = counts.messages_written + counts.dropped + counts.lost;
        assert!(counts.queued <= out + waiting, "{counts:?}");
        assert!(out <= counts.queued, "{counts:?}");
    }
}

#[test]
fn a_message_costs_1_plus_n_times_n_minus_1_transmissions_in_a_quiet_full_mesh() {
    for version in [Version::V9, Version::V10, Version::V11] {
        for nodes in 2..=8_u64 {
            let mut mesh = Mesh::full(nodes as usize, &settings(version));
            for number in 1..=5 {
                mesh.publish(0, &[6, number], Routing::RandomPeer);
                mesh.settle();
                let sent = mesh.sum(|counts| counts.messages_written);
                assert_eq!(
                    sent,
                    u64::from(number) * (1 + nodes * (nodes - 1)),
                    "{nodes} nodes"
                );
            }
            check_whole(&mesh, 5);
            // And of N(N − 1) + 1 receipts N are first ones.
            let seen = mesh.sum(|counts| counts.first_seen);
            assert_eq!(
                (seen, mesh.sum(|counts| counts.duplicates)),
                (5 * nodes, 5 * (1 + nodes * (nodes - 1) - nodes))
            );
        }
    }
}

#[test]
fn announced_messages_travel_once_to_each_node_and_their_names_the_rest_of_the_way() {
    let settings = Settings {
        announce: true,
        ..settings(Version::V11)
    };
    let mut mesh = Mesh::full(5, &settings);
    for number in 0..20 {
        mesh.publish(usize::from(number) % 5, &[number; 300], Routing::RandomPeer);
        mesh.until(mesh.now.as_secs() + 1);
    }
    check_whole(&mesh, 20);
    assert_eq!(mesh.sum(|counts| counts.messages_written), 20 * 4);
}

/// The peer that announced a message first ends before it has answered the request.
#[test]
fn a_message_whose_announcer_is_gone_is_requested_from_another_peer() {
    let settings = Settings {
        announce: true,
        ..settings(Version::V11)
    };
    let mut mesh = Mesh::full(5, &settings);
    for number in 0..10 {
        mesh.publish(0, &[number; 300], Routing::RandomPeer);
        mesh.settle();
    }
    mesh.leave(2);
    mesh.delivered.iter_mut().for_each(Vec::clear);
    for number in 10..20 {
        mesh.publish(0, &[number; 300], Routing::RandomPeer);
        mesh.until(mesh.now.as_secs() + 2);
    }
    for node in [0, 1, 3, 4] {
        assert_eq!(mesh.delivered[node].len(), 10, "node {node}");
    }
}

#[test]
fn nodes_that_announce_flood_to_nodes_that_do_not() {
    let announcing = Settings {
        announce: true,
        ..settings(Version::V11)
    };
    let plain = settings(Version::V11);
    let old = settings(Version::V9);
    let mut mesh = Mesh::new(vec![announcing.clone(), plain, announcing, old]);
    for (from, to) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (3, 2)] {
        mesh.connect(from, to);
    }
    mesh.settle();
    for number in 0..8 {
        mesh.publish(usize::from(number) % 4, &[number; 9], Routing::RandomPeer);
        mesh.until(mesh.now.as_secs() + 1);
    }
    for delivered in &mesh.delivered {
        assert_eq!(delivered.len(), 8);
    }
    check_conserved(&mesh);
}

#[test]
fn batching_changes_the_number_of_writes_and_nothing_on_the_wire() {
    let run = |batch_bytes| {
        let settings = Settings {
            batch_bytes,
            ..settings(Version::V10)
        };
        let mut mesh = Mesh::full(2, &settings);
        let writes = mesh.sum(|counts| counts.writes);
        for number in 0..100 {
            mesh.publish(0, &[7, number], Routing::RandomPeer);
        }
        mesh.settle();
        check_whole(&mesh, 100);
        let counts = mesh.nodes[0].counts();
        (
            mesh.nodes[0].counts().writes,
            counts.bytes_written,
            mesh.sum(|c| c.writes) - writes,
        )
    };
    let (single, batched) = (run(0), run(64 << 10));
    assert_eq!(single.1, batched.1, "bytes");
    assert!(single.2 >= 200 && batched.2 < 20, "{single:?} {batched:?}");
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_queue_whose_older_half_goes_and_then_its_link() {
    let mut settings = settings(Version::V11);
    settings.queue = QueueLimits {
        parcels: 100,
        bytes: 1 << 20,
    };
    let mut mesh = Mesh::full(3, &settings);
    mesh.deaf = Some(2);
    for number in 0..=200_u8 {
        mesh.publish(0, &[6, number], Routing::Broadcast);
        mesh.settle();
    }
    // The first is being written; of the other 200, the queue of 100 overflows at the 101st, then each
    // 51st drops its older 50.
    let counts = mesh.nodes[0].counts();
    assert_eq!(counts.dropped, 50 * 2, "{counts:?}");
    assert_eq!(mesh.delivered[1].len(), 201, "the others lose nothing");
    mesh.until(301);
    assert!(mesh.closed.contains(&(0, gossip::CloseReason::Stalled)));
    // Answers to its pings have displaced another half.
    let counts = mesh.nodes[0].counts();
    assert_eq!((counts.dropped, counts.lost), (150, 50));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn below_its_capacity_no_queue_loses_anything_and_the_counts_add_up(
        version in prop_oneof![Just(Version::V9), Just(Version::V10), Just(Version::V11)],
        nodes in 2..7_usize,
        batch_bytes in prop_oneof![Just(0_usize), Just(4_096)],
        announce: bool,
        messages in prop::collection::vec((0..100_usize, 1..2_000_usize), 1..30),
    ) {
        let settings = Settings { batch_bytes, announce, ..settings(version) };
        let mut mesh = Mesh::full(nodes, &settings);
        for (number, (publisher, length)) in messages.iter().enumerate() {
            let mut message = vec![number as u8; *length];
            message.extend_from_slice(&number.to_be_bytes());
            mesh.publish(publisher % nodes, &message, Routing::RandomPeer);
        }
        mesh.until(3);
        check_whole(&mesh, messages.len());
    }
}
