//! The program at one moment, and what happens to one client of it, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use control::BreakState;
use fairq::Network;
use pacing::Nanos;
use serde::Serialize;

use crate::lane::Status;
use crate::metrics::{Counted, Gauges};
use crate::reload::{NotReloaded, Reloaded};

/// A ban, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BanView {
    /// The network that may not use the proxy.
    pub who: String,
    /// Seconds until it ends by itself; none if it does not.
    pub ends_in_seconds: Option<u64>,
    /// Why, in the operator's words.
    pub why: String,
}

/// A drain of a node by the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainView {
    /// Seconds until it ends.
    pub ends_in_seconds: u64,
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
    /// The operator's drain of it.
    pub drained: Option<DrainView>,
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

    /// The bans in force.
    fn bans(&self) -> Vec<BanView>;

    /// Leaves a node, or all, alone for so long, or no longer: whether there is such a node.
    fn drain(&self, node: Option<&str>, length: Option<Duration>, why: String) -> bool;

    /// Reads the configuration anew.
    fn reload(&self) -> Result<Reloaded, NotReloaded>;
}

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientView {
    /// Its key: an address, or a network such as `2001:db8:1:2::/64`.
    pub client: String,
    /// Its weight, 1 unless configured.
    pub weight: u32,
    /// Its connections.
    pub connections: usize,
    /// Writes that wait.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Writes a second it gets while its queue is not empty.
    pub share_per_second: f64,
    /// Writes forwarded since its state was made.
    pub dispatched: u64,
    /// Requests refused since its state was made.
    pub refused: u64,
    /// Its writes that left for the node in the last second, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded_per_second: Option<f64>,
}

/// What is known about one client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The address that was asked for.
    pub ip: IpAddr,
    /// Whether it may use the proxy.
    pub allowed: bool,
    /// The network that decided it, if one did.
    pub rule: Option<String>,
    /// The client it belongs to.
    #[serde(flatten)]
    pub client: ClientView,
    /// Most writes of a client that may wait.
    pub queue_limit: usize,
    /// Writes a second that go to all nodes now.
    pub pace_per_second: f64,
    /// Clients that share them now.
    pub sharing: usize,
    /// How long a write that came now would wait, in milliseconds; unknown while nothing is sent.
    pub estimated_wait_ms: Option<u64>,
    /// Where the break controller stands.
    pub controller: &'static str,
    /// What holds the writes of all clients back.
    pub bound: String,
    /// What shares are counted in, and why.
    pub counted_in: String,
    /// Accepted transactions of all clients that were forgotten, as too many were in no block.
    pub forgotten: u64,
    /// How often it would have been refused, by reason, but for `limits.shadow`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub would_refuse: BTreeMap<&'static str, u32>,
    /// What limits it now; empty when nothing does.
    pub limits: Vec<Limit>,
}

/// One thing that limits a client now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The reason its requests would be refused with, in the words of `rejected_total`.
    pub reason: &'static str,
    /// The limit, where it stands, and which setting it is.
    pub text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = &self.client;
        writeln!(
            f,
            "{} is client {}, weight {}",
            self.ip, client.client, client.weight
        )?;
        let access = if self.allowed { "allowed" } else { "denied" };
        let rule = self.rule.as_ref();
        let rule = rule.map_or_else(String::new, |rule| format!(" by {rule}"));
        let wait = match self.estimated_wait_ms {
            Some(wait @ 0..1_000) => format!("about {wait} ms"),
            Some(wait) => format!("about {:.1} s", wait as f64 / 1e3),
            None => "for as long as nothing is sent".to_owned(),
        };
        let waiting = format!(
            "{} of {} writes, {} bytes",
            client.queued, self.queue_limit, client.queued_bytes
        );
        let share = format!(
            "{:.1} writes a second of {:.1}, among {} clients",
            client.share_per_second, self.pace_per_second, self.sharing
        );
        let so_far = format!(
            "{} forwarded, {} refused",
            client.dispatched, client.refused
        );
        let mut lines = vec![
            ("access", format!("{access}{rule}")),
            ("connections", client.connections.to_string()),
            ("waiting", waiting),
            ("share", share),
            ("all wait for", self.bound.clone()),
            ("counted in", self.counted_in.clone()),
            ("a new write", format!("would wait {wait}")),
            ("so far", so_far),
        ];
        if self.controller != BreakState::Running.name() {
            lines.push(("the node", format!("has a break ({})", self.controller)));
        }
        if self.forgotten > 0 {
            let text = "accepted transactions that no block has shown are forgotten";
            lines.push(("the node", format!("{} {text}", self.forgotten)));
        }
        if !self.would_refuse.is_empty() {
            let counts = self.would_refuse.iter();
            let counts: Vec<String> = counts
                .map(|(why, count)| format!("{why} {count}"))
                .collect();
            lines.push(("in shadow", format!("would refuse: {}", counts.join(", "))));
        }
        if self.limits.is_empty() {
            lines.push(("limited by", "nothing".to_owned()));
        }
        for limit in &self.limits {
            lines.push(("limited by", format!("{}: {}", limit.reason, limit.text)));
        }
        lines
            .iter()
            .try_for_each(|(name, text)| writeln!(f, "{name:<12} {text}"))
    }
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
