//! Links with nodes of the Go library factom-p2p, in both directions and all versions.
//!
//! `.ci/factom-p2p` builds the program; `FACTOM_P2P_BIN` names it.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use base::Random;
use gossip::{CloseReason, Endpoint, QueueLimits, Relayed, Settings, Version};
use sha2::{Digest, Sha256};

use crate::driver::Driver;

/// A node of the Go library.
struct GoNode {
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
    endpoint: Endpoint,
    peers: usize,
    /// Hashes of what it saw first, and of what it sent.
    got: BTreeSet<String>,
    sent: BTreeSet<String>,
    sends: usize,
    log: Vec<String>,
}

impl GoNode {
    fn start(version: Version, number: u32, dial: &[Endpoint], more: &[&str]) -> Self {
        let binary = std::env::var("FACTOM_P2P_BIN")
            .expect("FACTOM_P2P_BIN is not set; it is what `bash .ci/factom-p2p` prints");
        let port = servers::free_port();
        let dial: Vec<String> = dial.iter().map(ToString::to_string).collect();
        let mut child = Command::new(binary)
            .args(["-version", &version.number().to_string()])
            .args(["-id", &number.to_string(), "-port", &port.to_string()])
            .args(["-dial", &dial.join(",")])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            orders: child.stdin.take().unwrap(),
            child,
            lines,
            endpoint: Endpoint::new("127.0.0.1", port).unwrap(),
            peers: 0,
            got: BTreeSet::new(),
            sent: BTreeSet::new(),
            sends: 0,
            log: Vec::new(),
        }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn listen(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            let (word, rest) = line.split_once(' ').unwrap();
            let hash = || rest.split(' ').next().unwrap().to_owned();
            match word {
                "peers" => self.peers = rest.parse().unwrap(),
                "got" => drop(self.got.insert(hash())),
                "sent" => {
                    self.sends += 1;
                    self.sent.insert(hash());
                }
                _ => self.log.push(rest.to_owned()),
            }
        }
    }
}

impl Drop for GoNode {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ours and theirs.
struct Both {
    ours: Vec<Driver>,
    theirs: Vec<GoNode>,
}

impl Both {
    /// Turns everybody until it is so. What does not come in two minutes never comes.
    fn until(&mut self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            let logs: Vec<_> = self.theirs.iter().map(|go| go.log.clone()).collect();
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "{what}: never came; {logs:#?}"
            );
            self.ours.iter_mut().for_each(Driver::turn);
            self.theirs.iter_mut().for_each(GoNode::listen);
        }
    }

    fn linked(&self) -> bool {
        self.ours[0].node.peers_up() == 1 && self.theirs[0].peers == 1
    }
}

fn settings(version: Version, dial: &[Endpoint]) -> Settings {
    Settings {
        version,
        dialled: dial.to_vec(),
        fanout: 64,
        queue: QueueLimits {
            parcels: 10_000,
            bytes: 1 << 30,
        },
        ..Settings::default()
    }
}

fn hash(message: &[u8]) -> String {
    let digest = Sha256::digest(message);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Two nodes that do not relay.
fn pair(version: Version, dial: &[Endpoint]) -> Settings {
    Settings {
        relayed: Relayed::kinds(&[]),
        ..settings(version, dial)
    }
}

fn rust_dials(ours: Version, theirs: Version) -> Both {
    let go = GoNode::start(theirs, 2, &[], &[]);
    let rust = Driver::new(pair(ours, std::slice::from_ref(&go.endpoint)), 1);
    linked(rust, go)
}

fn go_dials(ours: Version, theirs: Version) -> Both {
    let rust = Driver::new(pair(ours, &[]), 1);
    let go = GoNode::start(theirs, 2, &[rust.endpoint()], &[]);
    linked(rust, go)
}

fn linked(rust: Driver, go: GoNode) -> Both {
    let mut both = Both {
        ours: vec![rust],
        theirs: vec![go],
    };
    both.until("the link", Both::linked);
    both
}

/// Messages of 1 byte to 1 MiB each way, compared by their hashes.
fn exchange(both: &mut Both, count: usize) {
    let mut random = Random::new(count as u64);
    let mut sent = BTreeSet::new();
    both.theirs[0].order(&format!("send {count} {count}"));
    for number in 0..count {
        let length = 2_f64.powf(random.unit() * 20.0) as usize;
        let mut message = vec![random.unit().to_bits() as u8; length];
        message.extend_from_slice(&number.to_be_bytes());
        sent.insert(hash(&message));
        both.ours[0].broadcast(&message);
        both.ours[0].turn();
    }
    both.until("the messages", |both| {
        // Of theirs, some of a byte or two come more than once.
        let theirs = &both.theirs[0];
        theirs.got.len() == sent.len()
            && theirs.sends == count
            && both.ours[0].delivered.len() == theirs.sent.len()
    });
    let delivered: BTreeSet<_> = both.ours[0].delivered.iter().map(|it| hash(it)).collect();
    assert_eq!(both.theirs[0].got, sent);
    assert_eq!(delivered, both.theirs[0].sent);
    assert_eq!(both.ours[0].closed, []);
}

fn version(both: &Both) -> Option<Version> {
    both.ours[0]
        .node
        .peers()
        .next()
        .and_then(|peer| peer.version)
}

#[test]
#[ignore = "needs go"]
fn a_thousand_messages_of_a_byte_to_a_megabyte_pass_each_way_in_v9() {
    exchange(&mut rust_dials(Version::V9, Version::V9), 1_000);
}

#[test]
#[ignore = "needs go"]
fn a_thousand_messages_of_a_byte_to_a_megabyte_pass_each_way_in_v10() {
    exchange(&mut rust_dials(Version::V10, Version::V10), 1_000);
}

#[test]
#[ignore = "needs go"]
fn a_thousand_messages_of_a_byte_to_a_megabyte_pass_each_way_in_v11() {
    exchange(&mut rust_dials(Version::V11, Version::V11), 1_000);
}

#[test]
#[ignore = "needs go"]
fn whoever_dials_the_dialler_chooses_and_a_v9_node_takes_v10_down() {
    use Version::{V9, V10, V11};
    let pairs = [(V9, V9, V9), (V10, V10, V10), (V11, V11, V11)]
        .into_iter()
        .chain([
            (V10, V9, V9),
            (V9, V10, V9),
            (V11, V9, V11),
            (V10, V11, V10),
        ]);
    for (dialler, acceptor, expected) in pairs {
        for mut both in [rust_dials(dialler, acceptor), go_dials(acceptor, dialler)] {
            assert_eq!(
                version(&both),
                Some(expected),
                "{dialler:?} to {acceptor:?}"
            );
            exchange(&mut both, 20);
        }
    }
}

#[test]
#[ignore = "needs go"]
fn the_go_library_reads_parcels_that_arrive_in_fragments() {
    for version in [Version::V9, Version::V10, Version::V11] {
        let go = GoNode::start(version, 2, &[], &[]);
        let mut rust = Driver::new(settings(version, std::slice::from_ref(&go.endpoint)), 1);
        rust.pieces = 3;
        let mut both = linked(rust, go);
        for number in 0..50_u32 {
            both.ours[0].broadcast(&number.to_be_bytes().repeat(1 + number as usize));
        }
        both.until("the fragments", |both| both.theirs[0].got.len() == 50);
    }
}

#[test]
#[ignore = "needs go"]
fn a_full_go_node_refuses_us_and_its_list_of_other_nodes_does_no_harm() {
    for version in [Version::V9, Version::V10, Version::V11] {
        let go = GoNode::start(version, 9, &[], &["-links", "1"]);
        let first = Driver::new(settings(version, std::slice::from_ref(&go.endpoint)), 1);
        let mut both = linked(first, go);
        let full = [both.theirs[0].endpoint.clone()];
        both.ours.push(Driver::new(settings(version, &full), 2));
        both.until("the refusal", |both| {
            both.ours[1].closed.contains(&CloseReason::Refused)
        });
        assert!(both.linked(), "the first link stands, {version:?}");
    }
}

#[test]
fn a_node_that_dials_its_own_socket_notices() {
    for version in [Version::V9, Version::V10, Version::V11] {
        let mut driver = Driver::new(settings(version, &[]), 1);
        driver.dial_yourself();
        let mut both = Both {
            ours: vec![driver],
            theirs: Vec::new(),
        };
        both.until("the nonce", |both| !both.ours[0].closed.is_empty());
        assert_eq!(both.ours[0].closed[0], CloseReason::SelfDial, "{version:?}");
    }
}

#[test]
#[ignore = "needs go"]
fn a_mesh_of_three_of_ours_and_two_of_theirs_floods_every_message_to_everybody() {
    let mut both = Both {
        ours: Vec::new(),
        theirs: Vec::new(),
    };
    // Each dials all before it; versions differ.
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (number, version) in [(0, Version::V11), (1, Version::V10), (2, Version::V9)] {
        let driver = Driver::new(settings(version, &endpoints), number + 1);
        endpoints.push(driver.endpoint());
        both.ours.push(driver);
    }
    for (number, version) in [(3, Version::V10), (4, Version::V11)] {
        let go = GoNode::start(version, number + 1, &endpoints, &["-relay"]);
        endpoints.push(go.endpoint.clone());
        both.theirs.push(go);
    }
    both.until("the mesh", |both| {
        both.ours.iter().all(|ours| ours.node.peers_up() == 4)
            && both.theirs.iter().all(|go| go.peers == 4)
    });
    for number in 0..100_u32 {
        let node = number as usize % 5;
        match node.checked_sub(3) {
            Some(go) => both.theirs[go].order(&format!("say message-{number}")),
            None => both.ours[node].broadcast(format!("message-{number}").as_bytes()),
        }
    }
    let expected: BTreeSet<_> = (0..100)
        .map(|number| hash(format!("message-{number}").as_bytes()))
        .collect();
    both.until("every message at every node", |both| {
        both.ours.iter().all(|ours| ours.delivered.len() == 100)
            && both.theirs.iter().all(|go| go.got.len() == 100)
    });
    assert!(both.theirs.iter().all(|go| go.got == expected));
    assert!(both.ours.iter().all(|ours| ours.closed.is_empty()));
}
