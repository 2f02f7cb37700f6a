//! Three unequal clients, one limit, and who gets what.
//!
//! `cargo run --release --example sentinel_in_front`
//!
//! The built-in node, sentinel in front of it with 2,000 writes a second, and three clients over
//! WebSocket for 22 seconds: 127.0.0.2 offers as much as is taken, 127.0.0.3 offers 1,000/s and
//! 127.0.0.4 ten. First come, first served would leave the small ones what the flood overlooks. The
//! max-min fair shares are 995, 995 and 10: whoever asks for less than an equal part gets all of it,
//! and what it leaves is shared by the others. Nobody is refused: a WebSocket whose queue is full is
//! not read until there is room.
//!
//! The last line is the node's own view: the most writes that reached it within any 100 ms, which is
//! 2,000/s × 100 ms and a burst of 20 ms at that rate, if the machine does not make the node read late.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64_simd::STANDARD;
use devnode::{DevNode, MempoolConfig};
use futures_util::{SinkExt as _, StreamExt as _};
use pacing::{Arrivals, Profile, Rate, Schedule};
use sentinel::config::{Config, PaceMode};
use sentinel::serve::{Listeners, serve};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

const MAX_REQ: u64 = 2_000;
const LENGTH: Duration = Duration::from_secs(22);
/// Queues have filled by then.
const STEADY_AFTER: Duration = Duration::from_secs(2);
/// The node's counter is read so often, and looked at in windows of this length.
const SAMPLE: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_millis(100);
/// What the flooding client has under way: more than its queue in sentinel holds.
const FLOOD_IN_FLIGHT: usize = 4_096;
/// The clients: the last part of their address, what they offer a second, and what is fair.
const CLIENTS: [(u8, Offer, u64); 3] = [
    (2, Offer::AllThatIsTaken, 995),
    (3, Offer::Rate(1_000), 995),
    (4, Offer::Rate(10), 10),
];

#[derive(Debug, Clone, Copy)]
enum Offer {
    AllThatIsTaken,
    Rate(u64),
}

#[tokio::main]
async fn main() -> Result<()> {
    let (node, worker) = DevNode::bind(devnode::Config {
        mempool: MempoolConfig {
            size: 20_000,
            ..MempoolConfig::default()
        },
        ..devnode::Config::default()
    })
    .await?;
    let (node, worker) = (Arc::new(node), tokio::spawn(worker));

    let config = limited(node.rpc_url().parse()?)?;
    let listeners = Listeners::bind(&config).await?;
    let address = listeners.address()?;
    let shutdown = CancellationToken::new();
    let sentinel = tokio::spawn(serve(listeners, config, shutdown.clone()));
    println!(
        "{} seconds of three clients under {MAX_REQ}/s …\n",
        LENGTH.as_secs()
    );

    let origin = Instant::now();
    let watched = tokio::spawn(most_in_a_window(Arc::clone(&node), origin + LENGTH));
    let mut clients = JoinSet::new();
    for (host, offer, fair) in CLIENTS {
        clients.spawn(async move {
            let accepted = client(host, offer, address, origin).await?;
            anyhow::Ok((host, offer, fair, accepted))
        });
    }
    let mut results = clients
        .join_all()
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    results.sort_unstable_by_key(|result| result.0);
    let most = watched.await?;
    shutdown.cancel();
    sentinel.await??;
    node.shutdown();
    worker.await?;

    report(&results);
    let allowed = MAX_REQ * (WINDOW.as_millis() as u64 + 20) / 1_000;
    println!("\nmost in any 100 ms at the node: {most} (2,000/s and the burst: {allowed})");
    Ok(())
}

/// sentinel on a free port in front of one node, with a limit that does not move.
fn limited(node: rpc::Endpoint) -> Result<Config> {
    let mut config = Config::default();
    config.listen.addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.admin.addr = None;
    config.upstream.urls = vec![node];
    config.fair.max_req = Rate::per_second(MAX_REQ)?;
    config.pace.mode = PaceMode::Fixed;
    Ok(config)
}

fn report(results: &[(u8, Offer, u64, u64)]) {
    println!("client        offered/s  accepted/s   fair");
    let steady = (LENGTH - STEADY_AFTER).as_secs_f64();
    for (host, offer, fair, accepted) in results {
        let offered = match offer {
            Offer::AllThatIsTaken => "a flood".to_owned(),
            Offer::Rate(rate) => rate.to_string(),
        };
        let rate = *accepted as f64 / steady;
        println!("127.0.0.{host} {offered:>14} {rate:>11.1} {fair:>6}");
    }
}

/// The most broadcasts that the node counted within a window, until the end.
async fn most_in_a_window(node: Arc<DevNode>, end: Instant) -> u64 {
    let mut samples: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut most = 0;
    while Instant::now() < end {
        let (now, count) = (Instant::now(), node.snapshot().broadcasts);
        samples.push_back((now, count));
        while samples.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            samples.pop_front();
        }
        most = most.max(samples.front().map_or(0, |(_, before)| count - before));
        sleep(SAMPLE).await;
    }
    most
}

/// Offers until the end; how many transactions were accepted in the steady part.
async fn client(host: u8, offer: Offer, to: SocketAddr, origin: Instant) -> Result<u64> {
    let socket = connect(host, to).await?;
    let (mut requests, mut answers) = socket.split();
    let in_flight = Arc::new(Semaphore::new(FLOOD_IN_FLIGHT));
    let answered = Arc::clone(&in_flight);
    let mut offering = JoinSet::new();
    offering.spawn(async move {
        let mut schedule = match offer {
            Offer::AllThatIsTaken => None,
            Offer::Rate(rate) => Some(even(rate)?.shard(0, NonZeroU32::MIN)),
        };
        for number in 0_u64.. {
            match &mut schedule {
                None => in_flight.acquire().await?.forget(),
                Some(due) => match due.next() {
                    Some(due) => sleep_until(origin + Duration::from(due.at)).await,
                    None => break,
                },
            }
            let tx = STANDARD.encode_to_string(format!("{host}-{number}={}", "v".repeat(230)));
            let request = format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
            );
            requests.send(Message::text(request)).await?;
        }
        anyhow::Ok(())
    });
    let mut accepted = 0;
    let end = origin + LENGTH;
    while let Ok(Some(answer)) = tokio::time::timeout_at(end, answers.next()).await {
        let answer = answer?.into_text()?;
        if !answer.contains(r#""code":0"#) {
            bail!("127.0.0.{host} was not served: {answer}");
        }
        answered.add_permits(1);
        accepted += u64::from(origin.elapsed() >= STEADY_AFTER);
    }
    Ok(accepted)
}

async fn connect(host: u8, to: SocketAddr) -> Result<WebSocketStream<TcpStream>> {
    let from = IpAddr::from([127, 0, 0, host]);
    let socket = TcpSocket::new_v4()?;
    socket
        .bind(SocketAddr::new(from, 0))
        .with_context(|| format!("{from} is not an address of this machine"))?;
    let stream = socket.connect(to).await?;
    let (socket, _) = client_async(format!("ws://{to}/websocket"), stream).await?;
    Ok(socket)
}

/// One transaction after the other at this rate, for the whole run.
fn even(rate: u64) -> Result<Schedule> {
    let profile = Profile::constant(Rate::per_second(rate)?, Some(LENGTH.into()))?;
    Ok(Schedule::new(profile, Arrivals::Even))
}
