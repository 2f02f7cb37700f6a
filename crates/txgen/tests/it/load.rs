//! How it is sent: profiles, arrivals, limits, transports, endpoints, and what is said meanwhile.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Behaviour, FakeChain, FakeNode, Node, Place, Relay, Summary, wait_until};

#[test]
fn every_method_commits_over_every_transport() {
    let node = Node::quick();
    let place = Place::new();
    let ways = ["http", "ws"]
        .into_iter()
        .flat_map(|transport| ["async", "sync", "commit"].map(|method| (transport, method)));
    let running: Vec<_> = ways
        .enumerate()
        .map(|(seed, (transport, method))| {
            let out = format!("{transport}-{method}");
            let line = format!(
                "constant --rate 60 --duration 500ms --transport {transport} -c 12 --seed {seed} \
                 --broadcast-tx-method {method} --out {out} --endpoints {}",
                node.url()
            );
            (transport, method, out, place.start(&line))
        })
        .collect();
    for (transport, method, out, running) in running {
        let run = place.run(&out);
        let ended = running.wait();
        let summary = run.summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(30);
        let manifest = run.manifest();
        assert_eq!(manifest["plan"]["method"], method);
        let url = manifest["endpoints"][0]["url"].as_str().unwrap();
        assert!(url.starts_with(transport), "{url}");
    }
    assert_eq!(node.committed().len(), 6 * 30);
}

#[test]
fn a_square_reconnects_in_its_pauses_and_only_there() {
    let node = Node::quick();
    let place = Place::new();
    let square = |off| format!("square --rate 200 --on 400ms --off {off} --cycles 3 -c 4");
    let ended = place.txgen(&format!(
        "{} --reconnect --seed 1 --out run --endpoints {}",
        square("1s"),
        node.url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    // When each connection is broken is for the scripted tests of the shard: here a pause may be over before it is seen.
    let planned = summary.count("reconnects.planned");
    assert!((1..=4 * 3).contains(&planned), "{planned}");
    assert!(summary.number("reconnects.down_ms_max") > 0.0);
    let broken = summary.count("reconnects.broken");
    ended.prints(&format!("{planned} planned, {broken} broken"));
    let steps = run.table("steps.csv");
    assert_eq!(steps.numbers("pause"), [0, 1, 0, 1, 0, 1]);
    assert_eq!(steps.numbers("offered"), [80, 0, 80, 0, 80, 0]);

    let ended = place.txgen(&format!(
        "{} --seed 2 --out open --endpoints {}",
        square("100ms"),
        node.url()
    ));
    let summary = place.run("open").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(3 * 80);
    assert_eq!(summary.count("reconnects.planned"), 0);
}

#[test]
fn a_flood_is_a_closed_loop_with_an_exact_count() {
    let node = Node::quick();
    for transport in ["http", "ws"] {
        let place = Place::new();
        let ended = place.txgen(&format!(
            "flood --count 777 --concurrency 10 --transport {transport} --out run --endpoints {}",
            node.url()
        ));
        ended
            .expect(0)
            .prints("closed loop: latencies are service times")
            .prints("777 = 777 sent");
        let summary = place.run("run").summary();
        summary.assert_all_committed(777);
        assert_eq!(summary.text("model"), "closed");
        assert_eq!(summary.at("knee"), &Value::Null);
        assert!(summary.text("knee_reason").contains("closed loop"));
    }
}

#[test]
fn a_flood_waits_for_answers() {
    let node = FakeNode::always(Behaviour::Silence);
    let place = Place::new();
    let running = place.start(&format!(
        "flood --count 100 --concurrency 7 -c 2 --no-follow --drain-timeout 200ms --out run --endpoints {}",
        node.ws_url()
    ));
    wait_until("all slots are taken", || node.broadcasts() >= 7);
    running.signal(Signal::INT);
    running.wait().expect(130);
    let summary = place.run("run").summary();
    summary.assert_conserved();
    assert_eq!(summary.count("fate.sent"), 7);
    assert_eq!(summary.count("fate.unanswered"), 7);
}

#[test]
fn past_the_limit_in_flight_transactions_are_counted_as_unsent() {
    let node = FakeNode::always(Behaviour::Silence);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 500 --duration 1s --max-in-flight 50 --threads 1 --no-follow \
         --drain-timeout 200ms --out run --endpoints {}",
        node.ws_url()
    ));
    let summary = place.run("run").summary();
    summary.assert_conserved();
    let unsent = |reason| summary.count(&format!("offered.unsent_by_reason.{reason}"));
    // Those that fell due before its silence was long.
    let own = unsent("max_in_flight");
    assert_eq!(own + unsent("node"), 450);
    if own > 5 {
        ended.expect(98).prints("invalid");
    } else {
        ended.ends_as_judged(0, &summary);
    }
    assert_eq!(summary.count("offered.planned"), 500);
    assert_eq!(summary.count("fate.sent"), 50);
    assert_eq!(summary.count("fate.unanswered"), 50);
}

/// 200 in a second over one connection that hangs for 500 ms from the 20th on.
fn run_into_a_hang(catch_up: &str) -> Summary {
    let node = FakeNode::start(FakeChain::without_blocks(), |number| match number {
        20 => Behaviour::AcceptAfter(Duration::from_millis(500)),
        _ => Behaviour::Accept,
    });
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 200 --duration 1s -c 1 --catch-up {catch_up} --no-follow --out run --endpoints {}",
        node.url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    summary.assert_conserved();
    assert_eq!(summary.count("offered.planned"), 200);
    assert_eq!(run.table("series.csv").sum("offered"), 200);
    let unsent = summary.count("offered.unsent");
    let own = summary.count("offered.unsent_by_reason.catch_up");
    assert_eq!(own + summary.count("offered.unsent_by_reason.node"), unsent);
    assert_eq!(summary.count("fate.accepted"), 200 - unsent);
    if own > 2 {
        ended.expect(98).prints(&format!("catch_up: {own}"));
    } else {
        ended.ends_as_judged(0, &summary);
    }
    summary
}

#[test]
fn what_is_late_is_caught_up_or_dropped_and_counted() {
    // How many are dropped is tested on a scripted clock.
    thread::scope(|scope| {
        for (policy, drops) in [("full", false), ("bounded:100ms", true), ("none", true)] {
            scope.spawn(move || {
                let unsent = run_into_a_hang(policy).count("offered.unsent");
                assert_eq!(unsent > 0, drops, "{policy} {unsent}");
            });
        }
    });
}

/// The due times of a run without blocks, sorted, in nanoseconds.
fn dues(arrivals: &str) -> Vec<u64> {
    let node = FakeNode::always(Behaviour::Accept);
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 1000 --duration 400ms --arrivals {arrivals} --seed 5 --no-follow \
         --out run --endpoints {}",
        node.ws_url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_conserved();
    assert_eq!(
        run.manifest()["plan"]["arrivals"].as_str().unwrap(),
        arrivals
    );
    let mut dues = run.table("txs.csv").numbers("due_ns");
    dues.sort_unstable();
    assert_eq!(dues.len() as u64, summary.count("offered.planned"));
    assert!(dues.last() < Some(&400_000_000));
    dues
}

#[test]
fn arrivals_are_even_in_bursts_or_random() {
    let even: Vec<u64> = (0..400).map(|n| n * 1_000_000).collect();
    assert_eq!(dues("even"), even);
    let bursts = dues("burst:8");
    assert_eq!(bursts.len(), 400);
    for burst in bursts.chunks(8) {
        assert!(burst.iter().all(|due| *due == burst[0]), "{burst:?}");
    }
    let distinct: std::collections::BTreeSet<&u64> = bursts.iter().collect();
    assert_eq!(distinct.len(), 50);
    let random = dues("poisson");
    // Mean 400, standard deviation 20; the seed is fixed.
    assert!((300..500).contains(&random.len()), "{}", random.len());
    let gaps: Vec<f64> = random
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // Exponential gaps scatter by their own mean.
    let spread = variance.sqrt() / mean;
    assert!((0.8..1.2).contains(&spread), "{spread}");
}

#[test]
fn endpoints_are_used_in_turn() {
    for transport in ["http", "ws"] {
        let nodes = [Behaviour::Accept, Behaviour::Accept].map(FakeNode::always);
        let place = Place::new();
        // One at a time: nothing but the turn decides where the next one goes.
        let ended = place.txgen(&format!(
            "flood --count 100 --concurrency 1 -c 1 --threads 1 --transport {transport} --no-follow \
             --out run --endpoints {},{}",
            nodes[0].url(),
            nodes[1].url()
        ));
        ended.expect(0);
        let endpoints = place.run("run").table("txs.csv").numbers("endpoint");
        for (number, node) in nodes.iter().enumerate() {
            let sent = endpoints
                .iter()
                .filter(|endpoint| **endpoint == number as u64);
            assert_eq!(sent.count(), 50, "{transport}");
            assert_eq!(node.broadcasts(), 50, "{transport}");
        }
    }
}

#[test]
fn endpoints_of_one_chain_are_all_followed_and_no_block_counts_twice() {
    let node = Node::quick();
    let relay = Relay::to(node.rpc_address());
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 200 --duration 1s -c 3 --out run --endpoints {},{}",
        node.url(),
        relay.url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(200);
    let heights = run.table("blocks.csv").numbers("height");
    assert!(
        heights.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{heights:?}"
    );
    assert_eq!(run.manifest()["endpoints"].as_array().unwrap().len(), 2);
    let endpoints = run.table("txs.csv").numbers("endpoint");
    // How many each gets is for the tests of the shard: here one may be slow.
    assert!([0, 1].iter().all(|number| endpoints.contains(number)));
}

#[test]
fn thresholds_decide_the_exit_code() {
    let node = Node::quick();
    let place = Place::new();
    let flood = |seed: u64, thresholds: &str| {
        place.txgen(&format!(
            "flood --count 40 --concurrency 4 --seed {seed} --out run{seed} {thresholds} --endpoints {}",
            node.url()
        ))
    };
    flood(
        1,
        "--threshold commit.p99<60s --threshold fate.errors==0 --threshold rate.error<0.5% \
         --threshold fate.committed>=40",
    )
    .expect(0)
    .prints("threshold    commit.p99<60s      held    ")
    .prints("threshold    fate.errors==0      held    0");
    flood(2, "--threshold fate.errors==0 --threshold commit.max<1us")
        .expect(99)
        .prints("fate.errors==0  held")
        .prints("commit.max<1us  BROKEN");
    flood(3, "--threshold fate.sent>40")
        .expect(99)
        .prints("fate.sent>40  BROKEN  40");
}

#[test]
fn a_broken_condition_ends_the_run_early_and_cleanly() {
    let node = Node::quick();
    let place = Place::new();
    let run = |out: &str, condition: &str| {
        place.txgen(&format!(
            "constant --rate 100 --duration 30s --out {out} --abort-on {condition} --endpoints {}",
            node.url()
        ))
    };
    let ended = run("broken", "fate.sent<150");
    // A schedule that was not kept says more than a broken condition.
    let summary = place.run("broken").summary();
    ended
        .ends_as_judged(99, &summary)
        .says("stopped: fate.sent<150 is broken")
        .prints("stopped by   fate.sent<150");
    assert_eq!(summary.count("fate.pending"), 0);
    assert!(summary.number("time.offered_s") < 15.0);
    let unknown = run("none", "commit.p98<1s");
    unknown.expect(2).says("did you mean commit.p");
    assert!(!place.contents().contains(&"none".to_owned()));
}

#[test]
fn live_figures_are_json_lines_and_nothing_else_is_on_stdout() {
    let node = Node::quick();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 200 --duration 1500ms --report-interval 100ms --out run --endpoints {}",
        node.url()
    ));
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    let lines: Vec<Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!lines.is_empty(), "{ended}");
    let times: Vec<f64> = lines
        .iter()
        .map(|line| line["at_s"].as_f64().unwrap())
        .collect();
    assert!(
        times.windows(2).all(|pair| pair[1] >= pair[0] + 0.1),
        "{times:?}"
    );
    let sent: Vec<u64> = lines
        .iter()
        .map(|line| line["totals"]["sent"].as_u64().unwrap())
        .collect();
    assert!(sent.is_sorted() && *sent.last().unwrap() <= 300, "{sent:?}");
    assert!(
        lines.last().unwrap()["second"]["offered"].is_u64(),
        "{ended}"
    );
    ended.says("verdict");
}

#[test]
fn the_warm_up_is_left_out_of_the_latencies() {
    let node = Node::quick();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 200 --duration 1s --warmup 600ms --out run --endpoints {}",
        node.url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(200);
    assert_eq!(summary.number("time.warmup_s"), 0.6);
    let txs = run.table("txs.csv");
    for (latency, stamp) in [
        ("lateness", "sent_ns"),
        ("accept_response", "accepted_ns"),
        ("accept_service", "accepted_ns"),
        ("commit_from_due", "committed_ns"),
    ] {
        let after = txs
            .numbers(stamp)
            .iter()
            .filter(|at| **at >= 600_000_000)
            .count();
        assert_eq!(
            summary.count(&format!("latency_ms.{latency}.count")),
            after as u64,
            "{latency}"
        );
    }
    // The log keeps the warm-up, for those who want to cut it otherwise.
    assert_eq!(run.histograms()["lateness"].len(), 200);
}
