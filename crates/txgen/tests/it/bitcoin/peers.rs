//! Blocks and transactions observed as a node announces them to its peers.

use std::time::Duration;

use chain_bitcoin::fixture::{BitcoinConfig, PEERS};

use super::{node, url};
use crate::support::Place;

#[test]
fn a_node_is_observed_among_its_peers_while_its_rpc_takes_the_load() {
    let place = Place::new();
    let node = node(&place, |config| {
        config.sections.change(|own: &mut BitcoinConfig| {
            own.p2p_listen = Some(([127, 0, 0, 1], 0).into());
            own.trickle = Duration::from_millis(5);
        });
    });
    let peers = format!("bitcoin-p2p://{}", node.address(PEERS).unwrap());
    let ended = place.txgen(&format!(
            "constant --rate 50/s --duration 3s --workload bitcoin --endpoints {} --observe among={peers} --out run",
            url(&node)
        ));
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary());
    run.summary().assert_all_committed(150);
    let sights = run.text("sights.csv");
    assert!(sights.contains("among"), "{sights}");
    let nodes = run.text("nodes.csv");
    assert!(nodes.contains("among"), "{nodes}");
}

#[test]
fn a_load_over_the_protocol_of_peers_is_refused_with_what_to_use_instead() {
    let place = Place::new();
    place
        .txgen("flood --count 5 --concurrency 1 --workload bitcoin --endpoints bitcoin-p2p://127.0.0.1:1")
        .expect(2)
        .says("give the node's JSON-RPC")
        .says("--observe");
}
