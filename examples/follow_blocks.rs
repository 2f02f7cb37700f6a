//! Every block of a chain, once and in order, a line for each.
//!
//! `cargo run --release --example follow_blocks [URL]`
//!
//! With a URL (http, https, ws or wss) it follows that node until Ctrl-C, through restarts of the node
//! and lost connections. Without one it starts the built-in node, sends it a few transactions, and
//! ends after ten blocks. `age` is how long after the time in its header a block was seen here: about
//! one block interval, because that time is the median of the votes for the block before. It compares
//! two clocks, so on another machine it also shows how far they are apart.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use chain_cometbft::Client;
use devnode::{Config, DevNode};
use pacing::Nanos;
use rpc::{BroadcastMethod, Endpoint, FollowEvent, FollowOptions, FollowedBlock, Follower};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(url) => {
            let endpoint: Endpoint = url
                .parse()
                .with_context(|| format!("'{url}' is no endpoint"))?;
            follow(&endpoint, u64::MAX).await
        }
        None => follow_the_built_in_node().await,
    }
}

async fn follow_the_built_in_node() -> Result<()> {
    let config = Config {
        block_interval: Duration::from_millis(500),
        ..Config::default()
    };
    let (node, worker) = DevNode::bind(config).await?;
    let endpoint: Endpoint = node.ws_url().parse()?;
    // The node and its visitor run as long as the follower does, and no longer.
    tokio::select! {
        followed = follow(&endpoint, 10) => followed,
        () = worker => Ok(()),
        sent = send_a_few(&endpoint) => sent,
    }
}

async fn send_a_few(endpoint: &Endpoint) -> Result<()> {
    let client = Client::new(endpoint, Duration::from_secs(5))?;
    let mut every = tokio::time::interval(Duration::from_millis(30));
    for number in 0_u64.. {
        every.tick().await;
        let tx = format!("example{number}=1");
        client
            .broadcast(BroadcastMethod::Sync, tx.as_bytes())
            .await?;
    }
    Ok(())
}

async fn follow(endpoint: &Endpoint, blocks: u64) -> Result<()> {
    let origin = Instant::now();
    let clock = move || Nanos::from(origin.elapsed());
    let origin_unix = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let shutdown = CancellationToken::new();
    let (follower, worker) =
        chain_cometbft::follow(endpoint, FollowOptions::default(), clock, shutdown.clone())?;
    let printing = async {
        let printed = print(follower, blocks, origin_unix).await;
        shutdown.cancel();
        printed
    };
    tokio::join!(worker.run(), printing).1
}

async fn print(mut follower: Follower, blocks: u64, origin_unix: Duration) -> Result<()> {
    let mut left = blocks;
    let mut before = None;
    while left > 0 {
        match follower.next().await {
            Some(FollowEvent::Block(block)) => {
                println!("{}", line(&block, before, origin_unix));
                before = Some(block.observed);
                left -= 1;
            }
            Some(FollowEvent::Failed(error)) => return Err(error.into()),
            Some(FollowEvent::Watermark(_)) => {}
            Some(event) => println!("  {event:?}"),
            None => break,
        }
    }
    Ok(())
}

fn line(block: &FollowedBlock, before: Option<Nanos>, origin_unix: Duration) -> String {
    let observed = origin_unix.as_nanos() as i128 + i128::from(block.observed.as_nanos());
    let age = (observed - block.header_time.unix_nanos()) as f64 / 1e6;
    let gap = before.map_or_else(String::new, |before| {
        let gap = block.observed.saturating_sub(before);
        format!("  {:.0} ms after the last", gap.as_millis_f64())
    });
    let failed = block.codes.iter().filter(|code| **code != 0).count();
    format!(
        "height {:>6}  {:>6} txs  {:>8} bytes  {failed} failed  age {age:>7.1} ms{gap}",
        block.height,
        block.hashes.len(),
        block.bytes,
    )
}
