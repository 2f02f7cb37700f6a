//! The program at one moment.

use std::net::IpAddr;
use std::time::Duration;

use control::BreakState;
use fairq::Network;
use pacing::Nanos;
use serde::Serialize;

use super::explain::{ClientView, Explanation};
use crate::lane::Status;
use crate::metrics::{Counted, Gauges};
use crate::reload::{NotReloaded, Reloaded};

/// A ban, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BanView {
    /// Who may not use the proxy.
    pub who: String,
    /// Seconds until it ends by itself; none if it does not.
    pub ends_in_seconds: Option<u64>,
    /// Why, in the operator's words.
    pub why: String,
}

/// The program at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When: time since the start.
    pub at: Nanos,
    /// The program is going down: what is queued is still forwarded, nothing new is taken.
    pub draining: bool,
    /// Whether any node has answered within the last 10 s, or owes no answer.
    pub answering: bool,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<NodeView>,
    /// The write lane.
    pub status: Status,
    /// The state in numbers.
    pub gauges: Gauges,
    /// What was counted since the start.
    pub counted: Counted,
}

/// One node behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its address as configured.
    pub url: String,
    /// Whether it answers, as far as is known.
    pub up: bool,
    /// How long it has owed an answer, once that is longer than a block may take; in milliseconds.
    pub silent_ms: Option<u64>,
    /// Whether it is still catching up with its chain.
    pub catching_up: bool,
    /// The last height that was seen.
    pub height: Option<u64>,
    /// Reads that it was asked since the start.
    pub reads: u64,
    /// Seconds until the operator's drain ends, and its reason.
    pub drained: Option<(u64, String)>,
}

impl Snapshot {
    /// Whether any node was reached since the start.
    pub fn reached(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.up || node.height.is_some())
    }

    /// Whether clients should be sent here, and why, in a few words. A break is no reason not to: writes are held
    /// and go out after it. Neither is a node that restarts.
    pub fn readiness(&self) -> (bool, String) {
        if self.draining {
            return (false, "going down: nothing new is taken".to_owned());
        }
        if !self.reached() {
            return (false, "no node was reached since the start".to_owned());
        }
        if !self.answering {
            let why = "no node has answered for 10 s: reads are refused, and writes wait until their deadline";
            return (false, why.to_owned());
        }
        let is_silent = |node: &NodeView| node.silent_ms.is_some();
        let is_drained = |node: &NodeView| node.drained.is_some();
        let takes_writes =
            |node: &NodeView| node.up && !node.catching_up && !is_silent(node) && !is_drained(node);
        if !self.nodes.iter().any(takes_writes) {
            let silent = self.nodes.iter().any(is_silent);
            let what = if silent { "answers" } else { "takes writes" };
            let why = format!("no node {what} at the moment: writes are held until their deadline");
            return (true, why);
        }
        let why = match self.status.state {
            BreakState::Running => "running".to_owned(),
            state => format!(
                "{}: writes are held and go out after the break",
                state.name()
            ),
        };
        (true, why)
    }

    /// What holds the next write back, in a sentence.
    pub fn bound(&self) -> String {
        self.status.bound.text(self.at)
    }
}

/// What the listener shows. Called once per request, so a short lock is fine and a long walk is not.
pub trait Inspect: Send + Sync + 'static {
    /// The program at this moment.
    fn snapshot(&self) -> Snapshot;

    /// The `top` clients with the longest queues, longest first.
    fn clients(&self, top: usize) -> Vec<ClientView>;

    /// What is known about the client with this address.
    fn explain(&self, address: IpAddr) -> Explanation;

    /// Forbids a network, for so long or until it is taken back.
    fn ban(&self, who: Network, length: Option<Duration>, why: String) -> Result<BanView, String>;

    /// Takes a ban back: whether there was one.
    fn unban(&self, who: Network) -> bool;

    /// Who is banned; those that are over have ended.
    fn bans(&self) -> Vec<BanView>;

    /// Leaves a node, or all, alone for so long, or no longer: whether there is such a node.
    fn drain(&self, node: Option<&str>, length: Option<Duration>, why: String) -> bool;

    /// Reads the configuration anew.
    fn reload(&self) -> Result<Reloaded, NotReloaded>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Snapshot {
        Snapshot {
            answering: true,
            nodes: vec![NodeView {
                url: "http://127.0.0.1:26657".to_owned(),
                up: true,
                silent_ms: None,
                catching_up: false,
                height: Some(7),
                reads: 0,
                drained: None,
            }],
            ..Snapshot::default()
        }
    }

    fn why(snapshot: &Snapshot) -> String {
        snapshot.readiness().1
    }

    #[test]
    fn ready_unless_it_drains_or_has_never_reached_a_node() {
        assert_eq!(ready().readiness(), (true, "running".to_owned()));
        let draining = Snapshot {
            draining: true,
            ..ready()
        };
        assert!(!draining.readiness().0);
        assert!(why(&draining).contains("going down"));
        let alone = Snapshot {
            nodes: vec![NodeView::default()],
            ..ready()
        };
        assert!(!alone.readiness().0);
        assert!(why(&alone).contains("no node was reached"));
    }

    #[test]
    fn ready_while_paused_and_while_the_node_is_away() {
        let mut paused = ready();
        paused.status.state = BreakState::Paused;
        assert!(paused.readiness().0);
        assert!(why(&paused).starts_with("paused: writes are held"));
        let mut down = ready();
        down.nodes[0].up = false;
        assert!(down.readiness().0);
        assert!(why(&down).contains("no node takes writes"));
    }

    #[test]
    fn case_91_a_node_that_answers_nothing_is_not_shown_as_up() {
        let mut stopped = ready();
        stopped.nodes[0].silent_ms = Some(4_200);
        assert_eq!(
            why(&stopped),
            "no node answers at the moment: writes are held until their deadline"
        );
        // It may be executing a large block: clients are still sent here.
        assert!(stopped.readiness().0);
        // At 2b52556 they were for as long as the node was stopped.
        stopped.answering = false;
        assert!(!stopped.readiness().0);
        assert!(why(&stopped).starts_with("no node has answered for 10 s"));
        let mut beside = ready();
        beside.nodes.extend(stopped.nodes);
        assert_eq!(why(&beside), "running");
    }
}
