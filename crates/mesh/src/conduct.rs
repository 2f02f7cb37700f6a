//! A mesh run from start to end: nodes started, all connected, load offered, network drained, nodes ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use harness::{RunFolder, Shutdown};
use tokio::time::Instant;

use super::account::{Account, GENERATOR, PlayedMesh};
use super::control::{NodeMessage, Order, Status};
use super::crew::{Crew, CrewEvent, MachineMeter};
use super::part::PartFile;
use super::plan::MeshPlan;
use super::table::Progress;
use crate::settings::Topology;

/// Plays a plan.
///
/// # Errors
/// When nodes do not start or do not find each other, or the user stops it before the load has begun.
pub(crate) fn play(
    plan: &MeshPlan,
    program: &Path,
    folder: &RunFolder,
    progress: &mut Progress,
    shutdown: &Shutdown,
) -> anyhow::Result<(PlayedMesh, Option<PartFile>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the control of the nodes")?;
    let part = plan.part.map(|_| PartFile::create(folder)).transpose()?;
    runtime.block_on(async {
        let crew = Crew::start(plan, program, folder.path(), shutdown).await?;
        let conductor = Conductor {
            crew,
            plan,
            progress,
            account: Account::new(plan.document.nodes, plan.schedule.clone()),
            links: BTreeMap::new(),
            statuses: BTreeMap::new(),
            offered: false,
            origin: None,
            meter: MachineMeter::default(),
            next_look: 0,
            part,
        };
        conductor.conduct().await
    })
}

struct Conductor<'a> {
    crew: Crew,
    plan: &'a MeshPlan,
    progress: &'a mut Progress,
    account: Account,
    links: BTreeMap<u16, Vec<u16>>,
    /// The last one of each node.
    statuses: BTreeMap<u16, Status>,
    /// The generator has offered all.
    offered: bool,
    /// When the load begins; `None` before that is known.
    origin: Option<Instant>,
    meter: MachineMeter,
    /// The next second at whose begin the machine is looked at.
    next_look: u64,
    part: Option<PartFile>,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WaitOutcome {
    /// The condition holds.
    Reached,
    /// The deadline has passed.
    TimedOut,
    /// The user asked to stop.
    Interrupted,
    /// A node ended before the load began: which, and why.
    Ended(u16, String),
}

impl Conductor<'_> {
    async fn conduct(mut self) -> anyhow::Result<(PlayedMesh, Option<PartFile>)> {
        self.progress.nodes(self.crew.members());
        self.join().await?;
        let origin_unix_ns = self.start().await?;
        let interrupted = self.offer().await;
        // What comes after the offering is not interrupted again.
        self.crew.ignore_interrupts();
        let undrained = self.drain().await;
        self.finish().await;
        let played = PlayedMesh {
            account: self.account,
            origin_unix_ns,
            interrupted,
            undrained,
        };
        Ok((played, self.part))
    }

    /// Sends all addresses to the nodes and waits until they are connected.
    async fn join(&mut self) -> anyhow::Result<()> {
        let peers = match self.plan.part {
            None => self.crew.members().iter().map(|it| it.listen).collect(),
            Some(_) => (0..self.plan.document.nodes)
                .map(|node| self.plan.listens(node).into())
                .collect(),
        };
        self.crew.send(&Order::Join { peers }).await;
        let timeout = self.plan.connect_timeout.as_duration();
        let outcome = self
            .until(Instant::now() + timeout, |it| it.is_whole())
            .await;
        match outcome {
            WaitOutcome::Reached => Ok(()),
            WaitOutcome::Ended(node, reason) => {
                bail!("node {node} ended before the load began: {reason}; see its log")
            }
            WaitOutcome::Interrupted => bail!("interrupted before the mesh was whole"),
            WaitOutcome::TimedOut => bail!(
                "the mesh is not whole after {}: {}; give a longer --connect-timeout, or look into the \
                 nodes' logs",
                self.plan.connect_timeout,
                self.missing()
            ),
        }
    }

    /// Sets the origin; gives it on the wall clock.
    async fn start(&mut self) -> anyhow::Result<u64> {
        let now_ns = harness::part::unix_now_ns();
        let origin_unix_ns = match self.plan.start_at {
            None => now_ns + NOTICE.as_nanos() as u64,
            Some(start_at) => {
                start_at.check(now_ns)?;
                start_at.unix_ns()
            }
        };
        self.origin = Some(Instant::now() + Duration::from_nanos(origin_unix_ns - now_ns));
        self.crew.send(&Order::Start { origin_unix_ns }).await;
        Ok(origin_unix_ns)
    }

    /// Waits until the generator has offered all; gives whether the user stopped it.
    async fn offer(&mut self) -> bool {
        let origin = self.origin.unwrap_or_else(Instant::now);
        let end = origin + self.account.duration.as_duration();
        let is_over = |it: &Self| {
            Instant::now() >= end && (it.offered || !it.crew.alive().any(|node| node == GENERATOR))
        };
        let outcome = self.until(end + GRACE, is_over).await;
        if outcome == WaitOutcome::Interrupted {
            self.crew.send(&Order::Stop {}).await;
        }
        outcome == WaitOutcome::Interrupted
    }

    /// Waits until nothing is under way: two rounds of counts that are equal, and in which all that was
    /// written between living nodes was read (Mattern, "Algorithms for distributed termination
    /// detection", 1987: the four-counter method). Gives what was still under way at the deadline.
    async fn drain(&mut self) -> Option<String> {
        let deadline = Instant::now() + self.plan.drain_timeout.as_duration();
        let mut last: Option<Vec<(u16, Status)>> = None;
        let elsewhere = self.plan.part.is_some();
        // What is on the way between machines is not counted here: then counts have to stay equal for a second.
        let enough = if elsewhere { ROUNDS_OF_A_SECOND } else { 1 };
        let (mut round, mut same) = (0, 0);
        loop {
            round += 1;
            self.crew.send(&Order::Status { round }).await;
            let all_told = |it: &Self| {
                let mut alive = it.crew.alive();
                alive.all(|node| it.statuses.get(&node).is_some_and(|it| it.round == round))
            };
            let outcome = self.until(deadline, all_told).await;
            let alive: Vec<u16> = self.crew.alive().collect();
            let now: Vec<(u16, Status)> = alive
                .iter()
                .filter_map(|node| Some((*node, self.statuses.get(node)?.clone())))
                .map(|(node, status)| (node, Status { round: 0, ..status }))
                .collect();
            let obstacle = under_way(&now, elsewhere);
            let is_still = outcome == WaitOutcome::Reached
                && obstacle.is_none()
                && last.as_ref() == Some(&now);
            same = if is_still { same + 1 } else { 0 };
            if same == enough {
                return None;
            }
            if outcome == WaitOutcome::TimedOut || self.crew.is_urgent() {
                return Some(obstacle.unwrap_or_else(|| "counts still change".into()));
            }
            if round == ROUNDS_BEFORE_A_MESSAGE {
                let what = obstacle.as_deref().unwrap_or("counts still change");
                let left = deadline.saturating_duration_since(Instant::now());
                let message = format!("draining: {what}; up to {} s more", left.as_secs());
                self.progress.message(&message);
            }
            last = Some(now);
            let pause = Instant::now() + STATUS_INTERVAL;
            self.until(pause.min(deadline), |_| false).await;
        }
    }

    /// Ends the nodes and waits for their last messages.
    async fn finish(&mut self) {
        self.crew.send(&Order::Finish {}).await;
        let deadline = Instant::now() + GRACE;
        let all = |it: &Self| {
            let mut alive = it.crew.alive();
            alive.all(|node| it.account.nodes[usize::from(node)].status.is_some())
        };
        self.until(deadline, all).await;
    }

    /// Handles messages until `is_reached`. A node that ends is part of the account once the load has begun.
    async fn until(
        &mut self,
        deadline: Instant,
        is_reached: impl Fn(&Self) -> bool,
    ) -> WaitOutcome {
        loop {
            if is_reached(self) {
                return WaitOutcome::Reached;
            }
            let next_look = self.look_at_machine().unwrap_or(deadline);
            match self.crew.next(next_look.min(deadline)).await {
                CrewEvent::Message(node, message) => self.on_message(node, *message),
                CrewEvent::Ended(node, reason) => match self.origin {
                    Some(origin) => self.mark_node_ended(node, origin, &reason),
                    None => return WaitOutcome::Ended(node, reason),
                },
                CrewEvent::Timeout if Instant::now() >= deadline => return WaitOutcome::TimedOut,
                CrewEvent::Timeout => {}
                CrewEvent::Interrupted => return WaitOutcome::Interrupted,
            }
        }
    }

    fn mark_node_ended(&mut self, node: u16, origin: Instant, reason: &str) {
        let at_s = origin.elapsed().as_secs_f64();
        let account = &mut self.account.nodes[usize::from(node)];
        if account.status.is_none() {
            account.ended_s = Some(at_s);
            self.progress.ended();
            self.progress
                .message(&format!("node {node} ended at {at_s:.1} s: {reason}"));
        }
    }

    fn on_message(&mut self, node: u16, message: NodeMessage) {
        if let Some(part) = &mut self.part {
            part.message(node, &message);
        }
        match message {
            NodeMessage::Hello { .. } => {}
            NodeMessage::Links { peers } => drop(self.links.insert(node, peers)),
            NodeMessage::Row(row) => {
                let machine = self.account.machine.last().copied();
                self.progress.row(self.account.row(node, row), machine);
            }
            NodeMessage::Status(status) => drop(self.statuses.insert(node, status)),
            NodeMessage::Offered {} => self.offered = true,
            done @ NodeMessage::Done { .. } => self.account.message(node, done),
        }
    }

    /// Looks at the machine as a second of the load begins; gives when the next one does.
    fn look_at_machine(&mut self) -> Option<Instant> {
        let origin = self.origin?;
        if let Some(since) = Instant::now().checked_duration_since(origin)
            && since.as_secs() >= self.next_look
        {
            // The first look begins a second; each further one ends the last.
            let look = self.meter.look(since.as_secs().saturating_sub(1));
            self.account.machine.extend(look);
            self.next_look = since.as_secs() + 1;
        }
        Some(origin + Duration::from_secs(self.next_look))
    }

    /// Whether every node can be reached from every other, in a full mesh over one link.
    fn is_whole(&self) -> bool {
        let own: Vec<u16> = self.crew.alive().collect();
        let of = |node: u16| self.links.get(&node).map_or(&[][..], Vec::as_slice);
        match self.plan.document.topology {
            Topology::Full => {
                let others = usize::from(self.plan.document.nodes) - 1;
                own.iter().all(|node| of(*node).len() >= others)
            }
            Topology::Random(_) => {
                let Some(first) = own.first() else {
                    return false;
                };
                let mut reached = vec![*first];
                let mut place = 0;
                while let Some(node) = reached.get(place) {
                    for peer in of(*node) {
                        if !reached.contains(peer) {
                            reached.push(*peer);
                        }
                    }
                    place += 1;
                }
                own.iter().all(|node| reached.contains(node))
            }
        }
    }

    fn missing(&self) -> String {
        let own = self.crew.alive();
        let counts = own.map(|node| {
            let links = self.links.get(&node).map_or(0, Vec::len);
            format!("node {node} has {links}")
        });
        let counts: Vec<String> = counts.collect();
        format!(
            "of {} other nodes, {}",
            self.plan.document.nodes - 1,
            counts.join(", ")
        )
    }
}

/// What is not at its end between these nodes; with nodes elsewhere only queues can be judged.
fn under_way(statuses: &[(u16, Status)], elsewhere: bool) -> Option<String> {
    let queued: u64 = statuses.iter().map(|(_, status)| status.queued).sum();
    if queued > 0 {
        return Some(format!("{queued} parcels wait in queues"));
    }
    if elsewhere {
        return None;
    }
    for (node, status) in statuses {
        for link in &status.links {
            let Some((_, other)) = statuses.iter().find(|(number, _)| *number == link.peer) else {
                continue;
            };
            let back = other.links.iter().find(|back| back.peer == *node);
            let read = back.map_or(0, |back| back.read);
            let is_whole = link.broken == 0 && back.is_none_or(|back| back.broken == 0);
            if is_whole && link.written != read {
                let on_the_way = link.written.abs_diff(read);
                return Some(format!(
                    "{on_the_way} parcels are on the way from node {node} to node {}",
                    link.peer
                ));
            }
        }
    }
    None
}

/// Between setting the origin and the origin.
const NOTICE: Duration = Duration::from_millis(500);
/// For the last messages of nodes that have no CPU.
const GRACE: Duration = Duration::from_secs(10);
/// A drain that takes more rounds is reported.
const ROUNDS_BEFORE_A_MESSAGE: u64 = 5;
const STATUS_INTERVAL: Duration = Duration::from_millis(50);
const ROUNDS_OF_A_SECOND: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::LinkCount;

    fn status(links: &[(u16, u64, u64, u64)]) -> Status {
        let link = |&(peer, written, read, broken): &(u16, u64, u64, u64)| LinkCount {
            peer,
            written,
            read,
            broken,
        };
        Status {
            links: links.iter().map(link).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_mesh_is_quiet_when_all_that_was_written_was_read() {
        let quiet = [(0, status(&[(1, 7, 5, 0)])), (1, status(&[(0, 5, 7, 0)]))];
        assert_eq!(under_way(&quiet, false), None);
        let busy = [(0, status(&[(1, 9, 5, 0)])), (1, status(&[(0, 5, 7, 0)]))];
        let words = under_way(&busy, false).unwrap();
        assert!(
            words.contains("2 parcels are on the way from node 0 to node 1"),
            "{words}"
        );
    }

    #[test]
    fn a_broken_link_or_an_ended_node_keeps_no_mesh_busy_but_a_queue_does() {
        let broken = [(0, status(&[(1, 9, 5, 1)])), (1, status(&[(0, 5, 7, 0)]))];
        assert_eq!(under_way(&broken, false), None);
        let alone = [(0, status(&[(1, 9, 5, 0)]))];
        assert_eq!(under_way(&alone, false), None);
        let mut waiting = alone;
        waiting[0].1.queued = 3;
        assert!(
            under_way(&waiting, false)
                .unwrap()
                .contains("3 parcels wait")
        );
    }
}
