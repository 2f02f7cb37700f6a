//! What happens to one client, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use control::BreakState;
use serde::Serialize;

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
