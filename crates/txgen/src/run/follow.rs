//! The followers: blocks and mempool depths of every endpoint.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base::Random;
use chain::{FollowWith, NodeClient};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use measure::{BlockSeen, BlockTx, Codespace, MempoolSample, UNKNOWN_CODE};
use rpc::{
    ClientError, ClientOptions, FollowEvent, FollowOptions, FollowedBlock, Follower, HeaderTime,
};
use sender::clock::RunClock;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::nodes::Node;
use super::record::FollowerReport;
use crate::live::NodeBoard;
use crate::observe::mempool_pause;
use crate::plan::Plan;

/// Followers at work.
pub(super) struct Follow {
    shutdown: CancellationToken,
    threads: Vec<JoinHandle<()>>,
    notes: Receiver<String>,
    followers: u16,
}

impl Follow {
    /// How many followers report to the recorder.
    pub(super) fn followers(&self) -> u16 {
        self.followers
    }

    /// What happened to the followers since the last call, for people.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.notes.try_iter()
    }

    /// Waits until each follower knows which block comes next.
    fn await_connected(self, connecting: Vec<(&Node, Receiver<()>)>) -> anyhow::Result<Self> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        for (node, connection) in connecting {
            if connection.recv_deadline(deadline).is_err() {
                let reason = self
                    .notes()
                    .last()
                    .unwrap_or_else(|| format!("nothing came in {} s", CONNECT_TIMEOUT.as_secs()));
                self.stop();
                bail!(
                    "the blocks of {} cannot be followed: {reason}; use --no-follow for a target without blocks",
                    node.address.endpoint
                );
            }
        }
        Ok(self)
    }

    /// Ends them and waits for it.
    pub(super) fn stop(self) {
        self.shutdown.cancel();
        for thread in self.threads {
            // A panic in a follower was reported by its thread; the run has its account.
            let _ = thread.join();
        }
    }
}

/// Starts a follower per node and waits until each knows which block comes next: no block with one of
/// our transactions can then be missed.
///
/// # Errors
/// When a node does not report its height.
pub(super) fn start(
    plan: &Plan,
    nodes: &[Node],
    clock: &RunClock,
    seen: &Sender<FollowerReport>,
    board: &Arc<NodeBoard>,
) -> anyhow::Result<Follow> {
    let (note, notes) = bounded(NOTES);
    let mut follow = Follow {
        shutdown: CancellationToken::new(),
        threads: Vec::new(),
        notes,
        followers: 0,
    };
    if !plan.follow {
        return Ok(follow);
    }
    let runtime = crate::runtime().context(REFUSED)?;
    let tasks = TaskTracker::new();
    let mut connecting = Vec::new();
    for node in nodes {
        let poller = MempoolPoller::new(plan, node, clock, seen, board)?;
        let follower = spawn_tasks(
            plan,
            node,
            clock,
            poller,
            &follow.shutdown,
            &tasks,
            &runtime,
        )?;
        let (connected, connection) = bounded(1);
        connecting.push((node, connection));
        let bridge = Bridge {
            follower,
            clock: clock.clone(),
            number: node.address.number,
            name: node.address.endpoint.to_string(),
            seen: seen.clone(),
            note: note.clone(),
            board: board.clone(),
            connected,
        };
        let name = format!("blocks-{}", node.address.number);
        let thread = thread::Builder::new().name(name).spawn(|| bridge.carry());
        follow.threads.push(thread.context(REFUSED)?);
        follow.followers += 1;
    }
    tasks.close();
    let name = "followers".into();
    let thread = thread::Builder::new()
        .name(name)
        .spawn(move || runtime.block_on(tasks.wait()));
    follow.threads.push(thread.context(REFUSED)?);
    follow.await_connected(connecting)
}

/// Puts the follower and the mempool's poller of a node on the runtime; both end with `shutdown`.
fn spawn_tasks(
    plan: &Plan,
    node: &Node,
    clock: &RunClock,
    poller: MempoolPoller,
    shutdown: &CancellationToken,
    tasks: &TaskTracker,
    runtime: &Runtime,
) -> anyhow::Result<Follower> {
    let options = FollowOptions {
        trust: plan.trust.clone(),
        confirmations: plan.node_options.confirmations.get().into(),
        ..FollowOptions::default()
    };
    let with = FollowWith {
        endpoint: &node.address.endpoint,
        options,
        clock: clock.clone(),
        shutdown: shutdown.clone(),
    };
    let (follower, task) = plan.target.target().follow(&node.probe, with)?;
    tasks.spawn_on(task, runtime.handle());
    let shutdown = shutdown.clone();
    tasks.spawn_on(
        async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = poller.poll() => {}
            }
        },
        runtime.handle(),
    );
    Ok(follower)
}

/// Carries one follower's events to the recorder, on a thread that may wait for it.
struct Bridge {
    follower: Follower,
    clock: RunClock,
    number: u16,
    name: String,
    seen: Sender<FollowerReport>,
    note: Sender<String>,
    board: Arc<NodeBoard>,
    connected: Sender<()>,
}

impl Bridge {
    fn carry(mut self) {
        let mut failed = false;
        while let Some(event) = self.follower.blocking_next() {
            failed |= matches!(event, FollowEvent::Failed(_));
            let Some(seen) = self.translate(event) else {
                continue;
            };
            if self.seen.send(seen).is_err() {
                break;
            }
        }
        let _ = self.seen.send(FollowerReport::Retired {
            follower: self.number,
            failed,
        });
    }

    fn translate(&self, event: FollowEvent) -> Option<FollowerReport> {
        if let Some(text) = remark(&event) {
            // Notes are for people: one that finds no room is dropped.
            let _ = self
                .note
                .try_send(format!("blocks of {}: {text}", self.name));
        }
        match event {
            FollowEvent::Block(block) => {
                let seen = block_seen(&block, &self.clock);
                let txs = seen.txs.len() as u64;
                self.board
                    .block(self.number, seen.height, txs, seen.observed);
                Some(FollowerReport::Block(seen))
            }
            FollowEvent::Watermark(at) => Some(FollowerReport::Watermark {
                follower: self.number,
                at,
            }),
            FollowEvent::Connected { .. } => {
                self.board.connected(self.number);
                let _ = self.connected.try_send(());
                None
            }
            FollowEvent::Disconnected { reason, unread, .. } => {
                self.board.lost(self.number, &reason);
                unread.then_some(FollowerReport::Unread {
                    follower: self.number,
                })
            }
            FollowEvent::Reorganised {
                blocks, taken_back, ..
            } => Some(FollowerReport::Reorganised {
                blocks: blocks.len() as u64,
                taken_back: taken_back.len() as u64,
            }),
            FollowEvent::Failed(error) => {
                self.board.lost(self.number, &error.to_string());
                None
            }
            FollowEvent::CaughtUp { .. } => Some(FollowerReport::Read {
                follower: self.number,
            }),
            FollowEvent::Accepted { .. }
            | FollowEvent::Arrived(_)
            | FollowEvent::Unsubscribed { .. }
            | FollowEvent::Missing { .. }
            | FollowEvent::CodesUnavailable { .. } => None,
        }
    }
}

/// What a user should know of an event, where that is something.
fn remark(event: &FollowEvent) -> Option<String> {
    Some(match event {
        FollowEvent::Disconnected { reason, .. } => format!("lost: {reason}"),
        FollowEvent::Unsubscribed { reason } => format!(
            "the node does not announce them; they are found by polling, and commit latencies are as coarse as the \
             polls: {reason}"
        ),
        FollowEvent::Reorganised { height, blocks, .. } => {
            let blocks = blocks.len();
            format!("{blocks} blocks from height {height} on left the best chain")
        }
        FollowEvent::Missing { first, last } => format!(
            "no longer has the blocks {first} to {last}: what they contain counts as pending; have it keep more of \
             them (min-retain-blocks, where it has an app.toml), or give an endpoint that does"
        ),
        FollowEvent::CodesUnavailable { height, reason } => format!(
            "gives no results of block {height}: its transactions, and those of later blocks whose success no header \
             shows, are unverified: {reason}"
        ),
        FollowEvent::Failed(error) => format!("{error}; start a new run"),
        FollowEvent::Connected { .. }
        | FollowEvent::Arrived(_)
        | FollowEvent::CaughtUp { .. }
        | FollowEvent::Block(_)
        | FollowEvent::Accepted { .. }
        | FollowEvent::Watermark(_) => return None,
    })
}

/// A block without a header time (BigchainDB) gets the time of its observation.
fn block_seen(block: &FollowedBlock, clock: &RunClock) -> BlockSeen {
    let header_time_unix_ns = if block.header_time == HeaderTime::default() {
        i64::try_from(clock.unix_ns(block.observed)).unwrap_or(i64::MAX)
    } else {
        i64::try_from(block.header_time.unix_nanos()).unwrap_or(i64::MAX)
    };
    BlockSeen {
        height: block.height,
        header_time_unix_ns,
        observed: block.observed,
        resolution: block.resolution,
        bytes: block.bytes,
        gas_wanted: block.gas.map(|gas| gas.wanted),
        gas_used: block.gas.map(|gas| gas.used),
        txs: block
            .txs()
            .enumerate()
            .map(|(at, (hash, code))| BlockTx {
                hash,
                code: code.unwrap_or(UNKNOWN_CODE),
                space: Codespace::named(block.codespace(at)),
            })
            .collect(),
    }
}

/// Asks for the mempool's depth at random instants, five times a second: at regular ones it would see a
/// chain with regular blocks always just before, or always just after a block.
struct MempoolPoller {
    client: Arc<dyn NodeClient>,
    endpoint: u16,
    clock: RunClock,
    seen: Sender<FollowerReport>,
    board: Arc<NodeBoard>,
    random: Random,
}

impl MempoolPoller {
    fn new(
        plan: &Plan,
        node: &Node,
        clock: &RunClock,
        seen: &Sender<FollowerReport>,
        board: &Arc<NodeBoard>,
    ) -> Result<Self, ClientError> {
        let options = ClientOptions::new(MEMPOOL_TIMEOUT, &plan.trust);
        Ok(Self {
            client: plan
                .target
                .target()
                .connect(&node.address.endpoint, options)?,
            endpoint: node.address.number,
            clock: clock.clone(),
            seen: seen.clone(),
            board: board.clone(),
            random: Random::new(plan.seed ^ u64::from(node.address.number)),
        })
    }

    async fn poll(mut self) {
        loop {
            tokio::time::sleep(mempool_pause(&mut self.random)).await;
            // A node that does not answer now is asked again; the series shows the gap. One whose
            // interface does not tell is not.
            let mempool = match self.client.pending(&[]).await {
                Ok(Some(mempool)) => mempool,
                Ok(None) => return,
                Err(_) => continue,
            };
            let sample = MempoolSample {
                at: self.clock.now(),
                endpoint: self.endpoint,
                txs: mempool.txs,
                bytes: mempool.bytes,
            };
            self.board
                .mempool(self.endpoint, sample.txs, sample.bytes, sample.at);
            // A recorder without room now gets the next one.
            if let Err(TrySendError::Disconnected(_)) =
                self.seen.try_send(FollowerReport::Mempool(sample))
            {
                return;
            }
        }
    }
}

const REFUSED: &str = "cannot follow blocks";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MEMPOOL_TIMEOUT: Duration = Duration::from_secs(5);
const NOTES: usize = 64;

#[cfg(test)]
mod tests {
    use rpc::FollowError;

    use super::*;

    #[test]
    fn what_stays_unseen_is_named_with_what_it_does_to_the_figures_and_what_to_do() {
        let pruned = remark(&FollowEvent::Missing { first: 6, last: 7 }).unwrap();
        for part in [
            "the blocks 6 to 7",
            "counts as pending",
            "min-retain-blocks",
            "give an endpoint that does",
        ] {
            assert!(pruned.contains(part), "{part}: {pruned}");
        }
        let (before, now) = ("one".into(), "two".into());
        let replaced = FollowEvent::Failed(FollowError::OtherChain {
            before,
            now,
            latest: 1,
        });
        assert!(remark(&replaced).unwrap().ends_with("start a new run"));
        assert_eq!(remark(&FollowEvent::CaughtUp { height: 7 }), None);
    }

    /// A chain that empties its mempool with a block each second and takes 600 transactions in between,
    /// so that 300 wait on average: what samples show of it does not depend on when the first one is taken.
    #[test]
    fn the_mempool_of_a_chain_with_regular_blocks_is_sampled_at_every_phase_of_them() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut at = Duration::from_millis(seed * 50);
            let depths: Vec<u64> = (0..2_000)
                .map(|_| {
                    at += mempool_pause(&mut random);
                    u64::from(at.subsec_millis()) * 600 / 1_000
                })
                .collect();
            let mean = depths.iter().sum::<u64>() / depths.len() as u64;
            assert!((285..=315).contains(&mean), "{mean} with seed {seed}");
            for tenth in 0..10 {
                let phase = tenth * 60..(tenth + 1) * 60;
                let share = depths.iter().filter(|depth| phase.contains(*depth)).count();
                assert!((150..=250).contains(&share), "{share} of 2000 in {phase:?}");
            }
        }
    }
}
