//! What the operator is shown of nodes and clients, as it is written down in JSON.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use control::BreakState;
use serde::{Deserialize, Serialize, Serializer};

use crate::refusal::Reason;

/// Whether clients should be sent here, and the facts behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Readiness {
    /// The program is going down: what is queued is still forwarded, nothing new is taken.
    pub draining: bool,
    /// Whether any node was reached since the start.
    pub reached: bool,
    /// Whether any node has answered within the last 10 s, or owes no answer.
    pub answering: bool,
    /// Where the break controller stands.
    #[serde(serialize_with = "state")]
    pub controller: BreakState,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<NodeView>,
}

/// One node behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its address as configured.
    pub url: String,
    /// Whether it answers, as far as is known.
    pub up: bool,
    /// How long it has owed an answer, once that is longer than a block may take; in milliseconds.
    #[serde(default)]
    pub silent_ms: Option<u64>,
    /// Whether it is still catching up with its chain.
    pub catching_up: bool,
    /// The last height that was seen.
    pub height: Option<u64>,
}

impl NodeView {
    /// Whether writes are answered there.
    const fn takes_writes(&self) -> bool {
        self.up && !self.catching_up && self.silent_ms.is_none()
    }

    /// Where it stands, in a few words.
    pub fn state(&self) -> String {
        match (self.up, self.silent_ms, self.catching_up) {
            (false, ..) => "down".to_owned(),
            (true, Some(silent), _) => format!("answers nothing for {}", Seconds(silent)),
            (true, None, true) => "catching up".to_owned(),
            (true, None, false) => "up".to_owned(),
        }
    }
}

impl Readiness {
    /// Whether clients should be sent here. A break is no reason not to: writes are held and go out
    /// after it. Neither is a node that restarts.
    pub const fn is_ready(&self) -> bool {
        !self.draining && self.reached && self.answering
    }

    /// Why, in a few words.
    pub fn why(&self) -> String {
        if self.draining {
            return "going down: nothing new is taken".to_owned();
        }
        if !self.reached {
            return "no node was reached since the start".to_owned();
        }
        if !self.answering {
            return "no node has answered for 10 s: reads are refused, and writes wait until their deadline"
                .to_owned();
        }
        if !self.nodes.iter().any(NodeView::takes_writes) {
            let silent = self.nodes.iter().any(|node| node.silent_ms.is_some());
            let what = if silent { "answers" } else { "takes writes" };
            return format!("no node {what} at the moment: writes are held until their deadline");
        }
        match self.controller {
            BreakState::Running => "running".to_owned(),
            state => format!(
                "{}: writes are held and go out after the break",
                state.name()
            ),
        }
    }
}

fn state<S: Serializer>(state: &BreakState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

/// Who is waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientsView {
    /// Clients with a write that waits.
    pub active: usize,
    /// Clients with a state of their own.
    pub known: usize,
    /// Those with the longest queues, longest first.
    pub clients: Vec<ClientView>,
}

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    #[serde(serialize_with = "state")]
    pub controller: BreakState,
    /// What holds the writes of all clients back.
    pub bound: String,
    /// What shares are counted in, and why.
    pub counted_in: String,
    /// What limits it now; empty when nothing does.
    pub limits: Vec<Limit>,
}

/// One thing that limits a client now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The reason its requests would be refused with, in the words of `rejected_total`.
    #[serde(serialize_with = "reason")]
    pub reason: Reason,
    /// The limit, where it stands, and which setting it is.
    pub text: String,
}

fn reason<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.name())
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = &self.client;
        writeln!(
            f,
            "{} is client {}, weight {}",
            self.ip, client.client, client.weight
        )?;
        let rule = self
            .rule
            .as_deref()
            .map_or(String::new(), |rule| format!(" by {rule}"));
        let allowed = if self.allowed { "allowed" } else { "denied" };
        writeln!(f, "access       {allowed}{rule}")?;
        writeln!(f, "connections  {}", client.connections)?;
        writeln!(
            f,
            "waiting      {} of {} writes, {} bytes",
            client.queued, self.queue_limit, client.queued_bytes
        )?;
        writeln!(
            f,
            "share        {:.1} writes a second of {:.1}, among {} clients",
            client.share_per_second, self.pace_per_second, self.sharing
        )?;
        writeln!(f, "all wait for {}", self.bound)?;
        writeln!(f, "counted in   {}", self.counted_in)?;
        match self.estimated_wait_ms {
            Some(wait) => writeln!(f, "a new write  would wait about {}", Seconds(wait))?,
            None => writeln!(f, "a new write  would wait for as long as nothing is sent")?,
        }
        writeln!(
            f,
            "so far       {} forwarded, {} refused",
            client.dispatched, client.refused
        )?;
        if self.controller != BreakState::Running {
            writeln!(f, "the node     has a break ({})", self.controller.name())?;
        }
        if self.limits.is_empty() {
            return f.write_str("limited by   nothing\n");
        }
        for limit in &self.limits {
            writeln!(f, "limited by   {}: {}", limit.reason.name(), limit.text)?;
        }
        Ok(())
    }
}

/// Milliseconds for people.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            milliseconds @ 0..1_000 => write!(f, "{milliseconds} ms"),
            milliseconds => write!(f, "{:.1} s", milliseconds as f64 / 1e3),
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nodes = String::new();
        for node in &self.nodes {
            write!(nodes, "; {} {}", node.url, node.state())?;
        }
        write!(f, "{}{nodes}", self.why())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Readiness {
        Readiness {
            draining: false,
            reached: true,
            answering: true,
            controller: BreakState::Running,
            nodes: vec![NodeView {
                url: "http://127.0.0.1:26657".to_owned(),
                up: true,
                silent_ms: None,
                catching_up: false,
                height: Some(7),
            }],
        }
    }

    #[test]
    fn ready_unless_it_drains_or_has_never_reached_a_node() {
        let all = ready();
        assert!(all.is_ready());
        assert_eq!(all.why(), "running");
        assert_eq!(all.to_string(), "running; http://127.0.0.1:26657 up");
        let draining = Readiness {
            draining: true,
            ..ready()
        };
        assert!(!draining.is_ready());
        assert!(draining.why().contains("going down"));
        let alone = Readiness {
            reached: false,
            ..ready()
        };
        assert!(!alone.is_ready());
        assert!(alone.why().contains("no node was reached"));
    }

    #[test]
    fn ready_while_paused_and_while_the_node_is_away() {
        let paused = Readiness {
            controller: BreakState::Paused,
            ..ready()
        };
        assert!(paused.is_ready());
        assert!(paused.why().starts_with("paused: writes are held"));
        let mut down = ready();
        down.nodes[0].up = false;
        assert!(down.is_ready());
        assert!(down.why().contains("no node takes writes"));
        assert!(down.to_string().ends_with("26657 down"));
    }

    #[test]
    fn case_91_a_node_that_answers_nothing_is_not_shown_as_up() {
        let mut stopped = ready();
        stopped.nodes[0].silent_ms = Some(4_200);
        assert_eq!(
            stopped.to_string(),
            "no node answers at the moment: writes are held until their deadline; http://127.0.0.1:26657 answers \
             nothing for 4.2 s"
        );
        // It may be executing a large block: clients are still sent here.
        assert!(stopped.is_ready());
        // At 2b52556 they were for as long as the node was stopped.
        stopped.answering = false;
        assert!(!stopped.is_ready());
        assert!(stopped.why().starts_with("no node has answered for 10 s"));
        let mut beside = ready();
        beside.nodes.extend(stopped.nodes);
        assert_eq!(beside.why(), "running");
    }
}
