//! Do no harm: what clients get behind the adaptive pace, beside what they get directly and behind a
//! proxy without a pace (*off*), on every kind of node. Each test is a row and prints it:
//!
//! ```text
//! cargo test -p control --test it matrix -- --nocapture --test-threads 1
//! ```
//!
//! In each row at least 0.97 of what is committed directly and behind *off* is committed; beside load
//! that goes to the node directly own clients keep at least 0.9 of what they would get directly; a
//! polite client's accept p99 is at most that of *off*; none of its writes expires. Where a row cannot
//! have that, it says so and why.

use control::PaceMode;
use pacing::Nanos;

use crate::model::node::{Node, NodeKind, SOURCES, STEP};
use crate::model::proxy::Proxy;
use crate::model::{Direct, Wants, ten_a_second};

/// A row.
struct Row {
    name: &'static str,
    kind: NodeKind,
    seconds: u64,
    wants: Wants,
    /// Writes a second that go to the node directly beside the proxies.
    foreign: Option<fn(f64) -> f64>,
    /// Proxies, or as many floods directly.
    proxies: usize,
    max_req: u64,
    /// What happens to the node at a second.
    events: fn(&mut Node, f64),
    /// From this second on nothing happens for an hour.
    gap: Option<u64>,
    /// The polite client's p99 may be so many times that of *off*, and why.
    p99: (f64, &'static str),
    /// At least so much of what is committed directly and behind *off*, and why.
    committed: (f64, &'static str),
    /// Its p50 may be so many times that of direct clients, who count only where they are not refused; none: not
    /// judged.
    p50: Option<f64>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            name: "",
            kind: NodeKind::steady(),
            seconds: 240,
            wants: Wants {
                flood: |_| 10_000.0,
                ..Wants::default()
            },
            foreign: None,
            proxies: 1,
            max_req: 50_000,
            events: |_, _| {},
            gap: None,
            p99: (1.0, ""),
            committed: (0.97, ""),
            p50: None,
        }
    }
}

/// What came out of one run.
#[derive(Clone, Debug)]
struct Figures {
    /// Transactions committed; bytes of own clients, and of all.
    txs: usize,
    own: f64,
    all: f64,
    polite_p50_ms: u64,
    polite_p99_ms: u64,
    polite_failed: usize,
    bound: &'static str,
}

/// The source of the load that goes to the node directly.
const FOREIGN: usize = 6;

impl Row {
    fn run(&self, mut clients: impl FnMut(usize, &mut Node) -> Client) -> Figures {
        let mut node = Node::new(self.kind);
        let mut own: Vec<Client> = (0..self.proxies)
            .map(|place| clients(place, &mut node))
            .collect();
        let mut foreign = self.foreign.map(|flood| {
            let wants = Wants {
                flood,
                ..Wants::default()
            };
            Direct::new(FOREIGN, wants, &mut node)
        });
        let (mut now, mut skipped) = (Nanos::ZERO, Nanos::ZERO);
        while now.saturating_sub(skipped) < Nanos::from_secs(self.seconds) {
            let second = now.saturating_sub(skipped);
            if skipped == Nanos::ZERO && self.gap.is_some_and(|gap| second >= Nanos::from_secs(gap))
            {
                skipped = Nanos::from_secs(3_600);
                now = now.saturating_add(skipped);
            }
            (self.events)(&mut node, second.as_secs_f64());
            node.step(now);
            for client in &mut own {
                client.step(now, &mut node);
            }
            if let Some(foreign) = &mut foreign {
                foreign.step(now, &mut node);
            }
            now = now.saturating_add(STEP);
        }
        figures(&node, &own)
    }

    fn proxied(&self, mode: PaceMode) -> Figures {
        let max_req = self.max_req;
        self.run(|place, node| {
            let proxy = Proxy::new(place, self.wants, max_req, mode, node);
            Client::Proxy(Box::new(proxy))
        })
    }

    /// Runs all three and prints the row.
    #[expect(
        clippy::print_stdout,
        reason = "the table in the documents is what this prints"
    )]
    fn measure(&self) -> [Figures; 3] {
        let direct = self.run(|place, node| Client::Direct(Direct::new(place, self.wants, node)));
        let [off, adaptive] = [PaceMode::Off, PaceMode::Adaptive].map(|mode| self.proxied(mode));
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} | {} | {} | {} | {} |",
            self.name,
            adaptive.txs,
            adaptive.all / direct.all,
            adaptive.all / off.all,
            adaptive.own / direct.own,
            off.own / direct.own,
            direct.polite_p99_ms,
            off.polite_p99_ms,
            adaptive.polite_p99_ms,
            direct.polite_failed,
            adaptive.polite_failed,
            adaptive.bound,
        );
        [direct, off, adaptive]
    }

    fn does_no_harm(&self) {
        let [direct, off, adaptive] = self.measure();
        assert!(
            adaptive.all >= self.committed.0 * direct.all,
            "{adaptive:?} {direct:?}"
        );
        assert!(
            adaptive.all >= self.committed.0 * off.all,
            "{adaptive:?} {off:?}"
        );
        let share = if self.foreign.is_some() {
            0.9
        } else {
            self.committed.0
        };
        assert!(
            adaptive.own >= share * direct.own,
            "{adaptive:?} {direct:?}"
        );
        let most_ms = off.polite_p99_ms as f64 * self.p99.0;
        assert!(
            adaptive.polite_p99_ms as f64 <= most_ms,
            "{adaptive:?} {off:?}"
        );
        let most_ms = self.p50.map(|times| direct.polite_p50_ms as f64 * times);
        assert!(
            most_ms.is_none_or(|most| adaptive.polite_p50_ms as f64 <= most),
            "{adaptive:?} {direct:?}"
        );
        let failed = direct.polite_failed.min(off.polite_failed);
        assert!(
            adaptive.polite_failed <= failed,
            "{adaptive:?} {direct:?} {off:?}"
        );
    }
}

enum Client {
    Direct(Direct),
    Proxy(Box<Proxy>),
}

impl Client {
    fn step(&mut self, now: Nanos, node: &mut Node) {
        match self {
            Self::Direct(direct) => direct.step(now, node),
            Self::Proxy(proxy) => proxy.step(now, node),
        }
    }
}

fn figures(node: &Node, own: &[Client]) -> Figures {
    let polite = |client: &Client| match client {
        Client::Direct(direct) => direct.polite.clone(),
        Client::Proxy(proxy) => proxy.polite.clone(),
    };
    let first = own.first().map(polite).unwrap();
    let bound = match own.first().unwrap() {
        Client::Direct(_) => "-",
        Client::Proxy(proxy) => proxy.usual_bound(),
    };
    Figures {
        txs: node.committed_between(Nanos::ZERO, Nanos::MAX),
        own: (0..own.len())
            .map(|source| node.bytes_of(source) as f64)
            .sum(),
        all: (0..SOURCES)
            .map(|source| node.bytes_of(source) as f64)
            .sum(),
        polite_p50_ms: first.quantile(0.5),
        polite_p99_ms: first.quantile(0.99),
        polite_failed: first.failed,
        bound,
    }
}

macro_rules! rows {
    ($($name:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        #[test]
        fn $name() {
            Row { name: stringify!($name), $($field: $value,)* ..Row::default() }.does_no_harm();
        }
    )*};
}

rows! {
    blocks_of_1_s {}
    blocks_of_a_fifth_of_a_second {
        kind: NodeKind { timeout_secs: 0.2, ..NodeKind::steady() },
        p99: (1.05, "a block of 5,000 holds up the node's checks for as long as it takes to fill the mempool"),
    }
    blocks_of_6_s { kind: NodeKind { timeout_secs: 6.0, ..NodeKind::steady() }, seconds: 900 }
    variable_blocks { kind: NodeKind { jitter: 0.8, ..NodeKind::steady() } }
    a_declining_node { kind: NodeKind::default() }
    no_empty_blocks_and_an_hour_without_any {
        kind: NodeKind { empty_blocks: false, ..NodeKind::steady() },
        wants: Wants { flood: |t| if t < 5.0 { 5.0 } else { 10_000.0 }, ..Wants::default() },
        gap: Some(5),
    }
    mempool_of_500 { kind: NodeKind { mempool: 500, ..NodeKind::steady() } }
    mempool_of_100_000 {
        kind: NodeKind { mempool: 100_000, ..NodeKind::steady() },
        p99: (1.05, "all of it is the time in which the node commits a block and checks nothing, some \
                     of them a little longer here"),
    }
    mempool_of_100_000_and_slow_execution {
        kind: NodeKind { mempool: 100_000, fresh_us: 200.0, ..NodeKind::steady() },
        seconds: 720,
    }
    blocks_limited_by_gas { kind: NodeKind { block: 1_000, ..NodeKind::steady() } }
    blocks_limited_by_gas_and_a_small_mempool {
        kind: NodeKind { block: 1_000, mempool: 1_500, ..NodeKind::steady() },
    }
    blocks_limited_by_bytes_and_mixed_sizes {
        kind: NodeKind { block_bytes: 4 << 20, mempool_bytes: 64 << 20, ..NodeKind::steady() },
        wants: Wants { flood: |_| 500.0, bytes: (100, 750_000), ..Wants::default() },
    }
    a_mempool_limited_by_bytes {
        kind: NodeKind { mempool_bytes: 8 << 20, ..NodeKind::steady() },
        wants: Wants { flood: |_| 500.0, bytes: (100, 750_000), ..Wants::default() },
    }
    checks_of_a_tenth_of_a_millisecond {
        kind: NodeKind { check_secs: 1e-4, ..NodeKind::steady() },
    }
    checks_of_3_ms { kind: NodeKind { check_secs: 3e-3, ..NodeKind::steady() } }
    checks_of_30_ms { kind: NodeKind { check_secs: 30e-3, ..NodeKind::steady() } }
    concurrent_checks_of_3_ms {
        kind: NodeKind { check_secs: 3e-3, concurrent: true, ..NodeKind::steady() },
    }
    concurrent_checks_of_30_ms {
        kind: NodeKind { check_secs: 30e-3, concurrent: true, ..NodeKind::steady() },
    }
    a_node_far_away { kind: NodeKind { travel: Nanos::from_millis(10), ..NodeKind::steady() } }
    a_node_very_far_away {
        kind: NodeKind { travel: Nanos::from_millis(60), ..NodeKind::steady() },
    }
    a_foreign_backlog_beyond_a_block {
        kind: NodeKind { block: 1_000, ..NodeKind::steady() },
        wants: Wants { flood: |_| 300.0, ..Wants::default() },
        foreign: Some(|_| 1_200.0),
    }
    a_foreign_flood_that_fills_the_mempool {
        wants: Wants { flood: |_| 5_000.0, ..Wants::default() },
        foreign: Some(|_| 10_000.0),
    }
    a_foreign_flood_as_large_as_the_own {
        foreign: Some(|_| 10_000.0),
    }
    a_foreign_burst {
        foreign: Some(|t| if (20.0..22.0).contains(&t) { 4_000.0 } else { 0.0 }),
    }
    two_proxies { proxies: 2 }
    two_proxies_and_capped_blocks {
        proxies: 2,
        kind: NodeKind { block: 2_000, ..NodeKind::steady() },
    }
    four_validators { kind: NodeKind { gossip_secs: 0.3, ..NodeKind::steady() } }
    four_validators_with_fast_blocks {
        kind: NodeKind { gossip_secs: 0.3, timeout_secs: 0.2, ..NodeKind::steady() },
    }
    a_node_that_catches_up {
        events: |node, t| node.catching_up = (20.0..40.0).contains(&t),
    }
    a_halted_chain {
        events: |node, t| node.halted = (20.0..45.0).contains(&t),
    }
    a_saturated_disk { kind: NodeKind { stall: (5, 4.0), locked: 0.8, ..NodeKind::steady() } }
    a_busy_machine { kind: NodeKind { runs: (40, 10), ..NodeKind::steady() } }
    a_very_busy_machine { kind: NodeKind { runs: (100, 20), ..NodeKind::steady() } }
    a_cosmos_sdk_chain {
        kind: cosmos(5_000),
        wants: Wants { flood: |_| 3_600.0, ..Wants::default() },
        // Blocks are 2 % larger than directly, and nothing is checked while one is executed. Behind the flood's
        // writes in the node's socket it was 1.17.
        p50: Some(1.05),
    }
    a_cosmos_sdk_chain_with_a_mempool_of_1_000 {
        kind: cosmos(1_000),
        wants: Wants { flood: |_| 3_600.0, ..Wants::default() },
        p50: Some(1.0),
    }
    a_cosmos_sdk_chain_with_a_mempool_of_300 {
        kind: cosmos(300),
        wants: Wants { flood: |_| 1_500.0, ..Wants::default() },
        p50: Some(1.0),
    }
    a_cosmos_sdk_chain_with_a_mempool_of_300_and_uneven_blocks {
        kind: NodeKind { jitter: 0.4, ..cosmos(300) },
        wants: Wants { flood: |_| 1_500.0, ..Wants::default() },
        p50: Some(1.0),
    }
    blocks_of_30_s {
        kind: NodeKind { timeout_secs: 30.0, ..NodeKind::steady() },
        seconds: 4_800,
    }
    mempool_of_100 { kind: NodeKind { mempool: 100, ..NodeKind::steady() } }
    a_stall_of_60_s {
        events: |node, t| node.is_frozen = (60.0..120.0).contains(&t),
        p99: (1.05, "the oldest of the queue that the stall left; 28 s for both"),
    }
    a_node_that_restarts_under_load {
        events: |node, t| {
            node.is_frozen = (60.0..65.0).contains(&t);
            if node.is_frozen {
                node.lose_mempool();
            }
        },
    }
    a_trickle_of_others_and_empty_blocks {
        wants: Wants { flood: |t| if t < 60.0 { 0.0 } else { 10_000.0 }, ..Wants::default() },
        foreign: Some(|t| if t < 60.0 { 0.3 } else { 1.0 }),
    }
    four_proxies { proxies: 4 }
    four_proxies_and_capped_blocks { proxies: 4, kind: NodeKind { block: 1_000, ..NodeKind::steady() } }
    two_proxies_and_gossip { proxies: 2, kind: NodeKind { gossip_secs: 0.3, ..NodeKind::steady() } }
    blocks_of_200 { kind: NodeKind { block: 200, ..NodeKind::steady() } }
    blocks_of_40_and_a_client_with_60_waiting {
        kind: NodeKind { block: 40, ..NodeKind::steady() },
        wants: closed(60),
        p50: Some(2.0),
    }
    serial_answers_1_client { kind: serial_answers(), wants: closed(1) }
    serial_answers_5_clients { kind: serial_answers(), wants: closed(5) }
    serial_answers_8_clients { kind: serial_answers(), wants: closed(8) }
    serial_answers_64_clients { kind: serial_answers(), wants: closed(64) }
    clients_in_turn_120_on_a_cosmos_sdk_chain { kind: cosmos(5_000), wants: closed(120), p50: Some(1.0) }
    clients_in_turn_120_and_checks_of_3_ms {
        kind: NodeKind { check_secs: 3e-3, ..NodeKind::steady() },
        wants: closed(120),
        p50: Some(0.1),
    }
    clients_in_turn_60_and_concurrent_checks_of_300_ms {
        kind: NodeKind { check_secs: 0.3, concurrent: true, ..NodeKind::steady() },
        // The first writes go over the one connection that is open, for 18 s.
        seconds: 1_440,
        wants: closed(60),
    }
    little_demand_and_then_a_burst {
        wants: Wants { flood: |t| if (20.0..20.5).contains(&t) { 8_000.0 } else { 0.0 }, ..Wants::default() },
    }
    a_demand_that_comes_and_goes {
        seconds: 600,
        p99: (1.1, "a millisecond: the first three blocks teach what the chain takes"),
        wants: Wants { flood: |t| if t % 20.0 < 10.0 { 3_000.0 } else { 0.0 }, ..Wants::default() },
    }
}

/// Tendermint 0.31 with BigchainDB: each connection is answered in order, a check takes 30 ms, and none is made
/// while a block is committed for a tenth of a second.
fn serial_answers() -> NodeKind {
    NodeKind {
        check_secs: 30e-3,
        concurrent: true,
        fresh_us: 300.0,
        locked: 1.0,
        ..NodeKind::steady()
    }
}

/// So many clients that send the next write when the last is answered.
const fn closed(clients: usize) -> Wants {
    Wants {
        flood: |_| 0.0,
        connections: 0,
        closed: clients,
        bytes: (250, 250),
        polite_bytes: 250,
        polite: ten_a_second,
    }
}

/// As measured: 640/s, checks and rechecks of real signatures, one lock for checks and blocks.
fn cosmos(mempool: usize) -> NodeKind {
    NodeKind {
        mempool,
        check_secs: 400e-6,
        recheck_secs: 200e-6,
        fresh_us: 700.0,
        readers: 5_000.0,
        locked: 1.0,
        ..NodeKind::steady()
    }
}
