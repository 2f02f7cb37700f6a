//! Networks on the simulated clock.

use gossip::{
    QueueLimits, Settings,
    app::{Fan, Kind, Mix, Transaction},
    sim::{LinkModel, Outcome, Prices, Processors, SimSettings, run},
    topology,
};
use pacing::{Arrivals, Nanos, Profile, Schedule};

/// One message of 250 bytes a transaction.
fn mix() -> Mix {
    let kind = Kind {
        name: "entry".into(),
        tag: 6,
        size: 250,
        fan: Fan::One,
        relay: true,
        answer: None,
        transactions: 1,
        entries: 1,
    };
    let transaction = Transaction {
        name: "entry".into(),
        weight: 1.0,
        messages: vec![Mix::id(0)],
    };
    Mix::new("one", vec![kind], vec![transaction], Vec::new(), Vec::new()).unwrap()
}

fn settings(nodes: usize) -> SimSettings {
    SimSettings {
        node: Settings::default(),
        dials: topology::full(nodes),
        link: LinkModel::default(),
        prices: Prices::default(),
        processors: Processors::Own,
        drain: Nanos::from_secs(2),
        seed: 7,
    }
}

fn simulate(settings: &SimSettings, rate: &str, seconds: u64) -> Outcome {
    let duration = Nanos::from_secs(seconds);
    let profile = Profile::constant(rate.parse().unwrap(), Some(duration)).unwrap();
    run(
        settings,
        mix(),
        &Schedule::new(profile, Arrivals::Even),
        duration,
    )
}

#[test]
fn a_quiet_full_mesh_makes_1_plus_n_times_n_minus_1_transmissions_of_each_message() {
    for nodes in 2..=8 {
        let outcome = simulate(&settings(nodes), "50/s", 2);
        let n = nodes as u64;
        assert_eq!(outcome.offered, 100);
        assert_eq!(outcome.totals.messages_written, 100 * (1 + n * (n - 1)));
        assert_eq!(outcome.totals.parcels_written, outcome.totals.parcels_read);
        assert_eq!((outcome.reach(), outcome.latency.count()), (1.0, 100 * n));
        assert_eq!(
            (outcome.eps_host(), outcome.eps_sum()),
            (50.0, 50.0 * nodes as f64)
        );
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let own = settings(5);
    let again = simulate(&own, "500/s", 1);
    assert_eq!(simulate(&own, "500/s", 1), again);
    let other = SimSettings { seed: 8, ..own };
    assert_ne!(simulate(&other, "500/s", 1).busy, again.busy);
}

#[test]
fn latency_is_two_hops_of_the_link_when_processors_are_fast() {
    let own = SimSettings {
        link: LinkModel {
            delay: Nanos::from_millis(10),
            ..LinkModel::default()
        },
        prices: Prices::default().scaled(0.0),
        ..settings(4)
    };
    let outcome = simulate(&own, "50/s", 1);
    let milliseconds = |share| outcome.latency.quantile(share).unwrap().as_millis_f64();
    // One node has it after one hop, the others, the sender among them, after two.
    assert!((10.0..10.7).contains(&milliseconds(0.25)));
    assert!((20.0..21.3).contains(&milliseconds(0.26)));
    assert!((20.0..21.3).contains(&milliseconds(1.0)));
}

#[test]
fn a_network_takes_what_its_processors_can_and_the_busiest_one_shows_it() {
    let rate = "2000/s";
    let fast = simulate(&settings(5), rate, 1);
    assert_eq!(fast.reach(), 1.0);
    assert!(fast.busiest() < 0.9);
    let slow = SimSettings {
        prices: Prices::default().scaled(50.0),
        ..settings(5)
    };
    let slow = simulate(&slow, rate, 1);
    assert!(
        slow.eps_host() < fast.eps_host() / 2.0,
        "{} of {}",
        slow.eps_host(),
        fast.eps_host()
    );
    assert!(slow.busiest() > 0.99);
}

#[test]
fn nodes_that_share_processors_get_less_done_than_nodes_with_their_own() {
    let prices = Prices::default().scaled(16.0);
    let eps = |processors| {
        let own = SimSettings {
            prices,
            processors,
            ..settings(5)
        };
        simulate(&own, "2000/s", 1).eps_sum()
    };
    let (own, two) = (eps(Processors::Own), eps(Processors::Shared(2)));
    assert!(two < own * 0.7, "{two} of {own}");
}

#[test]
fn a_line_that_is_too_slow_fills_queues_which_drop_and_count() {
    let own = SimSettings {
        link: LinkModel {
            bits_per_s: Some(100_000),
            buffer: 4_096,
            ..LinkModel::default()
        },
        node: Settings {
            queue: QueueLimits {
                parcels: 50,
                bytes: 1 << 20,
            },
            ..Settings::default()
        },
        ..settings(3)
    };
    let outcome = simulate(&own, "400/s", 2);
    assert!(outcome.totals.dropped > 0);
    assert!(outcome.reach() < 1.0);
}

#[test]
fn a_hundred_and_fifty_nodes_with_sixteen_links_each_hear_everything() {
    let own = SimSettings {
        dials: topology::random(150, 8, 1),
        drain: Nanos::from_secs(3),
        ..settings(150)
    };
    let outcome = simulate(&own, "20/s", 1);
    assert_eq!(outcome.nodes, 150);
    assert!(outcome.reach() > 0.999, "{}", outcome.reach());
}
