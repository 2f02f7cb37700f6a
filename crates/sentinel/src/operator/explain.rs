//! What happens to one client, and why.

use std::fmt;
use std::net::IpAddr;

use control::{Bound, BreakState};
use fairq::ClientKey;
use pacing::Nanos;
use serde::{Serialize, Serializer};

use super::{Inspect as _, Operator};
use crate::lane::{Explained, Status};
use crate::refusal::Reason;

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
    #[serde(serialize_with = "state")]
    pub controller: BreakState,
    /// What holds the writes of all clients back.
    pub bound: String,
    /// What shares are counted in, and why.
    pub counted_in: String,
    /// Accepted transactions of all clients that were forgotten, as too many were in no block.
    pub forgotten: u64,
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

fn state<S: Serializer>(state: &BreakState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
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
        if self.controller != BreakState::Running {
            lines.push((
                "the node",
                format!("has a break ({})", self.controller.name()),
            ));
        }
        if self.forgotten > 0 {
            let text = "accepted transactions that no block has shown are forgotten";
            lines.push(("the node", format!("{} {text}", self.forgotten)));
        }
        if self.limits.is_empty() {
            lines.push(("limited by", "nothing".to_owned()));
        }
        for limit in &self.limits {
            lines.push((
                "limited by",
                format!("{}: {}", limit.reason.name(), limit.text),
            ));
        }
        lines
            .iter()
            .try_for_each(|(name, text)| writeln!(f, "{name:<12} {text}"))
    }
}

impl Operator {
    pub(super) fn explanation(&self, address: IpAddr) -> Explanation {
        let identity = self.identities.of_peer(address);
        let explained = self.lane.explain(identity.client);
        let snapshot = self.snapshot();
        let (bound, status) = (snapshot.bound(), snapshot.status);
        let client = self.view(identity.client, &explained);
        // How long a break lasts is known, and in the wait.
        let is_break = matches!(status.bound, Bound::Break { .. });
        let node = status.node.filter(|_| status.connected);
        let has_node = node.is_some_and(|node| self.nodes.takes_writes(node));
        let is_known = has_node && (is_break || !status.bound.is_closed());
        Explanation {
            ip: address,
            allowed: identity.allowed,
            rule: self.rule(address),
            queue_limit: self.config.fair.queue_per_client,
            pace_per_second: status.rate.as_f64(),
            sharing: status.backlogged_clients,
            estimated_wait_ms: is_known.then_some(explained.wait.as_millis() as u64),
            controller: status.state,
            limits: self.limits(identity.allowed, &explained, &client, &status),
            bound,
            counted_in: status.shortage.to_string(),
            forgotten: status.forgotten,
            client,
        }
    }

    pub(super) fn view(&self, client: ClientKey, explained: &Explained) -> ClientView {
        ClientView {
            client: client.to_string(),
            weight: explained.weight,
            connections: self.front.connections_of(client),
            queued: explained.backlog.entries,
            queued_bytes: explained.backlog.bytes as usize,
            share_per_second: explained.share,
            dispatched: explained.tally.dispatched,
            refused: explained.tally.refused,
            forwarded_per_second: None,
        }
    }

    /// The network of the lists that decides about an address.
    fn rule(&self, address: IpAddr) -> Option<String> {
        let trust = &self.config.trust;
        let networks = trust.allow.iter().chain(&trust.deny);
        networks
            .filter(|network| network.contains(address))
            .max_by_key(|network| network.prefix())
            .map(ToString::to_string)
    }

    /// What keeps this client's next write from going out at once.
    fn limits(
        &self,
        is_allowed: bool,
        explained: &Explained,
        view: &ClientView,
        status: &Status,
    ) -> Vec<Limit> {
        let (fair, most) = (&self.config.fair, self.config.limits.connections_per_client);
        let (used, capacity) = (self.ledger.used(), self.ledger.capacity());
        let (full, patience) = (fair.queue_per_client, fair.queue_timeout);
        let held = holds(explained, status, self.clock.now());
        let limits = [
            (!is_allowed).then(|| {
                let text = "its network may not use the proxy (trust.allow, trust.deny)";
                (Reason::Denied, text.to_owned())
            }),
            held,
            (used > capacity / 2).then(|| {
                let text = format!("{used} of {capacity} bytes are buffered (buffer.bytes)");
                (Reason::Bytes, text)
            }),
            (view.queued >= full).then(|| {
                let text = format!("its queue is full: {full} writes wait (fair.queue_per_client)");
                (Reason::QueueFull, text)
            }),
            (explained.wait > patience).then(|| {
                let patience = self.config.text("fair.queue_timeout");
                let text = format!(
                    "its backlog takes longer than {patience} at its share (fair.queue_timeout)"
                );
                (Reason::QueueTimeout, text)
            }),
            (view.connections >= most).then(|| {
                let text = format!(
                    "it has all of its {} connections (limits.connections_per_client)",
                    view.connections
                );
                (Reason::Connections, text)
            }),
        ];
        let limits = limits.into_iter().flatten();
        limits
            .map(|(reason, text)| Limit { reason, text })
            .collect()
    }
}

/// What holds back the writes of a client: what holds all back, or its share.
fn holds(explained: &Explained, status: &Status, now: Nanos) -> Option<(Reason, String)> {
    let of_all = status.bound.text(now);
    let reason = match status.bound {
        Bound::NodeDown { .. } | Bound::NodeSilent { .. } => Reason::Upstream,
        _ => Reason::Rate,
    };
    if status.bound.is_closed() {
        return Some((reason, of_all));
    }
    if explained.backlog.entries == 0 {
        return None;
    }
    if status.backlogged_clients <= 1 && status.bound != Bound::Nothing {
        return Some((reason, of_all));
    }
    let share = Bound::Share {
        per_second: explained.share,
        clients: status.backlogged_clients,
    };
    Some((
        reason,
        format!("{}; all wait for {of_all}", share.text(now)),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairq::Backlog;

    use super::*;

    #[test]
    fn explain_76_a_client_that_waits_is_told_what_for() {
        let told = |entries: usize, clients: usize, bound: Bound| {
            let explained = Explained {
                tally: crate::lane::Tally::default(),
                backlog: Backlog {
                    entries,
                    ..Backlog::default()
                },
                weight: 1,
                share: 500.0,
                wait: Duration::from_millis(80),
            };
            let status = Status {
                bound,
                backlogged_clients: clients,
                ..Status::default()
            };
            holds(&explained, &status, Nanos::from_secs(20))
        };
        let window = Bound::Window {
            own: 99,
            limit: 99,
            unit: control::Unit::Transactions,
        };
        let (reason, text) = told(5, 1, window).unwrap();
        assert_eq!(reason, Reason::Rate);
        assert!(text.contains("99 of 99"), "{text}");
        // Beside others it is the share first, whatever holds all back.
        for bound in [window, Bound::Nothing] {
            let (_, text) = told(5, 4, bound).unwrap();
            assert!(
                text.starts_with("its share: 500.0 writes/s while 4"),
                "{text}"
            );
        }
        // Who has nothing waiting is limited by what holds all back, and by nothing else.
        assert_eq!(told(0, 4, window), None);
        assert_eq!(told(0, 0, Bound::Nothing), None);
        let down = Bound::NodeDown {
            since: Nanos::from_secs(8),
        };
        for entries in [0, 5] {
            let (reason, text) = told(entries, 1, down).unwrap();
            assert_eq!(reason, Reason::Upstream);
            assert!(text.contains("no node takes writes for 12.0 s"), "{text}");
        }
        // At d835b97 a node that was stopped (SIGSTOP) for 12 s "takes 0.2 ms" for its answers.
        let silent = Bound::NodeSilent {
            since: Nanos::from_secs(8),
            under_way: 8,
        };
        let (reason, text) = told(5, 1, silent).unwrap();
        assert_eq!(reason, Reason::Upstream);
        assert!(text.contains("answered nothing for 12.0 s"), "{text}");
    }
}
