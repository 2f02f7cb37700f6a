//! Nodes on this machine: the built-in node as a guest of the run, on threads of its own and gone with the run; and for how
//! long the nodes had work and no processor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, process};

use devnode::{Blueprint, DevNode, DevNodeError};
use pacing::Nanos;
use procfs::process::{Process, Task};
use procfs::{CurrentSI as _, KernelStats};
use rpc::Endpoint;
use servers::listener;

use super::nodes::Node;
use crate::chains::TargetKind;
use crate::plan::Guest;

/// The threads of the nodes on this machine.
pub(super) struct NodeWatch {
    /// Whether a node is on this machine.
    pub(super) has_node: bool,
    processes: Vec<Process>,
    /// By the last look, by their number.
    threads: BTreeMap<i32, Use>,
    /// That their threads may use.
    processors: u32,
    at: Instant,
}

/// What a thread has had by one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    ran: Duration,
    waited: Duration,
}

impl NodeWatch {
    /// Those of the processes that listen where the nodes answer; nothing of a process that may not be looked at.
    pub(super) fn new(nodes: &[Node]) -> Self {
        let endpoints = nodes.iter().map(|node| &node.address.endpoint);
        let here: Vec<&Endpoint> = endpoints.filter(|it| is_here(&it.host())).collect();
        let ports = here.iter().map(|endpoint| endpoint.port());
        let mut pids: Vec<i32> = ports.filter_map(listener).collect();
        pids.sort_unstable();
        pids.dedup();
        let processes = pids.into_iter().filter_map(|pid| Process::new(pid).ok());
        let processes: Vec<Process> = processes.collect();
        let mut watch = Self {
            has_node: !here.is_empty(),
            processors: processors(&processes),
            processes,
            threads: BTreeMap::new(),
            at: Instant::now(),
        };
        watch.threads = watch.look();
        watch
    }

    /// Since the last call.
    pub(super) fn lack(&mut self) -> Nanos {
        let (now, threads) = (Instant::now(), self.look());
        let passed = now.duration_since(std::mem::replace(&mut self.at, now));
        let before = std::mem::replace(&mut self.threads, threads);
        Nanos::from(lack(&before, &self.threads, passed, self.processors))
    }

    fn look(&self) -> BTreeMap<i32, Use> {
        let tasks = self.processes.iter().filter_map(|it| it.tasks().ok());
        let tasks = tasks.flatten().flatten().take(MOST_THREADS);
        tasks
            .filter(is_a_nodes)
            .filter_map(|task| Some((task.tid, Use::of(&task)?)))
            .collect()
    }
}

impl Use {
    /// A thread that has just ended has no figures.
    fn of(task: &Task) -> Option<Self> {
        let stat = task.schedstat().ok()?;
        Some(Self {
            ran: Duration::from_nanos(stat.sum_exec_runtime),
            waited: Duration::from_nanos(stat.run_delay),
        })
    }
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

/// In this process the built-in node has threads of its own; the others generate.
fn is_a_nodes(task: &Task) -> bool {
    let is_other = u32::try_from(task.pid) != Ok(process::id());
    is_other || task.stat().is_ok_and(|stat| stat.comm.starts_with(THREADS))
}

/// How many processors these may use together: those of the machine, or those that they are bound to.
fn processors(processes: &[Process]) -> u32 {
    let all = KernelStats::current().map_or(u32::MAX, |it| it.cpu_time.len() as u32);
    let bound_to = processes.iter().filter_map(|it| it.status().ok());
    let bound_to = bound_to.filter_map(|it| it.cpus_allowed_list).flatten();
    let bound_to: BTreeSet<u32> = bound_to.flat_map(|(first, last)| first..=last).collect();
    match bound_to.len() as u32 {
        0 => all,
        some => all.min(some),
    }
}

/// The longest wait of a thread that was never without work in the time that passed. One that slept had done what there
/// was to do, however long it had waited before. A node lacks no more than its threads left to others: where they had all
/// processors that they may use, they waited for each other.
fn lack(
    before: &BTreeMap<i32, Use>,
    now: &BTreeMap<i32, Use>,
    passed: Duration,
    processors: u32,
) -> Duration {
    let since = now.iter().filter_map(|(thread, now)| {
        let before = before.get(thread)?;
        let ran = now.ran.saturating_sub(before.ran);
        Some((ran, now.waited.saturating_sub(before.waited)))
    });
    let had: Duration = since.clone().map(|(ran, _)| ran).sum();
    let waits = since.filter(|(ran, waited)| *ran + *waited >= passed.mul_f64(NEVER_IDLE));
    let longest = waits.map(|(_, waited)| waited).max().unwrap_or_default();
    longest
        .min(passed)
        .min((passed * processors).saturating_sub(had))
}

/// The kernel adds a wait when it ends, and threads are read one after the other: both are some milliseconds of the 50
/// between two looks.
const NEVER_IDLE: f64 = 0.9;
/// More threads are not looked at: it takes some 10 µs for each.
const MOST_THREADS: usize = 256;

/// A running built-in node.
pub(crate) struct BuiltInNode {
    node: Option<DevNode>,
    guest: Guest,
    thread: Option<JoinHandle<()>>,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum BuiltInError {
    /// Its configuration is illegal, or its address cannot be had.
    #[error("the built-in node cannot start")]
    Node(#[from] DevNodeError),
    /// The system gives no thread or runtime.
    #[error("the built-in node cannot start")]
    System(#[from] io::Error),
}

impl BuiltInNode {
    /// Starts it and waits until it listens for what the run speaks.
    pub(crate) fn start(node: Blueprint, target: TargetKind) -> Result<Self, BuiltInError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name(THREADS)
            .enable_all()
            .build()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("{THREADS}-main"))
            .spawn(move || {
                runtime.block_on(async {
                    match DevNode::bind(node).await {
                        Ok((node, worker)) => {
                            let _ = sender.send(Ok(node));
                            worker.await;
                        }
                        Err(error) => {
                            let _ = sender.send(Err(error));
                        }
                    }
                });
            })?;
        let node = receiver
            .recv()
            .map_err(|_| io::Error::other("its thread ended early"))??;
        Ok(Self {
            guest: Guest {
                address: target.target().built_in_address(&node),
                rpc: node.rpc_address(),
            },
            node: Some(node),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(crate) fn guest(&self) -> Guest {
        self.guest
    }
}

impl Drop for BuiltInNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown();
        }
        if let Some(thread) = self.thread.take() {
            // A panic in the node was reported by its thread already.
            let _ = thread.join();
        }
    }
}

/// How the names of its threads begin.
pub(super) const THREADS: &str = "devnode";
/// One for the connections, one for the chain: more would only compete with the generator.
const WORKERS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(threads: &[(u64, u64)]) -> Duration {
        let uses = |times: u64| {
            let each = threads.iter().zip(1..).map(move |((ran, waited), thread)| {
                let [ran, waited] = [ran, waited].map(|ms| Duration::from_millis(ms * times));
                (thread, Use { ran, waited })
            });
            each.collect::<BTreeMap<_, _>>()
        };
        lack(&uses(1), &uses(2), Duration::from_millis(50), 2)
    }

    #[test]
    fn a_node_lacks_the_processor_only_while_a_thread_has_work_without_a_pause() {
        let millis = Duration::from_millis;
        assert_eq!(after(&[]), millis(0), "unknown is no lack");
        assert_eq!(after(&[(25, 25)]), millis(25));
        assert_eq!(after(&[(50, 0)]), millis(0), "it had one to itself");
        assert_eq!(after(&[(5, 35)]), millis(0), "it slept");
        assert_eq!(after(&[(20, 20), (20, 20)]), millis(0), "both did");
        assert_eq!(after(&[(5, 5), (10, 40), (40, 10)]), millis(40));
        assert_eq!(after(&[(1, 120)]), millis(50), "a wait from before");
        let all = [(50, 0), (25, 25), (25, 25)];
        assert_eq!(after(&all), millis(0), "they waited for each other");
        let most = [(50, 0), (20, 30), (20, 30)];
        assert_eq!(after(&most), millis(10), "what others had");
        let begun = [(
            1,
            Use {
                ran: millis(0),
                waited: millis(50),
            },
        )]
        .into();
        assert_eq!(lack(&BTreeMap::new(), &begun, millis(50), 2), millis(0));
    }
}
