//! The same run measured twice: from when each transaction was sent, and from when it was due.
//!
//! `cargo run --release --example coordinated_omission`
//!
//! 2,000 transactions a second for ten seconds over 16 connections, and a node that stands still for
//! 1.4 s in the middle. Sixteen requests are caught by the stall; the 2,800 that fall due meanwhile wait
//! for a connection. Measured from *sent* (service time, what closed-loop tools report) sixteen of
//! 20,000 are slow and no percentile up to the 99th shows it. Measured from *due* (response time, what
//! a client of the node would have lived through) it is every seventh. The difference has a name:
//! coordinated omission (Gil Tene, "How not to measure latency").

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, ensure};
use chain_cometbft::Client;
use devnode::{Config, DevNode, Faults, MempoolConfig};
use measure::Latency;
use pacing::{Arrivals, Nanos, Profile, Schedule, Shard};
use rpc::BroadcastMethod;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const CONNECTIONS: NonZeroU32 = NonZeroU32::new(16).expect("not zero");
const STALL_AFTER: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_millis(1_400);

#[tokio::main]
async fn main() -> Result<()> {
    let config = Config {
        block_interval: Duration::from_millis(200),
        mempool: MempoolConfig {
            size: 20_000,
            ..MempoolConfig::default()
        },
        ..Config::default()
    };
    let (node, worker) = DevNode::bind(config).await?;
    let worker = tokio::spawn(worker);
    println!("ten seconds of 2,000/s, the node stalls for 1.4 s …");

    let profile = Profile::constant("2000/s".parse()?, Some(Nanos::from_secs(10)))?;
    let schedule = Schedule::new(profile, Arrivals::Even);
    let client = Client::new(&node.rpc_url().parse()?, Duration::from_secs(10))?;
    let (seen, ()) = tokio::join!(offer(&schedule, &client), stall(node.faults()));
    let seen = seen?;
    node.shutdown();
    worker.await?;

    ensure!(
        Some(seen.service.count()) == schedule.planned(),
        "a transaction was lost"
    );
    report(&seen);
    Ok(())
}

/// What was measured, twice for each transaction.
#[derive(Default)]
struct Seen {
    service: Latency,
    response: Latency,
}

/// One sender for each connection, each with its share of one schedule.
async fn offer(schedule: &Schedule, client: &Client) -> Result<Seen> {
    let origin = Instant::now();
    let mut senders = JoinSet::new();
    for number in 0..CONNECTIONS.get() {
        senders.spawn(send(
            schedule.shard(number, CONNECTIONS),
            client.clone(),
            origin,
        ));
    }
    let mut all = Seen::default();
    while let Some(seen) = senders.join_next().await {
        let seen = seen??;
        all.service.merge(&seen.service);
        all.response.merge(&seen.response);
    }
    Ok(all)
}

async fn send(shard: Shard, client: Client, origin: Instant) -> Result<Seen> {
    let mut seen = Seen::default();
    for transaction in shard {
        // Not before it is due; at once when the answer before it came late.
        let due = origin + Duration::from_nanos(transaction.at.as_nanos());
        sleep_until(due).await;
        let tx = format!("key{}=value", transaction.index);
        let sent = Instant::now();
        client
            .broadcast(BroadcastMethod::Sync, tx.as_bytes())
            .await?;
        let answered = Instant::now();
        seen.service.record((answered - sent).into());
        seen.response.record((answered - due).into());
    }
    Ok(seen)
}

async fn stall(faults: &Faults) {
    sleep(STALL_AFTER).await;
    faults.stall(STALL);
}

fn report(seen: &Seen) {
    println!("\n              from sent        from due");
    println!("           (service time)  (response time)");
    for percent in [50.0, 80.0, 90.0, 99.0, 99.9] {
        let at = |latency: &Latency| latency.quantile(percent / 100.0).unwrap_or(Nanos::ZERO);
        row(
            &format!("p{percent}"),
            at(&seen.service),
            at(&seen.response),
        );
    }
    let most = |latency: &Latency| latency.max().unwrap_or(Nanos::ZERO);
    row("max", most(&seen.service), most(&seen.response));
}

fn row(name: &str, service: Nanos, response: Nanos) {
    println!(
        "{name:>7} {:>13.1} ms {:>13.1} ms",
        service.as_millis_f64(),
        response.as_millis_f64()
    );
}
