//! A node that is to be measured.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use chain::{FollowWith, NodeClient, Probe};
use pacing::Nanos;
use report::text::grouped;
use rpc::{ClientOptions, Endpoint, FollowEvent, FollowOptions};
use sender::clock::RunClock;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Finding;
use crate::plan::{Nodes, Plan};

/// What a look at it shows.
#[derive(Debug, Clone)]
pub(super) struct NodeLook {
    pub(super) probe: Probe,
    /// Whether it answers at an address of this machine.
    pub(super) is_here: bool,
    /// The shortest and the longest of some small queries.
    pub(super) round_trip: [Nanos; 2],
    /// Transactions that wait in its mempool, where it tells.
    pub(super) waiting: Option<u64>,
    /// Times between the blocks that it announced meanwhile.
    pub(super) intervals: Vec<Nanos>,
}

/// Asks the plan's first node, and watches it for a few blocks.
///
/// # Errors
/// When it cannot be measured.
pub(super) fn look(plan: &Plan) -> anyhow::Result<NodeLook> {
    let Nodes::Endpoints(endpoints) = &plan.nodes else {
        return Err(anyhow!("no node was named"));
    };
    let endpoint = endpoints.first().context("no node was named")?;
    let runtime = crate::runtime().context("cannot ask the node")?;
    runtime.block_on(async {
        let options = ClientOptions::new(PATIENCE, &plan.trust);
        let client = plan.target.target().connect(endpoint, options)?;
        let probe = client.probe(&plan.load_options()).await?;
        let (round_trip, waiting) = ask(client.as_ref()).await;
        Ok(NodeLook {
            is_here: endpoint.resolve().is_ok_and(|all| all.iter().any(is_own)),
            intervals: intervals(plan, endpoint, &probe).await?,
            round_trip,
            waiting,
            probe,
        })
    })
}

async fn ask(client: &dyn NodeClient) -> ([Nanos; 2], Option<u64>) {
    let (mut least, mut most, mut waiting) = (Nanos::MAX, Nanos::ZERO, None);
    for number in 0..QUERIES {
        let asked = Instant::now();
        let answer = client.pending(&[]).await;
        let took = Nanos::from(asked.elapsed());
        // The first opens a connection.
        if number > 0 {
            (least, most) = (least.min(took), most.max(took));
        }
        waiting = answer.ok().flatten().map(|mempool| mempool.txs).or(waiting);
    }
    ([least, most], waiting)
}

/// Whether something may listen at this address here: then it is one of this machine's.
fn is_own(address: &SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

/// Times between the blocks of the next seconds.
async fn intervals(plan: &Plan, endpoint: &Endpoint, probe: &Probe) -> anyhow::Result<Vec<Nanos>> {
    let shutdown = CancellationToken::new();
    // Until it is started a clock shows 0.
    let clock = RunClock::default();
    clock.start(Nanos::ZERO);
    let with = FollowWith {
        endpoint,
        options: FollowOptions {
            trust: plan.trust.clone(),
            codes: false,
            ..FollowOptions::default()
        },
        clock,
        shutdown: shutdown.clone(),
    };
    let (mut follower, task) = plan.target.target().follow(probe, with)?;
    let mut seen: Vec<Nanos> = Vec::new();
    let watch = async {
        while seen.len() <= BLOCKS
            && let Some(event) = follower.next().await
        {
            if let FollowEvent::Block(block) = event {
                seen.push(block.observed);
            }
        }
    };
    let _ = timeout(WATCH, async {
        tokio::select! {
            () = task => {}
            () = watch => {}
        }
    })
    .await;
    shutdown.cancel();
    Ok(seen
        .windows(2)
        .map(|two| two[1].saturating_sub(two[0]))
        .collect())
}

/// What is said of it.
pub(super) fn findings(node: &NodeLook) -> Vec<Finding> {
    let chain = node.probe.chain_id.as_deref().unwrap_or("not named");
    let [least, most] = node.round_trip.map(Nanos::as_millis_f64);
    let waiting = match node.waiting {
        Some(count) => format!("{} transactions", grouped(count)),
        None => "it does not tell how many transactions wait".into(),
    };
    let place = if node.is_here {
        "on this machine"
    } else {
        "on another machine"
    };
    vec![
        Finding::new(
            "node",
            format!("version {}, chain {chain}", node.probe.version),
        ),
        Finding::new("place", place).unless(!node.is_here),
        Finding::new("round trip", format!("{least:.2} to {most:.2} ms")),
        blocks(&node.intervals),
        Finding::new("mempool", waiting).unless(node.waiting.unwrap_or(0) == 0),
        limits(&node.probe),
    ]
}

fn blocks(intervals: &[Nanos]) -> Finding {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let text = match (sorted.first(), sorted.last()) {
        (Some(least), Some(most)) => format!(
            "every {:.2} s ({:.2} to {:.2} s over {} blocks)",
            sorted[sorted.len() / 2].as_secs_f64(),
            least.as_secs_f64(),
            most.as_secs_f64(),
            sorted.len() + 1
        ),
        _ => format!("fewer than two were seen in {} s", WATCH.as_secs()),
    };
    Finding::new("blocks", text).unless(!sorted.is_empty())
}

fn limits(probe: &Probe) -> Finding {
    let limits = &probe.limits;
    let known = [
        (limits.block_txs, "transactions in a block"),
        (limits.block_bytes, "bytes in a block"),
        (limits.block_gas, "gas in a block"),
        (limits.mempool_txs, "transactions in the mempool"),
    ];
    let known = known.into_iter();
    let known = known.filter_map(|(limit, of)| Some(format!("{} {of}", grouped(limit?))));
    let text = known.collect::<Vec<_>>().join(", ");
    let text = if text.is_empty() {
        "it tells none".into()
    } else {
        text
    };
    Finding::new("limits", text)
}

const PATIENCE: Duration = Duration::from_secs(5);
const QUERIES: usize = 11;
/// Intervals that are enough.
const BLOCKS: usize = 5;
const WATCH: Duration = Duration::from_secs(12);
