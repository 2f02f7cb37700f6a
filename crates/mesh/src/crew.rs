//! The nodes of a mesh as processes, their control sockets, and the machine that they run on, from `/proc/stat`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use harness::Shutdown;
use procfs::{CpuTime, CurrentSI as _, KernelStats};
use serde::{Deserialize, Serialize};
use servers::{Process, Throttle};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::control::{NodeConfig, NodeMessage, Order};
use super::plan::MeshPlan;
use crate::settings::PerNode;

/// All nodes that this machine runs.
pub(crate) struct Crew {
    /// Dropped first: a node that is stopped does not end.
    throttles: Vec<Throttle>,
    members: Vec<Member>,
    messages: Receiver<(u16, FromNode)>,
    readers: JoinSet<()>,
    shutdown: Shutdown,
    /// The same, until it is ignored.
    interrupts: Shutdown,
    _folder: tempfile::TempDir,
}

/// One node.
pub(crate) struct Member {
    pub(crate) node: u16,
    pub(crate) listen: SocketAddr,
    process: Process,
    /// `None` once it has ended.
    orders: Option<OwnedWriteHalf>,
}

/// What comes from a node's socket.
enum FromNode {
    Message(Box<NodeMessage>),
    /// The socket is closed, or the node has sent what is no message.
    Closed(Option<String>),
}

/// What can happen to the nodes.
pub(crate) enum CrewEvent {
    /// A node has sent a message.
    Message(u16, Box<NodeMessage>),
    /// A node has ended; why.
    Ended(u16, String),
    /// The deadline has passed.
    Timeout,
    /// The user asked to stop.
    Interrupted,
}

impl Crew {
    /// Starts the nodes and waits until each has sent where it listens. Their logs go into `logs`.
    ///
    /// # Errors
    /// Where one cannot be started, ends, or sends nothing within the plan's time.
    pub(crate) async fn start(
        plan: &MeshPlan,
        program: &Path,
        logs: &Path,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the nodes' sockets")?;
        let control = folder.path().join("control");
        let listener = UnixListener::bind(&control)
            .with_context(|| format!("cannot listen on {}", control.display()))?;
        let mut processes = Vec::new();
        for node in plan.own_nodes() {
            let config = NodeConfig::of(plan, node, &control);
            let path = folder.path().join(format!("node-{node}.json"));
            let file = File::create(&path).with_context(|| path.display().to_string())?;
            serde_json::to_writer(BufWriter::new(file), &config)?;
            let process = spawn(plan, node, program, &path, logs)?;
            processes.push((node, process));
        }
        let (sender, messages) = mpsc::channel(MESSAGES_WAITING);
        let mut crew = Self {
            throttles: Vec::new(),
            members: Vec::new(),
            messages,
            readers: JoinSet::new(),
            shutdown: shutdown.clone(),
            interrupts: shutdown.clone(),
            _folder: folder,
        };
        let deadline = Instant::now() + plan.connect_timeout.as_duration();
        while !processes.is_empty() {
            crew.accept(&listener, &mut processes, &sender, deadline)
                .await?;
        }
        crew.members.sort_by_key(|member| member.node);
        for Member { node, process, .. } in &crew.members {
            if let Some(share) = PerNode::of(&plan.document.node_cpu, *node) {
                let throttle = Throttle::start(std::iter::once(process), share.0);
                crew.throttles.push(throttle.context("cannot slow a node")?);
            }
        }
        Ok(crew)
    }

    /// Accepts the next connection of a node, or notices that one of the processes has ended.
    async fn accept(
        &mut self,
        listener: &UnixListener,
        processes: &mut Vec<(u16, Process)>,
        sender: &Sender<(u16, FromNode)>,
        deadline: Instant,
    ) -> anyhow::Result<()> {
        for (_, process) in &mut *processes {
            if let Some(trouble) = process.trouble() {
                bail!("{trouble}");
            }
        }
        if self.shutdown.is_requested() {
            bail!("interrupted before all nodes were up");
        }
        if Instant::now() >= deadline {
            let late: Vec<String> = processes.iter().map(|(node, _)| node.to_string()).collect();
            bail!(
                "node {} did not come up within --connect-timeout",
                late.join(", ")
            );
        }
        let next = Instant::now() + LOOK_INTERVAL;
        let Ok(accepted) = timeout_at(next.min(deadline), listener.accept()).await else {
            return Ok(());
        };
        let (stream, _) = accepted.context("cannot accept a node's connection")?;
        let (node, listen, lines, orders) = greet(stream, deadline).await?;
        let place = processes.iter().position(|(number, _)| *number == node);
        let Some(place) = place else {
            bail!(
                "a node calls itself number {node}, which was not started or is connected already"
            );
        };
        let (_, process) = processes.swap_remove(place);
        self.readers.spawn(read(node, lines, sender.clone()));
        self.members.push(Member {
            node,
            listen,
            process,
            orders: Some(orders),
        });
        Ok(())
    }

    /// The nodes, by number.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The numbers of the nodes that have not ended.
    pub(crate) fn alive(&self) -> impl Iterator<Item = u16> {
        let alive = self.members.iter().filter(|it| it.orders.is_some());
        alive.map(|member| member.node)
    }

    /// Sends a command to all nodes.
    pub(crate) async fn send(&mut self, order: &Order) {
        let Ok(mut line) = serde_json::to_vec(order) else {
            return;
        };
        line.push(b'\n');
        for member in &mut self.members {
            if let Some(orders) = &mut member.orders {
                // The reader notices a node that has ended.
                let _ = orders.write_all(&line).await;
            }
        }
    }

    /// The next message or end of a node, at the latest at the deadline.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(crate) async fn next(&mut self, deadline: Instant) -> CrewEvent {
        loop {
            if self.interrupts.is_requested() {
                return CrewEvent::Interrupted;
            }
            let now = Instant::now();
            if now >= deadline {
                return CrewEvent::Timeout;
            }
            let until = deadline.min(now + LOOK_INTERVAL);
            match timeout_at(until, self.messages.recv()).await {
                Ok(Some((node, FromNode::Message(message)))) => {
                    return CrewEvent::Message(node, message);
                }
                Ok(Some((node, FromNode::Closed(problem)))) => {
                    if let Some(reason) = self.mark_node_ended(node, problem) {
                        return CrewEvent::Ended(node, reason);
                    }
                }
                Ok(None) => return CrewEvent::Timeout,
                Err(_) => {}
            }
        }
    }

    /// From here on [`Crew::next`] goes on when the user asks to stop.
    pub(crate) fn ignore_interrupts(&mut self) {
        self.interrupts = Shutdown::default();
    }

    /// Whether the user asked twice to stop.
    pub(crate) fn is_urgent(&self) -> bool {
        self.shutdown.is_urgent()
    }

    fn mark_node_ended(&mut self, node: u16, problem: Option<String>) -> Option<String> {
        let member = self.members.iter_mut().find(|member| member.node == node)?;
        member.orders.take()?;
        let ended = member.process.ended();
        Some(match (problem, ended) {
            (Some(problem), _) => problem,
            (None, Some(status)) => status.to_string(),
            (None, None) => "its control connection is closed".into(),
        })
    }
}

impl Member {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

fn spawn(
    plan: &MeshPlan,
    node: u16,
    own: &Path,
    config: &Path,
    logs: &Path,
) -> anyhow::Result<Process> {
    let (program, first): (&Path, &[&str]) = match &plan.program {
        Some(program) => (program, &[]),
        None => (own, &["node"]),
    };
    let mut arguments: Vec<OsString> = first.iter().map(OsString::from).collect();
    arguments.extend(["--config".into(), config.into()]);
    let log = logs.join(format!("node-{node}.log"));
    fs::create_dir_all(logs).with_context(|| logs.display().to_string())?;
    Ok(Process::start(
        "the node",
        program,
        &arguments,
        log,
        Some(own),
    )?)
}

type Lines = tokio::io::Lines<BufReader<OwnedReadHalf>>;

async fn greet(
    stream: UnixStream,
    deadline: Instant,
) -> anyhow::Result<(u16, SocketAddr, Lines, OwnedWriteHalf)> {
    let (reading, writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    let line = timeout_at(deadline, lines.next_line()).await;
    let line = line.context("a node sent nothing")??;
    let line = line.ok_or_else(|| anyhow!("a node ended before its first message"))?;
    match serde_json::from_str(&line) {
        Ok(NodeMessage::Hello { node, listen }) => Ok((node, listen, lines, writing)),
        _ => bail!("a node's first message is not `hello`: {line}"),
    }
}

async fn read(node: u16, mut lines: Lines, sender: Sender<(u16, FromNode)>) {
    loop {
        let received = match lines.next_line().await {
            Ok(Some(line)) => match serde_json::from_str(&line) {
                Ok(message) => FromNode::Message(Box::new(message)),
                Err(error) => {
                    FromNode::Closed(Some(format!("it sent what is no message: {error}")))
                }
            },
            Ok(None) | Err(_) => FromNode::Closed(None),
        };
        let is_last = matches!(received, FromNode::Closed(_));
        if sender.send((node, received)).await.is_err() || is_last {
            return;
        }
    }
}

/// A row a second and node is far below it.
const MESSAGES_WAITING: usize = 1024;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// One second of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineSecond {
    pub(crate) second: u64,
    /// CPUs that were busy, with any program.
    pub(crate) busy: f64,
    /// CPUs that another guest of the host had (steal).
    pub(crate) stolen: f64,
    /// All CPUs.
    pub(crate) cpus: f64,
}

/// Reads what the machine did between two looks.
#[derive(Debug, Default)]
pub(crate) struct MachineMeter {
    last: Option<KernelStats>,
}

impl MachineMeter {
    /// The CPU time since the last call; `None` at the first one, and where the system has no `/proc/stat`.
    pub(crate) fn look(&mut self, second: u64) -> Option<MachineSecond> {
        let now = KernelStats::current().ok()?;
        let last = self.last.replace(now.clone())?;
        since(&last, &now, second)
    }
}

fn since(last: &KernelStats, now: &KernelStats, second: u64) -> Option<MachineSecond> {
    let ticks = |of: fn(&CpuTime) -> u64| of(&now.total).saturating_sub(of(&last.total)) as f64;
    let all = ticks(|cpu| busy(cpu) + cpu.idle + cpu.iowait.unwrap_or(0) + stolen(cpu));
    let cpus = now.cpu_time.len().max(1) as f64;
    (all > 0.0).then(|| MachineSecond {
        second,
        busy: ticks(busy) / all * cpus,
        stolen: ticks(stolen) / all * cpus,
        cpus,
    })
}

/// The guests' times are in the user's already (proc(5)).
fn busy(cpu: &CpuTime) -> u64 {
    let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
    cpu.user + cpu.nice + cpu.system + interrupts
}

fn stolen(cpu: &CpuTime) -> u64 {
    cpu.steal.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use procfs::FromReadSI as _;

    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy_time() {
        let stat = |user: u64, idle: u64, steal: u64| {
            let cpu = "1 0 0 1 0 0 0 0 0 0";
            let text = format!(
                "cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 {cpu}\ncpu1 {cpu}\nctxt 1\nbtime 1\nprocesses 1\n"
            );
            KernelStats::from_read(text.as_bytes(), procfs::current_system_info()).unwrap()
        };
        let before = stat(100, 1000, 7);
        let second = since(&before, &stat(200, 1050, 57), 3).unwrap();
        assert_eq!((second.busy, second.stolen, second.cpus), (1.0, 0.5, 2.0));
        assert!(since(&before, &before, 3).is_none(), "no time has passed");
    }
}
